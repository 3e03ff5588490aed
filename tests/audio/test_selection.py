"""The better of two transcripts is the one that NeMo Curator takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError
from dcurate.audio import SelectTranscript
from dcurate.testing import check_stage

_FILE = Path(__file__).parent / "nemo" / "selection.jsonl"
#: Rows, drawn at random, and what `SelectBestPredictionStage` of NeMo Curator 1.4.0 makes of them.
CASES = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]
TEXTS = ("pred_text", "fallback_text", "hallucination", "fallback_hallucination", "reference")


def batch(rows: list[dict[str, Any]]) -> DocumentBatch:
    columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in TEXTS}
    seconds = pa.array([row.get("duration") for row in rows], pa.float64())
    return DocumentBatch(data=pa.table({**columns, "duration": seconds}))


def test_the_choice_is_that_of_nemo() -> None:
    reasons = set()
    for case in CASES:
        stage = SelectTranscript(
            reference_field="reference",
            min_duration_s=1.0,
            use_reference=case["use_reference"],
            min_agreement_ratio=case["min_agreement_pct"] / 100,
        )
        (row,) = stage.process(batch([case])).to_arrow().to_pylist()
        sources = {"ground_truth": "reference", "none": None}
        reasons.add(row["transcript_reason"])
        if row["transcript_reason"] == "none":  # NeMo's text is then empty
            assert (row["transcript"], row["transcript_source"], case["best"]) == (None, None, "")
            continue
        assert row["transcript"] == case["best"], case
        assert row["transcript_source"] == sources.get(case["source"], case["source"]), case
        assert (None if row["transcript_wer"] is None else round(row["transcript_wer"] * 100, 2)) == case["wer"], case
        if case["skip"]:
            assert row["transcript_reason"] == "hallucination", case
    known = {"short", "no primary", "none", "recovered", "reference", "agreement", "hallucination", "primary"}
    assert reasons == known


@given(st.lists(st.sampled_from(CASES), max_size=12))
def test_rows_do_not_depend_on_each_other(cases: list[dict[str, Any]]) -> None:
    stage = SelectTranscript()
    together = stage.process(batch(cases)).to_arrow().to_pylist()
    assert together == [row for case in cases for row in stage.process(batch([case])).to_arrow().to_pylist()]


def test_texts_that_take_too_long_do_not_agree() -> None:
    row = {"pred_text": "a " * 300, "fallback_text": "b " * 300, "hallucination": "x", "fallback_hallucination": "x"}
    (found,) = SelectTranscript(max_cells=100).process(batch([row])).to_arrow().to_pylist()
    assert (found["transcript_reason"], found["transcript_wer"]) == ("hallucination", None)


def test_a_recording_of_no_known_length_is_not_short() -> None:
    row = {"pred_text": "a", "reference": "b", "duration": float("nan")}
    stage = SelectTranscript(reference_field="reference", min_duration_s=1.0)
    assert stage.process(batch([row])).to_arrow()["transcript"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_agreement_ratio": 80}, "between 0 and 1"),
        ({"use_reference": True}, "name reference_field"),
        ({"min_duration_s": 1.0}, "name reference_field"),
        ({"max_cells": 0}, "at least 1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        SelectTranscript(**settings)


def test_the_stage_keeps_the_laws() -> None:
    check_stage(SelectTranscript(), batch(CASES[:20]))

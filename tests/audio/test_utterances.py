"""Utterances are those that NeMo Curator makes of the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError
from dcurate.audio import WordsToUtterances
from dcurate.testing import check_stage

_FILE = Path(__file__).parent / "nemo" / "utterances.jsonl"
#: Segments, drawn at random, and what `PrepareModuleSegmentsStage` of NeMo Curator 1.4.0 makes of them.
CASES = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]
METRICS = ("pesq_squim", "stoi_squim", "sisdr_squim", "bandwidth")

WORD = pa.struct([("word", pa.string()), ("start", pa.float64()), ("end", pa.float64())])
SEGMENT = pa.struct(
    [
        ("start", pa.float64()),
        ("end", pa.float64()),
        ("speaker", pa.string()),
        ("text", pa.string()),
        ("words", pa.list_(WORD)),
        ("metrics", pa.struct([("pesq_squim", pa.float64()), ("bandwidth", pa.int64())])),
    ]
)


def batch(rows: list[Any], **columns: Any) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"spoken_segments": pa.array(rows, pa.list_(SEGMENT)), **columns}))


def utterances(stage: WordsToUtterances, task: DocumentBatch) -> list[dict[str, Any]]:
    return list(stage.process(task).to_arrow()["utterances"][0].as_py())


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_utterances_are_those_of_nemo(case: dict[str, Any]) -> None:
    settings = case["settings"]
    stage = WordsToUtterances(
        by_speaker=settings["module"] == "tts",
        min_duration_s=settings["min_duration"],
        max_duration_s=settings["max_duration"],
        max_pause_s=settings["max_pause"],
        sentences_ratio=settings["full_utterance_ratio"],
        only_sentences=settings["punctuation_split_only"],
        id_field="audio_filepath",
        metrics=METRICS,
    )
    assert utterances(stage, batch([case["segments"]], audio_filepath=[case["id"]])) == case["utterances"]


def test_the_cases_have_both_kinds_and_long_and_short_ones() -> None:
    assert {case["settings"]["module"] for case in CASES} == {"tts", "asr"}
    assert any("," in (spoken["speaker"] or "") for case in CASES for spoken in case["utterances"])
    assert any(case["settings"]["full_utterance_ratio"] < 1 and case["utterances"] for case in CASES)
    assert any(case["segments"] and not case["utterances"] for case in CASES)


TIMES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from(["a", "b.", "c!", ""])), max_size=12)


@given(spans=TIMES, speakers=st.lists(st.sampled_from("xy"), min_size=12, max_size=12), by_speaker=st.booleans())
def test_words_stay_in_order_and_in_one_utterance_at_most(
    spans: list[tuple[int, int, str]], speakers: list[str], by_speaker: bool
) -> None:
    segments: list[dict[str, Any]] = []
    now = 0
    for (pause, length, word), speaker in zip(spans, speakers, strict=False):
        start, now = now + pause, now + pause + length
        words = [{"word": word, "start": float(start), "end": float(now)}]
        segments.append({"start": start, "end": now, "speaker": speaker, "text": "said", "words": words})
    spoken = utterances(WordsToUtterances(by_speaker=by_speaker), batch([segments]))
    given_words = [segment["words"][0] for segment in segments]
    left = iter(given_words)
    assert all(word in left for utterance in spoken for word in utterance["words"])  # each search goes on behind it
    for utterance in spoken:
        assert (utterance["start"], utterance["end"]) == (
            utterance["words"][0]["start"],
            utterance["words"][-1]["end"],
        )
        assert utterance["end"] > utterance["start"]
        assert not by_speaker or utterance["speaker"] in ("x", "y")


def test_lengths_without_speakers_are_those_of_the_recordings_name() -> None:
    words = [{"word": "a", "start": float(n), "end": n + 1.0} for n in range(200)]
    segments = [{"start": 0.0, "end": 200.0, "speaker": "x", "text": "a", "words": words}]
    names = [f"{number}.wav" for number in range(8)]
    stage = WordsToUtterances(by_speaker=False, id_field="name")
    made = stage.process(batch([segments] * 8, name=names)).to_arrow()["utterances"].to_pylist()
    one_by_one = [utterances(stage, batch([segments], name=[name])) for name in names]
    assert made == one_by_one
    assert len({len(spoken) for spoken in made}) > 1


def test_a_word_without_times_sends_its_row_to_quarantine_with_the_reason() -> None:
    good = [{"start": 0.0, "end": 9.0, "speaker": "x", "text": "a", "words": [{"word": "a", "start": 0.0, "end": 9.0}]}]
    bad = [
        [{**good[0], "words": [{"word": "a", "start": start, "end": end}]}]
        for start, end in [(None, 1.0), (2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)]
    ]
    done = WordsToUtterances().process(batch([good, *bad, None]))
    assert [len(row or ()) for row in done.to_arrow()["utterances"].to_pylist()] == [1, 0]
    assert {rejection.reason: rejection.rows for rejection in done.rejections} == {"bad segments": 4}


@pytest.mark.parametrize(
    "settings",
    [{"max_duration_s": 0.0}, {"min_duration_s": 30.0}, {"max_pause_s": -1.0}, {"sentences_ratio": 1.5}],
    ids=str,
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(PipelineError, match=next(iter(settings))):
        WordsToUtterances(**settings)  # type: ignore[arg-type]


def test_the_stage_keeps_the_contract_of_stages() -> None:
    check_stage(WordsToUtterances(), batch([CASES[1]["segments"], None, []]))

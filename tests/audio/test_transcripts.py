"""Error rates are those of jiwer and of NeMo Curator."""

from __future__ import annotations

import math
import random
import re
import resource
from typing import Any

import jiwer
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, PipelineError, ScoreFilter
from dcurate.audio import ErrorRates, SpeechRates
from dcurate.audio.transcripts import cleaned, signless, with_marks
from dcurate.kernels.edits import count_edits, encoded
from dcurate.testing import check_stage
from dcurate.text import NumberRangeFilter

#: Prompts of asterisk-core-sounds-en, and the same with errors as recognisers make them.
PROMPTS = """
After the tone say your busy message and then press the pound key. | after the tone say a busy message then press pound
Press 5 to repeat the current message. | press five to repeat the the current message
""".strip()
PAIRS = [tuple(part.strip() for part in line.split("|")) for line in PROMPTS.splitlines()]
#: Few letters, so that there are several shortest lists of edits; and what is replaced or removed.
TEXTS = st.text("aAb \u2019\u2018\"-.,!?<>|:'\u0964", max_size=40) | st.text("ab ", max_size=60)
SIDES = "abc "


def rates(stage: ErrorRates, pairs: list[tuple[Any, Any]], **columns: list[Any]) -> list[dict[str, Any]]:
    table = pa.table(
        {
            "text": pa.array([pair[0] for pair in pairs], pa.string()),
            "pred_text": pa.array([pair[1] for pair in pairs], pa.string()),
            **columns,
        }
    )
    return stage.process(DocumentBatch(data=table)).to_arrow().to_pylist()


def jiwer_counts(measures: jiwer.WordOutput | jiwer.CharacterOutput) -> list[int]:
    return [measures.substitutions, measures.deletions, measures.insertions]


def in_detail(hypothesis: str, reference: str, use_cer: bool) -> dict[str, float]:
    """`word_error_rate_detail` of the NeMo toolkit for one pair, rounded as NeMo Curator does."""
    tokens = len(list(reference) if use_cer else reference.split())
    found = (jiwer.process_characters if use_cer else jiwer.process_words)(reference, hypothesis)
    subs, dels, ins = jiwer_counts(found)
    parts = {"": subs + dels + ins, "_ins_rate": ins, "_del_rate": dels, "_sub_rate": subs}
    return {part: round(count / tokens, 4) for part, count in parts.items()} | {"_tokens": tokens}


def nemo_clean(text: str, retain_pncs: bool) -> str:
    """`clean_text` of NeMo Curator 26.09."""
    pnc_chars = "\u060c\u061f.\u3001\uff1f\xbf!,?\u0964"
    invalid = '/*":=_-{|}~\xa8\xab\xb7\xbb\xa1\xbf\u2026\u2027\u2039\u203a\u226a\u226b!:;\u02d0\u2192'
    if retain_pncs:
        spaces, blanks = list(invalid), list('`\xa8\xb4\u2018\u201c\u201d`\u02bb\u2018\u201c"\u2018\u201d')
    else:
        spaces = list(invalid + pnc_chars)
        blanks = list('`\xa8\xb4\u2018\u2019\u201c\u201d`\u02bb\u2018\u2019\u201c-"\u2018\u201d')
        text = text.lower()
    text = text.strip()
    for signs, by in ((blanks, ""), (spaces, " "), (list("\u2018\u2019\u02bb\u2018\u2019\u2018\u2019\u2019"), "'")):
        for sign in signs:
            text = text.replace(sign, by)
    if retain_pncs:
        text = re.sub(f"(\\w)\\s+([{pnc_chars}])", r"\1\2", text)
    return " ".join(text.split())


def nemo_signless(text: str) -> str:
    text = text.replace("<unk>", "").replace("|", "").replace("\u2047", "").replace("<", "").replace(">", "")
    return re.sub(r"\s+", " ", text)


@given(st.text(SIDES, min_size=1, max_size=90), st.text(SIDES, max_size=90))
@example("ab", "bc")
@example("aba", "bab")
def test_counts_of_edits_are_those_of_jiwer(reference: str, hypothesis: str) -> None:
    reference, hypothesis = reference.strip() or "a", hypothesis.strip()
    expected = jiwer_counts(jiwer.process_characters(reference, hypothesis))
    assert count_edits(encoded([reference]), encoded([hypothesis]), 10**9).tolist() == [expected]


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5))
@example([("a.", ""), ("a", "a"), ("", "a")])
@example([("aaaaaaaaaaa a", "aaaaaaaaaaa b")])  # an edge that ends in a space
def test_rates_are_those_of_nemo(pairs: list[tuple[str, str]]) -> None:
    for row, (reference, hypothesis) in zip(rates(ErrorRates(pnc=True), pairs), pairs, strict=True):
        right, said = (nemo_clean(nemo_signless(text), False) for text in (reference, hypothesis))
        if not right:
            assert (row["wer"], row["cer"], row["error_reason"]) == (None, None, "empty reference")
            continue
        marked, said_marked = (nemo_clean(nemo_signless(text), True) for text in (reference, hypothesis))
        expected = {
            "wer": in_detail(said, right, False),
            "cer": in_detail(said, right, True),
            "start_cer": in_detail(said[:12], right[:12], True),
            "end_cer": in_detail(said[-12:], right[-12:], True),
            "pnc_wer": in_detail(said_marked, marked, False),
            "pnc_cer": in_detail(said_marked, marked, True),
        }
        for kind, parts in expected.items():
            assert {part: round(row[kind + part], 4) for part in parts} == parts
        assert row["error_reason"] is None


@given(st.text())
def test_texts_are_cleaned_as_nemo_does(text: str) -> None:
    assert signless(text) == nemo_signless(text)
    assert cleaned(text) == nemo_clean(text, False)
    assert with_marks(text) == nemo_clean(text, True)


@pytest.mark.parametrize(("reference", "hypothesis"), PAIRS)
def test_rates_of_texts_as_they_are_are_those_of_jiwer(reference: str, hypothesis: str) -> None:
    [row] = rates(ErrorRates(clean=False), [(reference, hypothesis)])
    assert row["wer"] == jiwer.wer(reference, hypothesis)
    assert row["cer"] == jiwer.cer(reference, hypothesis)


def test_speeds_are_of_the_transcript_as_it_is() -> None:
    stage = ErrorRates(duration_field="duration", prefix="x_")
    found = rates(stage, [("a b", "A, b cd")] * 3 + [("a", None), ("a", "")], duration=[2.0, 0.0, None, 1.0, 1.0])
    assert [row["x_char_rate"] for row in found] == [2.5, 0.0, None, None, 0.0]
    assert [row["x_word_rate"] for row in found] == [1.5, 0.0, None, None, 0.0]


def test_a_row_without_rates_has_a_reason() -> None:
    found = rates(ErrorRates(), [(None, "a"), ("a", None), ("...", "a"), ("a", "")])
    assert [row["error_reason"] for row in found] == ["no reference", "no hypothesis", "empty reference", None]
    assert [row["wer"] for row in found] == [None, None, None, 1.0]


def test_a_pair_that_takes_too_long_has_a_reason_and_equal_texts_never_do() -> None:
    draw = random.Random(1)
    long, other = ("".join(draw.choices("abcdefgh ", k=1_000_000)) for _ in range(2))
    found = rates(ErrorRates(), [(long, other), (long, long), (long, long[:500_000] + "xyz" + long[500_000:])])
    assert [row["error_reason"] for row in found] == ["too long", None, None]
    assert [row["cer"] for row in found[:2]] == [None, 0.0]


def test_memory_is_linear_in_length() -> None:
    draw = random.Random(2)
    texts = ["".join(draw.choices("abcdefgh", k=9_000)) for _ in range(2)]
    count_edits(encoded(["a"]), encoded(["b"]), 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [counts] = count_edits(encoded(texts[:1]), encoded(texts[1:]), 10**9).tolist()
    assert min(counts) > 0  # a matrix of the pair would take 81 MB and more
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_edits_fewer_than_the_first_band_do_not_change_with_the_cells_allowed() -> None:
    draw = np.random.default_rng(3)
    for _ in range(200):
        reference, hypothesis = ("".join(draw.choice(list("ab"), size)) for size in draw.integers(1, 200, 2))
        expected = jiwer_counts(jiwer.process_characters(reference, hypothesis))
        assert count_edits(encoded([reference]), encoded([hypothesis]), 10**9).tolist() == [expected]
        assert count_edits(encoded([reference]), encoded([hypothesis]), 100).tolist()[0] in (expected, [-1] * 3)


def test_it_is_a_stage() -> None:
    table = pa.table({"text": [pair[0] for pair in PAIRS], "pred_text": [pair[1] for pair in PAIRS]})
    check_stage(ErrorRates(), DocumentBatch(data=table))


def test_wrong_settings_and_columns_are_refused() -> None:
    for settings in ({"edge_chars": 0}, {"max_cells": 0}, {"pnc": True, "clean": False}):
        with pytest.raises(PipelineError):
            ErrorRates(**settings)
    with pytest.raises(DataError, match="not text"):
        ErrorRates().process(DocumentBatch(data=pa.table({"text": [1], "pred_text": ["a"]})))
    with pytest.raises(DataError, match="not numbers"):
        rates(ErrorRates(duration_field="duration"), [("a", "a")], duration=["1"])


@given(
    st.lists(
        st.tuples(st.none() | st.text(max_size=20), st.none() | st.sampled_from([-1.0, 0.0, 0.5, 7.25, math.nan])),
        max_size=5,
    )
)
def test_rates_of_speech_are_those_of_error_rates(rows: list[tuple[str | None, float | None]]) -> None:
    texts, durations = pa.array([text for text, _ in rows], pa.string()), [seconds for _, seconds in rows]
    columns = {"text": texts, "pred_text": texts, "duration": pa.array(durations, pa.float64())}
    batch = DocumentBatch(data=pa.table(columns))
    made = SpeechRates(prefix="a_").process(batch).to_arrow().select(["a_char_rate", "a_word_rate"])
    errors = ErrorRates(duration_field="duration", prefix="a_").process(batch).to_arrow()
    assert made.equals(errors.select(made.column_names))


def test_texts_of_other_recordings_are_dropped_by_a_rule_with_its_name() -> None:
    rows = {"text": ["good day to you", "a book " * 40, "a", None], "duration": [1.0] * 4}
    stage = SpeechRates()
    check_stage(stage, DocumentBatch(data=pa.table(rows)))
    rated = stage.process(DocumentBatch(data=pa.table(rows)))
    kept = ScoreFilter(NumberRangeFilter("char_rate", min_value=8, max_value=30), name="speech_rate").process(rated)
    assert kept.to_arrow()["text"].to_pylist() == ["good day to you", None]
    assert {(rejection.stage, rejection.rows) for rejection in kept.rejections} == {("speech_rate", 2)}
    with pytest.raises(DataError, match="not numbers; name the column of durations"):
        stage.process(DocumentBatch(data=pa.table({"text": ["a"], "duration": ["1"]})))

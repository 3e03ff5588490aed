"""Hallucinations are found by NeMo Curator's rules."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError
from dcurate.audio import Hallucinations
from dcurate.testing import check_stage

PHRASES = ["Thank you.", "you", "a-b a b a b", "b a b a"]
TEXTS = st.text("ab-. ", max_size=60) | st.sampled_from(["Thank you so", "you", "you too", "  ", "a" * 25, "a" * 40])


def nemo(text: str | None, duration: float | None, language: str | None) -> str | None:
    """The checks of `WhisperHallucinationStage` of NeMo Curator 26.09, one after the other."""

    def plain(text: str) -> str:
        return text.strip().replace(".", "").replace("?", "").replace("!", "").replace(",", "")

    if text is None or not text.strip():
        return None
    words, duration, phrases = text.split(), duration or 0.0, {plain(phrase) for phrase in PHRASES}
    lengths, long_words = sorted(len(word) for word in words), language in ("fi", "de")
    long = lengths[-1] >= (35 if long_words else 25)
    if not long and not long_words and len(lengths) > 1:
        long = (lengths[-1] - lengths[-2]) / lengths[-2] >= 3.0
    forms = {plain(text)} | ({plain(text).replace("-", " ")} if "-" in text else set())
    begins = any(len(phrase) >= 8 and form.startswith(phrase) for phrase in phrases for form in forms)
    checks: dict[str, Any] = {
        "repeated_ngrams": len(set(words)) / len(words) <= 0.4,
        "long_word": long,
        "phrase_match": forms & phrases or begins,
        "high_char_rate": duration > 0 and sum(len(word) for word in words) / duration > 40.0,
    }
    return ", ".join(name for name, hit in checks.items() if hit)


ROWS = st.tuples(
    st.none() | TEXTS, st.none() | st.sampled_from([-1.0, 0.0, 0.1, 0.5, 2.0]), st.sampled_from(["en", "fi", None])
)


def batch(rows: list[tuple[Any, ...]]) -> DocumentBatch:
    columns = {
        "pred_text": pa.array([row[0] for row in rows], pa.string()),
        "duration": pa.array([row[1] for row in rows], pa.float64()),
        "language": pa.array([row[2] for row in rows], pa.string()),
    }
    return DocumentBatch(data=pa.table(columns))


@given(st.lists(ROWS, max_size=8))
def test_reasons_are_those_of_nemo(rows: list[tuple[Any, ...]]) -> None:
    found = Hallucinations(PHRASES, language_field="language").process(batch(rows)).to_arrow()
    assert found["hallucination"].to_pylist() == [nemo(*row) for row in rows]


def test_each_limit_has_an_effect() -> None:
    rows = batch([("a b a b", 1.0, None), ("abcdefgh ab", 1.0, None)])
    settings = ({}, {"max_repeated_ratio": 0.5}, {"min_long_word_chars": 8}, {"max_char_rate": 3.0})
    found = [Hallucinations(min_longer_ratio=9.0, **one).process(rows).to_arrow() for one in settings]
    assert [any(table["hallucination"].to_pylist()) for table in found] == [False, True, True, True]
    long = batch([("abcdefgh", 1.0, "de")])
    stage = Hallucinations(language_field="language", min_long_compound_chars=8)
    assert stage.process(long).to_arrow()["hallucination"].to_pylist() == ["long_word"]


def test_it_is_a_stage_and_refuses_one_text() -> None:
    check_stage(Hallucinations(PHRASES), batch([("a", 1.0, "en"), ("you", 1.0, "en")]))
    with pytest.raises(PipelineError, match="list"):
        Hallucinations("Thank you")

"""Texts in another language than the one that was heard are rejected, and none that may be right."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

from dcurate import DocumentBatch, PipelineError
from dcurate.audio import FilterByHeardLanguage
from dcurate.audio.languages import is_one_language, language_code
from dcurate.testing import check_stage
from dcurate.text.identifier import Identifier

GERMAN, ENGLISH = "Das ist ein ganz gewöhnlicher deutscher Satz.", "This is quite an ordinary English sentence."
NORWEGIAN = "Dette er en helt vanlig setning på norsk, og den er ikke så lang."


def batch_of(texts: list[str | None], heard: list[str | None]) -> DocumentBatch:
    table = {"pred_text": pa.array(texts, pa.string()), "heard_language": pa.array(heard, pa.string())}
    return DocumentBatch(data=pa.table({"n": range(len(texts)), **table}))


def kept(texts: list[str | None], heard: list[str | None], **settings: Any) -> list[int]:
    made = FilterByHeardLanguage(**settings).process(batch_of(texts, heard))
    rows: list[int] = made.to_arrow()["n"].to_pylist()
    gone = [row for rejection in made.rejections for row in rejection.data["n"].to_pylist()]
    assert sorted(rows + gone) == list(range(len(texts)))
    assert {rejection.reason for rejection in made.rejections} <= {"other language"}
    return rows


def test_a_text_in_another_language_is_rejected_and_what_is_not_known_is_kept() -> None:
    texts = [GERMAN, GERMAN, ENGLISH, None, "", "1969", "ja", GERMAN, GERMAN]
    heard = ["de", "en", "german", "en", "en", "en", "en", None, "Klingonese"]
    assert kept(texts, heard) == [0, 3, 4, 5, 6, 7, 8]


def test_languages_that_only_spelling_tells_apart_are_one() -> None:
    assert kept([NORWEGIAN] * 4, ["no", "nynorsk", "nb", "sv"]) == [0, 1, 2]


def test_limits_say_from_when_a_language_is_believed() -> None:
    score = Identifier().identify(GERMAN).score
    assert kept([GERMAN], ["en"], min_score=score) == []
    assert kept([GERMAN], ["en"], min_score=min(1.0, score + 1e-9)) == ([0] if score < 1 else [])
    assert kept([GERMAN], ["en"], min_chars=len(GERMAN)) == []
    assert kept([GERMAN], ["en"], min_chars=len(GERMAN) + 1) == [0]


def test_the_language_of_the_text_may_be_a_column() -> None:
    made = FilterByHeardLanguage(text_language_field="written").process(batch_of([GERMAN, "1969"], [None, "de"]))
    assert made.to_arrow()["written"].to_pylist() == ["de", None]


@given(st.lists(st.sampled_from([GERMAN, ENGLISH, NORWEGIAN, "", None, "1969"]), max_size=6), st.data())
def test_rows_are_judged_one_by_one(texts: list[str | None], data: st.DataObject) -> None:
    heard = [data.draw(st.sampled_from(["de", "en", "no", "jw", None])) for _ in texts]
    alone = [row for row, (text, name) in enumerate(zip(texts, heard, strict=True)) if kept([text], [name])]
    assert kept(texts, heard) == alone


def test_every_language_of_whisper_has_a_code_that_texts_may_have() -> None:
    known = Identifier().languages
    for name, code in TO_LANGUAGE_CODE.items():
        found = language_code(name)
        assert found == language_code(code) == language_code(name.title()) == ("jv" if code == "jw" else code)
        assert found in known


@given(st.text(), st.text())
def test_any_name_is_read_and_one_language_goes_both_ways(first: str, second: str) -> None:
    code = language_code(first)
    assert code is None or language_code(code) == code
    assert is_one_language(first, second) == is_one_language(second, first)
    assert is_one_language(first, first)


@pytest.mark.parametrize("wrong", [{"min_score": 1.5}, {"min_score": True}, {"min_chars": -1}, {"min_chars": 2.5}])
def test_wrong_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match=next(iter(wrong))):
        FilterByHeardLanguage(**wrong)


def test_it_is_a_stage_as_the_engine_wants_it() -> None:
    check_stage(FilterByHeardLanguage(), batch_of([GERMAN, ENGLISH, None], ["de", "de", "en"]))

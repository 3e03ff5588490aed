"""Modifiers of transcripts give what NeMo Curator's stages give."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, Modify, PipelineError
from dcurate.audio import AbbreviationJoiner, RegexSubstituter

_FILE = Path(__file__).parent / "nemo" / "abbreviations.jsonl"
#: Language, text and what `AbbreviationConcatStage` of NeMo Curator 1.4.0 makes of it; texts are drawn at random.
CASES = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]
RULES: list[dict[str, Any]] = [
    {"pattern": r"[\[\(].*?[\]\)]", "repl": " "},
    {"pattern": " (um|uh) ", "repl": " "},
    {"pattern": "x", "repl": "y", "count": 1},
]


def test_letters_are_joined_as_nemo_joins_them() -> None:
    assert len(CASES) > 300
    for language, text, joined in CASES:
        assert AbbreviationJoiner().modify_document(text, language=language) == joined, (language, text)
        assert AbbreviationJoiner(language).modify_document(text) == joined, (language, text)


def test_each_row_may_have_its_language() -> None:
    columns = {"text": ["e S A", "e S A", None], "language": ["it", "en", "en"]}
    stage = Modify(AbbreviationJoiner(), input_fields=[["text", "language"]], output_fields="text")
    joined = stage.process(DocumentBatch(data=pa.table(columns))).to_arrow()
    assert joined["text"].to_pylist() == ["e SA", "eSA", None]


@given(st.text("aABIs '’é.", max_size=40))
def test_joining_only_takes_spaces_away(text: str) -> None:
    joined = AbbreviationJoiner().modify_document(text)
    assert joined is not None
    assert joined.replace(" ", "") == text.replace(" ", "")
    assert len(joined.split()) <= len(text.split())


@pytest.mark.parametrize("piece", ["A ", "A B ", "a ", "I'", "A Is "])
def test_long_texts_are_joined_in_one_pass(piece: str) -> None:
    """A quadratic pattern would take hours for this."""
    text = piece * (1_000_000 // len(piece))
    assert re.sub(" ", "", AbbreviationJoiner().modify_document(text) or "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "cleaned"), [("um [noise] so  it (laughs) is x x", "so it is y x"), ("um um", "um"), ("\t\u2003a\n", "a")]
)
def test_rules_are_applied_in_order_as_nemo_applies_them(text: str, cleaned: str) -> None:
    """What `RegexSubstitutionStage` of NeMo Curator 1.4.0 gives for these rules."""
    assert RegexSubstituter(RULES).modify_document(text) == cleaned


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("um", "must be a list of rules"),
        ({"pattern": "a", "repl": "b"}, "must be a list of rules"),
        ([{"pattern": "a"}], "must have texts 'pattern' and 'repl'"),
        ([{"pattern": "a", "repl": "b", "flags": 1}], "has 'flags'"),
        ([{"pattern": "a", "repl": "b", "count": -1}], "must be a number of times"),
        ([{"pattern": "(", "repl": "b"}], "does not work"),
        ([{"pattern": "a", "repl": r"\1"}], "does not work"),
    ],
)
def test_wrong_rules_are_refused(rules: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        RegexSubstituter(rules)

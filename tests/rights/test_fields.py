"""Structured fields and statements of use: the examples of RFC 9651 and of draft-ietf-aipref-vocab-06."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.rights.fields import Statement, content_signal, content_usage, dictionary


def said(value: str) -> dict[str, bool]:
    return {saying.use: saying.allowed for saying in content_usage(value) if saying.use and saying.allowed is not None}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("train-ai=y, search=n", {"train": True, "search": False}),
        ('train-ai=y, train-ai, search=n, search="n"', {}),
        ("train-ai;allow=n, train-ai=y", {"train": True}),
        ('train-ai;has;parameters="?";', {}),
        ("train-ai=n", {"train": False}),
        ("Train-AI=n", {}),
        ("train-ai=N, search=y", {"search": True}),
        ("train-ai=?0", {}),
        ("train-ai=n,", {}),
        ("", {}),
    ],
)
def test_statements_are_those_of_the_draft(value: str, expected: dict[str, bool]) -> None:
    assert said(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('en="Applepie", da=:w4ZibGV0w6ZydGU=:', {"en": '"Applepie"', "da": ":w4ZibGV0w6ZydGU=:"}),
        ("a=?0, b, c; foo=bar", {"a": "?0", "b": "?1", "c": "?1"}),
        ("rating=1.5, feelings=(joy sadness)", {"rating": "1.5", "feelings": None}),
        ("a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid", {"a": None, "b": "3", "c": "4", "d": None}),
        ('d=@1659578233, s=%"caf%c3%a9"', {"d": "@1659578233", "s": '%"caf%c3%a9"'}),
        ('list=("foo";a=1;b=2);lvl=5, e=()', {"list": None, "e": None}),
        ("a=1.", None),
        ("a=1234567890123456", None),
        ("a b", None),
        ("a=(1 2", None),
        ('a="b', None),
        ("a=", None),
        ("a,,b", None),
        ("é=1", None),
    ],
)
def test_dictionaries_are_those_of_the_standard(value: str, expected: dict[str, str | None] | None) -> None:
    assert dictionary(value) == expected


@given(st.dictionaries(st.text(string.ascii_lowercase, min_size=1), st.sampled_from(["y", "n", "1", "?0", '"a,b"'])))
def test_a_dictionary_is_read_as_it_was_written(members: dict[str, str]) -> None:
    assert dictionary(", ".join(f"{key}={value}" for key, value in members.items())) == members


@given(st.text(max_size=60))
def test_any_text_is_read_and_none_that_is_no_dictionary_says_anything(value: str) -> None:
    if dictionary(value) is None:
        assert content_usage(value) == [Statement(value)]


def test_content_signals_are_understood_and_others_are_kept() -> None:
    assert content_signal("search=yes, AI-Train=no, ai-input=no, search=maybe") == [
        Statement("search=yes", "search", True),
        Statement("AI-Train=no", "train", False),
        Statement("ai-input=no"),
        Statement("search=maybe"),
    ]

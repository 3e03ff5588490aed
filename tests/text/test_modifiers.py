"""Modifiers against their rules in plain Python, without a glance that spares them the work."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.text import (
    BoilerPlateStringModifier,
    MarkdownRemover,
    NewlineNormalizer,
    QuotationRemover,
    Slicer,
    UrlRemover,
)
from dcurate.text.boilerplate import POLICY

pieces = st.sampled_from(
    [
        *(
            "\n",
            "\n",
            "\r\n",
            "\r",
            "\x0b",
            "\x0c",
            "\x1c",
            "\x85",
            "\u2028",
            " ",
            "a",
            "b_c",
            "é",
            "*",
            "**",
            "_",
            "__",
            "[",
        ),
        *("]", "(", ")", '"', "http", "s", "ſ", "://", "HTTPS://", "www.", "WwW.", "x.y", "use cookies", "Lorem Ipsum"),
        *("\n\n", "Terms of Use", "use coo\u212aies", "\ud800"),
    ]
)
texts = st.one_of(st.lists(pieces, max_size=30).map("".join), st.text(max_size=30))


def without_marks(line: str) -> str:
    line = re.sub(r"\*(.*?)\*", r"\1", re.sub(r"\*\*(.*?)\*\*", r"\1", line))
    line = re.sub(r"(?<!\w)(__?)(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", line)
    return re.sub(r"\[.*?\]\((.*?)\)", r"\1", line)


def without_boilerplate(text: str) -> str:
    paragraphs = text.split("\n\n")
    if any("lorem ipsum" in paragraph.lower() for paragraph in paragraphs):
        return ""
    marks = [any(phrase in paragraph.lower() for phrase in POLICY) for paragraph in paragraphs]
    shape = "".join("x" if mark else "." for mark in marks)
    at_one_end = re.fullmatch(r"x+\.+|\.+x+", shape)
    return "\n\n".join(part for part, mark in zip(paragraphs, marks, strict=True) if not mark or not at_one_end)


@settings(max_examples=300, deadline=None)
@given(texts)
@example("httpſ://a")
@example("\r\n\n\n\n\r\n\r\n\r\n")
def test_a_modifier_gives_what_its_rule_says(text: str) -> None:
    newlines = re.sub(r"(\r\n){3,}", "\r\n\r\n", re.sub(r"\n{3,}", "\n\n", text))
    assert NewlineNormalizer().modify_document(text) == newlines
    assert UrlRemover().modify_document(text) == re.sub(r"https?://\S+|www\.\S+", "", text, flags=re.IGNORECASE)
    assert MarkdownRemover().modify_document(text) == "\n".join(map(without_marks, text.split("\n")))
    assert BoilerPlateStringModifier().modify_document(text) == without_boilerplate(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["*", "_", "__", "[", "](", "]", ")", "a", "é", " ", "\n", "\x85"])).map("".join))
@example("[a](b) [c](d [e]")
@example("__a_ _b__ ___c___")
def test_marks_that_overlap_go_as_the_rules_say(text: str) -> None:
    assert MarkdownRemover().modify_document(text) == "\n".join(map(without_marks, text.split("\n")))


@given(texts)
def test_quotation_marks_go_if_they_are_around_all(text: str) -> None:
    quoted = len(text.strip()) > 2 and text[0] == text[-1] == '"'
    first_line_is = "\n" in text and text.split("\n", maxsplit=1)[0].endswith('"')
    assert QuotationRemover().modify_document(text) == (text[1:-1] if quoted and not first_line_is else text)


@given(texts, st.sampled_from(["a", "", "\n"]), st.booleans())
def test_a_slice_goes_from_the_first_of_a_string_to_the_last(text: str, end: str, included: bool) -> None:
    sliced = Slicer(end, end, included, included, strip=False).modify_document(text)
    first, last = text.find(end), text.rfind(end)
    bounds = (first, last + len(end)) if included else (first + len(end), last)
    assert sliced == ("" if first < 0 else text[slice(*bounds)])

"""Footnotes of a page: what refers to them, their texts, and the links back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dcurate.text.extract.blocks import HtmlBlock, HtmlPage

_REFERENCE = re.compile(
    r"#(?:user-content-)?_?(?:fn|footnote(?:def)?|cite_note|note|endnote|ftn|sdfootnote|edn)[-_:.]?[\w.:-]{0,60}",
    re.IGNORECASE,
)
#: What such a link shows where nothing else says that it is one.
_SHOWN = re.compile(
    r"[\[(]?(?:(?:note|n|fn)[. ]{1,2})?(?:\d{1,4}|[a-z]|[*†‡§¶]{1,4}|[ivxlc]{1,6})[\])]?", re.IGNORECASE
)
_BACK = re.compile(r"back(?:ref|link)?\b|\bback", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2}")
#: Longest text of a link that refers to a note, such as ``[note 12]``, and longest address of one.
_LONGEST, _LONGEST_ADDRESS = 12, 100
#: A reference within a text while a page is read, with the brackets around it; what is left of a mark before a note; a
#: reference as it is written.
_MARK = re.compile("\\[\x01(\\d{1,9})\x01\\]|\x01(\\d{1,9})\x01")
_LEFT = re.compile(r"(?:\[\s*\]|[.^↑])\s*")
_WRITTEN = re.compile(r"\[\^(\d{1,9})\]")


class Footnotes:
    """The notes of a page, numbered in the order in which the text refers to them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._shown: list[str] = []
        self._defined: set[int] = set()

    def reference(self, attributes: Mapping[str, str], shown: str) -> str:
        """Return the mark of a reference; empty for a link that does not refer to a note.

        Args:
            attributes: those of a link within the page.
            shown: text of the link.
        """
        address = attributes["href"]
        named = (
            (_REFERENCE.fullmatch(address) and _SHOWN.fullmatch(shown))
            or "footnote" in attributes.get("class", "").lower()
            or attributes.get("role") == "doc-noteref"
            or "data-footnote-ref" in attributes
        )
        if not named or not 0 < len(shown) <= _LONGEST or not 1 < len(address) <= _LONGEST_ADDRESS:
            return ""
        if address[1:] not in self._numbers:
            self._shown.append(shown)
            self._numbers[address[1:]] = len(self._shown)
        return f"\x01{self._numbers[address[1:]]}\x01"

    def define(self, identifier: str) -> int:
        """Return the number of the note that begins with an element of this id; 0 if none does."""
        number = self._numbers.get(identifier, 0)
        if not number or number in self._defined:
            return 0
        self._defined.add(number)
        return number

    def finish(self, page: HtmlPage) -> None:
        """Write references as ``[^1]`` where the page has the note, else as they were, and number notes likewise."""
        if not self._numbers:
            return
        defined = sorted({block.note for block in page.blocks if block.note})
        labels = {number: label for label, number in enumerate(defined, 1)}

        def written(mark: re.Match[str]) -> str:
            number = int(mark[1] or mark[2])
            if number in labels:
                return f"[^{labels[number]}]"
            if not 0 < number <= len(self._shown):
                return mark[0]
            shown = self._shown[number - 1]
            return f"[{shown}]" if mark[1] else shown

        before = 0
        for block in page.blocks:
            if "\x01" in block.text:
                block.text = _MARK.sub(written, block.text)
            if block.note and block.note != before:
                block.text = block.text[left.end() :] if (left := _LEFT.match(block.text)) else block.text
            before, block.note = block.note, labels.get(block.note, 0)
        page.notes = len(labels)


def without_marks(text: str) -> tuple[str, str]:
    r"""Return a text without marks of references, and the marks: none can be within code.

    Examples:
        >>> without_marks("sort[\1" "1\1]")
        ('sort', '[\x011\x01]')
    """
    return _MARK.sub("", text), "".join(mark[0] for mark in _MARK.finditer(text))


def is_back_link(attributes: Mapping[str, str], shown: str) -> bool:
    """Return whether a link within a note leads back to its reference: it says so, or has no word.

    Examples:
        >>> is_back_link({"href": "#r1"}, "↩"), is_back_link({"href": "#s2"}, "the second section")
        (True, False)
    """
    names = (attributes.get("class", ""), attributes.get("role", ""), *attributes.keys())
    return not _WORD.search(shown[:_LONGEST_ADDRESS]) or any(_BACK.search(name[:_LONGEST_ADDRESS]) for name in names)


def with_notes(page: HtmlPage, main: Sequence[HtmlBlock]) -> list[HtmlBlock]:
    """Return the blocks of a text with the notes at its end that it refers to, where they were left out."""
    if not page.notes:
        return list(main)
    wanted = {int(number) for block in main for number in _WRITTEN.findall(block.text)}
    have = {block.note for block in main}
    return [*main, *(block for block in page.blocks if block.note in wanted and block.note not in have)]

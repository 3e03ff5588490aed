"""Modifiers of single documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dcurate.text.boilerplate import FILLER, POLICY
from dcurate.text.modifier import TextModifier

_NEWLINES = re.compile(r"\n{3,}")
_WINDOWS_NEWLINES = re.compile(r"(?:\r\n){3,}")
_URL = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
_BOLD = re.compile(r"\*\*(.*?)\*\*")
_ITALIC = re.compile(r"\*(.*?)\*")
#: An underscore inside a word neither opens nor closes emphasis, as in CommonMark: snake_case stays.
_UNDERLINE = re.compile(r"(?<!\w)_(?=\S)")
_UNDERLINE_ENDS = re.compile(r"(?<=\S)_(?!\w)"), re.compile(r"(?<=\S)__(?!\w)")
_MARKED_LINE = re.compile(r"^[^\n*_\[]*+[*_\[].*", re.MULTILINE)


@dataclass(frozen=True)
class NewlineNormalizer(TextModifier):
    r"""Replace three or more consecutive newlines, of either kind, with two.

    Examples:
        >>> NewlineNormalizer().modify_document("a\n\n\n\nb")
        'a\n\nb'
    """

    def modify_document(self, text: str) -> str:
        short = _NEWLINES.sub("\n\n", text) if "\n\n\n" in text else text
        return _WINDOWS_NEWLINES.sub("\r\n\r\n", short) if "\r\n\r\n\r\n" in short else short


@dataclass(frozen=True)
class UrlRemover(TextModifier):
    """Remove everything from ``http://``, ``https://`` or ``www.`` to the next whitespace.

    Examples:
        >>> UrlRemover().modify_document("see https://example.org/a now")
        'see  now'
    """

    def modify_document(self, text: str) -> str:
        return _URL.sub("", text) if "://" in text or "www." in text.lower() else text


@dataclass(frozen=True)
class MarkdownRemover(TextModifier):
    """Remove the markup of bold, italic and underlined text, and replace links with their URLs.

    Examples:
        >>> MarkdownRemover().modify_document("**a** *b* _c_ [d](https://e.org)")
        'a b c https://e.org'
    """

    def modify_document(self, text: str) -> str:
        return _MARKED_LINE.sub(_unmarked, text)


@dataclass(frozen=True)
class QuotationRemover(TextModifier):
    r"""Remove the quotation marks around a whole document.

    They stay if there are several lines and the first of them ends with a quotation mark: then it is the first line
    that is quoted.

    Examples:
        >>> QuotationRemover().modify_document('"quoted"')
        'quoted'
        >>> QuotationRemover().modify_document('"one"\n"two"')
        '"one"\n"two"'
    """

    def modify_document(self, text: str) -> str:
        if len(text.strip()) <= 2 or not (text.startswith('"') and text.endswith('"')):
            return text
        first, newline, _ = text.partition("\n")
        return text if newline and first.endswith('"') else text[1:-1]


@dataclass(frozen=True)
class Slicer(TextModifier):
    """Keep a slice of each document.

    Args:
        left: start: a number of characters, or a string, of which the first occurrence counts.
        right: end: a number of characters, a string, of which the last occurrence counts, or None for
            the end of the text.
        include_left: whether the string ``left`` belongs to it.
        include_right: whether the string ``right`` belongs to it.
        strip: whether to strip whitespace around it.

    A document without one of the strings becomes empty.

    Examples:
        >>> Slicer(left="<", right=">", include_left=False, include_right=False).modify_document("a < b > c")
        'b'
    """

    left: int | str | None = 0
    right: int | str | None = None
    include_left: bool = True
    include_right: bool = True
    strip: bool = True

    def modify_document(self, text: str) -> str:
        start, stop = self.left or 0, len(text) if self.right is None else self.right
        if isinstance(start, str):
            position = text.find(start)
            if position < 0:
                return ""
            start = position if self.include_left else position + len(start)
        if isinstance(stop, str):
            position = text.rfind(stop)
            if position < 0:
                return ""
            stop = position + len(stop) if self.include_right else position
        return text[start:stop].strip() if self.strip else text[start:stop]


@dataclass(frozen=True)
class LineRemover(TextModifier):
    r"""Remove the lines that equal one of the patterns.

    Examples:
        >>> LineRemover(["Advertisement"]).modify_document("a\nAdvertisement\nb")
        'a\nb'
    """

    patterns: list[str] = field(hash=False)

    def modify_document(self, text: str) -> str:
        unwanted = set(self.patterns)
        return "\n".join(line for line in text.split("\n") if line not in unwanted)


@dataclass(frozen=True)
class BoilerPlateStringModifier(TextModifier):
    r"""Remove paragraphs about cookies, privacy or terms of use from the top or the bottom of a document (C4).

    Consecutive paragraphs at the beginning or end are removed, unless they are the whole document, which then stays as
    it is. A document with "lorem ipsum" becomes empty. Paragraphs are separated by two consecutive newlines.

    Args:
        remove_if_at_top_or_bottom: False empties every document with such a paragraph, at any position.

    Examples:
        >>> BoilerPlateStringModifier().modify_document("A tale.\n\nWe use cookies.")
        'A tale.'
    """

    remove_if_at_top_or_bottom: bool = True

    def modify_document(self, text: str) -> str:
        lower_text = text.lower()
        if not any(phrase in lower_text for phrase in (*FILLER, *POLICY)):
            return text
        paragraphs = text.split("\n\n")
        lower = [paragraph.lower() for paragraph in paragraphs]
        if any(phrase in paragraph for paragraph in lower for phrase in FILLER):
            return ""
        matches = [place for place, paragraph in enumerate(lower) if any(phrase in paragraph for phrase in POLICY)]
        if matches and not self.remove_if_at_top_or_bottom:
            return ""
        together = bool(matches) and matches[-1] - matches[0] + 1 == len(matches) < len(paragraphs)
        if not together or (matches[0] and matches[-1] + 1 < len(paragraphs)):
            return text
        return "\n\n".join(paragraphs[: matches[0]] + paragraphs[matches[-1] + 1 :])


@dataclass(frozen=True)
class FastTextLabelModifier(TextModifier):
    r"""Make a line of fastText's training format from each document: a label, a space, the text on one line.

    Examples:
        >>> FastTextLabelModifier("__label__hq").modify_document("a\nb")
        '__label__hq a b'
    """

    label: str

    def modify_document(self, text: str) -> str:
        return f"{self.label} {text.replace(chr(10), ' ').replace('__label__', ' ')}"


def _unmarked(line: re.Match[str]) -> str:
    plain = _ITALIC.sub(r"\1", _BOLD.sub(r"\1", line.group()))
    return _without_links(_without_underlines(plain))


def _without_underlines(line: str) -> str:
    r"""The line without the underscores around underlined text, in linear time.

    Equivalent to replacing ``(?<!\w)(__?)(?=\S)(.+?)(?<=\S)\1(?!\w)`` by its second group, but searches for each end
    once, not from every beginning on.

    Examples:
        >>> _without_underlines("_a_ __b__ c_d_e _f")
        'a b c_d_e _f'
    """
    if "_" not in line:
        return line
    ends = [[match.start() for match in pattern.finditer(line)][::-1] for pattern in _UNDERLINE_ENDS]
    kept, done = [], 0
    begin = _UNDERLINE.search(line)
    while begin:
        place = begin.start()
        stop = place + 1
        for size in (2, 1) if line.startswith("__", place) and line[place + 2 : place + 3].strip() else (1,):
            closings = ends[size - 1]
            while closings and closings[-1] <= place + size:
                closings.pop()
            if closings:
                kept += [line[done:place], line[place + size : closings[-1]]]
                done = stop = closings[-1] + size
                break
        begin = _UNDERLINE.search(line, stop)
    return "".join([*kept, line[done:]])


def _without_links(line: str) -> str:
    """The line with the URL of each link in its place, in linear time.

    Examples:
        >>> _without_links("[a](b) [c](d [e]")
        'b [c](d [e]'
    """
    kept, done, last = [], 0, line.rfind(")")
    while (begin := line.find("[", done)) >= 0:
        middle = line.find("](", begin + 1)
        if middle < 0 or middle + 2 > last:
            break
        end = line.index(")", middle + 2)
        kept += [line[done:begin], line[middle + 2 : end]]
        done = end + 1
    return "".join([*kept, line[done:]])

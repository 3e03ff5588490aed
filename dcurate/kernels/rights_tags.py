"""Tags of web pages that may say something about rights, in one pass over the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dcurate.core.kernels import Kernels
from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.kept import Kept
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Scalar, frozen

#: Kinds of tags that may count.
BASE, META, LINK, ANCHOR, SCRIPT = range(1, 6)

_LESS, _GREATER, _SLASH, _BANG, _DASH = (np.uint8(byte) for byte in b"<>/!-")
_S, _T, _B, _M, _L = (np.uint8(byte) for byte in b"stbml")
_SINGLE, _DOUBLE, _SMALL = np.uint8(0x27), np.uint8(0x22), np.uint8(0x20)
_LESSES = np.uint64(0x3C3C3C3C3C3C3C3C)
#: Letters by which a word is looked up, and bits of the table of these.
_LETTERS, _BITS = 3, 12
_MIX, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - _BITS)
_EIGHT, _SIXTEEN = np.uint64(8), np.uint64(16)
#: What ends the name of a tag.
_AFTER_NAME = np.frombuffer(b"\t\n\f\r />", np.uint8)
_BASE, _META, _LINK, _ANCHOR = (np.frombuffer(name, np.uint8) for name in (b"base", b"meta", b"link", b"a"))
_SCRIPT, _STYLE, _TEXTAREA, _TITLE = (
    np.frombuffer(name, np.uint8) for name in (b"script", b"style", b"textarea", b"title")
)
_LICENSE, _ICENSE = np.frombuffer(b"license", np.uint8), np.frombuffer(b"icense", np.uint8)
_JSON_LD, _RSL_XML = np.frombuffer(b"ld+json", np.uint8), np.frombuffer(b"rsl+xml", np.uint8)


class TagWords(NamedTuple):
    """TagWords in small letters, as the kernel looks them up.

    Args:
        letters: the words, one after the other.
        offsets: where each begins, and where the last ends.
        beginnings: 1 at the places of their first letters.
    """

    letters: Bytes
    offsets: Offsets
    beginnings: Bytes


class RightsTag(NamedTuple):
    """A tag that may say something about rights.

    Args:
        kind: `BASE`, `META`, `LINK`, `ANCHOR` or `SCRIPT`.
        start: place after its name.
        end: place of its first ``>``, of a script that of its end tag; the size of the page if there is none.
    """

    kind: int
    start: int
    end: int


@njit(**INLINE)
def _less(data: Bytes, at: int) -> Scalar:
    """The place of the next ``<``, or the size of the data."""
    while at + 8 <= data.size and has_zero(load_eight(data, at) ^ _LESSES) == 0:
        at += 8
    while at < data.size and data[at] != _LESS:
        at += 1
    return at


@njit(**INLINE)
def _has(data: Bytes, at: int, word: Bytes) -> Scalar:
    """Whether a word of small letters is at a place, in any case."""
    if at + word.size > data.size:
        return False
    place = 0
    while place < word.size and data[at + place] | _SMALL == word[place] | _SMALL:
        place += 1
    return place == word.size


@njit(**INLINE)
def _is_named(data: Bytes, at: int, name: Bytes) -> Scalar:
    """Whether a name is at a place, and ends there."""
    end = at + name.size
    if end >= data.size or not _has(data, at, name):
        return False
    place = 0
    while place < _AFTER_NAME.size and data[end] != _AFTER_NAME[place]:
        place += 1
    return place < _AFTER_NAME.size


@njit(**INLINE)
def _end_tag(data: Bytes, at: int, name: Bytes) -> Scalar:
    """The place of the next end tag of an element, or the size of the data."""
    at = _less(data, at)
    while at < data.size:
        if at + 1 < data.size and data[at + 1] == _SLASH and _is_named(data, at + 2, name):
            return at
        at = _less(data, at + 1)
    return at


@njit(**INLINE)
def _comment_end(data: Bytes, at: int) -> Scalar:
    """The place after the next ``-->``, or the size of the data."""
    while at + 2 < data.size:
        if data[at] == _DASH and data[at + 1] == _DASH and data[at + 2] == _GREATER:
            return at + 3
        at += 1
    return np.int64(data.size)


@njit(**INLINE)
def _holds_data(data: Bytes, start: int, end: int) -> Scalar:
    """Whether a tag is that of a script, and names the media type of JSON-LD or RSL."""
    if not _is_named(data, start, _SCRIPT):
        return False
    for at in range(start, end):
        if data[at] == _GREATER:
            return False
        if _has(data, at, _JSON_LD) or _has(data, at, _RSL_XML):
            return True
    return False


@njit(**INLINE)
def _gram(first: Scalar, second: Scalar, third: Scalar) -> Scalar:
    """The place of three bytes, whose letters may be of any case, in a table of beginnings of words."""
    letters = np.uint64(first | _SMALL) | np.uint64(second | _SMALL) << _EIGHT | np.uint64(third | _SMALL) << _SIXTEEN
    return (letters * _MIX) >> _SHIFT


@njit(**INLINE)
def _has_one(data: Bytes, at: int, words: Bytes, offsets: Offsets) -> Scalar:
    """Whether one of some words is at a place, in any case."""
    for word in range(offsets.size - 1):
        first, size = offsets[word], offsets[word + 1] - offsets[word]
        place = 0
        while place < size and at + place < data.size and data[at + place] | _SMALL == words[first + place] | _SMALL:
            place += 1
        if place == size:
            return True
    return False


@njit(**INLINE)
def _meta_tag(data: Bytes, start: int, words: TagWords) -> tuple[Scalar, Scalar]:
    """Where a tag ends, and whether it holds one of some words, has an open quote, or does not end."""
    letters, offsets, beginnings = words
    single = double = holds = False
    at = start
    while at < data.size and data[at] != _GREATER:
        byte = data[at]
        single ^= byte == _SINGLE
        double ^= byte == _DOUBLE
        if not holds and at + 2 < data.size and beginnings[_gram(byte, data[at + 1], data[at + 2])]:
            holds = _has_one(data, at, letters, offsets)
        at += 1
    return at, holds or single or double or at == data.size


@njit(**INLINE)
def _licence_tag(data: Bytes, start: int, word: Bytes, stop: np.uint8) -> tuple[Scalar, Scalar]:
    """Where a tag ends, at ``>`` or another byte, and whether it holds a word, has an open quote, or does not end."""
    single = double = False
    holds = False
    at = start
    while at < data.size and data[at] != _GREATER and data[at] != stop:
        byte = data[at]
        single ^= byte == _SINGLE
        double ^= byte == _DOUBLE
        if byte | _SMALL == word[0]:
            holds |= _has(data, at, word)
        at += 1
    if stop == _LESS:
        return at, holds
    return at, holds or single or double or at == data.size


@njit(**INLINE)
def _past_contents(data: Bytes, start: int) -> Scalar:
    """The place after a comment, or of the end tag of an element whose contents are no markup; -1 for others."""
    letter = data[start] | _SMALL
    if data[start] == _BANG and start + 2 < data.size and data[start + 1] == _DASH and data[start + 2] == _DASH:
        return _comment_end(data, start + 1)
    if letter == _S and _is_named(data, start, _SCRIPT):
        return _end_tag(data, start, _SCRIPT)
    if letter == _S and _is_named(data, start, _STYLE):
        return _end_tag(data, start, _STYLE)
    if letter == _T and _is_named(data, start, _TITLE):
        return _end_tag(data, start, _TITLE)
    if letter == _T and _is_named(data, start, _TEXTAREA):
        return _end_tag(data, start, _TEXTAREA)
    return np.int64(-1)


@njit(**INLINE)
def _tag_at(data: Bytes, start: int, words: TagWords) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Kind of the tag whose name begins at a place, the place after the name, where the tag ends, and if it counts."""
    letter = data[start] | _SMALL
    kind: Scalar = np.int64(0)
    after, end, counts = start, start, False
    if letter == _B and _is_named(data, start, _BASE):
        kind, after, end, counts = BASE, start + _BASE.size, start + _BASE.size, True
    elif letter == _M and _is_named(data, start, _META):
        kind, after = META, start + _META.size
        end, counts = _meta_tag(data, after, words)
    elif letter == _L and _is_named(data, start, _LINK):
        kind, after = LINK, start + _LINK.size
        end, counts = _licence_tag(data, after, _LICENSE, _GREATER)
    elif letter == _ANCHOR[0] and _is_named(data, start, _ANCHOR):
        kind, after = ANCHOR, start + _ANCHOR.size
        end, counts = _licence_tag(data, after, _ICENSE, _LESS)
    return kind, after, end, counts


@njit(**OPTIONS)
def _next_tag(data: Bytes, at: int, words: TagWords) -> tuple[Scalar, Scalar, Scalar]:
    at = _less(data, at)
    while at + 1 < data.size:
        end = _past_contents(data, at + 1)
        if end < 0:
            kind, after, end, counts = _tag_at(data, at + 1, words)
            if counts:
                return kind, after, end
        elif end < data.size and _holds_data(data, at + 1, end):
            return SCRIPT, at + 1 + _SCRIPT.size, end
        at = _less(data, end)
    return 0, data.size, data.size


@njit(**OPTIONS)
def _mark_beginnings(words: Bytes, offsets: Offsets, beginnings: Bytes) -> None:
    for word in range(offsets.size - 1):
        at = offsets[word]
        if offsets[word + 1] - at < _LETTERS:
            beginnings[:] = 1
        else:
            beginnings[_gram(words[at], words[at + 1], words[at + 2])] = 1


def words_table(words: Sequence[bytes]) -> TagWords:
    """Return the table of some words that `next_rights_tag` takes: their letters, offsets, and how they begin."""
    letters, offsets = np.frombuffer(b"".join(words), np.uint8), frozen(np.cumsum([0, *map(len, words)]), np.int64)
    beginnings = np.zeros(1 << _BITS, np.uint8)
    _mark_beginnings(letters, offsets, beginnings)
    return TagWords(letters, offsets, frozen(beginnings, np.uint8))


def next_rights_tag(data: Bytes, at: int, words: TagWords) -> RightsTag | None:
    """Return the next tag from a place on that may say something about rights; None if there is none.

    Comments are skipped, and so are the contents of scripts, styles, titles and text areas. Of ``<link>`` and ``<a>``
    count those that hold "license", of scripts those of JSON-LD and RSL, of ``<meta>`` those that hold some words.

    Args:
        data: bytes of the page.
        at: place to begin at.
        words: table of these words, from `words_table`.

    Examples:
        >>> page = np.frombuffer(b"<!-- <meta> --><meta a><meta name=robots><a rel=license href=y>", np.uint8)
        >>> words = words_table([b"robots"])
        >>> next_rights_tag(page, 0, words), next_rights_tag(page, 40, words)
        (RightsTag(kind=2, start=28, end=40), RightsTag(kind=4, start=43, end=62))
    """
    kind, start, end = _next_tag(data, at, words)
    return RightsTag(kind, start, end) if kind else None


def _load() -> None:
    next_rights_tag(np.frombuffer(b"<p>", np.uint8), 0, words_table([b"robots"]))


def _kept() -> list[Any]:
    return [_next_tag, _mark_beginnings]


#: What `next_rights_tag` takes.
KERNELS = Kernels("rights_tags.next", _load, Kept(_kept), 2.0)

"""Search a text for several phrases at once (Wu and Manber, 1994)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import ALLOCATING, INLINE, Bytes, Ints, Scalar, frozen
from dcurate.kernels.lines import line_end
from dcurate.kernels.signal import Array, Output, signal

_NEWLINE = 10
_KELVIN = np.frombuffer("\N{KELVIN SIGN}".encode(), np.uint8).copy()
_K = ord("k")
_LETTERS = range(ord("a"), ord("z") + 1)
_CLASSES = 64


class Phrases(NamedTuple):
    """Phrases, in any case of letters, and how far a window that slides over a text may move without missing one.

    ``kind`` gives the class of each byte, 0 for those in no phrase. The window has the ``width`` of the shortest
    phrase; it may move on by ``skip[class * 64 + class]`` of the last two bytes in it, and if that is 0 a phrase may
    begin with it. The classes of phrase ``n`` are ``letters[ends[n]:ends[n + 1]]``; its group is ``groups[n]``.
    """

    kind: Bytes
    skip: Bytes
    width: int
    letters: Bytes
    ends: Ints
    groups: Ints


def phrases(groups: Sequence[Sequence[str]]) -> Phrases:
    """Groups of phrases, each of at least two characters of lower-case ASCII; group ``n`` is bit ``n``.

    Examples:
        >>> sought = phrases([["cookie", "policy"], ["ipsum"]])
        >>> sought.width, sought.groups.tolist()
        (5, [0, 0, 1])
    """
    texts = [phrase.encode("ascii") for group in groups for phrase in group]
    kind = np.zeros(256, np.uint8)
    for number, byte in enumerate(sorted({byte for text in texts for byte in text}), 1):
        kind[byte] = number
        if byte in _LETTERS:
            kind[byte - 32] = number
    width = min(map(len, texts))
    skip = np.full(_CLASSES * _CLASSES, width - 1, np.uint8)
    for text in texts:
        for end in range(2, width + 1):
            pair = int(kind[text[end - 2]]) * _CLASSES + int(kind[text[end - 1]])
            skip[pair] = min(int(skip[pair]), width - end)
    return Phrases(
        frozen(kind, np.uint8),
        frozen(skip, np.uint8),
        width,
        frozen(kind[np.frombuffer(b"".join(texts), np.uint8)], np.uint8),
        frozen(np.cumsum([0, *map(len, texts)]), np.int64),
        frozen(np.repeat(np.arange(len(groups)), [len(group) for group in groups]), np.int64),
    )


def group_count(sought: Phrases) -> int:
    """How many groups of phrases there are."""
    return int(sought.groups[-1]) + 1


@njit(**INLINE)
def _begin(sought: Phrases, data: Bytes, at: int, stop: int) -> Scalar:
    """The bits of the groups of which a phrase begins here."""
    bits = np.int64(0)
    for number in range(sought.groups.size):
        first = sought.ends[number]
        size = sought.ends[number + 1] - first
        if at + size > stop:
            continue
        same = np.int64(0)
        while same < size and sought.kind[data[at + same]] == sought.letters[first + same]:
            same += 1
        if same == size:
            bits |= np.int64(1) << sought.groups[number]
    return bits


@njit(**INLINE)
def _ended(data: Bytes, at: int, until: int, stop: int) -> tuple[Scalar, Scalar]:
    """How many paragraphs end between two places, and from where on to look for the next end."""
    ended = np.int64(0)
    at = line_end(data, at, until)
    while at < until:
        if at + 1 < stop and data[at + 1] == _NEWLINE:
            ended += 1
            at += 1
        at = line_end(data, at + 1, until)
    return ended, at


@njit(**INLINE)
def _has_kelvin(data: Bytes, span: tuple[int, int]) -> Scalar:
    """Whether there is a Kelvin sign: the one character beyond ASCII that is a letter of it, k, in lower case."""
    start, last = span[0], span[1] - 2
    if last <= start:
        return False
    first, second, third = data[start:last], data[start + 1 : last + 1], data[start + 2 : last + 2]
    has_kelvin = False
    for at in range(first.size):
        has_kelvin |= (third[at] == _KELVIN[2]) & (second[at] == _KELVIN[1]) & (first[at] == _KELVIN[0])
    return has_kelvin


@njit(**INLINE)
def _without_kelvin(data: Bytes, span: tuple[int, int], out: Bytes) -> Scalar:
    """Write a text with k for Kelvin signs; returns its bytes."""
    size = np.int64(0)
    for at in range(span[0], span[1]):
        out[size] = data[at]
        size += 1
        if size > 2 and out[size - 1] == _KELVIN[2] and out[size - 2] == _KELVIN[1] and out[size - 3] == _KELVIN[0]:
            size -= 2
            out[size - 1] = _K
    return size


@njit(**INLINE)
def _search(sought: Phrases, data: Bytes, span: tuple[int, int], out: Ints) -> None:
    at, stop = span
    read = at
    seen = np.int64(0)
    out[:] = 0
    paragraphs = np.int64(1)
    while at + sought.width <= stop:
        end = at + sought.width
        step = sought.skip[np.int64(sought.kind[data[end - 2]]) * _CLASSES + np.int64(sought.kind[data[end - 1]])]
        if step:
            at += step
            continue
        bits = _begin(sought, data, at, stop)
        if bits:
            ended, read = _ended(data, read, at, stop)
            paragraphs += ended
            seen = seen if ended == 0 else np.int64(0)
            for group in range(out.size - 1):
                out[1 + group] += ((bits & ~seen) >> group) & 1
            seen |= bits
        at += 1
    out[0] = paragraphs + _ended(data, read, stop, stop)[0]


@njit(**INLINE)
def find_paragraphs(data: Bytes, span: tuple[int, int], sought: Phrases, spare: Bytes, out: Ints) -> None:
    """Count the paragraphs of one text, and those with a phrase of each group.

    Args:
        spare: scratch for a copy of the text, which is used if it has a Kelvin sign.
    """
    if _has_kelvin(data, span):
        _search(sought, spare, (np.int64(0), _without_kelvin(data, span, spare)), out)
    else:
        _search(sought, data, span, out)


@njit(**ALLOCATING)
def new_spare(most: int, sought: Phrases) -> Bytes:
    """Scratch for a text of at most ``most`` bytes; memory is allocated lazily."""
    return np.empty(most + 1, np.uint8)


def _shape(sought: Phrases) -> tuple[int, ...]:
    return (1 + group_count(sought),)


def _by_group(out: Array, sought: Phrases) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(out.T)


@signal(find_paragraphs, Output(_shape, _by_group), scratch=Scratch(new_spare))
def paragraphs_with(sought: Phrases) -> Phrases:
    r"""Count paragraphs, and those with a phrase of each group.

    Paragraphs are separated by two newlines in a row; no phrase has a newline.

    Returns:
        int64 of shape (1 + groups, rows).

    Examples:
        >>> text = b"Use Cookies!\n\nuse\n\nwe use cookies"
        >>> layout = np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])
        >>> paragraphs_with(*layout, phrases([["use cookies"]])).tolist()
        [[3], [2]]
    """
    return sought

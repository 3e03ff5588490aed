"""The short way for `dcurate.text.english`: most runs of ASCII characters are cut here, the others are left to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import hash_bytes
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Scalar, Word, Words, frozen

_LETTER, _UPPER, _DIGIT, _MARK, _OTHER, _FRONT, _QUOTED, _OF_ADDRESS = (1 << bit for bit in range(8))
_DOT, _DASH, _COMMA, _QUOTE, _SLASH, _PERCENT, _PIPE, _NEWLINE = 0x2E, 0x2D, 0x2C, 0x27, 0x2F, 0x25, 0x7C, 10
_DOLLAR = 0x24
_STEP, _SPREAD = np.uint64(0xF1357AEA2E62A9C7), np.uint64(0x9E3779B97F4A7C15)
#: Longer runs, and more marks at the end of one, are left to the long way.
_LONGEST, _MOST = 64, 16


def _kinds() -> npt.NDArray[np.uint8]:
    """What each byte is: a mark comes off both ends, `_FRONT` off the front alone, `_QUOTED` is a quotation mark."""
    kinds = np.full(256, _OTHER, np.uint8)
    kinds[list(b".-/|@\\~")] = 0
    for byte in range(128):
        if chr(byte).isalpha():
            kinds[byte] = _LETTER | (_UPPER if chr(byte).isupper() else 0)
        elif chr(byte).isdigit():
            kinds[byte] = _DIGIT
    kinds[list(b",:;!?()[]{}<>_#*&'\"`")] = _MARK
    kinds[list(b"=$%")] = _FRONT
    kinds[list(b"'\"`,")] |= _QUOTED
    kinds[list(b":/?#@$")] |= _OF_ADDRESS
    return kinds


_KIND = _kinds()


class Exceptions(NamedTuple):
    """Words that are not cut by rule, and pairs of words that may be part of one, as hash tables.

    ``longest`` is the length of the longest of the words.
    """

    words: Words
    pairs: Words
    longest: int


@njit(**INLINE)
def _has(table: Words, wanted: Word) -> Scalar:
    mask = table.size - 1
    slot = np.int64(wanted * _SPREAD >> np.uint64(40)) & mask
    while table[slot] and table[slot] != wanted:
        slot = (slot + 1) & mask
    return table[slot] == wanted


@njit(**OPTIONS)
def _hashes(offsets: Offsets, data: Bytes, out: Words) -> None:
    for place in range(out.size):
        out[place] = hash_bytes(data, offsets[place], offsets[place + 1])


def _hashed(words: list[str]) -> npt.NDArray[np.uint64]:
    encoded = [word.encode() for word in words]
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in encoded], out=offsets[1:])
    out = np.empty(len(words), np.uint64)
    _hashes(frozen(offsets, np.int64), frozen(np.frombuffer(b"".join(encoded), np.uint8), np.uint8), out)
    return out


def _table(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    table = np.zeros(1 << max(4 * len(hashes) - 1, 15).bit_length(), np.uint64)
    for wanted in hashes.tolist():
        slot = (wanted * int(_SPREAD) % 2**64 >> 40) & (len(table) - 1)
        while table[slot]:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = wanted
    return frozen(table, np.uint64)


def exceptions(words: Iterable[str], pairs: Iterable[tuple[str, str]]) -> Exceptions:
    """The exceptions as the kernel takes them."""
    whole, both = list(words), list(dict.fromkeys(pairs))
    first, second = _hashed([pair[0] for pair in both]), _hashed([pair[1] for pair in both])
    return Exceptions(_table(_hashed(whole)), _table(first * _STEP + second), max(len(word.encode()) for word in whole))


@njit(**INLINE)
def _special(data: Bytes, start: int, stop: int, known: Exceptions) -> Scalar:
    return 0 < stop - start <= known.longest and _has(known.words, hash_bytes(data, start, stop))


@njit(**INLINE)
def _curly(data: Bytes, at: int, stop: int) -> Scalar:
    """Whether one of ``‘’“”`` stands at ``at``."""
    if at + 2 >= stop or data[at] != 0xE2 or data[at + 1] != 0x80:
        return False
    return data[at + 2] in (0x98, 0x99, 0x9C, 0x9D)


@njit(**INLINE)
def _dots(data: Bytes, start: int, stop: int) -> Scalar:
    return stop - start > 1 and data[start] == _DOT and data[start + 1] == _DOT


@njit(**INLINE)
def _front(data: Bytes, start: int, stop: int) -> Scalar:
    """Bytes of the mark at the front: 0 without one."""
    if _KIND[data[start]] & (_MARK | _FRONT):
        return 1
    return 3 if _curly(data, start, stop) else 0


@njit(**INLINE)
def _back(data: Bytes, start: int, stop: int) -> Scalar:
    """Bytes of the mark at the back: 0 without one."""
    if start >= stop:
        return 0
    last = data[stop - 1]
    if _KIND[last] & _MARK:
        return 1
    if stop - start > 2 and _curly(data, stop - 3, stop):
        return 3
    if stop - start > 1:
        before = data[stop - 2]
        if last | 0x20 == 0x73:
            if before == _QUOTE:
                return 2
            return 4 if stop - start > 3 and before == 0x99 and _curly(data, stop - 4, stop) else 0
        kind = _KIND[before]
        if last == _PERCENT:
            return 1 if kind & _DIGIT else 0
        if last == _DOT:
            if kind & _UPPER:
                return 1 if stop - start > 2 and _KIND[data[stop - 3]] & _UPPER else 0
            follows = kind & (_LETTER | _DIGIT | _MARK) or before >= 0x80 or before in (_DASH, _PERCENT, _PIPE)
            return 1 if follows else 0
    return 0


@njit(**INLINE)
def _cut_here(data: Bytes, at: int, start: int, stop: int) -> Scalar:
    """Bytes of the mark at ``at`` if it joins two words, or 0."""
    if at == start or at + 1 >= stop:
        return 0
    byte, before, after = data[at], _KIND[data[at - 1]], _KIND[data[at + 1]]
    if byte == _DOT:
        lower = before & (_LETTER | _UPPER) == _LETTER or before & _QUOTED or data[at - 1] >= 0x80
        return 1 if lower and (after & (_UPPER | _QUOTED) or data[at + 1] == 0xE2) else 0
    if byte == _COMMA:
        return 1 if (before & _LETTER) and (after & _LETTER) else 0
    if byte in (_DASH, 0x2A) and before & _DIGIT and (after & _DIGIT or data[at + 1] == _DASH):
        return 1
    if byte in (_DASH, 0x3A, 0x3C, 0x3D, 0x3E, 0x7E, _SLASH) and before & (_LETTER | _DIGIT):
        if after & _LETTER:
            return 1
        double = byte == _DASH and data[at + 1] == _DASH and at + 2 < stop and _KIND[data[at + 2]] & _LETTER
        return 2 if double else 0
    return 0


@njit(**INLINE)
def _measured(data: Bytes, start: int, stop: int) -> Scalar:
    """Whether letters after a digit at the end may be a unit; those of ordinals and decades are none."""
    at = stop
    while at > start and _KIND[data[at - 1]] & _LETTER:
        at -= 1
    if at in (start, stop) or not _KIND[data[at - 1]] & _DIGIT:
        return False
    if stop - at == 1:
        return data[at] != 0x73
    if stop - at > 2:
        return True
    pair = (np.int64(data[at]) << 8) | np.int64(data[at + 1])
    return pair not in (0x7468, 0x7374, 0x6E64, 0x7264)


@njit(**INLINE)
def _core(data: Bytes, start: int, stop: int) -> Scalar:
    """Whether what is left between marks is cut where `_cut_here` says, and nowhere else."""
    kinds = np.int64(0)
    dots = 0
    lower, last = True, start
    for at in range(start, stop):
        kind = _KIND[data[at]]
        kinds |= kind
        if data[at] == _DOLLAR:
            return False
        if data[at] == _DOT:
            dots += 1
            lower = True
            last = at
        elif kind & (_LETTER | _UPPER) != _LETTER:
            lower = False
        if at > start and data[at] == _DOT and data[at - 1] == _DOT:
            return False
        if at > start + 1 and data[at] == _DASH and data[at - 1] == _DASH and data[at - 2] == _DASH:
            return False
    if dots and kinds & _LETTER and (kinds & (_DIGIT | _OF_ADDRESS) or (lower and stop - last > 2)):
        return False
    if dots and not kinds & _LETTER and (kinds & (_MARK | _OTHER) or dots > 2):
        return False
    return not _measured(data, start, stop)


@njit(**INLINE)
def _write(data: Bytes, start: int, stop: int, out: Bytes, used: int) -> Scalar:
    for at in range(start, stop):
        out[used] = data[at]
        used += 1
    out[used] = _NEWLINE
    return used + 1


@njit(**INLINE)
def _plain(data: Bytes, start: int, stop: int) -> Scalar:
    """Whether a run is made of characters that the short way knows."""
    at = start
    while at < stop:
        if _KIND[data[at]] & _OTHER:
            if not _curly(data, at, stop):
                return False
            at += 2
        at += 1
    return True


@njit(**INLINE)
def _inside(data: Bytes, start: int, stop: int, ends: Ints, words: int) -> Scalar:
    """Write where the words end that marks within a run join; returns how many words there are then."""
    at = start
    while at < stop:
        width = _cut_here(data, at, start, stop)
        if width:
            ends[words], ends[words + 1] = at, at + width
            words += 2
        at += max(width, 1)
    ends[words] = stop
    return words + 1


@njit(**INLINE)
def _marks(data: Bytes, start: int, stop: int, known: Exceptions) -> tuple[Scalar, Scalar]:
    """Bytes of the marks at the front and at the back of a run; -1 where the long way is needed."""
    if _special(data, start, stop, known) or _dots(data, start, stop) or data[stop - 1] == _DOLLAR:
        return -1, 0
    front = _front(data, start, stop)
    if front and _special(data, start + front, stop, known):
        return -1, 0
    if stop - start - front > 1 and _dots(data, stop - 2, stop):
        return -1, 0
    back = _back(data, start + front, stop)
    if back and _special(data, start, stop - back, known):
        return -1, 0
    return front, back


@njit(**INLINE)
def _ends(data: Bytes, span: tuple[int, int], known: Exceptions, ends: Ints) -> Scalar:
    """Where the words of a run end, in turn, and how many they are; 0 for the long way."""
    start, stop = span
    if stop - start > _LONGEST or not _plain(data, start, stop):
        return 0
    words = after = 0
    while start < stop:
        front, back = _marks(data, start, stop, known)
        if front < 0 or after == _MOST:
            return 0
        if front + back == 0:
            break
        if front:
            start += front
            ends[words] = start
            words += 1
        if back:
            ends[_LONGEST + 1 + after] = stop
            after += 1
            stop -= back
    if start < stop:
        if not _core(data, start, stop):
            return 0
        words = _inside(data, start, stop, ends, words)
    for number in range(after):
        ends[words] = ends[_LONGEST + after - number]
        words += 1
    return words


@njit(**OPTIONS)
def _cut(offsets: Offsets, data: Bytes, known: Exceptions, counts: Ints, out: Bytes) -> Scalar:
    ends = np.empty(2 * _LONGEST + 2, np.int64)
    used = np.int64(0)
    for place in range(counts.size):
        words = _ends(data, (offsets[place], offsets[place + 1]), known, ends)
        before = np.uint64(0)
        start = offsets[place]
        for word in range(words):
            value = hash_bytes(data, start, ends[word])
            if word and _has(known.pairs, before * _STEP + value):
                words = 0
                break
            before = value
            start = ends[word]
        counts[place] = words
        start = offsets[place]
        for word in range(words):
            used = _write(data, start, ends[word], out, used)
            start = ends[word]
    return used


def cut_english(offsets: Offsets, data: Bytes, known: Exceptions) -> tuple[Ints, Bytes]:
    r"""How many words each run of characters has, 0 where the long way is needed; and the words, a line each.

    Examples:
        >>> text = b"(end.)don't"
        >>> known = exceptions(["don't"], [("a", "b")])
        >>> counts, words = cut_english(np.array([0, 6, 11]), np.frombuffer(text, np.uint8), known)
        >>> counts.tolist(), words.tobytes()
        ([4, 0], b'(\nend\n.\n)\n')
    """
    counts = np.zeros(len(offsets) - 1, np.int64)
    out = np.empty(2 * int(offsets[-1] - offsets[0]) + 1, np.uint8)
    used = _cut(frozen(offsets, np.int64), frozen(data, np.uint8), known, counts, out)
    return counts, out[:used]

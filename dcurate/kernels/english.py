"""Tokenize English strings by the rules of `dcurate.text.english`, which has them in Python.

What no table here knows is left to it: characters beyond `dcurate.kernels.runs.POINTS`, addresses of digits, and runs
in which exceptions that the rules take apart may have to be put together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.addresses import NO, UNKNOWN, address
from dcurate.kernels.hashing import hash_bytes
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Scalar, Word, Words, frozen
from dcurate.kernels.runs import (
    ALNUM,
    BACK,
    BEFORE_STOP,
    DIGIT,
    FRONT,
    ICON,
    LETTER,
    LOWER,
    QUOTE,
    UPPER,
    Kinds,
    Run,
    new_run,
    read_run,
)

_DOT, _DASH, _COMMA, _DOLLAR, _PLUS, _NEWLINE = 0x2E, 0x2D, 0x2C, 0x24, 0x2B, 10
_ELLIPSIS, _EN_DASH, _EM_DASH, _DEGREE, _CURLY = 0x2026, 0x2013, 0x2014, 0xB0, 0x2019
_STEP, _SPREAD = np.uint64(0xF1357AEA2E62A9C7), np.uint64(0x9E3779B97F4A7C15)
#: Characters at the back among which a unit of measure is looked for, and words that an exception has at most.
_WINDOW, _PARTS = 8, 3


class Exceptions(NamedTuple):
    """The kernel's lookup tables: character classes, and hash tables of words.

    ``kinds`` is what each character is, ``words`` those that are not cut by rule, ``parts`` the bytes of each word that
    they are cut into instead, by slot of the table, ``pairs`` words of which the second may belong to the first,
    ``units`` what comes off behind a digit, and ``longest`` the bytes of the longest exception.
    """

    kinds: Kinds
    words: Words
    parts: npt.NDArray[np.int64]
    pairs: Words
    units: Words
    longest: int


@njit(**INLINE)
def _slot(table: Words, wanted: Word) -> Scalar:
    """The slot of a hash in a table, or the empty slot where it belongs."""
    mask = table.size - 1
    slot = np.int64(wanted * _SPREAD >> np.uint64(40)) & mask
    while table[slot] and table[slot] != wanted:
        slot = (slot + 1) & mask
    return slot


@njit(**OPTIONS)
def _hashes(offsets: Offsets, data: Bytes, out: Words) -> None:
    for place in range(out.size):
        out[place] = hash_bytes(data, offsets[place], offsets[place + 1])


@njit(**OPTIONS)
def _fill(table: Words, hashes: Words, slots: Ints) -> None:
    for place in range(hashes.size):
        slots[place] = _slot(table, hashes[place])
        table[slots[place]] = hashes[place]


def _hashed(words: list[str]) -> npt.NDArray[np.uint64]:
    encoded = [word.encode() for word in words]
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in encoded], out=offsets[1:])
    out = np.empty(len(words), np.uint64)
    _hashes(frozen(offsets, np.int64), frozen(np.frombuffer(b"".join(encoded), np.uint8), np.uint8), out)
    return out


def _table(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """A hash table of words, and the slot of each."""
    table = np.zeros(1 << max(4 * len(hashes) - 1, 15).bit_length(), np.uint64)
    slots = np.zeros(len(hashes), np.int64)
    _fill(table, frozen(hashes, np.uint64), slots)
    return frozen(table, np.uint64), slots


def exceptions(
    kinds: Kinds, words: Mapping[str, tuple[str, ...]], pairs: Iterable[tuple[str, str]], units: Iterable[str]
) -> Exceptions:
    """The exceptions in the kernel's form.

    Args:
        kinds: the class of each character.
        words: the parts of each of the words, at most three.
        pairs: words that may have to be put together again when the second follows the first.
        units: suffixes split after a digit.
    """
    both = list(dict.fromkeys(pairs))
    first, second = _hashed([pair[0] for pair in both]), _hashed([pair[1] for pair in both])
    table, slots = _table(_hashed(list(words)))
    parts = np.zeros((len(table), _PARTS), np.int64)
    for slot, cut in zip(slots, words.values(), strict=True):
        parts[slot, : len(cut)] = [len(part.encode()) for part in cut]
    longest = max((len(word.encode()) for word in words), default=0)
    return Exceptions(
        frozen(kinds, np.uint16),
        table,
        frozen(parts, np.int64),
        _table(first * _STEP + second)[0],
        _table(_hashed(list(units)))[0],
        longest,
    )


@njit(**OPTIONS)
def _special(data: Bytes, start: int, stop: int, known: Exceptions) -> Scalar:
    """The slot of the exception equal to the bytes, or -1."""
    if not 0 < stop - start <= known.longest:
        return -1
    slot = _slot(known.words, hash_bytes(data, start, stop))
    return slot if known.words[slot] else -1


@njit(**INLINE)
def _dots(run: Run, at: int, stop: int) -> Scalar:
    """The number of consecutive full stops."""
    end = at
    while end < stop and run.points[end] == _DOT:
        end += 1
    return end - at


@njit(**INLINE)
def _front(run: Run, start: int, stop: int) -> Scalar:
    """Length of the prefix mark, or 0."""
    point, kind = run.points[start], run.kinds[start]
    if kind & ALNUM:
        if point == 0x55 and stop - start > 2 and run.points[start + 1] == 0x53 and run.points[start + 2] == _DOLLAR:
            return 3
        return 2 if point in (0x41, 0x43) and stop - start > 1 and run.points[start + 1] == _DOLLAR else 0
    if kind & FRONT:
        return 1
    if point == _DOT:
        dots = _dots(run, start, stop)
        return dots if dots > 1 else 0
    return 1 if point == _PLUS and not (start + 1 < stop and run.kinds[start + 1] & DIGIT) else 0


@njit(**OPTIONS)
def _unit(run: Run, start: int, stop: int, data: Bytes, known: Exceptions) -> Scalar:
    """Length of the unit of measure or currency after the last digit, or 0."""
    at = stop
    first = max(start, stop - _WINDOW)
    while at > first and not run.kinds[at - 1] & DIGIT:
        at -= 1
    if at in (first, stop):
        return 0
    slot = _slot(known.units, hash_bytes(data, run.places[at], run.places[stop]))
    return stop - at if known.units[slot] else 0


@njit(**INLINE)
def _stop_comes_off(run: Run, start: int, stop: int) -> Scalar:
    """Whether the full stop at the end is split."""
    if stop - start < 2:
        return False
    if run.kinds[stop - 2] & BEFORE_STOP:
        return True
    if stop - start < 3:
        return False
    if run.kinds[stop - 2] & run.kinds[stop - 3] & UPPER:
        return True
    return run.points[stop - 3] == _DEGREE and run.points[stop - 2] | 0x20 in (0x63, 0x66, 0x6B)


@njit(**OPTIONS)
def _back(run: Run, start: int, stop: int, data: Bytes, known: Exceptions) -> Scalar:
    """Length of the suffix mark, or 0."""
    if start >= stop:
        return 0
    last, kind = run.points[stop - 1], run.kinds[stop - 1]
    before = run.points[stop - 2] if stop - start > 1 else np.int32(0)
    if kind & BACK:
        return 1
    if last == _DOT:
        if before == _DOT:
            at = stop - 2
            while at > start and run.points[at - 1] == _DOT:
                at -= 1
            return stop - at
        return 1 if _stop_comes_off(run, start, stop) else 0
    unit = _unit(run, start, stop, data, known)
    if unit:
        return unit
    if last in (0x53, 0x73):
        return 2 if before in (0x27, _CURLY) else 0
    if last == _ELLIPSIS:
        return 2 if before == _ELLIPSIS else 1
    if kind & ICON or last in (_EN_DASH, _EM_DASH):
        return 1
    return 1 if last == _PLUS and stop - start > 1 and run.kinds[stop - 2] & DIGIT else 0


@njit(**INLINE)
def _joint(run: Run, at: int, start: int, stop: int) -> Scalar:
    """Length of the mark at ``at`` if it joins two words, or 0."""
    point, kind = run.points[at], run.kinds[at]
    if kind & ICON or point == _ELLIPSIS:
        return 1
    if point == _DOT and at + 1 < stop and run.points[at + 1] == _DOT:
        return _dots(run, at, stop)
    if at == start or at + 1 >= stop:
        return 0
    before, after, following = run.kinds[at - 1], run.kinds[at + 1], run.points[at + 1]
    if point == _DOT:
        return 1 if before & (LOWER | QUOTE) and after & (UPPER | QUOTE) else 0
    if point == _COMMA:
        return 1 if before & LETTER and after & LETTER else 0
    if before & DIGIT and point in (_PLUS, _DASH, 0x2A, 0x5E) and (after & DIGIT or following == _DASH):
        return 1
    if not before & (LETTER | DIGIT):
        return 0
    if point in (_DASH, _EN_DASH, _EM_DASH, 0x7E, 0x3A, 0x3C, 0x3E, 0x3D, 0x2F) and after & LETTER:
        return 1
    if point not in (_DASH, _EM_DASH) or following != point or at + 2 >= stop:
        return 0
    if run.kinds[at + 2] & LETTER:
        return 2
    triple = point == _DASH and run.points[at + 2] == _DASH and at + 3 < stop and run.kinds[at + 3] & LETTER
    return 3 if triple else 0


@njit(**OPTIONS)
def _cut(run: Run, start: int, stop: int, ends: Ints, words: int) -> Scalar:
    """Write the ends of words joined by infix marks; returns the number of words so far."""
    begin = at = start
    while at < stop:
        width = _joint(run, at, start, stop)
        if width and at > start:
            if at > begin:
                ends[words] = at
                words += 1
            begin = at + width
            ends[words] = begin
            words += 1
        at += max(width, 1)
    if begin < stop:
        ends[words] = stop
        words += 1
    return words


@njit(**OPTIONS)
def _ends(
    data: Bytes, run: Run, size: int, known: Exceptions, scratch: tuple[Ints, Ints]
) -> tuple[Scalar, Scalar, Scalar]:
    """Tokenize a string.

    Returns how many words there are, 0 for the long way; and of an exception among them the number and the slot, or -1.
    """
    ends, behind = scratch
    start, stop, words, after = 0, size, 0, 0
    slot = _special(data, run.places[start], run.places[stop], known)
    while slot < 0 and start < stop:
        front = _front(run, start, stop)
        if front:
            slot = _special(data, run.places[start + front], run.places[stop], known)
        back = 0 if slot >= 0 else _back(run, start + front, stop, data, known)
        if back:
            slot = _special(data, run.places[start], run.places[stop - back], known)
            front = 0 if slot >= 0 else front
        if front + back == 0:
            break
        if front:
            start += front
            ends[words] = start
            words += 1
        if back:
            behind[after] = stop
            after += 1
            stop -= back
        if slot < 0:
            slot = _special(data, run.places[start], run.places[stop], known)
    special_word = words if slot >= 0 else -1
    verdict = NO if slot >= 0 else address(run, start, stop)
    if verdict == UNKNOWN:
        return 0, -1, -1
    if slot >= 0 or verdict:
        ends[words] = stop
        words += 1
    else:
        words = _cut(run, start, stop, ends, words)
    for number in range(after):
        ends[words] = behind[after - 1 - number]
        words += 1
    return words, special_word, slot


@njit(**INLINE)
def _write(data: Bytes, start: int, stop: int, out: Bytes, used: int) -> Scalar:
    for at in range(start, stop):
        out[used] = data[at]
        used += 1
    out[used] = _NEWLINE
    return used + 1


@njit(**OPTIONS)
def _cut_all(offsets: Offsets, data: Bytes, known: Exceptions, counts: Ints, out: Bytes) -> Scalar:
    most = np.int64(0)
    for place in range(counts.size):
        most = max(most, offsets[place + 1] - offsets[place])
    run, scratch = new_run(most), (np.empty(most + 1, np.int64), np.empty(most + 1, np.int64))
    stops = np.empty(most + _PARTS, np.int64)
    used = np.int64(0)
    for place in range(counts.size):
        size = read_run(data, offsets[place], offsets[place + 1], known.kinds, run)
        result = _ends(data, run, size, known, scratch) if size >= 0 else (0, -1, -1)
        words = 0
        for word in range(result[0]):
            stop = run.places[scratch[0][word]]
            if word == result[1]:
                at = run.places[scratch[0][word - 1]] if word else offsets[place]
                for part in known.parts[result[2]]:
                    at += part
                    if part and at < stop:
                        stops[words] = at
                        words += 1
            stops[words] = stop
            words += 1
        before = np.uint64(0)
        start = offsets[place]
        for word in range(words):
            value = hash_bytes(data, start, stops[word])
            if word and known.pairs[_slot(known.pairs, before * _STEP + value)]:
                words = 0
                break
            before = value
            start = stops[word]
        counts[place] = words
        start = offsets[place]
        for word in range(words):
            used = _write(data, start, stops[word], out, used)
            start = stops[word]
    return used


def cut_english(offsets: Offsets, data: Bytes, known: Exceptions) -> tuple[Ints, Bytes]:
    r"""The number of words of each string, 0 if Python must split it; and the words, one per line.

    Examples:
        >>> from dcurate.kernels.runs import POINTS
        >>> text = b"(cannot)5km"
        >>> kinds = np.zeros(POINTS, np.uint16)
        >>> kinds[[ord("("), ord(")")]], kinds[ord("5")] = FRONT | BACK, DIGIT
        >>> known = exceptions(kinds, {"cannot": ("can", "not")}, [("a", "b")], ["km"])
        >>> counts, words = cut_english(np.array([0, 8, 11]), np.frombuffer(text, np.uint8), known)
        >>> counts.tolist(), words.tobytes()
        ([4, 2], b'(\ncan\nnot\n)\n5\nkm\n')
    """
    counts = np.zeros(len(offsets) - 1, np.int64)
    out = np.empty(2 * int(offsets[-1] - offsets[0]) + 1, np.uint8)
    used = _cut_all(frozen(offsets, np.int64), frozen(data, np.uint8), known, counts, out)
    return counts, out[:used]

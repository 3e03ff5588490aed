"""Lines and paragraphs, by the definitions of several rule sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import find_leader, has_zero, hash_bytes, load_eight, table_bits
from dcurate.kernels.layout import ALLOCATING, INLINE, Bytes, Ints, Scalar, Word, frozen
from dcurate.kernels.signal import columns, signal
from dcurate.kernels.unicode import count_characters, space_width, space_width_before

#: Where segments end: at each newline, each run of newlines, each two newlines in a row, each run of two or more, or
#: at any line boundary that ``str.splitlines`` knows.
NEWLINE, NEWLINES, TWO, TWO_OR_MORE, LINES = range(5)

_ONES, _HIGH, _BLANKS, _NEWLINES_EIGHT, _C2_EIGHT, _E2_EIGHT = (
    np.uint64(byte * 0x0101010101010101) for byte in (0x01, 0x80, 0x20, 0x0A, 0xC2, 0xE2)
)


class Cut(NamedTuple):
    """How to split a text into segments.

    Args:
        at: where segments end, such as `NEWLINE`.
        trimmed: whitespace at both ends of the text is left out first.
        stripped: whitespace at both ends of each segment is left out.
        blank: segments of nothing but whitespace count.
    """

    at: int
    trimmed: bool
    stripped: bool
    blank: bool


class Marks(NamedTuple):
    """Strings to match at the beginning or end of segments, as concatenated UTF-8.

    ``ends`` holds where each string ends in ``data``; the first ``begins`` of them are prefixes, the others suffixes,
    and ``lasts`` is true for the last byte of each suffix.
    """

    begins: int
    ends: Ints
    data: Bytes
    lasts: npt.NDArray[np.bool_]
    #: Whether whitespace before and after a segment is left out of the comparison.
    loose: bool
    #: Maximum number of characters of a short segment.
    short: int


class SegmentSignals(NamedTuple):
    """The segments of each text.

    ``total`` is their number, ``characters`` the sum of their lengths; ``repeats`` and ``repeat_characters`` count
    those that occurred before, ``copies`` and ``copy_characters`` all that occur twice; ``beginning`` and ``ending``
    count those with one of the marks there, ``short`` the short ones.
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    repeats: npt.NDArray[np.int64]
    repeat_characters: npt.NDArray[np.int64]
    copies: npt.NDArray[np.int64]
    copy_characters: npt.NDArray[np.int64]
    beginning: npt.NDArray[np.int64]
    ending: npt.NDArray[np.int64]
    short: npt.NDArray[np.int64]


@njit(**INLINE)
def first_character(data: Bytes, start: int, stop: int) -> Scalar:
    """Position of the first character that is not whitespace; ``stop`` if there is none."""
    while start < stop:
        width = space_width(data, start, stop)
        if width == 0:
            break
        start += width
    return start


@njit(**INLINE)
def last_character(data: Bytes, start: int, stop: int) -> Scalar:
    """End of the last character that is not whitespace; ``start`` if there is none."""
    while stop > start:
        width = space_width_before(data, start, stop)
        if width == 0:
            break
        stop -= width
    return stop


@njit(**INLINE)
def line_boundary(data: Bytes, at: int, stop: int) -> Scalar:
    r"""Bytes of the line boundary at ``at``, as ``str.splitlines`` has it, or 0; ``\r\n`` is one."""
    byte = data[at]
    if byte > 0x1E:
        if byte == 0xC2:
            return 2 if at + 1 < stop and data[at + 1] == 0x85 else 0
        if byte == 0xE2:
            return 3 if at + 2 < stop and data[at + 1] == 0x80 and 0xA8 <= data[at + 2] <= 0xA9 else 0
        return 0
    if byte == 13:
        return 2 if at + 1 < stop and data[at + 1] == 10 else 1
    return 1 if 10 <= byte <= 12 or byte >= 0x1C else 0


@njit(**INLINE)
def _may_end(block: Word, kind: int) -> Scalar:
    """Not zero if any of eight packed bytes may begin what ends a segment."""
    if kind != LINES:
        return has_zero(block ^ _NEWLINES_EIGHT)
    controls = (block - _BLANKS) & ~block & _HIGH
    return controls | has_zero(block ^ _C2_EIGHT) | has_zero(block ^ _E2_EIGHT)


@njit(**INLINE)
def segment_end(data: Bytes, at: int, stop: int, kind: int) -> tuple[Scalar, Scalar]:
    """Where the segment ends that begins at ``at``, and where the next begins; ``stop + 1`` if there is none."""
    while at < stop:
        if at + 8 <= stop and _may_end(load_eight(data, at), kind) == 0:
            at += 8
            continue
        if kind == LINES:
            width = line_boundary(data, at, stop)
            if width:
                return at, at + width if at + width < stop else stop + 1
        elif data[at] == 10:
            after = at + 1
            if kind != NEWLINE:
                while after < stop and data[after] == 10 and (kind != TWO or after < at + 2):
                    after += 1
            if kind <= NEWLINES or after > at + 1:
                return at, after
        at += 1
    return stop, stop + 1


@njit(**INLINE)
def _matches(data: Bytes, at: int, stop: int, marks: Marks, mark: int) -> Scalar:
    """Whether there is a mark at ``at``."""
    start = 0 if mark == 0 else marks.ends[mark - 1]
    size = marks.ends[mark] - start
    if at + size > stop:
        return False
    for step in range(size):  # noqa: SIM110 - a loop compiles to less than a generator
        if data[at + step] != marks.data[start + step]:
            return False
    return True


@njit(**INLINE)
def _begins(data: Bytes, start: int, stop: int, marks: Marks) -> Scalar:
    for mark in range(marks.begins):  # noqa: SIM110
        if _matches(data, start, stop, marks, mark):
            return True
    return False


@njit(**INLINE)
def _ends(data: Bytes, start: int, stop: int, marks: Marks) -> Scalar:
    if start == stop or not marks.lasts[data[stop - 1]]:
        return False
    for mark in range(marks.begins, marks.ends.size):
        size = marks.ends[mark] - (0 if mark == 0 else marks.ends[mark - 1])
        if stop - size >= start and _matches(data, stop - size, stop, marks, mark):
            return True
    return False


class SegmentScratch(NamedTuple):
    """Scratch for one text: the hash of each segment, its length, how often it occurs, and a hash table."""

    hashes: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    table: npt.NDArray[np.int32]


@njit(**ALLOCATING)
def new_segment_scratch(most: int, sought: tuple[Cut, Marks]) -> SegmentScratch:
    """Scratch for texts of at most ``most`` bytes; memory is allocated lazily."""
    segments = most + 1
    hashes, table = np.empty(segments, np.uint64), np.empty(1 << int(table_bits(segments)), np.int32)
    return SegmentScratch(hashes, np.empty(segments, np.int32), np.empty(segments, np.int32), table)


@njit(**INLINE)
def _measure_repeats(scratch: SegmentScratch, total: int, out: Ints) -> None:
    """Measure the repetition of ``total`` segments."""
    hashes, lengths, counts, table = scratch
    bits = table_bits(total)
    table[: 1 << bits] = 0
    repeats = repeat_characters = copies = copy_characters = 0
    for number in range(total):
        leader = find_leader(table, bits, hashes, number)
        counts[leader] += 1
        if leader != number:
            first_time = 1 if counts[leader] == 2 else 0
            repeats += 1
            repeat_characters += lengths[number]
            copies += 1 + first_time
            copy_characters += lengths[number] * (1 + first_time)
    out[2], out[3], out[4], out[5] = repeats, repeat_characters, copies, copy_characters


@njit(**INLINE)
def measure_segments(
    data: Bytes, span: tuple[int, int], sought: tuple[Cut, Marks], scratch: SegmentScratch, out: Ints
) -> None:
    """Measure the segments of one text, as in `SegmentSignals`."""
    at, stop = span
    cut, marks = sought
    hashes, lengths, counts, _ = scratch
    ascii_only = count_characters(data, at, stop) == stop - at
    if cut.trimmed:
        at = first_character(data, at, stop)
        stop = last_character(data, at, stop)
    if cut.at == LINES and at == stop:
        at = stop + 1
    total = characters = beginning = ending = short = 0
    while at <= stop:
        start = at
        end, at = segment_end(data, at, stop, cut.at)
        first, last = first_character(data, start, end), end
        if first == end and not cut.blank:
            continue
        if cut.stripped or marks.loose:
            last = last_character(data, first, end)
        if cut.stripped:
            start, end = first, last
        length = end - start if ascii_only else count_characters(data, start, end)
        hashes[total], lengths[total], counts[total] = hash_bytes(data, start, end), length, 0
        total += 1
        characters += length
        short += length <= marks.short
        low, high = (first, last) if marks.loose else (start, end)
        beginning += _begins(data, low, high, marks)
        ending += _ends(data, low, high, marks)
    _measure_repeats(scratch, total, out)
    out[0], out[1], out[6], out[7], out[8] = total, characters, beginning, ending, short


def marks(begins: tuple[str, ...] = (), ends: tuple[str, ...] = (), loose: bool = False, short: int = -1) -> Marks:
    """Strings to match in segments, in the form of the kernel.

    Examples:
        >>> marks(("-",), ("…", ".")).ends.tolist()
        [1, 4, 5]
    """
    encoded = [mark.encode() for mark in (*begins, *ends)]
    stops = np.cumsum([len(mark) for mark in encoded], dtype=np.int64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    lasts = np.zeros(256, np.bool_)
    lasts[[mark[-1] for mark in encoded[len(begins) :] if mark]] = True
    return Marks(len(begins), frozen(stops, np.int64), frozen(data, np.uint8), frozen(lasts, np.bool_), loose, short)


@signal(measure_segments, columns(SegmentSignals), scratch=Scratch(new_segment_scratch))
def segment_signals(cut: Cut, sought: Marks) -> tuple[Cut, Marks]:
    r"""Measure lines or paragraphs.

    Examples:
        >>> text = b"- a.\n- a.\n\nbcd"
        >>> layout = np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])
        >>> cut = Cut(NEWLINES, trimmed=False, stripped=False, blank=True)
        >>> [int(count[0]) for count in segment_signals(*layout, cut, marks(("-",), (".",), short=3))]
        [3, 11, 1, 4, 2, 8, 2, 2, 1]
    """
    return cut, sought

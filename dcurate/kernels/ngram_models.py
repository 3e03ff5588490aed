"""Log probabilities of texts under n-gram models, in the hash tables of KenLM (Heafield, 2011), with equal numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from dcurate.kernels.hashing import load_eight, load_up_to_eight
from dcurate.kernels.layout import (
    INLINE,
    INLINE_LATE,
    OPTIONS,
    Bytes,
    Ints,
    Offsets,
    Rows,
    Scalar,
    Word,
    frozen,
    longest,
)

Cells = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

_FACTOR, _WORD_FACTOR = np.uint64(8978948897894561157), np.uint64(17894857484156487943)
_MURMUR, _ROLL = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
_SIGN, _ONE, _HALF = np.uint32(0x80000000), np.uint64(1), np.uint64(32)
SPACES = np.array([byte in b" \t\n\v\f\r" for byte in range(256)])
_NEWLINE, _TAB, _RETURN, _BLANK = 10, 9, 13, 32
#: Words that are looked up at a time.
_BLOCK = 128
#: The most words of an n-gram.
LONGEST_ORDER = 12
#: What `add_ngrams` returns besides a place, which is not below 0.
FULL, NO_CONTEXT, BAD_LINE, BAD_NUMBER, UNKNOWN_WORD, REPEATED = -1, -2, -3, -4, -5, -6


class Tables(NamedTuple):
    """A model: the tables of KenLM's probing format, one after the other.

    Attributes:
        cells, floats: the tables as 32-bit words, and the same memory as numbers. The table of words has three cells an
            entry (hash, hash, number), that of single words two (log probability, backoff), others four (key,
            key, log probability, backoff), and the last one three (without backoff).
        places: first cell and entries of the tables: of words, of single words, then for 2 to ``order`` words.
        marks: numbers of ``<s>`` and ``</s>``.
        inverses: for each table 2**64 - 1 by the number of its entries, rounded down.
    """

    cells: Cells
    floats: Floats
    places: Ints
    marks: Ints
    inverses: npt.NDArray[np.uint64]


class LogScores(NamedTuple):
    """Sums over each text: log10 probability, words with the ends of sentences, words that the model does not have."""

    log10: npt.NDArray[np.float64]
    words: npt.NDArray[np.int64]
    unknown: npt.NDArray[np.int64]


@njit(**INLINE_LATE)
def word_hash(data: Bytes, start: int, stop: int) -> Word:
    """MurmurHash64A of a word."""
    value = np.uint64(stop - start) * _MURMUR
    at = start
    while at + 8 <= stop:
        block = load_eight(data, at) * _MURMUR
        block = (block ^ (block >> _ROLL)) * _MURMUR
        value = (value ^ block) * _MURMUR
        at += 8
    if at < stop:
        value = (value ^ load_up_to_eight(data, at, stop)) * _MURMUR
    value = (value ^ (value >> _ROLL)) * _MURMUR
    return value ^ (value >> _ROLL)


def _upper_half(_: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """The type of `_upper_product`, and its code: one multiplication."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(left, right), generate


#: The upper 64 bits of the product of two numbers of 64 bits.
_upper_product: Scalar = intrinsic(_upper_half)


@njit(**INLINE)
def _remainder(value: Word, divisor: Word, inverse: Word) -> Word:
    """``value % divisor`` without a division (Granlund and Montgomery, 1994).

    With the inverse ``(2**64 - 1) // divisor`` the quotient is at most one too small.
    """
    left = value - _upper_product(value, inverse) * divisor
    return left - divisor if left >= divisor else left


@njit(**INLINE)
def _table(tables: Tables, number: int) -> tuple[Word, Word, Word]:
    """The first cell of a table, its entries, and their inverse."""
    # Indices that cannot be negative are not checked for it.
    return np.uint64(tables.places[2 * number]), np.uint64(tables.places[2 * number + 1]), tables.inverses[number]


@njit(**INLINE)
def _find(cells: Cells, table: tuple[Word, Word, Word], stride: int, key: Word) -> Scalar:
    """The first cell of an entry; if there is none, ``-2 - cell`` of where it belongs, or -1 if the table is full."""
    start, entries, inverse = table
    step = np.uint64(stride)
    at = start + _remainder(key, entries, inverse) * step
    end = start + entries * step
    for _ in range(np.int64(entries)):
        held = np.uint64(cells[at]) | np.uint64(cells[at + _ONE]) << _HALF
        if held == key:
            return np.int64(at)
        if held == 0:
            return np.int64(-2) - np.int64(at)
        at += step
        if at == end:
            at = start
    return np.int64(-1)


@njit(**INLINE)
def _extended(node: Word, word: int) -> Word:
    return (node * _FACTOR) ^ (np.uint64(word + 1) * _WORD_FACTOR)


@njit(**INLINE)
def _number(tables: Tables, value: Word) -> Scalar:
    """The number of a word by its hash; 0 if the model does not have it."""
    at = _find(tables.cells, _table(tables, 0), 3, value)
    number = np.int64(tables.cells[at + 2]) if at >= 0 else np.int64(0)
    return number if number < tables.places[3] else np.int64(0)


class _NgramMatches(NamedTuple):
    """What is known of words.

    Attributes:
        words: the numbers of the words of a sentence, from ``<s>`` to ``</s>``.
        keys: key of the longest n-gram looked up, for each word of a block.
        backoffs: those of the n-grams that end with a word and with the word before it, two rows in turn.
        cells: for each, the first cells of the n-grams of 2 words and more that end with it; the first that is missing
            is below 0, and after one that no longer one ends with there are none.
        rest: scratch for the places of a block.
    """

    words: Ints
    keys: npt.NDArray[np.uint64]
    cells: npt.NDArray[np.int64]
    backoffs: npt.NDArray[np.float32]
    rest: Ints


@njit(**INLINE)
def _score_word(tables: Tables, matches: _NgramMatches, place: tuple[int, int], known: int) -> tuple[Scalar, Scalar]:
    """The log probability of a word after ``known`` words of context, and how many words are context from now on.

    Args:
        place: the word in its sentence, and in its block.
    """
    cells, floats = tables.cells, tables.floats
    last = tables.places.size // 2 - 1
    word = matches.words[place[0]]
    at = tables.places[2] + 2 * word
    score = -abs(floats[at])
    now, then = (place[0] - 1) & 1, place[0] & 1
    matches.backoffs[then, 0] = floats[at + 1]
    kept = 1 if cells[at + 1] != _SIGN else 0
    length = 1
    for step in range(known):
        at = matches.cells[step, place[1]]
        if at < 0:
            break
        length = step + 2
        score = -abs(floats[at + 2])
        if length == last:
            break
        matches.backoffs[then, step + 1] = floats[at + 3]
        if cells[at + 3] != _SIGN:
            kept = length
    for step in range(length - 1, known):
        score += matches.backoffs[now, step]
    return score, kept


@njit(**INLINE)
def next_word(data: Bytes, at: int, stop: int, by_line: bool) -> tuple[Scalar, Scalar]:
    """Where the next word of a sentence begins and ends; both are where the sentence ends if it has no more."""
    while at < stop and SPACES[data[at]] and not (by_line and data[at] == _NEWLINE):
        at += 1
    begin = at
    while at < stop and not SPACES[data[at]]:
        at += 1
    return begin, at


@njit(**INLINE)
def _find_words(
    tables: Tables, data: Bytes, span: tuple[int, int], by_line: bool, words: Ints
) -> tuple[Scalar, Scalar]:
    """Look up the words of a sentence; returns how many with its end, and where it ends."""
    at, stop = span
    count = 1
    words[0] = tables.marks[0]
    while True:
        begin, at = next_word(data, at, stop, by_line)
        if begin == at:
            break
        words[count] = _number(tables, word_hash(data, begin, at))
        count += 1
    words[count] = tables.marks[1]
    return count, at


@njit(**INLINE)
def _find_ngrams(tables: Tables, matches: _NgramMatches, first: int, count: int) -> None:
    """Look up the n-grams that end with the words of a block: all of two words, then those of three, and so on.

    No look-up waits for the one before, so that the CPU waits for memory for several at a time.
    """
    cells, places = tables.cells, tables.places
    last = places.size // 2 - 1
    # The places of words that longer n-grams end with: all are written, and those of others are written over.
    rest, left = matches.rest, 0
    for place in range(count):
        word = matches.words[first + place]
        matches.keys[place] = np.uint64(word)
        matches.cells[0, place] = -1
        rest[left] = place
        left += (cells[places[2] + 2 * word] & _SIGN) == 0
    for length in range(2, last + 1):
        stride, table = 3 if length == last else 4, _table(tables, length)
        size, left = left, 0
        for step in range(size):
            place = rest[step]
            before = first + place - length + 1
            if before < 0:
                matches.cells[length - 2, place] = -1
                continue
            key = _extended(matches.keys[place], matches.words[before])
            matches.keys[place] = key
            at = _find(cells, table, stride, key)
            matches.cells[length - 2, place] = at
            if at >= 0:
                matches.cells[length - 1, place] = -1
                rest[left] = place
                left += (cells[at + 2] & _SIGN) == 0


@njit(**OPTIONS)
def _score(tables: Tables, layout: tuple[Offsets, Bytes], rows: Rows, by_line: bool, out: LogScores) -> None:
    offsets, data = layout
    words = np.empty(longest(offsets, rows) // 2 + 3, np.int64)
    backoffs = np.zeros((2, LONGEST_ORDER + 1), np.float32)
    block = np.empty(_BLOCK, np.uint64), np.empty((LONGEST_ORDER + 1, _BLOCK), np.int64)
    matches = _NgramMatches(words, *block, backoffs, np.empty(_BLOCK, np.int64))
    for place in range(rows.size):
        at, stop = offsets[rows[place]], offsets[rows[place] + 1]
        out.log10[place], out.words[place], out.unknown[place] = 0.0, 0, 0
        while True:
            count, at = _find_words(tables, data, (at, stop), by_line, words)
            if count > 1 or not by_line or (at >= stop and out.words[place] == 0):
                matches.backoffs[0, 0] = tables.floats[tables.places[2] + 2 * tables.marks[0] + 1]
                known, total = 1, np.float32(0)
                for word in range(1, count + 1):
                    inside = (word - 1) % _BLOCK
                    if inside == 0:
                        _find_ngrams(tables, matches, word, min(_BLOCK, count + 1 - word))
                    score, known = _score_word(tables, matches, (word, inside), known)
                    total += score
                    out.unknown[place] += word < count and words[word] == 0
                out.log10[place] += np.float64(total)
                out.words[place] += count
            if at >= stop:
                break
            at += 1


def ngram_scores(offsets: Offsets, data: Bytes, rows: Rows, tables: Tables, by_line: bool) -> LogScores:
    """Score the texts numbered ``rows``: words are what ASCII whitespace separates.

    Args:
        by_line: whether each line that is not blank is a sentence; else a text is one. A blank text is an empty one.
    """
    out = LogScores(np.empty(rows.size), np.empty(rows.size, np.int64), np.empty(rows.size, np.int64))
    _score(tables, (frozen(offsets, np.int64), frozen(data, np.uint8)), frozen(rows, np.int64), by_line, out)
    return out


@njit(**INLINE_LATE)
def _parsed(data: Bytes, at: int) -> tuple[Scalar, Scalar]:
    """A decimal number, and where it ends; that is -1 if there is none."""
    while at < data.size and SPACES[data[at]]:
        at += 1
    negative = at < data.size and data[at] == 45
    at += negative
    digits, scale, power, seen = 0.0, 0, 0, 0
    point = False
    while at < data.size and (48 <= data[at] <= 57 or (data[at] == 46 and not point)):
        if data[at] == 46:
            point = True
        else:
            seen += 1
            if digits < 9e15:
                digits = digits * 10.0 + (data[at] - 48)
                scale -= point
            else:
                scale += not point
        at += 1
    if seen == 0:
        return 0.0, np.int64(-1)
    if at < data.size and (data[at] | 0x20) == 101:
        at += 1
        down = at < data.size and data[at] == 45
        at += at < data.size and (data[at] == 45 or data[at] == 43)
        begin = at
        while at < data.size and 48 <= data[at] <= 57:
            power = min(power * 10 + (data[at] - 48), 10000)
            at += 1
        if at == begin:
            return 0.0, np.int64(-1)
        scale += -power if down else power
    value = digits / 10.0 ** min(-scale, 300) if scale < 0 else digits * 10.0 ** min(scale, 300)
    return (-value if negative else value), np.int64(at)


@njit(**INLINE)
def _slot(tables: Tables, left: Ints, order: int, key: Word) -> tuple[Scalar, Scalar]:
    """The entry of an n-gram, made where there is none, and whether it was there; -1 if the table is full."""
    stride = 3 if order == tables.places.size // 2 - 1 else 4
    at = _find(tables.cells, _table(tables, order), stride, key)
    if at >= 0:
        return at, True
    left[order] -= 1
    if at == -1 or left[order] < 1:
        return np.int64(-1), False
    at = -2 - at
    tables.cells[at], tables.cells[at + 1] = np.uint32(key & np.uint64(0xFFFFFFFF)), np.uint32(key >> _HALF)
    if stride == 4:
        tables.cells[at + 3] = _SIGN
    return at, False


@njit(**INLINE)
def _unset(tables: Tables, order: int, at: int) -> Scalar:
    """The cell of an entry's log probability, whose sign is unset: a longer n-gram ends with this one."""
    cell = at if order == 1 else at + 2
    tables.cells[cell] &= ~_SIGN
    return cell


class _Scratch(NamedTuple):
    """The words of an n-gram, the last one first, and for each length of its ends the key and the first cell."""

    words: Ints
    keys: npt.NDArray[np.uint64]
    ends: Ints


@njit(**INLINE_LATE)
def _find_end(tables: Tables, left: Ints, scratch: _Scratch, order: int) -> Scalar:
    """The order of the longest n-gram that one ends with; longer ones are made without a log probability."""
    basis = order - 1
    while basis > 1:
        scratch.ends[basis], there = _slot(tables, left, basis, scratch.keys[basis])
        if scratch.ends[basis] < 0:
            return np.int64(FULL)
        if there:
            return np.int64(basis)
        basis -= 1
    scratch.ends[1] = tables.places[2] + 2 * scratch.words[0]
    return np.int64(1)


@njit(**INLINE_LATE)
def _backoff_cell(tables: Tables, words: Ints, order: int) -> Scalar:
    """The cell of the backoff of the ``order`` words before the last one, marked as context; -1 if there is none."""
    cell = tables.places[2] + 2 * words[1] + 1
    if order > 1:
        context = np.uint64(words[1])
        for step in range(2, order + 1):
            context = _extended(context, words[step])
        at = _find(tables.cells, _table(tables, order), 4, context)
        if at < 0:
            return np.int64(-1)
        cell = at + 3
    if tables.floats[cell] == 0:
        tables.cells[cell] = np.uint32(0)
    return cell


@njit(**INLINE_LATE)
def _place_ngram(tables: Tables, left: Ints, scratch: _Scratch, order: int, numbers: tuple[Scalar, Scalar]) -> Scalar:
    """Put an n-gram, its last word first, into its table, and those that it ends with where they are missing."""
    cells, floats = tables.cells, tables.floats
    words, keys, ends = scratch.words, scratch.keys, scratch.ends
    keys[1] = np.uint64(words[0])
    for step in range(1, order):
        keys[step + 1] = _extended(keys[step], words[step])
    at, _ = _slot(tables, left, order, keys[order])
    basis = np.int64(FULL) if at < 0 else _find_end(tables, left, scratch, order)
    if basis < 0:
        return basis
    floats[at + 2] = np.float32(numbers[0])
    cells[at + 2] |= _SIGN
    if order < tables.places.size // 2 - 1:
        floats[at + 3] = np.float32(numbers[1])
        if floats[at + 3] == 0:
            cells[at + 3] = _SIGN
    score = -abs(floats[_unset(tables, basis, ends[basis])])
    for longer in range(basis + 1, order):
        cell = _backoff_cell(tables, words, longer - 1)
        if cell >= 0:
            score += floats[cell]
        floats[ends[longer] + 2] = score
        _unset(tables, longer, ends[longer])
    return np.int64(0) if _backoff_cell(tables, words, order - 1) >= 0 else np.int64(NO_CONTEXT)


@njit(**INLINE)
def _is_unknown(value: Word) -> Scalar:
    """Whether a hash is that of ``<unk>`` or ``<UNK>``."""
    return (value == _UNKNOWN) | (value == _UNKNOWN_CAPITAL)


@njit(**INLINE_LATE)
def _place_word(tables: Tables, left: Ints, value: Word, numbers: tuple[Scalar, Scalar]) -> Scalar:
    """Put a word into the tables; words that stand for unknown ones have the number 0."""
    cells, floats = tables.cells, tables.floats
    number = np.int64(0)
    if not _is_unknown(value):
        at = _find(tables.cells, _table(tables, 0), 3, value)
        if at >= 0:
            return np.int64(REPEATED)
        left[0] -= 1
        if at == -1 or left[0] < 1:
            return np.int64(FULL)
        at = -2 - at
        number = left[1]
        left[1] += 1
        cells[at], cells[at + 1] = np.uint32(value & np.uint64(0xFFFFFFFF)), np.uint32(value >> _HALF)
        cells[at + 2] = np.uint32(number)
    at = tables.places[2] + 2 * number
    if number >= tables.places[3]:
        return np.int64(FULL)
    floats[at], floats[at + 1] = np.float32(numbers[0]), np.float32(numbers[1])
    cells[at] |= _SIGN
    if floats[at + 1] == 0:
        cells[at + 1] = _SIGN
    return np.int64(0)


@njit(**OPTIONS)
def add_ngrams(tables: Tables, left: Ints, data: Bytes, at: int, sizes: tuple[int, int]) -> tuple[Scalar, Scalar]:
    """Put the n-grams of a section of an ARPA file into the tables.

    Args:
        left: for each table how many entries it can still take; at 1 the number of the next word.
        at: where the section's first line begins.
        sizes: words of its n-grams, and its lines.

    Returns:
        Where the section ends, or one of the codes of this module; and the place of the line with the error.
    """
    order, count = sizes
    words = np.zeros(LONGEST_ORDER, np.int64)
    scratch = _Scratch(words, np.zeros(LONGEST_ORDER + 1, np.uint64), np.zeros(LONGEST_ORDER + 1, np.int64))
    last = tables.places.size // 2 - 1
    for _ in range(count):
        begin = np.int64(at)
        number, at = _parsed(data, at)
        if at < 0 or not number <= 0:
            return np.int64(BAD_NUMBER), begin
        value = np.uint64(0)
        for step in range(order):
            while at < data.size and (data[at] == _BLANK or data[at] == _TAB):
                at += 1
            start = at
            while at < data.size and data[at] not in (_BLANK, _TAB, _NEWLINE, _RETURN):
                at += 1
            if at == start:
                return np.int64(BAD_LINE), begin
            value = word_hash(data, start, at)
            if order > 1:
                words[order - 1 - step] = _number(tables, value)
                if words[order - 1 - step] == 0 and not _is_unknown(value):
                    return np.int64(UNKNOWN_WORD), begin
        backoff = 0.0
        if at < data.size and data[at] == _TAB:
            backoff, at = _parsed(data, at)
            if at < 0 or abs(backoff) > 1e30 or (order == last and backoff != 0):
                return np.int64(BAD_NUMBER), begin
        at += at < data.size and data[at] == _RETURN
        if at >= data.size or data[at] != _NEWLINE:
            return np.int64(BAD_LINE), begin
        at += 1
        numbers = (number, backoff)
        code = (
            _place_word(tables, left, value, numbers)
            if order == 1
            else _place_ngram(tables, left, scratch, order, numbers)
        )
        if code < 0:
            return code, begin
    return np.int64(at), np.int64(at)


@njit(**OPTIONS)
def numbers_of(tables: Tables, offsets: Offsets, data: Bytes, out: Ints) -> None:
    """The numbers of words, 0 for those that the model does not have."""
    for word in range(out.size):
        out[word] = _number(tables, word_hash(data, offsets[word], offsets[word + 1]))


def murmur(word: bytes) -> np.uint64:
    """MurmurHash64A in plain Python."""
    factor, full = 0xC6A4A7935BD1E995, 2**64 - 1
    value = len(word) * factor & full
    for at in range(0, len(word) - len(word) % 8, 8):
        block = int.from_bytes(word[at : at + 8], "little") * factor & full
        value = (value ^ ((block ^ block >> 47) * factor & full)) * factor & full
    if len(word) % 8:
        value = (value ^ int.from_bytes(word[len(word) - len(word) % 8 :], "little")) * factor & full
    value = (value ^ value >> 47) * factor & full
    return np.uint64(value ^ value >> 47)


_UNKNOWN, _UNKNOWN_CAPITAL = murmur(b"<unk>"), murmur(b"<UNK>")

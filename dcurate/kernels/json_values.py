"""The grammar of JSON: where the values in a line end. Nothing at ``stop`` or after it is read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.layout import INLINE_LATE, SHARED, Bytes, Scalar, Word

#: What a key of a row holds.
ABSENT, NULL, BOOLEAN, INTEGER, FLOAT, TEXT, ESCAPED_TEXT, OBJECT, ARRAY = range(9)

TAB, NEWLINE, RETURN, SPACE = np.uint8(9), np.uint8(10), np.uint8(13), np.uint8(32)
QUOTE, BACKSLASH, COMMA, COLON = np.uint8(34), np.uint8(92), np.uint8(44), np.uint8(58)
OPEN, CLOSE, _OPEN_LIST, _CLOSE_LIST = np.uint8(123), np.uint8(125), np.uint8(91), np.uint8(93)
ZERO, _NINE, MINUS, _PLUS, _DOT = np.uint8(48), np.uint8(57), np.uint8(45), np.uint8(43), np.uint8(46)
LOWER_U = np.uint8(117)
#: Bytes that are compared at once, in one or two vector instructions.
_BLOCK = 32
_QUOTES, _BACKSLASHES, _SPACES, _ONES, _HIGH = (np.uint64(byte * 0x0101010101010101) for byte in b'"\\ \x01\x80')
_ONE, _TOP = np.uint64(1), np.uint64(56)
_WORDS = np.frombuffer(b"nulltruefalse", np.uint8)


def _table(pairs: dict[int, int], default: int) -> npt.NDArray[np.int16]:
    table = np.full(256, default, np.int16)
    table[list(pairs)] = list(pairs.values())
    return table


#: The byte that a letter after a backslash means; -1 if there is no such escape.
ESCAPES = _table(dict(zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True)), -1)
#: The value of a hexadecimal digit; -1 if the byte is none.
_HEX = _table({digit: int(chr(digit), 16) for digit in b"0123456789abcdefABCDEF"}, -1)

#: Scratch: whether the value at each depth is an object. It is as long as values may be deep.
Levels = npt.NDArray[np.bool_]


@njit(**INLINE_LATE)
def skip_white(data: Bytes, at: int, stop: int) -> Scalar:
    """The first position that holds no whitespace, or the end."""
    while at < stop and (data[at] == SPACE or data[at] == TAB or data[at] == RETURN):
        at += 1
    return at


@njit(**INLINE_LATE)
def _first(bits: Word) -> Scalar:
    """Which of eight bytes is the first that is marked by its highest bit; there is one."""
    return np.int64(((((bits - _ONE) & ~bits) & _ONES) * _ONES) >> _TOP) - 1


@njit(**INLINE_LATE)
def find_byte(data: Bytes, at: int, stop: int, byte: Scalar) -> Scalar:
    """The first position of a byte, or the end."""
    while at + _BLOCK <= stop:
        hit, first = False, np.uint64(at)
        for step in range(_BLOCK):
            hit |= data[first + np.uint64(step)] == byte
        if hit:
            break
        at += _BLOCK
    while at + 8 <= stop:
        bits = has_zero(load_eight(data, at) ^ (np.uint64(byte) * _ONES))
        if bits:
            return at + _first(bits)
        at += 8
    while at < stop and data[at] != byte:
        at += 1
    return at


@njit(**INLINE_LATE)
def _specials(eight: Word) -> Word:
    """Not 0 if a string cannot hold one of eight bytes as it is; its first mark is right."""
    control = (eight - _SPACES) & ~eight & _HIGH
    return has_zero(eight ^ _QUOTES) | has_zero(eight ^ _BACKSLASHES) | control


@njit(**INLINE_LATE)
def find_special(data: Bytes, at: int, stop: int) -> Scalar:
    """The first byte that a string cannot hold as it is, or the end."""
    short = min(at + _BLOCK, stop)
    while at + 8 <= short:
        bits = _specials(load_eight(data, at))
        if bits:
            return at + _first(bits)
        at += 8
    while at + _BLOCK <= stop:
        hit, first = False, np.uint64(at)
        for step in range(_BLOCK):
            byte = data[first + np.uint64(step)]
            hit |= (byte == QUOTE) | (byte == BACKSLASH) | (byte < SPACE)
        if hit:
            break
        at += _BLOCK
    while at + 8 <= stop:
        bits = _specials(load_eight(data, at))
        if bits:
            return at + _first(bits)
        at += 8
    while at < stop and data[at] != QUOTE and data[at] != BACKSLASH and data[at] >= SPACE:
        at += 1
    return at


@njit(**INLINE_LATE)
def code_unit(data: Bytes, at: int, stop: int) -> Scalar:
    r"""The value of the escape ``\uXXXX`` at this position; -1 if there is none."""
    if at + 6 > stop or data[at] != BACKSLASH or data[at + 1] != LOWER_U:
        return np.int64(-1)
    unit = np.int64(0)
    for step in range(2, 6):
        digit = _HEX[data[at + step]]
        if digit < 0:
            return np.int64(-1)
        unit = unit * 16 + digit
    return unit


@njit(**SHARED)
def _end_of_string(data: Bytes, at: int, stop: int) -> Scalar:
    """The closing quote of the string that begins at this position, and whether it holds escapes; -1 if it is none.

    A surrogate that is not one of a pair is no text, so a string that holds one is none.
    """
    escaped = False
    while True:
        at = find_special(data, at, stop)
        if at == stop or data[at] < SPACE:
            return np.int64(-1), escaped
        if data[at] == QUOTE:
            return np.int64(at), escaped
        escaped = True
        if at + 1 == stop:
            return np.int64(-1), escaped
        if data[at + 1] != LOWER_U:
            if ESCAPES[data[at + 1]] < 0:
                return np.int64(-1), escaped
            at += 2
            continue
        unit = code_unit(data, at, stop)
        at += 6
        if unit < 0 or 0xDC00 <= unit < 0xE000:
            return np.int64(-1), escaped
        if 0xD800 <= unit < 0xDC00:
            if not 0xDC00 <= code_unit(data, at, stop) < 0xE000:
                return np.int64(-1), escaped
            at += 6


@njit(**INLINE_LATE)
def _skip_digits(data: Bytes, at: int, stop: int) -> Scalar:
    while at < stop and ZERO <= data[at] <= _NINE:
        at += 1
    return at


@njit(**INLINE_LATE)
def _end_of_number(data: Bytes, at: int, stop: int) -> Scalar:
    """The end of a number, and its kind; -1 if it is none."""
    kind = INTEGER
    if at < stop and data[at] == MINUS:
        at += 1
    begin, at = at, _skip_digits(data, at, stop)
    if at == begin or (data[begin] == ZERO and at > begin + 1):
        return np.int64(-1), kind
    if at < stop and data[at] == _DOT:
        kind = FLOAT
        begin, at = at + 1, _skip_digits(data, at + 1, stop)
        if at == begin:
            return np.int64(-1), kind
    if at < stop and (data[at] | 32) == 101:
        kind = FLOAT
        at += 1
        if at < stop and (data[at] == _PLUS or data[at] == MINUS):
            at += 1
        begin, at = at, _skip_digits(data, at, stop)
        if at == begin:
            return np.int64(-1), kind
    return np.int64(at), kind


@njit(**INLINE_LATE)
def _end_of_word(data: Bytes, at: int, stop: int) -> Scalar:
    """The end of ``null``, ``true`` or ``false``, and its kind; -1 if it is none of them."""
    first, size, kind = 0, 4, NULL
    if data[at] == 116:
        first, kind = 4, BOOLEAN
    elif data[at] == 102:
        first, size, kind = 8, 5, BOOLEAN
    if at + size > stop:
        return np.int64(-1), kind
    for step in range(size):
        if data[at + step] != _WORDS[first + step]:
            return np.int64(-1), kind
    return np.int64(at + size), kind


@njit(**INLINE_LATE)
def end_of_scalar(data: Bytes, at: int, stop: int) -> Scalar:
    """The end of a string, number, or word, and its kind; -1 if it is none of them."""
    byte = data[at]
    if byte == QUOTE:
        end, escaped = _end_of_string(data, at + 1, stop)
        return (end + 1 if end >= 0 else end), (ESCAPED_TEXT if escaped else TEXT)
    if byte == MINUS or ZERO <= byte <= _NINE:
        return _end_of_number(data, at, stop)
    return _end_of_word(data, at, stop)


@njit(**INLINE_LATE)
def end_of_key(data: Bytes, at: int, stop: int) -> Scalar:
    """The closing quote of the key that begins at this position, whether it holds escapes, and where its value is.

    All are -1 if there is no key with a colon.
    """
    none = np.int64(-1)
    if at >= stop or data[at] != QUOTE:
        return none, False, none
    end, escaped = _end_of_string(data, at + 1, stop)
    if end < 0:
        return none, False, none
    at = skip_white(data, end + 1, stop)
    if at == stop or data[at] != COLON:
        return none, False, none
    at = skip_white(data, at + 1, stop)
    return (end, escaped, np.int64(at)) if at < stop else (none, False, none)


@njit(**INLINE_LATE)
def _closes(data: Bytes, at: int, stop: int, is_object: bool) -> Scalar:
    return at < stop and data[at] == (CLOSE if is_object else _CLOSE_LIST)


@njit(**INLINE_LATE)
def _next_value(data: Bytes, at: int, stop: int, is_object: bool) -> Scalar:
    """Where the value begins of the member of an object or list that begins at this position; -1 if there is none."""
    if is_object:
        return end_of_key(data, at, stop)[2]
    return np.int64(at) if at < stop else np.int64(-1)


@njit(**INLINE_LATE)
def _end_of_nested(data: Bytes, at: int, stop: int, levels: Levels) -> Scalar:
    """The end of the object or list at this position; -1 if it is none, or nested deeper than ``levels`` is long."""
    none, depth = np.int64(-1), 0
    while at >= 0:
        if data[at] == OPEN or data[at] == _OPEN_LIST:
            if depth == levels.size:
                return none
            levels[depth] = data[at] == OPEN
            depth += 1
            at = skip_white(data, at + 1, stop)
            if not _closes(data, at, stop, levels[depth - 1]):
                at = _next_value(data, at, stop, levels[depth - 1])
                continue
        else:
            at, _ = end_of_scalar(data, at, stop)
            if at < 0:
                return none
            at = skip_white(data, at, stop)
        while _closes(data, at, stop, levels[depth - 1]):
            depth -= 1
            if depth == 0:
                return np.int64(at + 1)
            at = skip_white(data, at + 1, stop)
        if at == stop or data[at] != COMMA:
            return none
        at = _next_value(data, skip_white(data, at + 1, stop), stop, levels[depth - 1])
    return none


@njit(**INLINE_LATE)
def end_of_value(data: Bytes, at: int, stop: int, levels: Levels) -> Scalar:
    """The end of the value at this position, and its kind; -1 if there is none."""
    if data[at] == OPEN or data[at] == _OPEN_LIST:
        return _end_of_nested(data, at, stop, levels), (OBJECT if data[at] == OPEN else ARRAY)
    return end_of_scalar(data, at, stop)

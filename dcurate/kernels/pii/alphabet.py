"""Byte classes, and boundaries of words, numbers and addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.kernels.layout import OPTIONS, Bytes, Scalar

#: How the functions are compiled that only kernels call.
INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# Numbers of numba's own type: a function would be compiled once for each plain one that it is given.
DIGIT, UPPER, LOWER, UNDERSCORE, HEX, LOCAL = (np.int64(1 << bit) for bit in range(6))
LETTER, ALNUM, WORD = UPPER | LOWER, DIGIT | UPPER | LOWER, DIGIT | UPPER | LOWER | UNDERSCORE

SPACE, HASH, PERCENT, OPEN, CLOSE, PLUS, COMMA, HYPHEN, DOT, SLASH, ZERO = (np.int64(byte) for byte in b" #%()+,-./0")
COLON, AT = (np.int64(byte) for byte in b":@")

#: Characters of the local part of an address besides letters and digits; other marks that RFC 5322 allows
#: are far more often the end of something else, such as ``to=`` or a quotation mark.
_LOCAL = b"._%+-'&~#!$*^"


def _class_of(byte: int) -> int:
    character = chr(byte) if byte < 0x80 else ""
    classes = (
        DIGIT * character.isdigit()
        | UPPER * character.isupper()
        | LOWER * character.islower()
        | UNDERSCORE * (character == "_")
        | HEX * (character != "" and character in "0123456789abcdefABCDEF")
        | LOCAL * (character.isalnum() or byte in _LOCAL)
    )
    return int(classes)


#: The classes of each byte, as bits. Bytes beyond ASCII are in none.
CLASS = np.array([_class_of(byte) for byte in range(256)], np.uint8)


@njit(**INNER)
def in_class(data: Bytes, start: int, at: int, stop: int, wanted: int) -> Scalar:
    """Whether the byte at ``at``, within ``start`` and ``stop``, is of one of the classes."""
    return start <= at < stop and CLASS[data[at]] & wanted != 0


@njit(**INNER)
def is_byte(data: Bytes, start: int, at: int, stop: int, byte: int) -> Scalar:
    """Whether the byte at ``at``, within ``start`` and ``stop``, equals the given one."""
    return start <= at < stop and data[at] == byte


@njit(**INNER)
def two_byte_letter(data: Bytes, at: int, stop: int) -> Scalar:
    """Whether a two-byte letter begins at ``at``: Latin with marks, Greek, Cyrillic, Hebrew, Arabic."""
    if at + 1 >= stop or not 0xC3 <= data[at] <= 0xDF:
        return False
    return data[at] != 0xC3 or (data[at + 1] != 0x97 and data[at + 1] != 0xB7)


@njit(**INNER)
def ends_number(data: Bytes, at: int, stop: int) -> Scalar:
    """Whether the text ending at ``at`` is not part of a longer number, word or address."""
    if at >= stop:
        return True
    byte = data[at]
    if CLASS[byte] & WORD or byte in (AT, PERCENT):
        return False
    if byte in (HYPHEN, DOT, SLASH, COMMA, COLON):
        return not in_class(data, at, at + 1, stop, DIGIT)
    if byte == 0xE2 and at + 3 < stop and data[at + 1] == 0x80 and 0x90 <= data[at + 2] <= 0x95:
        return not in_class(data, at, at + 3, stop, DIGIT)
    return True

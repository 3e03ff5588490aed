"""What the kernels of near-duplicates compute, in plain Python."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dcurate.kernels.normal_words import SPACE, letters

MASK = 2**64 - 1
MIX, STIR, BASE = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xD1342543DE82EF95
EMPTY = 2**32 - 1


def layout(*texts: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    parts = [text.encode() for text in texts]
    return np.cumsum([0, *map(len, parts)]), np.frombuffer(b"".join(parts), np.uint8), np.arange(len(parts))


def words(text: str) -> list[str]:
    r"""The words of a text: runs of ``\w``; each character of a script without spaces is one."""
    found: list[str] = []
    for run in re.findall(r"\w+", text.lower().replace("ς", "σ")):
        inside = False
        for character in run:
            alone = ord(character) < 0x40000 and letters()[ord(character)] < SPACE
            if inside and not alone:
                found[-1] += character
            else:
                found.append(character)
            inside = not alone
    return found


def units(text: str, unit: str) -> list[str]:
    return words(text) if unit == "words" else list(text)


def shingle_set(text: str, size: int, unit: str) -> set[tuple[str, ...]]:
    parts = units(text, unit)
    return {tuple(parts[at : at + size]) for at in range(max(1, len(parts) - size + 1))} if parts else set()


def stirred(value: int) -> int:
    value = (value ^ value >> 32) * STIR & MASK
    return value ^ value >> 32


def mixed(value: int) -> int:
    value = (value ^ value >> 32) * MIX & MASK
    return stirred(value ^ value >> 29)


def hash_word(word: str) -> int:
    parts = [
        bytes([ord(c) | 0x20]) if ord(c) < 0x80 else bytes(0x80 | ord(c) >> shift & 0x7F for shift in (0, 7, 14))
        for c in word
    ]
    data = b"".join(parts)
    value = 0
    while len(data) > 8:
        value = (value ^ int.from_bytes(data[:8], "little")) * MIX & MASK
        value ^= value >> 32
        data = data[8:]
    return stirred(value ^ int.from_bytes(data, "little"))


def hash_character(character: str) -> int:
    packed = int.from_bytes(character.encode(), "little")
    return (packed + (packed < 0x80)) * MIX & MASK


def shingle_hashes(text: str, size: int, unit: str, seed: int) -> set[int]:
    hash_unit = hash_word if unit == "words" else hash_character
    found = set()
    for shingle in shingle_set(text, size, unit):
        total = 0
        for part in shingle:
            total = (total * BASE + hash_unit(part)) & MASK
        found.add(mixed(total ^ seed))
    return found


def one_permutation(hashes: Iterable[int], bins: int) -> list[int]:
    """The least value of each bin in the first round that reaches it."""
    shingles = list(hashes)
    if not shingles:
        return [EMPTY] * bins
    found: dict[int, int] = {}
    for number in range(2 * bins):
        least: dict[int, int] = {}
        for shingle in shingles:
            again = stirred(shingle ^ number * MIX & MASK) if number else shingle
            place = (again >> 32) * bins >> 32 if number < bins else number - bins
            least[place] = min(least.get(place, EMPTY - 1), again & EMPTY)
        found = least | found
        if len(found) == bins:
            break
    return [found[place] for place in range(bins)]


def permuted(hashes: Iterable[int], factors: Iterable[int], summands: Iterable[int]) -> list[int]:
    values = [shingle & EMPTY for shingle in hashes]
    return [
        min(((a * value + b) & EMPTY for value in values), default=EMPTY)
        for a, b in zip(factors, summands, strict=True)
    ]

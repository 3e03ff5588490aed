"""MinHash signatures: the expected share of equal entries is the Jaccard similarity of the shingle sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import find_leader, stirred, table_bits
from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Bytes, Places, Rows, Scalar, Words, frozen
from dcurate.kernels.shingles import Reading, Rule, is_open, new_reading, next_shingles, open_text, word_letters
from dcurate.kernels.signal import Array, Output, signal

#: Every entry of the signature of a text without shingles, and no other entry.
EMPTY = np.uint32(0xFFFFFFFF)

_LARGEST = np.uint32(0xFFFFFFFE)
_ROUND = np.uint64(0x9E3779B97F4A7C15)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

#: Shingles kept for each place of a signature, in case they are needed again; with as many, no bin is empty.
KEPT = 64

Signatures = npt.NDArray[np.uint32]


class ShinglePlan(NamedTuple):
    """How texts are split into shingles, the letters of words, and the length of a signature."""

    rule: Rule
    table: npt.NDArray[np.int32]
    num_hashes: int


class SignScratch(NamedTuple):
    """Scratch for one text: its shingles, a hash table of them, and the round that filled each bin."""

    reading: Reading
    kept: npt.NDArray[np.uint64]
    leaders: npt.NDArray[np.int32]
    rounds: npt.NDArray[np.int32]


@njit(**INLINE)
def _value(shingle: np.uint64) -> Scalar:
    return min(np.uint32(shingle & _LOW), _LARGEST)


@njit(**INLINE)
def _bin(shingle: np.uint64, bins: np.uint64) -> Scalar:
    return ((shingle >> _HALF) * bins) >> _HALF


@njit(**INLINE)
def _count_empty(signature: Signatures) -> Scalar:
    count = 0
    for value in signature:
        count += value == EMPTY
    return count


@njit(**OPTIONS)
def _fill(signature: Signatures, shingles: Words, rounds: Places, empty: int) -> None:
    """Densify a signature: hash the shingles to empty bins again until none is empty.

    A bin takes the least value of the first round that reaches it, so that each bin still agrees for two texts with a
    chance that is their similarity, and no two bins depend on one another more than they must.
    """
    bins = np.uint64(signature.size)
    for place in range(signature.size):
        rounds[place] = -1 if signature[place] == EMPTY else 0
    for number in range(1, signature.size):
        salt = np.uint64(number) * _ROUND
        for shingle in shingles:
            again = stirred(shingle ^ salt)
            place = _bin(again, bins)
            if rounds[place] < 0:
                rounds[place] = number
                signature[place] = _value(again)
                empty -= 1
            elif rounds[place] == number:
                signature[place] = min(signature[place], _value(again))
        if empty == 0:
            return
    for place in range(signature.size):
        if rounds[place] < 0:
            salt = np.uint64(signature.size + place) * _ROUND
            for shingle in shingles:
                signature[place] = min(signature[place], _value(stirred(shingle ^ salt)))


@njit(**OPTIONS)
def _distinct(shingles: Words, table: Places) -> Scalar:
    """Move the distinct shingles to the front; returns their number."""
    bits = table_bits(shingles.size)
    table[: 1 << bits] = 0
    count = 0
    for shingle in shingles:
        shingles[count] = shingle
        count += int(find_leader(table, bits, shingles, count) == count)
    return count


@njit(**OPTIONS)
def sign_text(
    data: Bytes, span: tuple[int, int], plan: ShinglePlan, scratch: SignScratch, signature: Signatures
) -> None:
    """Write the one-permutation signature of a text."""
    rule, table, _ = plan
    reading, kept = scratch.reading, scratch.kept
    bins, limit = np.uint64(signature.size), KEPT * signature.size
    signature[:] = EMPTY
    open_text(reading, span[0], span[1], rule.size)
    count = 0
    while is_open(reading):
        first, stop = next_shingles(data, reading, rule, table)
        for number in range(first, stop):
            shingle = reading.hashes[np.uint64(number)]
            at = _bin(shingle, bins)
            signature[at] = min(signature[at], _value(shingle))
            kept[np.uint64(count + number - first)] = shingle
        count += stop - first
        if count >= limit:
            count = _distinct(kept[:count], scratch.leaders) if _count_empty(signature) else 0
            count = min(count, limit - 1)
    empty = _count_empty(signature)
    if empty and count:
        count = _distinct(kept[:count], scratch.leaders) if count > 4 * signature.size else count
        _fill(signature, kept[:count], scratch.rounds, empty)


@njit(**ALLOCATING)
def new_sign_scratch(most: int, plan: ShinglePlan) -> SignScratch:
    """Scratch for texts of at most ``most`` bytes."""
    reading, bins = new_reading(plan.rule.size), plan.num_hashes
    kept = np.empty(min(KEPT * bins, most) + reading.hashes.size, np.uint64)
    return SignScratch(reading, kept, np.empty(1 << int(table_bits(kept.size)), np.int32), np.empty(bins, np.int32))


def _shape(plan: Any) -> tuple[int, ...]:
    return (plan.num_hashes,)


def _unchanged(out: Array, plan: Any) -> Signatures:
    return out


#: Signatures of length ``plan.num_hashes``.
SIGNATURES = Output(_shape, _unchanged, np.uint32)


@signal(sign_text, SIGNATURES, scratch=Scratch(new_sign_scratch))
def one_permutation(rule: Rule, num_hashes: int) -> ShinglePlan:
    """One-permutation signatures of length ``num_hashes``."""
    return ShinglePlan(rule, word_letters(), num_hashes)


@njit(**OPTIONS)
def _equal_shares(signatures: Signatures, left: Rows, right: Rows, out: npt.NDArray[np.float64]) -> None:
    for pair in range(left.size):
        first, second = signatures[left[pair]], signatures[right[pair]]
        equal = np.uint32(0)
        for place in range(first.size):
            equal += np.uint32(first[place] == second[place])
        out[pair] = equal / first.size


def equal_shares(signatures: Signatures, left: Rows, right: Rows) -> npt.NDArray[np.float64]:
    """The share of equal entries of pairs of signatures."""
    out = np.empty(len(left), np.float64)
    _equal_shares(frozen(signatures, np.uint32), frozen(left, np.int64), frozen(right, np.int64), out)
    return out


@njit(**INLINE)
def hash_bands(signature: Signatures, rows: int, out: Words) -> None:
    """Write a hash of each band of a signature."""
    for band in range(out.size):
        value = np.uint64(band + 1) * _ROUND
        for row in range(band * rows, (band + 1) * rows):
            value = (value ^ np.uint64(signature[row])) * _ROUND
            value ^= value >> _HALF
        out[band] = max(stirred(value), np.uint64(1))


@njit(**OPTIONS)
def _band_keys(signatures: Signatures, rows: int, out: Words) -> None:
    for place in range(signatures.shape[0]):
        hash_bands(signatures[place], rows, out[place])


def band_keys(signatures: Signatures, bands: int, rows: int) -> Words:
    """A hash of each band of signatures, including its index; never 0."""
    out = np.empty((len(signatures), bands), np.uint64)
    _band_keys(frozen(signatures, np.uint32), rows, out)
    return out

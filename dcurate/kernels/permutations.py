"""MinHash signatures of many permutations: for each, the least value that it sends a shingle to.

A permutation is ``a * x + b`` over 32 bits. Shingles come in blocks, and a block is gone through once for each
permutation, so that the processor works on many shingles at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Bytes, frozen
from dcurate.kernels.minhash import EMPTY, SIGNATURES, Signatures
from dcurate.kernels.murmur import murmur3_32
from dcurate.kernels.shingles import (
    Reading,
    Rule,
    character_width,
    is_open,
    new_reading,
    next_shingles,
    open_text,
    word_letters,
)
from dcurate.kernels.signal import signal

_BLOCK = 1024
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint32(1)
_STEP = np.uint64(0x9E3779B97F4A7C15)


class Window(NamedTuple):
    """Characters of a window, and the seed of its MurmurHash3."""

    width: int
    seed: np.uint32


class Permutations(NamedTuple):
    """For each place of a signature, the factor and the summand of its permutation."""

    factors: npt.NDArray[np.uint32]
    summands: npt.NDArray[np.uint32]

    @classmethod
    def seeded(cls, count: int, seed: int) -> Permutations:
        """Draw ``count`` permutations from a seed; each factor is odd, because only then it is a permutation."""
        numbers = np.arange(1, 2 * count + 1, dtype=np.uint64) * _STEP + np.uint64(seed)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
        drawn = ((numbers ^ (numbers >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)
        return cls(drawn[:count] | _ONE, drawn[count:])

    @classmethod
    def of_nemo(cls, count: int, seed: int) -> Permutations:
        """The permutations that NeMo Curator draws for cuDF; its seed of MurmurHash3 is the first factor."""
        draw = np.random.RandomState(seed).randint
        most = 2**31 - 1
        drawn = [(draw(1, most, dtype=np.uint32), draw(0, most, dtype=np.uint32)) for _ in range(count)]
        return cls(*np.array(drawn, np.uint32).T)


@njit(**OPTIONS)
def _lower(signature: Signatures, hashes: npt.NDArray[np.uint32], permutations: Permutations) -> None:
    """Lower each place of a signature to the least value that its permutation sends one of the hashes to."""
    factors, summands = permutations
    for place in range(0, signature.size, 4):
        f0, f1, f2, f3 = factors[place], factors[place + 1], factors[place + 2], factors[place + 3]
        s0, s1, s2, s3 = summands[place], summands[place + 1], summands[place + 2], summands[place + 3]
        v0, v1, v2, v3 = signature[place], signature[place + 1], signature[place + 2], signature[place + 3]
        for at in range(hashes.size):
            value = hashes[at]
            v0 = min(v0, np.uint32(f0 * value + s0))
            v1 = min(v1, np.uint32(f1 * value + s1))
            v2 = min(v2, np.uint32(f2 * value + s2))
            v3 = min(v3, np.uint32(f3 * value + s3))
        signature[place], signature[place + 1], signature[place + 2], signature[place + 3] = v0, v1, v2, v3


class PermutedPlan(NamedTuple):
    """How texts are split into shingles, padded permutations and their number, and the letters of words."""

    rule: Rule
    permutations: Permutations
    num_hashes: int
    table: npt.NDArray[np.int32]


class HashScratch(NamedTuple):
    """Scratch for one text: a block of hashes, and a signature of padded length."""

    hashes: npt.NDArray[np.uint32]
    signature: Signatures


@njit(**ALLOCATING)
def new_permuted_scratch(most: int, plan: PermutedPlan) -> tuple[Reading, HashScratch]:
    """Scratch for texts of any length."""
    reading = new_reading(plan.rule.size)
    hashes = np.empty(_BLOCK + reading.hashes.size, np.uint32)
    return reading, HashScratch(hashes, np.empty(plan.permutations.factors.size, np.uint32))


@njit(**INLINE)
def sign_permuted(
    data: Bytes, span: tuple[int, int], plan: PermutedPlan, scratch: tuple[Reading, HashScratch], out: Signatures
) -> None:
    """Write the signature of a text of many permutations."""
    rule, permutations, _, table = plan
    reading, (hashes, signature) = scratch
    signature[:] = EMPTY
    count = 0
    open_text(reading, span[0], span[1], rule.size)
    while is_open(reading):
        first, stop = next_shingles(data, reading, rule, table)
        for number in range(first, stop):
            hashes[count + number - first] = np.uint32(reading.hashes[number] & _LOW)
        count += stop - first
        if count >= _BLOCK:
            _lower(signature, hashes[:count], permutations)
            count = 0
    _lower(signature, hashes[:count], permutations)
    for number in range(out.size):
        out[number] = signature[number]


@signal(sign_permuted, SIGNATURES, scratch=Scratch(new_permuted_scratch))
def permuted(rule: Rule, permutations: Permutations) -> PermutedPlan:
    """Signatures with a place for each permutation."""
    return PermutedPlan(rule, padded(permutations), len(permutations.factors), word_letters())


class CudfPlan(NamedTuple):
    """The windows that are hashed, and padded permutations and their number."""

    window: Window
    permutations: Permutations
    num_hashes: int


@njit(**ALLOCATING)
def new_hash_scratch(most: int, plan: CudfPlan) -> HashScratch:
    """Scratch for texts of any length."""
    return HashScratch(np.empty(_BLOCK, np.uint32), np.empty(plan.permutations.factors.size, np.uint32))


@njit(**INLINE)
def sign_as_cudf(data: Bytes, span: tuple[int, int], plan: CudfPlan, scratch: HashScratch, out: Signatures) -> None:
    """Write the signature of a text as ``nvtext::minhash`` of libcudf makes it."""
    (width, seed), permutations, _ = plan
    hashes, signature = scratch
    start, stop = span
    signature[:] = EMPTY if start < stop else np.uint32(0)
    end = start
    for _ in range(width):
        end += character_width(data[end]) if end < stop else 0
    count = 0
    while start < stop:
        hashes[count] = max(murmur3_32(data, start, end, seed), _ONE)
        count += 1
        if count == _BLOCK:
            _lower(signature, hashes[:count], permutations)
            count = 0
        if end >= stop:
            break
        start += character_width(data[start])
        end = min(end + character_width(data[end]), stop)
    _lower(signature, hashes[:count], permutations)
    for number in range(out.size):
        out[number] = signature[number]


@signal(sign_as_cudf, SIGNATURES, scratch=Scratch(new_hash_scratch))
def as_cudf(window: Window, permutations: Permutations) -> CudfPlan:
    """Signatures as ``nvtext::minhash`` of libcudf makes them, equal to cuDF's ``Series.str.minhash``."""
    return CudfPlan(window, padded(permutations), len(permutations.factors))


def padded(permutations: Permutations) -> Permutations:
    """Pad to a multiple of four, as kernels take four at a time."""
    return Permutations(*(frozen(np.pad(array, (0, -len(array) % 4)), np.uint32) for array in permutations))

"""MinHash signatures of many permutations: for each, the least value that it sends a shingle to.

A permutation is ``a * x + b`` over 32 bits. Shingles come in blocks, and a block is gone through once for each
permutation, so that the processor works on many shingles at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Rows, frozen
from dcurate.kernels.minhash import EMPTY, Signatures
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
        """So many permutations, always the same for a seed: each factor is odd, so each is a permutation indeed."""
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
    """How texts are cut into shingles, what these are sent to, and the letters of words."""

    rule: Rule
    permutations: Permutations
    table: npt.NDArray[np.int32]


class HashRoom(NamedTuple):
    """Arrays for one text at a time: a block of hashes, and a signature of as many places as `padded` leaves."""

    hashes: npt.NDArray[np.uint32]
    signature: Signatures


@njit(**INLINE)
def new_hash_room(more: int, places: int) -> HashRoom:
    """Room for a block of hashes and so many more, and for a signature."""
    return HashRoom(np.empty(_BLOCK + more, np.uint32), np.empty(places, np.uint32))


@njit(**INLINE)
def sign_permuted(
    data: Bytes, span: tuple[int, int], plan: PermutedPlan, rooms: tuple[Reading, HashRoom], out: Signatures
) -> None:
    """Write the signature of a text of many permutations."""
    rule, permutations, table = plan
    reading, (hashes, signature) = rooms
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


@njit(**OPTIONS)
def _permuted(layout: tuple[Offsets, Bytes], rows: Rows, plan: PermutedPlan, out: Signatures) -> None:
    offsets, data = layout
    reading = new_reading(plan.rule.size)
    room = new_hash_room(reading.hashes.size, plan.permutations.factors.size)
    for place in range(rows.size):
        sign_permuted(data, (offsets[rows[place]], offsets[rows[place] + 1]), plan, (reading, room), out[place])


def permuted(offsets: Offsets, data: Bytes, rows: Rows, rule: Rule, permutations: Permutations) -> Signatures:
    """Signatures of the texts numbered ``rows``, with a place for each permutation."""
    out = np.empty((len(rows), len(permutations.factors)), np.uint32)
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    _permuted(layout, frozen(rows, np.int64), PermutedPlan(rule, padded(permutations), word_letters()), out)
    return out


class CudfPlan(NamedTuple):
    """The windows that are hashed, and what their hashes are sent to."""

    window: Window
    permutations: Permutations


@njit(**INLINE)
def sign_as_cudf(data: Bytes, span: tuple[int, int], plan: CudfPlan, room: HashRoom, out: Signatures) -> None:
    """Write the signature of a text as ``nvtext::minhash`` of libcudf makes it."""
    (width, seed), permutations = plan
    hashes, signature = room
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


@njit(**OPTIONS)
def _as_cudf(layout: tuple[Offsets, Bytes], rows: Rows, plan: CudfPlan, out: Signatures) -> None:
    offsets, data = layout
    room = new_hash_room(0, plan.permutations.factors.size)
    for place in range(rows.size):
        sign_as_cudf(data, (offsets[rows[place]], offsets[rows[place] + 1]), plan, room, out[place])


def as_cudf(offsets: Offsets, data: Bytes, rows: Rows, window: Window, permutations: Permutations) -> Signatures:
    """Signatures of the texts numbered ``rows``, as ``nvtext::minhash`` of libcudf makes them."""
    out = np.empty((len(rows), len(permutations.factors)), np.uint32)
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    _as_cudf(layout, frozen(rows, np.int64), CudfPlan(window, padded(permutations)), out)
    return out


def padded(permutations: Permutations) -> Permutations:
    """As many as kernels take: four at a time."""
    return Permutations(*(frozen(np.pad(array, (0, -len(array) % 4)), np.uint32) for array in permutations))

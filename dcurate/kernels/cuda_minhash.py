"""MinHash signatures, bands and text hashes on a GPU: the functions of `minhash`, `permutations` and `xxh3`.

The same bits as on the CPU, as far as numba's simulator of CUDA can tell; untested on a GPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda import CudaColumn, constant_on_gpu, copied, launch, on_gpu
from dcurate.kernels.hashing import hash_bytes
from dcurate.kernels.layout import INLINE, Bytes, Rows, Words
from dcurate.kernels.minhash import Plan, Room, Signatures, hash_bands, new_sign_room, sign_text
from dcurate.kernels.permutations import (
    CudfPlan,
    HashRoom,
    Permutations,
    PermutedPlan,
    Window,
    new_hash_room,
    padded,
    sign_as_cudf,
    sign_permuted,
)
from dcurate.kernels.shingles import Reading, Rule, new_reading, word_letters
from dcurate.kernels.xxh3 import digest_text

Arrays = tuple[npt.NDArray[Any], ...]
Span = tuple[int, int]
#: What texts are held against, scratch arrays of all threads, and which of these are the thread's own.
Task = tuple[Any, Any, int]


@njit(**INLINE)
def _one_permutation(data: Bytes, span: Span, task: Task, out: Signatures) -> None:
    plan, rooms, place = task
    state, bounds, hashes, odd, kept, leaders, rounds = rooms
    reading = Reading(state[place], bounds[place], hashes[place], odd[place])
    sign_text(data, span, plan, Room(reading, kept[place], leaders[place], rounds[place]), out)


@njit(**INLINE)
def _permuted(data: Bytes, span: Span, task: Task, out: Signatures) -> None:
    plan, rooms, place = task
    state, bounds, hashes, odd, block, signature = rooms
    reading = Reading(state[place], bounds[place], hashes[place], odd[place])
    sign_permuted(data, span, plan, (reading, HashRoom(block[place], signature[place])), out)


@njit(**INLINE)
def _as_cudf(data: Bytes, span: Span, task: Task, out: Signatures) -> None:
    plan, rooms, place = task
    sign_as_cudf(data, span, plan, HashRoom(rooms[0][place], rooms[1][place]), out)


@njit(**INLINE)
def _bands(signatures: Signatures, span: Span, task: Task, out: Words) -> None:
    rows, _, _ = task
    hash_bands(signatures[span[0] : span[1]], rows, out)


@njit(**INLINE)
def _hashes(data: Bytes, span: Span, task: Task, out: Words) -> None:
    out[0] = hash_bytes(data, span[0], span[1])


@njit(**INLINE)
def _digest(data: Bytes, span: Span, task: Task, out: Words) -> None:
    digest_text(data, span, out)


def _sign_room(rule: Rule, bins: int, most: int) -> Arrays:
    room = new_sign_room(rule.size, bins, most)
    return *room.reading, room.kept, room.leaders, room.rounds


def _permuted_room(rule: Rule, places: int, most: int) -> Arrays:
    reading = new_reading(rule.size)
    return *reading, *new_hash_room(reading.hashes.size, places)


def _cudf_room(places: int, most: int) -> Arrays:
    return tuple(new_hash_room(0, places))


def _no_room(most: int) -> Arrays:
    return (np.empty(1, np.uint8),)


def one_permutation(column: CudaColumn, rows: Rows, rule: Rule, num_hashes: int) -> Signatures:
    """CUDA build of `dcurate.kernels.minhash.one_permutation`."""
    out = np.empty((len(rows), num_hashes), np.uint32)
    plan = Plan(rule, constant_on_gpu(word_letters))
    launch(_one_permutation, column, rows, plan, room=partial(_sign_room, rule, num_hashes), out=out)
    return out


def permuted(column: CudaColumn, rows: Rows, rule: Rule, permutations: Permutations) -> Signatures:
    """CUDA build of `dcurate.kernels.permutations.permuted`."""
    fours = padded(permutations)
    out = np.empty((len(rows), len(permutations.factors)), np.uint32)
    plan = PermutedPlan(rule, Permutations(*map(copied, fours)), constant_on_gpu(word_letters))
    launch(_permuted, column, rows, plan, room=partial(_permuted_room, rule, len(fours.factors)), out=out)
    return out


def as_cudf(column: CudaColumn, rows: Rows, window: Window, permutations: Permutations) -> Signatures:
    """CUDA build of `dcurate.kernels.permutations.as_cudf`, equal to cuDF's own ``Series.str.minhash``."""
    fours = padded(permutations)
    out = np.empty((len(rows), len(permutations.factors)), np.uint32)
    plan = CudfPlan(window, Permutations(*map(copied, fours)))
    launch(_as_cudf, column, rows, plan, room=partial(_cudf_room, len(fours.factors)), out=out)
    return out


def band_keys(signatures: Signatures, bands: int, rows: int) -> Words:
    """CUDA build of `dcurate.kernels.minhash.band_keys`."""
    number, places = signatures.shape
    out = np.empty((number, bands), np.uint64)
    column = on_gpu(np.arange(number + 1) * places, signatures.reshape(-1))
    launch(_bands, column, np.arange(number), rows, room=_no_room, out=out)
    return out


def text_hashes(column: CudaColumn, rows: Rows) -> Words:
    """CUDA build of `dcurate.kernels.hashing.text_hashes`."""
    out = np.empty((len(rows), 1), np.uint64)
    launch(_hashes, column, rows, 0, room=_no_room, out=out)
    return out[:, 0]


def text_digests(column: CudaColumn, rows: Rows) -> npt.NDArray[np.uint64]:
    """CUDA build of `dcurate.kernels.xxh3.text_digests`."""
    out = np.empty((len(rows), 2), np.uint64)
    launch(_digest, column, rows, 0, room=_no_room, out=out)
    return out

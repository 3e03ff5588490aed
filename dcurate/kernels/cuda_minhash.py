"""The signatures of `minhash` on a GPU: the same functions, a text to a thread, so the same to the last bit.

So far they have run in numba's simulator of CUDA, and compile for a GPU with numba-cuda.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from dcurate.kernels.hashing import table_bits
from dcurate.kernels.layout import Bytes, Offsets, Rows, frozen
from dcurate.kernels.minhash import KEPT, Plan, Room, Signatures, sign_text
from dcurate.kernels.shingles import Reading, Rule, new_reading, word_letters

_GRID = (64, 64)


@cuda.jit
def _one_permutation(layout, rows, plan, rooms, out):  # type: ignore[no-untyped-def]  # a kernel's types are numba's
    offsets, data = layout
    state, bounds, hashes, odd, kept, leaders, rounds = rooms
    thread = cuda.grid(1)  # type: ignore[attr-defined]  # numba makes it
    room = Room(
        Reading(state[thread], bounds[thread], hashes[thread], odd[thread]),
        kept[thread],
        leaders[thread],
        rounds[thread],
    )
    for place in range(thread, rows.size, cuda.gridsize(1)):  # type: ignore[attr-defined]
        sign_text(data, (offsets[rows[place]], offsets[rows[place] + 1]), plan, room, out[place])


def one_permutation(
    offsets: Offsets, data: Bytes, rows: Rows, rule: Rule, num_hashes: int, *, grid: tuple[int, int] = _GRID
) -> Signatures:
    """Signatures of the texts numbered ``rows``, made on a GPU by a ``grid`` of blocks and threads to a block."""
    threads = grid[0] * grid[1]
    reading = new_reading(rule.size)
    kept = KEPT * num_hashes + reading.hashes.size
    rooms = [
        *(cuda.device_array((threads, array.size), array.dtype) for array in reading),
        cuda.device_array((threads, kept), np.uint64),
        cuda.device_array((threads, 1 << int(table_bits(kept))), np.int32),
        cuda.device_array((threads, num_hashes), np.int32),
    ]
    out = cuda.device_array((len(rows), num_hashes), np.uint32)
    layout = cuda.to_device(frozen(offsets, np.int64)), cuda.to_device(frozen(data, np.uint8))
    plan = Plan(rule, cuda.to_device(word_letters()))
    _one_permutation[grid](layout, cuda.to_device(frozen(rows, np.int64)), plan, tuple(rooms), out)
    return np.asarray(out.copy_to_host(), np.uint32)

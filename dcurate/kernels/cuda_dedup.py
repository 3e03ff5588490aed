"""Variable-length outputs from a GPU: found in scratch arrays, then written in a second pass.

How much there is of each text is known only when it is found, and threads cannot make room for it. So a first kernel
finds what there is in scratch arrays, and a second one writes it where the host says, which has added up the counts.
Untested on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.kernels import cuda
from dcurate.kernels.cuda import CudaColumn, compiled, copied
from dcurate.kernels.layout import Ints, Rows

Arrays = tuple[npt.NDArray[Any], ...]


class TwoPasses(NamedTuple):
    """A function that finds results in texts, and one that writes them.

    Args:
        find: as `dcurate.kernels.cuda.compiled` takes it; the first number of ``out`` is how many answers there are.
        write: the same, with ``data`` the arrays to write to, and ``span`` where the text's own answers go there.
        types: of these arrays.
        notes: how many numbers ``out`` has.
    """

    find: Callable[..., None]
    write: Callable[..., None]
    types: tuple[Any, ...]
    notes: int = 1


class Lists(NamedTuple):
    """Results for each text: those of text ``i`` are from ``bounds[i]`` to ``bounds[i + 1]`` in each of the arrays."""

    bounds: Ints
    arrays: Arrays
    notes: Ints


def lists_of(passes: TwoPasses, column: CudaColumn, rows: Rows, known: Any, *, room: Callable[[int], Arrays]) -> Lists:
    """The results of the two passes for the texts numbered ``rows``, on the host.

    Texts go as `dcurate.kernels.cuda.launch` has them go: by length, as many at a time as have room.

    Args:
        known: data shared by all texts, with its arrays on the GPU.
        room: scratch arrays for a text of at most a number of bytes; only their shapes and types are used.
    """
    rows_of_rooms = [array.shape[0] if array.ndim > 1 else 0 for array in room(0)]
    lengths = column.offsets[rows + 1] - column.offsets[rows]
    order = np.argsort(-lengths, kind="stable")
    notes = np.zeros((len(rows), passes.notes), np.int64)
    pieces = [[np.empty(0, kind)] for kind in passes.types]
    for places, sizes in cuda._portions(lengths, order, room):
        shapes = [
            ((len(places), many, size // many) if many else (len(places), size), kind)
            for many, (size, kind) in zip(rows_of_rooms, sizes, strict=True)
        ]
        notes[places], arrays = _both_passes(passes, column, rows[places], known, shapes)
        for piece, array in zip(pieces, arrays, strict=True):
            piece.append(array)
    counts = notes[:, 0]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    begins = np.empty(len(rows), np.int64)
    begins[order] = np.cumsum(counts[order]) - counts[order]
    take = np.repeat(begins - bounds[:-1], counts) + np.arange(bounds[-1])
    return Lists(bounds, tuple(np.concatenate(piece)[take] for piece in pieces), notes)


def _both_passes(
    passes: TwoPasses, column: CudaColumn, rows: Rows, known: Any, shapes: Sequence[tuple[tuple[int, ...], Any]]
) -> tuple[Ints, Arrays]:
    """The notes and results of some texts; their GPU memory is freed."""
    rooms = tuple(cuda._cuda().device_array(shape, kind) for shape, kind in shapes)
    noted = copied(np.zeros((len(rows), passes.notes), np.int64))
    _run(passes.find, (column.starts, column.data), rows, (known, rooms, noted))
    notes = noted.copy_to_host()
    bounds = np.concatenate([[0], np.cumsum(notes[:, 0])])
    arrays = tuple(cuda._cuda().device_array(max(1, int(bounds[-1])), kind) for kind in passes.types)
    _run(passes.write, (copied(bounds), arrays), np.arange(len(rows)), (known, rooms, noted))
    return notes, tuple(array.copy_to_host()[: bounds[-1]] for array in arrays)


def _run(body: Callable[..., None], layout: tuple[Any, Any], rows: Rows, given: tuple[Any, Any, Any]) -> None:
    known, rooms, out = given
    blocks = -(-len(rows) // cuda._THREADS)
    compiled(body)[blocks, cuda._THREADS](layout, copied(rows.astype(np.int64)), known, rooms, out)

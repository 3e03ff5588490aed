"""Variable-length outputs from a GPU: found in scratch arrays, then written in a second pass.

The number of results of a text is known only after they are found, and threads cannot allocate memory. So a first
kernel finds them in scratch arrays, and a second one writes them at offsets that the host computed from their counts.
Not tested on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.gpu_memory import in_parts
from dcurate.kernels.cuda import (
    CudaColumn,
    Measure,
    Memory,
    copied,
    empty_on_gpu,
    fetched,
    portions,
    run,
    scratch_on_gpu,
    texts_for_cpu,
)
from dcurate.kernels.cuda_scratch import Scratch, ScratchPlan, planned
from dcurate.kernels.layout import Ints, Rows

Arrays = tuple[npt.NDArray[Any], ...]
#: Notes of texts, and the results of one text after the other.
Results = tuple[Ints, Arrays]


class TwoPasses(NamedTuple):
    """A function that finds results in a text, and one that writes them.

    Args:
        find: see `dcurate.kernels.cuda.Measure`; the first number of ``out`` is the number of results.
        write: the same; ``data`` are the arrays to write to, and ``span`` is the range of the text's results in them.
        types: types of these arrays.
        notes: numbers of ``out``.
        on_cpu: finds the same in texts with those numbers on the CPU; see `dcurate.kernels.cuda.TextFunction`.
    """

    find: Measure
    write: Measure
    types: tuple[Any, ...]
    notes: int = 1
    on_cpu: Callable[[Rows], Results] | None = None


class ListColumns(NamedTuple):
    """Results of texts: those of text ``i`` are from ``bounds[i]`` to ``bounds[i + 1]`` in each of the arrays."""

    bounds: Ints
    arrays: Arrays
    notes: Ints


def lists_of(passes: TwoPasses, column: CudaColumn, rows: Rows, tables: Any, *, scratch: Scratch) -> ListColumns:
    """Return the results of the two passes for the texts numbered ``rows``, on the host.

    Args:
        tables: what all texts share, with its arrays on the GPU.
        scratch: see `dcurate.kernels.cuda.launch`.
    """
    lengths = column.offsets[rows + 1] - column.offsets[rows]
    notes = np.zeros((len(rows), passes.notes), np.int64)
    pieces = [[np.empty(0, kind)] for kind in passes.types]
    order = [np.empty(0, np.int64)]
    sorted_rows, beside = np.argsort(-lengths, kind="stable"), 0
    if passes.on_cpu is not None and column.host is not None:
        beside = texts_for_cpu(lengths[sorted_rows])
    waiting = [sorted_rows[:beside]] if beside else []

    def add(places: Rows, results: Results) -> None:
        notes[places] = results[0]
        order.append(places)
        for piece, array in zip(pieces, results[1], strict=True):
            piece.append(array)

    def long() -> None:
        if waiting and passes.on_cpu is not None:
            places = waiting.pop()
            add(places, passes.on_cpu(rows[places]))

    def both(places: Rows) -> None:
        plan = planned(lengths[places], scratch)
        add(places, _both_passes(passes, column, rows[places], (tables, plan), long))

    for places in portions(lengths, sorted_rows[beside:], scratch):
        in_parts(both, places)
    long()
    counts = notes[:, 0]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    sorted_counts = counts[np.concatenate(order)]
    begins = np.empty(len(rows), np.int64)
    begins[np.concatenate(order)] = np.cumsum(sorted_counts) - sorted_counts
    take = np.repeat(begins - bounds[:-1], counts) + np.arange(bounds[-1])
    return ListColumns(bounds, tuple(np.concatenate(piece)[take] for piece in pieces), notes)


def _both_passes(
    passes: TwoPasses, column: CudaColumn, rows: Rows, work: tuple[Any, ScratchPlan], meanwhile: Callable[[], None]
) -> Results:
    """Return the notes and results of some texts; their GPU memory is freed.

    Args:
        work: what all texts share, and the scratch.
        meanwhile: called while the GPU works.
    """
    tables, plan = work
    noted = copied(np.zeros((len(rows), passes.notes), np.int64))
    memory = Memory(tables, scratch_on_gpu(plan), copied(plan.sizes), noted)
    run(passes.find, (column.starts, column.data), rows, memory)
    meanwhile()
    notes = fetched(noted)
    bounds = np.concatenate([[0], np.cumsum(notes[:, 0])])
    arrays = tuple(empty_on_gpu(max(1, int(bounds[-1])), kind) for kind in passes.types)
    run(passes.write, (copied(bounds), arrays), np.arange(len(rows)), memory)
    return notes, tuple(fetched(array)[: bounds[-1]] for array in arrays)

"""Memory that threads of a GPU work in: each has arrays of the size that its own text needs.

The arrays of all threads are parts of one, so that a launch takes texts of all lengths and as much memory as they need
together. Lengths are rounded up to one of eight sizes between powers of two; a table has, for each size, the first
thread and where the parts of its threads begin. A thread finds its size in the table by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, Ints, Scalar

#: Sizes between powers of two, as bits: at most an eighth of the memory is not used.
_BITS = 3


@njit(**INLINE)
def as_allocated(scratch: Any) -> None:
    """Leave scratch uninitialized."""


class Scratch(NamedTuple):
    """Memory that a function of one text works in: arrays, alone or in nested (named) tuples.

    Args:
        new: allocates it for texts of at most a number of items. Of what it returns a GPU takes shapes and types; of
            the shapes only the first numbers may depend on the number of items.
        reset: a compiled function of scratch, which makes it ready for the first text.
    """

    new: Callable[..., Any]
    reset: Callable[[Any], None] = as_allocated


def _one_byte(most: int) -> npt.NDArray[Any]:
    return np.empty(1, np.uint8)


#: For functions that need none; kernels take an array.
NO_SCRATCH = Scratch(_one_byte)


class ScratchPlan(NamedTuple):
    """The scratch of a launch.

    Args:
        like: arrays of the shapes and types that the longest text needs, nested as `Scratch.new` returns them.
        items: number of items of each array, along its first axis, for all threads together.
        sizes: for each size of scratch its first thread; then for each array where the part of that thread begins, and
            the items of each of its threads.
    """

    like: Any
    items: tuple[int, ...]
    sizes: Ints


def rounded(lengths: Ints) -> Ints:
    """Lengths rounded up to one of eight between powers of two, and at most to the longest.

    Examples:
        >>> rounded(np.array([1000, 897, 13, 7])).tolist()
        [1000, 960, 13, 7]
    """
    _, exponents = np.frexp(np.maximum(lengths, 1))
    steps = np.int64(1) << np.maximum(exponents.astype(np.int64) - 1 - _BITS, 0)
    return np.asarray(np.minimum(-(-lengths // steps) * steps, lengths.max(initial=0)), np.int64)


def bytes_of(lengths: Ints, scratch: Scratch) -> Ints:
    """Bytes of scratch for a text of each of the lengths, rounded."""
    sizes, places = np.unique(rounded(lengths), return_inverse=True)
    nbytes = [sum(array.nbytes for array in arrays(scratch.new(int(size)))) for size in sizes]
    return np.array(nbytes, np.int64)[places]


def planned(lengths: Ints, scratch: Scratch) -> ScratchPlan:
    """Plan the scratch of a launch.

    Args:
        lengths: length of the text of each thread, in descending order; at least one.
        scratch: what a text needs.
    """
    sizes, firsts, counts = np.unique(-rounded(lengths), return_index=True, return_counts=True)
    made = [scratch.new(int(-size)) for size in sizes]
    items = np.array([[len(array) for array in arrays(text_scratch)] for text_scratch in made], np.int64)
    totals = items * counts[:, None]
    table = np.empty((len(sizes), 1 + 2 * items.shape[1]), np.int64)
    table[:, 0], table[:, 1::2], table[:, 2::2] = firsts, np.cumsum(totals, axis=0) - totals, items
    return ScratchPlan(made[0], tuple(map(int, totals.sum(axis=0))), table)


def arrays(scratch: Any) -> Iterator[npt.NDArray[Any]]:
    """All arrays in nested tuples."""
    if not isinstance(scratch, tuple):
        yield scratch
        return
    for part in scratch:
        yield from arrays(part)


def nested(like: Any, values: Iterator[Any]) -> Any:
    """Values in the place of the arrays in nested (named) tuples."""
    if not isinstance(like, tuple):
        return next(values)
    return rebuilt(like, (nested(part, values) for part in like))


def rebuilt(like: tuple[Any, ...], values: Iterable[Any]) -> Any:
    """A (named) tuple of the same type with other values."""
    return tuple(values) if type(like) is tuple else type(like)(*values)


def form_of(scratch: Any) -> Any:
    """The types of nested tuples of arrays."""
    return (type(scratch), *map(form_of, scratch)) if isinstance(scratch, tuple) else None


def _leaves(form: Any) -> int:
    """The number of arrays in a form."""
    return 1 if form is None else sum(map(_leaves, form[1:]))


@njit(**INLINE)
def size_of_thread(sizes: Ints, thread: int) -> Scalar:
    """The row of a thread in the table of a `ScratchPlan`.

    Examples:
        >>> [int(size_of_thread(np.array([[0], [2], [5]]), thread)) for thread in range(7)]
        [0, 0, 1, 1, 1, 2, 2]
    """
    low, high = 0, sizes.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if sizes[middle, 0] <= thread:
            low = middle
        else:
            high = middle
    return low


@cache
def own_scratch(forms: tuple[Any, ...], before: int = 0) -> Any:
    """Compile a function of the scratch of all threads, and a thread, which returns the thread's own; both are tuples.

    A thread is given as the table of sizes, its row there, and its number. numba compiles no loop over values of
    different types, and no function that returns a view of an array; a tuple of views is fine. So each value has a
    function, and calls the one for the values before it.

    Args:
        forms: those of the values, as `form_of` returns them.
        before: number of arrays before these.
    """
    at, last = len(forms) - 1, forms[-1]
    first = before + sum(map(_leaves, forms[:at]))
    if last is None:
        begin, size_at = 1 + 2 * first, 2 + 2 * first

        @njit(**INLINE)
        def own(scratch: Any, thread: Any) -> Any:
            sizes, row, number = thread
            start = sizes[row, begin] + (number - sizes[row, 0]) * sizes[row, size_at]
            return (scratch[at][start : start + sizes[row, size_at]],)

    else:
        kind, parts = last[0], own_scratch(last[1:], first)
        if kind is tuple:
            own = njit(**INLINE)(lambda scratch, thread: (parts(scratch[at], thread),))
        else:
            own = njit(**INLINE)(lambda scratch, thread: (kind(*parts(scratch[at], thread)),))
    if at == 0:
        return own
    earlier = own_scratch(forms[:at], before)
    return njit(**INLINE)(lambda scratch, thread: earlier(scratch, thread) + own(scratch, thread))

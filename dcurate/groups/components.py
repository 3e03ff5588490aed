"""Connected components: of edges in memory, of the forests of several tasks, and of more than memory holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, ResourceError
from dcurate.kernels.layout import Ints, frozen
from dcurate.kernels.union_find import ROOT, Parents, first_places, flatten, join, joined, places

#: More documents have no numbers of four bytes.
MOST_DOCUMENTS = 2**32 - 1

_Number = TypeVar("_Number", bound=np.integer[Any])

_BLOCK = 2**22
#: Numbers per edge below which all between the first and the last are kept.
_DENSE = 8


class Edges(NamedTuple):
    """Edges between numbers of documents."""

    left: Ints
    right: Ints


class Components(NamedTuple):
    """The numbers that have an edge to another one, in order, and the smallest number of the component of each."""

    members: Ints
    labels: Ints


def components(left: Ints, right: Ints) -> Components:
    """The connected components of some edges, in any order; an edge from a number to itself counts for nothing.

    Takes at most 80 bytes an edge beside the edges themselves.

    Examples:
        >>> members, labels = components(np.array([7, 2, 5]), np.array([2, 9, 6]))
        >>> members.tolist(), labels.tolist()
        ([2, 5, 6, 7, 9], [2, 5, 5, 2, 2])
    """
    if not len(left):
        return Components(np.zeros(0, np.int64), np.zeros(0, np.int64))
    first, last = min(int(left.min()), int(right.min())), max(int(left.max()), int(right.max()))
    if last - first < _DENSE * len(left):
        members, labels = _labelled(joined(last - first + 1, left - first, right - first))
        return Components(members + first, labels + first)
    known = each_once(np.concatenate([left, right]))
    members, labels = _labelled(joined(len(known), *positions(known, left, right)))
    return Components(known[members], known[labels])


def forest(left: Ints, right: Ints) -> Edges:
    """A spanning forest: one edge from each number to the smallest of its component.

    It is the same for any order of the edges, ordered by ``right``, and need not be part of them.

    Examples:
        >>> forest(np.array([7, 2, 5, 9]), np.array([2, 9, 6, 7]))
        Edges(left=array([5, 2, 2]), right=array([6, 7, 9]))
    """
    members, labels = components(left, right)
    child = np.flatnonzero(members != labels)
    return Edges(labels[child], members[child])


def merge_forests(forests: Iterable[Edges]) -> Edges:
    """Return a spanning forest of the union of several.

    Examples:
        >>> merge_forests([Edges(np.array([1]), np.array([2])), Edges(np.array([2]), np.array([3]))])
        Edges(left=array([1, 1]), right=array([2, 3]))
    """
    parts = [Edges(np.zeros(0, np.int64), np.zeros(0, np.int64)), *forests]
    return forest(np.concatenate([part.left for part in parts]), np.concatenate([part.right for part in parts]))


def each_once(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """The different ones of some values, in order; as ``np.unique``, but sorts them in place.

    Examples:
        >>> each_once(np.array([5, 2, 5, 3]))
        array([2, 3, 5])
    """
    values.sort()
    new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


def positions(known: Ints, *numbers: Ints) -> list[Ints]:
    """Return the places of numbers in a sorted array that holds all: ``np.searchsorted``, several times as fast.

    Examples:
        >>> positions(np.array([3, 5, 900]), np.array([900, 3]), np.array([5]))
        [array([2, 0]), array([1])]
    """
    if not len(known):
        return [np.zeros(0, np.int64) for _ in numbers]
    known = frozen(known, np.int64)
    span = int(known[-1]) - int(known[0])
    shift = max(0, span.bit_length() - max(1, len(known) // 8).bit_length())
    firsts = frozen(first_places(known, shift, (span >> shift) + 1), np.int64)
    return [places(known, firsts, shift, frozen(queries, np.int64)) for queries in numbers]


class DiskForest:
    """Connected components of any number of edges between documents that are numbered from 0.

    Keeps four bytes a document in a file on a local disk, of which the system holds in memory what is in use and fits.
    Edges may come in any order and any number of pieces.

    Args:
        folder: on a local disk; the file is gone when the forest is closed.
        documents: how many there are.

    Raises:
        PipelineError: there are more than ``MOST_DOCUMENTS``.
        ResourceError: the disk has too little space for the file.

    Examples:
        >>> with DiskForest(tempfile.gettempdir(), 10) as forest:
        ...     forest.add(np.array([3, 8]), np.array([8, 5]))
        ...     list(forest.components(block=6))
        [Components(members=array([3, 5]), labels=array([3, 3])), Components(members=array([8]), labels=array([3]))]
    """

    def __init__(self, folder: str, documents: int) -> None:
        if not 0 <= documents <= MOST_DOCUMENTS:
            raise PipelineError(f"{documents} documents are more than the {MOST_DOCUMENTS} that can be distinguished")
        self.documents = documents
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        try:
            os.posix_fallocate(self._file.fileno(), 0, 4 * max(1, documents))
        except OSError as error:
            self._file.close()
            raise ResourceError(
                f"{folder} is too small for {4 * documents:,} bytes, four for each document ({error.strerror}); "
                "free some, or name another local disk with TMPDIR"
            ) from error
        self._parents: Parents = np.memmap(self._file, np.uint32, "r+", shape=(max(1, documents),)).view(np.ndarray)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the disk space back."""
        self._parents = np.zeros(0, np.uint32)
        self._file.close()

    def add(self, left: Ints, right: Ints) -> None:
        """Join the ends of some edges.

        Raises:
            PipelineError: one of them is no number of a document.
        """
        for ends in (left, right):
            if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < self.documents:
                raise PipelineError(f"edges reach from {ends.min()} to {ends.max()} of {self.documents} documents")
        join(self._parents, frozen(left, np.int64), frozen(right, np.int64))

    def components(self, block: int = _BLOCK) -> Iterator[Components]:
        """Yield the documents that have an edge, with their components, in ranges of `block` documents."""
        for start in range(0, self.documents, block):
            stop = min(start + block, self.documents)
            flatten(self._parents, start, stop)
            yield _labelled(self._parents[start:stop], start)


def _labelled(parents: Parents, start: int = 0) -> Components:
    """The numbers from ``start`` on that are joined to others, and the roots of their sets; all are flat."""
    members = np.flatnonzero(parents)
    steps = parents[members]
    steps[steps == ROOT] = 0
    members += start
    return Components(members, members - steps)

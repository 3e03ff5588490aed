"""Parts of iterables, and names for them, as `nemo_curator.utils` has functions for them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batched(iterable: Iterable[T], n: int) -> Iterator[tuple[T, ...]]:
    """Yield `n` values at a time.

    Examples:
        >>> list(batched("abcde", 2))
        [('a', 'b'), ('c', 'd'), ('e',)]
    """
    if n < 1:
        raise ValueError("n must be at least one")
    values = iter(iterable)
    return iter(lambda: tuple(itertools.islice(values, n)), ())


def split_by_chunk_size(
    iterable: Iterable[T],
    chunk_size: int,
    custom_size_func: Callable[[T], int] = lambda value: 1,
    *,
    drop_incomplete_chunk: bool = False,
) -> Iterator[list[T]]:
    """Yield values until they have a size together, again and again.

    Args:
        iterable: the values.
        chunk_size: the size that a chunk reaches.
        custom_size_func: the size of a value; 1 if not given.
        drop_incomplete_chunk: whether to leave out a last chunk that is smaller.

    Examples:
        >>> list(split_by_chunk_size("abcde", 2))
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    chunk: list[T] = []
    size = 0
    for value in iterable:
        chunk.append(value)
        size += custom_size_func(value)
        if size >= chunk_size:
            yield chunk
            chunk, size = [], 0
    if chunk and not drop_incomplete_chunk:
        yield chunk


def split_into_n_chunks(iterable: Iterable[T], num_chunks: int) -> Iterator[list[T]]:
    """Yield values in chunks whose sizes differ by one at most; fewer chunks where there are fewer values.

    Examples:
        >>> list(split_into_n_chunks("abcde", 2))
        [['a', 'b', 'c'], ['d', 'e']]
    """
    values = list(iterable)
    chunks = min(num_chunks, len(values))
    ends = [len(values) // chunks * n + min(n, len(values) % chunks) for n in range(1, chunks + 1)]
    return (values[start:end] for start, end in zip([0, *ends], ends, strict=False))


def pairwise(iterable: Iterable[T]) -> Iterator[tuple[T, T]]:
    """Yield each value with the next."""
    return itertools.pairwise(iterable)


def get_deterministic_hash(inputs: Sequence[str], seed: str = "") -> str:
    """Twelve hexadecimal digits for some names in any order, such as those of the files of a task.

    Examples:
        >>> get_deterministic_hash(["a", "b"]) == get_deterministic_hash(["b", "a"])
        True
    """
    return hashlib.sha256(f"{'|'.join(sorted(inputs))}|{seed}".encode()).hexdigest()[:12]

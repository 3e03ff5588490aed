"""Batches and the keys that say which part of the whole each one is."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from dcurate.core.secrets import HidesSecrets


@dataclass(frozen=True, slots=True, order=True)
class BatchKey:
    """Where a batch comes from: a source split, and the path of child numbers below it.

    Equal keys mean equal rows: file names, document ids and resume all follow from the key, so it
    never depends on which worker made the batch or when.

    Examples:
        >>> key = BatchKey("part-00.jsonl")
        >>> str(key.child(3))
        'part-00.jsonl/3'
        >>> key.child(3).digest == BatchKey("part-00.jsonl", (3,)).digest
        True
    """

    split: str
    path: tuple[int, ...] = ()

    def child(self, number: int) -> BatchKey:
        """The key of the ``number``-th batch that a stage made of this one."""
        return BatchKey(self.split, (*self.path, number))

    @property
    def digest(self) -> str:
        """Twelve hex digits that stand for the key in ids and file names."""
        return hashlib.blake2b(str(self).encode(), digest_size=6).hexdigest()

    def __str__(self) -> str:
        return "/".join([self.split, *map(str, self.path)])


@dataclass(frozen=True)
class Rejection:
    """Rows that a stage took out of a batch, and why; the engine counts them and keeps them where asked.

    Args:
        stage: name of the stage that took them out.
        reason: short and stable, so that it can be counted: ``"word_count"``, ``"malformed line"``.
        rows: how many.
        nbytes: their size in memory.
        data: the rows themselves as a frame, or None when only the count is known.
        fault: False for rows that a rule dropped, True for rows that could not be processed
            (these go to quarantine whether or not dropped rows are kept).
        scores: what the rule made of each of the rows, an array or a list, where it is one that scores.
        column: the column that the rule looked at, where it is one that looks at one.
    """

    stage: str
    reason: str
    rows: int
    nbytes: int
    data: Any = None
    fault: bool = False
    scores: Any = field(default=None, compare=False)
    column: str = ""


@dataclass(frozen=True)
class Scored:
    """Scores that a stage gave to rows; the engine counts them for the report.

    Args:
        stage: name of the stage.
        name: of the score: that of the filter, say.
        values: one a row: an array of numbers, or a list.
        stands_for: each value is that of one row of so many.
    """

    stage: str
    name: str
    values: Any = field(compare=False)
    stands_for: int = 1


@dataclass(kw_only=True)
class Batch(ABC):
    """Something that travels between stages under a key.

    Attributes:
        key: set by the engine; a batch that a stage made afresh has none until it leaves the stage.
        rejections: rows that the last stage took out; the engine collects them after every stage.
        found: what the last stage counted in it, by kind, for the report; the engine adds it up after every stage.
        scored: the scores that the last stage gave to its rows, for the report.
    """

    key: BatchKey | None = None
    rejections: tuple[Rejection, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict)
    scored: tuple[Scored, ...] = ()

    @property
    @abstractmethod
    def num_items(self) -> int:
        """How many rows (or files, or clips) the batch holds."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Its size in memory, in bytes."""

    @abstractmethod
    def get_columns(self) -> list[str]:
        """Names of its columns, in order; empty for what has none."""

    def rows(self, start: int, stop: int) -> Self | None:
        """The rows from ``start`` up to ``stop`` as a batch under the same key; None for what cannot be cut.

        With it the engine finds the rows of a batch on which a stage fails.
        """
        return None

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self | None:
        """One batch of all rows in order, under the first one's key; None for what cannot be joined."""
        return None

    def __sizeof__(self) -> int:
        return self.nbytes + 512


@dataclass(frozen=True)
class FilePart(HidesSecrets):
    """A file, or a range of it, as a source listed it.

    Args:
        path: as fsspec opens it: a local path or ``s3://...``.
        start: first byte (JSONL) or first row group (Parquet) of the range.
        stop: one past the last, or None for the whole file.
        size: bytes of the whole file.
        version: what changes when the content does: an etag, or size and modification time.
        range_bytes: bytes of the range, where the part is one.
    """

    path: str
    start: int = 0
    stop: int | None = None
    size: int = 0
    version: str = ""
    range_bytes: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the part: of its range, or of the whole file."""
        return self.size if self.range_bytes is None else self.range_bytes


@dataclass
class FileGroup(Batch):
    """A group of files: a source split that a reader reads, or what a writer has written.

    Args:
        parts: the files or byte ranges of files, in order.

    Examples:
        >>> FileGroup.of(["a.jsonl", "b.jsonl"]).data
        ['a.jsonl', 'b.jsonl']
    """

    parts: tuple[FilePart, ...] = field(default=())

    @classmethod
    def of(cls, paths: Sequence[str]) -> Self:
        """A group of whole files, of unknown size."""
        return cls(parts=tuple(FilePart(path) for path in paths))

    @property
    def data(self) -> list[str]:
        """The paths."""
        return [part.path for part in self.parts]

    @property
    def num_items(self) -> int:
        return len(self.parts)

    @property
    def nbytes(self) -> int:
        return sum(len(part.path) for part in self.parts)

    @property
    def version(self) -> str:
        """Changes when the content of any of the files does."""
        text = "\n".join(f"{p.path}\t{p.start}\t{p.stop}\t{p.version}" for p in self.parts)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def get_columns(self) -> list[str]:
        return []

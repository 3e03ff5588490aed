"""Batches and the keys that say which part of the whole each one is."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Any, Self

from dcurate.core.secrets import HidesSecrets

#: Between the version of a split and the number of its first rows that a limit leaves.
_FIRST_ROWS = " first rows: "


@dataclass(frozen=True, slots=True, order=True)
class BatchKey:
    """The origin of a batch: a source split, and the path of child numbers below it.

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
        """Twelve hex digits that identify the key in ids and file names."""
        return hashlib.blake2b(str(self).encode(), digest_size=6).hexdigest()

    def __str__(self) -> str:
        return "/".join([self.split, *map(str, self.path)])


@dataclass(frozen=True)
class DeferredRows:
    """Rows that are copied out of a batch when somebody asks for them.

    Args:
        first: makes a frame of them, or of at most a number of the first of them.
        table: the table that they are rows of, as they are, if there is one; and ``rows``: their numbers in it.
    """

    first: Callable[[int | None], Any]
    table: Any = None
    rows: Any = None


class _FrameOnRead:
    """The rows of a rejection: `DeferredRows` become a frame when they are read."""

    def __get__(self, one: Any, owner: type) -> Any:
        if one is None:  # the default of the field
            return None
        rows = vars(one)["data"]
        if isinstance(rows, DeferredRows):
            rows = vars(one)["data"] = rows.first(None)
        return rows

    def __set__(self, one: Any, rows: Any) -> None:
        vars(one)["data"] = rows


#: The column of `Rejection.data` that says why a reader could not read a row, whose place ``file`` and ``line`` say.
ERROR = "error"


@dataclass(frozen=True)
class Rejection:
    """Rows that a stage took out of a batch, and why; the engine counts them and keeps them where asked.

    Args:
        stage: name of the stage that took them out.
        reason: short and stable, so that it can be counted: ``"word_count"``, ``"malformed line"``.
        rows: how many.
        nbytes: their size in memory.
        data: the rows themselves as a frame, or None when only the count is known. It may be given as `DeferredRows`.
        fault: False for rows that a rule dropped, True for rows that could not be processed
            (these go to quarantine whether or not dropped rows are kept).
        uncounted: True where files were lost whose rows nobody has counted; their split does not count as finished.
        scores: what the rule made of each of the rows, an array or a list, where it is one that scores.
        column: the column that the rule looked at, where it is one that looks at one; `ERROR` for what a reader could
            not read.
    """

    stage: str
    reason: str
    rows: int
    nbytes: int
    data: Any = _FrameOnRead()
    fault: bool = False
    scores: Any = field(default=None, compare=False)
    column: str = ""
    uncounted: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "data": self.data}

    @property
    def source(self) -> tuple[Any, Any] | None:
        """A table that holds the rows, and their numbers in it, where they are not copied out of it yet."""
        rows = vars(self)["data"]
        return (rows.table, rows.rows) if isinstance(rows, DeferredRows) and rows.table is not None else None

    def first(self, most: int) -> Any:
        """Return a frame of the first rows, of ``most`` at least if there are as many; None if there is none."""
        rows = vars(self)["data"]
        return rows.first(most) if isinstance(rows, DeferredRows) else rows


@dataclass(frozen=True)
class Scored:
    """Scores that a stage gave to rows; the engine counts them for the report.

    Args:
        stage: name of the stage.
        name: name of the score, such as that of the filter.
        values: one a row: an array of numbers, or a list.
        rows_per_value: how many rows each value represents, if they are a sample.
        dropped: whether the stage drops each row, where it is one that does.
    """

    stage: str
    name: str
    values: Any = field(compare=False)
    rows_per_value: int = 1
    dropped: Any = field(default=None, compare=False)


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
        """The number of rows (or files, or clips) in the batch."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Its size in memory, in bytes."""

    @abstractmethod
    def get_columns(self) -> list[str]:
        """Return the names of the columns, in order; empty for a batch without columns."""

    @property
    def version(self) -> str:
        """Text that changes when the content does, so that a resumed run does not take it for finished; else empty."""
        return ""

    def rows(self, start: int, stop: int) -> Self | None:
        """Return the rows from `start` up to `stop` under the same key; None if the batch cannot be cut.

        With it the engine finds the rows of a batch on which a stage fails.
        """
        return None

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self | None:
        """Join batches in order under the first one's key; None if they cannot be joined."""
        return None

    def __sizeof__(self) -> int:
        return self.nbytes + 512


@dataclass(frozen=True)
class FilePart(HidesSecrets):
    """A file, or a range of it, as a source listed it.

    Args:
        path: location that fsspec opens: a local path or ``s3://...``.
        start: first byte (JSONL) or first row group (Parquet) of the range.
        stop: one past the last, or None for the whole file.
        size: bytes of the whole file.
        version: what changes when the content does: an etag, or size and modification time.
        range_bytes: bytes of the range, where the part is one.
        rows: number of the first row to read and one past the last, counted from 0 in the part as a reader counts them
            (a line of JSON Lines, a record of an archive); None for all. Only `SourceStage.divided` gives such parts.
        proof: root of the rows that were written to it, for a run with a proof.
    """

    path: str
    start: int = 0
    stop: int | None = None
    size: int = 0
    version: str = ""
    range_bytes: int | None = None
    rows: tuple[int, int] | None = None
    proof: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes of the part: of its range, or of the whole file."""
        return self.size if self.range_bytes is None else self.range_bytes


@dataclass
class FileGroup(Batch):
    """A group of files: a source split that a reader reads, or what a writer has written.

    Args:
        parts: the files or byte ranges of files, in order.
        stated_version: version of a split of which a limit leaves the first rows; see `limited_version`.

    Examples:
        >>> FileGroup.of(["a.jsonl", "b.jsonl"]).data
        ['a.jsonl', 'b.jsonl']
    """

    parts: tuple[FilePart, ...] = field(default=())
    stated_version: str = field(default="", kw_only=True)

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
        if self.stated_version:
            return self.stated_version
        text = "\n".join(f"{p.path}\t{p.start}\t{p.stop}\t{p.version}" for p in self.parts)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def get_columns(self) -> list[str]:
        return []


def limited_version(whole: str, rows: int) -> str:
    """Return the version of a split of which a limit leaves the first rows.

    Args:
        whole: version of the whole split.
        rows: number of rows that are left.
    """
    return f"{whole}{_FIRST_ROWS}{rows}"


def has_rows_of(made: str, wanted: str) -> bool:
    """Return whether rows that were made of one version of a split are all those of another: a limit removes nothing.

    Examples:
        >>> wanted = limited_version("ab", 20)
        >>> [has_rows_of(limited_version("ab", rows), wanted) for rows in (10, 20, 30)]
        [False, True, True]
        >>> has_rows_of("ab", wanted), has_rows_of(wanted, "ab"), has_rows_of("10:30", "10:00")
        (True, False, False)
    """
    made_version, made_limited, made_rows = made.partition(_FIRST_ROWS)
    version, limited, rows = wanted.partition(_FIRST_ROWS)
    return made_version == version and (not made_limited or bool(limited and int(made_rows) >= int(rows)))


@dataclass
class FileRows(FileGroup):
    """Files whose rows are counted, so that they can be read in parts: all of its parts have ``rows``.

    Examples:
        >>> files = FileRows(parts=(FilePart("a.jsonl", rows=(0, 3)), FilePart("b.jsonl", rows=(0, 2))))
        >>> files.num_items, files.seams
        (5, (3,))
        >>> [(part.path, part.rows) for part in files.rows(2, 4).parts]
        [('a.jsonl', (2, 3)), ('b.jsonl', (0, 1))]
        >>> [part.rows for part in FileRows.joined([files.rows(0, 1), files.rows(1, 3), files.rows(4, 5)]).parts]
        [(0, 3), (1, 2)]
    """

    @property
    def num_items(self) -> int:
        return sum(stop - start for start, stop in map(_rows_of, self.parts))

    @property
    def seams(self) -> tuple[int, ...]:
        """The rows with which a part begins, without the first."""
        sizes = [stop - start for start, stop in map(_rows_of, self.parts)]
        return tuple(accumulate(sizes[:-1]))

    def rows(self, start: int, stop: int) -> Self:
        parts, before = [], 0
        for part in self.parts:
            first, last = _rows_of(part)
            low, high = max(first, first + start - before), min(last, first + stop - before)
            if low < high:
                parts.append(replace(part, rows=(low, high)))
            before += last - first
        return replace(self, parts=tuple(parts))

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self:
        parts: list[FilePart] = []
        for part in chain.from_iterable(batch.parts for batch in batches):
            first, last = _rows_of(part)
            before = parts[-1] if parts else None
            if before is not None and replace(before, rows=part.rows) == part and _rows_of(before)[1] == first:
                parts[-1] = replace(part, rows=(_rows_of(before)[0], last))
            else:
                parts.append(part)
        return replace(batches[0], parts=tuple(parts))


def _rows_of(part: FilePart) -> tuple[int, int]:
    assert part.rows is not None, "parts of FileRows are of counted rows"
    return part.rows

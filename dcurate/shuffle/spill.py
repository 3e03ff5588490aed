"""Rows of a whole dataset that wait on disk between the rounds of an exchange, and their numbers."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError
from dcurate.frames.columns import only, rows_at, values, with_column, with_values
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import META_DIR, Directory
from dcurate.shuffle.chunks import read_indexes, read_parts, read_rows, stacked
from dcurate.shuffle.keys import KEY_SPACE, key_step
from dcurate.shuffle.writer import ChunkWriter

Ints = npt.NDArray[np.int64]

#: Folder of the rows, below that of a round.
ROWS = "rows/"
#: Column with the number of each document, which readers of what is staged add.
NUMBER = "_dcurate_number"
#: Column of ids of documents, where reports want them.
ID = "id"
_BASES = f"{META_DIR}/bases.npy"
_CHUNK_BYTES = 2**23


@dataclass
class SpillWriter(ChunkWriter):
    """Writes the rows of each batch as they are; subclasses write beside them what a round finds out about them."""

    name: str = "staged_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.rows(table, key)

    def rows(self, table: Any, key: BatchKey, source_field: str | None = None) -> FilePart:
        """Write rows for `SpilledRows`, with how many there are of each source, if a column tells it.

        They are compressed unless they wait on a disk of this host: there that costs more than it saves.
        """
        step = max(1, table.num_rows * _CHUNK_BYTES // max(1, table.nbytes))
        tables = (table.slice(start, step) for start in range(0, table.num_rows, step))
        names, counts = np.unique(source_names(table, source_field), return_counts=True)
        return self.chunks(
            tables,
            key,
            ROWS,
            not self.directory.on_disk,
            path=np.array(key.path, np.int64),
            sources=names,
            of_sources=counts,
        )


def source_names(table: Any, source_field: str | None) -> npt.NDArray[np.str_]:
    """The source of each row as text; none if no column tells it."""
    if source_field is None:
        return np.zeros(0, np.str_)
    return np.array([str(value) for value in values(table, source_field)], np.str_)


@dataclass(frozen=True)
class SpilledRows:
    """The files of rows that a `SpillWriter` wrote, in the order of the source.

    A *document number* is the place of a row in the whole dataset: it is the same for any number of workers.

    Args:
        folder: of the round.
        names: of the files; full addresses of those that lie elsewhere.
        splits: the source split of each file.
        bases: the number of the first document of each file, and of all documents.
        sizes: bytes of the rows in each file.
        seen: so many of the first files are not of this dataset: they tell of documents that were seen before.
        sources: how many documents each source has, where a column tells them.
    """

    folder: Directory
    names: tuple[str, ...]
    splits: tuple[str, ...]
    bases: Ints = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    seen: int = 0
    sources: dict[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def written(
        cls,
        folder: Directory,
        splits: Sequence[tuple[str, Sequence[str]]],
        seen: Sequence[tuple[str, int]] = (),
    ) -> SpilledRows:
        """The rows among all files that were written for splits; their numbers are written down for the workers.

        Args:
            folder: of the round.
            splits: as an exchange is told them.
            seen: addresses of files of documents that were seen before, and how many each holds; they come first.
        """
        root = len(folder.address.rstrip("/")) + 1
        listed = [
            (place, path[root:])
            for place, (_, paths) in enumerate(splits)
            for path in paths
            if path[root:].startswith(ROWS)
        ]
        indexes = list(read_indexes(folder, [name for _, name in listed]))
        before = list(read_indexes(folder, [address for address, _ in seen]))
        order = sorted(range(len(listed)), key=lambda at: (listed[at][0], indexes[at].notes["path"].tolist()))
        rows = [*(documents for _, documents in seen), *(int(indexes[at].rows[-1]) for at in order)]
        bases = np.cumsum([0, *rows], dtype=np.int64)
        buffer = io.BytesIO()
        np.save(buffer, bases)
        folder.write(_BASES, buffer.getvalue())
        return cls(
            folder,
            (*(address for address, _ in seen), *(listed[at][1] for at in order)),
            (*(address for address, _ in seen), *(splits[listed[at][0]][0] for at in order)),
            bases,
            (*(int(index.bounds[-1]) for index in before), *(int(indexes[at].bounds[-1]) for at in order)),
            len(seen),
            _added_up(index.notes for index in indexes),
        )

    @property
    def documents(self) -> int:
        """How many there are."""
        return int(self.bases[-1])

    def beside(self, folder: str) -> list[str]:
        """Names of the files that were written beside those of the rows, in their order."""
        return [folder.join(name.rsplit(ROWS, 1)) for name in self.names]

    @property
    def first(self) -> int:
        """The number of the first document that was not seen before."""
        return int(self.bases[self.seen])

    @property
    def own(self) -> list[tuple[str, int]]:
        """The names of the files of this dataset, and how many documents each holds."""
        return list(zip(self.names, np.diff(self.bases).tolist(), strict=True))[self.seen :]

    def edges(self) -> list[int]:
        """The key of the first document of each split, and the end of all keys; see `scale_keys`."""
        firsts = [place for place, split in enumerate(self.splits) if not place or split != self.splits[place - 1]]
        step = key_step(self.documents)
        return [0, *(int(self.bases[place]) * step for place in firsts[1:]), KEY_SPACE] if firsts else [0, KEY_SPACE]

    def value(self, number: int, column: str) -> Any:
        """What a document holds in a column; None if its rows were not staged with it.

        Raises:
            DataError: the file of its rows cannot be read.
        """
        file = int(np.searchsorted(self.bases, number, "right")) - 1
        row = number - int(self.bases[file])
        table = read_rows(self.folder, self.names[file], row, row + 1)
        return values(table, column)[0] if column in table.column_names else None

    def reader(
        self, name: str, columns: Sequence[str] | None = None, *, numbered: bool = True, with_seen: bool = False
    ) -> SpillReader:
        """The source that reads the rows back, each split under the key that it had.

        Args:
            columns: those to read; all by default.
            numbered: whether rows get the column `NUMBER`.
            with_seen: whether it reads first what is known of the documents that were seen before, in all columns.
        """
        return SpillReader(self, None if columns is None else tuple(columns), numbered, with_seen, name=name)


def identified(entries: Any, table: Any, id_field: str | None, key: BatchKey, rows: Ints) -> Any:
    """What was found out about some rows of a batch, with their ids.

    Args:
        entries: a table of it.
        table: all rows of the batch.
        id_field: the column with ids; if None they are made as `AddId` makes them.
        key: of the batch.
        rows: the number of the row that each entry is about.
    """
    if id_field is None:
        return with_column(entries, ID, [f"{key.digest}_{row}" for row in rows.tolist()])
    return with_values(entries, ID, rows_at(only(table, [id_field]), rows), id_field)


def ids_at(table: Any, rows: Ints) -> Any | None:
    """The column of ids in some rows; None if there is no such column."""
    return rows_at(only(table, [ID]), rows) if ID in table.column_names else None


def _added_up(notes: Iterable[Mapping[str, npt.NDArray[Any]]]) -> dict[str, int]:
    """How many documents each source has, by the names of sources in order."""
    counts: Counter[str] = Counter()
    for each in notes:
        counts.update(dict(zip(each["sources"].tolist(), each["of_sources"].tolist(), strict=True)))
    return dict(sorted(counts.items()))


def bases_of(url: str, options: dict[str, Any]) -> Ints:
    """The number of the first document of each file of a round, and of all documents.

    Raises:
        DataError: they are lost.
    """
    data = Directory(url, options).read(_BASES)
    if data is None:
        raise DataError(f"{url!r} has lost its numbers of documents; run again without resume")
    return np.asarray(np.load(io.BytesIO(data)))


@dataclass
class SpillReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads back the rows that waited on disk, each split under the key that it had.

    The version of each part of a split is the number of its first document.
    """

    staged: SpilledRows
    wanted: tuple[str, ...] | None = None
    numbered: bool = True
    with_seen: bool = False
    name: str = "from_disk"

    def splits(self) -> Iterator[FileGroup]:
        staged = self.staged
        start = 0 if self.with_seen else staged.seen
        parts: dict[str, list[FilePart]] = {split: [] for split in staged.splits[start:]}
        firsts = staged.bases[:-1].tolist()
        for place in range(start, len(staged.names)):
            path, size = staged.folder.path(staged.names[place]), staged.sizes[place]
            parts[staged.splits[place]].append(FilePart(path, 0, size, size, str(firsts[place]), size))
        for split, files in parts.items():
            yield FileGroup(key=BatchKey(split), parts=tuple(files))

    def settings(self) -> dict[str, Any]:
        return {"columns": self.wanted}

    def process(self, task: FileGroup) -> DocumentBatch:
        seen = task.key is not None and task.key.split in self.staged.splits[: self.staged.seen]
        wanted = None if seen else self.wanted
        table = stacked(read_parts(task.parts, dict(self.staged.folder.options), wanted))
        if not self.numbered:
            return DocumentBatch(data=table, key=task.key)
        first = int(task.parts[0].version)
        numbers = np.arange(first, first + table.num_rows)  # the files of a split follow one another
        return DocumentBatch(data=with_column(table, NUMBER, numbers), key=task.key)

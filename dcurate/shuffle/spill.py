"""Spill the rows of a whole dataset to disk between rounds, and number its documents."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError
from dcurate.frames.columns import only, rows_at, values, with_column, with_values
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io.json_columns import with_texts
from dcurate.rows import columns_to_read, has_lines, whole_rows
from dcurate.shuffle.chunks import columns_in, read_indexes, read_parts, read_rows, stacked
from dcurate.shuffle.keys import KEY_SPACE, key_step
from dcurate.shuffle.writer import ChunkWriter

Ints = npt.NDArray[np.int64]

#: Folder of the rows, below that of a round.
ROWS = "rows/"
#: Column with the number of each document, added by readers of spilled rows.
DOC_ID = "_dcurate_number"
#: Column of ids of documents, where reports want them.
ID = "id"
_ROW_OFFSETS = f"{META_DIR}/bases.npy"
_CHUNK_BYTES = 2**23


@dataclass
class SpillWriter(ChunkWriter):
    """Writes the rows of each batch unchanged; subclasses write further files of the batch beside them."""

    name: str = "staged_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.rows(table, key)

    def rows(self, table: Any, key: BatchKey, source_field: str | None = None) -> FilePart:
        """Write rows for `SpilledRows`, with their counts by `source_field` if given.

        They are compressed unless they are written to a disk of this host, where that costs more than it saves.
        """
        names, counts = np.unique(source_names(table, source_field), return_counts=True)
        table = self.to_spill(table)
        step = max(1, table.num_rows * _CHUNK_BYTES // max(1, table.nbytes))
        tables = (table.slice(start, step) for start in range(0, table.num_rows, step))
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
    """Return the source of each row as text; empty without `source_field`."""
    if source_field is None:
        return np.zeros(0, np.str_)
    return np.array([str(value) for value in values(table, source_field)], np.str_)


@dataclass(frozen=True)
class SpilledRows:
    """The files of rows that a `SpillWriter` wrote, in the order of the source.

    A *document number* is the place of a row in the whole dataset: it is the same for any number of workers.

    Args:
        folder: folder of the round.
        names: names of the files; full addresses of files outside `folder`.
        splits: the source split of each file.
        row_offsets: the number of the first document of each file, and the number of all documents.
        sizes: bytes of the rows in each file.
        seen: number of files, the first ones, that belong to documents of earlier runs.
        sources: documents by source, if there is a column of sources.
    """

    folder: Directory
    names: tuple[str, ...]
    splits: tuple[str, ...]
    row_offsets: Ints = field(repr=False)
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
        """Find the files of rows that were written for splits, and write the row offsets for the workers.

        Args:
            folder: folder of the round.
            splits: the splits and their files, as passed to `BarrierStage.reduce_stages`.
            seen: addresses and document counts of files of documents of earlier runs; they come first.
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
        row_offsets = np.cumsum([0, *rows], dtype=np.int64)
        buffer = io.BytesIO()
        np.save(buffer, row_offsets)
        folder.write(_ROW_OFFSETS, buffer.getvalue())
        return cls(
            folder,
            (*(address for address, _ in seen), *(listed[at][1] for at in order)),
            (*(address for address, _ in seen), *(splits[listed[at][0]][0] for at in order)),
            row_offsets,
            (*(int(index.bounds[-1]) for index in before), *(int(indexes[at].bounds[-1]) for at in order)),
            len(seen),
            _added_up(index.notes for index in indexes),
        )

    @property
    def documents(self) -> int:
        """Number of documents."""
        return int(self.row_offsets[-1])

    def sibling_files(self, folder: str) -> list[str]:
        """Return the names of the files in another `folder` of the round, one for each file of rows, in their order."""
        return [folder.join(name.rsplit(ROWS, 1)) for name in self.names]

    @property
    def first(self) -> int:
        """The number of the first document of this dataset."""
        return int(self.row_offsets[self.seen])

    @property
    def own_files(self) -> list[tuple[str, int]]:
        """Names and document counts of the files of this dataset."""
        return list(zip(self.names, np.diff(self.row_offsets).tolist(), strict=True))[self.seen :]

    def edges(self) -> list[int]:
        """Return the key of the first document of each split, and the end of all keys; see `scale_keys`."""
        firsts = [place for place, split in enumerate(self.splits) if not place or split != self.splits[place - 1]]
        step = key_step(self.documents)
        return (
            [0, *(int(self.row_offsets[place]) * step for place in firsts[1:]), KEY_SPACE] if firsts else [0, KEY_SPACE]
        )

    def value(self, number: int, column: str) -> Any:
        """Return the value of a document in a column; None if the column was not spilled.

        Raises:
            DataError: the file of its rows cannot be read.
        """
        file = int(np.searchsorted(self.row_offsets, number, "right")) - 1
        row = number - int(self.row_offsets[file])
        table = read_rows(self.folder, self.names[file], row, row + 1)
        if has_lines(table):
            return next(whole_rows(table)).get(column)
        return values(table, column)[0] if column in table.column_names else None

    def reader(
        self, name: str, columns: Sequence[str] | None = None, *, numbered: bool = True, with_seen: bool = False
    ) -> SpillReader:
        """Return a source that reads the rows back, each split under its original key.

        Args:
            columns: to read, see `with_columns`; all by default.
            numbered: whether rows get the column `DOC_ID`.
            with_seen: whether documents of earlier runs are read first, with all of their columns.
        """
        return SpillReader(self, None if columns is None else tuple(columns), numbered, with_seen, name=name)


def with_columns(table: Any, names: Sequence[str]) -> Any:
    """Return only these columns of rows that were read back; those that are only in the lines are parsed here.

    So a stage that needs few of the rows parses only these.
    """
    missing = [name for name in names if name not in table.column_names]
    return only(with_texts(table, missing) if missing else table, names)


def identified(
    entries: Any, table: Any, id_field: str | None, key: BatchKey, rows: Ints, *, action: str = "drop"
) -> Any:
    """Add the column `ID` to entries about rows of a batch.

    An id that is made for ``action="identify"`` is the one that `AddId` makes there. Others describe a
    place in words: dropped rows change the numbers of later rows, so an `AddId` behind the stage would give the same id
    to another row.

    Args:
        entries: one row for each entry.
        table: all rows of the batch.
        id_field: the column with ids; if None, ids are made.
        key: key of the batch.
        rows: the row number of each entry.
        action: the ``action`` of the stage.
    """
    if id_field is None:
        form = "{key}_{row}" if action == "identify" else "row {row} of batch {key}"
        return with_column(entries, ID, [form.format(key=key.digest, row=row) for row in rows.tolist()])
    return with_values(entries, ID, rows_at(only(table, [id_field]), rows), id_field)


def ids_at(table: Any, rows: Ints) -> Any | None:
    """Return the ids of `rows`; None without a column of ids."""
    return rows_at(only(table, [ID]), rows) if ID in table.column_names else None


def _added_up(notes: Iterable[Mapping[str, npt.NDArray[Any]]]) -> dict[str, int]:
    """Return the document count of each source, sorted by name."""
    counts: Counter[str] = Counter()
    for file_notes in notes:
        counts.update(dict(zip(file_notes["sources"].tolist(), file_notes["of_sources"].tolist(), strict=True)))
    return dict(sorted(counts.items()))


def read_row_offsets(url: str, options: dict[str, Any]) -> Ints:
    """Read the `row_offsets` of the spilled rows of a round.

    Raises:
        DataError: their file is missing.
    """
    data = Directory(url, options).read(_ROW_OFFSETS)
    if data is None:
        raise DataError(f"{url!r} has no row offsets of documents any more; run again without resume")
    return np.asarray(np.load(io.BytesIO(data)))


@dataclass
class SpillReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads spilled rows back, each split under its original key.

    The version of each part of a split is the number of its first document. A wanted column that is only in the lines
    of the rows is left there, for `with_columns`.
    """

    lists_ahead: ClassVar[bool] = True
    spilled: SpilledRows
    wanted: tuple[str, ...] | None = None
    numbered: bool = True
    with_seen: bool = False
    name: str = "from_disk"

    def splits(self) -> Iterator[FileGroup]:
        spilled = self.spilled
        start = 0 if self.with_seen else spilled.seen
        parts: dict[str, list[FilePart]] = {split: [] for split in spilled.splits[start:]}
        firsts = spilled.row_offsets[:-1].tolist()
        for place in range(start, len(spilled.names)):
            path, size = spilled.folder.path(spilled.names[place]), spilled.sizes[place]
            parts[spilled.splits[place]].append(FilePart(path, 0, size, size, str(firsts[place]), size))
        for split, files in parts.items():
            yield FileGroup(key=BatchKey(split), parts=tuple(files))

    def settings(self) -> dict[str, Any]:
        return {"columns": self.wanted}

    def _rows(self, parts: Sequence[FilePart], wanted: Sequence[str] | None) -> pa.Table:
        options = dict(self.spilled.folder.options)
        if wanted is None:
            return stacked(read_parts(parts, options))
        return stacked(read_parts(parts, options, columns_to_read(wanted, columns_in(parts, options))))

    def process(self, task: FileGroup) -> DocumentBatch:
        seen = task.key is not None and task.key.split in self.spilled.splits[: self.spilled.seen]
        wanted = None if seen else self.wanted
        table = self._rows(task.parts, wanted)
        if not self.numbered:
            return DocumentBatch(data=table, key=task.key)
        first = int(task.parts[0].version)
        numbers = np.arange(first, first + table.num_rows)  # the files of a split follow one another
        return DocumentBatch(data=with_column(table, DOC_ID, numbers), key=task.key)

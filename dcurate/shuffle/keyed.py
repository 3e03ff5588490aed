"""Write the rows of a dataset by key, and read them back in that order, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FileGroup, FilePart, Rejection
from dcurate.core.kernels import Kernels
from dcurate.core.stage import SourceStage
from dcurate.frames.columns import numbers, rows_at, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.rows import Keys, row_keys
from dcurate.fs.stores import Directory
from dcurate.kernels.json_canonical import KERNELS
from dcurate.shuffle.chunks import ChunkIndex, Ints, read_chunks, read_indexes, read_parts, runs, stacked
from dcurate.shuffle.keys import range_of
from dcurate.shuffle.random_streams import Stream
from dcurate.shuffle.ranges import partition_of
from dcurate.shuffle.writer import ChunkWriter, slices_by_key

#: Columns that rows have between the two halves of a run.
HIGH, LOW, DATASET = "_dcurate_key_high", "_dcurate_key_low", "_dcurate_dataset"

#: Ranges of equal length in which keys are counted.
CELLS = 4096
_MOST_CHUNKS = 1024
_LEAST_BYTES = 2**16


@dataclass
class KeyedWriter(ChunkWriter):
    """Writes each batch in the order of the keys of its rows, cut into chunks by ranges of keys.

    Args:
        id_field: the column that identifies rows; the values of all columns if None.
        seed: other seeds give other keys.
        most: rows of each batch, those with the smallest keys, that are written; the others are only counted.
    """

    id_field: str | None = None
    seed: int = 0
    most: int | None = None
    name: str = "keyed_writer"

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], [] if self.id_field is None else [self.id_field]

    def kernels(self) -> Sequence[Kernels]:
        return [KERNELS] if self.id_field is None else []

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        dataset = 0
        if DATASET in table.column_names:
            dataset = int(numbers(table, DATASET)[0])
            table = table.drop_columns([DATASET])
        keys = row_keys(table, None if self.id_field is None else [self.id_field], self.seed + (dataset << 64))
        order = np.lexsort((keys[:, 1], keys[:, 0]))[: self.most]
        keys = keys[order]
        ordered = rows_at(self.to_spill(table), order)
        cells = np.bincount(range_of(keys[:, 0], CELLS), minlength=CELLS)
        notes = {"cells": cells, "about": np.array([dataset, table.num_rows]), **self.notes(ordered, keys, dataset)}
        marks = {DATASET: np.full(len(order), dataset, np.int16)}
        yield self.keyed(with_keys(ordered, keys, marks), key, folder, **notes)

    def keyed(self, ordered: Any, key: BatchKey, folder: str, **notes: npt.NDArray[Any]) -> FilePart:
        """Write rows that `with_keys` made, in the order of their keys, with notes in the index of the file."""
        chunks = slices_by_key(ordered, numbers(ordered, HIGH), _MOST_CHUNKS, _LEAST_BYTES)
        return self.chunks(chunks, key, folder, not self.directory.on_disk, **notes)

    def notes(self, table: Any, keys: Keys, dataset: int) -> dict[str, npt.NDArray[Any]]:
        """Return further arrays to keep in the index of the file.

        Args:
            table: the rows that are written, in order.
            keys: key of each of these rows.
            dataset: its number.
        """
        return {}


def with_keys(table: Any, keys: Keys, marks: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return rows with the columns of their keys, and with other columns that they have between the two halves."""
    for column, content in {HIGH: keys[:, 0], LOW: keys[:, 1], **marks}.items():
        table = with_column(table, column, content)
    return table


@dataclass(frozen=True)
class KeyedFile:
    """A file that a `KeyedWriter` wrote, and its index.

    Args:
        dataset: number of the dataset that its rows belong to.
        rows: how many came, with those that were not written.
        written: how many were written.
        nbytes: bytes of the written rows in memory.
        bounds: byte at which each chunk begins, and the end of the last.
    """

    name: str
    dataset: int
    rows: int
    written: int
    nbytes: int
    bounds: Ints

    def spans(self, shares: Sequence[tuple[float, float]]) -> Iterator[tuple[int, int]]:
        """Ranges of bytes that hold all rows whose keys lie in any of the shares of all possible keys."""
        number = len(self.bounds) - 1
        wanted = np.zeros(number, np.bool_)
        for start, stop in shares:
            wanted[int(start * number) : math.ceil(stop * number) or 1] = True
        for first, last in runs(wanted):
            start, stop = int(self.bounds[first]), int(self.bounds[last])
            if start < stop:
                yield start, stop


def keyed_files(folder: Directory, names: Sequence[str]) -> list[KeyedFile]:
    """Read the indexes of the files with these names."""
    return [_keyed_file(*pair) for pair in zip(names, read_indexes(folder, names), strict=True)]


def _keyed_file(name: str, index: ChunkIndex) -> KeyedFile:
    dataset, rows = index.notes["about"].tolist()
    return KeyedFile(name, dataset, rows, int(index.rows[-1]), int(index.sizes[-1]), index.bounds)


def stream_of(folder: Directory, files: Sequence[KeyedFile], wanted: int) -> Stream:
    """Return `wanted` rows of a dataset as a stream.

    Args:
        files: all of the dataset.
        wanted: any number; rows come again where it is more than there are.
    """
    plain = Stream(sum(file.rows for file in files), wanted)
    if not plain.rest:
        return plain
    cells = np.zeros(CELLS, np.int64)
    for index in read_indexes(folder, [file.name for file in files]):
        cells += index.notes["cells"]
    before = np.cumsum(cells)
    cell = int(np.searchsorted(before, plain.rest))
    skipped = int(before[cell - 1]) if cell else 0
    keys = np.concatenate([_keys_in(folder, file, cell) for file in files])
    keys = keys[np.lexsort((keys[:, 1], keys[:, 0]))][: plain.rest - skipped]
    last = keys[-1]
    return Stream(plain.rows, wanted, (int(last[0]), int(last[1])), int((keys == last).all(axis=1).sum()))


def _keys_in(folder: Directory, file: KeyedFile, cell: int) -> Keys:
    """The keys of a file's rows that lie in one of the ranges that are counted."""
    key_arrays = [np.zeros((0, 2), np.uint64)]
    for start, stop in file.spans([(cell / CELLS, (cell + 1) / CELLS)]):
        key_arrays += [
            keys_in(table) for table in read_chunks(folder.path(file.name), dict(folder.options), start, stop)
        ]
    keys = np.concatenate(key_arrays)
    return np.asarray(keys[range_of(keys[:, 0], CELLS) == cell])


def keys_in(table: Any) -> Keys:
    """Return the keys of rows that a `KeyedWriter` wrote."""
    return np.column_stack([numbers(table, HIGH), numbers(table, LOW)])


@dataclass
class StreamReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads the parts of the whole, one after the other: the rows of all streams, evenly interleaved.

    Args:
        url: the folder with the files.
        files: their names, in the order of the source.
        streams: one for each dataset.
        batches: into how many batches the whole is cut.
        left_out: a reason, and the rows that are reported as dropped for it.
    """

    lists_ahead: ClassVar[bool] = True
    url: str
    options: dict[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = field(default=(), repr=False)
    streams: tuple[Stream, ...] = ()
    batches: int = 1
    left_out: tuple[str, int] = ("", 0)
    name: str = "stream_reader"

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        listed = folder.files()
        entries = [listed[name] for name in self.files]
        files = keyed_files(folder, self.files)
        for part in range(self.batches):
            turns = [[(start, stop) for _, start, stop in stream.turns(part, self.batches)] for stream in self.streams]
            parts = [
                FilePart(folder.path(file.name), start, stop, entry.size, entry.version, stop - start)
                for file, entry in zip(files, entries, strict=True)
                for start, stop in file.spans(self.turns_of(file, turns))
            ]
            yield FileGroup(key=BatchKey(f"{self.name}-{part:05}"), parts=tuple(parts))

    def turns_of(
        self, file: KeyedFile, turns: Sequence[Sequence[tuple[float, float]]]
    ) -> Sequence[tuple[float, float]]:
        """Return the shares of all keys to read of a file, of those of each stream."""
        return turns[file.dataset]

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: FileGroup) -> DocumentBatch:
        part = partition_of(task)
        tables = read_parts(task.parts, self.options)
        return DocumentBatch(
            data=self._interleaved(stacked(tables), part) if tables else DocumentBatch().data,
            key=task.key,
            rejections=(Rejection(self.name, *self.left_out, 0),) if self.left_out[1] and not part else (),
        )

    def _interleaved(self, table: Any, part: int) -> Any:
        """The rows of a part of the whole, in order, of a table that holds them all."""
        keys, datasets = keys_in(table), numbers(table, DATASET)
        rows, positions = [], []
        for dataset, stream in enumerate(self.streams):
            dataset_rows = np.flatnonzero(datasets == dataset)
            chosen, at = stream.positions(keys[dataset_rows], part, self.batches)
            rows.append(dataset_rows[chosen])
            positions.append(at)
        every = np.concatenate(rows)
        order = np.lexsort((keys[every, 1], keys[every, 0], np.concatenate(positions)))
        return rows_at(table.drop_columns([HIGH, LOW, DATASET]), every[order])

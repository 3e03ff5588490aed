"""Batches of one size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import BarrierStage, SourceStage, Spec, Stage
from dcurate.datasets.shuffle import check_count
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.io.partition import parse_bytes
from dcurate.shuffle.chunks import ChunkIndex, Ints, read_indexes, read_rows, stacked
from dcurate.shuffle.ranges import base_names
from dcurate.shuffle.writer import ChunkWriter

_CHUNK = 2**18


@dataclass
class Rebatch(BarrierStage[DocumentBatch]):
    """Concatenate or split batches to one size.

    Rows stay in the order of the source. Writers write at least one file for each batch, so this sets the size of
    files. All rows are spilled to disk beside the output first. To cut batches only, give a writer
    ``max_rows_per_file`` or ``max_bytes_per_file``; to read small files together, give a reader a ``blocksize``.

    Args:
        rows: rows of each batch; the last one has the rest.
        nbytes: or target bytes of each batch in memory, as a number or text such as ``"128MiB"``.
        name: name of the stage.

    Raises:
        PipelineError: not exactly one of ``rows`` and ``nbytes``.

    Examples:
        >>> Rebatch(rows=10_000).rows
        10000
    """

    rows: int | None = None
    nbytes: int | str | None = None
    name: str = "rebatch"

    uses_columns_again: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.nbytes is None):
            raise PipelineError(f"{self.name}: give rows= or nbytes=, and not both")
        check_count(self.name, "rows", self.rows)
        if self.nbytes is not None:
            parse_bytes(self.nbytes, f"{self.name}: nbytes")

    def inputs(self) -> Spec:
        return [], []

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [RowsWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk")]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        names = base_names(splits)
        size = None if self.nbytes is None else parse_bytes(self.nbytes)
        return [RowsReader(url, dict(options), names, self.rows, size, name=self.name)]


@dataclass
class RowsWriter(ChunkWriter):
    """Writes each batch in chunks of consecutive rows."""

    name: str = "rows_writer"

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        table = self.to_spill(table)
        number = max(1, table.nbytes // _CHUNK)
        bounds = [place * table.num_rows // number for place in range(number + 1)]
        chunks = (table.slice(start, stop - start) for start, stop in pairwise(bounds))
        yield self.chunks(chunks, key, folder)


@dataclass
class RowsReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads the rows of all files in order, in batches of one size."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = field(default=(), repr=False)
    rows: int | None = None
    nbytes: int | None = None
    name: str = "rows_reader"

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        listed = folder.files()
        indexes = list(read_indexes(folder, self.files))
        before = np.cumsum([0, *(int(index.rows[-1]) for index in indexes)])
        bounds = self._bounds(indexes, before)
        for number, (start, stop) in enumerate(pairwise(bounds.tolist())):
            first, last = (int(np.searchsorted(before, row, "right")) - 1 for row in (start, stop - 1))
            parts = []
            for place in range(first, last + 1):
                entry = listed[self.files[place]]
                rows = max(start - int(before[place]), 0), min(stop, int(before[place + 1])) - int(before[place])
                parts.append(FilePart(folder.path(self.files[place]), *rows, entry.size, entry.version))
            yield FileGroup(key=BatchKey(f"{self.name}-{number:05}"), parts=tuple(parts))

    def _bounds(self, indexes: Sequence[ChunkIndex], before: Ints) -> Ints:
        """The rows at which batches begin, counted over all files, and the end of the last."""
        total = int(before[-1])
        if self.rows is not None:
            return np.unique(np.append(np.arange(0, total, self.rows), total))
        assert self.nbytes is not None
        sizes, rows = [np.zeros(1)], [np.zeros(1)]
        for index, row in zip(indexes, before, strict=False):
            sizes.append(sizes[-1][-1] + index.sizes[1:])
            rows.append(row + index.rows[1:])
        bytes_, at = np.concatenate(sizes), np.concatenate(rows)
        cuts = np.interp(np.arange(self.nbytes, bytes_[-1], self.nbytes), bytes_, at)
        return np.unique(np.concatenate([[0], np.floor(cuts).astype(np.int64), [total]]))

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: FileGroup) -> DocumentBatch:
        folder = Directory(self.url, self.options)
        tables: list[Any] = []
        for part in task.parts:
            assert part.stop is not None
            tables.append(read_rows(folder, part.path.rpartition("/")[2], part.start, part.stop))
        return DocumentBatch(data=stacked(tables), key=task.key)

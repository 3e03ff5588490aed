"""Spill the embeddings of a whole dataset to disk between rounds, as a matrix in the order of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage, Spec
from dcurate.dedup.semantic.ranking import Ranking
from dcurate.dedup.semantic.sample import drawn, edges
from dcurate.errors import DataError
from dcurate.frames.columns import nulls, numbers, only, rows_at, table_of, with_column, with_values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.vectors import Matrix, embeddings, table_of_vectors, with_vectors
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import SUFFIX as CHUNKS
from dcurate.shuffle.chunks import read_indexes, read_rows, stacked
from dcurate.shuffle.ranges import partition_of
from dcurate.shuffle.spill import DOC_ID, ROWS, SpilledRows, SpillWriter, identified
from dcurate.shuffle.vectors import SUFFIX, read_vector_rows, read_vectors, write_vectors
from dcurate.shuffle.writer import ChunkWriter

Ints = npt.NDArray[np.int64]

#: Folders of the embeddings, and of the entries about each, below that of a round.
VECTORS, ENTRIES = "vectors/", "entries/"
#: Column of embeddings of length one.
VECTOR = "_vector"
_ROW = "_row"
_ENTRIES = 4096


def rank_column(number: int) -> str:
    """The column of the ranks that one of several rules gives, counted from 0."""
    return f"_rank_{number}"


@dataclass
class EmbeddingWriter(SpillWriter):
    """Writes rows, and beside them their embeddings as a matrix.

    Args:
        embedding_field, id_field, text_field: columns.
        ranking: what its rules say is written as well.
        with_rows: whether the rows are needed again.
        with_ids: whether ids are.
        action: action of the stage.
        columns: columns of the rows that are written with the embeddings.
    """

    embedding_field: str = "embeddings"
    id_field: str | None = None
    text_field: str = "text"
    ranking: Ranking = field(default_factory=Ranking)
    with_rows: bool = True
    with_ids: bool = False
    action: str = "drop"
    columns: Sequence[str] = ()
    name: str = "embedding_writer"

    def inputs(self) -> Spec:
        auxiliary_columns = [*self.ranking.columns(self.text_field), *([self.id_field] if self.id_field else [])]
        return [], list(dict.fromkeys([self.embedding_field, *auxiliary_columns, *self.columns]))

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        embedded = embeddings(table, self.embedding_field)
        yield self.rows(table if self.with_rows else nulls(table.num_rows), key)
        entries = table_of({_ROW: embedded.rows})
        for number, ranks in enumerate(self.ranking.of_rows(table, self.text_field)):
            entries = with_column(entries, rank_column(number), ranks[embedded.rows])
        if self.with_ids:
            entries = identified(entries, table, self.id_field, key, embedded.rows, action=self.action)
        for name in self.columns:
            entries = with_values(entries, name, rows_at(only(table, [name]), embedded.rows), name)
        slices = (entries.slice(start, _ENTRIES) for start in range(0, entries.num_rows, _ENTRIES))
        yield self.chunks(slices, key, ENTRIES, dimensions=np.array([embedded.vectors.shape[1]]))
        yield matrix_file(self, embedded.vectors, key)


def matrix_file(writer: ChunkWriter, vectors: Matrix, key: BatchKey) -> FilePart:
    """Write the vectors of a batch, for a sink, to a file named after its key."""
    with writer.new_file(key, VECTORS, SUFFIX) as (path, file):
        write_vectors(file, vectors)
        return FilePart(path, size=file.tell())


@dataclass(frozen=True)
class Vectors:
    """The files that an `EmbeddingWriter` wrote, in the order of the source; vectors are numbered in that order.

    Args:
        folder: folder of the round.
        names: names of the files, without folder and ending.
        starts: the number of the first vector of each file, and of all vectors.
        row_offsets: the number of the first document of each file.
        dimensions: length of every vector.
    """

    folder: Directory
    names: tuple[str, ...] = field(repr=False)
    starts: Ints = field(repr=False)
    row_offsets: Ints = field(repr=False)
    dimensions: int

    @classmethod
    def written(cls, spilled: SpilledRows, column: str) -> Vectors:
        """The embeddings beside the rows of a dataset.

        Raises:
            DataError: they have several numbers of dimensions.
        """
        names = [name.removeprefix(ROWS).removesuffix(CHUNKS) for name in spilled.names]
        indexes = list(read_indexes(spilled.folder, spilled.sibling_files(ENTRIES)))
        widths = [int(index.notes["dimensions"][0]) for index in indexes if index.rows[-1]]
        for name, index in zip(spilled.splits, indexes, strict=True):
            width = int(index.notes["dimensions"][0])
            if index.rows[-1] and width != widths[0]:
                raise DataError(
                    f"column {column!r} holds embeddings of {widths[0]} numbers, but of {width} in {name!r}; "
                    "embed all documents with one model"
                )
        starts = np.cumsum([0, *(int(index.rows[-1]) for index in indexes)], dtype=np.int64)
        return cls(spilled.folder, tuple(names), starts, spilled.row_offsets, widths[0] if widths else 0)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def width(self) -> int:
        """Bytes of a vector."""
        return 4 * self.dimensions

    def parts(self, start: int, stop: int) -> Iterator[FilePart]:
        """Return the file parts that hold a range of vectors.

        The version of each part holds the numbers of the first vector, and of the first document, of its file.
        """
        first, last = np.searchsorted(self.starts, [start, stop - 1], "right").tolist()
        for file in range(first - 1, last):
            begin, end = self.starts[file : file + 2].tolist()
            if begin < end:
                yield FilePart(
                    self.folder.path(f"{VECTORS}{self.names[file]}{SUFFIX}"),
                    max(start, begin) - begin,
                    min(stop, end) - begin,
                    (end - begin) * self.width,
                    f"{begin} {self.row_offsets[file]}",
                    (min(stop, end) - max(start, begin)) * self.width,
                )


@dataclass
class VectorReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads all vectors in blocks of `rows`, with their document numbers and entries."""

    vectors: Vectors
    rows: int
    name: str = "vector_reader"

    def splits(self) -> Iterator[FileGroup]:
        for block, start in enumerate(range(0, len(self.vectors), self.rows)):
            parts = self.vectors.parts(start, min(start + self.rows, len(self.vectors)))
            yield FileGroup(key=BatchKey(f"{self.name}-{block:05}"), parts=tuple(parts))

    def settings(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def process(self, task: FileGroup) -> DocumentBatch:
        options = dict(self.vectors.folder.options)
        matrices, tables = [], []
        for part in task.parts:
            stop = part.stop or 0
            matrices.append(read_vectors(part.path, options, self.vectors.dimensions, part.start, stop))
            name = ENTRIES + part.path.rpartition("/")[2].removesuffix(SUFFIX) + CHUNKS
            entries = read_rows(self.vectors.folder, name, part.start, stop)
            documents = numbers(entries, _ROW) + int(part.version.split()[1])
            tables.append(with_column(entries.drop_columns([_ROW]), DOC_ID, documents))
        table = with_vectors(stacked(tables), VECTOR, matrices[0] if len(matrices) == 1 else np.concatenate(matrices))
        return DocumentBatch(data=table, key=task.key)


@dataclass
class SampleReader(SourceStage[FileGroup, DocumentBatch]):
    """Reads a sample of the vectors, in blocks of `rows`.

    Args:
        vectors: vectors from which the sample is drawn.
        wanted: how many.
        seed: other seeds give other samples.
        rows: number of rows in a block.
        every: read only every n-th row of a block, beginning with the first.
    """

    vectors: Vectors
    wanted: int
    seed: int
    rows: int
    every: int = 1
    name: str = "sample_reader"

    def splits(self) -> Iterator[FileGroup]:
        for block, first in enumerate(range(0, self.wanted, self.rows)):
            last = min(first + self.rows, self.wanted)
            start, stop = edges(len(self.vectors), self.wanted, np.array([first, last])).tolist()
            yield FileGroup(key=BatchKey(f"{self.name}-{block:05}"), parts=tuple(self.vectors.parts(start, stop)))

    def settings(self) -> dict[str, Any]:
        return {"wanted": self.wanted, "seed": self.seed, "rows": self.rows, "every": self.every}

    def process(self, task: FileGroup) -> DocumentBatch:
        first = partition_of(task) * self.rows
        rows = drawn(len(self.vectors), self.wanted, self.seed, first, min(first + self.rows, self.wanted))
        rows = rows[:: self.every]
        return DocumentBatch(data=table_of_vectors(VECTOR, self._read(task.parts, rows)), key=task.key)

    def _read(self, parts: Sequence[FilePart], rows: Ints) -> Matrix:
        options, dimensions = dict(self.vectors.folder.options), self.vectors.dimensions
        sample = np.empty((len(rows), dimensions), np.float32)
        for part in parts:
            begin = int(part.version.split()[0])
            selected = slice(*np.searchsorted(rows, [begin + part.start, begin + (part.stop or 0)]).tolist())
            sample[selected] = read_vector_rows(part.path, options, dimensions, rows[selected] - begin)
        return sample

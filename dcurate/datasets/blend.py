"""Several datasets as one, in shares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from dcurate.core.batch import BatchKey, FileGroup, FileRows
from dcurate.core.stage import AdaptsRows, CompositeStage, RowNeeds, SourceStage, Stage, TableAt
from dcurate.datasets.shuffle import KeyedBarrier, check_count
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.shuffle.keyed import DATASET, KeyedFile, stream_of
from dcurate.shuffle.random_streams import Stream, shares

Reader = SourceStage[FileGroup, DocumentBatch]


@dataclass
class Blend(CompositeStage[FileGroup, DocumentBatch]):
    """Start a pipeline with a mixture of datasets: rows of each in proportion to its weight, shuffled.

    Args:
        target_size: the exact number of rows.
        datasets: a reader for each.
        sampling_weights: one for each, with any sum. Shares of the target size are rounded so that they add up to it.
        seed: other seeds give other rows and another order.
        id_field: the column that identifies rows of one dataset, see `Shuffle`; all columns if None.
        npartitions: how many batches there are; by default one for each ``blocksize``.
        blocksize: target bytes of a batch in memory.
        name: name of the stage.

    Rows are drawn without replacement. A dataset with fewer rows than its share is repeated in the same order: the
    numbers of copies of any two of its rows differ by at most one, and copies are as far apart as possible. Datasets
    are interleaved evenly, so every part of the output has their shares. The rows and their order depend only on the
    seed and the rows, as with `Shuffle`.

    Raises:
        PipelineError: not one weight for each reader, or invalid weights.
        DataError: a dataset with a positive weight has no rows.

    Examples:
        >>> from dcurate import JsonlReader
        >>> blend = Blend(1000, [JsonlReader("web"), JsonlReader("books")], [0.9, 0.1])
        >>> [stage.name for stage in blend.decompose()]
        ['blend_readers', 'blend']
    """

    target_size: int
    datasets: list[Reader]
    sampling_weights: list[float]
    seed: int = 0
    id_field: str | None = None
    npartitions: int | None = None
    blocksize: int | str = "128MiB"
    name: str = "blend"

    def __post_init__(self) -> None:
        check_count(self.name, "target_size", self.target_size)
        for reader in self.datasets:
            if not isinstance(reader, SourceStage):
                raise PipelineError(
                    f"{self.name}: {reader!r} is not a reader; give a list such as [JsonlReader('web')]"
                )
        if len(self.datasets) != len(self.sampling_weights) or not self.datasets:
            raise PipelineError(
                f"{self.name}: {len(self.datasets)} datasets and {len(self.sampling_weights)} sampling_weights; "
                "give one weight for each dataset"
            )
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.sampling_weights) or not any(
            self.sampling_weights
        ):
            raise PipelineError(
                f"{self.name}: sampling_weights={self.sampling_weights!r} must be numbers of zero or more, one above it"
            )

    def decompose(self) -> list[Stage]:
        blended = BlendRows(
            counts=shares(self.target_size, self.sampling_weights),
            seed=self.seed,
            id_field=self.id_field,
            npartitions=self.npartitions,
            blocksize=self.blocksize,
            name=self.name,
        )
        return [Readers(list(self.datasets), name=f"{self.name}_readers"), blended]


@dataclass
class Readers(SourceStage[FileGroup, DocumentBatch]):
    """Several readers as one; every row is marked with the number of its reader."""

    lists_ahead: ClassVar[bool] = True
    readers: list[Reader]
    name: str = "readers"

    def adapted(self, needs: RowNeeds) -> Self | None:
        """Return the readers of rows with their lines, or with columns that say where they were read, if all can."""
        adapted = (_adapted(reader, needs) for reader in self.readers)
        readers = [reader for reader in adapted if reader is not None]
        return replace(self, readers=readers) if len(readers) == len(self.readers) else None

    def splits(self) -> Iterator[FileGroup]:
        for number, reader in enumerate(self.readers):
            for split in reader.splits():
                assert split.key is not None
                yield replace(split, key=BatchKey(f"{number}/{split.key.split}"))

    def columns(self) -> list[str] | None:
        headers = [reader.columns() for reader in self.readers]
        return None if None in headers else list(dict.fromkeys(name for columns in headers for name in columns or ()))

    def roots(self) -> list[str]:
        return [root for reader in self.readers for root in reader.roots()]

    def reads(self, path: str) -> bool:
        return any(reader.reads(path) for reader in self.readers)

    def tables_read(self) -> list[TableAt]:
        return [table for reader in self.readers for table in reader.tables_read()]

    def divided(self, task: FileGroup) -> FileRows | None:
        return self.readers[_number(task)].divided(task)

    def unread(self, task: FileGroup) -> list[dict[str, Any]]:
        return self.readers[_number(task)].unread(task)

    def process(self, task: FileGroup) -> DocumentBatch | None:
        number = _number(task)
        made = self.readers[number].process(task)
        if not isinstance(made, DocumentBatch):
            return None
        marks = np.full(made.num_items, number, np.int16)
        return replace(made, data=with_column(made.to_arrow(), DATASET, marks))


def _number(task: FileGroup) -> int:
    """The number of the reader that a split is of."""
    assert task.key is not None
    return int(task.key.split.partition("/")[0])


@dataclass
class BlendRows(KeyedBarrier):
    """Puts marked rows together in the numbers that are wanted of each reader."""

    counts: list[int]
    name: str = field(default="blend", kw_only=True)

    def streams(self, folder: Directory, files: Sequence[KeyedFile]) -> tuple[Stream, ...]:
        streams = []
        for dataset, wanted in enumerate(self.counts):
            dataset_files = [file for file in files if file.dataset == dataset]
            if wanted and not sum(file.rows for file in dataset_files):
                raise DataError(
                    f"{self.name}: dataset {dataset} has no rows, and is to give {wanted}; leave it out, or set its "
                    "weight to 0"
                )
            streams.append(stream_of(folder, dataset_files, wanted))
        return tuple(streams)


def _adapted(reader: Reader, needs: RowNeeds) -> Reader | None:
    if isinstance(reader, AdaptsRows) and (reader.declares_columns or not needs.lines):
        return reader.adapted(needs)
    return None if needs.lines else reader

"""Rows of equal keys brought together, out of core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FilePart
from dcurate.core.stage import BarrierStage, ProcessingStage, Spec, Stage
from dcurate.frames.columns import numbers, rows_at, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.rows import Keys, row_keys
from dcurate.fs.stores import Directory
from dcurate.io.partition import parse_bytes
from dcurate.shuffle.chunks import Ints
from dcurate.shuffle.merge import with_merged_files
from dcurate.shuffle.ranges import FILE, ShuffleIndex
from dcurate.shuffle.writer import ShuffleWriter

#: The columns of the hash of a row's key, between the two halves of a run.
HIGH, LOW = "_dcurate_group_high", "_dcurate_group_low"


@dataclass
class RowsByKey(BarrierStage[DocumentBatch]):
    """Brings rows with equal values in some columns into one batch.

    Args:
        fields: the columns.
        then: the stage that gets these batches; see `in_groups`.
        blocksize: target bytes of a batch in memory.
        name: name of the stage.
    """

    fields: list[str]
    then: ProcessingStage[DocumentBatch, DocumentBatch]
    blocksize: int | str = "128MiB"
    name: str = "rows_by_key"

    uses_columns_again: ClassVar[bool] = False

    def inputs(self) -> Spec:
        return [], list(self.fields)

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [
            RowsByKeyWriter(
                url,
                mode="overwrite",
                storage_options=dict(options),
                by=HIGH,
                key_fields=tuple(self.fields),
                name=f"{self.name}_to_disk",
            )
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        files = ShuffleIndex.written(Directory(url, options), splits)
        partitions = files.partitions_for(parse_bytes(self.blocksize))

        def grouped(merged: ShuffleIndex) -> list[Stage]:
            return [merged.reader(partitions, HIGH, f"{self.name}_rows"), self.then]

        return with_merged_files(files, partitions, HIGH, self.name, grouped)


@dataclass
class RowsByKeyWriter(ShuffleWriter):
    """Writes each batch in the order of the hash of some columns.

    Args:
        key_fields: the columns.
    """

    key_fields: tuple[str, ...] = ()
    name: str = "rows_by_key_writer"

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], list(self.key_fields)

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        keys = row_keys(table, self.key_fields, 0)
        yield from super()._write(with_column(with_column(table, HIGH, keys[:, 0]), LOW, keys[:, 1]), key, folder)


def in_groups(table: Any) -> tuple[Any, Ints]:
    """Return the rows that `RowsByKey` brought together in the order of their keys, and the number of each one's group.

    Rows of a group have the order of the source.
    """
    table = rows_at(table, np.lexsort((numbers(table, LOW), numbers(table, HIGH))))
    keys: Keys = np.column_stack([numbers(table, HIGH), numbers(table, LOW)])
    groups = np.cumsum(np.append(True, (keys[1:] != keys[:-1]).any(axis=1))) - 1
    unwanted = [name for name in (HIGH, LOW, FILE) if name in table.column_names]
    return table.drop_columns(unwanted), groups


def first_and_differing(
    table: Any, rows: Ints, groups: Ints, fields: Sequence[str]
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the first of some rows in each group, or -1; and whether others of them differ from it in some columns.

    Args:
        rows: ascending numbers of rows.
        groups: number of the group of each row of the table.
    """
    count = int(groups[-1]) + 1 if len(groups) else 0
    first, differ = np.full(count, -1), np.zeros(count, np.bool_)
    if len(rows):
        occupied, starts = np.unique(groups[rows], return_index=True)
        first[occupied] = rows[starts]
        if fields:
            content = row_keys(rows_at(table, rows), fields, 0)
            before = np.repeat(starts, np.diff(np.append(starts, len(rows))))
            differ[groups[rows][(content != content[before]).any(axis=1)]] = True
    return first, differ

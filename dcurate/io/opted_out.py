"""Rows that lists of documents to remove name, as they would be written to an output again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from dcurate.frames.columns import column_of, python_values
from dcurate.fs.stores import Directory
from dcurate.io.optouts import OptOuts, standing
from dcurate.rows import has_lines, whole_rows


@dataclass
class StandingLists:
    """The lists that were applied to outputs; they are read where they are first needed, and not sent.

    Args:
        directories: the outputs.
        id_field: column of ids, where the outputs know documents by that one alone; None for any.
    """

    directories: Sequence[Directory]
    id_field: str | None = None
    _lists: list[OptOuts] | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lists": None}

    @property
    def lists(self) -> list[OptOuts]:
        """The lists.

        Raises:
            DataError: one is damaged.
        """
        if self._lists is None:
            lists = [optouts for directory in self.directories for optouts in standing(directory)]
            self._lists = [self._with_ids(optouts) for optouts in lists]
        return self._lists

    def _with_ids(self, optouts: OptOuts) -> OptOuts:
        if self.id_field is None or optouts.compared.id is not None:
            return optouts
        return replace(optouts, compared=optouts.compared._replace(id=self.id_field))

    def columns(self) -> list[str]:
        """Return the columns that are compared, but for those of ids that no list names.

        Raises:
            DataError: a list is damaged.
        """
        compared = [optouts.compared for optouts in self.lists]
        return list(dict.fromkeys(name for columns in compared for name in columns if name is not None))

    def named(self, table: pa.Table, written: Sequence[str] | None = None) -> set[int]:
        """Return the rows of a table that a list names.

        Args:
            table: rows.
            written: columns that an output has; all if None.

        Raises:
            DataError: a list is damaged.
        """
        if not self.lists or not table.num_rows:
            return set()
        return {row for optouts in self.lists for row in _named_rows(table, optouts, written)}


def rows_but(table: pa.Table, rows: set[int]) -> pa.Table:
    """Return a table without some of its rows."""
    if not rows:
        return table
    return table.take(pa.array([row for row in range(table.num_rows) if row not in rows], pa.int64()))


def _named_rows(table: pa.Table, optouts: OptOuts, written: Sequence[str] | None) -> set[int]:
    if has_lines(table):
        rows = list(whole_rows(table))
        names = optouts.columns(list(dict.fromkeys(name for row in rows for name in row)), written)
        columns = [None if name is None else [row.get(name) for row in rows] for name in names]
    else:
        names = optouts.columns(table.column_names, written)
        columns = [None if name is None else python_values(column_of(table, name)) for name in names]
    return {hit.row for hit in optouts.hits(*columns)}

"""`TableAt`: a version of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TableAt:
    """A version of a table, as a run read or wrote it.

    Args:
        path: address of its folder.
        format: such as ``"Delta Lake"``.
        version: number of the version, or id of the snapshot of Iceberg.
    """

    path: str
    format: str
    version: int

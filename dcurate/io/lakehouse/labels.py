"""Labels of runs that append to a table: the commit of a later run takes out the files of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.io.lakehouse.table import LakeTable

#: What a run notes of itself, by its id; see `TableWriter`.
RunRecords = Mapping[str, Mapping[str, Any]]


def committed_files(table: LakeTable, record: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the files that a run has committed; None if it has committed nothing.

    Args:
        table: the table.
        record: what the run notes of itself.
    """
    if record["pending"] and table.has(record["run"], record["generation"]):  # it died before it noted so
        return [*record["committed"], *record["pending"]]
    return list(record["committed"]) if record["begun"] else None


def replaced_runs(table: LakeTable, records: RunRecords) -> set[str]:
    """Return the ids of the runs whose rows a later run with their label has replaced."""
    ended = (record for record in records.values() if committed_files(table, record) is not None)
    return {run for record in ended for run in record.get("replaces", ())}


def runs_to_replace(table: LakeTable, records: RunRecords, run: str, label: str) -> dict[str, list[str]]:
    """Return the files that a run replaces, by the id of the run that committed them.

    Args:
        table: the table.
        records: what each run notes of itself.
        run: id of the run that replaces them.
        label: its label.
    """
    gone = replaced_runs(table, records)
    same = {name: record for name, record in records.items() if record.get("label") == label}
    files = {name: committed_files(table, record) for name, record in same.items() if name not in {run, *gone}}
    return {name: committed for name, committed in files.items() if committed is not None}

"""What the runs that write to a table note of themselves: what they have committed, and are about to commit."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import orjson

from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, RUNS, Directory
from dcurate.io import output
from dcurate.io.lakehouse.labels import replaced_runs, runs_to_replace
from dcurate.io.lakehouse.table import LakeTable

#: Records that are read together.
_READERS = 16
#: What a run has committed and is about to commit, among its records.
_RECORD = f"{META_DIR}/output.json"


@dataclass(frozen=True)
class TableRuns:
    """The runs that have written to a table, or write to it.

    Args:
        directory: folder of the table.
        table: the table.
    """

    directory: Directory
    table: LakeTable

    def all(self) -> list[Directory]:
        """Return the table with the records of each run."""
        top = replace(self.directory, run="")
        names = top.files(f"{META_DIR}/{RUNS}")
        return [replace(top, run=run) for run in sorted({name.split("/")[2] for name in names})]

    def of_label(self, label: str) -> list[Directory]:
        """Return the runs of a label whose rows no later one has replaced, the latest first."""
        records = [(read_record(run), run) for run in self.all()]
        runs = [(record, run) for record, run in records if record is not None and record.get("label", "") == label]
        gone = replaced_runs(self.table, {run.run: record for record, run in runs}) if label else set()
        return [run for _, run in sorted(runs, key=_began, reverse=True) if run.run not in gone]

    def finished(self, version: int | None) -> int:
        """Return a number that grows with each finished run; see `output.name_in_indexes`.

        Args:
            version: version of the table; None before there is a table.
        """
        runs = self.all()
        with ThreadPoolExecutor(_READERS) as pool:
            records = list(pool.map(read_record, runs))
        ended = set(output.ended_runs(replace(self.directory, run="")))
        counts = [record["finished"] + (run.run in ended) for run, record in zip(runs, records, strict=True) if record]
        return max(counts, default=0 if version is None else version + 1)

    def to_replace(self, run: str, label: str | None) -> Mapping[str, list[str]]:
        """Return the files of earlier runs with the label of a run, by the run, that its commit takes out."""
        if label is None:
            return {}
        records = {commits.run: known for commits in self.all() if (known := read_record(commits)) is not None}
        return runs_to_replace(self.table, records, run, label)


def read_record(run: Directory) -> dict[str, Any] | None:
    """Return what a run notes of itself; None if it has noted nothing."""
    data = run.read(_RECORD)
    return None if data is None else dict(orjson.loads(data))


def present_record(run: Directory, table: str) -> dict[str, Any]:
    """Return what the present run has noted of itself.

    Args:
        run: the table, with the records of the run.
        table: path of the table, for the error.

    Raises:
        DataError: the record is gone.
    """
    record = read_record(run)
    if record is None:
        raise DataError(f"the records of the run that writes to {table!r} were deleted meanwhile; run again")
    return record


def write_record(run: Directory, record: Mapping[str, Any]) -> None:
    """Keep what a run notes of itself."""
    run.write(_RECORD, orjson.dumps(record))


def note_committed(record: dict[str, Any]) -> None:
    """Note that what was about to be committed is."""
    record["committed"], record["pending"] = record["committed"] + record["pending"], []
    record["begun"] = True  # what comes later is added
    record["generation"] += 1


def _began(run: tuple[Mapping[str, Any] | None, Directory]) -> float:
    record, _ = run
    return float(record["began"]) if record else 0.0

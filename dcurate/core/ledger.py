"""The ledger of finished splits, with which a run is resumed, and the sink of rejected rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from dcurate.core.batch import BatchKey, Rejection
from dcurate.errors import RunError


@dataclass(frozen=True)
class SplitRecord:
    """A source split that is finished: all of its rows are written, dropped or in quarantine (see `check_accounts`).

    Args:
        split: its name (the ``split`` of its key).
        version: the version of its files when they were read.
        files: the files written for it, relative to the output directory; may be none.
        stats: what each stage did to it, as `StageStats.counts` gives it.
        inputs: the files of the input that it holds rows of, as their paths; none if that is not known.
    """

    split: str
    version: str
    files: tuple[str, ...]
    stats: tuple[dict[str, Any], ...]
    inputs: tuple[str, ...] = ()


def check_accounts(split: str, stats: Sequence[Mapping[str, Any]], stages: Sequence[str]) -> None:
    """Refuse a split with missing rows: each must be in the output, dropped or in quarantine.

    Args:
        split: its name.
        stats: what each stage that it came to did to it, in order, as `StageStats.counts` gives it.
        stages: the names of all stages, in order.

    Raises:
        RunError: rows are missing.

    Examples:
        >>> read = {"name": "read", "rows_in": 3, "rows_out": 2, "dropped": {}, "faulty": {"malformed line": 1}}
        >>> write = {"name": "write", "rows_in": 1, "rows_out": 1, "dropped": {}, "faulty": {}}
        >>> check_accounts("a.jsonl", [read, write | {"rows_in": 2, "rows_out": 2}], ["read", "write"])
        >>> check_accounts("a.jsonl", [read, write], ["read", "write"])
        Traceback (most recent call last):
        dcurate.errors.RunError: split 'a.jsonl' has 2 rows after stage 'read' and 1 before 'write', so rows are ...
    """
    if len(set(stages)) < len(stages):  # what stages of one name did is counted together
        return
    by_stage = {counts["name"]: counts for counts in stats}
    for before, after in pairwise([*stages, ""]):
        counts = by_stage.get(before, {"rows_in": 0, "rows_out": 0, "dropped": {}, "faulty": {}})
        kept = counts["rows_in"] - sum(counts["dropped"].values()) - sum(counts["faulty"].values())
        if kept > counts["rows_out"]:
            mismatch = f"{kept} rows that stage {before!r} kept and {counts['rows_out']} after it"
        elif after and counts["rows_out"] != (follows := by_stage[after]["rows_in"] if after in by_stage else 0):
            mismatch = f"{counts['rows_out']} rows after stage {before!r} and {follows} before {after!r}"
        else:
            continue
        raise RunError(
            f"split {split!r} has {mismatch}, so rows are missing; it does not count as finished: run again with "
            "resume=True, and report it as an error of dcurate if it stays"
        )


class Ledger(Protocol):
    """Knows which splits are finished, across runs."""

    @property
    def skipped(self) -> int:
        """The number of parts that could not be read; their splits count as unfinished."""

    def finished(self, split: str, version: str) -> SplitRecord | None:
        """The record of a split that an earlier run finished from the same version of its files, if there is one."""

    def record(self, record: SplitRecord) -> None:
        """Remember a finished split; durable after the next `flush`, which may come by itself."""

    def flush_due(self) -> None:
        """Make what was recorded durable, if it has waited for its time; called again and again during a run."""

    def flush(self) -> None:
        """Make all that was recorded durable."""

    def close(self) -> None:
        """The run ended well: make all durable, as compactly as can be."""


class RejectionSink(Protocol):
    """Keeps rejected rows; shipped to workers, so it must pickle small."""

    def keep(self, key: BatchKey, operator: str, rejections: list[Rejection]) -> str:
        """Write the rows under a name that follows from key and operator, whole or not at all.

        Returns:
            The name of the file with those that could not be processed; empty if there are none.
        """

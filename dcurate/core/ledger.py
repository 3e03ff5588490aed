"""What a run remembers, so that the next one does only what is missing; and where rejected rows go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from dcurate.core.batch import BatchKey, Rejection


@dataclass(frozen=True)
class SplitRecord:
    """A source split that is finished: all of its rows are written, dropped or in quarantine.

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


class Ledger(Protocol):
    """Knows which splits are finished, across runs."""

    @property
    def skipped(self) -> int:
        """How many of its parts could not be read; the splits in them count as not finished."""

    def __len__(self) -> int:
        """How many splits are finished, those of earlier runs included."""

    def finished(self, split: str, version: str) -> SplitRecord | None:
        """The record of a split that an earlier run finished from the same version of its files, if there is one."""

    def record(self, record: SplitRecord) -> None:
        """Remember a finished split; durable after the next `flush`, which may come by itself."""

    def flush(self) -> None:
        """Make all that was recorded durable."""

    def close(self) -> None:
        """The run ended well: make all durable, as compactly as can be."""


class RejectionSink(Protocol):
    """Keeps rejected rows; shipped to workers, so it must pickle small."""

    def keep(self, key: BatchKey, operator: str, rejections: list[Rejection]) -> None:
        """Write the rows under a name that follows from key and operator, whole or not at all."""

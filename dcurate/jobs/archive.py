"""The record and the log of a job in the records of its output: what is left when the scheduler is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory
from dcurate.jobs.records import JobRecord, LogLine

_JOBS = f"{META_DIR}/jobs"
#: Bytes of a file of a log, and seconds between two writings of it.
PART_BYTES, PART_S = 1 << 20, 5.0
#: Files of a log that are kept, the first and the last ones.
MOST_PARTS = 64


@dataclass
class JobArchive:
    """Writes the record and the log of a job to the records of its output. A store that fails costs the log only.

    Args:
        output: the output of the job.
        job: id of the job.
        attempt: number of the driver, for files of its own.
    """

    output: Directory
    job: str
    attempt: int
    error: str = ""
    _part: list[bytes] = field(default_factory=list)
    _size: int = 0
    _number: int = 0
    _changed: bool = False
    _written: float = 0.0

    def write_record(self, record: JobRecord) -> None:
        """Write the state of the job."""
        self._write(f"{_JOBS}/{self.job}/job.json", json.dumps(record.to_dict()).encode())

    def write_lines(self, lines: Iterable[LogLine], *, now: bool = False) -> None:
        """Add lines to the log; they are written every few seconds, or now."""
        for line in lines:
            data = json.dumps(line.to_dict()).encode() + b"\n"
            self._part.append(data)
            self._size += len(data)
            self._changed = True
        due = self._size >= PART_BYTES or now or time.monotonic() - self._written >= PART_S
        if not self._changed or not due:
            return
        self._write(self._name(self._number), b"".join(self._part))
        self._changed, self._written = False, time.monotonic()
        if self._size >= PART_BYTES:
            self._part, self._size, self._number = [], 0, self._number + 1
            if self._number > MOST_PARTS:
                self._remove(self._name(self._number - MOST_PARTS // 2))

    def _name(self, number: int) -> str:
        return f"{_JOBS}/{self.job}/log-{self.attempt:03d}-{number:05d}.jsonl"

    def _write(self, name: str, data: bytes) -> None:
        try:
            with self.output.writing(name, durable=False) as file:
                file.write(data)
            self.error = ""
        except DataError as error:
            self.error = str(error)

    def _remove(self, name: str) -> None:
        try:
            self.output.remove([name])
        except DataError as error:
            self.error = str(error)


def archived_jobs(output: str, options: Mapping[str, Any] | None = None) -> list[JobRecord]:
    """Return the jobs that wrote to an output, the newest first.

    Args:
        output: the output directory.
        options: fsspec's ``storage_options``.

    Raises:
        DataError: the output cannot be read.
    """
    directory = Directory(output, dict(options or {}))
    jobs = []
    for name in directory.files(_JOBS):
        if name.endswith("/job.json") and (data := directory.read(name)) is not None:
            jobs.append(JobRecord.from_dict(json.loads(data)))
    return sorted(jobs, key=lambda job: job.submitted, reverse=True)


def archived_lines(output: str, job: str, options: Mapping[str, Any] | None = None) -> Iterator[LogLine]:
    """Yield the log of a job that wrote to an output.

    Args:
        output: the output directory.
        job: id of the job.
        options: fsspec's ``storage_options``.

    Raises:
        DataError: the output cannot be read.
    """
    directory = Directory(output, dict(options or {}))
    for name in sorted(directory.files(f"{_JOBS}/{job}")):
        if name.endswith(".jsonl"):
            for line in (directory.read(name) or b"").splitlines():
                yield LogLine(**json.loads(line))

"""The ledger on disk: small files beside the output that record which splits are finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Self, cast

import orjson

from dcurate.core.batch import has_rows_of
from dcurate.core.ledger import SplitRecord
from dcurate.core.stage import SinkStage
from dcurate.errors import PipelineError, listed
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io import output
from dcurate.io.input_manifest import InputManifest, Vanished
from dcurate.io.ledger_segments import LedgerSegments
from dcurate.io.name_set import NameSet
from dcurate.io.sink import FileWriter

_FOLDER = f"{META_DIR}/ledger"
_PIPELINE = f"{_FOLDER}/pipeline.json"
#: Records that wait to be written, at most.
_MOST_PENDING = 512
#: Records wait for this share of the time of the run so far, within these limits in seconds.
_SHARE, _SHORTEST, _LONGEST = 0.01, 1.0, 10.0


class DirectoryLedger:
    """Records finished splits in ``ledger`` of the records of an output directory, on any store.

    Records are written in segments that never change, each whole or not at all: when 512 are waiting, or when
    1% of the run's time (at least a second, at most ten seconds) has passed since the last one. Segments are joined, so
    that a long run leaves few; see `dcurate.io.ledger_segments`. Memory does not grow with the number of splits. Open
    it after the writer has prepared the directory.

    Args:
        directory: the output directory.
        fingerprint: fingerprint of the pipeline, by stage, as `dcurate.core.fingerprint.fingerprint` gives it.
        resume: whether the records of an earlier run are kept.
        clock: clock in seconds.
        sink: writer to the directory, which decides whether files of no finished split are deleted.

    Attributes:
        removed: splits whose output `reconcile` has removed.

    Raises:
        PipelineError: an earlier run was of another pipeline.
        DataError: the directory cannot be read or written.
    """

    def __init__(
        self,
        directory: Directory,
        fingerprint: Mapping[str, str],
        resume: bool,
        clock: Callable[[], float] = time.monotonic,
        sink: FileWriter | None = None,
    ) -> None:
        self.removed: set[str] = set()
        self._directory, self._clock, self._sink = directory, clock, sink
        self._existing: NameSet | None = None  # files of the output, once they are listed
        self._input_manifest: InputManifest | None = None
        self._of = ""
        self._pending: dict[str, SplitRecord] = {}  # records that wait to be written, by split
        self._check: Callable[[], None] = lambda: None
        self._begun = self._flushed = clock()
        known = directory.read(_PIPELINE) if resume else None
        if known is not None:
            check_same(directory.url, _parsed(known), fingerprint, self._advice)
        self._segments = LedgerSegments(directory, _FOLDER, forget=known is None)
        if known is None:
            directory.write(_PIPELINE, orjson.dumps(dict(fingerprint), option=orjson.OPT_INDENT_2))

    @classmethod
    def open(cls, sink: SinkStage[Any], fingerprint: Mapping[str, str], resume: bool) -> Self:
        """Open the ledger of the output of a sink."""
        if isinstance(sink, FileWriter):
            return cls(sink.directory, fingerprint, resume, sink=sink)
        return cls(Directory(sink.output_path), fingerprint, resume)

    def attach(
        self, input_manifest: InputManifest, whole: bool = False, check: Callable[[], None] = lambda: None
    ) -> None:
        """Record the input files of each split from now on.

        Args:
            input_manifest: manifest of the input.
            whole: whether the output of a split depends on all of the input, so that it is valid for this input only.
            check: raises if another run has taken the output over; called before anything is written.
        """
        self._input_manifest, self._of = input_manifest, f"-{input_manifest.digest[:16]}" if whole else ""
        self._check = check

    def count(self) -> int:
        """Count the finished splits whose output exists, which reads all records."""
        return sum(map(self._is_whole, self._all()))

    def records(self) -> Iterator[SplitRecord]:
        """Yield the records of all splits, which reads all of them."""
        return self._all()

    @property
    def skipped(self) -> int:
        """Number of segments that could not be read; their splits are done again."""
        return len(self._segments.damaged)

    @property
    def begun(self) -> bool:
        """Whether any split is recorded."""
        return bool(self._segments) or bool(self._pending)

    def check(self, input_manifest: InputManifest) -> None:
        """Refuse an input with which the finished splits cannot be reconciled.

        Raises:
            DataError: rows would be lost or doubled in any case.
        """
        vanished = Vanished.of(self._outside(input_manifest.files), input_manifest.files, input_manifest)
        vanished.check(self._directory.url, self._advice)

    def reconcile(self, splits: Container[str], input_manifest: InputManifest) -> list[str]:
        """Remove the output of splits that no longer exist and whose rows are in other splits; return notices.

        It may be killed at any time: records stay on disk as long as one of their files may be left.
        """
        vanished = Vanished.of(self._outside(splits), splits, input_manifest)
        self._remove({file for record in vanished.regrouped for file in record.files})
        for record in vanished.regrouped:
            self._pending.pop(record.split, None)
            self._segments.drop(record.split)
        self.removed = {record.split for record in vanished.regrouped}
        return list(vanished.notices(self._appends))

    def finished(self, split: str, version: str) -> SplitRecord | None:
        """Return the record of a split, if it was finished from this version of its files and its output exists."""
        record = self._known(split)
        if record is None or not record.version.endswith(self._of):
            return None
        made = record.version.removesuffix(self._of)
        return record if has_rows_of(made, version) and self._is_whole(record) else None

    def record(self, record: SplitRecord) -> None:
        """Record a finished split. Files of it that an earlier version left behind are deleted."""
        files = [self._relative(path) for path in record.files]
        earlier = self._known(record.split)
        if earlier is not None:
            self._remove(set(earlier.files) - set(files))
        inputs = self._input_manifest.of(record.split) if self._input_manifest else record.inputs
        record = replace(record, version=record.version + self._of, files=tuple(files), inputs=inputs)
        self._pending[record.split] = record
        if len(self._pending) >= _MOST_PENDING:
            self.flush()
        else:
            self.flush_due()

    def flush_due(self) -> None:
        """Write the waiting records to disk, if they have waited long enough."""
        self._check()
        now = self._clock()
        longest = max(_SHORTEST, min(_SHARE * (now - self._begun), _LONGEST))
        if self._pending and now - self._flushed >= longest:
            self.flush()

    def flush(self) -> None:
        """Write all records to disk."""
        self._check()
        if self._pending:
            self._segments.append(list(self._pending.values()))
            self._pending = {}
        self._flushed = self._clock()

    def close(self) -> None:
        """Write all records to as few segments as possible, at the end of a run."""
        self.flush()
        self._segments.compact()

    def take(self, others: Iterable[Directory]) -> None:
        """Copy the records of the ledgers of other runs into the same output to this one, one ledger at a time."""
        for other in others:
            records = saved_records(other).records()
            while group := list(islice(records, _MOST_PENDING)):
                self._segments.append(group)

    def move_strays(self, unfinished: Iterable[str] = ()) -> list[str]:
        """Move files of no finished split to `STRAYS`, once all splits are finished; return notices.

        A run that is killed leaves files of splits that it had not recorded, and the input may not have these any more.

        Args:
            unfinished: files of splits that do not count as finished, which stay.
        """
        files = chain.from_iterable(record.files for record in self._all())
        known = chain(files, map(self._relative, unfinished))
        strays = [] if self.skipped else output.move_strays(self._directory, known)
        if not strays:
            return []
        return [
            f"{len(strays):,} files in the output were of no finished split (first: {min(strays)!r}), as a run that is "
            f"killed leaves them; they are in {self._directory.path(output.STRAYS)!r} now"
        ]

    def _remove(self, files: set[str]) -> None:
        if self._sink is None or self._sink.replaces_files:
            self._directory.remove(sorted(files))

    @property
    def _appends(self) -> bool:
        """Whether rows of other runs may be in the output."""
        return output.is_added_to(self._directory, "error" if self._sink is None else self._sink.mode)

    @property
    def _advice(self) -> str:
        return output.advice_to_begin_anew(self._appends)

    def _all(self) -> Iterator[SplitRecord]:
        return self._outside(())

    def _outside(self, splits: Container[str]) -> Iterator[SplitRecord]:
        """Yield the records of all splits but these."""
        written = self._segments.outside(splits)
        waiting = list(self._pending.values())
        yield from (record for record in written if record.split not in self._pending)
        yield from (record for record in waiting if record.split not in splits)

    def _known(self, split: str) -> SplitRecord | None:
        return self._pending.get(split) or self._segments.find(split)

    def _is_whole(self, record: SplitRecord) -> bool:
        """Return whether all files of a split exist. A store lists its files once, and is asked for newer ones."""
        if self._existing is None:
            self._existing = NameSet.of(() if self._directory.on_disk else self._directory.files())
        existing = self._existing
        return all(file in existing or self._directory.has(file) for file in record.files)

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._directory.address.rstrip("/") + "/")


def saved_records(directory: Directory, folder: str = _FOLDER) -> LedgerSegments:
    """Return the records of a ledger, which are read from its files on demand."""
    return LedgerSegments(directory, folder)


def inputs_of_rounds(directory: Directory) -> set[str]:
    """Return the input files that the ledgers of an unfinished run with rounds name."""
    folders = {name.rpartition("/")[0] for name in directory.files(META_DIR) if "/ledger/" in name}
    records = chain.from_iterable(saved_records(directory, folder).records() for folder in sorted(folders))
    return {path for record in records for path in record.inputs}


def is_of_pipeline(directory: Directory, fingerprint: Mapping[str, str]) -> bool:
    """Return whether the ledger of an output directory is that of a pipeline with this fingerprint."""
    return _parsed(directory.read(_PIPELINE) or b"") == fingerprint


def recorded_files(directory: Directory) -> set[str]:
    """Return the files of all splits that the ledger of an output directory has, relative to it."""
    return {file for record in saved_records(directory).records() for file in record.files}


def _parsed(known: bytes) -> dict[str, str] | None:
    try:
        stages = orjson.loads(known)
    except ValueError:
        return None
    return cast(dict[str, str], stages) if isinstance(stages, dict) else None


def is_begun(directory: Directory) -> bool:
    """Whether a run has begun a ledger in an output directory."""
    return directory.read(_PIPELINE) is not None


def check_same(url: str, before: Mapping[str, str] | None, now: Mapping[str, str], advice: str) -> None:
    """Refuse to go on with what another pipeline has begun.

    Args:
        url: address of the output.
        before: fingerprint of the pipeline that began, by stage; None if it cannot be read.
        now: fingerprint of the present pipeline, by stage.
        advice: how to start over, as the end of a sentence.

    Raises:
        PipelineError: they differ.
    """
    if before is None:
        raise PipelineError(
            f"the record of the pipeline of {url!r} cannot be read, so the run cannot be resumed; {advice}"
        )
    changes = {
        "changed": [stage for stage in now if stage in before and before[stage] != now[stage]],
        "new": [stage for stage in now if stage not in before],
        "gone": [stage for stage in before if stage not in now],
    }
    differences = [
        f"stage {listed(stages)} {'are' if len(stages) > 1 else 'is'} {how}"
        for how, stages in changes.items()
        if stages
    ]
    if not differences and list(before) != list(now):
        differences = ["the stages are in another order"]
    if differences:
        raise PipelineError(
            f"{url!r} was begun by another pipeline: {', '.join(differences)}; resume with the pipeline as it was, or "
            f"{advice}"
        )

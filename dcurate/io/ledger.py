"""The ledger on disk: small files beside the output that say which splits are finished."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Self, cast

import orjson

from dcurate.core.ledger import SplitRecord
from dcurate.core.stage import SinkStage
from dcurate.errors import PipelineError, listed
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io import output
from dcurate.io.input_manifest import InputManifest, Vanished
from dcurate.io.sink import FileWriter

_FOLDER = f"{META_DIR}/ledger"
_PIPELINE = f"{_FOLDER}/pipeline.json"
_MOST_PENDING = 512
_SHORTEST = 1.0
_LONGEST = 30.0
_SHARE = 0.01

#: Number of segments that are joined to one, so that a long run leaves few.
_JOINED = 64

#: The most records of a segment, which is read and written in one piece.
_MOST_RECORDS = _MOST_PENDING * _JOINED

#: For each stage, the names of its figures, and beside ``name`` the name of the stage.
_Shape = tuple[tuple[tuple[str, str | None], ...], ...]


class DirectoryLedger:
    """Records finished splits in ``ledger`` of the records of an output directory, on any store.

    Records are written in segments that never change, each whole or not at all: when 512 are waiting, or when
    1% of the run's time (at least a second, at most 30 seconds) has passed since the last one. 64 segments are joined
    to one. A few hundred bytes per split are held in memory. Open it after the writer has prepared the directory.

    Args:
        directory: the output directory.
        fingerprint: fingerprint of the pipeline, by stage, as `dcurate.core.pipeline.fingerprint` gives it.
        resume: keep what an earlier run finished; else it is forgotten.
        clock: gives seconds.
        sink: the writer to the directory, which decides whether files of no finished split are deleted.

    Attributes:
        skipped: how many segments could not be read; their splits are done again.
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
        self.skipped = 0
        self.removed: set[str] = set()
        self._directory, self._clock, self._sink = directory, clock, sink
        self._records: dict[str, bytes] = {}
        self._broken: set[str] = set()  # splits with missing files; their other files can be removed
        self._input_manifest: InputManifest | None = None
        self._of = ""
        self._shapes: dict[_Shape, int] = {}
        self._pending: dict[str, None] = {}  # splits whose records wait to be written
        self._recent: dict[str, None] = {}  # splits in the segments that will be joined next
        self._recent_segments: list[str] = []
        self._begun = self._flushed = clock()
        segments = self._segments()
        known = directory.read(_PIPELINE) if resume else None
        if known is None:
            directory.remove(segments)
            segments = []
            directory.write(_PIPELINE, orjson.dumps(dict(fingerprint), option=orjson.OPT_INDENT_2))
        else:
            check_same(directory.url, _parsed(known), fingerprint, self._advice)
        self._next = 1 + max((_number(name) for name in segments), default=0)
        if segments:
            self._load(segments)

    @classmethod
    def open(cls, sink: SinkStage[Any], fingerprint: Mapping[str, str], resume: bool) -> Self:
        """Open the ledger of the output of a sink."""
        if isinstance(sink, FileWriter):
            return cls(sink.directory, fingerprint, resume, sink=sink)
        return cls(Directory(sink.output_path), fingerprint, resume)

    def attach(self, input_manifest: InputManifest, whole: bool = False) -> None:
        """From here on, record the input files of each split.

        Args:
            whole: what becomes of a split follows from all of the input, so it is finished from this very input only.
        """
        self._input_manifest, self._of = input_manifest, f"-{input_manifest.digest[:16]}" if whole else ""

    def __len__(self) -> int:
        return len(self._records) - len(self._broken)

    @property
    def begun(self) -> bool:
        """Whether any split is recorded."""
        return bool(self._records)

    def check(self, input_manifest: InputManifest) -> None:
        """Refuse an input that the finished splits cannot be reconciled with.

        Raises:
            DataError: rows would be lost or doubled in any case.
        """
        vanished = Vanished.of(self._all(), input_manifest.files, input_manifest)
        vanished.check(self._directory.url, self._advice)

    def reconcile(self, splits: Container[str], input_manifest: InputManifest) -> list[str]:
        """Remove the output of splits that no longer exist where other splits hold their rows; returns notices.

        It may be killed at any time: the records are on disk as long as a file may be left.
        """
        vanished = Vanished.of(self._all(), splits, input_manifest)
        self._remove({file for record in vanished.regrouped for file in record.files})
        for record in vanished.regrouped:
            del self._records[record.split]
            self._broken.discard(record.split)
        self.removed = {record.split for record in vanished.regrouped}
        return list(vanished.notices(self._appends))

    def finished(self, split: str, version: str) -> SplitRecord | None:
        """The record of a split, if it was finished from this version of its files and its own files are there."""
        packed = self._records.get(split)
        if packed is None or split in self._broken:
            return None
        record = self._unpacked(split, packed)
        return record if record.version == version + self._of else None

    def record(self, record: SplitRecord) -> None:
        """Record a finished split. Files of it that an earlier version left behind are deleted."""
        files = [self._relative(path) for path in record.files]
        earlier = self._records.get(record.split)
        if earlier is not None:
            self._remove(set(self._unpacked(record.split, earlier).files) - set(files))
        inputs = self._input_manifest.of(record.split) if self._input_manifest else record.inputs
        record = replace(record, version=record.version + self._of, files=tuple(files), inputs=inputs)
        self._records[record.split] = self._packed(record)
        self._broken.discard(record.split)
        self._pending[record.split] = None
        if len(self._pending) >= _MOST_PENDING:
            self.flush()
        else:
            self.flush_due()

    def flush_due(self) -> None:
        """Write the records that wait to disk, if they have waited for their time."""
        now = self._clock()
        longest = max(_SHORTEST, min(_SHARE * (now - self._begun), _LONGEST))
        if self._pending and now - self._flushed >= longest:
            self.flush()

    def flush(self) -> None:
        """Write all records to disk."""
        if self._pending:
            self._recent_segments.append(self._write(self._pending))
            self._recent |= self._pending
            self._pending = {}
        if len(self._recent_segments) >= _JOINED:
            self._write(self._recent)
            self._directory.remove(self._recent_segments)
            self._recent, self._recent_segments = {}, []
        self._flushed = self._clock()

    def close(self) -> None:
        """Write all records to as few segments as possible, at the end of a run."""
        self.flush()
        segments = self._segments()
        if len(segments) > 1 or self.skipped or self.removed:
            splits = iter(self._records)
            while segment := list(islice(splits, _MOST_RECORDS)):
                self._write(segment)
            self._directory.remove(segments)

    def take(self, others: Iterable[Directory]) -> None:
        """Write the records of the ledgers of other runs into the same output to this one, one ledger at a time."""
        for other in others:
            records = iter(saved_records(other)[0].values())
            while segment := list(islice(records, _MOST_RECORDS)):
                self._records |= {record.split: self._packed(record) for record in segment}
                self._write(record.split for record in segment)

    def move_strays(self, unfinished: Iterable[str] = ()) -> list[str]:
        """Move files of no finished split to `STRAYS`, once all splits are finished; returns notices.

        A run that is killed leaves some of splits that it had not recorded yet, and the input may not have these now.

        Args:
            unfinished: files of splits that do not count as finished, which stay.
        """
        known = {file for record in self._all() for file in record.files} | set(map(self._relative, unfinished))
        strays = [] if self.skipped else output.move_strays(self._directory, known)
        if not strays:
            return []
        return [
            f"{len(strays):,} files in the output were of no finished split (first: {min(strays)!r}), as a run leaves "
            f"them that is killed; they are in {self._directory.path(output.STRAYS)!r} now"
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
        return (self._unpacked(split, packed) for split, packed in self._records.items())

    def _segments(self) -> list[str]:
        return sorted(name for name in self._directory.files(_FOLDER) if name.endswith(".jsonl"))

    def _write(self, splits: Iterable[str]) -> str:
        """Write a segment with the records of splits that are known; returns its name."""
        name = f"{_FOLDER}/{self._next:06d}.jsonl"
        lines = (_line(self._unpacked(split, self._records[split])) for split in splits)
        self._directory.write(name, b"".join(line + b"\n" for line in lines))
        self._next += 1
        return name

    def _load(self, segments: list[str]) -> None:
        existing = self._directory.files().keys()
        for name in segments:
            lines = _lines(self._directory.read(name) or b"")
            if lines is None:
                self.skipped += 1
                continue
            for line in lines:
                record = _record(line)
                self._records.pop(record.split, None)
                self._records[record.split] = self._packed(record)
                self._broken.discard(record.split)
                if not all(file in existing for file in record.files):
                    self._broken.add(record.split)

    def _packed(self, record: SplitRecord) -> bytes:
        """A record without its split and the names of its figures, which are the same for all splits."""
        shape = tuple(
            tuple((key, stage_stats[key] if key == "name" else None) for key in stage_stats)
            for stage_stats in record.stats
        )
        number = self._shapes.setdefault(shape, len(self._shapes))
        figures = [value for stage_stats in record.stats for key, value in stage_stats.items() if key != "name"]
        plain = orjson.dumps([number, record.version, record.files, figures, record.inputs])
        return zlib.compress(plain, 1, wbits=-15)  # it takes a third of the default's time to begin

    def _unpacked(self, split: str, packed: bytes) -> SplitRecord:
        number, version, files, figures, inputs = orjson.loads(zlib.decompress(packed, wbits=-15))
        values = iter(figures)
        shape = next(islice(self._shapes, number, None))
        stats = tuple({key: next(values) if name is None else name for key, name in pairs} for pairs in shape)
        return SplitRecord(split, version, tuple(files), stats, tuple(inputs))

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._directory.address.rstrip("/") + "/")


def saved_records(directory: Directory, folder: str = _FOLDER) -> tuple[dict[str, SplitRecord], int]:
    """Return the records of a ledger by split, and the number of its segments that are damaged."""
    records: dict[str, SplitRecord] = {}
    damaged = 0
    for name in sorted(directory.files(folder)):
        if name.endswith(".jsonl"):
            lines = _lines(directory.read(name) or b"")
            damaged += lines is None
            records.update((record.split, record) for record in map(_record, lines or ()))
    return records, damaged


def inputs_of_rounds(directory: Directory) -> set[str]:
    """Return the input files that the ledgers of an unfinished run with rounds name."""
    names = directory.files(META_DIR)
    folders = {name.rpartition("/")[0] for name in names if name.endswith(".jsonl") and "/ledger/" in name}
    records = [record for folder in folders for record in saved_records(directory, folder)[0].values()]
    return {path for record in records for path in record.inputs}


def is_of_pipeline(directory: Directory, fingerprint: Mapping[str, str]) -> bool:
    """Whether the ledger of an output directory is of a pipeline."""
    return _parsed(directory.read(_PIPELINE) or b"") == fingerprint


def recorded_files(directory: Directory) -> set[str]:
    """Return the files of all splits that the ledger of an output directory has, relative to it."""
    return {file for record in saved_records(directory)[0].values() for file in record.files}


def _number(name: str) -> int:
    digits = name.rpartition("/")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _lines(data: bytes) -> list[bytes] | None:
    """The lines of a segment, None if it is not whole."""
    lines = data.split(b"\n")
    if lines.pop():
        return None
    try:
        for line in lines:
            _record(line)
    except (ValueError, TypeError):
        return None
    return lines


def _line(record: SplitRecord) -> bytes:
    return orjson.dumps([record.split, record.version, record.files, record.stats, record.inputs])


def _record(line: bytes) -> SplitRecord:
    split, version, files, stats, *inputs = orjson.loads(line)  # records of earlier versions do not name their inputs
    return SplitRecord(split, version, tuple(files), tuple(stats), tuple(*inputs))


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
        url: the output.
        before: fingerprint of the pipeline that began, by stage; None if it cannot be read.
        now: that of the present one.
        advice: how to start over.

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

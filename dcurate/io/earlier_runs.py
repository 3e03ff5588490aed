"""Find the earlier run that a resumed run goes on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dcurate.core.batch import Batch, has_rows_of
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.io.input_manifest import InputManifest, Vanished
from dcurate.io.ledger import inputs_of_rounds, is_of_pipeline, saved_records
from dcurate.io.ledger_segments import LedgerSegments
from dcurate.io.output import EndedInput, ended_input, path_hash
from dcurate.io.sink import FileWriter


@dataclass(frozen=True)
class PresentInput:
    """The pipeline and the input of a run that is about to begin.

    Args:
        fingerprint: fingerprint of the pipeline, by stage.
        splits: all splits of the input.
        manifest: record of these splits.
        whole: whether the pipeline has rounds, so that each file of the output may depend on all of the input.
    """

    fingerprint: Mapping[str, str]
    splits: Sequence[Batch]
    manifest: InputManifest
    whole: bool

    @cached_property
    def paths(self) -> set[str]:
        """The paths of the input files; none if the rows are not from files."""
        return self.manifest.paths()

    @cached_property
    def versions(self) -> dict[str, str]:
        """The version of each split."""
        return {str(split.key): split.version for split in self.splits}


def select_run(sink: FileWriter, present: PresentInput) -> bool:
    """Select the earlier run that a resumed run goes on with, and return whether there is one.

    Where runs append to each other's rows, the output of a finished run is not replaced: a run with other input
    begins as without ``resume``; with a ``label`` it replaces the rows of that label.

    Raises:
        DataError: a finished run has read some of the input, which changed since.
    """
    directories = sink.earlier_runs()
    chosen: _EarlierRun | None = None
    other_runs: list[tuple[Directory, set[str]]] = []
    for directory in directories:  # of a run that is not chosen, only what it read of the input stays in memory
        run = _EarlierRun.of(directory, present)
        if chosen is None and run.shares:
            chosen = run
        elif run.read:
            other_runs.append((directory, run.read))
    if chosen is None and directories and not (sink.separates_runs and sink.mode == "append"):
        chosen = _EarlierRun.of(directories[0], present)
    is_labelled = chosen is not None and sink.label is not None and sink.is_final(chosen.directory)
    if chosen is not None and is_labelled and not (chosen.same_input or chosen.died_at_the_end):
        return False  # the new rows replace those of the label
    if chosen is None or not chosen.goes_on(sink):
        return False
    for directory, read in other_runs:
        if sink.is_final(directory) and read - chosen.read:
            raise _refusal(directory, min(read - chosen.read))
    sink.go_on_with(chosen.directory)
    return True


@dataclass(frozen=True)
class _EarlierRun:
    """An earlier run, and the input of a present one."""

    directory: Directory
    present: PresentInput
    segments: LedgerSegments
    ended: EndedInput | None

    @classmethod
    def of(cls, directory: Directory, present: PresentInput) -> _EarlierRun:
        return cls(directory, present, saved_records(directory), ended_input(directory))

    @cached_property
    def recorded(self) -> set[str]:
        """The input files that its ledgers name."""
        recorded = {path for record in self.segments.records() for path in record.inputs}
        return recorded | (inputs_of_rounds(self.directory) if self.present.whole else set())

    @cached_property
    def read(self) -> set[str]:
        """The files of the present input that it has read, or a finished run that it adds to."""
        ended = self.ended.files if self.ended else frozenset()
        return {path for path in self.present.paths if path in self.recorded or path_hash(path) in ended}

    @property
    def same_input(self) -> bool:
        """Whether it has finished with the present pipeline and input."""
        return self.ended is not None and self.ended.inputs == self.present.manifest.digest

    @property
    def shares(self) -> bool:
        """Whether some of its input is in the present one."""
        return self._has_same_splits or bool(self.read) or self.same_input

    @property
    def _has_same_splits(self) -> bool:
        """Whether it has finished a split that is in the present input, unchanged."""
        versions = self.present.versions
        return any(
            has_rows_of(record.version, versions[record.split])
            for record in self.segments.records()
            if record.split in versions
        )

    @property
    def died_at_the_end(self) -> bool:
        """Whether it has finished all splits of the present input, unchanged, and no others, but not noted its end."""
        versions, records = self.present.versions, list(self.segments.records())
        return (
            self.ended is None
            and {record.split for record in records} == versions.keys()
            and all(has_rows_of(record.version, versions[record.split]) for record in records)
            and is_of_pipeline(self.directory, self.present.fingerprint)
        )

    def goes_on(self, sink: FileWriter) -> bool:
        """Whether a run with the present input can go on with it; not if that would replace what is final.

        Raises:
            DataError: rows would be lost or come twice, whether the run goes on or starts over.
        """
        if not sink.is_final(self.directory) or self.same_input:
            return True
        if self.read and not is_of_pipeline(self.directory, self.present.fingerprint):
            return True  # the ledger refuses it with a list of the differences
        changed = sorted(self.read) if self.present.whole else self._changed()
        if not self.read:
            if changed and self._has_same_splits:
                raise _refusal(self.directory, min(changed))
            return not (changed or self.segments.damaged or self.present.whole)
        earlier = self.read - self.recorded
        if changed or earlier:
            raise _refusal(self.directory, min(changed or earlier))
        return True

    def _changed(self) -> list[str]:
        """Return the finished splits whose output a run with the present input would replace."""
        versions, segments = self.present.versions, self.segments
        vanished = Vanished.of(segments.outside(versions), versions, self.present.manifest)
        gone = [*vanished.regrouped, *(record for record, _ in vanished.torn)]
        records = segments.records()
        changed = [
            record.split
            for record in records
            if record.split in versions and not has_rows_of(record.version, versions[record.split])
        ]
        return [*changed, *(record.split for record in gone)]


def _refusal(directory: Directory, name: str) -> DataError:
    """Return the error for input that a finished run has read, and that has changed since."""
    return DataError(
        f"{directory.url!r} holds rows that a finished run has written, and that are of input that changed "
        f"since or has other files beside it now (first: {name!r}), so the new rows would come twice; add "
        "them nevertheless with mode='append' and without resume=True, or replace all rows with mode='overwrite'"
    )

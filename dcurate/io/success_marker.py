"""The marker of a finished run, for pipelines whose ledger alone cannot show it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from dcurate.core.batch import Batch
from dcurate.core.stage import SinkStage
from dcurate.fs.stores import Directory
from dcurate.io.input_manifest import InputManifest
from dcurate.io.output import FINISHED
from dcurate.io.sink import FileWriter


@dataclass(frozen=True)
class SuccessMarker:
    """A run that is over.

    Args:
        inputs: identifies the pipeline and every split with its version, see `inputs_of`.
        report: report of the run, as plain values.
        written: the files written for each split, in the order of the source.
    """

    inputs: str
    report: dict[str, Any]
    written: Sequence[Sequence[str]]


def inputs_of(fingerprint: Mapping[str, str], splits: Iterable[Batch]) -> str:
    """Return what decides the output of a run: the pipeline, and every split with the version of its files."""
    input_manifest = InputManifest(fingerprint)
    deque(input_manifest.record(splits), maxlen=0)
    return input_manifest.digest


def mark_finished(sink: SinkStage[Any], run: SuccessMarker) -> None:
    """Leave the mark of a finished run beside its output."""
    record = {"inputs": run.inputs, "report": run.report, "written": run.written}
    _directory(sink).write(FINISHED, orjson.dumps(record))


def find_finished(sink: SinkStage[Any], inputs: str) -> SuccessMarker | None:
    """The finished run of the same pipeline on the same input whose files are all there; else its mark is removed."""
    directory = _directory(sink)
    record = directory.read(FINISHED)
    run = SuccessMarker(**orjson.loads(record)) if record else None
    if run is not None and run.inputs == inputs:
        existing = {directory.path(name) for name in directory.files()}
        if all(path in existing for files in run.written for path in files):
            return run
    directory.remove([FINISHED] if record else [])
    return None


def _directory(sink: SinkStage[Any]) -> Directory:
    return sink.directory if isinstance(sink, FileWriter) else Directory(sink.output_path)

"""The proof of a run: whether it is asked for, and its root at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dcurate.core.ledger import SplitRecord
from dcurate.core.stage import SinkStage
from dcurate.errors import PipelineError, listed
from dcurate.fs.stores import Directory
from dcurate.io.document_writer import DocumentWriter
from dcurate.io.jsonl_writer import JsonlWriter
from dcurate.io.parquet_writer import ParquetWriter
from dcurate.io.proof_record import ProofRecord
from dcurate.io.sink import FileWriter

_WRITERS = (JsonlWriter, ParquetWriter, DocumentWriter)
#: Arguments of pyarrow with which a file holds other values than the rows that it is written from.
_CHANGING = ("coerce_timestamps", "use_deprecated_int96_timestamps", "flavor", "version", "store_schema")


def proving_writer(sink: SinkStage[Any] | None) -> FileWriter:
    """The writer of a pipeline, so that it computes the roots of what it writes.

    Raises:
        PipelineError: there is none, or its rows cannot be proved.
    """
    written_by = sink.writer_type if type(sink) is DocumentWriter else type(sink)
    if written_by not in _WRITERS:
        names = listed([writer.__name__ for writer in _WRITERS])
        ends = "has no writer" if sink is None else f"ends with stage {sink.name!r} ({written_by.__name__})"
        raise PipelineError(
            f"proof=True is for the rows of one of {names}, and the pipeline {ends}; end it with one of them, or leave "
            "proof out"
        )
    assert isinstance(sink, FileWriter)
    if sink.mode not in ("error", "overwrite"):
        raise PipelineError(
            f"{sink.name}: mode={sink.mode!r} leaves rows of other runs in the output, and proof=True is of all its "
            "rows; write to a folder of its own"
        )
    changing = [name for name in _CHANGING if name in (sink.write_kwargs or {})]
    if changing:
        raise PipelineError(
            f"{sink.name}: write_kwargs {listed(changing)} may change values as they are written, so that proof=True "
            "would not be of what is in the files; leave them or proof out"
        )
    return sink.proving()


class RunProof:
    """The proof of a run that is under way.

    Args:
        output: the directory that it writes to.
    """

    def __init__(self, output: Directory) -> None:
        self._record = ProofRecord(replace(output, run=""))

    @property
    def begun(self) -> bool:
        """Whether an earlier run into the output began one."""
        return self._record.begun

    def begin(self, resumes: bool) -> None:
        """Note that all splits are proved.

        Raises:
            PipelineError: an earlier run, with which this one goes on, has finished splits without a proof.
        """
        if resumes and not self.begun:
            raise PipelineError(
                f"the run into {self._record.directory.url!r} was begun without a proof, so what it finished has "
                "none; resume it without proof, or begin again with mode='overwrite'"
            )
        self._record.begin()

    def add_round(self, phase: int, records: Iterable[SplitRecord], last: bool) -> str:
        """Take the splits of a finished round; return a notice with the root of the run after the last one."""
        if not last:
            self._record.keep_round(phase, records)
            return ""
        root, splits = self._record.close(phase, records)
        return f"the proof of {splits:,} splits has the root {root}; dcurate prove checks the output by it"

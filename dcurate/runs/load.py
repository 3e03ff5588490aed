"""Load the records that a run left beside its output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson

from dcurate.core.report import RunReport
from dcurate.errors import DataError
from dcurate.fs.stores import META_DIR, Directory, output_of
from dcurate.io.receipts import receipts
from dcurate.runs.history import History

#: The file of the agreement of judges, among the records of a run of ``dcurate label``.
AGREEMENT = "agreement.json"


@dataclass(frozen=True)
class RecordedRun:
    """The records of a finished run.

    Attributes:
        report: what it did.
        history: how it went over time; empty for a run that left none.
        about: its stages and their settings, thresholds, versions: see `dcurate.runs.manifest.provenance`; and the
            ``agreement`` of judges, of a run of ``dcurate label``.
        address: the folder with its records.
        missing: what there is not, in sentences.
        removals: receipts of documents that were removed from its output by request.
    """

    report: RunReport
    history: History = field(default_factory=History)
    about: Mapping[str, Any] = field(default_factory=dict)
    address: str = ""
    missing: tuple[str, ...] = ()
    removals: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, report: Mapping[str, Any], history: Mapping[str, Any] | None, address: str = "") -> Self:
        """The run of these records, of this version of dcurate or of an earlier one.

        Args:
            report: what ``report.json`` holds.
            history: what ``history.json`` holds, if it is there.
        """
        known = {name: value for name, value in report.items() if name != "about"}
        about = report.get("about", {})
        missing = []
        if history is None:
            missing.append("history.json is missing, so nothing is known of how it went over time")
        if not about:
            missing.append("report.json says nothing about settings, thresholds and versions")
        if history is None or not about:
            missing.append("runs of earlier versions of dcurate left less")
        return cls(
            report=RunReport.from_dict(known),
            history=History() if history is None else History.from_dict(history),
            about=about,
            address=address,
            missing=tuple(missing),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold: the report, ``about`` it, and removals by request if there are any."""
        removals = {"removals": list(self.removals)} if self.removals else {}
        return {**self.report.to_dict(), "about": dict(self.about), **removals}


def read_run(address: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> RecordedRun:
    """The records that a run left beside its output.

    Args:
        address: the output directory, or the folder of its records beside it; a local path, or as fsspec opens it.
        storage_options: for fsspec.

    Raises:
        DataError: no run left a report there, or it cannot be read.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> stages = [ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(folder.name)]
        >>> run = Pipeline("demo", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> read_run(folder.name).report.stages[-2].dropped
        {'word_count': 1}
        >>> folder.cleanup()
    """
    address = os.fspath(address)
    inside = address.rstrip("/") == META_DIR
    output = Directory("." if inside else output_of(address), storage_options or {})
    folder = Directory(META_DIR if inside else output.records, storage_options or {})
    report, history = folder.read("report.json"), folder.read("history.json")
    if report is None:
        finished = folder.read("finished.json")
        if finished is None:
            raise DataError(
                f"{folder.url!r} holds no report; name the output directory of a run that ended, "
                "or the folder of its records, such as 'out.dcurate' of 'out'"
            )
        report = orjson.dumps(_loaded(finished, folder, "finished.json")["report"])
    recorded = None if history is None else _loaded(history, folder, "history.json")
    run = RecordedRun.of(_loaded(report, folder, "report.json"), recorded, folder.address)
    agreement = folder.read(AGREEMENT)
    if agreement is not None:
        run = replace(run, about={**run.about, "agreement": _loaded(agreement, folder, AGREEMENT)})
    try:
        return replace(run, removals=tuple(receipts(output)))
    except DataError as error:  # also in a store that lists no files
        return replace(run, missing=(*run.missing, f"what was removed by request is unknown: {error}"))


def _loaded(data: bytes, folder: Directory, name: str) -> dict[str, Any]:
    try:
        return dict(orjson.loads(data))
    except ValueError as error:
        without = "delete it to see the report without what went on over time, or " if name == "history.json" else ""
        raise DataError(
            f"{folder.path(name)!r} is damaged ({error}); {without}run again to have it written afresh"
        ) from error

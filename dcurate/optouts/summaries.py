"""Reports of runs that say what was removed, without excerpts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from dcurate.errors import DataError
from dcurate.events import StageStats
from dcurate.fs.stores import META_DIR, Directory
from dcurate.io.optouts import OptOuts
from dcurate.io.output import FINISHED
from dcurate.runs.load import read_run
from dcurate.ui.report.record import record_files


def reports_after(directory: Directory, optouts: OptOuts, ids: set[str], notice: str) -> dict[str, bytes]:
    """Return the reports of the run of an output without examples of documents that go, by name; none if it has none.

    Counts stay as the run counted.

    Args:
        ids: ids of these documents.
        notice: a sentence about them.

    Raises:
        DataError: a report cannot be read.
    """
    try:
        run = read_run(directory.address, directory.options)
    except DataError:  # no run has ended there
        return {}
    stages = tuple(_without(stage, optouts, ids) for stage in run.report.stages)
    report = replace(run.report, stages=stages, notices=(*run.report.notices, notice))
    recorded = directory.read(f"{META_DIR}/report.json") is not None
    files = record_files(report, run.history, run.about, directory.options) if recorded else {}
    finished = directory.read(FINISHED)
    if finished is not None:
        files[FINISHED] = orjson.dumps({**orjson.loads(finished), "report": report.to_dict()})
    return files


def _without(stage: StageStats, optouts: OptOuts, ids: set[str]) -> StageStats:
    kept = {reason: _kept(examples, optouts, ids) for reason, examples in stage.examples.items()}
    return stage if kept == stage.examples else replace(stage, examples=kept)


def _kept(examples: Sequence[dict[str, Any]], optouts: OptOuts, ids: set[str]) -> list[dict[str, Any]]:
    names = [str(example.get("id", "")) for example in examples]
    urls = [name if "://" in name else None for name in names]
    gone = {hit.row for hit in optouts.hits(urls, names, None)}
    return [example for row, example in enumerate(examples) if row not in gone and names[row] not in ids]

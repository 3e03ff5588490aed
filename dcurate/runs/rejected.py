"""The rows that a run took out, as a frame."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import psutil

from dcurate.errors import DataError, PipelineError
from dcurate.frames.tables import frame_of
from dcurate.fs.stores import Directory
from dcurate.io.rejections import DUPLICATE_OF, REASON, SCORE, SOURCE, STAGE
from dcurate.io.rows import is_readable, rows_in
from dcurate.runs.load import read_run

#: Share of the free memory that files of rejected rows may have; rows take several times the bytes of their lines.
SHARE = 0.1
_MARKS = (STAGE, REASON, SOURCE, SCORE, DUPLICATE_OF)


def read_rejected(
    path: str | os.PathLike[str],
    *,
    stage: str | None = None,
    reason: str | None = None,
    limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """The rows that a run took out, as one pandas frame: those that rules dropped, then those in quarantine.

    A row has its columns, after ``_dcurate_stage``, ``_dcurate_reason``, ``_dcurate_source`` and, where there is one,
    ``_dcurate_score``; a dropped duplicate has ``_dcurate_duplicate_of`` where ids are known. Rows come in the order of
    their files and lines. A run keeps what rules drop if it is given ``rejected=``; quarantine it keeps always.

    Args:
        path: the output of a run, the folder of its records, or a folder of rejected rows.
        stage: only the rows that this stage took out.
        reason: only the rows that were taken out for this reason.
        limit: number of rows that are read at most; all if None.
        storage_options: for fsspec.

    Raises:
        PipelineError: a limit below 1.
        DataError: there is nothing at the path, the run kept no rejected rows, or they do not fit into memory.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> stages = [ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(f"{folder.name}/out")]
        >>> dropped = f"{folder.name}/dropped"
        >>> _ = Pipeline("demo", stages=stages).run(InlineExecutor(), [rows], rejected=dropped, observers=[])
        >>> read_rejected(f"{folder.name}/out")[["id", "_dcurate_reason", "_dcurate_score"]].to_dict("records")
        [{'id': 'a', '_dcurate_reason': 'word_count', '_dcurate_score': 1}]
        >>> folder.cleanup()
    """
    if limit is not None and limit < 1:
        raise PipelineError(f"limit={limit!r} must be at least 1, or None for all rows")
    return rejected_frame(_folders(os.fspath(path), storage_options), stage, reason, limit, storage_options)


def rejected_frame(
    folders: Iterable[str],
    stage: str | None = None,
    reason: str | None = None,
    limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """The rejected rows of folders as one frame, as `read_rejected` gives them.

    Raises:
        DataError: they cannot be read, or do not fit into memory.
    """
    directories = [Directory(folder, storage_options or {}) for folder in folders]
    files = [
        (directory, name, entry.size)
        for directory in directories
        for name, entry in sorted(directory.files().items())
        if is_readable(name)
    ]
    nbytes, most = sum(size for _, _, size in files), int(psutil.virtual_memory().available * SHARE)
    if limit is None and nbytes > most:
        raise DataError(
            f"the rejected rows are {nbytes / 1e9:,.1f} GB in files, which do not fit into this process's memory; "
            "give limit=, or read the files with JsonlReader"
        )
    wanted = {column: value for column, value in ((STAGE, stage), (REASON, reason)) if value is not None}
    every = (row.values for directory, name, _ in files for row in rows_in(directory, name))
    rows = list(islice((row for row in every if wanted.items() <= _texts(row, wanted).items()), limit))
    names = dict.fromkeys(name for row in rows for name in row)
    marks = [mark for mark in _MARKS if mark in names or mark in _MARKS[:3]]
    return frame_of(rows, [*marks, *(name for name in names if name not in _MARKS)])


def _texts(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    return {name: str(row.get(name)) for name in names}


def _folders(path: str, storage_options: Mapping[str, Any] | None) -> list[str]:
    """The folders with rejected rows of a run, or the folder itself where that is no output of a run."""
    try:
        report = read_run(path, storage_options).report
    except DataError:
        directory = Directory(path, storage_options or {})
        first = next((name for name in sorted(directory.files()) if is_readable(name)), None)
        if first is None or not all(STAGE in row.values for row in islice(rows_in(directory, first), 1)):
            raise DataError(
                f"{path!r} holds no rejected rows; name the output of a run, or the folder given as rejected="
            ) from None
        return [path]
    folders = [folder for folder in (report.rejected_path, report.quarantine_path) if folder is not None]
    if not folders and any(counted.dropped for counted in report.stages):
        raise DataError(f"the run of {path!r} did not keep what it dropped; run it with rejected='FOLDER'")
    return folders

"""Rows of manifests as tasks, and dcurate's stages on one row."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dcurate.compat.nemo.stages import ProcessingStage
from dcurate.compat.nemo.tasks import Task
from dcurate.errors import DataError
from dcurate.frames.document import DocumentBatch
from dcurate.media.refs import REF, Ref, ref_array

_log = logging.getLogger("dcurate.compat.nemo")


class RowDict(dict[str, Any]):
    """A row whose values are attributes, too."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __delattr__(self, key: str) -> None:
        try:
            del self[key]
        except KeyError:
            raise AttributeError(key) from None


@dataclass
class AudioTask(Task[dict[str, Any]]):
    """A row of a manifest.

    Args:
        data: the row by its keys, such as ``audio_filepath`` and ``duration``.
        filepath_key: the key of a path that `validate` looks for.

    Examples:
        >>> task = AudioTask(data={"audio_filepath": "a.wav", "duration": 1.5})
        >>> task.data.duration, task.num_items
        (1.5, 1)
    """

    task_id: str = ""
    dataset_name: str = ""
    data: dict[str, Any] = field(default_factory=RowDict)
    filepath_key: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.data, RowDict):
            self.data = RowDict(self.data)

    @property
    def num_items(self) -> int:
        return 1

    def validate(self) -> bool:
        """Whether the file that the row names exists, where `filepath_key` says which."""
        path = self.data.get(self.filepath_key) if self.filepath_key else None
        if path is not None and not os.path.exists(path):
            _log.warning("File %s does not exist", path)
            return False
        return True


#: A stage from a row to a row.
AudioStage = ProcessingStage[AudioTask, AudioTask]

_TYPES: dict[type, pa.DataType] = {str: pa.string(), float: pa.float64()}


def new_values(stage: Any, values: Mapping[str, Any], types: Mapping[str, pa.DataType | type]) -> dict[str, Any]:
    """Return the columns that a stage of dcurate makes of a row.

    Args:
        stage: stage on batches of rows.
        values: the columns that it reads, with the values of the row.
        types: their types; `str` and `float` count as those of Arrow.

    Raises:
        DataError: the stage does not take the row.
    """
    columns = {name: pa.array([values.get(name)], _TYPES.get(kind, kind)) for name, kind in types.items()}
    answer = stage.process(DocumentBatch(data=pa.table(columns)))
    rows = answer.to_arrow().to_pylist()
    if not rows:
        raise DataError(f"stage {stage.name!r} does not take the row: {answer.rejections[0].reason}")
    return {name: value for name, value in rows[0].items() if name not in columns}


def heard(stage: Any, path: str, segments: list[tuple[float, float]] | None = None) -> list[dict[str, Any] | None]:
    """Return the columns that a stage makes of a recording, or of each segment of it; one decode serves all.

    Args:
        stage: stage that hears recordings.
        path: path or address of the recording.
        segments: start and end of each, in seconds; None for the whole recording.

    Returns:
        The columns of each; None for one that cannot be heard, which is logged.
    """
    refs = [Ref(path)] if segments is None else [Ref(path, start_s=start, stop_s=stop) for start, stop in segments]
    table = pa.table({REF: ref_array(refs, segments=segments is not None), "place": range(len(refs))})
    answer = stage.process(DocumentBatch(data=table))
    for gone in answer.rejections:
        _log.warning("%s: %d segments of it cannot be heard: %s", path, gone.rows, gone.reason)
    rows = {row["place"]: row for row in answer.to_arrow().to_pylist()}
    return [rows.get(place) for place in range(len(refs))]


def note(row: dict[str, Any], key: str, stage: str, text: str) -> None:
    """Put a remark of a stage into a row's ``additional_notes``."""
    if not isinstance(row.get(key), dict):
        row[key] = {}
    row[key][stage] = text

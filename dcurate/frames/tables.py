"""Small pandas tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcurate.frames.libraries import pd


def frame_of(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A frame with one row per record, with exactly these columns; missing values are NaN.

    Examples:
        >>> frame_of([{"stage": "read", "rows": 3}], ["stage", "rows"]).to_dict("list")
        {'stage': ['read'], 'rows': [3]}
        >>> list(frame_of([], ["stage"]).columns)
        ['stage']
    """
    return pd.DataFrame([{name: record.get(name) for name in columns} for record in records], columns=list(columns))


def with_seconds(frame: pd.DataFrame, started: float) -> pd.DataFrame:
    """The frame with its ``time``, in seconds since the epoch, as ``seconds`` since the start."""
    seconds = (frame["time"].astype(float) - started).round(3)
    frame = frame.drop(columns="time")
    frame.insert(0, "seconds", seconds)
    return frame


def typed_columns(names: Sequence[tuple[str, str]]) -> pd.Index[Any]:
    """Columns of a frame with their types below their names, for people."""
    return pd.MultiIndex.from_tuples(names)

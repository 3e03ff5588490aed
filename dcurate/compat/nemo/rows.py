"""What stages on pandas frames share: batches with other rows, arguments that must be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from dcurate.compat.nemo.tasks import DocumentBatch


def with_rows(batch: DocumentBatch, frame: Any, metadata: dict[str, Any] | None = None) -> DocumentBatch:
    """A batch with other rows."""
    kept = dict(batch._metadata) if metadata is None else metadata
    made = DocumentBatch(dataset_name="", data=frame, _metadata=kept, _stage_perf=batch._stage_perf)
    made.dataset_name, made.task_id, made.key = batch.dataset_name, batch.task_id, batch.key
    return made


def stripped(stage: Any, *names: str) -> None:
    """Strip texts among the attributes of a stage, and refuse empty ones.

    Raises:
        ValueError: one is empty.
    """
    for name in names:
        setattr(stage, name, getattr(stage, name).strip())
        if not getattr(stage, name):
            raise ValueError(f"{type(stage).__name__} requires a non-empty '{name}'")


def is_in(value: Any, values: Sequence[Any] | None) -> bool:
    """Whether an argument is one of some values, by identity or as text; None for any value."""
    return values is None or any(
        value is candidate or (isinstance(value, str) and value == candidate) for candidate in values
    )


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a pandas frame, each with its columns by name."""
    return cast("list[dict[str, Any]]", frame.to_dict("records"))

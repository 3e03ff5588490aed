"""The result of a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dcurate.core.batch import Batch
from dcurate.core.report import RunReport


@dataclass
class WorkflowRunResult:
    """The result of a workflow.

    Attributes:
        workflow_name: such as ``"exact_deduplication"``.
        pipeline_tasks: outputs of each pipeline by its name: the files that it wrote for each split.
        metadata: values by name: ``total_time``, ``num_duplicates``, seconds of each stage in ``stage_seconds``, and
            output paths.
        reports: reports of the pipelines, stage by stage.

    Examples:
        >>> result = WorkflowRunResult("demo")
        >>> result.add_metadata("num_duplicates", 3)
        >>> result.get_metadata("num_duplicates"), result.get_metadata("total_time")
        (3, None)
    """

    workflow_name: str
    pipeline_tasks: dict[str, list[Batch]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    reports: dict[str, RunReport] = field(default_factory=dict)

    def add_pipeline_tasks(self, pipeline_name: str, tasks: Iterable[Batch] | None) -> None:
        """Add the outputs of a pipeline."""
        self.pipeline_tasks[pipeline_name] = list(tasks or ())

    def extend_metadata(self, updates: Mapping[str, Any] | None = None) -> None:
        """Add several values to ``metadata``."""
        self.metadata.update(updates or {})

    def add_metadata(self, key: str, value: Any) -> None:
        """Add one value to ``metadata``."""
        self.metadata[key] = value

    def get_metadata(self, key: str) -> Any:
        """Get a value of ``metadata``; None if it does not have the key."""
        return self.metadata.get(key)

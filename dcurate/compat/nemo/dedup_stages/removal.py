"""The removal of documents by their ids, under NeMo Curator's names."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dcurate.compat.nemo.builtin import BuiltIn
from dcurate.compat.nemo.dedup_stages.files import groups_of_files, reader_of
from dcurate.compat.nemo.dedup_stages.workflow import cluster, ids_generated
from dcurate.compat.nemo.earlier import earlier_names
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowBase, WorkflowRunResult
from dcurate.compat.nemo.tasks import FileGroupTask
from dcurate.compat.nemo.writers import JsonlWriter, ParquetWriter
from dcurate.dedup import removal
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR
from dcurate.frames.document import DocumentBatch
from dcurate.workflows import removal as workflow

_log = logging.getLogger("dcurate.compat.nemo")
_REMOVED = "num_removed"
_WRITERS: dict[str, Any] = {"parquet": ParquetWriter, "jsonl": JsonlWriter}


@dataclass
class TextDuplicatesRemovalStage(BuiltIn, removal.RemoveIds):
    """Remove the documents whose ids are listed in Parquet files.

    Args: as of `dcurate.dedup.RemoveIds`.
    """

    name: str = "DuplicatesRemovalStage"

    #: Tasks that a writer returns have these figures in their metadata, too.
    figures_in_metadata: ClassVar[tuple[str, ...]] = (_REMOVED,)

    def __post_init__(self) -> None:
        self.read_kwargs = dict(self.read_kwargs or {})

    def process(self, task: DocumentBatch) -> DocumentBatch:
        kept = super().process(task)
        removed = task.num_items - kept.num_items
        self._log_metric(_REMOVED, removed)
        return replace(kept, _metadata={**task._metadata, _REMOVED: removed})


@earlier_names(
    input_id_field="id_field",
    ids_to_remove_duplicate_id_field="duplicate_id_field",
    ids_to_remove_read_kwargs="duplicate_id_read_kwargs",
)
class TextDuplicatesRemovalWorkflow(workflow.TextDuplicatesRemovalWorkflow, WorkflowBase):
    """Write the documents of files without those whose ids are in Parquet files.

    Args: as of `dcurate.TextDuplicatesRemovalWorkflow`; None as `input_path` if tasks are given.

    Raises:
        ValueError: `drop_id_field` removes a column that `output_fields` names.
    """

    def __post_init__(self) -> None:
        if self.id_generator_path is None and self.id_field == CURATOR_DEDUP_ID_STR:
            _log.warning("id_field is %s, and id_generator_path is not given: documents must have it", self.id_field)
        if self.drop_id_field and self.id_field in (self.output_fields or ()):
            raise ValueError(f"Cannot drop id_field {self.id_field!r} when it is included in output_fields.")

    def _generate_stages(self, initial_tasks: Sequence[FileGroupTask] | None = None) -> list[Any]:
        stages: list[Any] = []
        if self.input_filetype not in _WRITERS:
            raise ValueError(f"Invalid input filetype: {self.input_filetype}")
        if initial_tasks is None:
            if self.input_path is None:
                raise ValueError("input_path is required when initial_tasks is None")
            stages.append(
                groups_of_files(
                    self.input_path,
                    self.input_filetype,
                    self.input_file_extensions,
                    self.input_kwargs,
                    files_per_partition=self.input_files_per_partition,
                    blocksize=self.input_blocksize,
                    limit=self.input_task_limit,
                )
            )
        reader = reader_of(
            self.input_filetype,
            fields=self.input_fields,
            read_kwargs=self.input_kwargs or {},
            _generate_ids=False,
            _assign_ids=self.id_generator_path is not None,
        )
        remove = TextDuplicatesRemovalStage(
            self.ids_to_remove_path,
            id_field=self.id_field,
            duplicate_id_field=self.duplicate_id_field,
            read_kwargs=self.duplicate_id_read_kwargs,
            drop_id_field=self.drop_id_field,
        )
        if self.output_filetype not in _WRITERS:
            raise ValueError(f"Invalid output filetype: {self.output_filetype}")
        settings: dict[str, Any] = {"write_kwargs": self.output_kwargs or {}, "fields": self.output_fields}
        if self.output_file_extension:
            settings["file_extension"] = self.output_file_extension
        if self.output_mode:
            settings["mode"] = self.output_mode
        return [*stages, reader, remove, _WRITERS[self.output_filetype](path=self.output_path, **settings)]

    def run(  # type: ignore[override]
        self, executor: Any = None, initial_tasks: Sequence[FileGroupTask] | None = None
    ) -> WorkflowRunResult:
        """Write the documents that stay.

        Args:
            executor: executor of the pipeline.
            initial_tasks: groups of files, instead of `input_path`.

        Raises:
            ValueError: there is nothing to read, or an unknown type of files.
        """
        result = WorkflowRunResult("text_duplicates_removal")
        pipeline = Pipeline("text_duplicates_removal_workflow", stages=self._generate_stages(initial_tasks))
        if initial_tasks is not None and self.input_task_limit is not None:
            initial_tasks = initial_tasks[: self.input_task_limit]
        path, options = self.id_generator_path, self.id_generator_storage_options
        begin = time.perf_counter()
        with cluster(executor) as runner, ids_generated(path is not None, path, options):
            tasks = runner.run(pipeline, result, "removal", initial_tasks)
        del result.metadata["removal_time"]
        result.add_metadata("total_time", time.perf_counter() - begin)
        figures = {perf.stage_name: perf.custom_metrics for task in tasks[:1] for perf in task._stage_perf}
        removed = figures.get(TextDuplicatesRemovalStage.name, {}).get(_REMOVED, 0)
        result.add_metadata("num_duplicates_removed", int(removed))
        return result

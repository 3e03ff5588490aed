"""The common part of workflows: find duplicates, then write their ids, or the documents without them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dcurate.core.secrets import HidesSecrets
from dcurate.core.stage import ProcessingStage
from dcurate.dedup.fuzzy import FuzzyDuplicates
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR
from dcurate.dedup.semantic.stage import SemanticDuplicates
from dcurate.events import Observer
from dcurate.frames.columns import numbers, rows_at
from dcurate.frames.document import DocumentBatch
from dcurate.groups.exact import ExactDuplicates
from dcurate.io.output import Mode
from dcurate.run import AnyStage, Executor, Pipeline, RunResult
from dcurate.workflows.files import DocumentFiles, joined, writer
from dcurate.workflows.made_ids import MadeIds
from dcurate.workflows.result import WorkflowRunResult

#: Where clean documents go, below the output path.
DEDUPLICATED = "deduplicated"
_IDS = "duplicate_ids"


@dataclass
class Deduplication(HidesSecrets):
    """One search for duplicates in files, with its output.

    Args:
        name: name of the workflow.
        source: the documents.
        stage: finds the duplicates; its ``id_field`` is None if ids are generated.
        output_path: the folder of the output.
        groups: folder name for groups of duplicates, if they are removed and the stage has no other folder.
        ids: folder name for ids of duplicates, if they are not removed.
        settings: name of the file that records how ids were generated.
        removes: whether to write the documents without their duplicates.
        before: stages between the reader and the search.
        after: stages between the search and the writer, where documents are written.
        filetype: format of the documents that are written; that of the source by default.
        fields: columns to write; all by default.
        write_kwargs, mode: for the writers.
        id_column: column for the ids that are written; by default that of the documents.
    """

    name: str
    source: DocumentFiles
    stage: ExactDuplicates | FuzzyDuplicates | SemanticDuplicates
    output_path: str
    groups: str
    ids: str
    settings: str
    removes: bool
    before: Sequence[AnyStage] = ()
    after: Sequence[AnyStage] = ()
    filetype: str | None = None
    fields: list[str] | None = None
    write_kwargs: dict[str, Any] | None = None
    mode: Mode = "error"
    id_column: str | None = None

    def run(self, executor: Executor | None, resume: bool, observers: Sequence[Observer] | None) -> WorkflowRunResult:
        """Run the search."""
        begin = time.perf_counter()
        result = WorkflowRunResult(self.name)
        run = self._pipeline().run(executor, resume=resume, observers=observers)
        step = "removal" if self.removes else "identification"
        result.add_pipeline_tasks(step, run)
        result.reports[step] = run.report
        result.extend_metadata(self._paths())
        if self.stage.id_field is None:
            path = joined(self.output_path, self.settings)
            MadeIds.of(self.source).write(path, self._storage)
            result.add_metadata("id_generator_path", path)
        result.extend_metadata(
            {
                f"{step}_time": run.report.seconds,
                "stage_seconds": {stage.name: stage.seconds for stage in run.report.stages},
                "num_documents": run.report.stages[0].rows_out,
                "num_duplicates": self._duplicates(run),
                "total_time": time.perf_counter() - begin,
            }
        )
        return result

    def _pipeline(self) -> Pipeline:
        if self.removes:
            stage = replace(self.stage, action="drop", report_path=self._groups_path)
            filetype = self.filetype or self.source.filetype
            sink = writer(joined(self.output_path, DEDUPLICATED), filetype, self.write_kwargs, self.mode, self.fields)
            stages = [self.source.reader(), *self.before, stage, *self.after, sink]
        else:
            stage = replace(self.stage, action="identify")
            only = None if self.before else stage.inputs()[1]
            ids = DuplicateIds(self.id_column or self.stage.id_field or CURATOR_DEDUP_ID_STR)
            sink = writer(joined(self.output_path, self.ids), "parquet", self.write_kwargs, self.mode)
            stages = [self.source.reader(only), *self.before, stage, ids, sink]
        return Pipeline(self.name, stages=stages)

    def _paths(self) -> dict[str, Any]:
        if not self.removes:
            return {"ids_to_remove_path": joined(self.output_path, self.ids)}
        return {"output_path": joined(self.output_path, DEDUPLICATED), "groups_path": self._groups_path}

    @property
    def _groups_path(self) -> str:
        return self.stage.report_path or joined(self.output_path, self.groups)

    def _duplicates(self, run: RunResult) -> int:
        by_name = {stage.name: stage for stage in run.report.stages}
        if self.removes:
            return sum(by_name[self.stage.name].dropped.values())
        return by_name[_IDS].rows_out

    @property
    def _storage(self) -> dict[str, Any]:
        return dict((self.write_kwargs or {}).get("storage_options") or {})


class DeduplicationWorkflow(HidesSecrets, ABC):
    """A workflow that is one `Deduplication`."""

    def run(
        self, executor: Executor | None = None, *, resume: bool = False, observers: Sequence[Observer] | None = None
    ) -> WorkflowRunResult:
        """Find the duplicates, and write their ids, or the documents without them.

        Args:
            executor, resume, observers: settings of the run, as in `Pipeline.run`.

        Returns:
            with ``num_duplicates``, ``num_documents``, ``total_time`` and paths in its ``metadata``.

        Raises:
            DcurateError: see `Pipeline.run`.
        """
        return self._deduplication().run(executor, resume, observers)

    @abstractmethod
    def _deduplication(self) -> Deduplication:
        """Return the search that the settings describe."""


@dataclass
class DuplicateIds(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Select the duplicates to remove from groups; their ids are in the column ``id_field``."""

    id_field: str
    name: str = _IDS

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        if "kept" in table.column_names:
            table = rows_at(table, np.flatnonzero(~numbers(table, "kept"))).drop_columns(["kept"])
        return task.with_data(table.rename_columns({"id": self.id_field}))


@dataclass
class WithoutColumn(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drop a column."""

    column: str
    name: str = "without_column"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(task.to_arrow().drop_columns([self.column]))

"""The workflow that removes the documents whose ids are in files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dcurate.core.secrets import HidesSecrets
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR, RemoveIds, ids_found
from dcurate.errors import PipelineError
from dcurate.events import Observer
from dcurate.fs.stores import Directory
from dcurate.io.output import Mode
from dcurate.run import AnyStage, Executor, Pipeline
from dcurate.text.ids import AddId
from dcurate.workflows.files import DocumentFiles, FileType, check_extension, writer
from dcurate.workflows.made_ids import MadeIds
from dcurate.workflows.result import WorkflowRunResult

_NOTES = "ids_found"


@dataclass
class TextDuplicatesRemovalWorkflow(HidesSecrets):
    """Write the documents of files without those whose ids are in Parquet files.

    Args:
        input_path: files, directories or globs of documents.
        ids_to_remove_path: Parquet files, directories or globs of ids.
        output_path: the folder for the documents that stay.
        input_filetype: ``"parquet"`` or ``"jsonl"``.
        input_fields: columns to read; all by default.
        id_field: the column of ids in the documents.
        input_files_per_partition, input_blocksize, input_file_extensions, input_task_limit, input_kwargs: for the
            reader: how files are cut, which endings they have, how many splits are read, and `ParquetReader`'s
            ``read_kwargs``, with ``storage_options``.
        duplicate_id_field: the column of ids in the Parquet files.
        duplicate_id_read_kwargs: for reading these, with ``storage_options``.
        id_generator_path: the file that says how ids were made, where documents have none: `ExactDeduplicationWorkflow`
            or another one has written it. They are made again, in the column ``id_field``; other files, or files that
            are to be cut in another way, are refused.
        id_generator_storage_options: fsspec's, for that file.
        output_file_extension: extension of the files; if given, that of the format.
        output_filetype: ``"parquet"`` or ``"jsonl"``.
        output_kwargs: for the writer, with ``storage_options``.
        output_fields: columns to write; all by default.
        output_mode: what to do about existing files, as in `ParquetWriter`; ``"error"`` by default.
        drop_id_field: remove the column of ids.

    All documents with a listed id are removed. The result has their number, and the number of ids without a document.

    Raises:
        PipelineError: arguments that do not go together.

    Examples:
        >>> workflow = TextDuplicatesRemovalWorkflow("in", "results/ExactDuplicateIds", "out", id_field="id")
        >>> workflow.duplicate_id_field
        'id'
    """

    input_path: str | list[str] | None
    ids_to_remove_path: str | list[str]
    output_path: str
    input_filetype: FileType = "parquet"
    input_fields: list[str] | None = None
    id_field: str = CURATOR_DEDUP_ID_STR
    input_files_per_partition: int | None = None
    input_blocksize: str | int | None = None
    input_file_extensions: list[str] | None = None
    input_task_limit: int | None = None
    input_kwargs: dict[str, Any] | None = None
    duplicate_id_field: str = "id"
    duplicate_id_read_kwargs: dict[str, Any] | None = None
    id_generator_path: str | None = None
    id_generator_storage_options: dict[str, Any] | None = None
    output_file_extension: str | None = None
    output_filetype: FileType = "parquet"
    output_kwargs: dict[str, Any] | None = None
    output_fields: list[str] | None = None
    output_mode: Mode | None = None
    drop_id_field: bool = False

    def __post_init__(self) -> None:
        self._source()
        check_extension(self.output_file_extension, self.output_filetype)
        self._writer()
        if self.drop_id_field and self.id_field in (self.output_fields or ()):
            raise PipelineError(
                f"output_fields name {self.id_field!r}, which drop_id_field=True takes away; choose one"
            )

    def run(
        self, executor: Executor | None = None, *, resume: bool = False, observers: Sequence[Observer] | None = None
    ) -> WorkflowRunResult:
        """Write the documents that stay.

        Args:
            executor, resume, observers: settings of the run, as in `Pipeline.run`.

        Returns:
            with ``num_duplicates_removed`` (documents), ``num_ids`` (different ones to remove), ``num_ids_not_found``
            and ``total_time`` in its ``metadata``.

        Raises:
            DcurateError: see `Pipeline.run`.
        """
        begin = time.perf_counter()
        run = Pipeline("text_duplicates_removal", stages=self._stages()).run(
            executor, resume=resume, observers=observers
        )
        id_counts = ids_found(f"{Directory(self.output_path, self._storage).records}/{_NOTES}", self._storage)
        result = WorkflowRunResult("text_duplicates_removal", reports={"removal": run.report})
        result.add_pipeline_tasks("removal", run)
        result.extend_metadata(
            {
                "num_duplicates_removed": sum(run.report.stages[-2].dropped.values()),
                "num_ids": id_counts.ids,
                "num_ids_not_found": id_counts.ids - id_counts.found,
                "stage_seconds": {stage.name: stage.seconds for stage in run.report.stages},
                "output_path": self.output_path,
                "total_time": time.perf_counter() - begin,
            }
        )
        return result

    def _stages(self) -> list[AnyStage]:
        source, makes_ids = self._source(), self.id_generator_path is not None
        if self.id_generator_path is not None:
            options = self.id_generator_storage_options or {}
            source = MadeIds.read(self.id_generator_path, options).source(source)
        removal = RemoveIds(
            self.ids_to_remove_path,
            self.id_field,
            self.duplicate_id_field,
            self.duplicate_id_read_kwargs,
            self.drop_id_field,
            found_url=f"{Directory(self.output_path, self._storage).records}/{_NOTES}",
            storage_options=self._storage,
        )
        ids = [AddId(self.id_field)] if makes_ids else []
        return [source.reader(self.input_fields), *ids, removal, self._writer()]

    def _source(self) -> DocumentFiles:
        return DocumentFiles(
            self.input_path,
            self.input_filetype,
            self.input_blocksize,
            self.input_files_per_partition,
            self.input_file_extensions,
            self.input_kwargs or {},
            self.input_task_limit,
        )

    def _writer(self) -> AnyStage:
        return writer(
            self.output_path, self.output_filetype, self.output_kwargs, self.output_mode or "error", self.output_fields
        )

    @property
    def _storage(self) -> dict[str, Any]:
        return dict((self.output_kwargs or {}).get("storage_options") or {})

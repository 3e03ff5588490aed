"""Exact deduplication under NeMo Curator's names."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate.compat.nemo.dedup_stages.files import (
    FileType,
    check_found,
    check_initial_tasks,
    groups_of_files,
    joined,
    make_folder,
    reader_of,
    storage_of,
    with_reader,
    write_parquet,
)
from dcurate.compat.nemo.dedup_stages.shuffle import KEY, ShuffleStage
from dcurate.compat.nemo.dedup_stages.workflow import cluster, ids_generated
from dcurate.compat.nemo.ids import write_id_generator_to_disk
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowBase, WorkflowRunResult
from dcurate.compat.nemo.tasks import FileGroupTask
from dcurate.compat.nemo.text import with_normalized
from dcurate.core.stage import BarrierStage
from dcurate.dedup.removal import CURATOR_DEDUP_ID_STR
from dcurate.frames.columns import numbers, only, rows_at, with_column
from dcurate.frames.hashes import content_hashes

_LOW = "_dcurate_low"


class ExactDuplicateIdentification(ShuffleStage):
    """Write the ids of all documents whose text an earlier document has.

    Args:
        text_field: the column to compare.
        output_path: the ids go to ``ExactDuplicateIds`` below it.
        input_filetype, read_kwargs: type and reader settings of the files of tasks.
        write_kwargs: for the Parquet files.
        assign_id: give documents numbers as ids; the id generator must have been created.
        id_field: the column of ids, if they are not assigned.
        normalize_text: compare texts in lower case, with runs of whitespace as one space and none at the ends.
        total_nparts: files of ids at most; by default as the size of the input demands.
        rmm_pool_size, spill_memory_limit, enable_statistics, use_async_memory: settings of GPU memory; without effect
            here.

    Raises:
        ValueError: one of `assign_id` and `id_field` must be given, and not both.
    """

    name = "ExactDuplicateIds"

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        text_field: str,
        output_path: str,
        input_filetype: FileType = "parquet",
        read_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
        assign_id: bool = True,
        id_field: str | None = None,
        normalize_text: bool = False,
        total_nparts: int | None = None,
        rmm_pool_size: Any = "auto",
        spill_memory_limit: Any = "auto",
        enable_statistics: bool = False,
        use_async_memory: bool = True,
    ) -> None:
        if not assign_id and id_field is None:
            raise ValueError("id_field must be provided if assign_id is False")
        if assign_id and id_field is not None:
            raise ValueError("id_field must be None if assign_id is True")
        self.text_field = text_field
        self.input_filetype = input_filetype
        self.read_kwargs = read_kwargs or {}
        self.write_kwargs = write_kwargs or {}
        self.assign_id_field = assign_id
        self.id_field = id_field or CURATOR_DEDUP_ID_STR
        self.normalize_text = normalize_text
        self.total_nparts = total_nparts
        self.output_path = joined(output_path, self.name)
        make_folder(self.output_path, storage_of(write_kwargs))

    def inputs(self) -> tuple[list[str], list[str]]:
        return ["data"], []

    def outputs(self) -> tuple[list[str], list[str]]:
        return ["data"], []

    def reader(self) -> Any:
        """The stage that reads the files of tasks."""
        return reader_of(
            self.input_filetype,
            fields=[self.text_field] if self.assign_id_field else [self.text_field, self.id_field],
            read_kwargs=self.read_kwargs,
            _generate_ids=self.assign_id_field,
        )

    def engine_form(self, before: list[Any], is_last: bool) -> BarrierStage[Any]:
        with_reader(self, before)
        return super().engine_form(before, is_last)

    def keyed_rows(self, task: Any) -> pa.Table:
        table = task.to_arrow()
        texts = with_normalized(table, self.text_field) if self.normalize_text else table
        hashes, rows = content_hashes(texts, self.text_field)
        ids = rows_at(only(table, [self.id_field]), rows)
        return with_column(with_column(ids, KEY, hashes[:, 0]), _LOW, hashes[:, 1])

    def write_part(self, part: int, rows: pa.Table) -> list[FileGroupTask]:
        high, low = numbers(rows, KEY), numbers(rows, _LOW)
        order = np.lexsort((low, high))
        again = (np.diff(high[order]) == 0) & (np.diff(low[order]) == 0)
        removal = only(rows_at(rows, order[1:][again]), [self.id_field]).sort_by(self.id_field)
        return [write_ids(self, part, removal, groups=len(order) - int(again.sum()))]


def write_ids(stage: Any, part: int, ids: pa.Table, *, groups: int) -> FileGroupTask:
    """Write ids to remove as one of several files.

    Args:
        stage: with the place and the settings of the file.
        part: the number of the file.
        groups: different documents among those that were compared.
    """
    path = joined(stage.output_path, f"part.{part}.parquet")
    size = max(1000, min(ids.num_rows // 10, 1_000_000))
    write_parquet(ids, path, {"row_group_size": size, **stage.write_kwargs})
    figures = {"partition_index": part, "num_groups": groups, "num_removal_ids": ids.num_rows}
    return FileGroupTask(dataset_name=stage.name, data=[path], _metadata=figures)


@dataclass(eq=False, repr=False)
class ExactDeduplicationWorkflow(WorkflowBase):
    """Write the ids of documents in files whose text an earlier document has, for `TextDuplicatesRemovalWorkflow`.

    Args:
        output_path: for ``ExactDuplicateIds`` and, with `assign_id`, ``exact_id_generator.json``.
        input_path, input_filetype, input_blocksize, input_file_extensions, read_kwargs: location, type and reader
            settings of the documents.
        identification_batchsize: groups of files that are read at a time; nothing here, where each is a batch.
        write_kwargs, assign_id, id_field, text_field, normalize_text, total_nparts, rmm_pool_size, spill_memory_limit,
            use_async_memory: the same settings as in `ExactDuplicateIdentification`.
        perform_removal: must be False, as in NeMo Curator; dcurate's own workflow of this name removes, too.
        env_vars: for the processes of Ray; nothing here.

    Raises:
        NotImplementedError: `perform_removal` is True.
    """

    output_path: str
    input_path: str | list[str] | None = None
    input_filetype: FileType = "parquet"
    input_blocksize: str | int = "2GiB"
    identification_batchsize: int = 1
    input_file_extensions: list[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None
    assign_id: bool = True
    id_field: str | None = None
    text_field: str = "text"
    normalize_text: bool = False
    perform_removal: bool = False
    total_nparts: int | None = None
    rmm_pool_size: Any = "auto"
    spill_memory_limit: Any = "auto"
    env_vars: dict[str, Any] | None = None
    use_async_memory: bool = True

    def __post_init__(self) -> None:
        if self.perform_removal:
            raise NotImplementedError(
                "Removal is not implemented yet in this workflow; run TextDuplicatesRemovalWorkflow after it"
            )
        self.executor_config = {"runtime_env": {"env_vars": self.env_vars}} if self.env_vars is not None else None

    def _create_input_filegroups(self) -> Pipeline:
        return Pipeline(
            "input_filegroups_pipeline",
            stages=[
                groups_of_files(
                    self.input_path,
                    self.input_filetype,
                    self.input_file_extensions,
                    self.read_kwargs,
                    blocksize=self.input_blocksize,
                )
            ],
        )

    def _create_identification_pipeline(self, num_input_tasks: int) -> Pipeline:
        stage = ExactDuplicateIdentification(
            text_field=self.text_field,
            output_path=self.output_path,
            input_filetype=self.input_filetype,
            read_kwargs=self.read_kwargs,
            write_kwargs=self.write_kwargs,
            assign_id=self.assign_id,
            id_field=self.id_field,
            normalize_text=self.normalize_text,
            total_nparts=max(1, num_input_tasks // 3 if self.total_nparts is None else self.total_nparts),
        )
        return Pipeline("exact_deduplication_pipeline", stages=[stage])

    def run(self, initial_tasks: Sequence[FileGroupTask] | None = None, executor: Any = None) -> WorkflowRunResult:
        """Find the duplicates and write their ids.

        Args:
            initial_tasks: groups of files, instead of `input_path`.
            executor: for all pipelines.

        Raises:
            ValueError: there is nothing to read.
            RuntimeError: an id generator exists already.
        """
        check_initial_tasks(initial_tasks, self.input_path)
        result = WorkflowRunResult("exact_deduplication")
        begin = time.perf_counter()
        path = joined(self.output_path, "exact_id_generator.json") if self.assign_id else None
        with cluster(executor) as runner, ids_generated(self.assign_id):
            tasks = initial_tasks
            if tasks is None:
                tasks = runner.run(self._create_input_filegroups(), result, "input_filegroups")
                check_found(tasks, self.input_path, self.input_filetype)
            pipeline = self._create_identification_pipeline(len(tasks))
            duplicates = runner.run(pipeline, result, "identification", tasks)
            if path is not None:
                write_id_generator_to_disk(path, storage_options=storage_of(self.write_kwargs))
        result.extend_metadata(
            {
                "total_time": time.perf_counter() - begin,
                "num_duplicates": sum(task._metadata["num_removal_ids"] for task in duplicates),
                "id_generator_path": path,
            }
        )
        return result

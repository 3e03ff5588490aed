"""Fuzzy deduplication of files in one call, under NeMo Curator's name."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dcurate.compat.nemo.dedup_stages.files import (
    FileType,
    check_initial_tasks,
    groups_of_files,
    joined,
    storage_of,
)
from dcurate.compat.nemo.dedup_stages.fuzzy import (
    BucketsToEdgesStage,
    ConnectedComponentsStage,
    IdentifyFuzzyDuplicatesStage,
    LSHStage,
    MinHashStage,
)
from dcurate.compat.nemo.dedup_stages.workflow import cluster, ids_generated
from dcurate.compat.nemo.ids import write_id_generator_to_disk
from dcurate.compat.nemo.pipeline import Pipeline, WorkflowBase, WorkflowRunResult
from dcurate.compat.nemo.tasks import FileGroupTask

_log = logging.getLogger("dcurate.compat.nemo")
_FEW_CHARACTERS = 20


@dataclass(eq=False, repr=False)
class FuzzyDeduplicationWorkflow(WorkflowBase):
    """Write the ids of documents in files that an earlier document is nearly equal to.

    As in NeMo Curator, documents that share a bucket are duplicates, and their texts are not compared; dcurate's own
    workflow of this name compares them.

    Args:
        cache_path: for what passes between stages: ``MinHashStage``, ``LSHStage``, ``BucketsToEdgesStage`` and
            ``ConnectedComponentsStage``.
        output_path: for ``FuzzyDuplicateIds`` and ``fuzzy_id_generator.json``.
        input_path, input_filetype, input_blocksize, input_file_extensions, read_kwargs: location, type and reader
            settings of the documents.
        cache_kwargs, write_kwargs: for Parquet files in the two places.
        text_field: the column of texts.
        perform_removal: must be False, as in NeMo Curator; `TextDuplicatesRemovalWorkflow` removes.
        seed, char_ngrams, num_bands, minhashes_per_band, use_64_bit_hash, normalize_text, bands_per_iteration,
            lsh_num_output_partitions: settings of signatures and bands, as in `MinHashStage` and `LSHStage`.
        lsh_rmm_pool_size, lsh_spill_memory_limit, use_async_memory, env_vars: settings of GPUs and Ray; without effect
            here.

    Raises:
        NotImplementedError: `perform_removal` is True.
        ValueError: `bands_per_iteration` is out of range.
    """

    cache_path: str
    output_path: str
    input_path: str | list[str] | None = None
    input_filetype: FileType = "parquet"
    input_blocksize: str | int = "1GiB"
    input_file_extensions: list[str] | None = None
    read_kwargs: dict[str, Any] | None = None
    cache_kwargs: dict[str, Any] | None = None
    write_kwargs: dict[str, Any] | None = None
    text_field: str = "text"
    perform_removal: bool = False
    seed: int = 42
    char_ngrams: int = 24
    num_bands: int = 20
    minhashes_per_band: int = 13
    use_64_bit_hash: bool = False
    normalize_text: bool = False
    bands_per_iteration: int = 5
    lsh_num_output_partitions: int | None = None
    lsh_rmm_pool_size: Any = "auto"
    lsh_spill_memory_limit: Any = "auto"
    env_vars: dict[str, Any] | None = None
    use_async_memory: bool = True

    def __post_init__(self) -> None:
        if self.perform_removal:
            raise NotImplementedError(
                "Removal is not implemented yet in this workflow; run TextDuplicatesRemovalWorkflow after it"
            )
        if not 1 <= self.bands_per_iteration <= self.num_bands:
            raise ValueError("bands_per_iteration must be between [1, num_bands]")
        if self.char_ngrams < _FEW_CHARACTERS:
            _log.warning("char_ngrams=%d finds many pairs that are not duplicates; take 20 or more", self.char_ngrams)
        self.num_hashes = self.num_bands * self.minhashes_per_band
        self.executor_config = {"runtime_env": {"env_vars": self.env_vars}} if self.env_vars is not None else None

    def _create_minhash_pipeline(self, generate_input_filegroups: bool) -> Pipeline:
        signatures = MinHashStage(
            output_path=self.cache_path,
            text_field=self.text_field,
            char_ngrams=self.char_ngrams,
            num_hashes=self.num_hashes,
            seed=self.seed,
            use_64bit_hash=self.use_64_bit_hash,
            normalize_text=self.normalize_text,
            read_format=self.input_filetype,
            read_kwargs=self.read_kwargs,
            write_kwargs=self.cache_kwargs,
        )
        pipeline = Pipeline("minhash_pipeline", stages=[signatures])
        if generate_input_filegroups:
            files = groups_of_files(
                self.input_path,
                self.input_filetype,
                self.input_file_extensions,
                self.read_kwargs,
                blocksize=self.input_blocksize,
            )
            pipeline.stages.insert(0, files)
        return pipeline

    def _create_lsh_pipeline(self) -> Pipeline:
        path = joined(self.cache_path, "MinHashStage")
        signatures = groups_of_files(path, "parquet", None, self.cache_kwargs, blocksize="256MiB")
        buckets = LSHStage(
            num_bands=self.num_bands,
            minhashes_per_band=self.minhashes_per_band,
            output_path=self.cache_path,
            read_kwargs=self.cache_kwargs,
            write_kwargs=self.cache_kwargs,
            bands_per_iteration=self.bands_per_iteration,
            total_nparts=self.lsh_num_output_partitions,
        )
        return Pipeline("lsh_duplicate_identification_pipeline", stages=[signatures, buckets])

    def _create_connected_components_pipeline(self) -> Pipeline:
        cache = {"output_path": self.cache_path, "read_kwargs": self.cache_kwargs, "write_kwargs": self.cache_kwargs}
        ids = IdentifyFuzzyDuplicatesStage(
            output_path=self.output_path, read_kwargs=self.cache_kwargs, write_kwargs=self.write_kwargs
        )
        stages = [BucketsToEdgesStage(**cache), ConnectedComponentsStage(**cache), ids]  # type: ignore[arg-type]
        return Pipeline("connected_components_pipeline", stages=stages)

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
        result = WorkflowRunResult("fuzzy_deduplication")
        begin = time.perf_counter()
        with cluster(executor) as runner, ids_generated():
            runner.run(self._create_minhash_pipeline(initial_tasks is None), result, "minhash", initial_tasks)
            path = joined(self.output_path, "fuzzy_id_generator.json")
            write_id_generator_to_disk(path, storage_options=storage_of(self.write_kwargs))
            result.add_metadata("id_generator_path", path)
            buckets = runner.run(self._create_lsh_pipeline(), result, "lsh")
            duplicates: list[Any] = []
            if buckets:
                groups = self._create_connected_components_pipeline()
                duplicates = runner.run(groups, result, "connected_components", buckets)
                spent = result.metadata.pop("connected_components_time")
                result.add_metadata("connected_components_pipeline_time", spent)
            result.add_metadata("num_duplicates", sum(task._metadata["num_removal_ids"] for task in duplicates))
        result.add_metadata("total_time", time.perf_counter() - begin)
        return result

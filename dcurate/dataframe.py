"""dcurate's stages on a Dask DataFrame, lazily."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import threading
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from dask.base import is_dask_collection
from dask.system import CPU_COUNT
from dask.utils import is_dataframe_like
from distributed import get_worker

from dcurate.cluster import compat
from dcurate.core.batch import BatchKey
from dcurate.core.gpu_errors import poison_in
from dcurate.core.part import Part
from dcurate.core.pipeline import PipelineDefinition, check_columns
from dcurate.core.stage import BarrierStage, SinkStage, SourceStage, Stage
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.calls import POISONED_EXIT
from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.engine.worker.slots import SlotPool
from dcurate.errors import PipelineError, RunError
from dcurate.frames.convert import is_cudf
from dcurate.frames.document import DocumentBatch
from dcurate.frames.partition import Partition, check_frame, kept_of, meta_of, parted, restored, with_index_of
from dcurate.plan.compile import compile_plan

AnyStage = Stage
_log = logging.getLogger("dcurate.dataframe")


def apply(stages: AnyStage | Sequence[AnyStage], ddf: Any, meta: Any = None) -> Any:
    """Apply stages to a Dask DataFrame, partition by partition, lazily.

    It composes with other Dask operations: ``apply(stages, dd.read_parquet(...)).to_parquet(...)``. Columns that
    no stage changes keep their values, nulls and dtypes, also those that Arrow cannot hold. A row keeps its index;
    several rows made from one row all have its index. Rows that a stage returns without the column ``_dcurate_row``,
    which numbers the rows of a partition, are numbered from 0 in each partition. Divisions are unknown afterwards.

    Stages know a partition by its number when `apply` is called. Ids that `AddId` makes do not depend on which
    partitions are computed; they change after `repartition`, or if rows are dropped before `apply`.

    Args:
        stages: one stage or several, none of which reads or writes files.
        ddf: a Dask DataFrame.
        meta: an empty frame like the result; by default the stages are run on no rows to find it. Give it if stages
            return nothing for an empty frame, or a column with another dtype. Its index defaults to that of ``ddf``.

    Raises:
        PipelineError: stages that do not fit together or on these columns, or that read, write, or need all rows; or
            no Dask DataFrame, or one with columns of the same name.
        DataError: when it runs: a value does not fit the dtype that its column has in ``meta``.

    Examples:
        >>> import dask.dataframe as dd
        >>> import pandas as pd
        >>> from dcurate import ScoreFilter
        >>> from dcurate.text import AddId, WordCountFilter
        >>> ddf = dd.from_pandas(pd.DataFrame({"text": ["just three words", "two words"]}), npartitions=1)
        >>> apply([ScoreFilter(WordCountFilter(min_words=3)), AddId("id")], ddf).compute().text.tolist()
        ['just three words']
    """
    check_dask(ddf, "apply()")
    if isinstance(stages, PipelineDefinition):
        raise PipelineError(
            "apply() takes stages, not a Pipeline; give it pipeline.stages, without readers and writers"
        )
    wanted = [stages] if isinstance(stages, Part) else list(stages)
    if not wanted:
        raise PipelineError("apply() is given no stages; give at least one: apply([LanguageId()], ddf)")
    built = PipelineDefinition("apply", stages=wanted).build()
    for stage in built:
        if isinstance(stage, SourceStage | SinkStage | BarrierStage):
            raise PipelineError(
                f"stage {stage.name!r} ({type(stage).__name__}) does not work on one partition at a time; "
                "read and write with dask.dataframe, or run a Pipeline"
            )
    check_frame(ddf.columns)
    check_columns(built, [str(column) for column in ddf.columns])
    parts = tuple(stage for operator in compile_plan(built).operators for stage in operator.processing_stages)
    payload = pickled(OperatorSpec("apply", parts, passes_empty=True))
    needed = tuple(dict.fromkeys(column for stage in built for column in stage.inputs()[1]))
    if meta is None:
        part = parted(ddf._meta, BatchKey("meta"), needed)
        made = _made(part, payload)
        if not made:
            raise PipelineError("the stages make nothing of a frame without rows; give apply() an empty frame as meta=")
        meta = meta_of(part, made)
    else:
        meta = with_index_of(meta, ddf._meta)
    step = _Step(payload, needed, kept_of(meta, ddf._meta))
    return bound(ddf.map_partitions(_apply_partition, step, meta, meta=meta).clear_divisions())


def bound(ddf: Any) -> Any:
    """Return a Dask DataFrame whose partitions keep their numbers, also if only some are computed.

    Dask renumbers partitions where it selects some of them, or reads several small files as one.
    """
    optimized = ddf.optimize()
    graph, keys = dict(optimized.__dask_graph__()), optimized.__dask_keys__()
    from_graph = importlib.import_module("dask.dataframe").from_graph
    return from_graph(graph, ddf._meta, optimized.divisions, keys, "apply")


def check_dask(ddf: Any, what: str) -> None:
    """Refuse a value that is no Dask DataFrame, or one of dask-cudf.

    Raises:
        PipelineError: it is not.
    """
    if not (is_dask_collection(ddf) and is_dataframe_like(ddf)):
        type_name = f"{type(ddf).__module__.partition('.')[0]}.{type(ddf).__name__}"
        how = "make one of it: dask.dataframe.from_pandas(frame, npartitions=1)"
        if isinstance(ddf, Part | PipelineDefinition | list | tuple):
            how = "the frame is the second argument of apply(stages, ddf), and the first of deduplicate(ddf)"
        elif is_dask_collection(ddf) and hasattr(ddf, "to_frame"):
            how = "make one of it: series.to_frame()"
        raise PipelineError(f"{what} takes a Dask DataFrame, and this is {type_name}; {how}")
    if is_cudf(ddf._meta):
        raise PipelineError(
            f"{what} takes a Dask DataFrame of pandas, and this one is of cuDF; give it ddf.to_backend('pandas'), or "
            "read the files in a Pipeline: ParquetReader(path, frames='cudf')"
        )


@dataclass(frozen=True)
class _Step:
    """The work on each partition: a pickled program, the columns it reads, and those whose dtype stays."""

    payload: bytes
    needed: tuple[str, ...]
    kept: tuple[str, ...]


#: The slots of this process, by what they run; torn down when the process ends.
_pools: dict[bytes, SlotPool] = {}
_lock = threading.Lock()


def _apply_partition(frame: Any, step: _Step, meta: Any, partition_info: dict[str, Any] | None = None) -> Any:
    """One partition through the stages; its number in the frame is its key."""
    number = partition_info["number"] if partition_info else 0
    part = parted(frame, BatchKey(f"partition-{number:05}"), step.needed, step.kept)
    return restored(part, _made(part, step.payload), meta)


def _made(part: Partition, payload: bytes) -> list[DocumentBatch]:
    """The batches that a program makes of a partition.

    Raises:
        RunError: a CUDA error has left the GPU unusable to this process, and no nanny restarts it.
    """
    try:
        result = _pool(payload).work([part])
    except RunError as error:
        _end_if_poisoned(error)
        raise
    return [batch for batch in result.outputs[0] if isinstance(batch, DocumentBatch)]


def _end_if_poisoned(error: RunError) -> None:
    """End this process if all its later partitions would fail and a nanny restarts it; Dask makes them again."""
    poison = poison_in(error)
    try:
        is_restarted = compat.has_nanny(get_worker())
    except ValueError:  # this is no worker of a cluster
        is_restarted = False
    if poison is not None and is_restarted:
        first = str(poison).partition("\n")[0]
        _log.error("apply(): the GPU is unusable to this process, which ends: %s: %s", type(poison).__name__, first)
        os._exit(POISONED_EXIT)


def _pool(payload: bytes) -> SlotPool:
    """The slots for a program in this process, set up when its first partition comes."""
    with _lock:
        if payload not in _pools:
            pool = SlotPool(uuid.uuid4().hex[:8], payload)
            with ExitStack() as failed:
                failed.callback(pool.close)
                for number in range(CPU_COUNT):
                    pool.add(f"apply/{number}")
                failed.pop_all()
            atexit.register(pool.close)
            _pools[payload] = pool
        return _pools[payload]

"""dcurate's stages on a Dask DataFrame, lazily."""

from __future__ import annotations

import atexit
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from dask.base import is_dask_collection
from dask.system import CPU_COUNT
from dask.utils import is_dataframe_like

from dcurate.core.batch import BatchKey
from dcurate.core.pipeline import PipelineDefinition, check_columns
from dcurate.core.stage import ExchangeStage, ProcessingStage, SinkStage, SourceStage
from dcurate.errors import PipelineError
from dcurate.execute.ship import pickled
from dcurate.frames.convert import like, stacked
from dcurate.frames.document import DocumentBatch
from dcurate.plan.compile import compile_plan
from dcurate.worker.program import Program
from dcurate.worker.slots import SlotPool

AnyStage = ProcessingStage[Any, Any]


def apply(stages: AnyStage | Sequence[AnyStage], ddf: Any, meta: Any = None) -> Any:
    """The Dask DataFrame that stages make of another, partition by partition; nothing runs yet.

    It composes with whatever comes before and after: ``apply(stages, dd.read_parquet(...)).to_parquet(...)``. Rows that
    a stage drops are gone; divisions are not known afterwards.

    Args:
        stages: one stage or several, none of which reads or writes files.
        ddf: a Dask DataFrame.
        meta: an empty frame like the result; found by running the stages on no rows if not given.

    Raises:
        PipelineError: stages that do not fit together or on these columns, or that read, write, or need all rows; or
            no Dask DataFrame.

    Examples:
        >>> import dask.dataframe as dd
        >>> import pandas as pd
        >>> from dcurate import AddId, WordCountFilter, ScoreFilter
        >>> ddf = dd.from_pandas(pd.DataFrame({"text": ["just three words", "two words"]}), npartitions=1)
        >>> apply([ScoreFilter(WordCountFilter(min_words=3)), AddId("id")], ddf).compute().text.tolist()
        ['just three words']
    """
    if not (is_dask_collection(ddf) and is_dataframe_like(ddf)):
        given = f"{type(ddf).__module__.partition('.')[0]}.{type(ddf).__name__}"
        raise PipelineError(
            f"apply() takes a Dask DataFrame, and this is {given}; "
            "make one of it: dask.dataframe.from_pandas(frame, npartitions=1)"
        )
    wanted = [stages] if isinstance(stages, ProcessingStage) else list(stages)
    built = PipelineDefinition("apply", stages=wanted).build()
    for stage in built:
        if isinstance(stage, SourceStage | SinkStage | ExchangeStage):
            raise PipelineError(
                f"stage {stage.name!r} ({type(stage).__name__}) does not work on one partition at a time; "
                "read and write with dask.dataframe, or run a Pipeline"
            )
    check_columns(built, [str(column) for column in ddf.columns])
    parts = tuple(stage for operator in compile_plan(built).operators for stage in operator.stages)
    payload = pickled(Program("apply", parts, passes_empty=True))
    if meta is None:
        meta = _processed(ddf._meta, payload, BatchKey("meta"))
        if meta is None:
            raise PipelineError("the stages make nothing of a frame without rows; give apply() an empty frame as meta=")
    return ddf.map_partitions(_apply_partition, payload, meta, meta=meta).clear_divisions()


#: The slots of this process, by what they run; torn down when the process ends.
_pools: dict[bytes, SlotPool] = {}
_lock = threading.Lock()


def _apply_partition(frame: Any, payload: bytes, meta: Any, partition_info: dict[str, Any] | None = None) -> Any:
    """One partition through the stages; its number in the frame is its key."""
    number = partition_info["number"] if partition_info else 0
    made = _processed(frame, payload, BatchKey(f"partition-{number:05}"))
    return meta if made is None else like(made, meta)


def _processed(frame: Any, payload: bytes, key: BatchKey) -> Any:
    """The pandas frame that a program makes of another, or None if it answers nothing."""
    outcome = _pool(payload).work([DocumentBatch(data=frame, key=key)])
    frames = [batch.to_pandas() for batch in outcome.outputs[0] if isinstance(batch, DocumentBatch)]
    return stacked(frames) if frames else None


def _pool(payload: bytes) -> SlotPool:
    """The slots for a program in this process, set up when its first partition comes."""
    with _lock:
        if payload not in _pools:
            pool = SlotPool(uuid.uuid4().hex[:8], payload, CPU_COUNT, "apply")
            pool.open()
            atexit.register(pool.close)
            _pools[payload] = pool
        return _pools[payload]

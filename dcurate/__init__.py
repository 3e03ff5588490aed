"""dcurate: curate LLM training data on Dask.

Everything public is importable from here; names load on first use, so that ``import dcurate`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcurate.cluster.attach import AttachedCluster as AttachedCluster
    from dcurate.cluster.local import LocalCluster as LocalCluster
    from dcurate.core.batch import Batch as Batch
    from dcurate.core.batch import BatchKey as BatchKey
    from dcurate.core.batch import FileGroup as FileGroup
    from dcurate.core.events import Observer as Observer
    from dcurate.core.resources import Resources as Resources
    from dcurate.core.stage import CompositeStage as CompositeStage
    from dcurate.core.stage import NodeInfo as NodeInfo
    from dcurate.core.stage import ProcessingStage as ProcessingStage
    from dcurate.core.stage import SinkStage as SinkStage
    from dcurate.core.stage import SourceStage as SourceStage
    from dcurate.core.stage import WorkerMetadata as WorkerMetadata
    from dcurate.core.stage import processing_stage as processing_stage
    from dcurate.dataframe import apply as apply
    from dcurate.dedup.exact import ExactDuplicates as ExactDuplicates
    from dcurate.execute.dask_executor import DaskExecutor as DaskExecutor
    from dcurate.execute.inline import InlineExecutor as InlineExecutor
    from dcurate.frames.document import DocumentBatch as DocumentBatch
    from dcurate.io.jsonl import JsonlReader as JsonlReader
    from dcurate.io.jsonl import JsonlWriter as JsonlWriter
    from dcurate.io.parquet import ParquetReader as ParquetReader
    from dcurate.io.parquet import ParquetWriter as ParquetWriter
    from dcurate.run import Pipeline as Pipeline
    from dcurate.run import RunResult as RunResult

__version__ = "0.1.0"

#: Where each public name lives.
_HOME = {
    "AttachedCluster": "dcurate.cluster.attach",
    "Batch": "dcurate.core.batch",
    "BatchKey": "dcurate.core.batch",
    "CompositeStage": "dcurate.core.stage",
    "DaskExecutor": "dcurate.execute.dask_executor",
    "DocumentBatch": "dcurate.frames.document",
    "ExactDuplicates": "dcurate.dedup.exact",
    "FileGroup": "dcurate.core.batch",
    "InlineExecutor": "dcurate.execute.inline",
    "JsonlReader": "dcurate.io.jsonl",
    "JsonlWriter": "dcurate.io.jsonl",
    "LocalCluster": "dcurate.cluster.local",
    "NodeInfo": "dcurate.core.stage",
    "Observer": "dcurate.core.events",
    "ParquetReader": "dcurate.io.parquet",
    "ParquetWriter": "dcurate.io.parquet",
    "Pipeline": "dcurate.run",
    "ProcessingStage": "dcurate.core.stage",
    "Resources": "dcurate.core.resources",
    "RunResult": "dcurate.run",
    "SinkStage": "dcurate.core.stage",
    "SourceStage": "dcurate.core.stage",
    "WorkerMetadata": "dcurate.core.stage",
    "apply": "dcurate.dataframe",
    "processing_stage": "dcurate.core.stage",
}

__all__ = [*_HOME]  # noqa: PLE0604 - the names of the table above, all strings


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dcurate' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

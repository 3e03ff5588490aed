"""dcurate: curate LLM training data on Dask.

Everything public is importable from here; names load on first use, so that ``import dcurate`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcurate.core.batch import Batch as Batch
    from dcurate.core.batch import BatchKey as BatchKey
    from dcurate.core.batch import FileGroup as FileGroup
    from dcurate.core.resources import Resources as Resources
    from dcurate.core.stage import CompositeStage as CompositeStage
    from dcurate.core.stage import ProcessingStage as ProcessingStage
    from dcurate.core.stage import SinkStage as SinkStage
    from dcurate.core.stage import SourceStage as SourceStage
    from dcurate.core.stage import processing_stage as processing_stage
    from dcurate.frames.document import DocumentBatch as DocumentBatch

__version__ = "0.1.0"

#: Where each public name lives.
_HOME = {
    "Batch": "dcurate.core.batch",
    "BatchKey": "dcurate.core.batch",
    "CompositeStage": "dcurate.core.stage",
    "DocumentBatch": "dcurate.frames.document",
    "FileGroup": "dcurate.core.batch",
    "ProcessingStage": "dcurate.core.stage",
    "Resources": "dcurate.core.resources",
    "SinkStage": "dcurate.core.stage",
    "SourceStage": "dcurate.core.stage",
    "processing_stage": "dcurate.core.stage",
}

__all__ = [*_HOME]  # noqa: PLE0604 - names of the table above, all strings


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dcurate' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

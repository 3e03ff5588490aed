"""Stages: the steps of a pipeline. One module for each kind."""

from dcurate.core.stage.barrier import BarrierStage, NoProcessError
from dcurate.core.stage.base import REPLACED, Spec, Stage
from dcurate.core.stage.composite import CompositeStage
from dcurate.core.stage.function import FunctionStage, processing_stage
from dcurate.core.stage.processing import NodeInfo, NotSetUpError, ProcessingStage, WorkerMetadata
from dcurate.core.stage.sink import SinkStage
from dcurate.core.stage.source import KeepsLines, LeavesTexts, MarksRows, SourceStage, places

__all__ = [
    "REPLACED",
    "BarrierStage",
    "CompositeStage",
    "FunctionStage",
    "KeepsLines",
    "LeavesTexts",
    "MarksRows",
    "NoProcessError",
    "NodeInfo",
    "NotSetUpError",
    "ProcessingStage",
    "SinkStage",
    "SourceStage",
    "Spec",
    "Stage",
    "WorkerMetadata",
    "places",
    "processing_stage",
]

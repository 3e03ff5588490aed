"""Stages: the steps of a pipeline. One module for each kind."""

from dcurate.core.stage.barrier import BarrierStage, NoProcessError
from dcurate.core.stage.base import REPLACED, Spec, Stage
from dcurate.core.stage.composite import CompositeStage
from dcurate.core.stage.function import FunctionStage, processing_stage
from dcurate.core.stage.processing import NodeInfo, NotSetUpError, ProcessingStage, WorkerMetadata
from dcurate.core.stage.sink import SinkStage
from dcurate.core.stage.source import AdaptsRows, RowNeeds, SkippedInput, SourceStage, places
from dcurate.core.stage.tables import TableAt

__all__ = [
    "REPLACED",
    "AdaptsRows",
    "BarrierStage",
    "CompositeStage",
    "FunctionStage",
    "NoProcessError",
    "NodeInfo",
    "NotSetUpError",
    "ProcessingStage",
    "RowNeeds",
    "SinkStage",
    "SkippedInput",
    "SourceStage",
    "Spec",
    "Stage",
    "TableAt",
    "WorkerMetadata",
    "places",
    "processing_stage",
]

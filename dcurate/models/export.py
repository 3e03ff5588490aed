"""Export the encoders of a stage for a backend on this host, before a run needs them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from dcurate import models
from dcurate.core.stage import CompositeStage
from dcurate.errors import PipelineError, listed, nearest
from dcurate.models.classifiers.labels import config_in, is_model_folder
from dcurate.models.exported import BACKENDS, folder_size
from dcurate.models.inference import ModelStage


class Exported(NamedTuple):
    """A model that was exported.

    Attributes:
        model: its id or folder.
        backend: what runs it.
        folder: where it is on this host.
        nbytes: size of the folder in bytes.
        rows: number of sample texts on which it was compared with Torch in float32.
        agreement: the fraction of equal labels, or the mean cosine of embeddings.
    """

    model: str
    backend: str
    folder: str
    nbytes: int
    rows: int
    agreement: float


def stage_kinds() -> list[str]:
    """Return the names of the stages whose encoders can be exported."""
    kinds = {name: getattr(models, name) for name in models.__all__}
    return sorted(
        name
        for name, kind in kinds.items()
        if isinstance(kind, type)
        and issubclass(kind, CompositeStage)
        and "backend" in inspect.signature(kind).parameters
        and _is_exportable(kind)
    )


def export_model(kind: str | None, settings: Mapping[str, Any]) -> list[Exported]:
    """Export the encoders of a stage as a run of it would, and compare them with Torch.

    A run of the same stage with the same settings on this host takes what is exported here. Names of columns do not
    matter.

    Args:
        kind: name of the stage in `dcurate.models`; by default that which fits the model: `SequenceClassifier` for a
            folder that classifies, else `TextEmbedding`.
        settings: arguments of the stage, such as ``model`` and ``backend``.

    Raises:
        PipelineError: an unknown stage, setting or backend, a stage without a model of its own where none is named, or
            a backend that agrees too little.
    """
    kind = kind or _kind_of(str(settings.get("model", "")))
    known = stage_kinds()
    if kind not in known:
        advice = nearest(kind, known) or f"; take {listed(known)}"
        raise PipelineError(f"{kind!r} is not a stage with an encoder to export{advice}")
    if settings.get("backend") not in BACKENDS[1:]:
        raise PipelineError(f"backend={settings.get('backend')!r} exports nothing; take one of {listed(BACKENDS[1:])}")
    stage_class = getattr(models, kind)
    allowed = list(inspect.signature(stage_class).parameters)
    for name in settings:
        if name not in allowed:
            raise PipelineError(f"{kind} has no setting {name!r}{nearest(name, allowed)}")
    if "model" in _required(stage_class) and "model" not in settings:
        raise PipelineError(f"{kind} has no model of its own; name MODEL")
    stages = [stage for stage in stage_class(**settings).decompose() if isinstance(stage, ModelStage)]
    return [_exported(stage) for stage in stages]


def _kind_of(model: str) -> str:
    """The stage that fits a model."""
    architectures = config_in(model).get("architectures") or () if is_model_folder(model) else ()
    classifies = any(str(name).endswith("ForSequenceClassification") for name in architectures)
    return "SequenceClassifier" if classifies else "TextEmbedding"


def _required(stage_class: type) -> list[str]:
    """The settings without a default."""
    parameters = inspect.signature(stage_class).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def _is_exportable(stage_class: type) -> bool:
    """Whether the stage takes a backend: those whose model runs on Torch only refuse it."""
    try:
        stage_class(backend=BACKENDS[1], **dict.fromkeys(_required(stage_class), "org/model"))
    except PipelineError:
        return False
    return True


def _exported(stage: ModelStage) -> Exported:
    with stage.hold_export(stage.weights.fetch()) as known:
        assert known is not None
        folder = stage.exported_folder()
        return Exported(stage.model, stage.backend, str(folder), folder_size(folder), known.rows, known.agreement)

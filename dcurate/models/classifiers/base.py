"""What all classifiers share: settings, and decomposition into stages.

Everything here has run on CPUs only; it is untested on a GPU.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dcurate.core.stage import CompositeStage, ProcessingStage, Spec, WorkerMetadata
from dcurate.frames.document import DocumentBatch
from dcurate.hub.weights import named_after
from dcurate.models.classifiers.columns import check_finite, distinct, put, record_labels
from dcurate.models.classifiers.labels import FilterByLabel, Label, check_wanted, known_labels, wanted_labels
from dcurate.models.inference import ModelStage
from dcurate.models.tokenizer import INPUT_ID_FIELD, Tokenize


@dataclass
class LabellingStage(ModelStage):
    """Run a model over tokens and add columns; the tokens are dropped, unless they are kept explicitly.

    Args:
        keep_tokens: whether the column ``input_ids`` stays.
        overwrite: replace columns that are there already instead of refusing.
        wanted: labels that are asked for later; one that the model does not have is refused at set-up.
    """

    keep_tokens: bool = False
    overwrite: bool = False
    wanted: tuple[Label, ...] = ()

    #: As in NeMo Curator float16, whose scores are finer than bfloat16's.
    half: ClassVar[str] = "fp16"
    #: Columns that are dropped with the tokens.
    scratch: ClassVar[tuple[str, ...]] = (INPUT_ID_FIELD,)

    @abstractmethod
    def columns(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new columns from the output of `process_model_output`: an array, a matrix or a list each."""

    def labels(self, folder: str) -> Sequence[Label] | None:
        """Return the labels of the model in a folder, in the order of its outputs; None if there are none."""
        return None

    def agreement(self, exact: Mapping[str, Any], quick: Mapping[str, Any]) -> float:
        """The share of rows with equal labels; where there are only numbers, of those within 1 % of their range."""
        left, right = self.columns(exact), self.columns(quick)
        numbers = {name for name, column in left.items() if isinstance(column, np.ndarray) and column.dtype.kind == "f"}
        names = left.keys() - numbers or left.keys()
        pairs = [(left[name], right[name]) for name in names]
        return float(np.mean(np.all([_alike(*pair) for pair in pairs], axis=0)))

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._labels = self.labels(self.weights.folder())
        check_wanted(self.name, self.wanted, self._labels)
        super().setup(worker_metadata)

    def dropped_columns(self) -> Sequence[str]:
        return () if self.keep_tokens else self.scratch

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        return record_labels(super().process(task), self.name, self.outputs()[1])

    def create_output_dataframe(self, frame: Any, collected: Mapping[str, Any]) -> Any:
        check_finite(self.name, collected)
        return put(frame, self.columns(collected), () if self.keep_tokens else self.scratch)


def _alike(left: Any, right: Any) -> Any:
    """Whether the values of two columns are equal, or numbers close to each other, row by row."""
    if isinstance(left, np.ndarray) and left.dtype.kind == "f":
        span = np.ptp(left) if left.size else 0.0
        return np.all(np.abs(left - right).reshape(len(left), -1) <= 0.01 * span, axis=1)
    return np.array([bool(np.all(exact == quick)) for exact, quick in zip(left, right, strict=True)])


@dataclass(kw_only=True)
class Classifier(CompositeStage[DocumentBatch, DocumentBatch]):
    """Base of all classifiers: a tokenizer, a model, and a filter if labels are given.

    Args:
        model: an id at the Hugging Face hub, or a local folder with the same files.
        revision: a branch, tag or commit of the hub.
        cache_dir: where files of the hub are kept; by default where Hugging Face keeps them.
        hf_token: for models that ask for one.
        text_field: the column that is classified; it is unchanged. A null text counts as empty.
        filter_by: labels to keep; rows with others are dropped, and counted label by label. All by default.
        max_chars: characters at the beginning of a text that are looked at; all by default.
        sort_by_length: whether to batch texts of similar length, which is cheaper.
        model_inference_batch_size: most texts that do.
        autocast: whether the model computes in 16 bits on a GPU; ``"bf16"`` and ``"fp16"`` do anywhere, False never.
        keep_tokens: keep the column ``input_ids``.
        use_existing_tokens: take the tokens from ``input_ids``, of an earlier classifier with the same tokenizer.
        overwrite: replace columns that are there already instead of refusing.
        device: ``"auto"`` is a GPU where there is one; ``"cuda"`` insists, ``"cpu"`` never asks.
        backend: ``"torch"``, or on CPUs ``"onnx"``, ``"onnx-int8"`` or ``"openvino"``, as in `ModelStage`.
        min_agreement: the least share of equal labels of a backend, as in `ModelStage`.

    Raises:
        PipelineError: ``filter_by`` has a label that the model does not have, or an output column already exists.
    """

    model: str
    revision: str | None = None
    cache_dir: str | None = None
    hf_token: str | None = field(default=None, repr=False)
    text_field: str = "text"
    filter_by: Sequence[Label] | Label | None = None
    max_chars: int | None = None
    sort_by_length: bool = True
    model_inference_batch_size: int = 256
    autocast: bool | str = True
    keep_tokens: bool = False
    use_existing_tokens: bool = False
    overwrite: bool = False
    device: str = "auto"
    backend: str = "torch"
    min_agreement: float = 0.98

    #: Labels of models at the hub, so that a wrong one is refused before anything is fetched.
    hub_labels: ClassVar[Mapping[str, Sequence[Label]]] = {}

    def __post_init__(self) -> None:
        self.name = named_after(self.model, "_classifier")
        check_wanted(self.name, self.wanted, self.known_labels)
        distinct(self.name, self.model_stage().outputs()[1])

    @property
    @abstractmethod
    def filtered_field(self) -> str:
        """The column that ``filter_by`` reads."""

    @abstractmethod
    def model_stage(self) -> ProcessingStage[Any, Any]:
        """The stage that runs the model."""

    @property
    def wanted(self) -> tuple[Label, ...]:
        """The labels of ``filter_by``."""
        return wanted_labels(self.filter_by)

    @property
    def known_labels(self) -> Sequence[Label] | None:
        """The labels of the model, if they are known without network access."""
        return known_labels(self.model, self.hub_labels)

    def tokenizer_settings(self) -> dict[str, Any]:
        """Arguments of the tokenizer stage from the classifier's settings."""
        return {
            "model": self.model,
            "revision": self.revision,
            "cache_dir": self.cache_dir,
            "hf_token": self.hf_token,
            "text_field": self.text_field,
            "max_chars": self.max_chars,
            "sort_by_length": self.sort_by_length,
            "overwrite": self.overwrite,
        }

    def model_settings(self) -> dict[str, Any]:
        """Arguments of the model stage from the classifier's settings."""
        return {
            "model": self.model,
            "revision": self.revision,
            "cache_dir": self.cache_dir,
            "hf_token": self.hf_token,
            "model_inference_batch_size": self.model_inference_batch_size,
            "has_seq_order": self.sort_by_length,
            "autocast": self.autocast,
            "keep_tokens": self.keep_tokens,
            "overwrite": self.overwrite,
            "device": self.device,
            "backend": self.backend,
            "min_agreement": self.min_agreement,
            "wanted": self.wanted,
        }

    def before_model(self) -> list[ProcessingStage[Any, Any]]:
        """The stages that tokenize."""
        return [Tokenize(**self.tokenizer_settings())]

    def after_model(self) -> list[ProcessingStage[Any, Any]]:
        """The stages between model and filter."""
        return []

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        stages = [] if self.use_existing_tokens else self.before_model()
        stages += [self.model_stage(), *self.after_model()]
        return [*stages, FilterByLabel(self.filtered_field, self.wanted, self.text_field)] if self.wanted else stages

    def inputs(self) -> Spec:
        return self.decompose()[0].inputs()

    def outputs(self) -> Spec:
        return ["data"], [
            column for stage in [self.model_stage(), *self.after_model()] for column in stage.outputs()[1]
        ]

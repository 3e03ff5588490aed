"""The prompt classifier by task and complexity: one encoder with eight heads.

Everything here has run on CPUs only, with small random weights of the same layout; it is untested on a GPU, and the
published weights were not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dcurate.core.extras import needed
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.models.classifiers.base import Classifier, LabellingStage
from dcurate.models.classifiers.checkpoint import linear, network, weights_in
from dcurate.models.classifiers.complexity import OUTPUT_FIELDS, TARGETS, Scales, complexity
from dcurate.models.classifiers.labels import Label, config_in, is_model_folder

PROMPT_TASK_COMPLEXITY_MODEL_IDENTIFIER = "nvidia/prompt-task-and-complexity-classifier"


@dataclass
class PromptTaskComplexityModel(LabellingStage):
    """Add the eleven columns of `PromptTaskComplexityClassifier`."""

    gpu_share: ClassVar[float] = 0.5
    exports: ClassVar[bool] = False

    def outputs(self) -> Spec:
        return ["data"], list(OUTPUT_FIELDS)

    def labels(self, folder: str) -> Sequence[Label]:
        return tasks_of(config_in(folder))

    def load_model(self, folder: str, device: Any) -> Any:
        tensors = weights_in(self.weights, folder)
        modules = needed("torch", str(self.weights), "models").nn
        heads = [linear(self.weights, tensors, f"head_{place}.fc") for place in range(len(TARGETS))]
        sizes = {target: head.out_features for target, head in zip(TARGETS, heads, strict=True)}
        scales = Scales.of(config_in(folder), sizes, str(self.weights))
        layers = {f"head_{place}": modules.ModuleDict({"fc": head}) for place, head in enumerate(heads)}
        module = network(self.weights, folder, tensors, "backbone", layers, _over_mean)
        module.scales = scales
        return module

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {target: logits.float() for target, logits in zip(TARGETS, outputs, strict=True)}

    def columns(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        return complexity(collected, self.module.scales)


def tasks_of(config: Mapping[str, Any]) -> list[str]:
    """The names of the tasks in a configuration, in order."""
    named = config.get("task_type_map", {})
    return [str(named[str(number)]) for number in range(len(named))]


def _over_mean(module: Any, states: Any, mask: Any) -> list[Any]:
    """The output of each head for the mean of the states of a text's own tokens."""
    weights = mask.unsqueeze(-1).float()
    mean = (states.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
    return [module.get_submodule(f"head_{place}.fc")(mean) for place in range(len(TARGETS))]


@dataclass(kw_only=True)
class PromptTaskComplexityClassifier(Classifier):
    """Classify prompts by task and complexity (NVIDIA's model, for English).

    It adds eleven columns: ``task_type_1`` and ``task_type_2``, the two likeliest of 11 kinds of task such as
    ``Open QA`` or ``Code Generation`` (the second is ``NA`` below a probability of 0.1), ``task_type_prob``, the
    probability of the first; ``creativity_scope``, ``reasoning``, ``contextual_knowledge``, ``domain_knowledge``,
    ``constraint_ct`` and ``number_of_few_shots``; ``no_label_reason``; and ``prompt_complexity_score``, 0.35 creativity
    + 0.25 reasoning + 0.15 constraints + 0.15 domain + 0.05 contextual knowledge + 0.05 few shots. The first 512 tokens
    are looked at.

    Arguments that are not named here are those of every classifier (`Classifier`); ``filter_by`` takes tasks and looks
    at ``task_type_1`` (NeMo Curator does not support it).

    Args:
        max_seq_length: tokens of a text that the model is shown.

    Examples:
        >>> PromptTaskComplexityClassifier().outputs()[1][:3]
        ['prompt_complexity_score', 'task_type_1', 'task_type_2']
    """

    model: str = PROMPT_TASK_COMPLEXITY_MODEL_IDENTIFIER
    max_seq_length: int | None = 512

    hub_labels: ClassVar[Mapping[str, Sequence[Label]]] = {
        PROMPT_TASK_COMPLEXITY_MODEL_IDENTIFIER: (
            "Brainstorming",
            "Chatbot",
            "Classification",
            "Closed QA",
            "Code Generation",
            "Extraction",
            "Open QA",
            "Other",
            "Rewrite",
            "Summarization",
            "Text Generation",
            "Unknown",
        )
    }

    @property
    def filtered_field(self) -> str:
        return "task_type_1"

    @property
    def known_labels(self) -> Sequence[Label] | None:
        if is_model_folder(self.model):
            return tasks_of(config_in(self.model))
        return super().known_labels

    def tokenizer_settings(self) -> dict[str, Any]:
        return {**super().tokenizer_settings(), "max_seq_length": self.max_seq_length}

    def model_stage(self) -> ProcessingStage[Any, Any]:
        return PromptTaskComplexityModel(**self.model_settings(), max_seq_length=self.max_seq_length)

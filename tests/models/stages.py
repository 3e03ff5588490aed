"""Stages for tests of the base: a classifier, an encoder, and one whose memory is too small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from dcurate.core.stage import Spec
from dcurate.hub.loading import pretrained
from dcurate.models import ModelStage


@dataclass
class Classify(ModelStage):
    """Adds the scores of all classes, and the number of the best one."""

    def outputs(self) -> Spec:
        return ["data"], ["scores", "label"]

    def load_model(self, folder: str, device: Any) -> Any:
        return pretrained("AutoModelForSequenceClassification", self.weights, folder, device)

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"scores": outputs.logits, "label": outputs.logits.argmax(dim=1)}


@dataclass
class Encode(ModelStage):
    """Adds the mean of the vectors of a text's tokens."""

    def outputs(self) -> Spec:
        return ["data"], ["vector"]

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        own = inputs["attention_mask"].unsqueeze(-1)
        return {"vector": (outputs.last_hidden_state * own).sum(dim=1) / own.sum(dim=1)}


class Cramped(torch.nn.Module):
    """A model on a GPU that holds a limited number of tokens at once, and says so as Torch does."""

    def __init__(self, model: Any, room: int) -> None:
        super().__init__()
        self.model, self.room = model, room
        self.calls: list[tuple[int, int]] = []

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        self.calls.append(tuple(input_ids.shape))
        if input_ids.numel() > self.room:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {input_ids.numel()} GiB.")
        return self.model(input_ids=input_ids, attention_mask=attention_mask)


@dataclass
class ClassifyInLittleMemory(Classify):
    """Classifies on a GPU that holds a limited number of tokens at once."""

    room: int = 128
    shares_model: ClassVar[bool] = False

    def load_model(self, folder: str, device: Any) -> Any:
        return Cramped(super().load_model(folder, device), self.room)

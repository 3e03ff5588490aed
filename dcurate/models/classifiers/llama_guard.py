"""Models on LlamaGuard: stages that run it with an adapter, to generate an answer or one number.

Everything here has run on CPUs only, with small random weights of the same layout; it is untested on a GPU, and the
published weights were not loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dcurate.core.extras import needed
from dcurate.core.stage import NodeInfo, Spec, WorkerMetadata
from dcurate.errors import DataError
from dcurate.frames.tokens import Tokens
from dcurate.hub.loading import pretrained, read, tokenizer_of
from dcurate.hub.weights import Weights
from dcurate.models.classifiers.aegis_prompt import format_aegis
from dcurate.models.classifiers.base import LabellingStage
from dcurate.models.classifiers.checkpoint import fill, linear, weights_in
from dcurate.models.classifiers.columns import check_free
from dcurate.models.packing import Side

LLAMA_GUARD = "meta-llama/LlamaGuard-7b"
AEGIS_VARIANTS = (
    "nvidia/Aegis-AI-Content-Safety-LlamaGuard-Defensive-1.0",
    "nvidia/Aegis-AI-Content-Safety-LlamaGuard-Permissive-1.0",
)
INSTRUCTION_DATA_GUARD_MODEL_IDENTIFIER = "nvidia/instruction-data-guard"
#: Tokens of a text that the models are shown.
MAX_SEQ_LENGTH = 4096

_HEAD = ("input_layer", "hidden_layer_0", "hidden_layer_1", "hidden_layer_2")
_NOTHING = -1


@dataclass
class RunLlamaGuard(LabellingStage):
    """Run a causal language model with a LoRA adapter.

    ``model`` is the adapter.

    Args:
        base_model: the language model, an id at the Hugging Face hub or a local folder.
    """

    padding_side: Side = "left"
    base_model: str = LLAMA_GUARD

    half: ClassVar[str] = "bf16"
    exports: ClassVar[bool] = False

    @property
    def base_weights(self) -> Weights:
        """The weights of the language model."""
        return Weights(self.base_model, None, self.cache_dir, self.hf_token)

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup_on_node(node_info, worker_metadata)
        self.base_weights.fetch()

    def load_adapted(self, adapter: Weights, device: Any) -> Any:
        """The language model with an adapter: in bfloat16 on a GPU, as it was tuned, in float32 on a CPU."""
        torch = needed("torch", str(adapter), "models")
        peft = needed("peft", str(adapter), "models")
        base, settings = self.base_weights, {"dtype": torch.float32 if device.type == "cpu" else torch.bfloat16}
        model = pretrained("AutoModelForCausalLM", base, base.folder(), device, settings=settings)
        folder = adapter.folder()
        # Weights of adapters are read to the CPU: peft would take the first GPU, whichever the slot has.
        return read(adapter, folder, lambda: peft.PeftModel.from_pretrained(model, folder, torch_device="cpu"))


@dataclass
class RunAegis(RunLlamaGuard):
    """Add the tokens of the model's answer to a prompt, as lists of int32.

    The policy with which every prompt begins is gone through once in a slot, and not for each text.

    Args:
        raw_output_field: the column for them.
        max_new_tokens: tokens of an answer at most; a verdict takes about five.
    """

    raw_output_field: str = "_aegis_raw_pred"
    max_new_tokens: int = 100

    def outputs(self) -> Spec:
        return ["data"], [self.raw_output_field]

    def check_columns(self, columns: Sequence[str]) -> None:
        """Nothing is refused before the run: an earlier classifier may have used the column temporarily."""

    def process(self, task: Any) -> Any:
        check_free(self.name, self.outputs()[1], task.get_columns(), self.overwrite)
        return super().process(task)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_prefix"}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        tokenizer = tokenizer_of(self.base_weights, self.base_weights.folder("tokenizer"))
        first_prompt, second_prompt = (tokenizer(format_aegis(text), verbose=False)["input_ids"] for text in ("a", "Z"))
        self._prefix = Prefix(common_beginning(first_prompt, second_prompt))
        super().setup(worker_metadata)

    def teardown(self) -> None:
        self._prefix = Prefix(())
        super().teardown()

    def load_model(self, folder: str, device: Any) -> Any:
        return self.load_adapted(self.weights, device)

    def run_model(self, model: Any, inputs: Mapping[str, Any]) -> Any:
        arguments = self._prefix.inputs(model.get_base_model().base_model, inputs)
        answers = model.generate(**arguments, max_new_tokens=self.max_new_tokens, do_sample=False, pad_token_id=0)
        return answers[:, arguments["input_ids"].shape[1] :]

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        # Answers of all batches have one width, so that they can be put one below the other.
        padded = outputs.new_full((len(outputs), self.max_new_tokens), _NOTHING)
        padded[:, : outputs.shape[1]] = outputs
        return {"answers": padded}

    def columns(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        answers = collected["answers"]
        is_token = answers != _NOTHING
        bounds = np.zeros(len(answers) + 1, np.int64)
        np.cumsum(is_token.sum(axis=1), out=bounds[1:])
        return {self.raw_output_field: Tokens(bounds, answers[is_token].astype(np.int32))}


@dataclass
class InstructionDataGuardModel(RunLlamaGuard):
    """Add the probability that a text is poisoned, and whether it is at least one half.

    ``model`` is the small network that looks at the state of the last token.

    Args:
        adapter_identifier: the adapter of the language model.
        label_field: the column for whether it is poisoned.
        score_field: the column for the probability.
    """

    adapter_identifier: str = AEGIS_VARIANTS[0]
    label_field: str = "is_poisoned"
    score_field: str = "instruction_data_guard_poisoning_score"

    @property
    def adapter_weights(self) -> Weights:
        """The weights of the adapter."""
        return Weights(self.adapter_identifier, None, self.cache_dir, self.hf_token)

    def outputs(self) -> Spec:
        return ["data"], [self.label_field, self.score_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup_on_node(node_info, worker_metadata)
        self.adapter_weights.fetch()

    def labels(self, folder: str) -> Sequence[bool]:
        return (False, True)

    def load_model(self, folder: str, device: Any) -> Any:
        torch = needed("torch", str(self.weights), "models")
        tensors = weights_in(self.weights, folder)
        head = torch.nn.ModuleDict({name: linear(self.weights, tensors, name) for name in _HEAD})
        fill(self.weights, head, tensors)
        adapted = self.load_adapted(self.adapter_weights, device)
        width = adapted.get_base_model().config.hidden_size
        if head["input_layer"].in_features != width:
            raise DataError(
                f"{self.weights} expects states of {head['input_layer'].in_features} numbers, and "
                f"{self.base_weights} has {width}; they do not match"
            )

        class Guard(torch.nn.Module):  # type: ignore[misc, name-defined]  # Torch is there on workers only
            def __init__(self) -> None:
                super().__init__()
                self.adapted, self.head = adapted, head

            def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any = None) -> Any:
                encoder = self.adapted.get_base_model().base_model
                states = encoder(input_ids, attention_mask, position_ids, use_cache=False).last_hidden_state
                with torch.autocast(states.device.type, enabled=False):
                    state = torch.nn.functional.normalize(states[:, -1].float(), dim=-1)
                    for name in _HEAD[:-1]:
                        state = self.head[name](state).relu()
                    return self.head[_HEAD[-1]](state)[:, 0].sigmoid()

        return Guard()

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"probability": outputs}

    def columns(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        probability = collected["probability"]
        return {self.label_field: probability >= 0.5, self.score_field: probability}


def common_beginning(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """The longest common prefix of two token sequences.

    Examples:
        >>> common_beginning([1, 7, 9], [1, 7, 8, 9])
        [1, 7]
    """
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return list(one[:shared])


@dataclass
class Prefix:
    """The tokens of a prefix, and the model's cached states for them.

    Args:
        tokens: token ids of the prefix.
    """

    tokens: Sequence[int]
    _states: Any = field(default=None, repr=False, compare=False)

    def inputs(self, encoder: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for ``generate``: with the cached states of the prefix, if all rows have it, otherwise unchanged.

        Of rows that are padded on the left the beginning is put in front, and the padding between it and the rest.

        Args:
            encoder: the language model without its last layer, which is run over the beginning the first time.
            inputs: ``input_ids`` and ``attention_mask`` of shape (rows, longest), padded on the left.
        """
        plain = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        torch = needed("torch", "a language model", "models")
        ids, lengths = plain["input_ids"], plain["attention_mask"].sum(dim=1)
        known, columns = len(self.tokens), ids.shape[1]
        if not known or int(lengths.min()) <= known:
            return plain
        shared = torch.tensor(self.tokens, device=ids.device)
        starts = columns - lengths
        begins = ids.gather(1, starts[:, None] + torch.arange(known, device=ids.device))
        if not bool((begins == shared).all()):
            return plain
        longest = int(lengths.max()) - known
        mask = torch.arange(longest, device=ids.device) >= (longest - (lengths - known))[:, None]
        suffix = ids[:, columns - longest :] * mask
        return {
            "input_ids": torch.cat([shared.expand(len(ids), known), suffix], dim=1),
            "attention_mask": torch.cat([torch.ones_like(begins), mask.long()], dim=1),
            "past_key_values": self._begun(encoder, shared, len(ids)),
        }

    def _begun(self, encoder: Any, shared: Any, rows: int) -> Any:
        if self._states is None:
            self._states = encoder(input_ids=shared[None], use_cache=True).past_key_values
        states = copy.deepcopy(self._states)  # generation appends to it in place
        states.batch_repeat_interleave(rows)
        return states

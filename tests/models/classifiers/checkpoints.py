"""Small models with random weights, saved with the files and the names of weights of the published ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import torch
from huggingface_hub import PyTorchModelHubMixin
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from transformers import AutoModel, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dcurate.models.classifiers.aegis_prompt import format_aegis
from tests.models.tiny import tiny_classifier, tiny_encoder, tiny_tokenizer

TASKS = ("Brainstorming", "Code Generation", "Open QA")
#: As in the published config.json, but for the number of tasks.
PROMPT_CONFIG: dict[str, Any] = {
    "target_sizes": {
        "task_type": len(TASKS),
        "creativity_scope": 3,
        "reasoning": 2,
        "contextual_knowledge": 2,
        "number_of_few_shots": 6,
        "domain_knowledge": 4,
        "no_label_reason": 1,
        "constraint_ct": 2,
    },
    "task_type_map": {str(number): task for number, task in enumerate(TASKS)},
    "weights_map": {
        "creativity_scope": [2, 1, 0],
        "reasoning": [0, 1],
        "contextual_knowledge": [0, 1],
        "number_of_few_shots": [0, 1, 2, 3, 4, 5],
        "domain_knowledge": [3, 1, 2, 0],
        "no_label_reason": [0],
        "constraint_ct": [1, 0],
    },
    "divisor_map": {
        "creativity_scope": 2,
        "reasoning": 1,
        "contextual_knowledge": 1,
        "number_of_few_shots": 1,
        "domain_knowledge": 3,
        "no_label_reason": 1,
        "constraint_ct": 1,
    },
}
#: The width of the language models.
WIDTH = 32


P = ParamSpec("P")


def seeded(make: Callable[P, Path]) -> Callable[P, Path]:
    """The same weights at every call."""

    @wraps(make)
    def made(*args: P.args, **settings: P.kwargs) -> Path:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return make(*args, **settings)

    return made


class Deberta(nn.Module, PyTorchModelHubMixin):
    """The module whose weights NVIDIA's classifiers of quality, domain and content type are."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.model = AutoModel.from_pretrained(config["base_model"])
        self.fc = nn.Linear(self.model.config.hidden_size, len(config["id2label"]))


class Heads(nn.Module, PyTorchModelHubMixin):
    """The module whose weights the classifier of prompts is."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.backbone = AutoModel.from_pretrained(config["base_model"])
        for number, size in enumerate(config["target_sizes"].values()):
            head = nn.Module()
            head.fc = nn.Linear(self.backbone.config.hidden_size, size)
            self.add_module(f"head_{number}", head)


class GuardHead(nn.Module, PyTorchModelHubMixin):
    """The module whose weights Instruction Data Guard's are, but for the widths of its layers."""

    def __init__(self, input_dim: int, dropout: float = 0.7) -> None:
        super().__init__()
        self.input_layer = nn.Linear(input_dim, input_dim)
        self.hidden_layer_0 = nn.Linear(input_dim, 20)
        self.hidden_layer_1 = nn.Linear(20, 10)
        self.hidden_layer_2 = nn.Linear(10, 1)


@seeded
def hub_classifier(folder: Path, labels: Sequence[str]) -> Path:
    """A classifier as NVIDIA saves one."""
    base = tiny_encoder(folder / "base", "deberta-v2")
    config = {"base_model": str(base), "fc_dropout": 0.2, "id2label": dict(enumerate(labels))}
    config["label2id"] = {label: number for number, label in enumerate(labels)}
    return _saved(folder / "classifier", Deberta(config), config, base)


@seeded
def hub_prompts(folder: Path) -> Path:
    """The classifier of prompts as NVIDIA saves it."""
    base = tiny_encoder(folder / "base", "deberta-v2")
    config = {"base_model": str(base), **PROMPT_CONFIG}
    return _saved(folder / "prompts", Heads(config), config, base)


@seeded
def regressor(folder: Path) -> Path:
    """A scorer as FineWeb-Edu's and FineMath's are saved, whose scores lie about 2.5."""
    tiny_classifier(folder, ["LABEL_0"])
    file = folder / "model.safetensors"
    weights = load_file(file)
    weights["classifier.bias"] += 2.5
    save_file(weights, file, {"format": "pt"})
    return folder


@seeded
def language_model(folder: Path, follows: Mapping[str, str] | None = None) -> Path:
    """A model in the place of LlamaGuard, whose tokenizer makes some 1,500 tokens of AEGIS's policy.

    Args:
        follows: what token it writes after which, whatever stood before; by default that depends on all of it.
    """
    tokenizer = _policy_tokenizer()
    tokenizer.save_pretrained(folder)
    sizes: Any = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(**sizes, intermediate_size=48, vocab_size=len(tokenizer), max_position_embeddings=8192)
    model = LlamaForCausalLM(config)
    _randomise(model, "proj.weight", spread=0.3)
    _randomise(model, "lm_head.weight", spread=0.3)
    _randomise(model, "embed_tokens.weight", spread=1.0)
    if follows is not None:
        _teach(model, [tuple(tokenizer.convert_tokens_to_ids(pair)) for pair in follows.items()])  # type: ignore[arg-type, misc]
    model.save_pretrained(folder)
    return folder


def _teach(model: Any, pairs: Sequence[tuple[int, int]]) -> None:
    """Make a model write the second token after the first: layers add nothing, and each pair has a direction."""
    for layer in model.model.layers:
        nn.init.zeros_(layer.self_attn.o_proj.weight)
        nn.init.zeros_(layer.mlp.down_proj.weight)
    for weight in (model.model.embed_tokens.weight, model.lm_head.weight):
        nn.init.zeros_(weight)
    with torch.no_grad():
        for direction, (first, second) in enumerate(pairs):
            model.model.embed_tokens.weight[first, direction] = 1.0
            model.lm_head.weight[second, direction] = 1.0


def _policy_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token in front and none at the end or for padding, as Llama's."""
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    alphabet = [chr(code) for code in range(33, 127)]
    trainer = trainers.BpeTrainer(
        vocab_size=1200, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator([format_aegis("")], trainer)
    learner.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    learner.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learner, model_max_length=8192, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.add_tokens(["[/INST]", "unsafe", "\n", "O3"])
    return tokenizer


@seeded
def adapter(folder: Path, base: Path) -> Path:
    """A LoRA adapter for a language model, as peft saves it."""
    settings = LoraConfig(r=4, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings)
    _randomise(model, "lora_B")  # it begins as zeros, which would change nothing
    model.save_pretrained(str(folder))
    return folder


@seeded
def guard_head(folder: Path, width: int = WIDTH) -> Path:
    """Instruction Data Guard's own network, whose scores of `tests.models.classifiers.rows.TEXTS` lie about a half."""
    head = GuardHead(width)
    _randomise(head, "weight", spread=0.6)
    head.hidden_layer_2.bias.data += 2.46
    return _saved(folder, head, {"input_dim": width, "dropout": 0.7}, None)


def _saved(folder: Path, module: Any, config: dict[str, Any], base: Path | None) -> Path:
    _randomise(module, "fc.weight")
    module.save_pretrained(folder, config=config)
    if base is not None:
        described = json.loads((base / "config.json").read_text("utf-8"))
        (folder / "config.json").write_text(json.dumps({**described, **config}), "utf-8")
        tiny_tokenizer("deberta-v2").save_pretrained(folder)
    return folder


def _randomise(module: Any, part: str, spread: float = 0.5) -> None:
    generator = torch.Generator().manual_seed(3)
    for name, parameter in module.named_parameters():
        if part in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * spread

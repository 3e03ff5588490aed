"""Models saved as a plain PyTorch module with its settings: an encoder and custom heads.

NVIDIA's classifiers are saved so (`PyTorchModelHubMixin` of huggingface_hub): ``config.json`` with the settings, which
name the model that the encoder was made from, and ``model.safetensors`` with all weights, those of the encoder under a
prefix. NeMo Curator downloads that other model, too, and then replaces all of its weights; here the encoder is made of
what the folder says, and only the folder is needed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from dcurate.core.extras import needed
from dcurate.errors import DataError, listed
from dcurate.hub.loading import read
from dcurate.hub.weights import Weights
from dcurate.models.classifiers.labels import config_in

#: What two models are like that NVIDIA's folders name, but need not describe: Microsoft's DeBERTa V3.
_DEBERTA_V3 = {
    "model_type": "deberta-v2",
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-7,
    "max_position_embeddings": 512,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "position_buckets": 256,
    "relative_attention": True,
    "share_att_key": True,
    "type_vocab_size": 0,
}
_BASES: dict[str, dict[str, Any]] = {
    "microsoft/deberta-v3-base": {**_DEBERTA_V3, "vocab_size": 128100},
    "microsoft/mdeberta-v3-base": {**_DEBERTA_V3, "vocab_size": 251000},
}
_FILES = ("model.safetensors", "pytorch_model.bin")


def weights_in(weights: Weights, folder: str) -> dict[str, Any]:
    """All weights of a folder by name, in CPU memory.

    Raises:
        DataError: there are none, or they cannot be read.
    """
    path = next((path for name in _FILES if os.path.isfile(path := os.path.join(folder, name))), None)
    if path is None:
        raise DataError(f"{weights} has no weights in {folder}; copy {_FILES[0]!r} of the model to it")
    if path.endswith(".safetensors"):
        reader = needed("safetensors.torch", str(weights), "models")
        return dict(read(weights, folder, lambda: reader.load_file(path)))
    torch = needed("torch", str(weights), "models")
    return dict(read(weights, folder, lambda: torch.load(path, map_location="cpu", weights_only=True)))


def encoder_config(weights: Weights, folder: str) -> Any:
    """The transformers configuration of a folder's encoder.

    It is what ``config.json`` says, if it says sizes; else that of the model that it names as ``base_model``, if that
    is one of Microsoft's DeBERTa V3 or a folder.

    Raises:
        DataError: it is neither.
    """
    configs = needed("transformers", str(weights), "models").AutoConfig
    settings = config_in(folder)
    base = str(settings.get("base_model", ""))
    described = folder if "hidden_size" in settings and "model_type" in settings else base
    if os.path.isdir(described):
        return read(weights, folder, lambda: configs.from_pretrained(described, local_files_only=True))
    known = _BASES.get(base.lower())
    if known is None:
        raise DataError(
            f"config.json of {weights} does not describe its encoder (base_model is {base!r}); "
            "copy hidden_size, model_type and the like from that model's config.json"
        )
    return configs.for_model(**known)


def linear(weights: Weights, tensors: Mapping[str, Any], name: str) -> Any:
    """A linear layer with the shape of its weights; the weights are loaded later.

    Raises:
        DataError: there are no such weights.
    """
    torch = needed("torch", str(weights), "models")
    weight = tensors.get(f"{name}.weight")
    if weight is None or weight.ndim != 2:
        raise DataError(f"{weights} is another kind of model: its weights have no {name}.weight")
    return torch.nn.Linear(weight.shape[1], weight.shape[0])


#: What the layers upon an encoder say: the module, the encoder's last states, the attention mask.
Head = Callable[[Any, Any, Any], Any]


def network(  # noqa: PLR0917
    weights: Weights, folder: str, tensors: Mapping[str, Any], encoder: str, layers: Mapping[str, Any], head: Head
) -> Any:
    """A module of an encoder and further layers, with the weights of a folder, in float32.

    Args:
        tensors: the tensors read by `weights_in`.
        encoder: the prefix of the encoder in the names of the weights, before the first dot.
        layers: the further layers by name.
        head: function from the encoder's states to the module's output.

    Raises:
        DataError: weights are missing, or are of another shape.
    """
    torch = needed("torch", str(weights), "models")
    transformers = needed("transformers", str(weights), "models")
    config = encoder_config(weights, folder)
    config.dtype = None  # else the default dtype of the whole process is changed for a moment

    class EncoderClassifier(torch.nn.Module):  # type: ignore[misc, name-defined]  # Torch is there on workers only
        def __init__(self, made: Any) -> None:
            super().__init__()
            self.config = made.config
            for name, layer in {encoder: made, **layers}.items():
                self.add_module(name, layer)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            states = self.get_submodule(encoder)(input_ids, attention_mask).last_hidden_state
            with torch.autocast(states.device.type, enabled=False):  # the layers upon it cost nothing in full precision
                return head(self, states, attention_mask)

    module = EncoderClassifier(read(weights, folder, lambda: transformers.AutoModel.from_config(config))).float()
    fill(weights, module, tensors)
    return module


def fill(weights: Weights, module: Any, tensors: Mapping[str, Any]) -> None:
    """Load weights into a module; unused weights are named in a warning.

    Raises:
        DataError: weights are missing, or are of another shape.
    """
    wanted = module.state_dict()
    missing = sorted(set(wanted) - set(tensors))
    if missing:
        raise DataError(
            f"{weights} is another kind of model: {missing[0]!r} and {len(missing)} weights in all are missing"
        )
    for name, tensor in wanted.items():
        if tensor.shape != tensors[name].shape:
            raise DataError(
                f"the weights of {weights} do not fit its config.json: {name!r} is of shape "
                f"{tuple(tensors[name].shape)}, not {tuple(tensor.shape)}"
            )
    unused = [name for name in tensors if name not in wanted and not name.endswith("position_ids")]
    if unused:
        warnings.warn(f"{len(unused)} weights of {weights} have no place in it: {listed(unused[:3])}", stacklevel=2)
    module.load_state_dict({name: tensors[name] for name in wanted})

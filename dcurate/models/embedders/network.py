"""The network that embeds the tokens of a text: an encoder, a pooling, layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcurate.core.extras import needed
from dcurate.errors import DataError, listed
from dcurate.models.embedders.layout import Layer

if TYPE_CHECKING:
    from torch import Tensor, nn

_WHAT = "a model of embeddings"


def pooled(tokens: Tensor, mask: Tensor, modes: Sequence[str], skip: int = 0) -> Tensor:
    """Pool the token vectors of each row into one vector, in float32.

    Args:
        tokens: vectors of the tokens, of shape (rows, longest, numbers).
        mask: array of shape (rows, longest), 1 where there is a token and 0 where there is padding, on either side.
        modes: names from `POOLINGS`; the vectors of several are concatenated.
        skip: number of tokens at the start of each row that do not count.

    Examples:
        >>> import torch
        >>> tokens = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> pooled(tokens, torch.tensor([[1, 1, 0]]), ["mean", "max", "lasttoken"]).tolist()
        [[2.0, 3.0, 3.0]]
    """
    places = mask.cumsum(dim=1) * mask
    counted = (places > skip).to(mask.dtype) if skip else mask
    vectors = [_POOLED[mode](tokens, counted, places) for mode in modes]
    if len(vectors) == 1:
        return vectors[0]
    joined: Tensor = needed("torch", _WHAT, "models").cat(vectors, dim=-1)
    return joined


def _cls(tokens: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    return _at(tokens, mask.argmax(dim=1))


def _last(tokens: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    return _at(tokens, (places * mask).argmax(dim=1))


def _at(tokens: Tensor, columns: Tensor) -> Tensor:
    return tokens.gather(1, columns[:, None, None].expand(-1, 1, tokens.shape[-1])).squeeze(1).float()


def _max(tokens: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    return tokens.float().masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(dim=1)


def _mean(tokens: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    return _weighted(tokens, mask) / mask.sum(dim=1, keepdim=True).clamp(min=1)


def _mean_of_root(tokens: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    return _weighted(tokens, mask) / mask.sum(dim=1, keepdim=True).clamp(min=1).sqrt()


def _weighted_mean(tokens: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    weights = places * mask
    return _weighted(tokens, weights) / weights.sum(dim=1, keepdim=True).clamp(min=1)


def _weighted(tokens: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of the vectors of each row: a matrix product, which avoids a temporary of their size."""
    return (weights.unsqueeze(1).float() @ tokens.float()).squeeze(1)


_POOLED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "cls": _cls,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_of_root,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}


def sentence_network(
    encoder: nn.Module,
    pooling: Sequence[str],
    layers: Sequence[Layer] = (),
    *,
    normalize: bool = True,
    skip: int = 0,
    dimensions: int | None = None,
) -> nn.Module:
    """A network from ``input_ids`` and ``attention_mask`` to embeddings in float32, of shape (rows, numbers).

    ``position_ids`` are passed to an encoder that accepts them. Without a mask no row has padding.

    Args:
        encoder: gives a vector for each token, as the first of its outputs.
        pooling, skip: arguments of `pooled`: its modes, and the number of tokens that do not count.
        layers: the layers after the pooling.
        normalize: whether embeddings are scaled to length one at last.
        dimensions: keep only this many of the first numbers, for models trained for it.

    Raises:
        DataError: a layer whose weights are missing or that is made of something unknown.
    """
    torch = needed("torch", _WHAT, "models")
    made = [_LAYERS[layer.kind](torch, layer) for layer in layers]
    placed = "position_ids" in inspect.signature(encoder.forward).parameters

    class SentenceNetwork(torch.nn.Module):  # type: ignore[misc, name-defined]  # Torch is there on workers only
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.config = encoder, getattr(encoder, "config", None)
            self.parts = torch.nn.ModuleList([part for part, _ in made])

        def forward(
            self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
        ) -> Tensor:
            more = {"position_ids": position_ids} if position_ids is not None and placed else {}
            tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **more)[0]
            mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            with torch.autocast(device_type=tokens.device.type, enabled=False):
                vectors = pooled(tokens, mask, pooling, skip)
                for _, step in made:
                    vectors = step(vectors)
                vectors = vectors[:, :dimensions]
                return _unit(torch, vectors) if normalize else vectors

    network: nn.Module = SentenceNetwork()
    return network


#: The modules of a layer, which hold its weights, and what it does with embeddings.
_Made = tuple["nn.Module", Callable[["Tensor"], "Tensor"]]


def _unit(torch: Any, vectors: Tensor) -> Tensor:
    scaled: Tensor = torch.nn.functional.normalize(vectors, dim=-1)
    return scaled


def _normalize(torch: Any, layer: Layer) -> _Made:
    return torch.nn.Identity(), lambda vectors: _unit(torch, vectors)


def _layer_norm(torch: Any, layer: Layer) -> _Made:
    norm = torch.nn.LayerNorm(int(layer.settings["dimension"]))
    return _filled(torch, torch.nn.ModuleDict({"norm": norm}), layer), norm


def _dense(torch: Any, layer: Layer) -> _Made:
    settings = layer.settings
    wide, narrow = int(settings["in_features"]), int(settings["out_features"])
    linear = torch.nn.Linear(wide, narrow, bias=bool(settings.get("bias", True)))
    activation = _activation(torch, layer)
    parts = torch.nn.ModuleDict({"linear": linear})
    if not settings.get("use_residual"):
        return _filled(torch, parts, layer), lambda vectors: activation(linear(vectors))
    if wide == narrow:
        return _filled(torch, parts, layer), lambda vectors: activation(linear(vectors)) + vectors
    kept = torch.nn.Linear(wide, narrow, bias=False)
    parts = torch.nn.ModuleDict({"linear": linear, "residual": kept})
    return _filled(torch, parts, layer), lambda vectors: activation(linear(vectors)) + kept(vectors)


_LAYERS: dict[str, Callable[[Any, Layer], _Made]] = {
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Normalize": _normalize,
}


def _activation(torch: Any, layer: Layer) -> Any:
    name = str(layer.settings.get("activation_function", "torch.nn.Tanh"))
    kind = getattr(torch.nn, name.rpartition(".")[2], None) if name.startswith("torch.nn.") else None
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        raise DataError(
            f"{layer.folder} has the activation {name!r}, which is not of torch.nn; wrap the model in your own stage"
        )
    return kind()


def _filled(torch: Any, parts: Any, layer: Layer) -> Any:
    """The modules with the weights of the layer's folder."""
    folder = Path(layer.folder)
    if (folder / "model.safetensors").is_file():
        weights = needed("safetensors.torch", _WHAT, "models").load_file(folder / "model.safetensors")
    elif (folder / "pytorch_model.bin").is_file():
        weights = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    else:
        raise DataError(f"{folder} has no model.safetensors, the weights of its {layer.kind}; fetch the model again")
    wanted = set(parts.state_dict())
    if wanted != set(weights):
        raise DataError(
            f"{folder} holds {listed(sorted(weights))}, but {layer.kind} has {listed(sorted(wanted))}; "
            "fetch the model again"
        )
    parts.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return parts

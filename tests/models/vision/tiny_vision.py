"""Small real vision models with random weights, saved as Hugging Face saves them. No wheel ships a real one."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import (
    CLIPConfig,
    CLIPModel,
    ConvNextConfig,
    ConvNextModel,
    Dinov2Config,
    Dinov2Model,
    SiglipConfig,
    SiglipModel,
    ViTConfig,
    ViTModel,
)

from tests.models.tiny import tiny_tokenizer

SIDE = 32
_LAYERS: Any = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_PICTURE: Any = {"image_size": SIDE, "patch_size": 8}


def picture(seed: int, width: int = 50, height: int = 40, kind: str = "PNG") -> bytes:
    """A picture of smooth random colours."""
    rough = np.random.default_rng(seed).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC).save(file, kind)
    return file.getvalue()


def tiny_vision(folder: Path | str, architecture: str) -> str:
    """A folder of a model: ``"clip"``, ``"siglip"``, ``"dinov2"``, ``"vit"`` or ``"convnext"``."""
    folder = Path(folder)
    state = torch.random.get_rng_state()
    torch.manual_seed(3)
    try:
        model = _MODELS[architecture]()
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.2)
    finally:
        torch.random.set_rng_state(state)
    model.eval().save_pretrained(folder)
    kind, size = _PROCESSORS[architecture]
    settings = {
        "image_processor_type": kind,
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "do_convert_rgb": True,
        "rescale_factor": 1 / 255,
        "resample": 3,
        "size": size,
        "image_mean": [0.48, 0.46, 0.41],
        "image_std": [0.27, 0.26, 0.28],
    }
    if "shortest_edge" in size and architecture != "convnext":
        settings |= {"do_center_crop": True, "crop_size": {"height": SIDE, "width": SIDE}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    if architecture in ("clip", "siglip"):
        tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def tiny_heads(folder: Path, width: int = 16) -> str:
    """A folder of the two small networks, where NeMo Curator has them, with other sizes."""
    torch.manual_seed(5)
    aesthetic = folder / "ttj" / "sac-logos-ava1-l14-linearMSE"
    nsfw = folder / "laion" / "clip-autokeras-binary-nsfw"
    for each in (aesthetic, nsfw):
        each.mkdir(parents=True)
    sizes = [width, 12, 1]
    layers = [torch.nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    tensors: dict[str, Any] = {}
    for number, layer in zip((0, 2), layers, strict=True):
        tensors |= {f"layers.{number}.{name}": value.data for name, value in layer.named_parameters()}
    save_file(tensors, aesthetic / "model.safetensors")
    state = {"norm.mean": torch.randn(width) / 10, "norm.variance": torch.rand(width) + 0.5}
    sizes = [width, 8, 9, 7, 1]
    for number, pair in enumerate(itertools.pairwise(sizes), 1):
        layer = torch.nn.Linear(*pair)
        state |= {f"linear_{number}.{name}": value.data for name, value in layer.named_parameters()}
    torch.save(state, nsfw / "clip_autokeras_binary_nsfw.pth")
    return str(folder)


def _dual(config: Any, model: Any, tokens: int) -> Any:
    tokenizer = tiny_tokenizer()
    text = {**_LAYERS, "vocab_size": len(tokenizer), "max_position_embeddings": tokens}
    if config is CLIPConfig:
        text |= {"eos_token_id": tokenizer.sep_token_id, "bos_token_id": 0, "pad_token_id": tokenizer.pad_token_id}
        return model(config(text_config=text, vision_config={**_LAYERS, **_PICTURE}, projection_dim=16))
    text |= {"projection_size": 32, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": 0, "eos_token_id": 1}
    return model(config(text_config=text, vision_config={**_LAYERS, **_PICTURE}))


_MODELS: dict[str, Any] = {
    "clip": lambda: _dual(CLIPConfig, CLIPModel, 24),
    "siglip": lambda: _dual(SiglipConfig, SiglipModel, 24),
    "dinov2": lambda: Dinov2Model(Dinov2Config(**_LAYERS, **_PICTURE, mlp_ratio=2)),
    "vit": lambda: ViTModel(ViTConfig(**_LAYERS, **_PICTURE), add_pooling_layer=False),
    "convnext": lambda: ConvNextModel(ConvNextConfig(hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1])),
}
_PROCESSORS: dict[str, tuple[str, dict[str, int]]] = {
    "clip": ("CLIPImageProcessor", {"shortest_edge": SIDE}),
    "siglip": ("SiglipImageProcessor", {"height": SIDE, "width": SIDE}),
    "dinov2": ("BitImageProcessor", {"shortest_edge": SIDE + 4}),
    "vit": ("ViTImageProcessor", {"height": SIDE, "width": SIDE}),
    "convnext": ("ConvNextImageProcessor", {"shortest_edge": SIDE}),
}

"""Small models of films with random weights, saved as Hugging Face saves them, and a stand-in for Cosmos-Embed1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import (
    TimesformerConfig,
    TimesformerModel,
    VideoMAEConfig,
    VideoMAEModel,
    VivitConfig,
    VivitModel,
    XCLIPConfig,
    XCLIPModel,
)

from tests.models.tiny import tiny_tokenizer

SIDE, FRAMES = 32, 4
_LAYERS: Any = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_PICTURE: Any = {"image_size": SIDE, "patch_size": 8, "num_frames": FRAMES}
_COSMOS = Path(__file__).parent / "cosmos"


def _xclip() -> Any:
    text = {**_LAYERS, "vocab_size": len(tiny_tokenizer()), "max_position_embeddings": 24}
    return XCLIPModel(
        XCLIPConfig(
            text_config=text,
            vision_config={**_LAYERS, **_PICTURE, "mit_hidden_size": 16, "mit_num_attention_heads": 2,
                           "mit_intermediate_size": 24, "mit_num_hidden_layers": 1},
            projection_dim=16, prompt_num_attention_heads=2,
        )
    )  # fmt: skip


_MODELS: dict[str, Any] = {
    "xclip": _xclip,
    "videomae": lambda: VideoMAEModel(VideoMAEConfig(**_LAYERS, **_PICTURE, tubelet_size=2)),
    "timesformer": lambda: TimesformerModel(TimesformerConfig(**_LAYERS, **_PICTURE)),
    "vivit": lambda: VivitModel(
        VivitConfig(**_LAYERS, **{**_PICTURE, "tubelet_size": [2, 8, 8]}), add_pooling_layer=False
    ),
}


def _with_weights(model: Any) -> Any:
    state = torch.random.get_rng_state()
    torch.manual_seed(3)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    torch.random.set_rng_state(state)
    return model.eval()


def tiny_film_model(folder: Path, architecture: str) -> str:
    """A folder of a model: ``"xclip"``, ``"videomae"``, ``"timesformer"`` or ``"vivit"``."""
    _with_weights(_MODELS[architecture]()).save_pretrained(folder)
    settings = {
        "image_processor_type": "VivitImageProcessor" if architecture == "vivit" else "VideoMAEImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": SIDE},
        "do_center_crop": True,
        "crop_size": {"height": SIDE, "width": SIDE},
        "do_rescale": True,
        "do_normalize": True,
        "image_mean": [0.48, 0.46, 0.41],
        "image_std": [0.27, 0.26, 0.28],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return str(folder)


def tiny_cosmos(folder: Path) -> str:
    """A folder as those of ``nvidia/Cosmos-Embed1-336p``: the weights of a small model, and the code that runs it.

    The code is not NVIDIA's; it has the functions of that which NeMo Curator calls.
    """
    from tests.models.vision.cosmos.modeling_embed1 import CosmosEmbed1, CosmosEmbed1Config  # noqa: PLC0415

    _with_weights(CosmosEmbed1(CosmosEmbed1Config())).save_pretrained(folder)
    for path in _COSMOS.glob("*_embed1.py"):
        shutil.copy(path, folder)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {
        "AutoConfig": "modeling_embed1.CosmosEmbed1Config",
        "AutoModel": "modeling_embed1.CosmosEmbed1",
    }
    (folder / "config.json").write_text(json.dumps(config))
    processor = {
        "auto_map": {"AutoProcessor": "preprocessing_embed1.CosmosEmbed1Processor"},
        "processor_class": "CosmosEmbed1Processor",
        "num_video_frames": 8,
        "resolution": [16, 16],
    }
    (folder / "processor_config.json").write_text(json.dumps(processor))
    tiny_tokenizer().save_pretrained(folder)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"processor_class": "CosmosEmbed1Processor"}))
    return str(folder)

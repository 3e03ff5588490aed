"""Small real models in sentence-transformers' layout, with random weights, and what that package makes of texts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

from tests.models.tiny import tiny_encoder

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "",
    "A model reads tokens; a text is made of words. " * 20,
    "Ein Text",
    "Où est le chat ? Il dort sur la chaise, près de la fenêtre.",
]


def tiny_sentences(
    folder: Path,
    pooling: str | Sequence[str] = "mean",
    layers: Sequence[str] = ("Normalize",),
    architecture: str = "bert",
    include_prompt: bool = True,
    max_seq_length: int | None = 24,
    lower_case: bool = False,
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
) -> Path:
    """A model that sentence-transformers itself has saved.

    Args:
        layers: what follows the pooling, of ``Dense``, ``Residual``, ``Narrow``, ``LayerNorm``, ``Normalize``.
    """
    encoder = Transformer(str(tiny_encoder(folder / "encoder", architecture)), max_seq_length=max_seq_length)
    modules: list[Any] = [encoder, Pooling(encoder.get_embedding_dimension(), pooling, include_prompt)]
    torch.manual_seed(3)
    for layer in layers:
        wide = modules[-1].get_embedding_dimension()
        made = {
            "Dense": lambda wide=wide: Dense(wide, 12),
            "Residual": lambda wide=wide: Dense(wide, wide, bias=False, use_residual=True),
            "Narrow": lambda wide=wide: Dense(wide, 8, activation_function=torch.nn.GELU(), use_residual=True),
            "LayerNorm": lambda wide=wide: LayerNorm(wide),
            "Normalize": Normalize,
        }[layer]()
        modules.append(made)
    model = SentenceTransformer(modules=modules, prompts=prompts and dict(prompts), device="cpu")  # type: ignore[arg-type]
    model.default_prompt_name = default_prompt
    model.save(str(folder / "model"), create_model_card=False)
    if lower_case:
        settings = folder / "model" / "sentence_bert_config.json"
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_lower_case": True}))
    return folder / "model"


def earlier_layout(folder: Path) -> Path:
    """A model as sentence-transformers saved it once: the encoder in a folder of its own, flags for the pooling."""
    encoder = tiny_encoder(folder / "0_BERT", "bert")
    (encoder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))
    (folder / "1_Pooling").mkdir()
    flags = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **flags}))
    kinds = [
        ("0_BERT", "sentence_transformers.models.Transformer"),
        ("1_Pooling", "sentence_transformers.models.Pooling"),
    ]
    modules = [{"idx": n, "name": str(n), "path": path, "type": kind} for n, (path, kind) in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def encoded(folder: Path, texts: Sequence[str], **more: Any) -> npt.NDArray[np.float32]:
    """What sentence-transformers makes of texts."""
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    return np.asarray(
        SentenceTransformer(str(folder), device="cpu").encode(list(texts), show_progress_bar=False, **more)
    )

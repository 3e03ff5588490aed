"""Small weights with the names and forms of the published ones of SQUIM and UTMOS; they score nothing, but differ."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Shapes = dict[str, tuple[int, ...]]


def made(shapes: Shapes, seed: int = 7) -> dict[str, Floats]:
    """Weights of these shapes, the same everywhere: large enough that scores differ from sound to sound."""
    random = np.random.default_rng(seed)
    weights = {}
    for name, shape in sorted(shapes.items()):
        size = math.prod(shape[1:]) if len(shape) > 1 else 16
        weights[name] = (random.standard_normal(shape) / math.sqrt(size)).astype(np.float32)
        if len(shape) == 1 and name.endswith("weight"):  # of a norm
            weights[name] = 1 + weights[name]
    return weights


def lstm(prefix: str, inputs: int, hidden: int) -> Shapes:
    shapes: Shapes = {}
    for end in ("l0", "l0_reverse"):
        shapes |= {f"{prefix}weight_ih_{end}": (4 * hidden, inputs), f"{prefix}weight_hh_{end}": (4 * hidden, hidden)}
        shapes |= {f"{prefix}bias_{part}_{end}": (4 * hidden,) for part in ("ih", "hh")}
    return shapes


def linear(prefix: str, inputs: int, outputs: int) -> Shapes:
    return {f"{prefix}weight": (outputs, inputs), f"{prefix}bias": (outputs,)}


def norm(prefix: str, size: int) -> Shapes:
    return {f"{prefix}weight": (size,), f"{prefix}bias": (size,)}


def squim_shapes(features: int = 16, hidden: int = 8, size: int = 24, blocks: int = 2, window: int = 64) -> Shapes:
    """The tensors of torchaudio's ``squim_objective_model``."""
    shapes: Shapes = {"encoder.conv1d.weight": (features, 1, window)}
    for kind in ("row", "col"):
        for number in range(blocks):
            shapes |= lstm(f"dprnn.{kind}_rnn.{number}.rnn.", features, hidden)
            shapes |= linear(f"dprnn.{kind}_rnn.{number}.proj.", 2 * hidden, features)
            shapes |= norm(f"dprnn.{kind}_norm.{number}.", features)
    shapes |= {"dprnn.conv.0.weight": (size, features, 1, 1), "dprnn.conv.0.bias": (size,), "dprnn.conv.1.weight": (1,)}
    for branch in ("branches.0.", "branches.1.", "branches.2."):
        shapes |= {f"{branch}0.self_attn.in_proj_weight": (3 * size, size)}
        shapes |= {f"{branch}0.self_attn.in_proj_bias": (3 * size,), f"{branch}1.alpha": (1,)}
        shapes |= linear(f"{branch}0.self_attn.out_proj.", size, size)
        shapes |= linear(f"{branch}0.linear1.", size, 4 * size) | linear(f"{branch}0.linear2.", 4 * size, size)
        shapes |= norm(f"{branch}0.norm1.", size) | norm(f"{branch}0.norm2.", size)
        shapes |= linear(f"{branch}2.0.", size, size) | linear(f"{branch}2.2.", size, 1)
        shapes |= {f"{branch}2.1.weight": (1,)}
    return shapes


def wav2vec2_shapes(convolution: int = 16, size: int = 64, inner: int = 32, layers: int = 2) -> Shapes:
    """The tensors of fairseq's wav2vec 2.0, without those of its training."""
    shapes: Shapes = {}
    for number, kernel in enumerate((10, 3, 3, 3, 3, 2, 2)):
        shapes[f"feature_extractor.conv_layers.{number}.0.weight"] = (convolution, convolution if number else 1, kernel)
    shapes |= norm("feature_extractor.conv_layers.0.2.", convolution) | norm("layer_norm.", convolution)
    shapes |= linear("post_extract_proj.", convolution, size) | {"mask_emb": (size,)}
    shapes |= {"encoder.pos_conv.0.bias": (size,), "encoder.pos_conv.0.weight_g": (1, 1, 128)}
    shapes |= {"encoder.pos_conv.0.weight_v": (size, size // 16, 128)} | norm("encoder.layer_norm.", size)
    for layer in (f"encoder.layers.{number}." for number in range(layers)):
        for part in ("q", "k", "v", "out"):
            shapes |= linear(f"{layer}self_attn.{part}_proj.", size, size)
        shapes |= norm(f"{layer}self_attn_layer_norm.", size) | norm(f"{layer}final_layer_norm.", size)
        shapes |= linear(f"{layer}fc1.", size, inner) | linear(f"{layer}fc2.", inner, size)
    return shapes


def utmos_shapes(size: int = 64, hidden: int = 16, listener: int = 8, judges: int = 300) -> Shapes:
    """The tensors of the package `utmos-pytorch`, as the authors' ones but for the phonemes."""
    shapes = {f"feature_extractors.0.ssl_model.{name}": shape for name, shape in wav2vec2_shapes(size=size).items()}
    shapes |= {"feature_extractors.1.embedding.weight": (3, listener)}
    shapes |= {"output_layers.0.judge_embedding.weight": (judges, listener)}
    shapes |= lstm("output_layers.0.decoder_rnn.", size + 2 * listener, hidden)
    return shapes | linear("output_layers.1.net.0.", 2 * hidden, 48) | linear("output_layers.1.net.3.", 48, 1)


def sounds() -> list[Floats]:
    """Sounds of 0.3, 1, 2.5 and 4 s: noise, tones, and both."""
    random = np.random.default_rng(3)
    made_of = []
    for seconds, loud, pitch in ((0.3, 0.1, 100), (1.0, 0.01, 440), (2.5, 0.3, 220), (4.0, 0.05, 1000)):
        time = np.arange(int(seconds * 16_000)) / 16_000
        tone = 0.3 * np.sin(2 * np.pi * pitch * time) * (1 + np.sin(2 * np.pi * 3 * time))
        made_of.append((tone + loud * random.standard_normal(len(time))).astype(np.float32))
    return made_of

"""`Utmos`: how natural speech sounds, by the strong learner of UTMOS22."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dcurate.audio.speech_models import SpeechModelStage, SpeechNetwork, Weights, part_of
from dcurate.core.extras import needed

#: From one sample or frame to the next of each convolution; features of a head of attention; groups of positions.
_STRIDES, _HEAD, _GROUPS = (5, 2, 2, 2, 2, 2, 2), 64, 16
#: The listener that scores are given for, of 3,000; UTMOS22's own scripts have it.
_LISTENER = 288

#: Beginnings of names of both published files, and what they are here.
_PREFIXES = {
    "feature_extractors.0.ssl_model.": "wav2vec2.",
    "output_layers.0.decoder_rnn.": "blstm.",
    "output_layers.1.net.0.": "projection.0.",
    "output_layers.1.net.3.": "projection.2.",
}
#: Names of fairseq's wav2vec 2.0, and of transformers' one.
_NAMES = (
    (r"feature_extractor\.conv_layers\.(\d+)\.0\.", r"feature_extractor.conv_layers.\1.conv."),
    (r"feature_extractor\.conv_layers\.(\d+)\.2\.", r"feature_extractor.conv_layers.\1.layer_norm."),
    (r"layer_norm\.", r"feature_projection.layer_norm."),
    (r"post_extract_proj\.", r"feature_projection.projection."),
    (r"mask_emb$", r"masked_spec_embed"),
    (r"encoder\.pos_conv\.0\.weight_g$", r"encoder.pos_conv_embed.conv.parametrizations.weight.original0"),
    (r"encoder\.pos_conv\.0\.weight_v$", r"encoder.pos_conv_embed.conv.parametrizations.weight.original1"),
    (r"encoder\.pos_conv\.0\.", r"encoder.pos_conv_embed.conv."),
    (r"encoder\.layers\.(\d+)\.self_attn\.", r"encoder.layers.\1.attention."),
    (r"encoder\.layers\.(\d+)\.self_attn_layer_norm\.", r"encoder.layers.\1.layer_norm."),
    (r"encoder\.layers\.(\d+)\.fc1\.", r"encoder.layers.\1.feed_forward.intermediate_dense."),
    (r"encoder\.layers\.(\d+)\.fc2\.", r"encoder.layers.\1.feed_forward.output_dense."),
)


@dataclass
class Utmos(SpeechModelStage):
    """Add how natural the speech of each recording sounds, as UTMOS estimates it: 1 (bad) to 5 (excellent).

    The column is ``utmos``: the score of the strong learner of UTMOS22 (Saeki et al., "UTMOS: UTokyo-SaruLab System for
    VoiceMOS Challenge 2022") without phonemes: wav2vec 2.0, an LSTM in both directions and two layers. Channels are
    mixed and resampled to 16,000 a second. The score is the mean over windows; of a recording of at most one window it
    is that of UTMOS itself. It is null where there are less than 25 ms.

    The encoder is that of transformers; the file is read without running code, so the checkpoint of PyTorch Lightning
    that the authors published, a pickle of classes, is refused. It is tested on made weights, against the package
    `utmos-pytorch` with the same weights; the published weights were never loaded here. Untested on a GPU.

    Args:
        model: file of the weights: ``utmos22_strong_step7459_v1.pt`` of tarepan's SpeechMOS, ``utmos_state_dict.pt`` of
            `utmos-pytorch`, or the same tensors as ``.safetensors``.
        window_s: seconds of a window, 1 to 60.
        prefix: comes before the name of the column.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        name: name of the stage.
        reading: limits of files.

    Raises:
        PipelineError: a setting is out of its range.
        ResourceError: from `setup`, if there is no such file, no Torch or no transformers.
        DataError: from `setup`, if the file holds something else.

    Examples:
        >>> Utmos("utmos22_strong_step7459_v1.pt").outputs()[1]
        ['utmos']
    """

    name: str = "utmos"

    scores: ClassVar[Sequence[str]] = ("utmos",)

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "transformers": "models"}

    def network(self, weights: Weights) -> SpeechNetwork:
        return UtmosNetwork(weights)


class UtmosNetwork:
    """The network.

    Args:
        weights: its weights, by the names of either published file.
    """

    #: Samples that one frame of wav2vec 2.0 takes.
    least = 400

    def __init__(self, weights: Weights) -> None:
        torch = needed("torch", "scoring speech", "models")
        known = _renamed(weights)
        self._encoder = encoder_of(part_of(known, "wav2vec2."))
        inside = part_of(known, "blstm.")
        hidden = inside["weight_hh_l0"].shape[1]
        self._blstm = torch.nn.LSTM(inside["weight_ih_l0"].shape[1], hidden, batch_first=True, bidirectional=True)
        self._blstm.load_state_dict(inside)
        self._blstm.to(inside["weight_hh_l0"].device).eval()
        self._listener = torch.cat([known["domain_emb"], known["judge_emb"]], dim=1)
        self._layers = [known[f"projection.{name}"] for name in ("0.weight", "0.bias", "2.weight", "2.bias")]

    def scores(self, window: Any) -> Any:
        torch = needed("torch", "scoring speech", "models")
        functional = torch.nn.functional
        frames = self._encoder(window[None]).last_hidden_state
        heard = torch.cat([frames, self._listener.expand(1, frames.shape[1], -1)], dim=2)
        weight, bias, last_weight, last_bias = self._layers
        hidden = functional.linear(self._blstm(heard)[0], weight, bias).relu()
        return functional.linear(hidden, last_weight, last_bias).mean(dim=1)[0] * 2 + 3


def _renamed(weights: Weights) -> dict[str, Any]:
    """Tensors by the names of SpeechMOS, with the embeddings of one domain and one listener."""
    known: dict[str, Any] = {}
    for name, value in weights.items():
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
        known[_PREFIXES.get(prefix, "") + name.removeprefix(prefix)] = value
    domains, judges = "feature_extractors.1.embedding.weight", "output_layers.0.judge_embedding.weight"
    if domains in known:
        known["domain_emb"] = known[domains][:1]
        known["judge_emb"] = known[judges][_LISTENER : _LISTENER + 1]
    return known


def encoder_of(weights: Weights) -> Any:
    """Return transformers' wav2vec 2.0 with weights by the names of fairseq; its sizes are theirs.

    Raises:
        KeyError: weights are missing.
        RuntimeError: they are those of another network.
    """
    transformers = needed("transformers", "scoring speech", "models")
    kernels = [weights[f"feature_extractor.conv_layers.{number}.0.weight"] for number in range(len(_STRIDES))]
    projection, inner = weights["post_extract_proj.weight"], weights["encoder.layers.0.fc1.weight"]
    positions = weights["encoder.pos_conv.0.weight_v"]
    layers = {name.split(".")[2] for name in weights if name.startswith("encoder.layers.")}
    config = transformers.Wav2Vec2Config(
        hidden_size=projection.shape[0],
        num_hidden_layers=len(layers),
        num_attention_heads=max(1, projection.shape[0] // _HEAD),
        intermediate_size=inner.shape[0],
        conv_dim=[kernel.shape[0] for kernel in kernels],
        conv_kernel=[kernel.shape[2] for kernel in kernels],
        conv_stride=_STRIDES,
        num_conv_pos_embeddings=positions.shape[2],
        num_conv_pos_embedding_groups=_GROUPS,
        apply_spec_augment=False,
    )
    encoder = transformers.Wav2Vec2Model(config)
    known = {}
    for name, value in weights.items():
        known[next((re.sub(old, new, name) for old, new in _NAMES if re.match(old, name)), name)] = value
    known.setdefault("masked_spec_embed", encoder.masked_spec_embed.detach())  # it masks nothing here
    encoder.load_state_dict(known)
    return encoder.to(projection.device).eval()

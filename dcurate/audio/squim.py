"""`Squim`: intelligibility and quality of speech without a reference, by torchaudio's SQUIM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dcurate.audio.speech_models import SpeechModelStage, SpeechNetwork, Weights, part_of
from dcurate.core.extras import needed

#: Frames of a chunk of the dual-path network, and from one chunk to the next.
_CHUNK, _STRIDE = 71, 35
_HEADS = 4
#: Range of scores of PESQ: its upper end is that of P.862.2 for 4.5 of P.862.
_PESQ = (1.0, 0.999 + 4 / (1 + math.exp(-1.3669 * 4.5 + 3.8224)))


@dataclass
class Squim(SpeechModelStage):
    """Add estimates of how intelligible and clean the speech of each recording is, by torchaudio's SQUIM.

    The columns, after ``squim_``: ``stoi`` (intelligibility, 0 to 1), ``pesq`` (quality of P.862.2, 1 to 4.64) and
    ``si_sdr`` (speech against everything else, in dB), as Kumar et al. estimate them without a clean reference
    ("TorchAudio-Squim", 2023). Channels are mixed and resampled to 16,000 a second. Scores are means over windows; of
    a recording of at most one window they are those of ``torchaudio.pipelines.SQUIM_OBJECTIVE``. They are null where
    there is only silence, or less than 4 ms.

    The network is computed here from the names of the published weights, whose file is read without running code. It is
    tested on made weights, against torchaudio 2.11 with the same weights; the published weights were never loaded here.
    Untested on a GPU.

    Args:
        model: file of the weights: ``squim_objective_dns2020.pth``, as torchaudio downloads it, or the same tensors as
            ``.safetensors``.
        window_s: seconds of a window, 1 to 60.
        prefix: comes before the name of every column.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        name: name of the stage.
        reading: limits of files.

    Raises:
        PipelineError: a setting is out of its range.
        ResourceError: from `setup`, if there is no such file or no Torch.
        DataError: from `setup`, if the file holds something else.

    Examples:
        >>> Squim("squim_objective_dns2020.pth").outputs()[1]
        ['squim_stoi', 'squim_pesq', 'squim_si_sdr']
    """

    prefix: str = "squim_"
    name: str = "squim"

    scores: ClassVar[Sequence[str]] = ("stoi", "pesq", "si_sdr")

    def network(self, weights: Weights) -> SpeechNetwork:
        return SquimNetwork(weights)


class SquimNetwork:
    """The network: a convolution, a dual-path LSTM over chunks of frames, and a branch of attention for each score.

    Args:
        weights: its weights, by the names of torchaudio.
    """

    def __init__(self, weights: Weights) -> None:
        torch = needed("torch", "scoring speech", "models")
        self._nn, self._functional = torch.nn, torch.nn.functional
        self._kernel = weights["encoder.conv1d.weight"]
        self.least = int(self._kernel.shape[-1])
        blocks = len({name.split(".")[2] for name in weights if name.startswith("dprnn.row_rnn.")})
        if not blocks:
            raise KeyError("dprnn.row_rnn.0")
        self._paths = [self._path(weights, kind, number) for number in range(blocks) for kind in ("row", "col")]
        self._mix = [weights[f"dprnn.conv.{name}"] for name in ("0.weight", "0.bias", "1.weight")]
        self._branches = [self._branch(part_of(weights, f"branches.{number}.")) for number in range(3)]

    def scores(self, window: Any) -> Any:
        torch = needed("torch", "scoring speech", "models")
        level = window / (window.square().mean().sqrt() * 20)
        frames = self._functional.conv1d(level[None, None], self._kernel, stride=self._kernel.shape[-1] // 2)
        frames = self._dual_path(frames.relu()[0].T)
        stoi, pesq, si_sdr = (self._scored(frames, *branch) for branch in self._branches)
        low, high = _PESQ
        return torch.stack([stoi.sigmoid(), pesq.sigmoid() * (high - low) + low, si_sdr])

    def _path(self, weights: Weights, kind: str, number: int) -> tuple[bool, Any, tuple[Any, ...]]:
        """Whether a part of a block goes along the frames of each chunk, its LSTM, and what follows that."""
        layer = f"dprnn.{kind}_rnn.{number}."
        inside = part_of(weights, f"{layer}rnn.")
        hidden = inside["weight_hh_l0"].shape[1]
        network = self._nn.LSTM(inside["weight_ih_l0"].shape[1], hidden, batch_first=True, bidirectional=True)
        network.load_state_dict(inside)
        layers = (f"{layer}proj", f"dprnn.{kind}_norm.{number}")
        rest = tuple(weights[f"{name}.{part}"] for name in layers for part in ("weight", "bias"))
        return kind == "row", network.to(rest[0].device).eval(), rest

    def _branch(self, weights: Weights) -> tuple[Any, Weights]:
        size = weights["2.0.weight"].shape[0]
        layer = self._nn.TransformerEncoderLayer(size, _HEADS, size * 4, dropout=0.0, batch_first=True)
        layer.load_state_dict(part_of(weights, "0."))
        return layer.to(weights["2.0.weight"].device).eval(), weights

    def _dual_path(self, frames: Any) -> Any:
        """Return frames, shape (frames, features), after the dual-path network: shape (frames, size)."""
        torch, functional = needed("torch", "scoring speech", "models"), self._functional
        count = len(frames)
        rest = _CHUNK - (_STRIDE + count % _CHUNK) % _CHUNK
        padded = functional.pad(frames, (0, 0, _STRIDE, rest + _STRIDE))
        halves = [padded[:-_STRIDE], padded[_STRIDE:]]
        chunks = torch.stack([half.reshape(-1, _CHUNK, half.shape[-1]) for half in halves], dim=1).flatten(0, 1)
        for along_frames, network, (projection, bias, scale, shift) in self._paths:
            turned = chunks if along_frames else chunks.transpose(0, 1).contiguous()
            heard = functional.linear(network(turned)[0], projection, bias)
            heard = functional.layer_norm(heard, heard.shape, eps=1e-8) * scale + shift
            chunks = chunks + (heard if along_frames else heard.transpose(0, 1))
        weight, bias, slope = self._mix
        mixed = functional.prelu(functional.linear(chunks, weight[:, :, 0, 0], bias), slope)
        first, second = (mixed[place::2].flatten(0, 1) for place in (0, 1))
        return (first[_STRIDE:] + second[:-_STRIDE])[:count]

    def _scored(self, frames: Any, layer: Any, weights: Weights) -> Any:
        functional = self._functional
        heard = layer(frames[None])[0]
        pooled = (heard * (heard * weights["1.alpha"]).softmax(dim=0)).sum(dim=0)
        hidden = functional.linear(pooled, weights["2.0.weight"], weights["2.0.bias"])
        hidden = functional.prelu(hidden[None], weights["2.1.weight"])[0]
        return functional.linear(hidden, weights["2.2.weight"], weights["2.2.bias"])[0]

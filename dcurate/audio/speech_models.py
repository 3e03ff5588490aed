"""`SpeechModelStage`: the base of stages that score speech by a network of Torch, window by window."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.stage import Mono, SoundStage
from dcurate.core.extras import needed
from dcurate.core.resources import Resources
from dcurate.core.stage import ProcessingStage, WorkerMetadata
from dcurate.errors import DataError, PipelineError, ResourceError
from dcurate.hub import device as devices
from dcurate.hub.shared import SHARED

#: Samples a second that the networks hear.
RATE = 16_000
_OF_SLOT = ("_network", "_key", "_torch_device", "_memory")

Floats = npt.NDArray[np.float32]
#: Tensors by name.
Weights = Mapping[str, Any]


class SpeechNetwork(Protocol):
    """A network that is loaded."""

    #: Samples of the shortest sound that it can hear.
    least: int

    def scores(self, window: Any) -> Any:
        """Return the scores of a tensor of samples, shape (samples,), as a tensor, shape (scores,)."""


@dataclass
class SpeechModelStage(SoundStage):
    """Score the speech of each recording by a network of Torch; the base of these.

    Args:
        model: file of the weights.
        window_s: seconds of a window.
        prefix: comes before the name of every column.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
    """

    model: str
    window_s: float = 10.0
    prefix: str = ""
    device: str = "auto"

    _network: SpeechNetwork | None = field(default=None, init=False, repr=False, compare=False)
    _key: Hashable | None = field(default=None, init=False, repr=False, compare=False)
    _torch_device: Any = field(default=None, init=False, repr=False, compare=False)
    _memory: devices.MemoryShare | None = field(default=None, init=False, repr=False, compare=False)

    #: Names of the scores, and the task, for errors.
    scores: ClassVar[Sequence[str]]
    what: ClassVar[str] = "scoring speech"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, str) or not self.model:
            raise PipelineError(f"{self.name}: model={self.model!r} must be the path of a file of weights")
        is_number = isinstance(self.window_s, int | float) and not isinstance(self.window_s, bool)
        if not is_number or not 1 <= self.window_s <= 60:
            raise PipelineError(f"{self.name}: window_s={self.window_s!r} must be seconds from 1 to 60")
        devices.check_device(self.name, self.device)
        if type(self).resources is ProcessingStage.resources:
            self.resources = Resources(cpus=1.0, gpus=0.0 if self.device == "cpu" else 0.25)
            self.spec = replace(self.spec, gpu_optional=self.device == "auto")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + name: pa.float64() for name in self.scores}

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "soxr": "audio", "torch": "models"}

    def settings(self) -> dict[str, Any]:
        """All settings but the device."""
        hidden = ("device", "resources", *_OF_SLOT)
        return {name: value for name, value in super().settings().items() if name not in hidden}

    @abstractmethod
    def network(self, weights: Weights) -> SpeechNetwork:
        """Make the network.

        Args:
            weights: tensors by name, on the device.

        Raises:
            KeyError: one is missing.
            RuntimeError: one has another shape.
        """

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the network, unless another slot of this process has."""
        super().setup(worker_metadata)
        if self._network is not None:
            return
        self._torch_device = devices.device_of(self.name, self.device, worker_metadata)
        self._memory = devices.MemoryShare(self._torch_device, self.resources)
        key: Hashable = (type(self), self.model, str(self._torch_device))
        self._network = SHARED.hold(key, self._loaded)
        self._key = key

    def teardown(self) -> None:
        """Release the network; the last slot of the process frees its memory."""
        super().teardown()
        key, self._key, self._network = self._key, None, None
        if key is not None and SHARED.release(key):
            devices.emptied(self._torch_device)
        if self._memory is not None:
            self._memory.release()
            self._memory = None

    def listener(self, sound: Sound) -> WindowListener:
        self.setup()
        assert self._network is not None
        return WindowListener(
            self._network, Mono(sound.rate, RATE), round(self.window_s * RATE), len(self.scores), self._torch_device
        )

    def _loaded(self) -> SpeechNetwork:
        path = Path(self.model)
        if not path.is_file():
            raise ResourceError(f"{self.name}: file {self.model!r} does not exist; give model= the path of its weights")
        try:
            return self.network(_read(path, self._torch_device))
        except ResourceError:
            raise
        except (RuntimeError, KeyError, TypeError, AttributeError, ValueError, IndexError) as e:
            first = str(e).partition("\n")[0]
            raise DataError(f"{path} does not hold the weights for {self.name} ({first}); give another file") from e


def _read(path: Path, device: Any) -> dict[str, Any]:
    """Read tensors of float32 by name; no code of the file is run.

    Raises:
        ResourceError: a library is not installed.
        ValueError: the file does not hold tensors by name.
    """
    torch = needed("torch", str(path), "models")
    if path.suffix == ".safetensors":
        library = needed("safetensors", str(path), "models")
        try:
            weights = needed("safetensors.torch", str(path), "models").load_file(path)
        except library.SafetensorError as error:
            raise ValueError(str(error)) from error
    else:
        try:
            weights = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # its reader of pickles raises anything where a file is damaged
            raise ValueError(str(error) or type(error).__name__) from error
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise ValueError("it holds something else than tensors by name")
    return {str(name): value.to(device, torch.float32, copy=True) for name, value in weights.items()}


def part_of(weights: Weights, prefix: str) -> dict[str, Any]:
    """Return the tensors whose names begin so, without that.

    Raises:
        KeyError: there is none.

    Examples:
        >>> part_of({"a.x": 1, "a.y": 2, "b.x": 3}, "a.")
        {'x': 1, 'y': 2}
    """
    own_weights = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    if not own_weights:
        raise KeyError(prefix)
    return own_weights


class WindowListener:
    """Scores one recording: the mean of its windows, by their lengths.

    Windows follow each other; what is left behind the last whole one counts from a second on, or where it is all.

    Args:
        network: network.
        mono: makes one channel at 16,000 samples a second.
        size: samples of a window.
        count: number of scores.
        device: the ``torch.device`` of the network.
    """

    def __init__(self, network: SpeechNetwork, mono: Mono, size: int, count: int, device: Any) -> None:
        self._network, self._mono, self._size, self._device = network, mono, size, device
        self._held = np.empty(0, np.float32)
        self._sums, self._weights = np.zeros(count), np.zeros(count)
        self._is_long = False

    def hear(self, samples: Samples) -> None:
        self._take(self._mono.take(samples))

    def values(self, truncated: bool) -> Sequence[float | None]:
        self._take(self._mono.rest())
        if len(self._held) >= (RATE if self._is_long else self._network.least):
            self._score(self._held)
        pairs = zip(self._sums.tolist(), self._weights.tolist(), strict=True)
        return [total / weight if weight else None for total, weight in pairs]

    def _take(self, samples: Floats) -> None:
        self._held = np.concatenate([self._held, samples])
        while len(self._held) >= self._size:
            self._score(self._held[: self._size])
            self._held = self._held[self._size :]
            self._is_long = True

    def _score(self, window: Floats) -> None:
        torch = needed("torch", "scoring speech", "models")
        with devices.current(self._device), devices.threads(1), devices.without_gradients(None):
            # with more threads the last bits differ, and with memory that is aligned otherwise than Torch's own
            scores = self._network.scores(torch.tensor(window, device=self._device))
        made = np.asarray(scores.double().cpu().numpy())
        known = np.array([math.isfinite(score) for score in made])
        self._sums[known] += made[known] * len(window)
        self._weights[known] += len(window)

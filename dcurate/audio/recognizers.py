"""Speech recognisers that `Transcribe` uses: what each needs, and how its results look."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dcurate.audio.languages import language_code
from dcurate.core.extras import needed
from dcurate.core.stage import WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.hub import device as devices
from dcurate.hub.loading import pretrained, read
from dcurate.hub.weights import Weights
from dcurate.isolate.errors import MediaFault
from dcurate.media.parts import Part

#: Samples a second that recognisers take, and the fewest samples of a window: shorter ones are padded by silence.
RATE, _LEAST = 16_000, 1_600
#: What PocketSphinx gives besides words: silence, noises, and numbers of pronunciations.
_NO_WORD, _VARIANT = re.compile(r"<.*>|\[.*\]|\+\+.*\+\+"), re.compile(r"\(\d+\)$")
#: What PocketSphinx hears before each window: else what it hears of silence depends on what it heard before.
_PRELUDE = (np.random.default_rng(7).standard_normal(RATE // 5) * 0.05).astype(np.float32)


class SoundWindow(NamedTuple):
    """A part of a recording that a recogniser gets.

    Args:
        samples: one channel at 16,000 samples a second, float32.
        language: the language that the row names; None if it does not.
        wants_language: whether the language that is heard is asked for; finding it may take time.

    Examples:
        >>> SoundWindow(np.zeros(16_000, np.float32), "en").language
        'en'
    """

    samples: npt.NDArray[np.float32]
    language: str | None = None
    wants_language: bool = False


class Transcript(NamedTuple):
    """What is spoken in a window.

    Args:
        text: the text.
        words: its words, each with ``word``, ``start`` and ``end`` in seconds of the window, and ``confidence`` from 0
            to 1, or None; None where the recogniser gives no words.
        language: the language that it heard, ISO 639-1; None where it was told, or does not say.

    Examples:
        >>> Transcript("yes").words is None
        True
    """

    text: str
    words: list[Part] | None = None
    language: str | None = None


class Recognition(Protocol):
    """A recogniser that is loaded, in one slot."""

    def transcribe(self, windows: Sequence[SoundWindow]) -> list[Transcript | MediaFault]:
        """Return the transcript of each window, or why it has none."""

    def close(self) -> None:
        """Free what is held."""


class Recognizer(Protocol):
    """A speech recogniser: what is needed to load it. A class of one's own with these methods is one, too.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Silence:
        ...     max_window_s: float = 30.0
        ...     batch_size: int = 8
        ...
        ...     def requires(self):
        ...         return {}
        ...
        ...     def fetch(self):
        ...         pass
        ...
        ...     def load(self, stage, slot, cpus):
        ...         return self
        ...
        ...     def transcribe(self, windows):
        ...         return [Transcript("") for window in windows]
        ...
        ...     def close(self):
        ...         pass
        >>> from dcurate.audio import Transcribe
        >>> Transcribe(Silence()).name
        'transcribe'
    """

    @property
    def max_window_s(self) -> float:
        """Seconds of sound that it takes at a time."""

    @property
    def batch_size(self) -> int:
        """Windows that it takes at a time."""

    def requires(self) -> dict[str, str]:
        """Return the libraries that it needs, and their extras."""

    def fetch(self) -> None:
        """Download what is missing, once per host."""

    def load(self, stage: str, slot: WorkerMetadata | None, cpus: float) -> Recognition:
        """Load it.

        Raises:
            ResourceError: a library or a device is missing.
            DataError: the model cannot be read.
        """


@dataclass(frozen=True)
class HuggingFaceRecognizer:
    """A model of transformers: sequence to sequence, such as Whisper, or CTC, such as Wav2Vec2 (extra ``models``).

    Models of CTC give words with times. Their batches have windows of one length, so that a result does not depend on
    padding, and with it on the batch. Whisper of several languages says which language it heard: the likeliest first
    token of its decoder. Only where that is asked for, the encoder runs once more for it.

    Args:
        model: id at the Hugging Face hub, or folder that ``save_pretrained`` wrote, with its processor.
        revision: a branch, tag or commit of the hub.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        max_window_s: seconds of sound at a time; Whisper takes 30.
        batch_size: windows at a time.
        generate_kwargs: arguments of ``generate`` of a model that is sequence to sequence. The language of a row
            is added where it has one, which needs a model of several languages.

    Raises:
        PipelineError: a number is not above 0.

    Examples:
        >>> HuggingFaceRecognizer("openai/whisper-tiny").max_window_s
        30.0
    """

    model: str
    revision: str | None = None
    device: str = "auto"
    max_window_s: float = 30.0
    batch_size: int = 8
    generate_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_limits(self)

    def requires(self) -> dict[str, str]:
        return {"torch": "models", "transformers": "models"}

    def fetch(self) -> None:
        self._weights.fetch()

    def load(self, stage: str, slot: WorkerMetadata | None, cpus: float) -> Recognition:
        return _LoadedTransformers(self, devices.device_of(stage, self.device, slot), cpus)

    @property
    def _weights(self) -> Weights:
        return Weights(self.model, revision=self.revision)


class _LoadedTransformers:
    def __init__(self, settings: HuggingFaceRecognizer, device: Any, cpus: float) -> None:
        weights = settings._weights
        folder = weights.folder()
        transformers = needed("transformers", str(weights), "models")
        self._settings, self._device, self._cpus = settings, device, cpus
        arguments = {"local_files_only": True, "trust_remote_code": False}
        config = read(weights, folder, lambda: transformers.AutoConfig.from_pretrained(folder, **arguments))
        self._processor = read(weights, folder, lambda: transformers.AutoProcessor.from_pretrained(folder, **arguments))
        self._is_ctc = any(name.endswith("ForCTC") for name in config.architectures or ())
        self._model = pretrained(
            "AutoModelForCTC" if self._is_ctc else "AutoModelForSpeechSeq2Seq", weights, folder, device
        )
        self._model.eval().to(device)

    def transcribe(self, windows: Sequence[SoundWindow]) -> list[Transcript | MediaFault]:
        found: dict[int, Transcript] = {}
        with devices.threads(self._cpus), devices.without_gradients(None):
            for places in _alike(windows, by_length=self._is_ctc):
                batch = [_padded(windows[place].samples) for place in places]
                made = self._of_ctc(batch) if self._is_ctc else self._generated(batch, windows[places[0]])
                found.update(zip(places, made, strict=True))
        return [found[place] for place in range(len(windows))]

    def close(self) -> None:
        device = self._device
        del self._model
        devices.emptied(device)

    def _features(self, batch: list[npt.NDArray[np.float32]]) -> Any:
        features = self._processor(batch, sampling_rate=RATE, return_tensors="pt")
        return features.to(self._device)

    def _of_ctc(self, batch: list[npt.NDArray[np.float32]]) -> list[Transcript]:
        logits = self._model(**self._features(batch)).logits
        decoded = self._processor.batch_decode(logits.argmax(dim=-1), output_word_offsets=True)
        frame_s = self._model.config.inputs_to_logits_ratio / RATE
        return [
            Transcript(
                text,
                [
                    word_of(word["word"], word["start_offset"] * frame_s, word["end_offset"] * frame_s, None)
                    for word in words
                ],
            )
            for text, words in zip(decoded["text"], decoded["word_offsets"], strict=True)
        ]

    def _generated(self, batch: list[npt.NDArray[np.float32]], like: SoundWindow) -> list[Transcript]:
        settings = {"do_sample": False, "num_beams": 1, **self._settings.generate_kwargs}
        if like.language:
            settings["language"] = like.language
        features = self._features(batch)
        features = features.to(self._model.dtype)
        tokens = self._model.generate(**features, **settings)
        texts = self._processor.batch_decode(tokens, skip_special_tokens=True)
        languages = self._heard(features) if like.wants_language and "language" not in settings else [None] * len(texts)
        return [
            Transcript(text, None, language if text.strip() else None)
            for text, language in zip(texts, languages, strict=True)
        ]

    def _heard(self, features: Any) -> list[str | None]:
        """The language of each window of a batch; None if the model knows one only, or several unnamed ones."""
        tokens = getattr(self._model.generation_config, "lang_to_id", None)
        if not tokens:
            return [None] * len(features["input_features"])
        names = {number: token.strip("<|>") for token, number in tokens.items()}
        heard = self._model.detect_language(input_features=features["input_features"])
        return [language_code(names[number]) for number in heard.tolist()]


@dataclass(frozen=True)
class PocketSphinxRecognizer:
    """PocketSphinx, with the English model of its wheel or another: for CPUs, and of low accuracy (extra ``asr``).

    Args:
        hmm: folder of an acoustic model; None for the one in the wheel, as for the next two.
        lm: file of a language model.
        dictionary: file of pronunciations.
        max_window_s: seconds of sound at a time.

    Raises:
        PipelineError: `max_window_s` is not above 0.

    Examples:
        >>> PocketSphinxRecognizer().batch_size
        1
    """

    hmm: str | None = None
    lm: str | None = None
    dictionary: str | None = None
    max_window_s: float = 30.0

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def batch_size(self) -> int:
        """Windows at a time."""
        return 1

    def requires(self) -> dict[str, str]:
        return {"pocketsphinx": "asr"}

    def fetch(self) -> None:
        return

    def load(self, stage: str, slot: WorkerMetadata | None, cpus: float) -> Recognition:
        library = needed("pocketsphinx", f"stage {stage!r}", "asr")
        models = {"hmm": self.hmm, "lm": self.lm, "dict": self.dictionary}
        given = {name: value for name, value in models.items() if value is not None}
        return _LoadedPocketSphinx(library.Decoder(samprate=RATE, loglevel="FATAL", **given))


class _LoadedPocketSphinx:
    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    def transcribe(self, windows: Sequence[SoundWindow]) -> list[Transcript | MediaFault]:
        return [self._decoded(window.samples) for window in windows]

    def close(self) -> None:
        self._decoder = None

    def _decoded(self, samples: npt.NDArray[np.float32]) -> Transcript:
        decoder = self._decoder
        self._hear(_PRELUDE)
        self._hear(samples)
        if decoder.hyp() is None:
            return Transcript("", [])
        rate = decoder.config["frate"]
        words = [
            word_of(_VARIANT.sub("", segment.word), segment.start_frame / rate, (segment.end_frame + 1) / rate, None)
            for segment in decoder.seg()
            if not _NO_WORD.fullmatch(segment.word)
        ]
        return Transcript(" ".join(word["word"] for word in words), words)

    def _hear(self, samples: npt.NDArray[np.float32]) -> None:
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(pcm(samples), full_utt=True)
        self._decoder.end_utt()


def check_limits(recognizer: Any) -> None:
    """Refuse limits that are not above 0.

    Raises:
        PipelineError: one is not.
    """
    for name in ("max_window_s", "batch_size"):
        if not getattr(recognizer, name) > 0:
            value = getattr(recognizer, name)
            raise PipelineError(f"{type(recognizer).__name__}: {name}={value!r} must be above 0")


def word_of(word: str, start: float, end: float, confidence: float | None) -> Part:
    """A word of a transcript, with times in seconds, to the millisecond."""
    return {"word": word, "start": round(float(start), 3), "end": round(float(end), 3), "confidence": confidence}


def pcm(samples: npt.NDArray[np.float32]) -> bytes:
    """Samples as 16-bit integers, little-endian; louder ones are clipped.

    Examples:
        >>> pcm(np.array([0.0, 0.5, -2.0], np.float32)).hex()
        '0000ff3f0180'
    """
    return (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def _alike(windows: Sequence[SoundWindow], by_length: bool) -> list[list[int]]:
    """The numbers of windows that may share a batch: of one language, and, where it matters, one length."""
    groups: dict[Any, list[int]] = {}
    for place, window in enumerate(windows):
        groups.setdefault(len(window.samples) if by_length else window.language, []).append(place)
    return list(groups.values())


def _padded(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return samples if len(samples) >= _LEAST else np.pad(samples, (0, _LEAST - len(samples)))

"""`Transcribe`: what is spoken in recordings, by a speech recogniser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.endpoint import EndpointRecognizer
from dcurate.audio.recognizers import RATE, Recognition, Recognizer, SoundWindow, Transcript
from dcurate.audio.stage import Mono, Segment, SoundStage, passes, segments_of
from dcurate.audio.transcripts import texts_of
from dcurate.core.stage import NodeInfo, Spec, WorkerMetadata
from dcurate.errors import DcurateError, PipelineError, shown
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.parts import Part, parts_of, type_of_parts

WORDS = pa.list_(
    pa.struct([("word", pa.string()), ("start", pa.float64()), ("end", pa.float64()), ("confidence", pa.float64())])
)
#: Samples that are held until they are transcribed: 17 minutes.
_HELD = 2**24
#: Samples of a frame in which silence is looked for, 20 ms; a window is cut in its second half.
_FRAME = RATE // 50


class _RowWindow(NamedTuple):
    """A window of a row, and where it begins, in seconds of the row's sound."""

    row: int
    start: float
    window: SoundWindow


@dataclass
class Transcribe(SoundStage):
    """Write down what is spoken in each recording or segment; NeMo Curator's ``ASRStage``.

    Sound is decoded in windows, mixed to one channel and resampled to 16,000 samples a second. A recording that is
    longer than the recogniser takes is cut at the quietest 20 ms in the second half of each window, or at the parts of
    `splits_field`, as `SplitAtPauses` makes them. Windows of up to 17 minutes together are sorted by length and
    transcribed in batches; memory does not grow with the length of a recording.

    New columns: the text, and the words, each with ``start`` and ``end`` in seconds from the start of the recording or
    segment, and a ``confidence`` where the recogniser has one; null where it gives no words.

    With `heard_language_field`, the language of most of the text, as the recogniser heard it, is a column, too: of
    `FasterWhisperRecognizer`, of Whisper in `HuggingFaceRecognizer`, and of an `EndpointRecognizer` that says it; null
    for others, and where the row named a language. `FilterByHeardLanguage` drops texts in another language.

    A row that cannot be decoded, or whose sound makes the recogniser fail, goes to quarantine: ``not transcribed``, or
    the reason of the endpoint.

    Args:
        recognizer: a `HuggingFaceRecognizer`, `EndpointRecognizer`, `PocketSphinxRecognizer` or another `Recognizer`.
        text_field: the new column of texts.
        words_field: the new column of words.
        language_field: the column of languages, ISO 639-1, for recognisers of several; None if they find it out.
        splits_field: the column of the parts at which long recordings are split; None for the recogniser's windows.
        heard_language_field: the new column of languages that were heard, ISO 639-1; None for no such column.
        reading: limits.
        name: name of the stage.

    Raises:
        PipelineError: `recognizer` is none.

    Examples:
        >>> from dcurate.audio import PocketSphinxRecognizer
        >>> Transcribe(PocketSphinxRecognizer()).outputs()[1]
        ['pred_text', 'words']
    """

    recognizer: Recognizer
    text_field: str = "pred_text"
    words_field: str = "words"
    language_field: str | None = None
    splits_field: str | None = None
    name: str = "transcribe"
    heard_language_field: str | None = None

    _recognition: Recognition | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(getattr(type(self.recognizer), "load", None)):
            raise PipelineError(
                f"stage {self.name!r}: recognizer={shown(self.recognizer)} must be a recogniser, see Recognizer"
            )

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        heard = {} if self.heard_language_field is None else {self.heard_language_field: pa.string()}
        return {self.text_field: pa.string(), self.words_field: WORDS, **heard}

    def inputs(self) -> Spec:
        fields = (self.language_field, self.splits_field)
        return ["data"], [name for name in fields if name is not None]

    def settings(self) -> dict[str, Any]:
        """All settings; of an endpoint not the address and the rate of requests."""
        settings = super().settings()
        if isinstance(self.recognizer, EndpointRecognizer):
            settings["recognizer"] = [
                "endpoint",
                self.recognizer.model,
                self.recognizer.words,
                self.recognizer.max_window_s,
            ]
        return settings

    def num_workers(self) -> int | None:
        """One slot if a client has limits."""
        slots = self.recognizer.slots if isinstance(self.recognizer, EndpointRecognizer) else None
        return super().num_workers() if slots is None else slots

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "soxr": "audio", **self.recognizer.requires()}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self.recognizer.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        if self._recognition is None:
            self._recognition = self.recognizer.load(self.name, worker_metadata, self.resources.cpus)

    def teardown(self) -> None:
        super().teardown()
        recognition, self._recognition = self._recognition, None
        if recognition is not None:
            recognition.close()

    def answers(self, rows: pa.Table) -> list[Any]:
        self.setup()
        self.check_media(rows.column_names)
        answers: dict[int, MediaFault] = {}
        made: dict[int, list[tuple[float, Transcript]]] = {row: [] for row in range(rows.num_rows)}
        held: list[_RowWindow] = []
        samples = 0
        for piece in self._pieces(rows, answers):
            held.append(piece)
            samples += len(piece.window.samples)
            if samples >= _HELD:
                self._transcribe(held, made, answers)
                held, samples = [], 0
        self._transcribe(held, made, answers)
        return [answers[row] if row in answers else self._joined(made[row]) for row in range(rows.num_rows)]

    def _joined(self, transcripts: list[tuple[float, Transcript]]) -> tuple[Any, ...]:
        heard = () if self.heard_language_field is None else (language_of(transcripts),)
        return (*joined(transcripts), *heard)

    def _pieces(self, rows: pa.Table, faults: dict[int, MediaFault]) -> Iterator[_RowWindow]:
        """Yield the windows of all rows."""
        languages: list[str | None] = [None] * rows.num_rows
        if self.language_field is not None:
            languages = texts_of(rows, self.language_field)
        splits: list[Any] = [None] * rows.num_rows
        if self.splits_field is not None:
            type_of_parts(rows, self.splits_field)
            splits = parts_of(rows, self.splits_field)
        faults.update((row, parts) for row, parts in enumerate(splits) if isinstance(parts, MediaFault))
        for numbers, sound in self.sounds(rows):
            if isinstance(sound, MediaFault):
                faults.update(dict.fromkeys(numbers, sound))
                continue
            segments, bad = segments_of(rows, [row for row in numbers if row not in faults], sound.rate)
            faults.update(bad)
            for segment in passes(segments):
                try:
                    for start, window in self._windows(sound, segment, splits[segment.row]):
                        yield _RowWindow(segment.row, start, self._window(window, languages[segment.row]))
                except MediaError as error:
                    faults[segment.row] = error.fault

    def _window(self, samples: npt.NDArray[np.float32], language: str | None) -> SoundWindow:
        return SoundWindow(samples, language, self.heard_language_field is not None and not language)

    def _windows(
        self, sound: Sound, segment: Segment, parts: Sequence[Part] | None
    ) -> Iterator[tuple[float, npt.NDArray[np.float32]]]:
        """Yield the windows of a row, with their starts in seconds."""
        size, is_empty = max(1, int(self.recognizer.max_window_s * RATE)), True
        for part in parts or [{"start": 0.0, "end": None}]:
            first = segment.start + round(part["start"] * sound.rate)
            stops = [segment.stop, None if part["end"] is None else segment.start + round(part["end"] * sound.rate)]
            stop = min((stop for stop in stops if stop is not None), default=None)
            if stop is not None and stop <= first:
                continue
            for start, window in cut(sound.windows(first, stop), Mono(sound.rate, RATE), size):
                is_empty = False
                yield part["start"] + start / RATE, window
        if is_empty:
            raise MediaError("bad segment", f"it begins at frame {segment.start}, behind the end of the recording")

    def _transcribe(
        self, held: list[_RowWindow], made: dict[int, list[tuple[float, Transcript]]], faults: dict[int, MediaFault]
    ) -> None:
        """Transcribe windows, the longest first."""
        pieces = sorted(
            (piece for piece in held if piece.row not in faults),
            key=lambda piece: (-len(piece.window.samples), piece.row, piece.start),
        )
        for first in range(0, len(pieces), self.recognizer.batch_size):
            batch = pieces[first : first + self.recognizer.batch_size]
            for piece, answer in zip(batch, self._tried([piece.window for piece in batch]), strict=True):
                if isinstance(answer, MediaFault):
                    faults[piece.row] = answer
                else:
                    made[piece.row].append((piece.start, answer))

    def _tried(self, windows: list[SoundWindow]) -> list[Transcript | MediaFault]:
        assert self._recognition is not None
        try:
            return self._recognition.transcribe(windows)
        except DcurateError:
            raise
        except Exception as error:  # libraries of recognisers raise anything
            if len(windows) > 1:
                return [answer for window in windows for answer in self._tried([window])]
            return [MediaFault("not transcribed", f"{type(error).__name__}: {error}")]


def joined(transcripts: list[tuple[float, Transcript]]) -> tuple[str, list[Part] | None]:
    """The text and words of a row, from the transcripts of its windows and where these start.

    Examples:
        >>> there = Transcript(" there", [{"word": "there", "start": 0.5, "end": 1.0}])
        >>> joined([(30.0, there), (0.0, Transcript("hi"))])
        ('hi there', [{'word': 'there', 'start': 30.5, 'end': 31.0}])
    """
    parts = sorted(transcripts, key=lambda part: part[0])
    texts = [transcript.text.strip() for _, transcript in parts]
    if all(transcript.words is None for _, transcript in parts):
        return " ".join(filter(None, texts)), None
    words = [
        {**word, "start": round(start + word["start"], 3), "end": round(start + word["end"], 3)}
        for start, transcript in parts
        for word in transcript.words or []
    ]
    return " ".join(filter(None, texts)), words


def language_of(transcripts: list[tuple[float, Transcript]]) -> str | None:
    """The language of most of the text of a row, by characters; of several the first by name. None if none was heard.

    Examples:
        >>> language_of([(0.0, Transcript("ja", None, "de")), (30.0, Transcript("yes", None, "en"))])
        'en'
    """
    chars: dict[str, int] = {}
    for _, transcript in transcripts:
        if transcript.language is not None:
            chars[transcript.language] = chars.get(transcript.language, 0) + len(transcript.text)
    return min(chars, key=lambda language: (-chars[language], language), default=None)


def cut(sound: Iterable[Samples], mono: Mono, size: int) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Yield windows of at most some samples, and where each begins.

    A window that is too long is cut at the quietest 20 ms in its second half.

    Args:
        sound: samples of a recording.
        mono: what mixes and resamples them.
        size: samples of the longest window.

    Examples:
        >>> loud = np.ones((48_000, 1), np.float32)
        >>> loud[24_000:24_400] = 0
        >>> [(start, len(window)) for start, window in cut([loud], Mono(16_000, 16_000), 32_000)]
        [(0, 24160), (24160, 23840)]
    """
    held, start = np.empty(0, np.float32), 0
    for samples in _mixed(sound, mono):
        held = np.concatenate([held, samples])
        while len(held) > size:
            place = quietest(held[:size])
            yield start, held[:place]
            start, held = start + place, held[place:]
    if len(held):
        yield start, held


def _mixed(sound: Iterable[Samples], mono: Mono) -> Iterator[npt.NDArray[np.float32]]:
    for samples in sound:
        yield mono.take(samples)
    yield mono.rest()


def quietest(samples: npt.NDArray[np.float32]) -> int:
    """The middle of the quietest 20 ms in the second half of samples; all of them if they are too few."""
    frames = (len(samples) - len(samples) // 2) // _FRAME
    if not frames:
        return len(samples)
    first = len(samples) - frames * _FRAME
    loudness = np.square(samples[first:], dtype=np.float64).reshape(frames, _FRAME).sum(axis=1)
    return first + int(loudness.argmin()) * _FRAME + _FRAME // 2

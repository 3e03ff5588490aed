"""`FindSpeakers`: who speaks when in a recording, by clusters of voices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.speaker_clusters import Floats, SmallClusters, voices_of
from dcurate.audio.speaker_overlaps import KeptWindows, OverlapRule, overlap_rule
from dcurate.audio.stage import Mono, SoundStage
from dcurate.audio.voice_encoder import (
    HOP,
    RATE,
    SIZE,
    STEP,
    WINDOW,
    VoiceEncoder,
    powers,
    voice_encoder,
    window_starts,
    windows_of,
)
from dcurate.core.stage import Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.isolate.errors import MediaFault
from dcurate.media.parts import Part, parts_of, type_of_parts

#: A list of turns, in seconds.
TURNS = pa.list_(
    pa.struct([("start", pa.float64()), ("end", pa.float64()), ("speaker", pa.string()), ("overlap", pa.bool_())])
)
#: Samples of a piece of a segment, at most and a half more: a minute. Its level is one, and it is heard at once.
_PIECE = 60 * RATE
#: Samples of a slot of time that has one speaker, and of the part of a window that counts for it.
_SLOT, _REACH = STEP * HOP, WINDOW * HOP // 2
#: Windows in a row in which two speak, at least.
_IN_A_ROW = 2


@dataclass
class FindSpeakers(SoundStage):
    """Add who speaks when: turns of speakers within segments of speech, with a flag where two seem to speak.

    A window of 1.6 s every 0.4 s of each segment gets an embedding by Resemblyzer's network; embeddings of a recording
    are clustered, and a cluster is a speaker. A segment is cut where the speaker or the flag changes, to 0.4 s. The new
    columns are the turns, by their start, each with ``start`` and ``end`` in seconds from the start of what the row
    means, ``speaker`` (``speaker_0`` for the first one to speak, and so on) and ``overlap``, and the number of
    speakers. Both are null where the segments are. Speakers of different rows have nothing to do with each other.

    ``overlap`` says that two speakers of the recording seem to speak at once, in two windows in a row. To know what
    that sounds like, windows of different speakers are added up, and go through the network: their embeddings, and
    those of windows with one speaker, train a linear classifier for this recording. A cluster that looks like such
    mixtures, with less than an eighth of the speech, is not a speaker. What the flag cannot find is a voice that never
    speaks alone, and two voices that are clustered as one. The speaker of such a turn is the nearer one.

    Clusters are made in two levels: at most 512 small ones, in order of time, then these by average linkage. A long
    recording needs 512 bytes for each window, 110 MB for 24 hours of speech, and 26 MB for windows that are mixed; its
    time grows with its length. The result is the same for any batch and any number of threads.

    Args:
        segments_field: the column of segments of speech, as `FindSpeech` makes it. One that begins before the last
            ended begins there; one behind the end of the recording has no turn.
        min_similarity: mean cosine of embeddings from which on two clusters are one speaker, 0 to 1. The default was
            chosen on prompts of telephone quality, and cuts one speaker in two more often than it joins two.
        min_speaker_s: seconds of speech of a speaker, about; what is in smaller clusters goes to the nearest speaker.
        max_speakers: the most speakers of a recording; None for any number.
        turns_field: the new column of turns.
        speakers_field: the new column of numbers of speakers.
        model: a file such as Resemblyzer's ``pretrained.pt``; None for that of the package `resemblyzer`, which need
            not be importable: ``pip install --no-deps resemblyzer``. It is read without running code, by Torch (extra
            ``models``).
        name: name of the stage.
        reading: limits of files.

    Raises:
        PipelineError: a setting is out of its range.
        ResourceError: from `setup`, if there is no model or no Torch.
        DataError: the column does not hold segments, or from `setup` if the file is no such model.

    Examples:
        >>> import io, soundfile
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.random.default_rng(1).normal(0, 0.1, 32_000), 16_000, format="WAV")
        >>> rows = pa.table({"bytes": [file.getvalue()], "segments": [[{"start": 0.5, "end": 2.0}]]})
        >>> heard = FindSpeakers().process(DocumentBatch(data=rows)).to_arrow()
        >>> heard["turns"].to_pylist()
        [[{'start': 0.5, 'end': 2.0, 'speaker': 'speaker_0', 'overlap': False}]]
    """

    segments_field: str = "segments"
    min_similarity: float = 0.66
    min_speaker_s: float = 4.0
    max_speakers: int | None = None
    turns_field: str = "turns"
    speakers_field: str = "speakers"
    model: str | None = None
    name: str = "find_speakers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_number(self.min_similarity) or not 0 <= self.min_similarity <= 1:
            raise PipelineError(f"{self.name}: min_similarity={self.min_similarity!r} must be a number, 0 to 1")
        if not _is_number(self.min_speaker_s) or not 0 <= self.min_speaker_s < math.inf:
            raise PipelineError(f"{self.name}: min_speaker_s={self.min_speaker_s!r} must be seconds, 0 or more")
        if self.max_speakers is not None and not (type(self.max_speakers) is int and self.max_speakers > 0):
            raise PipelineError(
                f"{self.name}: max_speakers={self.max_speakers!r} must be a whole number from 1, or None"
            )

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.turns_field: TURNS, self.speakers_field: pa.int64()}

    def inputs(self) -> Spec:
        return ["data"], [self.segments_field]

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "torch": "models"}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        voice_encoder(self.model)

    def answers(self, rows: pa.Table) -> list[Any]:
        self.check_media(rows.column_names)
        type_of_parts(rows, self.segments_field)
        segments = parts_of(rows, self.segments_field)
        known: dict[int, Any] = {}
        for row, parts in enumerate(segments):
            if isinstance(parts, MediaFault):
                known[row] = parts
            elif not parts:
                known[row] = (None, None) if parts is None else ([], 0)
        return self.hear(rows, lambda sound, row: self._listener(sound, segments[row]), known)

    def _listener(self, sound: Sound, parts: Any) -> SpeakerListener:
        least = round(self.min_speaker_s * RATE / _SLOT)
        rules = SpeakerRules(self.min_similarity, least, self.max_speakers)
        return SpeakerListener(voice_encoder(self.model), Mono(sound.rate, RATE), parts, rules)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class SpeakerRules(NamedTuple):
    """What counts as a speaker.

    Args:
        similarity: mean cosine from which on two clusters are one.
        least: windows that a speaker has, where not all have less.
        most: speakers at most; None for any number.
    """

    similarity: float
    least: int
    most: int | None


class SpeechPiece(NamedTuple):
    """A piece of a segment, in samples; its windows begin at a place of all embeddings."""

    segment: int
    start: int
    stop: int


class SpeakerListener:
    """Hears who speaks in the segments of one recording.

    Args:
        encoder: the network.
        mono: makes one channel at 16,000 samples a second.
        parts: segments of speech, with ``start`` and ``end`` in seconds.
        rules: what counts as a speaker.
    """

    def __init__(self, encoder: VoiceEncoder, mono: Mono, parts: Sequence[Part], rules: SpeakerRules) -> None:
        self._encoder, self._mono, self._rules = encoder, mono, rules
        self._planned = pieces(parts)
        self._next = next(self._planned, None)
        self._held: list[Floats] = []  # of the next piece
        self._place = 0  # samples that were heard
        self._pieces: list[SpeechPiece] = []
        self._embeddings: list[npt.NDArray[np.float16]] = []
        self._clusters, self._kept = SmallClusters(SIZE), KeptWindows()

    def hear(self, samples: Samples) -> None:
        self._take(self._mono.take(samples))

    def values(self, truncated: bool) -> Sequence[Any]:
        self._take(self._mono.rest())
        if self._next is not None and self._held:
            self._embed(self._next._replace(stop=self._place))
        rules = self._rules
        voices = voices_of(self._clusters, similarity=rules.similarity, least=rules.least, most=rules.most)
        rule, voices = overlap_rule(self._encoder, self._kept, voices)
        turns = _turns(self._pieces, self._embeddings, voices, rule)
        numbers: dict[int, int] = {}
        for turn in turns:
            turn["speaker"] = f"speaker_{numbers.setdefault(turn['speaker'], len(numbers))}"
        return [turns, len(numbers)]

    def _take(self, samples: Floats) -> None:
        while self._next is not None and len(samples):
            taken = samples[max(0, self._next.start - self._place) : max(0, self._next.stop - self._place)]
            if len(taken):
                self._held.append(taken.copy())
            if self._next.stop > self._place + len(samples):
                break
            self._embed(self._next)
            self._next = next(self._planned, None)
        self._place += len(samples)

    def _embed(self, piece: SpeechPiece) -> None:
        windows = windows_of(powers(np.concatenate(self._held)))
        made = self._encoder.embeddings(windows).astype(np.float16)
        self._held = []
        self._pieces.append(piece)
        self._embeddings.append(made)
        self._clusters.add(made.astype(np.float32))
        self._kept.add(windows, made.astype(np.float32))


def pieces(parts: Sequence[Part]) -> Iterator[SpeechPiece]:
    """Yield the pieces of segments, in order, without overlap, none longer than a minute and a half.

    Examples:
        >>> [(piece.start / RATE, piece.stop / RATE) for piece in pieces([{"start": 1.0, "end": 141.0}])]
        [(1.0, 61.0), (61.0, 101.0), (101.0, 141.0)]
    """
    behind = 0
    for number, part in enumerate(sorted(parts, key=lambda part: (part["start"], part["end"]))):
        start, stop = max(behind, round(part["start"] * RATE)), round(part["end"] * RATE)
        behind = max(behind, stop)
        while stop - start > 1.5 * _PIECE:
            yield SpeechPiece(number, start, start + _PIECE)
            start += _PIECE
        if stop - start > _PIECE:
            middle = start + (stop - start) // 2
            yield SpeechPiece(number, start, middle)
            start = middle
        if stop > start:
            yield SpeechPiece(number, start, stop)


def _turns(
    heard: Sequence[SpeechPiece],
    embeddings: Sequence[npt.NDArray[np.float16]],
    voices: npt.NDArray[np.float64],
    rule: OverlapRule | None,
) -> list[dict[str, Any]]:
    """The turns of all pieces, with numbers of voices as speakers."""
    turns: list[dict[str, Any]] = []
    before = None
    for piece, made in zip(heard, embeddings, strict=True):
        wide = made.astype(np.float64)
        flags = np.zeros(len(wide), np.bool_) if rule is None else rule.flags(wide)
        for start, stop, speaker, overlap in piece_turns(piece.stop - piece.start, wide @ voices.T, flags):
            turn = {"start": (piece.start + start) / RATE, "end": (piece.start + stop) / RATE}
            same = before == piece.segment and (turns[-1]["speaker"], turns[-1]["overlap"]) == (speaker, overlap)
            if same:
                turns[-1]["end"] = turn["end"]
            else:
                turns.append({**turn, "speaker": speaker, "overlap": overlap})
            before = piece.segment
    return turns


def piece_turns(
    samples: int, similar: npt.NDArray[np.float64], flags: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the turns of a piece: first sample, the one behind the last, number of the voice, whether two speak.

    Args:
        samples: length of the piece.
        similar: similarity of its windows to the voices of the speakers: shape (windows, speakers).
        flags: whether two seem to speak in each window.

    Examples:
        >>> similar = np.repeat([[1.0, 0.0], [0.3, 0.9]], 6, axis=0)
        >>> list(piece_turns(90_000, similar, np.arange(12) > 9))
        [(0, 51200, 0, False), (51200, 76800, 1, False), (76800, 90000, 1, True)]
    """
    middles = (window_starts(-(-samples // HOP)) + WINDOW // 2) * HOP
    slots = np.arange(-(-samples // _SLOT)) * _SLOT + _SLOT // 2
    distances = np.abs(slots[:, None] - middles[None, :])
    weights = np.maximum(_REACH - distances, 0) + 1e-3 * (distances == distances.min(axis=1, keepdims=True))
    speakers = without_short((weights @ similar).argmax(axis=1))
    overlaps = _in_a_row(flags)[distances.argmin(axis=1)]
    place = 0
    for (speaker, overlap), slot in groupby(zip(speakers.tolist(), overlaps.tolist(), strict=True)):
        end = min(samples, place + _SLOT * sum(1 for _ in slot))
        yield place, end, speaker, overlap
        place = end


def without_short(speakers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return speakers of slots, where one that has a single slot gives it to the one before, or else behind it.

    Examples:
        >>> without_short(np.array([1, 0, 0, 1, 0, 2, 2])).tolist()
        [0, 0, 0, 0, 0, 2, 2]
    """
    kept = speakers.copy()
    for slot in range(1, len(kept)):
        ends = slot + 1 == len(kept) or speakers[slot + 1] != speakers[slot]
        if ends and kept[slot - 1] != speakers[slot]:
            kept[slot] = kept[slot - 1]
    if len(kept) > 1 and kept[0] != kept[1]:
        kept[0] = kept[1]
    return kept


def _in_a_row(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Flags that are in a row of enough."""
    edges = np.diff(flags.astype(np.int8), prepend=0, append=0)
    kept = np.zeros_like(flags)
    for start, stop in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        kept[start:stop] = stop - start >= _IN_A_ROW
    return kept

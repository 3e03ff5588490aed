"""`Subtitles`: the words and times of the subtitles of films."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import pyarrow as pa

from dcurate.errors import PipelineError, listed
from dcurate.io.files import is_names
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.beside import beside, texts_of_refs
from dcurate.media.cues import FORMATS, CheckedCues, TextSegment
from dcurate.media.refs import Ref
from dcurate.media.rows import row_refs
from dcurate.video.stage import Collector, VideoStage

#: The type of a cue.
CUE = pa.struct(
    [
        ("start", pa.float64()),
        ("end", pa.float64()),
        ("text", pa.string()),
        ("speaker", pa.string()),
        ("overlaps", pa.bool_()),
    ]
)
#: The type of a cue that is left out, with the reason.
_FAULT = pa.struct([("reason", pa.string()), ("start", pa.float64()), ("end", pa.float64()), ("text", pa.string())])
_COLUMNS: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "codec": pa.string(),
    "language": pa.string(),
    "stream": pa.int64(),
    "path": pa.string(),
    "faults": pa.list_(_FAULT),
}


@dataclass(frozen=True)
class _Found:
    """The subtitles of a film.

    Args:
        about: what the columns say of them.
        cues: the cues; None where there are none that are text.
        end_s: end of the film, in seconds; None if it is not known.
        clip: start and end of the clip that the row means.
    """

    about: Mapping[str, Any]
    cues: CheckedCues | None
    end_s: float | None
    clip: tuple[float, float | None] = (0.0, None)


@dataclass
class Subtitles(VideoStage):
    r"""Read the subtitles of films: cues with times and plain words, and the words of all as a transcript.

    Read are text tracks of MP4, QuickTime, Matroska and WebM (``mov_text``, ``wvtt``, which is WebVTT in MP4,
    ``subrip``, ``ass``, ``webvtt``), and of a film without one the files beside it: ``a.srt`` beside ``a.mp4``, and
    before it, with `language`, ``a.en.srt``. Of several tracks it is the first that is not forced, and a default one
    before others; of a row of `TrackRows`, its own. Tags and instructions of fonts and places are no words. Nothing is
    decoded.

    A cue is a segment of the film with its text, ``{start, end, text, speaker, overlaps}``, in seconds from the start
    of the film, or of the clip that the row means, to which it is cut. Cues are in the order of their times;
    ``overlaps`` marks cues that begin before an earlier one ends. `SegmentRows` makes a row of each, `CutAudio` and
    `CutVideo` files of these.

    Times that lie are never those of a segment: such a cue is in ``faults`` with the reason ``not a time`` (such as
    ``99:99:99``), ``before the start``, ``backwards``, ``no duration`` or ``beyond the end`` (it begins after the last
    picture and sound, or ends over a second later). A row of which more than `max_fault_ratio` of the cues are such
    goes to quarantine with the most common of them, as ``bad times: beyond the end``.

    The columns, besides those of cues and transcript, after ``subtitle_``: ``kind`` (``text``; ``images`` where there
    are only tracks of pictures, as those of Blu-ray and DVD, which are not read; ``other`` for codecs that are not
    known), ``codec``, ``language`` and ``stream`` of the track, or ``path`` of the file beside the film, and
    ``faults``. All are null of a film without subtitles, which stays.

    Other faults go to quarantine as with `VideoStage`, and ``no subtitles`` if the track of the row is of another kind,
    ``too many cues`` from a million or 64 MiB on, and ``bad srt`` if a file beside the film is none.

    Args:
        language: language of the tracks, and of files beside films with its code in their names; None for any.
        suffixes: endings of files beside films, in the order in which they are looked for: ``"srt"``, ``"vtt"``,
            ``"ass"``, ``"ssa"``; none to read tracks alone.
        max_fault_ratio: part of the cues whose times may lie, 0 to 1; with 1, all rows stay.
        cues_field: the column for cues.
        transcript_field: the column for the words of all cues, joined by spaces.
        prefix: comes before the names of the other columns.
        reading: limits.
        name: name of the stage.

    Raises:
        PipelineError: an unknown ending, or a ratio out of range.

    Examples:
        >>> import tempfile, av
        >>> from pathlib import Path
        >>> from dcurate import DocumentBatch
        >>> from dcurate.media import ref_array
        >>> folder = tempfile.TemporaryDirectory()
        >>> with av.open(f"{folder.name}/a.mp4", "w") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):
        ...         _ = container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        ...     _ = container.mux(stream.encode())
        >>> cues = "00:00:00,500 --> 00:00:01,000\n<i>Good</i> day.\n\n00:01:00,000 --> 00:02:00,000\nLate.\n"
        >>> _ = Path(folder.name, "a.srt").write_text(cues)
        >>> films = DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(f"{folder.name}/a.mp4")])}))
        >>> stage = Subtitles(max_fault_ratio=0.5)
        >>> [row] = stage.process(films).to_arrow().to_pylist()
        >>> stage.teardown()
        >>> row["transcript"], row["cues"][0]["start"], row["subtitle_faults"][0]["reason"]
        ('Good day.', 0.5, 'beyond the end')
        >>> folder.cleanup()
    """

    language: str | None = None
    suffixes: Sequence[str] = ("srt", "vtt", "ass")
    max_fault_ratio: float = 0.0
    cues_field: str = "cues"
    transcript_field: str = "transcript"
    prefix: str = "subtitle_"
    name: str = "subtitles"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.suffixes and not is_names(self.suffixes)) or not set(self.suffixes) <= set(FORMATS):
            raise PipelineError(f"{self.name}: suffixes={self.suffixes!r} must be some of {listed(FORMATS)}")
        if not 0 <= self.max_fault_ratio <= 1:
            raise PipelineError(f"{self.name}: max_fault_ratio={self.max_fault_ratio!r} must be from 0 to 1")
        if self.language is not None and not (isinstance(self.language, str) and self.language):
            raise PipelineError(f"{self.name}: language={self.language!r} must be a code of ISO 639, such as 'en'")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        kinds = {self.prefix + name: kind for name, kind in _COLUMNS.items()}
        return {self.cues_field: pa.list_(CUE), self.transcript_field: pa.string(), **kinds}

    @property
    def function(self) -> str:
        return "dcurate.video.tracks:read_cues"

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return {"language": self.language}

    def collector(self) -> Collector:
        return _CueCollector()

    def watched(
        self, file: BinaryIO, size: int, clips: Sequence[tuple[float, float | None]], track: int | None = None
    ) -> list[Any]:
        """The subtitles of a film, read once for all clips."""
        [found] = super().watched(file, size, [(0.0, None)], track)
        return [found if isinstance(found, MediaFault) else replace(found, clip=clip) for clip in clips]

    def answers(self, rows: pa.Table) -> list[Any]:
        answers = self._with_files(super().answers(rows), row_refs(rows))
        return [answer if isinstance(answer, MediaFault) else self._values(answer) for answer in answers]

    def _with_files(self, found: list[Any], refs: Sequence[Ref | None]) -> list[Any]:
        """Read the files beside films that have no track of text."""
        for suffix in [form for ending in self.suffixes for form in self._forms(ending)]:
            wanted = [
                ref.file if ref is not None and ref.stream is None and _lacks_text(answer) else None
                for ref, answer in zip(refs, found, strict=True)
            ]
            texts = texts_of_refs(
                [None if ref is None else beside(ref, suffix) for ref in wanted], self.reading.storage_options
            )
            cues: dict[Ref, Any] = {}
            for row, (ref, text) in enumerate(zip(wanted, texts, strict=True)):
                if ref is None or (isinstance(text, MediaFault) and text.reason == "missing"):
                    continue
                if ref not in cues:
                    cues[ref] = self._parsed(text, beside(ref, suffix), found[row].end_s)
                read = cues[ref]
                found[row] = read if isinstance(read, MediaFault) else replace(read, clip=found[row].clip)
        return found

    def _forms(self, suffix: str) -> list[str]:
        return [suffix] if self.language is None else [f"{self.language}.{suffix}", suffix]

    def _parsed(self, text: Any, ref: Ref, end_s: float | None) -> _Found | MediaFault:
        if isinstance(text, MediaFault):
            return text
        path = ref.path if ref.member is None else f"{ref.path}/{ref.member}"
        *_, language, suffix = ["", *path.rpartition("/")[2].split(".")]
        try:
            cues = FORMATS[suffix](text)
        except ValueError as error:
            return MediaFault(f"bad {suffix}", str(error))
        named = self.language if self.language is not None and language == self.language else None
        about = {"subtitle_kind": "text", "codec": suffix, "language": named, "path": path}
        return _Found(about, CheckedCues(cues, end_s), end_s)

    def _values(self, found: _Found) -> list[Any] | MediaFault:
        names = ("subtitle_kind", "codec", "language", "stream", "path")
        about = [found.about.get(name) for name in names]
        if found.cues is None:
            return [None, None, *about, None]
        faults = found.cues.faults
        if len(faults) > self.max_fault_ratio * found.cues.count:
            [(reason, count)] = Counter(reason for reason, _ in faults).most_common(1)
            cue = next(cue for fault, cue in faults if fault == reason)
            of_film = "" if found.end_s is None else f", of a film of {found.end_s:g} s"
            detail = (
                f"{count} of {found.cues.count} cues, such as one from {cue.start_s:g} to {cue.stop_s:g} s{of_film}"
            )
            return MediaFault(f"bad times: {reason}", detail)
        parts = found.cues.between(*found.clip)
        transcript = " ".join(part["text"] for part in parts if part["text"])
        left_out = [
            {"reason": reason, "start": _finite(cue.start_s), "end": _finite(cue.stop_s), "text": cue.text}
            for reason, cue in faults
        ]
        return [parts, transcript, *about, left_out]


@dataclass
class _CueCollector:
    """Collects the cues of a film."""

    cues: list[TextSegment] = field(default_factory=list)

    def take(self, answer: ChildAnswer) -> None:
        self.cues += [
            TextSegment(math.nan if start is None else start, math.nan if stop is None else stop, text, speaker)
            for start, stop, text, speaker in answer.value["cues"]
        ]

    def row(self, answer: ChildAnswer) -> Any:
        self.take(answer)
        about, end_s = answer.value["track"], answer.value["end_s"]
        is_text = about.get("subtitle_kind") == "text"
        return _Found(about, CheckedCues(self.cues, end_s) if is_text else None, end_s)


def _lacks_text(answer: Any) -> bool:
    return isinstance(answer, _Found) and answer.cues is None


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None

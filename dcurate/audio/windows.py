"""Windows over the segments of a recording, for training on conversations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.segments import answered, each, positive
from dcurate.audio.transcripts import durations_of
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaError
from dcurate.media.parts import Part, parts_of, type_of_parts

#: What keeps segments from beginning a window, as counts and seconds.
_LOSSES = ("bandwidth", "sample_rate", "speakers", "window", "no_speaker", "next_bandwidth")
_NOBODY = "no-speaker"
#: Comparisons of the segments or windows of a recording; one that takes more is a fault.
MAX_STEPS = 20_000_000


@dataclass
class SpeechWindows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Join neighbouring segments to windows of about one length; NeMo Curator's ``ALMDataBuilderStage``.

    A window begins at each segment and takes those that follow while it is not too long, has at most `max_speakers`,
    and no segment is of ``no-speaker`` or of too low a bandwidth (``metrics.bandwidth`` of the segment, in Hz; one
    without it has 0). It stays if it has two segments or more, at least `min_speakers`, and a length within
    `tolerance_ratio` of `target_duration_s`. So windows overlap; see `SelectWindows`.

    New columns: ``windows``, a list of ``segments`` and of the seconds of the five busiest speakers
    (``speaker_durations``); ``window_losses``, how many segments begin none, and their seconds (``..._s``), by reason;
    and ``truncations``, the segments that were cut.

    Args:
        segments_field: the column of segments, as in `DropOverlappingSegments`, with their ``speaker``.
        sample_rate_field: the column of samples a second; below `min_sample_rate` a recording has no windows. None if
            all have enough.
        target_duration_s: seconds of a window.
        tolerance_ratio: how much it may differ, by that.
        min_bandwidth: Hz.
        min_sample_rate: Hz.
        min_speakers: different speakers of a window.
        max_speakers: the same.
        truncate: whether a segment that is too long for its window is cut after its last ``words`` that fit.
        drop_fields: fields of segments that windows do not have.
        prefix: comes before the names of the new columns.
        name: name of the stage.

    Raises:
        PipelineError: `target_duration_s` is not above 0, or `min_speakers` exceeds `max_speakers`.

    Examples:
        >>> turns = [
        ...     {"start": 0.0, "end": 55.0, "speaker": "a", "metrics": {"bandwidth": 8000}},
        ...     {"start": 60.0, "end": 115.0, "speaker": "b", "metrics": {"bandwidth": 8000}},
        ... ]
        >>> batch = DocumentBatch(data=pa.table({"segments": [turns]}))
        >>> row = SpeechWindows(sample_rate_field=None).process(batch).to_arrow().to_pylist()[0]
        >>> len(row["windows"]), row["windows"][0]["speaker_durations"][:3], row["window_losses"]["window"]
        (1, [55.0, 55.0, 0.0], 1)
    """

    segments_field: str = "segments"
    sample_rate_field: str | None = "audio_sample_rate"
    target_duration_s: float = 120.0
    tolerance_ratio: float = 0.1
    min_bandwidth: float = 8000
    min_sample_rate: int = 16000
    min_speakers: int = 2
    max_speakers: int = 5
    truncate: bool = True
    drop_fields: Sequence[str] = ("words",)
    prefix: str = ""
    name: str = "speech_windows"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self.name, {"target_duration_s": self.target_duration_s})
        if self.min_speakers > self.max_speakers:
            raise PipelineError(
                f"stage {self.name!r}: min_speakers={self.min_speakers} exceeds max_speakers={self.max_speakers}"
            )
        if {"start", "end"} & set(self.drop_fields):
            raise PipelineError(f"stage {self.name!r}: drop_fields={self.drop_fields!r} must keep start and end")

    def inputs(self) -> Spec:
        fields = (self.segments_field, self.sample_rate_field)
        return ["data"], [field for field in fields if field is not None]

    def outputs(self) -> Spec:
        return ["data"], [self.prefix + name for name in ("windows", "window_losses", "truncations")]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        kind = type_of_parts(table, self.segments_field)
        rates: list[float | None] = [self.min_sample_rate] * table.num_rows
        if self.sample_rate_field is not None:
            rates = durations_of(table, self.sample_rate_field)
        answers = []
        for segments, rate in zip(parts_of(table, self.segments_field), rates, strict=True):
            enough = (rate or 0) >= self.min_sample_rate
            answers += each([segments], self.windows_of if enough else _none_at_this_rate)
        window = pa.struct(
            [
                ("segments", pa.list_(pa.struct([field for field in kind if field.name not in self.drop_fields]))),
                ("speaker_durations", pa.list_(pa.float64())),
            ]
        )
        losses = [(name, pa.int64()) for name in _LOSSES] + [(f"{name}_s", pa.float64()) for name in _LOSSES]
        types = (pa.list_(window), pa.struct(losses), pa.int64())
        return answered(task, answers, dict(zip(self.outputs()[1], types, strict=True)), self.name)

    def windows_of(self, segments: list[Part]) -> tuple[list[Part], dict[str, float], int]:
        """Return the windows over some segments, what keeps segments from beginning one, and the cuts."""
        losses, windows, cuts, steps = _no_losses(), [], 0, 0
        margin = self.target_duration_s * self.tolerance_ratio
        shortest, longest = self.target_duration_s - margin, self.target_duration_s + margin
        for number, segment in enumerate(segments):
            if _bandwidth(segment) < self.min_bandwidth:
                _lose(losses, "bandwidth", segment)
                continue
            taken, current, cut = self._from(segments, number, longest)
            cuts += cut
            steps += current - number + 1
            if steps > MAX_STEPS:
                raise MediaError("too many segments", f"{len(segments)}, of which too many fit into a window")
            duration = (taken[-1]["end"] if taken else segment["end"]) - segment["start"]
            if len(taken) < 2 or not shortest <= duration <= longest:
                _lose(losses, "window", segment)
                if (segments[current].get("speaker") or _NOBODY) == _NOBODY:
                    _lose(losses, "no_speaker", segment)
                elif _bandwidth(segments[current]) < self.min_bandwidth:
                    _lose(losses, "next_bandwidth", segment)
                continue
            durations = sorted(_speakers(taken).values(), reverse=True)
            if len(durations) < self.min_speakers:
                _lose(losses, "speakers", segment)
                continue
            kept = [{name: part[name] for name in part if name not in self.drop_fields} for part in taken]
            windows.append({"segments": kept, "speaker_durations": [*durations[:5], *[0.0] * (5 - len(durations))]})
        return windows, losses, cuts

    def _from(self, segments: list[Part], first: int, longest: float) -> tuple[list[Part], int, int]:
        """The segments of the window that begins at one, the number of the segment where it ended, and cuts."""
        taken: list[Part] = []
        speakers: set[str] = set()
        start, number = segments[first]["start"], first
        for number in range(first, len(segments)):
            segment = segments[number]
            if _bandwidth(segment) < self.min_bandwidth:
                break
            too_long = segment["end"] - start > longest
            if too_long and (not self.truncate or segment["start"] >= start + longest):
                break
            speaker = segment.get("speaker")
            speakers |= {speaker} if speaker else set()
            if too_long:
                segment = _cut(segment, start + longest)
            if len(speakers) > self.max_speakers or _NOBODY in speakers:
                return taken, number, int(too_long)
            taken.append(segment)
            if too_long:
                return taken, number, 1
        return taken, number, 0


@dataclass
class SelectWindows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Of windows that overlap, keep those nearest to one length; NeMo Curator's ``ALMDataOverlapStage``.

    Overlap is the time that two windows share, by the shorter one. Of equally near ones the longer stays, or the
    earlier. As in NeMo Curator, a window stays, too, if one with the same start and end, to the microsecond, does.

    Args:
        windows_field: the column of windows, as `SpeechWindows` makes it.
        min_overlap_ratio: overlap from which on one of two windows goes, 0 to 1; at 0 all that share any time.
        target_duration_s: seconds of the best window.
        output_field: the new column.
        name: name of the stage.

    Raises:
        PipelineError: a setting is out of range.

    Examples:
        >>> windows = [{"segments": [{"start": s, "end": e}]} for s, e in [(0.0, 100.0), (50.0, 170.0), (170.0, 290.0)]]
        >>> kept = SelectWindows().process(DocumentBatch(data=pa.table({"windows": [windows]}))).to_arrow()
        >>> [window["segments"][0]["start"] for window in kept["selected_windows"][0].as_py()]
        [50.0, 170.0]
    """

    windows_field: str = "windows"
    min_overlap_ratio: float = 0.0
    target_duration_s: float = 120.0
    output_field: str = "selected_windows"
    name: str = "select_windows"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self.name, {"target_duration_s": self.target_duration_s})
        if not 0 <= self.min_overlap_ratio <= 1:
            raise PipelineError(f"stage {self.name!r}: min_overlap_ratio={self.min_overlap_ratio} must be from 0 to 1")

    def inputs(self) -> Spec:
        return ["data"], [self.windows_field]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        kind = windows_type(table, self.windows_field)
        answers = each(table[self.windows_field].to_pylist(), self._selected)
        return answered(task, answers, {self.output_field: kind}, self.name)

    def _selected(self, windows: list[Part]) -> tuple[list[Part]]:
        spans = [_span(window) for window in windows]
        kept = {
            (round(start, 6), round(end, 6))
            for start, end in apart(
                [span for span in spans if span is not None], self.min_overlap_ratio, self.target_duration_s
            )
        }
        return (
            [
                w
                for w, span in zip(windows, spans, strict=True)
                if span and (round(span[0], 6), round(span[1], 6)) in kept
            ],
        )


def apart(spans: list[tuple[float, float]], min_overlap_ratio: float, target_s: float) -> list[tuple[float, float]]:
    """The spans that stay, by their start, when of two that overlap the one nearer to a length does.

    Raises:
        MediaError: too many overlap.

    Examples:
        >>> apart([(0, 4), (3, 8), (9, 10)], 0.0, 5.0)
        [(3, 8), (9, 10)]
    """
    spans, gone, steps = sorted(spans), set[int](), 0
    for number, (start, end) in enumerate(spans):
        if number in gone:
            continue
        for other in range(number + 1, len(spans)):
            other_start, other_end = spans[other]
            if other_start >= end:
                break
            steps += 1
            if steps > MAX_STEPS:
                raise MediaError("too many segments", f"{len(spans)} windows, of which too many overlap")
            shorter = min(end - start, other_end - other_start)
            shared = max(0, min(end, other_end) - other_start)
            if other in gone or (shared / shorter if shorter else 0) < min_overlap_ratio:
                continue
            off, other_off = abs(end - start - target_s), abs(other_end - other_start - target_s)
            if off < other_off or (off == other_off and end - start >= other_end - other_start):
                gone.add(other)
            else:
                gone.add(number)
                break
    return [span for number, span in enumerate(spans) if number not in gone]


def windows_type(table: pa.Table, name: str) -> pa.DataType:
    """The type of a column of windows, whose segments are checked to be some.

    Raises:
        DataError: the column does not hold windows.
    """
    column = table[name].combine_chunks() if name in table.column_names else pa.array([])
    kind = column.type
    fields = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if fields is not None and pa.types.is_struct(fields) and fields.get_field_index("segments") >= 0:
        type_of_parts(pa.table({name: pa.array([], fields.field("segments").type)}), name)
        return kind
    type_of_parts(table, name)
    return kind


def _span(window: Part | None) -> tuple[float, float] | None:
    segments = (window or {}).get("segments")
    if not segments:
        return None
    start, end = segments[0]["start"], segments[-1]["end"]
    if start is None or end is None or not -math.inf < start <= end < math.inf:
        raise MediaError("bad segments", f"a window is from {start} to {end} s")
    return start, end


def _none_at_this_rate(segments: list[Part]) -> tuple[list[Part], dict[str, float], int]:
    losses = _no_losses()
    for segment in segments:
        _lose(losses, "sample_rate", segment)
    return [], losses, 0


def _no_losses() -> dict[str, float]:
    return dict.fromkeys(_LOSSES, 0) | dict.fromkeys([f"{name}_s" for name in _LOSSES], 0.0)


def _lose(losses: dict[str, float], reason: str, segment: Part) -> None:
    losses[reason] += 1
    losses[f"{reason}_s"] += segment["end"] - segment["start"]


def _bandwidth(segment: Part) -> float:
    return float((segment.get("metrics") or {}).get("bandwidth") or 0)


def _speakers(segments: Sequence[Part]) -> dict[str, float]:
    """The seconds of each speaker."""
    seconds: dict[str, float] = {}
    for speaker, part in _spoken(segments):
        seconds[speaker] = seconds.get(speaker, 0) + (part["end"] - part["start"])
    return seconds


def _spoken(segments: Sequence[Part]) -> Iterator[tuple[str, Any]]:
    return ((part["speaker"], part) for part in segments if part.get("speaker"))


def _cut(segment: Part, end: float) -> Part:
    """A segment up to the last word that ends in time."""
    words = [word for word in segment.get("words") or [] if word["end"] <= end]
    text = " ".join(word["word"] for word in words if word.get("word"))
    return {**segment, "words": words, "text": text, "end": words[-1]["end"] if words else segment["start"]}

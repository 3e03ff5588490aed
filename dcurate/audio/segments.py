"""Segments of recordings in a column: checks, overlaps, words, and a row for each."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import column_of, python_values
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.refs import ref_array, refs_of
from dcurate.media.stage import with_columns

#: A segment, a word or a window: a structure with `start` and `end` in seconds.
Part = dict[str, Any]

#: Comparisons of segments of a recording; one that takes more, such as a million segments at one time, is a fault.
MAX_STEPS = 20_000_000
_TOO_MANY = "too many segments"


@dataclass
class DropOverlappingSegments(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Leave out segments without words and those that overlap; NeMo Curator's ``OverlapFilterStage``.

    Of two segments that share `min_overlap_s` or of which one contains the other, neither stays. What stays is in a
    new column, sorted by start and end. A column of segments is a list of structures with ``start`` and ``end`` in
    seconds of the recording and any further fields, which are kept as they are; ``text`` and ``words`` are those of the
    segment. A row with a segment that has no start or end, or ends before it starts, goes to quarantine as ``bad
    segments``.

    Args:
        segments_field: the column of segments.
        min_overlap_s: seconds from which on two segments overlap.
        output_field: the new column.
        name: name of the stage.

    Examples:
        >>> segments = [
        ...     {"start": 0.0, "end": 2.0, "text": "one"},
        ...     {"start": 1.0, "end": 3.0, "text": "two"},
        ...     {"start": 4.0, "end": 5.0, "text": "three"},
        ...     {"start": 5.0, "end": 6.0, "text": ""},
        ... ]
        >>> kept = DropOverlappingSegments().process(DocumentBatch(data=pa.table({"segments": [segments]})))
        >>> kept.to_arrow()["separate_segments"].to_pylist()
        [[{'start': 4.0, 'end': 5.0, 'text': 'three'}]]
    """

    segments_field: str = "segments"
    min_overlap_s: float = 0.5
    output_field: str = "separate_segments"
    name: str = "drop_overlapping_segments"

    uses_only_named_columns: ClassVar[bool] = True

    def inputs(self) -> Spec:
        return ["data"], [self.segments_field]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        kind = type_of_parts(table, self.segments_field)
        answers = each(parts_of(table, self.segments_field), self._separate)
        return answered(task, answers, {self.output_field: pa.list_(kind)}, self.name)

    def _separate(self, segments: list[Part]) -> tuple[Any, ...]:
        spoken = [segment for segment in segments if text_of(segment) or segment.get("words")]
        spoken.sort(key=lambda segment: (segment["start"], segment["end"]))
        gone = overlapping([(segment["start"], segment["end"]) for segment in spoken], self.min_overlap_s)
        return ([segment for number, segment in enumerate(spoken) if number not in gone],)


@dataclass
class WordsToSegments(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Give each segment the words that are spoken in it; NeMo Curator's ``MergeAlignmentDiarizationStage``.

    A word goes to the segment that contains it, or else to that of two neighbours with which it shares more time, the
    earlier if both are equal; a word in a gap goes to none. The new column has the segments by their start, with
    ``text`` and ``words`` in place of those they had. It is null where either column is.

    Args:
        segments_field: the column of segments, such as turns of speakers, as in `DropOverlappingSegments`.
        words_field: the column of words: lists of structures with ``word``, ``start`` and ``end``, and maybe others.
        output_field: the new column.
        name: name of the stage.

    Examples:
        >>> words = [{"word": "good", "start": 0.1, "end": 0.4}, {"word": "day", "start": 0.9, "end": 1.4}]
        >>> turns = [{"start": 0.0, "end": 1.0, "speaker": "a"}, {"start": 1.0, "end": 2.0, "speaker": "b"}]
        >>> batch = DocumentBatch(data=pa.table({"words": [words], "segments": [turns]}))
        >>> spoken = WordsToSegments().process(batch).to_arrow()["spoken_segments"][0].as_py()
        >>> [(segment["speaker"], segment["text"]) for segment in spoken]
        [('a', 'good'), ('b', 'day')]
    """

    segments_field: str = "segments"
    words_field: str = "words"
    output_field: str = "spoken_segments"
    name: str = "words_to_segments"

    uses_only_named_columns: ClassVar[bool] = True

    def inputs(self) -> Spec:
        return ["data"], [self.segments_field, self.words_field]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        kind, word = type_of_parts(table, self.segments_field), type_of_parts(table, self.words_field)
        answers: list[Any] = []
        for segments, words in zip(
            parts_of(table, self.segments_field), parts_of(table, self.words_field), strict=True
        ):
            if isinstance(segments, list) and isinstance(words, list):
                answers.append((with_words(segments, words),))
            else:
                answers.append(next((value for value in (segments, words) if isinstance(value, MediaFault)), None))
        fields = {field.name: field.type for field in kind} | {"text": pa.string(), "words": pa.list_(word)}
        return answered(task, answers, {self.output_field: pa.list_(pa.struct(fields.items()))}, self.name)


@dataclass
class SegmentRows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row of each segment: a view of the recording, of which nothing is cut or decoded.

    `media_ref` then refers to the segment by ``start_s`` and ``stop_s``; where it was one already, times count from its
    start. The segment itself, with its speaker and text, is in the column ``segment``, its number in
    ``segment_number``; other columns are repeated. A row without segments is dropped as ``no segments``.

    Args:
        segments_field: the column of segments, as in `DropOverlappingSegments`; it is not in the new rows.
        segment_field: the new column of segments.
        number_field: the new column of their numbers, from 0.
        name: name of the stage.

    Raises:
        DataError: rows have no column `media_ref`.

    Examples:
        >>> from dcurate.media.refs import Ref, ref_array
        >>> turns = [{"start": 0.5, "end": 1.0, "speaker": "a"}, {"start": 1.0, "end": 2.0, "speaker": "b"}]
        >>> recording = pa.table({"media_ref": ref_array([Ref("a.wav")]), "segments": [turns]})
        >>> rows = SegmentRows().process(DocumentBatch(data=recording)).to_arrow().to_pylist()
        >>> [(row["media_ref"]["start_s"], row["media_ref"]["stop_s"], row["segment"]["speaker"]) for row in rows]
        [(0.5, 1.0, 'a'), (1.0, 2.0, 'b')]
    """

    segments_field: str = "segments"
    segment_field: str = "segment"
    number_field: str = "segment_number"
    name: str = "segment_rows"

    def inputs(self) -> Spec:
        return ["data"], ["media_ref", self.segments_field]

    def outputs(self) -> Spec:
        return ["data"], [self.segment_field, self.number_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        kind = type_of_parts(table, self.segments_field)
        answers = [answer if answer else "none" for answer in parts_of(table, self.segments_field)]
        kept = quarantined(task, answers, self.name)
        lists: list[Any] = [answer for answer in answers if not isinstance(answer, MediaFault)]
        without = np.array([not isinstance(answer, list) for answer in lists], np.bool_)
        rejections = kept.rejections
        if without.any():
            gone = kept.to_arrow().filter(pa.array(without))
            rejections += (Rejection(self.name, "no segments", gone.num_rows, gone.nbytes, gone),)
        lists = [segments if isinstance(segments, list) else [] for segments in lists]
        rows = np.repeat(np.arange(len(lists)), [len(segments) for segments in lists])
        views = [
            None if ref is None else view_of(ref, segment["start"], segment["end"])
            for ref, segments in zip(refs_of(kept.to_arrow()), lists, strict=True)
            for segment in segments
        ]
        parts = [segment for segments in lists for segment in segments]
        numbers = [number for segments in lists for number in range(len(segments))]
        added = {
            "media_ref": ref_array(views, segments=True),
            self.segment_field: pa.array(parts, kind),
            self.number_field: pa.array(numbers, pa.int64()),
        }
        whole = kept.to_arrow().drop_columns([self.segments_field]).take(pa.array(rows, pa.int64()))
        return replace(kept.with_data(with_columns(whole, pa.table(added))), rejections=rejections)


def view_of(ref: Any, start: float, end: float) -> Any:
    """A reference to a part of a recording, or of a segment of one.

    Examples:
        >>> from dcurate.media.refs import Ref
        >>> view_of(Ref("a.wav", start_s=10.0, stop_s=12.0), 1.0, 5.0).stop_s
        12.0
    """
    first = ref.start_s or 0.0
    stop = first + end if ref.stop_s is None else min(first + end, ref.stop_s)
    return ref._replace(start_s=first + start, stop_s=stop)


def type_of_parts(table: pa.Table, name: str) -> pa.StructType:
    """The type of a segment in a column of segments.

    Raises:
        DataError: the column does not hold segments.
    """
    kind = column_of(table, name).type
    if pa.types.is_null(kind):
        return pa.struct([("start", pa.float64()), ("end", pa.float64())])
    part = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if part is not None and pa.types.is_null(part):
        return pa.struct([("start", pa.float64()), ("end", pa.float64())])
    fields = {field.name: field.type for field in part} if part is not None and pa.types.is_struct(part) else {}
    times = [fields.get("start"), fields.get("end")]
    if not all(time is not None and (pa.types.is_floating(time) or pa.types.is_integer(time)) for time in times):
        raise DataError(f"column {name!r} holds {kind}, not lists of structures with start and end in seconds")
    return part


def parts_of(table: pa.Table, name: str) -> list[list[Part] | MediaFault | None]:
    """The segments of each row, or what is wrong with them; null stays None."""
    return [_checked(segments) for segments in python_values(column_of(table, name))]


def _checked(segments: list[Part | None] | None) -> list[Part] | MediaFault | None:
    if segments is None:
        return None
    for number, segment in enumerate(segments):
        start, end = (None, None) if segment is None else (segment["start"], segment["end"])
        if start is None or end is None or not (math.isfinite(start) and math.isfinite(end)) or end < start:
            return MediaFault("bad segments", f"segment {number} is from {start} to {end} s")
    return [segment for segment in segments if segment is not None]


def each(rows: Sequence[Any], function: Callable[[list[Part]], Any]) -> list[Any]:
    """Call a function with the segments of each row; a `MediaError` is the fault of the row."""
    answers: list[Any] = []
    for segments in rows:
        try:
            answers.append(function(segments) if isinstance(segments, list) else segments)
        except MediaError as error:
            answers.append(error.fault)
    return answers


def answered(
    task: DocumentBatch, answers: Sequence[Any], types: Mapping[str, pa.DataType], stage: str
) -> DocumentBatch:
    """Add the values of new columns, in order; rows with faults go to quarantine, and None makes nulls."""
    kept = quarantined(task, list(answers), stage)
    rows = [answer for answer in answers if not isinstance(answer, MediaFault)]
    columns = {
        name: pa.array([None if row is None else row[place] for row in rows], kind)
        for place, (name, kind) in enumerate(types.items())
    }
    return replace(kept.with_data(with_columns(kept.to_arrow(), pa.table(columns))), rejections=kept.rejections)


def text_of(segment: Part) -> str:
    """The text of a segment, stripped; empty if it has none."""
    return (segment.get("text") or "").strip()


def overlapping(times: Sequence[tuple[float, float]], min_overlap_s: float) -> set[int]:
    """The numbers of the spans that share time with another, or contain one.

    Args:
        times: start and end of each span, sorted.
        min_overlap_s: seconds from which on two spans overlap.

    Raises:
        MediaError: there are too many that do.

    Examples:
        >>> sorted(overlapping([(0, 2), (1.8, 3), (4, 9), (5, 6)], 0.5))
        [2, 3]
    """
    gone: set[int] = set()
    active: list[tuple[float, float, int]] = []
    steps = 0
    for number, (start, end) in enumerate(times):
        while active and active[0][0] <= start:
            heapq.heappop(active)
        steps += len(active)
        if steps > MAX_STEPS:
            raise MediaError(_TOO_MANY, f"{len(times)}, of which too many overlap")
        for other_end, other_start, other in active:
            if other_start < end and (
                min(end, other_end) - start >= min_overlap_s
                or end <= other_end
                or (start <= other_start and end >= other_end)
            ):
                gone |= {number, other}
        heapq.heappush(active, (end, start, number))
    return gone


def with_words(segments: list[Part], words: list[Part]) -> list[Part]:
    """Segments by their start, each with the words that are spoken in it."""
    words = sorted(words, key=lambda word: word["start"])
    segments = sorted(segments, key=lambda segment: segment["start"])
    following = 0
    if not words or not segments:
        return segments
    spoken = []
    for segment, after in zip(segments, [*segments[1:], None], strict=True):
        taken = []
        while following < len(words) and words[following]["start"] < segment["end"]:
            word = words[following]
            shared = _shared(word, segment)
            inside = word["start"] >= segment["start"] and word["end"] <= segment["end"]
            if not inside and after is not None and _shared(word, after) > shared:
                break
            following += 1
            if inside or shared > 0:
                taken.append(word)
        text = " ".join(word.get("word") or "" for word in taken)
        spoken.append({**segment, "text": text, "words": taken})
    return spoken


def _shared(word: Part, segment: Part) -> float:
    """Seconds of a word within a segment."""
    return float(max(0, min(word["end"], segment["end"]) - max(word["start"], segment["start"])))


def positive(stage: str, settings: Mapping[str, float]) -> None:
    """Refuse settings that are not above 0."""
    for name, value in settings.items():
        if not value > 0:
            raise PipelineError(f"stage {stage!r}: {name}={value} must be above 0")

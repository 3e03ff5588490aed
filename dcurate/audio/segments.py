"""Segments of recordings in a column: checks, overlaps, words, and a row for each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.parts import Part, PartFields, check_refers, part_rows, parts_of, type_of_parts
from dcurate.media.stage import with_columns


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
        text_field: a new column of the ``text`` of segments, for rules of text; None for none.
        name: name of the stage.

    Raises:
        DataError: segments have no ``text`` for `text_field`.
        PipelineError: rows have no column `media_ref`; the column ``bytes`` alone cannot say what part of it is meant.

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
    text_field: str | None = None
    name: str = "segment_rows"

    def inputs(self) -> Spec:
        return ["data"], ["media_ref", self.segments_field]

    def outputs(self) -> Spec:
        made = [self.segment_field, self.number_field]
        return ["data"], made if self.text_field is None else [*made, self.text_field]

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_refers(columns, self.name)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(DocumentBatch.given(task).to_arrow().column_names)
        fields = PartFields(self.segments_field, self.segment_field, self.number_field)
        rows = part_rows(task, fields, self.name, "no segments")
        if self.text_field is None:
            return rows
        segments = rows.to_arrow()[self.segment_field].combine_chunks()
        if segments.type.get_field_index("text") < 0:
            raise DataError(
                f"{self.name}: segments in {self.segments_field!r} have no field 'text'; leave out text_field="
            )
        texts = pa.table({self.text_field: pc.struct_field(segments, "text")})
        return replace(rows.with_data(with_columns(rows.to_arrow(), texts)), rejections=rows.rejections)


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
    """The numbers of the spans that share time with another, or contain one; time grows as that of sorting.

    Args:
        times: start and end of each span, sorted.
        min_overlap_s: seconds from which on two spans overlap.

    Examples:
        >>> sorted(overlapping([(0, 2), (1.8, 3), (4, 9), (5, 6)], 0.5))
        [2, 3]
    """
    spans = [(start, end, number) for number, (start, end) in enumerate(times) if end > start]
    points = [(start, end, number) for number, (start, end) in enumerate(times) if end <= start]
    gone = set[int]()
    for some, others in ((spans, points), (points, spans)):
        latest = list(accumulate((end for _, end, _ in others), max))
        for start, end, number in some:
            before = bisect_left(others, (end,))
            if before and latest[before - 1] > start:
                gone.add(number)
    # Of the spans before, the one that ends last shares most; of those after, the next one does.
    reached = -inf
    for place, (start, end, number) in enumerate(spans):
        if reached > start and (
            end <= reached or min(end, reached) - start >= min_overlap_s or spans[place - 1][0] == start
        ):
            gone.add(number)
        reached = max(reached, end)
    earliest_end, next_start = inf, inf
    for start, end, number in reversed(spans):
        if next_start < end and (earliest_end <= end or end - next_start >= min_overlap_s or next_start == start):
            gone.add(number)
        earliest_end, next_start = min(earliest_end, end), start
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

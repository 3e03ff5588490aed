"""Long recordings: where to split them, and how transcripts of the parts are joined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.segments import answered, each, positive
from dcurate.audio.transcripts import durations_of
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.parts import Part, parts_of, type_of_parts

SPAN = pa.struct([("start", pa.float64()), ("end", pa.float64())])


@dataclass
class SplitAtPauses(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Split long recordings where nobody speaks, so that a recogniser takes them; nothing is cut or decoded.

    The rule is that of NeMo Curator's ``SplitLongAudioStage``: a part ends with the last segment that ends within
    `max_duration_s` of its start, so one segment that is longer makes a longer part. Parts of at most `min_duration_s`
    join the next; of the last one nothing is left, as there. The new column has a list of ``start`` and ``end`` in
    seconds, which `Transcribe` takes, and `SegmentRows` makes rows of. A recording without a duration, or one that is
    not above 0, goes to quarantine as ``no duration``.

    Args:
        segments_field: the column of segments with speech, as in `DropOverlappingSegments`.
        duration_field: the column of durations, in seconds.
        max_duration_s: seconds of a part; a shorter recording is one.
        min_duration_s: the same.
        sample_rate: samples a second, to which the ends of parts are rounded up.
        output_field: the new column.
        name: name of the stage.

    Raises:
        PipelineError: a setting is out of range.

    Examples:
        >>> speech = [{"start": 0.0, "end": 40.0}, {"start": 45.0, "end": 70.0}, {"start": 90.0, "end": 120.0}]
        >>> batch = DocumentBatch(data=pa.table({"segments": [speech], "duration": [125.0]}))
        >>> SplitAtPauses(max_duration_s=80.0).process(batch).to_arrow()["splits"].to_pylist()
        [[{'start': 0.0, 'end': 70.0}, {'start': 70.0, 'end': 125.0}]]
    """

    segments_field: str = "segments"
    duration_field: str = "duration"
    max_duration_s: float = 3600.0
    min_duration_s: float = 1.0
    sample_rate: int = 16000
    output_field: str = "splits"
    name: str = "split_at_pauses"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self.name, {"max_duration_s": self.max_duration_s, "sample_rate": self.sample_rate})
        if not 0 <= self.min_duration_s <= self.max_duration_s:
            raise PipelineError(
                f"stage {self.name!r}: min_duration_s={self.min_duration_s} must be from 0 to max_duration_s"
            )

    def inputs(self) -> Spec:
        return ["data"], [self.segments_field, self.duration_field]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        type_of_parts(table, self.segments_field)
        answers: list[Any] = []
        for segments, duration in zip(
            parts_of(table, self.segments_field), durations_of(table, self.duration_field), strict=True
        ):
            if isinstance(segments, MediaFault):
                answers.append(segments)
            elif duration is None or not 0 < duration < math.inf:
                answers.append(MediaFault("no duration", f"it is {duration} s"))
            else:
                answers.append(
                    (
                        [
                            dict(zip(("start", "end"), span, strict=True))
                            for span in self._split(segments or [], duration)
                        ],
                    )
                )
        return answered(task, answers, {self.output_field: pa.list_(SPAN)}, self.name)

    def _split(self, segments: list[Part], duration: float) -> list[tuple[float, float]]:
        if duration < self.max_duration_s:
            return [(0.0, duration)]
        start, spans, rate = 0, [], self.sample_rate
        for point in self._points(segments):
            end = min(math.ceil(point * rate), round(duration * rate))
            if end - start > self.min_duration_s * rate:
                spans.append((start / rate, end / rate))
                start = end
        if round(duration * rate) - start > self.min_duration_s * rate:
            spans.append((start / rate, duration))
        return spans or [(0.0, duration)]

    def _points(self, segments: list[Part]) -> list[float]:
        """The ends of segments after which to split."""
        points: list[float] = []
        start = before = 0.0
        for segment in sorted(segments, key=lambda segment: segment["start"]):
            if segment["end"] - start > self.max_duration_s:
                points.append(before)
                start = before
            before = segment["end"]
        return points


@dataclass
class JoinSplits(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Join transcripts of the parts of a recording; NeMo Curator's ``JoinSplitAudioMetadataStage``.

    Texts are joined by spaces; times of words count from the start of the recording, rounded to milliseconds.

    Args:
        splits_field: the column of parts: lists of structures with ``start``, ``end``, ``text`` and maybe ``words``,
            whose ``start`` and ``end`` count from the start of the part.
        text_field: the new column of texts.
        words_field: the new column of words; null where no part has any.
        name: name of the stage.

    Examples:
        >>> parts = [
        ...     {"start": 0.0, "end": 5.0, "text": "good", "words": [{"word": "good", "start": 1.0, "end": 2.0}]},
        ...     {"start": 5.0, "end": 9.0, "text": "day", "words": [{"word": "day", "start": 0.5, "end": 1.0}]},
        ... ]
        >>> joined = JoinSplits().process(DocumentBatch(data=pa.table({"splits": [parts]}))).to_arrow().to_pylist()[0]
        >>> joined["text"], joined["words"][1]
        ('good day', {'word': 'day', 'start': 5.5, 'end': 6.0})
    """

    splits_field: str = "splits"
    text_field: str = "text"
    words_field: str = "words"
    name: str = "join_splits"

    uses_only_named_columns: ClassVar[bool] = True

    def inputs(self) -> Spec:
        return ["data"], [self.splits_field]

    def outputs(self) -> Spec:
        return ["data"], [self.text_field, self.words_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        fields = {field.name: field.type for field in type_of_parts(table, self.splits_field)}
        words = fields.get("words", pa.list_(pa.struct([("word", pa.string()), *SPAN])))
        answers = each(parts_of(table, self.splits_field), joined)
        return answered(task, answers, {self.text_field: pa.string(), self.words_field: words}, self.name)


def joined(parts: list[Part]) -> tuple[str, list[Part] | None]:
    """The text and words of a recording, from those of its parts."""
    words = [
        {
            **word,
            "start": round((word["start"] or 0) + part["start"], 3),
            "end": round((word["end"] or 0) + part["start"], 3),
        }
        for part in parts
        for word in part.get("words") or []
    ]
    return " ".join(part["text"] for part in parts if part.get("text")), words or None

"""`FlagOverlaps`: turns that share time with a turn of another speaker."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import pyarrow as pa

from dcurate.audio.segments import answered, each, positive
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError
from dcurate.frames.document import DocumentBatch
from dcurate.media.parts import Part, parts_of, type_of_parts

_SHARED, _FLAG, _SPEAKER = "overlap_s", "overlap", "speaker"


@dataclass
class FlagOverlaps(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Flag turns that share time with turns of another speaker, such as those that `ParseSegments` reads from RTTM.

    The new column has the segments in their order, with ``overlap_s``, the seconds in which another speaker has a
    segment, too, and ``overlap``, whether they are `min_overlap_s` or more. A segment that has the flag already, as
    turns of `FindSpeakers` may, keeps it. Segments without a speaker count as those of one more. Time grows as the
    number of segments, but for sorting. A segment without times goes to quarantine, as in `DropOverlappingSegments`.

    Args:
        segments_field: the column of segments, with their ``speaker``.
        min_overlap_s: seconds from which on a segment is flagged.
        output_field: the new column.
        name: name of the stage.

    Raises:
        PipelineError: `min_overlap_s` is not above 0.
        DataError: segments have no ``speaker``.

    Examples:
        >>> turns = [{"start": 0.0, "end": 3.0, "speaker": "a"}, {"start": 2.0, "end": 4.0, "speaker": "b"}]
        >>> batch = DocumentBatch(data=pa.table({"segments": [turns]}))
        >>> flagged = FlagOverlaps().process(batch).to_arrow()["flagged_segments"][0].as_py()
        >>> [(turn["overlap_s"], turn["overlap"]) for turn in flagged]
        [(1.0, True), (1.0, True)]
    """

    segments_field: str = "segments"
    min_overlap_s: float = 0.1
    output_field: str = "flagged_segments"
    name: str = "flag_overlaps"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self.name, {"min_overlap_s": self.min_overlap_s})

    def inputs(self) -> Spec:
        return ["data"], [self.segments_field]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        fields = {field.name: field.type for field in type_of_parts(table, self.segments_field)}
        segments = parts_of(table, self.segments_field)
        if not any(isinstance(turns, list) and turns for turns in segments):
            fields.setdefault(_SPEAKER, pa.string())
        if _SPEAKER not in fields:
            raise DataError(
                f"{self.name}: segments in {self.segments_field!r} have no field {_SPEAKER!r}; "
                "make turns of speakers with FindSpeakers or ParseSegments"
            )
        kind = pa.list_(pa.struct((fields | {_SHARED: pa.float64(), _FLAG: pa.bool_()}).items()))
        answers = each(segments, self._flagged)
        return answered(task, answers, {self.output_field: kind}, self.name)

    def _flagged(self, segments: list[Part]) -> tuple[list[Part]]:
        shared = shared_seconds([(part["start"], part["end"], part[_SPEAKER]) for part in segments])
        return (
            [
                {**part, _SHARED: seconds, _FLAG: part.get(_FLAG) is True or seconds > self.min_overlap_s - 1e-9}
                for part, seconds in zip(segments, shared, strict=True)
            ],
        )


def shared_seconds(turns: Sequence[tuple[float, float, str | None]]) -> list[float]:
    """Return the seconds of each turn in which another speaker has a turn, too.

    Args:
        turns: start, end and speaker of each.

    Examples:
        >>> shared_seconds([(0.0, 5.0, "a"), (1.0, 2.0, "b"), (1.5, 3.0, "c"), (4.0, 6.0, "a")])
        [2.0, 1.0, 1.5, 0.0]
    """
    edges = sorted(
        [(start, 1, who) for start, _, who in turns] + [(end, -1, who) for _, end, who in turns], key=_by_time
    )
    times, totals = [-inf], [0.0]  # the seconds with two speakers or more before each time
    active: Counter[str | None] = Counter()
    speakers, before = 0, 0.0
    for time, change, who in edges:
        times.append(time)
        totals.append(totals[-1] + (time - before if speakers > 1 else 0.0))
        was = active[who] > 0
        active[who] += change
        speakers += (active[who] > 0) - was
        before = time

    def until(time: float) -> float:
        return totals[bisect_right(times, time) - 1]

    return [until(end) - until(start) for start, end, _ in turns]


def _by_time(edge: tuple[float, int, str | None]) -> float:
    return edge[0]

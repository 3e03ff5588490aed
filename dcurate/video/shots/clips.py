"""Clips of films as a column, from shots or at fixed steps, and a row for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError
from dcurate.frames.columns import column_of, python_values
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.parts import Part, PartFields, part_rows, parts_of
from dcurate.media.stage import with_columns
from dcurate.video.shots.find import SHOT
from dcurate.video.shots.spans import ClipLengths, clip_spans, fixed_spans

_NO_RATE = "no frame rate"
#: Seconds by which a frame may be before its time at equal steps: containers round times to milliseconds.
_ROUNDING_S = 0.001


@dataclass
class ShotClips(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add clips within shots: divided where they are too long, cropped, and not too short.

    With the defaults, and shots by `TransNetV2Detector`, the frames are those of NeMo Curator's
    ``TransNetV2ClipExtractionStage``. Times between start and end of a shot are those of equal steps between frames,
    less a millisecond, as Matroska and WebM round the times of frames to milliseconds: no clip begins a frame late. A
    row whose shots have no frames a second goes to quarantine.

    Args:
        lengths: least and greatest length, and what is cut off either end.
        whole_films: whether a film that is one shot has clips.
        limit_clips: clips of a film at most; -1 for all.
        shots_field: the column of shots, as `FindShots` makes it.
        fps_field: the column of frames a second.
        clips_field: the new column, of the same structures as shots.
        name: name of the stage.

    Raises:
        PipelineError: the limit is neither -1 nor above 0.

    Examples:
        >>> shot = {"start": 0.0, "end": 25.0, "start_frame": 0, "end_frame": 750}
        >>> batch = DocumentBatch(data=pa.table({"shots": [[shot]], "shots_fps": [30.0]}))
        >>> clips = ShotClips().process(batch).to_arrow()["clips"][0].as_py()
        >>> [(clip["start"], clip["end"]) for clip in clips]
        [(0.499, 9.499), (10.499, 19.499), (20.499, 24.499)]
    """

    lengths: ClipLengths = field(default_factory=ClipLengths)
    whole_films: bool = True
    limit_clips: int = -1
    shots_field: str = "shots"
    fps_field: str = "shots_fps"
    clips_field: str = "clips"
    name: str = "shot_clips"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.lengths, ClipLengths):
            raise PipelineError(f"stage {self.name!r}: lengths={self.lengths!r} must be ClipLengths(...)")
        check_limit(self.name, self.limit_clips)

    def inputs(self) -> Spec:
        return ["data"], [self.shots_field, self.fps_field]

    def outputs(self) -> Spec:
        return ["data"], [self.clips_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        rates = python_values(column_of(table, self.fps_field))
        rows = zip(parts_of(table, self.shots_field), rates, strict=True)
        answers = [self._clips(shots, rate) for shots, rate in rows]
        return _with_clips(task, answers, self.clips_field, self.name)

    def _clips(self, shots: list[Part] | MediaFault | None, rate: float | None) -> list[Part] | MediaFault | None:
        if not isinstance(shots, list):
            return shots
        try:
            lengths = self.lengths.frames(checked_rate(rate))
            if len(shots) == 1 and not self.whole_films:
                return []
            clips: list[Part] = []
            for shot in shots:
                spans = clip_spans([(shot["start_frame"], shot["end_frame"])], lengths)
                clips += [_between(shot, start, stop) for start, stop in spans]
                if 0 < self.limit_clips <= len(clips):
                    return clips[: self.limit_clips]
        except MediaError as error:
            return error.fault
        return clips


@dataclass
class FixedStrideClips(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add clips of one length at fixed steps, as NeMo Curator's ``FixedStrideExtractorStage`` does.

    The k-th clip is from k strides to ``clip_len_s`` later, or to the end of the film, and is left out if it is shorter
    than `min_clip_length_s`. The film ends after its frames divided by frames a second. A row without these numbers
    goes to quarantine.

    Args:
        clip_len_s: seconds of a clip.
        clip_stride_s: seconds from the start of a clip to that of the next.
        min_clip_length_s: seconds of the shortest clip.
        limit_clips: clips of a film at most; -1 for all.
        frames_field: the column of frames of a film, as `VideoInfo` makes it.
        fps_field: the column of frames a second.
        clips_field: the new column, of structures with ``start`` and ``end`` in seconds, and ``start_frame`` and
            ``end_frame``.
        name: name of the stage.

    Raises:
        PipelineError: a length or stride is not above 0, or the limit is neither -1 nor above 0.

    Examples:
        >>> batch = DocumentBatch(data=pa.table({"video_frames": [750], "video_fps": [30.0]}))
        >>> clips = FixedStrideClips().process(batch).to_arrow()["clips"][0].as_py()
        >>> [(clip["start"], clip["end"]) for clip in clips]
        [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0)]
    """

    clip_len_s: float = 10.0
    clip_stride_s: float = 10.0
    min_clip_length_s: float = 2.0
    limit_clips: int = -1
    frames_field: str = "video_frames"
    fps_field: str = "video_fps"
    clips_field: str = "clips"
    name: str = "fixed_stride_clips"

    uses_only_named_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for setting in ("clip_len_s", "clip_stride_s"):
            value = getattr(self, setting)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise PipelineError(f"stage {self.name!r}: {setting}={value!r} must be a number above 0")
        if not self.min_clip_length_s >= 0:
            raise PipelineError(f"stage {self.name!r}: min_clip_length_s={self.min_clip_length_s!r} must be 0 or more")
        check_limit(self.name, self.limit_clips)

    def inputs(self) -> Spec:
        return ["data"], [self.frames_field, self.fps_field]

    def outputs(self) -> Spec:
        return ["data"], [self.clips_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        columns = [python_values(column_of(table, name)) for name in (self.frames_field, self.fps_field)]
        answers = [self._clips(frames, rate) for frames, rate in zip(*columns, strict=True)]
        return _with_clips(task, answers, self.clips_field, self.name)

    def _clips(self, frames: int | None, rate: float | None) -> list[Part] | MediaFault:
        try:
            fps = checked_rate(rate)
            if frames is None:
                raise MediaError("no number of frames", "the row has none")
            spans = fixed_spans(frames / fps, self.clip_len_s, self.clip_stride_s, self.min_clip_length_s)
        except MediaError as error:
            return error.fault
        return [
            {"start": start, "end": end, "start_frame": int(start * fps), "end_frame": int(end * fps)}
            for start, end in spans[: self.limit_clips if self.limit_clips > 0 else None]
        ]


@dataclass
class ClipRows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row of each clip: a view of the film, of which nothing is cut or decoded.

    `media_ref` then refers to the clip by ``start_s`` and ``stop_s``; where it was one already, times count from its
    start. The clip itself is in the column ``clip``, its number in ``clip_number``; other columns are repeated, but for
    the shots and transitions of the film, which would make rows grow with the number of clips. A row without clips is
    dropped as ``no clips``.

    Args:
        clips_field: the column of clips, as `ShotClips` and `FixedStrideClips` make it, or of shots; it is not in the
            new rows.
        clip_field: the new column of clips.
        number_field: the new column of their numbers, from 0.
        film_fields: columns that are not in the new rows, because they are lists of the whole film.
        name: name of the stage.

    Raises:
        DataError: rows have no column `media_ref`, or the column does not hold clips.

    Examples:
        >>> from dcurate.media.refs import Ref, ref_array
        >>> clips = [{"start": 0.0, "end": 10.0}, {"start": 10.0, "end": 14.0}]
        >>> film = pa.table({"media_ref": ref_array([Ref("a.mp4")]), "clips": [clips]})
        >>> rows = ClipRows().process(DocumentBatch(data=film)).to_arrow().to_pylist()
        >>> [(row["media_ref"]["start_s"], row["media_ref"]["stop_s"], row["clip_number"]) for row in rows]
        [(0.0, 10.0, 0), (10.0, 14.0, 1)]
    """

    clips_field: str = "clips"
    clip_field: str = "clip"
    number_field: str = "clip_number"
    film_fields: Sequence[str] = ("shots", "transitions")
    name: str = "clip_rows"

    def __post_init__(self) -> None:
        if isinstance(self.film_fields, str):
            raise PipelineError(f"stage {self.name!r}: film_fields={self.film_fields!r} must be a list of names")

    def inputs(self) -> Spec:
        return ["data"], ["media_ref", self.clips_field]

    def outputs(self) -> Spec:
        return ["data"], [self.clip_field, self.number_field]

    def dropped_columns(self) -> list[str]:
        return [self.clips_field, *self.film_fields]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(DocumentBatch.given(task).to_arrow().column_names)
        rows = part_rows(task, PartFields(self.clips_field, self.clip_field, self.number_field), self.name, "no clips")
        table = rows.to_arrow()
        gone = [name for name in self.film_fields if name in table.column_names]
        return replace(rows.with_data(table.drop_columns(gone)), rejections=rows.rejections)


def check_limit(stage: str, limit: int) -> None:
    """Refuse a limit of clips that is neither -1 nor above 0.

    Raises:
        PipelineError: it is.
    """
    if limit != -1 and not limit > 0:
        raise PipelineError(f"stage {stage!r}: limit_clips={limit!r} must be above 0, or -1 for all")


def checked_rate(rate: float | None) -> float:
    """Return frames a second.

    Raises:
        MediaError: there are none, or the number makes no sense.
    """
    if rate is None or not 0 < rate < math.inf:
        raise MediaError(_NO_RATE, f"frames a second are {rate}")
    return rate


def _between(shot: Part, first: int, stop: int) -> Part:
    """A clip within a shot, with times between those of its ends."""
    step: float = (shot["end"] - shot["start"]) / (shot["end_frame"] - shot["start_frame"])
    early_s = min(_ROUNDING_S, step / 4)

    def time_s(frame: int) -> float:
        if frame == shot["start_frame"]:
            return float(shot["start"])
        if frame == shot["end_frame"]:
            return float(shot["end"])
        return float(round(shot["start"] + (frame - shot["start_frame"]) * step - early_s, 6))

    return {"start": time_s(first), "end": time_s(stop), "start_frame": first, "end_frame": stop}


def _with_clips(task: DocumentBatch, answers: Sequence[Any], name: str, stage: str) -> DocumentBatch:
    """Add the column of clips; rows with faults go to quarantine."""
    kept = quarantined(task, list(answers), stage)
    lists = [answer for answer in answers if not isinstance(answer, MediaFault)]
    columns: Mapping[str, Any] = {name: pa.array(lists, pa.list_(SHOT))}
    return replace(kept.with_data(with_columns(kept.to_arrow(), pa.table(columns))), rejections=kept.rejections)

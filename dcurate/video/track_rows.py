"""`TrackRows`: a row of each track of a film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.stage import Spec
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io.files import is_names
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.faults import quarantined
from dcurate.media.parts import check_refers
from dcurate.media.refs import REF, ref_array, refs_of
from dcurate.media.stage import with_columns
from dcurate.video.stage import VideoStage

_KINDS = ("video", "audio", "subtitle", "cover", "data", "attachment")
_COLUMNS: dict[str, pa.DataType] = {
    "stream": pa.int64(),
    "kind": pa.string(),
    "codec": pa.string(),
    "language": pa.string(),
    "title": pa.string(),
    "default": pa.bool_(),
    "forced": pa.bool_(),
    "subtitle_kind": pa.string(),
    "start_s": pa.float64(),
    "duration_s": pa.float64(),
}


@dataclass
class TrackRows(VideoStage):
    """Make a row of each track of a film: pictures, sound and subtitles, with one clock.

    `media_ref` then refers to the track by its number, ``stream``: stages that hear sound hear that track, stages that
    look at films look at it, and `Subtitles` reads it. Stages that read whole files send such rows to quarantine as
    ``a track``. Nothing is cut or decoded.

    The columns, after ``track_``: ``stream`` (from 0, as FFmpeg counts), ``kind`` (``video``, ``audio``, ``subtitle``,
    ``cover``, ``data`` or ``attachment``), ``codec`` (``h264``, ``aac``, ``subrip``, ``mov_text``, ``wvtt``,
    ``hdmv_pgs_subtitle``, ...), ``language`` (as the container has it, mostly three letters), ``title``, ``default``
    and ``forced``, ``subtitle_kind`` (``text``, ``images`` for subtitles that are drawn, as those of Blu-ray and DVD,
    or ``other``; null of other tracks), and ``start_s`` and ``duration_s`` in seconds of the clock of the container,
    which starts at 0: null of a track without packets. Other columns are repeated.

    MP4 and QuickTime files tell times by their index; of others, all packets are read. Where a row refers to a clip,
    its tracks refer to the same clip, and the columns are still those of whole tracks. A row without such tracks is
    dropped as ``no tracks``; faults go to quarantine as with `VideoStage`.

    Args:
        kinds: the kinds of tracks that become rows.
        prefix: comes before the name of every column.
        reading: limits.
        name: name of the stage.

    Raises:
        PipelineError: an unknown kind; or rows have no column `media_ref`.

    Examples:
        >>> import tempfile, av
        >>> from dcurate.media import Ref
        >>> file = tempfile.NamedTemporaryFile(suffix=".mp4")
        >>> with av.open(file.name, "w") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):
        ...         _ = container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        ...     _ = container.mux(stream.encode())
        >>> stage = TrackRows()
        >>> rows = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(file.name)])})))
        >>> stage.teardown()
        >>> [row] = rows.to_arrow().to_pylist()
        >>> row["media_ref"]["stream"], row["track_kind"], row["track_codec"], row["track_duration_s"]
        (0, 'video', 'mpeg4', 2.0)
        >>> file.close()
    """

    kinds: Sequence[str] = ("video", "audio", "subtitle")
    prefix: str = "track_"
    name: str = "track_rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_names(self.kinds) or not set(self.kinds) <= set(_KINDS):
            raise PipelineError(f"{self.name}: kinds={self.kinds!r} must be some of {listed(_KINDS)}")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + name: kind for name, kind in _COLUMNS.items()}

    @property
    def function(self) -> str:
        return "dcurate.video.tracks:list_tracks"

    def inputs(self) -> Spec:
        return ["data"], [REF]

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_refers(columns, self.name)

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return [track for track in answer.value["tracks"] if track["kind"] in self.kinds]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(DocumentBatch.given(task).to_arrow().column_names)
        answers = self.answers(task.to_arrow())
        kept = quarantined(task, answers, self.name)
        films = [answer for answer in answers if not isinstance(answer, MediaFault)]
        table, rejections = kept.to_arrow(), kept.rejections
        without = pa.array([not tracks for tracks in films], pa.bool_())
        if any(not tracks for tracks in films):
            gone = table.filter(without)
            rejections += (Rejection(self.name, "no tracks", gone.num_rows, gone.nbytes, gone),)
        rows = pa.array(np.repeat(np.arange(len(films)), [len(tracks) for tracks in films]), pa.int64())
        tracks = [track for tracks in films for track in tracks]
        refs = [
            None if ref is None else ref._replace(stream=track["stream"])
            for ref, track in zip(refs_of(table.select([REF]).take(rows)), tracks, strict=True)
        ]
        added = {REF: ref_array(refs, tracks=True)} | {
            self.prefix + name: pa.array([track.get(name) for track in tracks], kind) for name, kind in _COLUMNS.items()
        }
        return replace(kept.with_data(with_columns(table.take(rows), pa.table(added))), rejections=rejections)

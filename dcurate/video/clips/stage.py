"""`CutVideo`: clips as files of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import pyarrow as pa

from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.cuts import SOURCE, with_cut_names
from dcurate.media.refs import BYTES, REF
from dcurate.video.clips.encoders import Codec, check_encoder
from dcurate.video.stage import Collector, VideoStage

Cut = Literal["exact", "remux"]

_COLUMNS: dict[str, pa.DataType] = {
    "how": pa.string(),
    "start_s": pa.float64(),
    "stop_s": pa.float64(),
    "frames": pa.int64(),
    "frames_encoded": pa.int64(),
}


@dataclass
class CutVideo(VideoStage):
    """Cut the clips that rows mean out of their films, as files in the column ``bytes``.

    ``cut="exact"`` gives the frames that begin in the clip, and no others. Only those from its start up to the next key
    frame are encoded, in the codec of the film; the rest is copied packet for packet (``clip_how`` is ``stitched``). A
    clip that begins with a key frame is copied (``remux``); one without a key frame is encoded (``encoded``), and so is
    one of which encoded and copied frames do not fit together. Stitching is for H.264, H.265, AV1, VP9, VP8, MPEG-4 and
    MPEG-2; each stitched clip is decoded up to its second copied key frame, to see that it is right.

    ``cut="remux"`` encodes nothing: packets are copied from the key frame before the clip on. MP4 and QuickTime files
    have an edit list, so that players and decoders show the frames of the clip only. WebM and Matroska have none: there
    the clip is shown from the key frame on, and ``clip_start_s`` says when that is.

    Sound and subtitles are copied with their times to the picture, and so is the rotation. Plain subtitles become those
    of MP4. A clip is MP4 where that holds its codecs, QuickTime with PCM sound, WebM for VP8 and VP9, and Matroska
    otherwise; pictures of other tracks, WebVTT of MP4 (``wvtt``), attachments and chapters are left out. Equal clips
    of equal films are equal in their bytes.

    The columns, after ``clip_``: ``how``; ``start_s`` and ``stop_s``, the times of the film at which the clip begins
    and ends, which are those of frames; ``frames``, and ``frames_encoded`` of them. `media_ref` is renamed to
    ``source_ref``, and ``file_name`` becomes the name of the film with the times of the row, ``talk-1.5-4.mp4``. Any
    writer of media writes the rows: `VideoFolderWriter`, `NemoClipWriter`, `WebDatasetWriter`, or `PackMedia` for
    Parquet. Put it last before the writer: a clip is in memory as a whole, and the clips of a batch together.

    Rows go to quarantine as with `VideoStage`, and if no frame begins in the clip (``bad segment``), decoding cannot
    begin (``no key frame``), times are missing or go back (``no times``, ``jumping times``), frames change their size
    (``changing size``), a clip is too large (``too large``), no format holds its codecs (``cannot be written``), or no
    encoder takes its pixels (``cannot be encoded``).

    Args:
        cut: ``"exact"`` or ``"remux"``.
        fallback_codec: codec of clips that must be encoded and for whose codec FFmpeg has no encoder: ``"vp9"``,
            ``"av1"`` or ``"h264"``; another if that does not take the pixels, such as 10 bits in VP9.
        max_clip_bytes: bytes of packets that a clip is made of, from the key frame on.
        prefix: comes before the name of every column.
        name: name of the stage.
        reading: limits.

    Raises:
        PipelineError: no such cut or codec, or FFmpeg has no encoder of it.

    Examples:
        >>> import io, av, numpy as np
        >>> from dcurate.media import Ref, ref_array
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25, options={"g": "10"})
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):
        ...         picture = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8))
        ...         _ = container.mux(stream.encode(picture))
        ...     _ = container.mux(stream.encode())
        >>> refs = ref_array([Ref("talk.mp4", start_s=0.48, stop_s=1.6)])
        >>> stage = CutVideo()
        >>> clips = stage.process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()], "media_ref": refs})))
        >>> stage.teardown()
        >>> [row] = clips.to_arrow().select(["file_name", "clip_how", "clip_frames", "clip_frames_encoded"]).to_pylist()
        >>> row
        {'file_name': 'talk-0.48-1.6.mp4', 'clip_how': 'stitched', 'clip_frames': 28, 'clip_frames_encoded': 8}
    """

    cut: Cut = "exact"
    fallback_codec: Codec = "vp9"
    max_clip_bytes: int | str = "256MiB"
    prefix: str = "clip_"
    name: str = "cut_video"

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting, kind in (("cut", Cut), ("fallback_codec", Codec)):
            if getattr(self, setting) not in get_args(kind):
                raise PipelineError(
                    f"{self.name}: {setting}={getattr(self, setting)!r} is not one of {listed(get_args(kind))}"
                )
        self.max_clip_bytes = parse_bytes(self.max_clip_bytes, "max_clip_bytes")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {BYTES: pa.large_binary(), **{self.prefix + name: kind for name, kind in _COLUMNS.items()}}

    @property
    def function(self) -> str:
        return "dcurate.video.clips.cut:cut"

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return {"cut": self.cut, "fallback": self.fallback_codec, "max_clip_bytes": self.max_clip_bytes}

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse rows without films, and a codec without an encoder.

        Raises:
            PipelineError: there is no column of films, or FFmpeg cannot encode `fallback_codec`.
        """
        super().check_columns(columns)
        if self.cut == "exact":
            check_encoder(self.fallback_codec, self.name)

    def optional_inputs(self) -> list[str]:
        return [BYTES, REF, "file_name"]

    def outputs(self) -> tuple[list[str], list[str]]:
        return ["data"], [*self.columns, "file_name", SOURCE]

    def dropped_columns(self) -> list[str]:
        return [REF]

    def collector(self) -> Collector:
        return _ClipPieces()

    def with_values(self, batch: DocumentBatch, rows: Sequence[Any]) -> DocumentBatch:
        """The rows with their clips."""
        suffixes = [suffix for *_, suffix in rows]
        made = super().with_values(batch, [values for *values, _ in rows])
        made.data = with_cut_names(made.to_arrow(), suffixes, "clip")
        return made


@dataclass
class _ClipPieces:
    """Joins the pieces of a clip."""

    pieces: list[bytes] = field(default_factory=list)

    def take(self, answer: ChildAnswer) -> None:
        self.pieces += answer.blobs

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        clip = b"".join(self.pieces)
        self.pieces = []
        return [clip, *(answer.value.get(name) for name in _COLUMNS), str(answer.value.get("suffix"))]

"""Clips as files, with NeMo Curator's names and arguments."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, field
from typing import Any

from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.iterables import split_by_chunk_size
from dcurate.compat.nemo.missing import MissingError
from dcurate.compat.nemo.stages import Spec
from dcurate.compat.nemo.temporary import make_pipeline_temporary_dir
from dcurate.compat.nemo.video_stages.films import ClipRecoder, clips_of_file, said
from dcurate.compat.nemo.video_stages.tasks import Clip, Video, VideoTask, VideoTaskStage
from dcurate.isolate.errors import MediaFault
from dcurate.video.clips.encoders import Codec, check_encoder

_log = logging.getLogger("dcurate.compat.nemo")

SUPPORTED_ENCODERS = ("h264_nvenc", "libvpx-vp9", "libopenh264")

_CODECS: dict[str, Codec] = {
    "h264_nvenc": "h264",
    "libopenh264": "h264",
    "libx264": "h264",  # of 25.09
    "libvpx-vp9": "vp9",
}


@dataclass
class ClipTranscodingStage(VideoTaskStage):
    """Encode clips again, by the encoders of the FFmpeg of PyAV, on CPUs.

    H.264 is encoded by libx264, or by libopenh264 where the FFmpeg has only that, also for ``h264_nvenc``. Sound is
    copied. A clip that cannot be encoded has no file, and the reason in ``errors``.

    Args:
        encoder: one of `SUPPORTED_ENCODERS`, or ``libx264``; it decides the codec.
        num_cpus_per_worker, encoder_threads, encode_batch_size, nb_streams_per_gpu, use_hwaccel, ffmpeg_verbose,
            ray_data_num_cpus: without effect: a slot takes one CPU.
        use_input_bit_rate: has to be False: the quality is constant.
        num_clips_per_chunk: clips of a task, at about 8 seconds each.
        verbose: not used.
    """

    num_cpus_per_worker: float = 6.0
    encoder: str = "h264_nvenc"
    encoder_threads: int = 1
    encode_batch_size: int = 16
    nb_streams_per_gpu: int = 3
    use_hwaccel: bool = False
    use_input_bit_rate: bool = False
    num_clips_per_chunk: int = 32
    ffmpeg_verbose: bool = False
    verbose: bool = False
    name: str = "clip_transcoding"
    ray_data_num_cpus: float | None = None
    _recoder: ClipRecoder | None = field(default=None, init=False, repr=False, compare=False)

    def inputs(self) -> Spec:
        return ["data"], ["source_bytes"]

    def outputs(self) -> Spec:
        return ["data"], []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recoder": None}

    def setup(self, worker_metadata: Any = None) -> None:
        """Look for the encoder.

        Raises:
            ValueError: it is unknown, or not in this FFmpeg.
            MissingError: the bit rate is to be that of the film.
        """
        if self.encoder not in _CODECS:
            raise ValueError(f"Expected encoder in {SUPPORTED_ENCODERS}. Got {self.encoder}")
        if self.encoder == "libvpx-vp9" and self.use_hwaccel:
            raise ValueError("use_hwaccel is not supported with libvpx-vp9 (CPU encoder)")
        if self.use_input_bit_rate:
            raise MissingError("use_input_bit_rate=True of ClipTranscodingStage is not in dcurate: leave it out")
        codec = _CODECS[self.encoder]
        with as_nemo_raises():
            check_encoder(codec, self.name)
        self._recoder = ClipRecoder(fallback_codec=codec)

    def teardown(self) -> None:
        """End the child process."""
        if self._recoder is not None:
            self._recoder.teardown()
            self._recoder = None

    def process(self, task: VideoTask) -> VideoTask | list[VideoTask]:
        """Encode the clips; return tasks of some clips each."""
        video = task.data
        if not video.clips:
            _log.warning("No clips to transcode for %s. Skipping...", video.input_video)
            video.source_bytes = None
            return task
        self._encode(video, video.clips)
        video.source_bytes = None
        chunks = list(split_by_chunk_size(video.clips, self.num_clips_per_chunk * 8, _seconds))
        return [
            VideoTask(
                dataset_name=task.dataset_name,
                data=Video(
                    input_video=video.input_video,
                    metadata=video.metadata,
                    clips=clips,
                    num_total_clips=len(video.clips),
                    num_clip_chunks=len(chunks),
                    clip_chunk_index=number,
                    errors=dict(video.errors),
                ),
                _stage_perf=copy.deepcopy(task._stage_perf),
                _metadata=copy.deepcopy(task._metadata),
            )
            for number, clips in enumerate(chunks)
        ]

    def _encode(self, video: Video, clips: list[Clip]) -> None:
        if self._recoder is None:
            self.setup()
        assert self._recoder is not None
        with make_pipeline_temporary_dir(sub_dir="transcode") as folder:
            path = folder / "input"
            path.write_bytes(video.source_bytes or b"")
            answers = clips_of_file(self._recoder, path, [clip.span for clip in clips])
        for clip, answer in zip(clips, answers, strict=True):
            if isinstance(answer, MediaFault):
                _log.error("Clip %s of %s cannot be encoded: %s", clip.uuid, clip.source_video, said(answer))
                clip.errors["transcode"] = said(answer)
            else:
                clip.buffer = answer[0]


def _seconds(clip: Clip) -> int:
    return int(clip.span[1] - clip.span[0])

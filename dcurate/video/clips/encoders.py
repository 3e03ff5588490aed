"""Encoders of FFmpeg for frames that cannot be copied: one thread, no frames out of order, no times of day."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from dcurate.core.extras import needed
from dcurate.errors import PipelineError, listed
from dcurate.isolate.errors import MediaError
from dcurate.video.clips.output import Muxed

Codec = Literal["vp9", "av1", "h264"]

#: Encoders of each codec, the preferred first, and their options. Quality is meant to be hard to tell from the source.
_ENCODERS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "h264": {
        "libx264": {"crf": "18", "preset": "medium", "bf": "0", "threads": "1", "a53cc": "0", "mbtree": "0"},
        "libopenh264": {"b": "0", "rc_mode": "quality", "qmin": "10", "qmax": "24"},
    },
    "hevc": {
        "libx265": {
            "crf": "20",
            "preset": "medium",
            "x265-params": "log-level=none:bframes=0:pools=none:frame-threads=1:info=0:no-cutree=1",
        }
    },
    "av1": {
        "libsvtav1": {"crf": "23", "preset": "8", "svtav1-params": "lp=1:pred-struct=1"},
        "libaom-av1": {"crf": "20", "b": "0", "cpu-used": "6", "lag-in-frames": "0", "threads": "1"},
    },
    "vp9": {
        "libvpx-vp9": {
            **{"crf": "20", "b": "0", "deadline": "good", "cpu-used": "4", "threads": "1"},
            **{"lag-in-frames": "0", "auto-alt-ref": "0"},
        }
    },
    "vp8": {
        "libvpx": {
            **{"crf": "8", "b": "50M", "qmin": "4", "qmax": "30", "deadline": "good", "cpu-used": "2"},
            **{"lag-in-frames": "0", "auto-alt-ref": "0", "threads": "1"},
        }
    },
    "mpeg2video": {"mpeg2video": {"flags": "+qscale", "global_quality": "236", "bf": "0", "threads": "1"}},
    "mpeg4": {"mpeg4": {"flags": "+qscale", "global_quality": "236", "bf": "0", "threads": "1"}},
}
#: Names that FFmpeg has for pixels of the full range, and those that encoders know.
_FULL_RANGE = {"yuvj420p": "yuv420p", "yuvj422p": "yuv422p", "yuvj444p": "yuv444p", "yuvj440p": "yuv440p"}
_PROFILES = {"Baseline": "baseline", "Constrained Baseline": "baseline", "Main": "main"}


def encoders_of(codec: str) -> list[str]:
    """Return the encoders of a codec that this FFmpeg has, the preferred first."""
    library = needed("av", "encoding clips", "video")
    names = []
    for name in _ENCODERS.get(codec, {}):
        try:
            library.Codec(name, "w")
        except (ValueError, library.FFmpegError):
            continue
        names.append(name)
    return names


def check_encoder(codec: str, stage: str) -> None:
    """Refuse a codec that this FFmpeg cannot encode.

    Raises:
        PipelineError: it has no encoder of it.
    """
    if encoders_of(codec):
        return
    others = [name for name in ("vp9", "av1", "h264") if name != codec and encoders_of(name)]
    raise PipelineError(
        f"{stage}: the FFmpeg of the installed `av` has no encoder of {codec} ({listed(_ENCODERS.get(codec, {}))}); "
        f"choose {listed(others) or 'an FFmpeg that has one'}"
    )


def encoder_for(codecs: Sequence[str], pixels: str) -> tuple[str, str]:
    """Return the first codec of some, and its encoder, that this FFmpeg can encode pixels of a format with.

    Args:
        codecs: names of codecs.
        pixels: name of the format, such as ``"yuv420p10le"``.

    Raises:
        MediaError: there is none.
    """
    library = needed("av", "encoding clips", "video")
    for codec in codecs:
        for name in encoders_of(codec):
            formats = {form.name for form in library.Codec(name, "w").video_formats or ()}
            if not formats or pixels in formats or _FULL_RANGE.get(pixels) in formats:
                return codec, name
    raise MediaError("cannot be encoded", f"no encoder of {listed(dict.fromkeys(codecs))} takes {pixels}")


@dataclass
class ClipEncoder:
    """Encodes the frames of a clip; packets come in the order of frames, with their times.

    Args:
        codec: name of the codec.
        name: name of the encoder.
        stream: stream of the picture of the source.
        like: first frame.

    Raises:
        MediaError: the encoder does not take such frames.
    """

    codec: str
    name: str
    stream: Any
    like: Any
    packets: list[Muxed] = field(default_factory=list)
    template: Any = field(init=False)
    _times: list[int] = field(default_factory=list)
    _container: Any = field(init=False, repr=False)
    _pixels: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        library = needed("av", "encoding clips", "video")
        self._errors = (library.FFmpegError, ValueError)
        os.environ.setdefault("SVT_LOG", "0")  # SVT-AV1 prints its settings to stderr otherwise
        # A container that is thrown away: its stream is what the clip's is made like.
        self._container = library.open(io.BytesIO(), "w", format="nut")
        rate = self.stream.average_rate or self.stream.guessed_rate or Fraction(25)
        rate = Fraction(rate).limit_denominator(1001)
        if not 0 < rate <= 1000:
            rate = Fraction(25)
        options = {"g": "250", **_ENCODERS[self.codec][self.name]}
        source = self.stream.codec_context
        if self.name == "libx264" and source.profile in _PROFILES:
            options["profile"] = _PROFILES[source.profile]
        try:
            made = self._container.add_stream(self.name, rate, options=options)
            context = made.codec_context
            formats = {form.name for form in library.Codec(self.name, "w").video_formats or ()}
            pixels = self.like.format.name
            self._pixels = _FULL_RANGE.get(pixels, pixels) if formats and pixels not in formats else pixels
            made.width, made.height, made.pix_fmt = self.like.width, self.like.height, self._pixels
            context.time_base = 1 / rate
            context.thread_count = 1
            context.flags = (context.flags | _BITEXACT) & ~_GLOBAL_HEADER
            for setting in ("color_range", "color_primaries", "color_trc", "colorspace"):
                setattr(context, setting, getattr(source, setting))
            if source.sample_aspect_ratio:
                context.sample_aspect_ratio = source.sample_aspect_ratio
            context.open()
        except self._errors as error:
            raise MediaError("cannot be encoded", f"{self.name}: {error}") from error
        self.template = made

    def encode(self, frame: Any) -> None:
        """Encode a frame, whose time is in units of the stream."""
        number = len(self._times)
        self._times.append(frame.pts)
        if frame.format.name != self._pixels:
            frame = frame.reformat(format=self._pixels, src_color_range="JPEG", dst_color_range="JPEG")
        frame.pict_type = 0
        frame.time_base, frame.pts = self.template.codec_context.time_base, number
        self._take(frame)

    def finish(self) -> list[Muxed]:
        """Return the packets of all frames.

        Raises:
            MediaError: there are fewer packets than frames.
        """
        self._take(None)
        if len(self.packets) != len(self._times):
            raise MediaError("cannot be encoded", f"{len(self._times)} frames became {len(self.packets)} packets")
        return self.packets

    def _take(self, frame: Any) -> None:
        try:
            made = self.template.codec_context.encode(frame)
        except self._errors as error:
            raise MediaError("cannot be encoded", f"{self.name}: {error}") from error
        for packet in made:
            if len(self.packets) == len(self._times):
                raise MediaError("cannot be encoded", f"{self.name} made more packets than frames")
            pts = self._times[len(self.packets)]
            self.packets.append(Muxed(bytes(packet), pts, pts, 0, bool(packet.is_keyframe)))


#: AV_CODEC_FLAG_BITEXACT and AV_CODEC_FLAG_GLOBAL_HEADER.
_BITEXACT, _GLOBAL_HEADER = 1 << 23, 1 << 22

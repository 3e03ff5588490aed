"""What the container of a film says; it runs in a child process."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.containers import tracks
from dcurate.video.film import MAX_PIXELS, Film
from dcurate.video.policy import FramePolicy
from dcurate.video.selection import FrameSelector
from dcurate.video.tracks import film_tracks

#: Transfer functions of high dynamic range, by the numbers of ITU-T H.273.
_HDR = {16: "pq", 18: "hlg"}
#: Packets after which the child process says that it goes on.
_PROGRESS = 10_000


@dataclass
class Packets:
    """Times of the packets of pictures.

    Args:
        times_s: time of each, in seconds, sorted.
        keys_s: times of key frames, in seconds, sorted.
        truncated: whether packets are missing at the end of the file.
    """

    times_s: npt.NDArray[np.float64]
    keys_s: npt.NDArray[np.float64]
    truncated: bool


def probe(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield what the container says of each clip."""
    film = Film(source, options.get("max_pixels", MAX_PIXELS), request.get("track"))
    container, stream = film.container, film.stream
    context = stream.codec_context
    sound = tracks(container, ["audio"])
    subtitles = [track for track in film_tracks(container, source) if track.kind == "subtitle"]
    values = {
        "container": container.format.name.split(",")[0],
        "codec": context.codec.canonical_name,
        "pixel_format": context.pix_fmt,
        "bits": context.format.components[0].bits if context.format is not None else None,
        "sound_codec": sound[0].codec_context.name if sound and sound[0].codec_context else None,
        "sound_rate": sound[0].codec_context.sample_rate if sound and sound[0].codec_context else None,
        "sound_channels": sound[0].codec_context.layout.nb_channels if sound and sound[0].codec_context else None,
        "sounds": len(sound),
        "subtitles": len(subtitles),
    }
    packets = yield from _packets(film)
    values.update(_of_first_frame(source, film))
    for number, (start_s, stop_s) in enumerate(request["clips"]):
        try:
            timing = _timing(film, packets, start_s, stop_s)
        except MediaError as error:
            yield {"clip": number, "fault": list(error.fault)}, []
            continue
        yield {**values, **timing, "clip": number, "last": True}, []


def _packets(film: Film) -> Generator[Answer | None, None, Packets]:
    """Read the index of the container, or else all packets."""
    base, start_s = film.stream.time_base, film.start_s
    entries = film.stream.index_entries
    if len(entries) and len(entries) == film.stream.frames and film.container.format.name.startswith(("mov", "avi")):
        numbers = (number for entry in entries for number in (entry.timestamp, entry.flags & 1, entry.pos + entry.size))
        index = np.fromiter(numbers, np.int64, 3 * len(entries)).reshape(-1, 3)
        truncated = bool(index[:, 2].max() > film.container.size)
        index[:, 0] -= index[0, 0] - (film.stream.start_time or 0)  # decoding times begin earlier
        ticks_of: tuple[Any, Any] = index[:, 0], index[index[:, 1] == 1, 0]
    else:
        times, keys = ticks_of = array("q"), array("q")
        for count, packet in enumerate(film.packets(), 1):
            ticks = packet.pts if packet.pts is not None else packet.dts
            if ticks is not None:
                times.append(ticks)
                if packet.is_keyframe:
                    keys.append(ticks)
            if count % _PROGRESS == 0:
                yield None
        truncated = film.truncated or film.is_cut(max(times, default=0) * float(base) - start_s)
    seconds = [np.sort(np.array(ticks, np.float64)) * float(base) - start_s for ticks in ticks_of]
    return Packets(seconds[0], seconds[1], truncated)


def _timing(film: Film, packets: Packets, start_s: float, stop_s: float | None) -> dict[str, Any]:
    """Rates and durations of a clip."""
    end_s = film.promised_s or (packets.times_s[-1] + film.frame_s if len(packets.times_s) else 0.0)
    stop_s = end_s if stop_s is None else min(stop_s, end_s)
    if not start_s < stop_s:
        raise MediaError("bad segment", f"from {start_s} to {stop_s} s, of a film of {end_s:g} s")
    is_whole = start_s == 0 and stop_s == end_s
    times = packets.times_s if is_whole else _between(packets.times_s, start_s, stop_s)
    keys = packets.keys_s if is_whole else _between(packets.keys_s, start_s, stop_s)
    gaps = np.diff(times)
    # Matroska counts in milliseconds, so that frames of a constant rate are up to 1 ms early or late.
    usual = float(np.median(gaps)) if len(gaps) else 0.0
    tolerance = 1.01e-3 + 2 * float(film.stream.time_base)
    is_variable = bool(len(gaps)) and bool((np.abs(gaps - usual) > tolerance).any())
    rate = film.stream.average_rate or film.stream.guessed_rate
    ends = np.append(keys, stop_s)
    return {
        "duration_s": round(stop_s - start_s, 6),
        "frames": len(times),
        "fps": float(rate) if rate else None,
        "variable_rate": is_variable,
        "key_frames": len(keys),
        "longest_gop_s": round(float(np.diff(ends).max()), 6) if len(keys) else None,
        "longest_gap_s": round(float(gaps.max()), 6) if len(gaps) else None,
        "bit_rate": round(film.container.size * 8 / end_s) if end_s else None,
        "first_frame_s": round(float(times[0]), 6) if len(times) else None,
        "truncated": packets.truncated,
    }


def _between(times: npt.NDArray[np.float64], start_s: float, stop_s: float) -> npt.NDArray[np.float64]:
    return times[np.searchsorted(times, start_s) : np.searchsorted(times, stop_s)]


def _of_first_frame(source: BinaryIO, film: Film) -> dict[str, Any]:
    """What FFmpeg knows of frames rather than of the container."""
    source.seek(0)
    film = Film(source, film.max_pixels, film.track)
    first = FrameSelector[Any](FramePolicy("first"), 0.0, None, 1.0)
    for chosen in film.chosen([first]):
        if chosen is not None:
            width, height = chosen[1].size
            picture = chosen[1].picture
            return {
                "width": width,
                "height": height,
                "rotation": int(picture.rotation) % 360,
                "interlaced": bool(picture.interlaced_frame),
                "hdr": _HDR.get(int(picture.color_trc or 0)),
            }
    raise MediaError("no pictures", "no frame can be decoded")

"""Speed of decoding, error of motion and memory. Parts ``decode``, ``motion`` and ``memory`` of ``benchmarks.video``.

``decode`` counts frames a CPU-second, on one thread, of the H.264 and AV1 films of ``videos.tar`` (10 to 14 s, up to
512 x 288) and of drawn ones (24 s, 768 x 512, a key frame every second or every ten). CPU time is that of the process
and of all that it started, once everything is loaded. Tools take turns; of `_ROUNDS` rounds the fastest of each counts.
``of_pyav`` is the speed beside that of a loop over PyAV's frames. Of dcurate:

* ``no signals``: the decoder of all stages, where nothing looks at the frames.
* ``all signals but text`` and ``all signals``: `VideoSignals`, without and with ``text=True``.
* ``one frame a second`` and ``key frames``: frames that are chosen; ``times_full`` is how many times as fast as ``no
  signals`` they are through with a film. ``full`` and ``key_frames`` of ``no signals`` are the CPU-seconds of both.

``pyav, key frames`` is a bare loop over key frames alone: what their decoding costs at least.

``motion`` is the largest difference of the two signals of motion to NeMo Curator's formula, written down pixel by pixel
in ``dcurate_testing.nemo_motion``. ``memory`` measures all signals of a film of two hours, whose packets are those of a
drawn one, again and again: ``peak_rss_mb`` adds up the most memory that the process held and its child that decodes;
``template_mb`` is that of the process which the child was forked from, and whose pages it shares; ``peak_pss_mb`` is
the most memory of all three at any one look, each page counted once. ``extract_frames`` is the same of a frame each
second of that film, ``frames_mb`` of JPEG files.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import av
import orjson
import psutil
import pyarrow as pa

from benchmarks import film_peers
from benchmarks.make_films import HEIGHT, WIDTH, shot
from benchmarks.measure import MB, job, measure, peak_mb, versions
from dcurate import DocumentBatch
from dcurate.media.refs import Ref, ref_array
from dcurate.video import ExtractFrames, FramePolicy, VideoSignals, VideoStage
from dcurate_testing import nemo_motion
from dcurate_testing.film_frames import CountFrames

#: Rounds of all tools, and frames that each decodes in one, at least.
_ROUNDS, _FRAMES = 5, 1_200
#: Calls of a tool until one is measured.
_TRIES = 4
_RATE, _SHOTS, _SHOT_S = 25, ("morning", "desert", "coast"), 8
#: Encoders of the drawn films and their options, by the name of the codec.
_ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "h264": ("libx264", {"crf": "23", "threads": "1"}),
    "av1": ("libsvtav1", {"crf": "35", "preset": "8"}),
    "mpeg4": ("mpeg4", {"qscale": "5"}),
}
#: Codecs whose speed is measured.
_MEASURED = ("h264", "av1")
#: Codecs with vectors of motion, and the shorter side of a film whose motion is measured, at least.
_WITH_VECTORS, _LEAST_SIDE = ("h264", "mpeg4"), 256
#: Seconds between the key frames of the drawn films.
_GROUPS_S = (1, 10)
_HOURS = 2
#: What is measured of dcurate; the first is compared with the last two.
_STAGES: dict[str, VideoStage] = {
    "no signals": CountFrames(checksum=False),
    "all signals but text": VideoSignals(),
    "all signals": VideoSignals(text=True),
    "one frame a second": CountFrames(checksum=False, frames=FramePolicy("per_second", 1)),
    "key frames": CountFrames(checksum=False, frames=FramePolicy("key")),
}
_CHOSEN = ("one frame a second", "key frames")
#: The kind of clock of a process that counts its CPU time, see clock_getcpuclockid(3).
_CPU_CLOCK = 2

Films = list[str]
Tool = Callable[[Films], int]


def decode(folder: Path) -> dict[str, Any]:
    """Frames a CPU-second of each tool, by the kind of films."""
    av.logging.set_level(av.logging.PANIC)
    tools: dict[str, Tool] = {"pyav": _each(film_peers.pyav), "pyav, key frames": _each(film_peers.pyav_key_frames)}
    tools |= {name: _each(frames_of) for name, frames_of in film_peers.INSTALLED.items()}
    tools |= {f"dcurate, {name}": _staged(stage) for name, stage in _STAGES.items()}
    figures: dict[str, Any] = {
        "rounds": _ROUNDS,
        "peers": versions("opencv-python-headless", "decord", "daft"),
        "not_installed": film_peers.MISSING,
        "frames": {},
    }
    figures |= {name: {} for name in tools}
    with tempfile.TemporaryDirectory() as place:
        for kind, films in _films(folder, Path(place)).items():
            frames = figures["frames"][kind] = sum(map(film_peers.pyav, films))
            for name, speeds in _compared(tools, films, frames).items():
                for figure, value in speeds.items():
                    figures[name].setdefault(figure, {})[kind] = value
    for stage in _STAGES.values():
        stage.teardown()
    return figures


def _compared(tools: Mapping[str, Tool], films: Films, frames: int) -> dict[str, dict[str, float | None]]:
    """The figures of each tool on films; None where it reads them not, or not whole."""
    seconds = {name: min(times) for name, times in _turns(tools, films, frames).items() if times}
    full = f"dcurate, {next(iter(_STAGES))}"
    compared: dict[str, dict[str, float | None]] = {}
    for name in tools:
        if name not in seconds:
            compared[name] = {"frames_per_cpu_s": None}
        elif name.endswith(_CHOSEN):
            compared[name] = {"times_full": round(seconds[full] / seconds[name], 2)}
        else:
            compared[name] = {
                "frames_per_cpu_s": round(frames / seconds[name]),
                "of_pyav": round(seconds["pyav"] / seconds[name], 3),
            }
    compared[full] |= {"full": round(seconds[full], 4), "key_frames": round(seconds[f"dcurate, {_CHOSEN[-1]}"], 4)}
    return compared


def _turns(tools: Mapping[str, Tool], films: Films, frames: int) -> dict[str, list[float]]:
    """CPU-seconds of each tool in each round; none of a tool that does not see all frames."""
    times: dict[str, list[float]] = {name: [] for name in tools}
    for name, tool in tools.items():
        try:
            seen = tool(films[:2])  # everything is loaded
        except Exception as error:  # each peer has its own
            if name not in film_peers.INSTALLED:
                raise
            print(f"{name} reads them not: {str(error).strip().splitlines()[-1][:200]}")
            seen = 0
        if not name.endswith(_CHOSEN) and seen != sum(map(film_peers.pyav, films[:2])):
            del times[name]
    for _ in range(_ROUNDS):
        for name, taken_s in times.items():
            seen, taken = _measured(tools[name], films)
            if name.endswith(_CHOSEN) or seen == frames:
                taken_s.append(taken)
    return times


def _measured(tool: Tool, films: Films) -> tuple[int, float]:
    """Frames and CPU-seconds of a call, in which no child process was replaced."""
    for _ in range(_TRIES):
        children = _children()
        begin = _cpu_s(children)
        seen = tool(films)
        if _children() == children:
            return seen, _cpu_s(children) - begin
    raise RuntimeError(f"child processes came or went in each of {_TRIES} calls")


def _children() -> list[int]:
    return sorted(process.pid for process in psutil.Process().children(recursive=True))


def _cpu_s(children: list[int]) -> float:
    """CPU time of this process and of children, in seconds, to the nanosecond."""
    return time.process_time() + sum(time.clock_gettime(~child << 3 | _CPU_CLOCK) for child in children)


def _each(frames_of: Callable[[str], int]) -> Tool:
    return lambda films: sum(map(frames_of, films))


def _staged(stage: VideoStage) -> Tool:
    column = "video_decoded_frames" if isinstance(stage, VideoSignals) else "frames"

    def frames_of(films: Films) -> int:
        rows = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([*map(Ref, films)])}))).to_arrow()
        assert rows.num_rows == len(films), "films are missing"
        return sum(rows[column].to_pylist())

    return frames_of


def _films(folder: Path, place: Path) -> dict[str, Films]:
    """The films by kind, so many copies of each that there are frames enough."""
    truth = [orjson.loads(line) for line in (folder / "videos-truth.jsonl").read_bytes().splitlines()]
    sets: dict[str, list[tuple[Path, int]]] = {}
    with tarfile.open(folder / "videos.tar") as archive:
        archive.extractall(place, filter="data")
    for codec in _MEASURED:
        named = [film for film in truth if film.get("codec") == _ENCODERS[codec][0]]
        sets[f"{codec}, videos.tar"] = [(place / film["file"], film["frames"]) for film in named]
    for (codec, group_s), data in drawn().items():
        path = place / f"{codec}-{group_s}.mp4"
        path.write_bytes(data)
        sets[f"{codec}, a key frame every {group_s} s"] = [(path, len(_SHOTS) * _SHOT_S * _RATE)]
    copied: dict[str, Films] = {}
    for kind, films in sets.items():
        copies = -(-_FRAMES // sum(frames for _, frames in films))
        copied[kind] = [str(_copy(path, number)) for number in range(copies) for path, _ in films]
    return copied


def _copy(path: Path, number: int) -> Path:
    """A copy of a film: rows with one path are of one film, and it is decoded once."""
    return Path(shutil.copy(path, path.with_name(f"copy-{number}-{path.name}")))


def drawn(codecs: tuple[str, ...] = _MEASURED, groups_s: tuple[int, ...] = _GROUPS_S) -> dict[Any, bytes]:
    """Draw a film of three shots once, and encode it by each codec, with a key frame every so many seconds."""
    files = {(codec, group_s): io.BytesIO() for codec in codecs for group_s in groups_s}
    sinks: dict[Any, tuple[Any, Any]] = {}
    for (codec, group_s), file in files.items():
        encoder, options = _ENCODERS[codec]
        container = av.open(file, "w", format="mp4")
        stream: Any = container.add_stream(encoder, rate=_RATE, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = WIDTH, HEIGHT, "yuv420p", group_s * _RATE
        sinks[codec, group_s] = container, stream
    numbers = count()
    for name in _SHOTS:
        for pixels in shot(name, 4, _SHOT_S * _RATE):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = next(numbers), Fraction(1, _RATE)
            for container, stream in sinks.values():
                container.mux(stream.encode(frame))
    for container, stream in sinks.values():
        container.mux(stream.encode(None))
        container.close()
    return {key: file.getvalue() for key, file in files.items()}


def motion(folder: Path) -> dict[str, Any]:
    """The largest difference of motion to NeMo Curator's formula, over all films whose codec has vectors."""
    av.logging.set_level(av.logging.PANIC)
    stage, errors, without = VideoSignals(), [], 0
    films = [data for _, data in drawn(_WITH_VECTORS, (1, 10)).items()]
    lines = (folder / "videos-truth.jsonl").read_bytes().splitlines()
    with tarfile.open(folder / "videos.tar") as archive:
        films += [_member(archive, row["file"]) for row in map(orjson.loads, lines) if "expect" not in row]
    for data in films:
        vectors, size = nemo_motion.sampled_vectors(io.BytesIO(data))
        [row] = stage.process(DocumentBatch(data=pa.table({"bytes": [data]}))).to_arrow().to_pylist()
        ours = row["video_motion_global_mean"], row["video_motion_per_patch_min_256"]
        if not vectors or min(size) < _LEAST_SIDE:
            assert ours == (None, None), "motion where NeMo Curator measures none"
            without += 1
            continue
        theirs = nemo_motion.motion(vectors, size)
        errors += [abs(here - there) for here, there in zip(ours, theirs, strict=True)]
    stage.teardown()
    return {"films": len(films) - without, "films_without_motion": without, "max_error": max(errors)}


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def memory(folder: Path) -> dict[str, Any]:
    """All signals of a long film, measured in a process of its own; `folder` is not read."""
    [data] = drawn(("h264",), (10,)).values()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "long.mp4")
        _repeat(data, path)
        usage = measure(job(f"{__name__}:watched", path=str(path)))
        frames = measure(job(f"{__name__}:extracted", path=str(path)))
        size_mb = round(path.stat().st_size / MB, 1)
    peak_mb = {"peak_pss_mb": round(usage.tree.pss_mb, 1)}
    return {"file_mb": size_mb, **usage.result, **peak_mb, "extract_frames": frames.result}


def _repeat(data: bytes, path: Path) -> None:
    """Write a film with the packets of another, again and again, until it has so many hours."""
    with av.open(str(path), "w") as sink, av.open(io.BytesIO(data)) as source:
        stream = sink.add_stream_from_template(source.streams.video[0])
        packets: list[tuple[bytes, Any]] = [(bytes(packet), packet) for packet in source.demux(video=0) if packet.size]
        length = sum(packet.duration for _, packet in packets)
        base = packets[0][1].time_base
        for turn in range(round(_HOURS * 3600 / float(length * base))):
            for content, packet in packets:
                copy = av.Packet(content)
                copy.pts, copy.dts = packet.pts + turn * length, packet.dts + turn * length
                copy.duration, copy.time_base, copy.is_keyframe = packet.duration, base, packet.is_keyframe
                copy.stream = stream
                sink.mux_one(copy)


def watched(path: str) -> dict[str, Any]:
    """Measure a film in this process and its children; the peaks are those of the kernel."""
    stage = VideoSignals(text=True)
    begin = time.process_time()
    [row] = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(path)])}))).to_arrow().to_pylist()
    peaks = _peaks(begin)
    stage.teardown()
    return {"hours": round(row["video_decoded_frames"] / _RATE / 3600, 3), **peaks}


def extracted(path: str) -> dict[str, Any]:
    """Extract a frame each second of a film, more than fit into memory; the peaks are those of the kernel."""
    stage = ExtractFrames(FramePolicy("per_second", 1), max_frame_bytes="8GiB")
    begin = time.process_time()
    made = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(path)])})))
    peaks = _peaks(begin)
    stage.teardown()
    size = sum(batch.to_arrow()["bytes"].nbytes for batch in made)
    return {"frames": sum(batch.num_items for batch in made), "frames_mb": round(size / MB, 1), **peaks}


def _peaks(begin: float) -> dict[str, float]:
    """Peaks of this process and its children, and their CPU-seconds since `begin` of this one."""
    children = _children()
    cpu_s = time.process_time() - begin + _cpu_s(children) - time.process_time()
    own_mb, [template_mb, child_mb] = peak_mb(), sorted(map(peak_mb, children))
    return {
        "peak_rss_mb": round(own_mb + child_mb, 1),
        "own_mb": round(own_mb, 1),
        "child_mb": round(child_mb, 1),
        "template_mb": round(template_mb, 1),
        "cpu_s": round(cpu_s, 1),
    }


PARTS = {"decode": decode, "motion": motion, "memory": memory}

"""Films that repeat others are found again after they were changed; others are not."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dcurate import InlineExecutor, ParquetReader, ParquetWriter, Pipeline, PipelineError
from dcurate.kernels.frame_sequences import align_frames
from dcurate.media.refs import Ref, ref_array
from dcurate.video import VideoExactDuplicates, VideoNearDuplicates
from dcurate.video.duplicates.prints import frame_hash, without_bars
from tests.video.films import film

pytestmark = pytest.mark.program

SCENES, SCENE_S, RATE = 4, 2.0, 12.5
FILMS = 3


def scene(seed):
    """A picture with coarse structure, twice as wide as a frame."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (6, 14, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((320, 120), Image.Resampling.BICUBIC))


def shot(seed, time_s, size=(160, 120)):
    """A frame of film `seed` at a time: a pan over one of its scenes."""
    number = min(int(time_s / SCENE_S), SCENES - 1)
    left = int(20 * (time_s - number * SCENE_S))
    frame = Image.fromarray(scene(100 * seed + number)[:, left : left + 160])
    return np.asarray(frame if size == (160, 120) else frame.resize(size, Image.Resampling.BOX))


def between_bars(frame):
    return np.pad(frame, ((24, 24), (0, 0), (0, 0)))


@dataclass
class Version:
    """How a film is made from its scenes."""

    kind: str = "mpeg4"
    speed: float = 1.0
    span: tuple[float, float] = (0.0, SCENES * SCENE_S)
    change: Callable[[np.ndarray], np.ndarray] | None = None
    size: tuple[int, int] = (160, 120)


def made(seed, version=Version()):  # noqa: B008
    (start_s, stop_s), speed = version.span, version.speed
    times = [number / RATE for number in range(int((stop_s - start_s) / speed * RATE))]

    def pictures(number):
        frame = shot(seed, start_s + speed * times[number], version.size)
        return frame if version.change is None else version.change(frame)

    return film(version.kind, frames=len(times), times=times, pictures=pictures)


CHANGES = {
    "codec": Version(kind="vp9"),
    "small": Version(size=(80, 60)),
    "stretched": Version(size=(160, 80)),
    "bars": Version(change=between_bars),
    "trimmed": Version(span=(0.9, 7.3)),
    "slower": Version(speed=0.9),
    "faster": Version(speed=1.1),
    "darker": Version(change=lambda frame: (frame * 0.8).astype(np.uint8)),
}


@pytest.fixture(scope="module")
def rows():
    rows = [{"name": f"{seed}", "bytes": made(seed)} for seed in range(FILMS)]
    for number, (change, version) in enumerate(CHANGES.items()):
        seed = number % FILMS
        rows.append({"name": f"{seed} {change}", "bytes": made(seed, version)})
    rows.append({"name": "half", "bytes": made(0, Version(span=(0.0, 3.0)))})
    rows.append({"name": "mirrored", "bytes": made(1, Version(change=lambda frame: frame[:, ::-1]))})
    for name in ("black", "black again"):
        rows.append({"name": name, "bytes": film(frames=20, pictures=lambda _: np.zeros((48, 64, 3), np.uint8))})
    rows.append({"name": "no file", "bytes": None})
    rows.append({"name": "web page", "bytes": b"<html></html>"})
    return [rows[place] for place in np.random.default_rng(3).permutation(len(rows))]


def run(folder, rows, stage, files=2):
    source = folder / "in"
    source.mkdir(parents=True)
    kinds = {"name": pa.string(), "bytes": pa.large_binary()}
    for number in range(files):
        part = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        columns = {name: pa.array([row[name] for row in part], kind) for name, kind in kinds.items()}
        pq.write_table(pa.table(columns), source / f"{number}.parquet")
    stages = [ParquetReader(str(source)), stage, ParquetWriter(str(folder / "out"))]
    Pipeline("near", stages=stages).run(InlineExecutor(), observers=[])
    tables = [pq.read_table(path) for path in sorted((folder / "out").glob("*.parquet"))]
    return [row for table in tables for row in table.to_pylist()]


def groups(rows):
    by_group = {}
    for row in rows:
        if row["duplicate_group"] is not None:
            by_group.setdefault(row["duplicate_group"], set()).add(row["name"])
    return {frozenset(names) for names in by_group.values() if len(names) > 1}


def test_groups_are_the_versions_of_each_film(tmp_path, rows):
    flagged = run(tmp_path, rows, VideoNearDuplicates(action="flag"))
    versions = [f"{number % FILMS} {change}" for number, change in enumerate(CHANGES)]
    expected = {
        frozenset([f"{seed}", *(name for name in versions if name.startswith(f"{seed} "))]) for seed in range(FILMS)
    }
    assert groups(flagged) == expected
    assert [row["name"] for row in flagged] == [row["name"] for row in rows if row["name"] != "web page"]
    kept = run(tmp_path / "many", rows, VideoNearDuplicates(), files=5)
    assert [row["name"] for row in kept] == [row["name"] for row in flagged if not row["is_duplicate"]]
    longest = {row["name"] for row in run(tmp_path / "longest", rows, VideoNearDuplicates(keep="longest"))}
    assert {"2 slower"} <= longest


def remuxed(data, form):
    file = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(file, "w", format=form) as sink:
        track = sink.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = track
                sink.mux(packet)
    return file.getvalue()


def lossless(data):
    """The frames of a film once more, encoded without loss in their own pixel format."""
    file = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(file, "w", format="matroska") as sink:
        track = sink.add_stream("ffv1", rate=25)
        track.width, track.height, track.pix_fmt = 64, 48, "yuv420p"
        track.codec_context.time_base = Fraction(1, 25)
        for number, frame in enumerate(source.decode(video=0)):
            frame.pts, frame.time_base = number, Fraction(1, 25)
            sink.mux(track.encode(frame))
        sink.mux(track.encode(None))
    return file.getvalue()


def test_exact_copies_are_those_by_bytes_by_packets_or_by_frames(tmp_path):
    data = film(frames=30)
    other = film(frames=30, pictures=lambda number: np.full((48, 64, 3), number, np.uint8))
    rows = [
        {"name": "film", "bytes": data},
        {"name": "copy", "bytes": data},
        {"name": "remuxed", "bytes": remuxed(data, "matroska")},
        {"name": "lossless", "bytes": lossless(data)},
        {"name": "shorter", "bytes": film(frames=29)},
        {"name": "other", "bytes": other},
        {"name": "no file", "bytes": None},
        {"name": "damaged", "bytes": b"<html>"},
    ]
    rest = ["shorter", "other", "no file"]
    for by, kept in (
        ("bytes", ["film", "remuxed", "lossless", *rest, "damaged"]),
        ("packets", ["film", "lossless", *rest]),
        ("frames", ["film", *rest]),
    ):
        stage = VideoExactDuplicates(by=by)  # type: ignore[arg-type]
        assert [row["name"] for row in run(tmp_path / by, rows, stage)] == kept, by


@pytest.mark.parametrize("by", ["packets", "frames"])
def test_clips_are_compared_by_what_they_show(by, tmp_path):
    data = film("mkv", frames=100)
    (tmp_path / "a.mkv").write_bytes(data)
    (tmp_path / "b.avi").write_bytes(remuxed(data, "avi"))
    early, late = (0.0, 1.01), (0.51, 1.51)
    spans = [("a.mkv", *early), ("b.avi", *early), ("b.avi", *late), ("a.mkv", *late), ("b.avi", 50.0, 51.0)]
    refs = [Ref(str(tmp_path / name), None, None, None, start_s, stop_s) for name, start_s, stop_s in spans]
    table = pa.table({"n": list(range(5)), "media_ref": ref_array(refs)})
    pq.write_table(table, tmp_path / "in.parquet")
    reader, writer = ParquetReader(str(tmp_path / "in.parquet")), ParquetWriter(str(tmp_path / "o"))
    Pipeline("exact", stages=[reader, VideoExactDuplicates(by=by), writer]).run(InlineExecutor(), observers=[])
    assert pq.read_table(tmp_path / "o")["n"].to_pylist() == [0, 2]


def test_no_pair_within_the_distance_is_missed():
    """The keys of two films meet whenever two of their frames are within the distance."""
    random = np.random.default_rng(4)
    cut = VideoNearDuplicates().parts_of_hashes
    for distance in range(11):
        left = random.integers(0, 2**63, (50, 2)).astype(np.uint64)
        right = left.copy()
        for row in right:
            for bit in random.choice(128, distance, replace=False):
                row[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
        pairs = cut.pairs(np.concatenate([left, right]))
        assert {(number, number + 50) for number in range(50)} <= set(
            zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
        )


def test_bars_do_not_change_the_hash_of_a_frame():
    frame = shot(1, 0.5)
    for padding in (((20, 20), (0, 0)), ((0, 0), (30, 30)), ((7, 31), (11, 5))):
        padded = np.pad(frame, (*padding, (0, 0)))
        assert (frame_hash(padded) == frame_hash(frame)).all()
    assert without_bars(np.zeros((90, 160), np.uint8)).size > 0


def sequence(number, random, step=0.5):
    times = np.arange(number) * step
    return random.integers(0, 2**63, (number, 2)).astype(np.uint64), times, number * step


def test_alignment_finds_offset_and_speed_and_refuses_another_order():
    random = np.random.default_rng(8)
    hashes, times, duration = sequence(80, random)
    for speed in (0.9, 0.97, 1.0, 1.1):
        for first in (0, 10):
            moved = (times[first:] - times[first]) / speed
            result = align_frames(
                (hashes, hashes[first:]), (times, moved), (duration, (duration - first / 2) / speed), 0.5
            )
            assert result == pytest.approx(1 - first / 80, abs=0.03), (speed, first)
    mixed = random.permutation(80)
    assert align_frames((hashes, hashes[mixed]), (times, times), (duration, duration), 0.5) < 0.3
    other, _, _ = sequence(80, random)
    assert align_frames((hashes, other), (times, times), (duration, duration), 0.5) == 0


def test_wrong_settings_are_refused():
    with pytest.raises(PipelineError, match="no clustering 'conected'"):
        VideoNearDuplicates(clustering="conected")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="threshold=0"):
        VideoNearDuplicates(threshold=0)
    with pytest.raises(PipelineError, match="no by='pixels'"):
        VideoExactDuplicates(by="pixels")  # type: ignore[arg-type]

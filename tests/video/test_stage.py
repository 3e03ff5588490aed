import io
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from dcurate import DocumentBatch, PipelineError
from dcurate.media.refs import Ref, ref_array
from dcurate.media.stage import FileReading
from dcurate.video import FramePolicy, VideoReading, VideoStage
from dcurate.video.film import Film
from dcurate.video.selection import FrameSelector
from tests.video.films import KINDS, film

pytestmark = pytest.mark.program

POLICIES = [
    FramePolicy("all"),
    FramePolicy("every", 7),
    FramePolicy("per_second", 1),
    FramePolicy("per_second", 0.2),
    FramePolicy("first"),
    FramePolicy("middle"),
    FramePolicy("last"),
    FramePolicy("key"),
]
CLIPS = [(0.0, None), (0.0, 1.0), (0.37, 1.63), (4.0, 4.5), (24.0, 27.0), (26.3, None)]


@dataclass
class Times(VideoStage):
    name: str = "times"
    policy: FramePolicy = field(default_factory=FramePolicy)
    fate: str = ""
    columns: ClassVar = {"seen": pa.list_(pa.list_(pa.float64())), "truncated": pa.bool_(), "damaged": pa.int64()}

    @property
    def function(self):
        return "tests.video.films:watch"

    @property
    def watch_options(self):
        return {"policy": self.policy.request, "fate": self.fate}


@contextmanager
def times(**settings):
    stage = Times(**settings)
    try:
        yield lambda rows: stage.process(DocumentBatch(data=pa.table(rows)))
    finally:
        stage.teardown()


def looked(rows, **settings):
    with times(**settings) as look:
        return look(rows)


def seen(batch):
    return batch.to_arrow()["seen"].to_pylist()


@pytest.fixture(scope="module", params=sorted(KINDS))
def long_film(request, tmp_path_factory):
    """700 frames at 25 a second: 28 seconds, so that clips at its end are sought."""
    path = tmp_path_factory.mktemp("films") / f"{request.param}.bin"
    path.write_bytes(film(request.param, frames=700, gop=25))
    frames = list(Film(io.BytesIO(path.read_bytes())).chosen([FrameSelector(FramePolicy(), 0.0, None, 28.0)]))
    return path, [
        (round(frame.time_s, 6), frame.is_key, float(frame.pixels()[..., 0].mean()))
        for _, frame in filter(None, frames)
    ]


def test_a_clip_shows_the_frames_of_the_film_alone_and_among_others(long_film):
    path, frames = long_film
    assert len(frames) == 700
    assert [time for time, _, _ in frames] == pytest.approx(np.arange(700) / 25, abs=2e-3)
    for policy in POLICIES:
        with times(policy=policy) as look:
            refs = [Ref(str(path), None, None, None, *clip) for clip in CLIPS]
            clips = [seen(look({"media_ref": ref_array([ref])}))[0] for ref in refs]
            assert seen(look({"media_ref": ref_array(refs)})) == clips
        for (start_s, stop_s), clip in zip(CLIPS, clips, strict=True):
            selector = FrameSelector(policy, start_s, stop_s, 28.0)
            film_frames = [_Plain(*frame) for frame in frames]
            chosen = [choice for frame in film_frames for choice in selector.offer(frame)] + list(selector.rest())
            assert [time for time, _ in clip] == [frame.time_s for frame in chosen], (policy, start_s, stop_s)
            assert [red for _, red in clip] == [frame.red for frame in chosen], (policy, start_s, stop_s)


@dataclass
class _Plain:
    time_s: float
    is_key: bool
    red: float


def test_a_rate_that_varies_is_seen_with_its_times():
    times = [0.0, 0.04, 0.3, 1.1, 1.14, 2.9, 3.0]
    batch = looked({"bytes": [film("vp9", frames=7, times=times)]}, policy=FramePolicy("per_second", 1))
    assert [time for time, _ in seen(batch)[0]] == pytest.approx([0.0, 0.3, 1.14, 3.0])


def test_a_film_in_an_archive_is_read_by_reference(tmp_path):
    data = film(frames=30)
    (tmp_path / "films.bin").write_bytes(b"x" * 1000 + data + b"y" * 5_000_000)
    refs = [
        Ref(str(tmp_path / "films.bin"), "a.mp4", 1000, len(data)),
        Ref(str(tmp_path / "films.bin"), "a", 1000, 5_000_000),
    ]
    batch = looked({"media_ref": ref_array(refs)})
    assert [len(frames) for frames in seen(batch)] == [30, 30]  # the second is read in ranges, with bytes behind it


def test_bad_films_go_to_quarantine_and_good_ones_stay():
    good = film(frames=50)
    data = [good, b"", b"<html>", good[: len(good) // 2], bytes(range(256)) * 50, film("vp9", frames=40)[:-1500], good]
    data.append("no film, but words – ".encode() * 90)
    batch = looked({"n": list(range(8)), "bytes": data})
    assert batch.to_arrow()["n"].to_pylist() == [0, 5, 6]
    assert batch.to_arrow()["truncated"].to_pylist() == [False, True, False]
    reasons = {number: rejection.reason for rejection in batch.rejections for number in rejection.data["n"].to_pylist()}
    assert reasons == {1: "empty", 2: "not a film: HTML or XML", 3: "damaged", 4: "damaged", 7: "not a film: text"}


def test_a_clip_behind_the_end_and_an_impossible_clip_are_faults(tmp_path):
    (tmp_path / "a.mp4").write_bytes(film(frames=25))
    path = str(tmp_path / "a.mp4")
    spans = [(0.5, 0.7), (9.0, 10.0), (0.5, 0.2), (-1.0, 1.0), (90.0, None)]
    batch = looked(
        {"n": list(range(5)), "media_ref": ref_array([Ref(path, None, None, None, *span) for span in spans])}
    )
    assert batch.to_arrow()["n"].to_pylist() == [0]
    assert {rejection.reason for rejection in batch.rejections} == {"bad segment"}
    assert sum(rejection.rows for rejection in batch.rejections) == 4


@pytest.mark.parametrize(("fate", "reason"), [("dies", "crashed: SIGSEGV"), ("hangs", "timed out")])
def test_a_decoder_that_dies_or_hangs_costs_its_row_alone(fate, reason, tmp_path):
    stage = Times(fate=fate, reading=VideoReading(timeout_s=0.5))
    try:
        batch = stage.process(DocumentBatch(data=pa.table({"n": [0, 1], "bytes": [film(frames=5), b"<html>"]})))
    finally:
        stage.teardown()
    assert {rejection.reason: rejection.data["n"].to_pylist() for rejection in batch.rejections} == {
        reason: [0],
        "not a film: HTML or XML": [1],
    }


def test_frames_that_are_too_large_are_refused_before_they_are_decoded():
    batch = looked({"bytes": [film(frames=3)]}, reading=VideoReading(max_pixels=1000))
    assert [rejection.reason for rejection in batch.rejections] == ["too many pixels"]


def test_settings_that_have_no_effect_are_refused():
    with pytest.raises(PipelineError, match="always reads files in a child process"):
        Times(reading=VideoReading(sandbox=False))
    with pytest.raises(PipelineError, match="must be a VideoReading"):
        Times(reading=FileReading())

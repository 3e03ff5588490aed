"""Shots of films, and clips of shots."""

import numpy as np
import pyarrow as pa
import pytest

from dcurate import DocumentBatch, PipelineError
from dcurate.media.refs import Ref, ref_array
from dcurate.testing import check_stage
from dcurate.video import (
    ClipLengths,
    ClipRows,
    ContentDetector,
    FindShots,
    FixedStrideClips,
    GradualDetector,
    ShotClips,
    ThresholdDetector,
    TransNetV2Detector,
    VideoInfo,
)
from dcurate.video.film import Film
from dcurate.video.policy import FramePolicy
from dcurate.video.selection import FrameSelector
from tests.video.films import KINDS, film, picture

pytestmark = pytest.mark.program


def scenes(*ends):
    """A function of numbers that returns frames of scenes that end before these."""
    textures = np.random.default_rng(5).integers(0, 256, (len(ends), 3, 4, 3), dtype=np.uint8)
    textures = textures.repeat(16, axis=1).repeat(16, axis=2)
    return lambda number: textures[sum(number >= end for end in ends[:-1])]


def with_shots(data, detector=None, **settings):
    stage = FindShots(detector or ContentDetector(), **settings)
    try:
        return stage.process(DocumentBatch(data=pa.table({"bytes": data})))
    finally:
        stage.teardown()


def frames_of(shots):
    return [(shot["start_frame"], shot["end_frame"]) for shot in shots]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_shots_have_the_frames_between_cuts(kind):
    batch = with_shots([film(kind, frames=120, pictures=scenes(40, 90, 120))])
    row = batch.to_arrow().to_pylist()[0]
    assert frames_of(row["shots"]) == [(0, 40), (40, 90), (90, 120)]
    assert [shot["start"] for shot in row["shots"]] == pytest.approx([0.0, 1.6, 3.6], abs=2e-3)
    assert row["shots"][-1]["end"] == pytest.approx(4.8, abs=5e-3)
    assert [cut["kind"] for cut in row["transitions"]] == ["cut", "cut"]
    assert row["shots_fps"] == pytest.approx(25.0)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_clip_of_a_shot_has_its_frames_alone(kind, tmp_path):
    data = film(kind, frames=120, pictures=scenes(40, 90, 120))
    (tmp_path / "a").write_bytes(data)
    stage = FindShots()
    rows = stage.process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(str(tmp_path / "a"))])})))
    clips = ClipRows(clips_field="shots").process(rows).to_arrow().to_pylist()
    with (tmp_path / "a").open("rb") as file:
        selectors = [
            FrameSelector(FramePolicy(), clip["media_ref"]["start_s"], clip["media_ref"]["stop_s"], 4.8)
            for clip in clips
        ]
        chosen = [found[0] for found in Film(file).chosen(selectors) if found]
    assert [chosen.count(number) for number in range(3)] == [40, 50, 30]
    stage.teardown()


def test_shots_of_a_clip_count_from_its_start(tmp_path):
    (tmp_path / "a").write_bytes(film("mpeg4", frames=120, pictures=scenes(40, 90, 120)))
    stage = FindShots()
    refs = ref_array([Ref(str(tmp_path / "a"), start_s=1.0, stop_s=4.0)])
    row = stage.process(DocumentBatch(data=pa.table({"media_ref": refs}))).to_arrow().to_pylist()[0]
    stage.teardown()
    assert frames_of(row["shots"]) == [(0, 15), (15, 65), (65, 75)]
    assert [shot["start"] for shot in row["shots"]] == pytest.approx([0.0, 0.6, 2.6], abs=1e-5)


def test_each_detector_finds_what_it_looks_for():
    black = scenes(50, 110)

    def faded(number):
        light = np.clip(abs(number - 50) / 15, 0, 1)
        return (black(number) * light).astype(np.uint8)

    data = [film("mpeg4", frames=110, pictures=faded)]
    ((fade,),) = with_shots(data, GradualDetector()).to_arrow()["transitions"].to_pylist()
    assert fade["kind"] == "gradual"
    assert 33 <= fade["start_frame"] <= 40
    assert 60 <= fade["end_frame"] <= 67
    ((dark,),) = with_shots(data, ThresholdDetector()).to_arrow()["transitions"].to_pylist()
    assert 48 <= dark["start_frame"] <= 52
    cuts = [film("mpeg4", frames=110, pictures=black)]
    shots = with_shots(cuts, TransNetV2Detector(device="cpu")).to_arrow()["shots"].to_pylist()[0]
    assert len(shots) == 2
    assert abs(shots[0]["end_frame"] - 50) <= 1


def test_bad_films_go_to_quarantine():
    good = film("mpeg4", frames=30, pictures=scenes(30))
    batch = with_shots([good, b"<html>", good[: len(good) // 2]])
    assert [frames_of(shots) for shots in batch.to_arrow()["shots"].to_pylist()] == [[(0, 30)]]
    reasons = {rejection.reason for rejection in batch.rejections}
    assert len(reasons) == 2
    assert reasons <= {"damaged", "no pictures", "not a film: HTML or XML"}


def test_finding_shots_keeps_the_laws_of_stages():
    data = [film("mpeg4", frames=40, pictures=scenes(20, 40)), film("vp9", frames=9)]
    check_stage(FindShots(), DocumentBatch(data=pa.table({"bytes": data})), skip=["cluster"])


SHOTS = pa.table(
    {
        "shots": [
            [
                {"start": 0.0, "end": 25.0, "start_frame": 0, "end_frame": 750},
                {"start": 25.0, "end": 26.0, "start_frame": 750, "end_frame": 780},
            ],
            [{"start": 0.0, "end": 5.0, "start_frame": 0, "end_frame": 150}],
            [],
        ],
        "shots_fps": [30.0, 30.0, 30.0],
    }
)


def test_clips_of_shots_are_divided_cropped_and_long_enough():
    clips = ShotClips().process(DocumentBatch(data=SHOTS)).to_arrow()["clips"].to_pylist()
    assert [[(clip["start"], clip["end"]) for clip in row] for row in clips] == [
        [(0.499, 9.499), (10.499, 19.499), (20.499, 24.499)],
        [(0.499, 4.499)],
        [],
    ]
    assert frames_of(clips[0]) == [(15, 285), (315, 585), (615, 735)]


def test_clips_may_be_few_and_films_without_cuts_may_have_none():
    stage = ShotClips(ClipLengths(crop_s=None), limit_clips=2, whole_films=False)
    clips = stage.process(DocumentBatch(data=SHOTS)).to_arrow()["clips"].to_pylist()
    assert [frames_of(row) for row in clips] == [[(0, 300), (300, 600)], [], []]


def test_films_without_a_rate_go_to_quarantine():
    rates = pa.array([30.0, None, 0.0])
    batch = ShotClips().process(DocumentBatch(data=SHOTS.set_column(1, "shots_fps", rates)))
    assert batch.to_arrow().num_rows == 1
    assert {rejection.reason for rejection in batch.rejections} == {"no frame rate"}
    numbers = pa.table({"video_frames": [None, 75, 75], "video_fps": [25.0, None, 25.0]})
    fixed = FixedStrideClips().process(DocumentBatch(data=numbers))
    assert [frames_of(row) for row in fixed.to_arrow()["clips"].to_pylist()] == [[(0, 75)]]
    assert sorted(rejection.reason for rejection in fixed.rejections) == ["no frame rate", "no number of frames"]


def test_fixed_clips_follow_the_info_of_a_film():
    info = VideoInfo()
    rows = info.process(DocumentBatch(data=pa.table({"bytes": [film("mpeg4", frames=60)]})))
    info.teardown()
    stage = FixedStrideClips(clip_len_s=1.0, clip_stride_s=0.5, min_clip_length_s=0.8, limit_clips=3)
    clips = stage.process(rows).to_arrow()["clips"].to_pylist()[0]
    assert [(clip["start"], clip["end"]) for clip in clips] == [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0)]
    assert frames_of(clips) == [(0, 25), (12, 37), (25, 50)]


def test_clips_become_rows_of_references():
    clips = ShotClips().process(DocumentBatch(data=SHOTS.append_column("media_ref", ref_array([Ref("a.mp4")] * 3))))
    rows = ClipRows().process(clips)
    spans = [(row["media_ref"]["start_s"], row["media_ref"]["stop_s"]) for row in rows.to_arrow().to_pylist()]
    assert spans == [(0.499, 9.499), (10.499, 19.499), (20.499, 24.499), (0.499, 4.499)]
    assert rows.to_arrow()["clip_number"].to_pylist() == [0, 1, 2, 0]
    assert [(rejection.reason, rejection.rows) for rejection in rows.rejections] == [("no clips", 1)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FindShots(detector="content"),  # type: ignore[arg-type]
        lambda: ShotClips(lengths=3),  # type: ignore[arg-type]
        lambda: ShotClips(limit_clips=0),
        lambda: FixedStrideClips(clip_stride_s=0),
        lambda: FixedStrideClips(min_clip_length_s=-1),
    ],
)
def test_wrong_settings_are_refused(make):
    with pytest.raises(PipelineError, match="must be"):
        make()


def test_rows_of_clips_do_not_grow_with_the_number_of_clips():
    film_of: dict[str, list[object]] = {name: [[]] for name in ("transitions", "clips")}
    film_of |= {"shots": [[{"start": 0.0, "end": 1.0}] * 1_000], "other": ["kept"]}
    clips = [[{"start": float(number), "end": number + 1.0} for number in range(1_000)]]
    table = pa.table({**film_of, "clips": clips, "media_ref": ref_array([Ref("a.mp4")])})
    rows = ClipRows().process(DocumentBatch(data=table)).to_arrow()
    assert rows.column_names == ["other", "media_ref", "clip", "clip_number"]
    assert rows.num_rows == 1_000
    kept = ClipRows(film_fields=()).process(DocumentBatch(data=table.slice(0, 1))).to_arrow()
    assert {"shots", "transitions"} <= set(kept.column_names)


@pytest.mark.parametrize("kind", ["mpeg4", "vp9"])
def test_clips_within_a_shot_have_their_frames_where_the_container_rounds_times(kind, tmp_path):
    (tmp_path / "a").write_bytes(film(kind, frames=100, rate=12, pictures=picture))
    find = FindShots(ThresholdDetector())
    rows = find.process(DocumentBatch(data=pa.table({"media_ref": ref_array([Ref(str(tmp_path / "a"))])})))
    find.teardown()
    lengths = ClipLengths(min_length_s=0.3, max_length_s=0.6, crop_s=0.1)
    clips = ClipRows().process(ShotClips(lengths).process(rows)).to_arrow().to_pylist()
    assert len(clips) > 10
    with (tmp_path / "a").open("rb") as file:
        selectors = [
            FrameSelector(FramePolicy(), clip["media_ref"]["start_s"], clip["media_ref"]["stop_s"], 8.4)
            for clip in clips
        ]
        seen = [[] for _ in clips]
        for number, frame in filter(None, Film(file).chosen(selectors)):
            seen[number].append(round(frame.time_s * 12))
    assert seen == [list(range(clip["clip"]["start_frame"], clip["clip"]["end_frame"])) for clip in clips]

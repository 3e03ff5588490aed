"""`VideoSignals`: motion as NeMo Curator has it, what changes from frame to frame, and how frames look."""

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageDraw, ImageFont

from dcurate import DocumentBatch, PipelineError
from dcurate.media.refs import Ref, ref_array
from dcurate.video import FramePolicy, VideoSignals
from dcurate_testing import nemo_motion
from tests.video.films import film

pytestmark = pytest.mark.program


def photo(number, height=96, width=160, seed=0, shift=0):
    """A picture of soft spots, one for each seed, moved to the right."""
    spots = np.random.default_rng(seed).integers(20, 236, (height // 16 + 1, width // 16 + 60, 3)).astype(np.float64)
    rows, columns = np.arange(height) / 16, (np.arange(width) + shift * number) / 16
    top, left = rows.astype(int), columns.astype(int)
    down, right = (rows - top)[:, None, None], (columns - left)[None, :, None]
    upper, lower = spots[top], spots[np.minimum(top + 1, len(spots) - 1)]
    mixed = upper * (1 - down) + lower * down
    return (mixed[:, left] * (1 - right) + mixed[:, left + 1] * right).round().astype(np.uint8)


@pytest.fixture(scope="module")
def signals():
    stage = VideoSignals()
    yield lambda *films: looked(stage, {"bytes": films})
    stage.teardown()


def looked(stage, rows):
    batch = stage.process(DocumentBatch(data=pa.table(rows)))
    assert not batch.rejections, batch.rejections
    return [
        {name.removeprefix("video_"): value for name, value in row.items() if name.startswith("video_")}
        for row in batch.to_arrow().to_pylist()
    ]


def other(**settings):
    stage = VideoSignals(**settings)

    def look(rows):
        try:
            return looked(stage, rows)
        finally:
            stage.teardown()

    return look


@pytest.fixture(scope="module", params=["mpeg4", "mpeg4_b", "avi"])
def moving(request):
    """A film of more than 256 pixels, with sides that no block divides."""
    return film(request.param, frames=150, gop=40, pictures=lambda number: photo(number, 270, 394, shift=5))


def test_motion_is_nemos(moving, signals):
    mean, least = nemo_motion.motion(*nemo_motion.sampled_vectors(io.BytesIO(moving)))
    [row] = signals(moving)
    assert row["motion_global_mean"] == pytest.approx(mean, abs=1e-6, rel=1e-5)
    assert row["motion_per_patch_min_256"] == pytest.approx(least, abs=1e-6, rel=1e-5)
    assert mean > 0.001
    assert row["motion_luma"] == pytest.approx(5 / (270 + 394), rel=0.5)


def test_motion_takes_the_frames_that_nemo_takes(moving):
    for fps, ratio in ((5.0, 0.9), (30.0, 0.1), (0.5, 1.0)):
        expected = nemo_motion.motion(*nemo_motion.sampled_vectors(io.BytesIO(moving), fps, ratio))
        [row] = other(motion_fps=fps, motion_ratio=ratio)({"bytes": [moving]})
        assert (row["motion_global_mean"], row["motion_per_patch_min_256"]) == pytest.approx(expected, abs=1e-6)


def test_no_vectors_are_no_motion_by_vectors(signals):
    small = film(frames=30, pictures=lambda n: photo(n, shift=3))
    vp9 = film("vp9", frames=30, pictures=lambda n: photo(n, 272, 400, shift=3))
    for row in signals(small, vp9):
        assert (row["motion_global_mean"], row["motion_per_patch_min_256"]) == (None, None)
        assert row["motion_luma"] > 0.002


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_motion_by_brightness_grows_with_motion(shift, signals):
    [row] = signals(film("mkv", frames=30, pictures=lambda n: photo(n, shift=shift)))
    assert row["motion_luma"] * (160 + 96) == pytest.approx(shift, rel=0.45, abs=0.3)


def test_cuts_are_counted_and_flashes_are_not(signals):
    def shots(number):
        flash = number in (40, 41)
        return np.full((96, 160, 3), 250, np.uint8) if flash else photo(number, seed=number // 25, shift=1)

    steady, cut, flicker = signals(
        film("mkv", frames=100, pictures=lambda n: photo(n, shift=1)),
        film("mkv", frames=100, pictures=shots),
        film("mkv", frames=100, pictures=lambda n: photo(n, shift=1) // 2 + 30 * (n % 2)),
    )
    assert (steady["cuts_per_minute"], cut["cuts_per_minute"]) == (0, 3 * 60 / 4)
    assert flicker["cuts_per_minute"] == 0
    assert flicker["flicker"] == pytest.approx(30 / 255, rel=0.1)
    assert steady["flicker"] < 0.005


def test_shares_are_of_the_time(signals):
    """Frozen is what stays for half a second, whatever the rate."""
    black = np.zeros((96, 160, 3), np.uint8)
    first, varied = signals(
        film("mkv", frames=100, pictures=lambda n: black if n >= 75 else photo(n, shift=3)),
        film("vp9", frames=6, times=[0.0, 1.0, 1.1, 1.2, 1.3, 3.0], pictures=lambda n: photo(n, seed=n)),
    )
    assert (first["black"], first["frozen"]) == pytest.approx((0.25, 0.25), abs=0.02)
    assert varied["frozen"] == pytest.approx(2.7 / 3.2, abs=0.1)
    assert (varied["black"], varied["decoded_frames"]) == (0, 6)


def test_a_slow_fade_is_not_frozen(signals):
    [row] = signals(film("mkv", frames=100, pictures=lambda n: np.full((96, 160, 3), 40 + n, np.uint8)))
    assert row["frozen"] == 0


@pytest.mark.parametrize(("top", "left"), [(16, 0), (0, 32), (16, 32), (0, 0)])
def test_bars_are_found_where_they_stay(top, left, signals):
    def framed(number):
        picture = np.zeros((96, 160, 3), np.uint8)
        picture[top : 96 - top, left : 160 - left] = photo(number, shift=2)[top : 96 - top, left : 160 - left]
        return picture

    [row] = signals(film("mkv", frames=50, pictures=framed))
    assert row["letterbox"] == pytest.approx(1 - (96 - 2 * top) * (160 - 2 * left) / (96 * 160), abs=0.03)


def test_looks_are_those_of_the_pictures(signals):
    grey, red = np.full((96, 160, 3), 128, np.uint8), np.zeros((96, 160, 3), np.uint8)
    red[..., 0] = 255
    noise = np.random.default_rng(1).integers(0, 256, (96, 160, 3)).astype(np.uint8)
    plain, coloured, sharp = signals(*(film("mkv", frames=20, pictures=lambda n, p=p: p) for p in (grey, red, noise)))
    assert plain["brightness"] == pytest.approx(128 / 255, abs=0.01)
    assert (plain["contrast"], plain["saturation"], plain["sharpness"]) == pytest.approx((0, 0, 0), abs=0.03)
    assert coloured["saturation"] > 0.95
    assert coloured["brightness"] < 0.4
    assert sharp["sharpness"] > 1000
    assert sharp["contrast"] > 0.1


def test_a_clip_has_the_signals_of_its_frames(tmp_path):
    path = tmp_path / "film.avi"
    path.write_bytes(film("avi", frames=200, gop=20, pictures=lambda n: photo(n, seed=n // 50, shift=n // 50)))
    refs = [Ref(str(path), start_s=start_s, stop_s=start_s + 2) for start_s in (0.0, 2.0, 4.0, 6.0)]
    together = other()({"media_ref": ref_array(refs)})
    assert [row["cuts_per_minute"] for row in together] == [0, 0, 0, 0]
    assert [row["decoded_frames"] for row in together] == [50] * 4
    moves = [row["motion_luma"] for row in together]
    assert moves == sorted(moves)
    assert moves[-1] > 2 * moves[1] > moves[0]
    assert [other()({"media_ref": ref_array([ref])})[0] for ref in refs[2:]] == together[2:]


def test_fewer_frames_may_be_measured():
    data = film(frames=100, gop=10, pictures=lambda n: photo(n, 272, 400, shift=2))
    for policy, frames in ((FramePolicy("key"), 10), (FramePolicy("every", 5), 20), (FramePolicy("per_second", 2), 8)):
        [row] = other(frames=policy)({"bytes": [data]})
        assert (row["decoded_frames"], row["motion_global_mean"]) == (frames, None)
        assert row["brightness"] == pytest.approx(0.5, abs=0.1)


def test_what_is_left_of_a_film_is_measured():
    data = film("mkv", frames=100, pictures=photo)
    stage = VideoSignals()
    try:
        batch = stage.process(DocumentBatch(data=pa.table({"bytes": [data, data[: len(data) // 2]]})))
    finally:
        stage.teardown()
    whole, cut = batch.to_arrow().to_pylist()
    assert (whole["video_cut_off"], cut["video_cut_off"]) == (False, True)
    assert cut["video_decoded_frames"] < 60
    found = stage.counted([list(row.values())[1:] for row in (whole, cut)])
    assert found == {"films that end early": 1}
    assert stage.remarks(found) == [
        "video_signals: films that end early: 1, and what is left was measured; the column video_cut_off says which"
    ]


def captioned(words, first=0, stop=10**6):
    """Pictures of soft spots, with a white line on a dark strip below, from a frame up to another."""
    font = ImageFont.load_default(28)

    def picture(number):
        image = Image.fromarray(photo(number, 288, 512, shift=1))
        if words and first <= number < stop:
            draw = ImageDraw.Draw(image)
            draw.rectangle((0, 236, 512, 288), (10, 10, 10))
            draw.text((256, 262), words, (240, 240, 240), font, anchor="mm")
        return np.asarray(image)

    return picture


def test_text_is_the_share_of_its_lines_on_average_over_up_to_three_frames(tmp_path):
    words = "A line of words below"
    left, top, right, bottom = ImageFont.load_default(28).getbbox(words)
    area = (right - left) * (bottom - top) / (288 * 512)
    texts = {
        "none": captioned(""),
        "all": captioned(words),
        "middle": captioned(words, 30, 60),
        "last frames, which none looks at": captioned(words, 85),
    }
    for name, pictures in texts.items():
        (tmp_path / f"{name}.mp4").write_bytes(film("mpeg4", frames=90, rate=5, gop=30, pictures=pictures))
    paths = [str(tmp_path / f"{name}.mp4") for name in texts]
    look = other(text=True)
    clips = Ref(paths[2], start_s=6.0, stop_s=12.0), Ref(paths[2], stop_s=10.0)
    rows = look({"media_ref": ref_array([*map(Ref, paths), *clips])})
    without, whole, middle, last, clip, two = (row["text"] for row in rows)
    assert without < 0.1 * area
    assert 0.5 * area < whole < 2.5 * area
    assert middle == pytest.approx(whole / 3, rel=0.3)
    assert last == pytest.approx(without, abs=0.1 * area)
    assert clip == pytest.approx(whole, rel=0.3)
    assert two == pytest.approx(whole / 2, rel=0.3)
    cut = (tmp_path / "all.mp4").read_bytes()
    [alone] = other(text=True)({"bytes": [cut]})
    assert alone["text"] == whole
    assert "text" not in other()({"bytes": [cut]})[0]


@pytest.mark.parametrize("setting", [{"looks": 0}, {"motion_fps": -1.0}, {"motion_ratio": True}, {"looks": "2"}])
def test_a_rate_must_be_one(setting):
    with pytest.raises(PipelineError, match=f"{next(iter(setting))}=.* must be a number above 0"):
        VideoSignals(**setting)

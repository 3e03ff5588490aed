"""Rules over signals of films: published limits by name, annotated once and changed later; the page of a run."""

import base64
import io
import re
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dcurate import (
    DocumentBatch,
    InlineExecutor,
    MediaReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    profile,
)
from dcurate.media import Ref, ref_array
from dcurate.text import Annotate, NumberRangeFilter, refilter
from dcurate.text.presets import video_nemo, video_openvid, video_panda, video_quality
from dcurate.video import VideoInfo, VideoSignals
from dcurate.video.sheet import sheet
from tests.video.films import film
from tests.video.test_signals import photo

pytestmark = pytest.mark.program

BLACK = np.zeros((96, 160, 3), np.uint8)


def bad():
    """Films that nobody wants, each for another reason."""
    good = film("mkv", frames=50, pictures=lambda n: photo(n, shift=2))
    framed = BLACK.copy()
    framed[32:64] = 200
    return {
        "cut_off": good[: len(good) // 2],
        "black": film("mkv", frames=50, pictures=lambda n: photo(n, shift=2) if n < 10 else BLACK),
        "frozen": film("mkv", frames=50, pictures=lambda n: photo(0)),
        "letterbox": film(
            "mkv", frames=50, pictures=lambda n: np.where(framed > 0, photo(n, shift=2), 0).astype(np.uint8)
        ),
        "flicker": film("mkv", frames=50, pictures=lambda n: photo(n, shift=2) // 2 + 60 * (n % 2)),
        "contrast": film("mkv", frames=50, pictures=lambda n: np.full((96, 160, 3), 100 + n, np.uint8)),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Films that are kept, dropped and refused."""
    made = tmp_path_factory.mktemp("films")
    (made / "good.mkv").write_bytes(film("mkv", frames=50, pictures=lambda n: photo(n, shift=2)))
    (made / "page.mp4").write_bytes(b"<html>")
    for name, data in bad().items():
        (made / f"{name}.mkv").write_bytes(data)
    return made


@pytest.fixture(scope="module")
def measured(folder):
    files = sorted(path for path in folder.iterdir() if path.suffix == ".mkv")
    rows = pa.table({"name": [path.stem for path in files], "media_ref": ref_array([Ref(str(path)) for path in files])})
    stage = VideoSignals()
    batch = stage.process(DocumentBatch(data=rows))
    stage.teardown()
    return batch


def kept(batch, rules, name="name"):
    return ScoreFilter(list(rules)).process(batch).to_arrow()[name].to_pylist()


def test_quality_rules_drop_what_nobody_wants(measured):
    assert kept(measured, video_quality()) == ["good"]
    rows = Annotate(list(video_quality())).process(measured).to_arrow().to_pylist()
    missed = [row["name"] for row in rows if row["name"] != "good" and f"video_{row['name']}" not in row["failed"]]
    assert not missed


def test_annotated_films_are_filtered_later_without_them(measured):
    rules = list(video_quality())
    found = Annotate(rules).process(measured)
    columns = found.with_data(found.to_arrow().select(["name", *{rule.name for rule in rules}]))
    assert refilter(rules).process(columns).to_arrow()["name"].to_pylist() == ["good"]
    looser = [NumberRangeFilter("video_black", max_value=0.5)]
    names = refilter(looser).process(columns).to_arrow()["name"].to_pylist()
    assert names == ["contrast", "cut_off", "flicker", "frozen", "good", "letterbox"]


def test_published_limits():
    rows = pa.table(
        {
            "name": ["fine", "still", "patch", "vp9", "small", "short", "cut"],
            "video_motion_global_mean": [0.00098, 0.00097, 0.1, None, 0.1, 0.1, 0.1],
            "video_motion_per_patch_min_256": [0.000001, 0.1, 0.0000009, None, 0.1, 0.1, 0.1],
            "video_width": [512, 512, 512, 512, 511, 512, 512],
            "video_height": [512, 512, 512, 512, 512, 512, 512],
            "video_duration_s": [60.0, 9, 9, 9, 9, 2.4, 9],
            "video_cuts_per_minute": [0.0, 0, 0, 0, 0, 0, 6],
        }
    )
    batch, names = DocumentBatch(data=rows), rows["name"].to_pylist()
    assert kept(batch, video_nemo()) == [name for name in names if name not in ("still", "patch")]
    assert kept(batch, video_openvid()) == [name for name in names if name != "small"]
    assert kept(batch, video_openvid(min_side=511)) == names
    assert kept(batch, video_panda()) == [name for name in names if name not in ("short", "cut")]


def test_frames_that_are_no_policy_are_refused():
    with pytest.raises(PipelineError, match=r"frames='key' must be a FramePolicy"):
        VideoSignals(frames="key")  # type: ignore[arg-type]


def test_a_rule_without_its_column_names_the_stage_to_add(measured):
    with pytest.raises(PipelineError, match=r"'video_width'.*add VideoInfo\(\)"):
        ScoreFilter(list(video_openvid())).process(measured)


def test_the_page_of_a_run_shows_frames_of_what_was_dropped(folder, tmp_path):
    stages = [MediaReader(str(folder)), VideoInfo(), VideoSignals(), ScoreFilter(list(video_quality()), name="quality")]
    pipeline = Pipeline("films", stages=[*stages, ParquetWriter(str(tmp_path / "out"))])  # type: ignore[list-item]
    pipeline.run(InlineExecutor(), rejected=str(tmp_path / "rejected"), observers=[])
    assert pq.read_table(tmp_path / "out")["file_name"].to_pylist() == ["good.mkv"]
    page = Path(f"{tmp_path}/out.dcurate/report.html").read_text()
    sheets = re.findall(r"data:image/jpeg;base64,([A-Za-z0-9+/=]+)", page)
    assert len(sheets) == len(bad())
    for data in sheets:
        picture = Image.open(io.BytesIO(base64.b64decode(data)))
        assert (picture.width, picture.height) == (298, 120)
    assert len(page) < 1_000_000


def test_signals_are_profiled(folder):
    found = profile(
        Pipeline("films", stages=[MediaReader(str(folder)), VideoSignals()]),
        text_field="file_name",
        filters=list(video_quality()),
        executor=InlineExecutor(),
        observers=[],
    )
    drops = dict(zip(*(found.to_pandas("filters")[name] for name in ("filter", "drops")), strict=True))
    assert (drops["video_black"], found.documents) == (1, 7)


@pytest.mark.parametrize(("start_s", "stop_s", "seen"), [(0.0, float("nan"), range(6)), (2.0, 5.0, [2, 2, 3, 3, 4, 4])])
def test_a_sheet_is_of_the_clip_and_bounded(start_s, stop_s, seen):
    data = film("avi", frames=150, pictures=lambda n: np.full((96, 160, 3), 40 * (n // 25), np.uint8))
    sizes, [jpeg] = sheet(struct.pack("<2d", start_s, stop_s) + data, {"side": 300})
    picture = Image.open(io.BytesIO(jpeg)).convert("L")
    assert (picture.width, picture.height) == (sizes["width"], sizes["height"]) == (298, 120)
    middles = [picture.getpixel((50 + 100 * (place % 3), 30 + 61 * (place // 3))) for place in range(6)]
    assert middles == pytest.approx([40 * number for number in seen], abs=6)


def test_frames_that_are_missing_are_grey_and_not_white():
    data = film("mkv", frames=150, pictures=lambda n: np.full((96, 160, 3), 255, np.uint8))
    _, [jpeg] = sheet(struct.pack("<2d", 0.0, float("nan")) + data[: len(data) * 3 // 5], {"side": 300})
    picture = Image.open(io.BytesIO(jpeg)).convert("L")
    places = [picture.getpixel((50 + 100 * (place % 3), 30 + 61 * (place // 3))) for place in range(6)]
    assert places == pytest.approx([255, 255, 255, 255, 200, 200], abs=6)


def test_a_sheet_of_an_upright_film_fits():
    data = film("avi", frames=20, pictures=lambda n: photo(n, 160, 96))
    sizes, _ = sheet(struct.pack("<2d", 0.0, float("nan")) + data, {"side": 300})
    assert max(sizes.values()) <= 300

"""Rules over signals: published thresholds by name, annotated once and changed later; and the page of a run."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from dcurate import (
    DaskExecutor,
    DocumentBatch,
    InlineExecutor,
    LocalCluster,
    MediaReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    profile,
)
from dcurate.core.pipeline import AnyStage
from dcurate.images import ImageInfo, ImageReading, ImageSignals
from dcurate.text import Annotate, NumberRangeFilter, refilter
from dcurate.text.presets import images_datacomp, images_laion, images_nemo, images_quality
from tests.images.dying import Deadly
from tests.images.pictures import batch_of, blurred, photo, saved

pytestmark = pytest.mark.cluster


def seen(*images, **options):
    """The rows of pictures with all signals."""
    batch = batch_of(*(saved(image, "JPEG", quality=95, **options) for image in images))
    return ImageSignals(qr=True).process(ImageInfo().process(batch))


def kept(batch: DocumentBatch, rules: Sequence[NumberRangeFilter]) -> list[int]:
    return ScoreFilter(list(rules)).process(batch).to_arrow()["id"].to_pylist()


def test_datacomp_wants_sides_above_200_and_ratios_below_3():
    batch = seen(photo(201, 201), photo(200, 400), photo(602, 201), photo(603, 201), photo(201, 603), photo(300, 400))
    assert kept(batch, images_datacomp()) == [0, 2, 5]


def test_nemo_wants_sharp_pictures_twice_as_wide_as_high_at_most():
    batch = seen(photo(300, 300), photo(600, 300), photo(604, 300), photo(299, 300), blurred(photo(300, 300)))
    assert kept(batch, images_nemo()) == [0, 1]


def test_laion_wants_files_of_5_kb():
    batch = batch_of(saved(Image.new("RGB", (300, 300))), saved(photo(300, 300)))
    assert kept(ImageInfo().process(batch), images_laion()) == [1]


def test_quality_rules_drop_what_nobody_wants():
    whole = saved(photo(400, 300), "JPEG")
    framed = Image.new("RGB", (600, 600))
    framed.paste(photo(300, 300), (150, 150))
    files = [whole, whole[: len(whole) // 2], *(saved(image) for image in (Image.new("L", (300, 300), 128), framed))]
    assert kept(ImageSignals().process(batch_of(*files)), images_quality()) == [0]


def test_annotated_pictures_are_filtered_later_without_them():
    batch = seen(photo(300, 300), blurred(photo(300, 300)), photo(120, 90))
    rules = [*images_datacomp(), *images_nemo()[1:]]
    found = Annotate(rules).process(batch)
    assert found.to_arrow()["failed"].to_pylist() == [[], ["image_sharpness"], ["image_short_side"]]
    columns = found.with_data(found.to_arrow().select(["id", *{rule.name for rule in rules}]))
    assert refilter(rules).process(columns).to_arrow()["id"].to_pylist() == [0]
    looser = [NumberRangeFilter("image_sharpness", min_value=1)]
    assert refilter(looser).process(columns).to_arrow()["id"].to_pylist() == [0, 1, 2]


def test_a_rule_without_its_column_names_the_stage_to_add(tmp_path):
    with pytest.raises(PipelineError, match=r"add ImageSignals\(qr=True\)"):
        ScoreFilter(list(images_nemo())).process(ImageSignals().process(ImageInfo().process(batch_of(saved(photo())))))
    stages: list[AnyStage] = [MediaReader(str(tmp_path)), ScoreFilter(list(images_datacomp()))]
    (tmp_path / "a.png").write_bytes(saved(photo()))
    with pytest.raises(PipelineError, match=r"'image_short_side'.*add ImageInfo\(\)"):
        Pipeline("no columns", stages=stages).run(InlineExecutor(), observers=[])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures that are kept, dropped and refused."""
    made = tmp_path_factory.mktemp("pictures")
    for number in range(6):
        (made / f"{number}.jpg").write_bytes(saved(photo(300, 240, number + 1), "JPEG"))
    (made / "6.jpg").write_bytes(saved(blurred(photo(300, 240), 20), "JPEG"))
    (made / "7.png").write_bytes(saved(Image.new("RGB", (300, 240), "white")))
    (made / "8.jpg").write_bytes(b"<html>")
    return made


def test_the_page_of_a_run_shows_what_was_dropped(folder, tmp_path):
    stages: list[AnyStage] = [
        MediaReader(str(folder)),
        ImageInfo(),
        ImageSignals(),
        ScoreFilter(list(images_quality()), name="quality"),
    ]
    pipeline = Pipeline("images", stages=[*stages, ParquetWriter(str(tmp_path / "out"))])
    pipeline.run(InlineExecutor(), rejected=str(tmp_path / "rejected"), observers=[])
    assert sorted(pq.read_table(tmp_path / "out")["file_name"].to_pylist()) == [f"{number}.jpg" for number in range(6)]
    page = Path(f"{tmp_path}/out.dcurate/report.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 2
    assert "cannot be drawn" in page
    assert len(page) < 300_000


def test_signals_are_profiled(folder):
    stages: list[AnyStage] = [MediaReader(str(folder)), ImageSignals()]
    found = profile(
        Pipeline("images", stages=stages),
        text_field="file_name",
        filters=list(images_quality()),
        executor=InlineExecutor(),
        observers=[],
    )
    drops = dict(zip(*(found.to_pandas("filters")[name] for name in ("filter", "drops")), strict=True))
    assert drops["image_sharpness"] == 2
    assert found.documents == 8


def test_a_picture_that_ends_its_process_costs_one_row(folder, tmp_path):
    """In the worker: the engine runs the batch again in parts, and the one row goes to quarantine."""
    (tmp_path / "in").mkdir()
    for number in range(5):
        data = saved(photo(90, 80, number + 1), "JPEG") + (b"KILL" if number == 3 else b"")
        (tmp_path / "in" / f"{number}.jpg").write_bytes(data)
    stages: list[AnyStage] = [MediaReader(str(tmp_path / "in")), Deadly(), ParquetWriter(str(tmp_path / "out"))]
    with LocalCluster(n_workers=1) as cluster:
        Pipeline("deadly", stages=stages).run(DaskExecutor({"ignore_failures": True}, cluster=cluster), observers=[])
    kept_names = sorted(pq.read_table(tmp_path / "out")["file_name"].to_pylist())
    assert kept_names == ["0.jpg", "1.jpg", "2.jpg", "4.jpg"]
    quarantined = [
        json.loads(line)["file_name"]
        for path in Path(f"{tmp_path}/out.dcurate/quarantine").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert quarantined == ["3.jpg"]


def test_a_picture_that_hangs_or_kills_the_sandbox_costs_one_row(monkeypatch):
    monkeypatch.setattr(ImageSignals, "function", "tests.images.dying:hangs_and_dies")
    files = [saved(photo(64, 64, number + 1), "JPEG") for number in range(5)]
    files[1] += b"HANG"
    files[3] += b"KILL"
    stage = ImageSignals(reading=ImageReading(sandbox=True, timeout_s=2))
    stage.setup()
    try:
        found = stage.process(batch_of(*files))
    finally:
        stage.teardown()
    assert found.to_arrow()["id"].to_pylist() == [0, 2, 4]
    gone = {one.data["id"][0].as_py(): one.reason for one in found.rejections}
    assert gone == {1: "timed out", 3: "crashed: SIGSEGV"}

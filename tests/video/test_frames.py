"""Frames of films as rows with images, and back."""

from __future__ import annotations

import io
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from dcurate import DataError, DocumentBatch, InlineExecutor, Pipeline, PipelineError
from dcurate.images import ImageSignals
from dcurate.media.refs import Ref, ref_array
from dcurate.video import ExtractFrames, FramePolicy, PoolFrames, frame_batches
from dcurate.video import frames as frames_module
from tests.video.films import film

pytestmark = pytest.mark.program


@contextmanager
def extracting(**settings):
    stage = ExtractFrames(**settings)
    try:
        yield lambda rows: stage.process(DocumentBatch(data=pa.table(rows)))
    finally:
        stage.teardown()


def table_of(batches):
    return pa.concat_tables([batch.to_arrow() for batch in batches])


def image(row):
    return Image.open(io.BytesIO(row["bytes"]))


def test_rows_are_the_frames_that_the_policy_chose_with_the_columns_of_their_film():
    rows = {"n": [7, 8], "bytes": [film(frames=60), film("vp9", frames=30)], "frame_s": [1.0, 1.0]}
    with extracting(image_format="png") as extract:
        [batch] = extract(rows)
    found = batch.to_arrow().to_pylist()
    assert [(row["n"], row["frame_number"], row["frame_count"]) for row in found] == [
        (7, 0, 3), (7, 1, 3), (7, 2, 3), (8, 0, 2), (8, 1, 2),
    ]  # fmt: skip
    assert [row["frame_s"] for row in found] == pytest.approx([0, 1, 2, 0, 1], abs=2e-3)
    for row in found:
        red = np.asarray(image(row))[..., 0].mean()
        assert image(row).format == "PNG"
        assert red == pytest.approx(2 * round(row["frame_s"] * 25), abs=4)


def test_a_height_reduces_frames_in_proportion_and_never_enlarges():
    data = film(frames=3)
    for height, size in ((24, (32, 24)), (480, (64, 48)), (None, (64, 48))):
        with extracting(height=height, policy=FramePolicy("first")) as extract:
            [batch] = extract({"bytes": [data]})
        [row] = batch.to_arrow().to_pylist()
        assert (image(row).size, image(row).format) == (size, "JPEG")


def test_every_clip_of_a_film_has_its_own_frames(tmp_path):
    (tmp_path / "a.mp4").write_bytes(film(frames=100))
    refs = [Ref(str(tmp_path / "a.mp4"), None, None, None, *span) for span in ((0.0, 1.5), (1.0, 4.0), (60.0, 61.0))]
    with extracting() as extract:
        [batch] = extract({"media_ref": ref_array(refs)})
    assert batch.to_arrow()["frame_s"].to_pylist() == pytest.approx([0, 1, 1, 2, 3])
    assert [rejection.reason for rejection in batch.rejections] == ["bad segment"]


def test_batches_are_bounded_and_films_whole(monkeypatch):
    monkeypatch.setattr(frame_batches, "_BATCH", 3_000)
    data = film(frames=75)
    with extracting(image_format="png") as extract:
        batches = extract({"n": list(range(6)), "bytes": [data, b"", data, data, data, data]})
    sizes = [sum(map(len, batch.to_arrow()["bytes"].to_pylist())) for batch in batches]
    assert len(batches) > 1
    assert max(sizes) <= max(3_000, sizes[0])
    assert table_of(batches)["n"].to_pylist() == [n for n in (0, 2, 3, 4, 5) for _ in range(3)]
    assert [rejection.reason for batch in batches for rejection in batch.rejections] == ["empty"]
    for batch in batches:
        counts = batch.to_arrow().group_by("n").aggregate([("frame_number", "count")])
        assert counts["frame_number_count"].to_pylist() == [3] * counts.num_rows


def test_a_batch_has_as_many_films_as_it_may(tmp_path):
    (tmp_path / "a.mp4").write_bytes(film(frames=100))
    refs = [Ref(str(tmp_path / "a.mp4"), start_s=start, stop_s=start + 1.5) for start in (0.0, 60.0, 1.0, 2.0)]
    for most, sizes in ((1, [2, 2, 2]), (2, [4, 2]), (None, [6])):
        with extracting(max_films_per_batch=most) as extract:
            batches = extract({"media_ref": ref_array(refs)})
        assert [batch.num_items for batch in batches] == sizes
        assert [reason.reason for batch in batches for reason in batch.rejections] == ["bad segment"]
    with pytest.raises(PipelineError, match="max_films_per_batch=0 must be a whole number from 1 on"):
        ExtractFrames(max_films_per_batch=0)


@pytest.mark.parametrize("rows", [1, 3])
def test_frames_beyond_a_limit_are_on_disk_and_the_rows_the_same(tmp_path, monkeypatch, rows):
    """Files that come again, out of turn, are decoded once; no order of parts and no file on disk changes a row."""
    for name in "abc":
        (tmp_path / f"{name}.mp4").write_bytes(film(frames=30 + 25 * "abc".index(name)))
    refs = [Ref(str(tmp_path / f"{name}.mp4"), start_s=start) for name, start in zip("aabcbcc", range(7), strict=True)]
    refs = [ref._replace(start_s=0.04 * (ref.start_s or 0)) for ref in refs]
    table = {"media_ref": ref_array(refs), "n": list(range(7))}
    with extracting() as extract:
        [expected] = extract(table)
    monkeypatch.setattr(frames_module, "_ROWS", rows)
    monkeypatch.setattr(frame_batches, "_BATCH", 2_000)
    monkeypatch.setattr(frame_batches, "_IN_MEMORY", 4_000)
    monkeypatch.setattr(frame_batches, "_WAITING", 1_500)
    mapped = []
    spill = frame_batches.FrameBatches._on_disk
    monkeypatch.setattr(
        frame_batches.FrameBatches, "_on_disk", lambda self, files: mapped.append(len(files)) or spill(self, files)
    )
    with extracting() as extract:
        batches = extract(table)
    assert mapped
    assert table_of(batches).combine_chunks().equals(expected.to_arrow().combine_chunks(), check_metadata=True)


def noise(number):
    return np.random.default_rng(number).integers(0, 256, (96, 128, 3), np.uint8)


@pytest.mark.parametrize("is_cut", [False, True])
def test_frames_of_a_film_are_not_in_memory_together(tmp_path, monkeypatch, is_cut):
    """Neither of a whole film nor of its clips: Python holds a few of the frames, whose files have 2 MB together."""
    for limit in ("_BATCH", "_IN_MEMORY", "_WAITING"):
        monkeypatch.setattr(frame_batches, limit, 100_000)
    (tmp_path / "a.mp4").write_bytes(film(frames=100, pictures=noise))
    spans = [(start / 5, (start + 1) / 5) for start in range(20)] if is_cut else [(None, None)]
    refs = [Ref(str(tmp_path / "a.mp4"), start_s=start, stop_s=stop) for start, stop in spans]
    with extracting(policy=FramePolicy("all"), image_format="png") as extract:
        extract({"media_ref": ref_array(refs[:1])})
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        batches = extract({"media_ref": ref_array(refs)})
        _ = [batch.to_arrow() for batch in batches]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 1_000_000  # batches are mapped, not copied
    files = [row for batch in batches for row in batch.to_arrow()["bytes"].to_pylist()]
    assert len(files) >= 95
    assert sum(map(len, files)) > 2_000_000
    assert peak < 1_000_000


def test_a_film_with_too_many_or_no_frames_goes_to_quarantine(tmp_path):
    (tmp_path / "a.mp4").write_bytes(film(frames=100, gop=50))
    path = str(tmp_path / "a.mp4")
    with extracting(policy=FramePolicy("all"), max_frame_bytes=2_000) as extract:
        [batch] = extract({"media_ref": ref_array([Ref(path), Ref(path, None, None, None, 1.0, 1.04)])})
    assert batch.to_arrow()["frame_s"].to_pylist() == [1.0]
    assert [rejection.reason for rejection in batch.rejections] == ["too many frames"]
    with extracting(policy=FramePolicy("key")) as extract:
        [batch] = extract({"media_ref": ref_array([Ref(path), Ref(path, None, None, None, 1.0, 1.5)])})
    assert {0.0, 2.04} < set(batch.to_arrow()["frame_s"].to_pylist())
    assert [rejection.reason for rejection in batch.rejections] == ["no frames"]


def test_signals_of_images_are_pooled_over_each_film():
    films = [film(frames=100), film("vp9", frames=50), film(frames=10)]
    stages = [
        ExtractFrames(image_format="png"),
        ImageSignals(),
        PoolFrames({"image_brightness": "mean", "image_contrast": "min"}),
    ]
    source = DocumentBatch(data=pa.table({"n": [0, 1, 2], "bytes": films}))
    pooled = Pipeline("pool", stages=stages).run(InlineExecutor(), initial_tasks=[source], observers=[])
    frames = Pipeline("frames", stages=stages[:2]).run(InlineExecutor(), initial_tasks=[source], observers=[])
    rows = frames.to_arrow().to_pylist()
    result = pooled.to_arrow().to_pylist()
    assert [row["n"] for row in result] == [0, 1, 2]
    assert not {"bytes", "frame_s", "frame_number"} & set(result[0])
    for row in result:
        there = [frame for frame in rows if frame["n"] == row["n"]]
        assert len(there) == row["frame_count"]
        assert row["image_brightness"] == pytest.approx(np.mean([frame["image_brightness"] for frame in there]))
        assert row["image_contrast"] == min(frame["image_contrast"] for frame in there)


def frame_rows(*films):
    """Rows of frames: a number of the film, those of frames, and how many it has."""
    rows = [(film, number, count) for film, numbers, count in films for number in numbers]
    refs = ref_array([Ref(f"{film}.mp4") for film, _, _ in rows])
    table = {"media_ref": refs, "film": [row[0] for row in rows], "frame_number": [row[1] for row in rows]}
    score = [float(10 * row[0] + row[1]) for row in rows]
    return pa.table({**table, "frame_count": [row[2] for row in rows], "score": score})


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_film_that_was_cut_apart_is_never_pooled_in_part(cut):
    table = frame_rows((0, [0, 1, 2], 3), (1, [0, 1, 2], 3), (2, [0, 1], 2))
    stage = PoolFrames({"score": "max"})
    parts = [stage.process(DocumentBatch(data=part)) for part in (table.slice(0, cut), table.slice(cut))]
    whole = stage.process(DocumentBatch(data=table)).to_arrow().to_pylist()
    assert [row["score"] for row in whole] == [2.0, 12.0, 21.0]
    pooled = [row for part in parts for row in part.to_arrow().to_pylist()]
    assert all(row in whole for row in pooled)
    gone = [film for part in parts for rejection in part.rejections for film in rejection.data["film"].to_pylist()]
    counts = {0: 3, 1: 3, 2: 2}
    assert len(gone) + sum(counts[row["film"]] for row in pooled) == table.num_rows
    assert set(gone).isdisjoint(row["film"] for row in pooled)


def test_films_of_which_frames_are_missing_at_a_seam_are_not_taken_for_one():
    table = frame_rows((0, [0, 1], 4), (1, [2, 3], 4))
    pooled = PoolFrames({"score": "mean"}).process(DocumentBatch(data=table))
    assert pooled.num_items == 0
    assert [(rejection.reason, rejection.rows) for rejection in pooled.rejections] == [("frames missing", 4)]
    pooled = PoolFrames({"score": "mean"}, all_frames=False).process(DocumentBatch(data=table))
    assert pooled.to_arrow()["score"].to_pylist() == [0.5, 12.5]


def test_nulls_do_not_count_and_vectors_are_pooled_by_coordinate():
    table = frame_rows((0, [0, 1, 2], 3), (1, [0], 1))
    vectors = pa.array([[1.0, 4.0], None, [3.0, 0.0], None], pa.list_(pa.float32(), 2))
    table = table.set_column(table.column_names.index("score"), "score", pa.array([None, 2.0, float("nan"), None]))
    table = table.append_column("v", vectors)
    pooled = PoolFrames({"score": "mean", "v": "mean"}).process(DocumentBatch(data=table)).to_arrow()
    assert pooled["score"].to_pylist() == [2.0, None]
    assert pooled["v"].to_pylist() == [[2.0, 2.0], None]
    assert PoolFrames({"v": "max"}).process(DocumentBatch(data=table)).to_arrow()["v"].to_pylist()[0] == [3.0, 4.0]


def test_wrong_settings_and_columns_are_refused():
    with pytest.raises(PipelineError, match="no reduction 'median'"):
        PoolFrames({"score": "median"})  # type: ignore[dict-item]
    with pytest.raises(PipelineError, match="must name columns"):
        PoolFrames({})
    with pytest.raises(PipelineError, match="no image_format 'jpg'"):
        ExtractFrames(image_format="jpg")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="must be a FramePolicy"):
        ExtractFrames(policy="first")  # type: ignore[arg-type]
    table = frame_rows((0, [0], 1)).append_column("word", pa.array(["x"]))
    with pytest.raises(DataError, match="holds string, not numbers"):
        PoolFrames({"word": "mean"}).process(DocumentBatch(data=table))

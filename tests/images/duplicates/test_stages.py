"""Duplicates among images, over a whole dataset."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import ImageOps

from dcurate import (
    DataError,
    DocumentBatch,
    InlineExecutor,
    MediaReader,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
    StageError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.dedup import Preferred
from dcurate.images import BenchmarkImages, ImageDecontaminate, ImageExactDuplicates, ImageNearDuplicates
from dcurate.images.duplicates import fingerprint
from dcurate.images.duplicates.thumbnails import ThumbnailSimilarity
from tests.images.duplicates.pictures import CHANGES, form, saved, scene

Row = dict[str, Any]
SCENES, COPIES = 4, ["smaller", "jpeg", "brighter", "border"]


def dataset() -> list[Row]:
    """Scenes and changed copies of each, forms, white pictures, and a broken file; shuffled."""
    rows = [{"file_name": f"{seed}-original", "bytes": saved(scene(seed))} for seed in range(SCENES)]
    rows += [
        {"file_name": f"{seed}-{change}", "bytes": CHANGES[change](scene(seed))}
        for seed in range(SCENES)
        for change in COPIES
    ]
    rows += [{"file_name": f"form {word}", "bytes": saved(form(word, word * 2))} for word in ("Anna 14", "Boris 7702")]
    rows += [
        {"file_name": f"white {side}", "bytes": saved(scene(0, (side, side)).point(lambda _: 255))}
        for side in (50, 60, 70)
    ]
    rows.append({"file_name": "broken", "bytes": b"<html>403</html>"})
    random.Random(1).shuffle(rows)
    return [{**row, "split": "test" if "original" in row["file_name"] else "train"} for row in rows]


def written(folder: Path, rows: list[Row], files: int = 3) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    step = -(-len(rows) // files)
    for place in range(files):
        part = rows[place * step : (place + 1) * step]
        schema = pa.schema({name: pa.large_binary() if name == "bytes" else pa.string() for name in rows[0]})
        pq.write_table(pa.Table.from_pylist(part, schema), folder / f"{place}.parquet")
    return str(folder)


def run(source: str, out: Path, *stages: AnyStage, executor: Any = None) -> list[Row]:
    pipeline = Pipeline(
        "images", stages=[ParquetReader(source, files_per_partition=1), *stages, ParquetWriter(str(out))]
    )
    pipeline.run(executor or InlineExecutor(), observers=[])
    found = sorted(out.glob("*.parquet"))
    return [row for path in found for row in pq.read_table(path).to_pylist()]


def groups(rows: list[Row]) -> set[frozenset[str]]:
    found: dict[int, set[str]] = {}
    for row in rows:
        found.setdefault(row["duplicate_group"], set()).add(row["file_name"])
    return {frozenset(group) for group in found.values() if len(group) > 1}


EXPECTED = {
    *(frozenset([f"{seed}-original", *(f"{seed}-{change}" for change in COPIES)]) for seed in range(SCENES)),
    frozenset(["white 50", "white 60", "white 70"]),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("images"), dataset())


def test_groups_are_the_copies_of_each_picture(source: str, tmp_path: Path) -> None:
    rows = run(source, tmp_path, ImageNearDuplicates(action="flag"))
    assert groups(rows) == EXPECTED
    assert list(rows[0]) == ["file_name", "bytes", "split", "duplicate_group", "is_duplicate"]
    given = {row["file_name"]: row["bytes"] for row in dataset()}
    assert {row["file_name"]: row["bytes"] for row in rows} == {
        name: data for name, data in given.items() if name != "broken"
    }


def test_one_of_each_group_stays_in_order(source: str, tmp_path: Path) -> None:
    kept = [row["file_name"] for row in run(source, tmp_path, ImageNearDuplicates())]
    order = [row["file_name"] for row in dataset()]
    dropped = set().union(*(group - {min(group, key=order.index)} for group in EXPECTED))
    assert kept == [name for name in order if name not in dropped | {"broken"}]


def test_keeps_the_largest_or_those_of_a_split(source: str, tmp_path: Path) -> None:
    largest = run(source, tmp_path / "a", ImageNearDuplicates(keep="largest"))
    assert {"0-border", "1-border", "white 70"} <= {row["file_name"] for row in largest}
    wanted = Preferred("split", ["test", "train"])
    split = run(source, tmp_path / "b", ImageNearDuplicates(keep=wanted))
    assert {f"{seed}-original" for seed in range(SCENES)} <= {row["file_name"] for row in split}
    assert not any("jpeg" in row["file_name"] for row in split)  # no copy of a test image is left in the training data


def test_the_result_does_not_depend_on_files_or_workers(tmp_path: Path) -> None:
    rows = dataset()
    stage = ImageNearDuplicates(action="identify", id_field="file_name")
    once = run(written(tmp_path / "one", rows, 1), tmp_path / "a", stage)
    again = run(written(tmp_path / "many", rows, 7), tmp_path / "b", stage)
    assert sorted(map(str, once)) == sorted(map(str, again))
    assert {row["kept_id"] for row in once} <= {row["id"] for row in once if row["kept"]}
    assert all(row["similarity"] > 0 for row in once)


def test_an_index_finds_copies_of_images_of_the_day_before(tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    first = [{"file_name": f"{seed}", "bytes": saved(scene(seed))} for seed in range(3)]
    second = [{"file_name": f"again {seed}", "bytes": CHANGES["jpeg"](scene(seed))} for seed in (1, 7)]
    stage = ImageNearDuplicates(index_path=index)
    assert len(run(written(tmp_path / "1", first, 1), tmp_path / "out1", stage)) == 3
    later = run(written(tmp_path / "2", second, 1), tmp_path / "out2", stage)
    assert [row["file_name"] for row in later] == ["again 7"]
    with pytest.raises(PipelineError, match="max_distance=10 and not 4"):
        run(str(tmp_path / "2"), tmp_path / "out3", ImageNearDuplicates(index_path=index, max_distance=4))


def test_a_run_that_was_stopped_resumes_within_its_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = written(tmp_path / "in", dataset()), tmp_path / "out"
    whole = run(source, tmp_path / "whole", ImageNearDuplicates())
    pipeline = Pipeline("images", stages=[ParquetReader(source), ImageNearDuplicates(), ParquetWriter(str(out))])
    with monkeypatch.context() as patch:
        patch.setattr(ThumbnailSimilarity, "__call__", _stopped)
        with pytest.raises(StageError, match="stopped here"):
            pipeline.run(InlineExecutor(), observers=[])
    with monkeypatch.context() as patch:
        patch.setattr(fingerprint, "read_fingerprint", _stopped)  # the pictures are not decoded again
        pipeline.run(InlineExecutor(), observers=[], resume=True)
    assert [row for path in sorted(out.glob("*.parquet")) for row in pq.read_table(path).to_pylist()] == whole


def _stopped(*_: Any) -> Any:
    raise ValueError("stopped here")


def test_mirror_images_are_copies_where_that_is_wanted(tmp_path: Path) -> None:
    mirrored = ImageOps.mirror(scene(2))
    rows = [{"file_name": "a", "bytes": saved(scene(2))}, {"file_name": "b", "bytes": saved(mirrored)}]
    source = written(tmp_path / "in", rows, 2)
    assert len(run(source, tmp_path / "a", ImageNearDuplicates())) == 2
    assert len(run(source, tmp_path / "b", ImageNearDuplicates(flips=True))) == 1


@pytest.mark.parametrize(("by", "kept"), [("bytes", ["a.png", "c.webp", "d.png"]), ("pixels", ["a.png", "d.png"])])
def test_exact_duplicates_by_bytes_and_by_pixels(tmp_path: Path, by: Any, kept: list[str]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, data in {
        "a.png": saved(scene(1)),
        "b.png": saved(scene(1)),
        "c.webp": saved(scene(1), "WEBP", lossless=True),
        "d.png": saved(scene(2)),
    }.items():
        (folder / name).write_bytes(data)
    pipeline = Pipeline("exact", stages=[MediaReader(str(folder)), ImageExactDuplicates(by=by)])
    batches: Any = pipeline.run(InlineExecutor(), observers=[])
    rows = [row for batch in batches for row in batch.to_arrow().to_pylist()]
    assert [row["file_name"] for row in rows] == kept
    assert set(rows[0]) == {"file_name", "media_ref", "size", "container"}


def test_decontamination_drops_copies_of_benchmark_images(tmp_path: Path) -> None:
    folder = tmp_path / "vqa"
    folder.mkdir()
    (folder / "q1.png").write_bytes(saved(scene(1)))
    (folder / "q2.png").write_bytes(saved(scene(8)))
    table = pa.Table.from_pylist([{"file_name": row["file_name"], "bytes": row["bytes"]} for row in dataset()])
    stage = ImageDecontaminate({"vqa": str(folder)})
    found = stage.process(DocumentBatch(data=table))
    reasons = {rejection.reason: rejection.rows for rejection in found.rejections}
    assert reasons == {"not a picture: HTML or XML": 1, "contaminated: vqa": 1 + len(COPIES)}
    assert found.num_items == table.num_rows - sum(reasons.values())
    assert found.to_arrow().column_names == ["file_name", "bytes"]
    BenchmarkImages.build({"vqa": str(folder)}).write(str(tmp_path / "known"))
    flagged = ImageDecontaminate(str(tmp_path / "known"), action="flag").process(DocumentBatch(data=table)).to_arrow()
    hits = [row for row in flagged.to_pylist() if row["contamination_example"] == "q1.png"]
    assert {row["file_name"] for row in hits} == {"1-original", *(f"1-{change}" for change in COPIES)}
    with pytest.raises(DataError, match="no images of benchmarks"):
        BenchmarkImages.read(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "settings",
    [{"threshold": 0}, {"clustering": "loose"}, {"verify": "pixels"}, {"keep": "longest"}, {"max_distance": 200}],
)
def test_refuses_settings_with_a_sentence(settings: Row) -> None:
    with pytest.raises(PipelineError):
        ImageNearDuplicates(**settings)


def test_refuses_rows_without_images(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "no picture"}))
    with pytest.raises(PipelineError, match="media_ref"):
        run(written(tmp_path / "rows", [{"file_name": "a"}], 1), tmp_path / "out", ImageNearDuplicates())

"""Samples, blends, order and sizes, over whole datasets."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    DaskExecutor,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
    ProcessingStage,
    StageError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.datasets import Blend, Rebatch, SampleFraction, SampleRows, Shuffle
from dcurate.recipe import load_recipe
from dcurate.run import Executor
from tests.stages import DieOnce, Numbers

pytestmark = pytest.mark.cluster

Row = dict[str, Any]


def write(folder: Path, rows: list[Row], files: int) -> str:
    """The rows in so many files of uneven sizes."""
    folder.mkdir(parents=True)
    bounds = [0, *(len(rows) * number * number // files**2 for number in range(1, files + 1))]
    for number in range(files):
        lines = [json.dumps(row) + "\n" for row in rows[bounds[number] : bounds[number + 1]]]
        (folder / f"{number:02}.jsonl").write_text("".join(lines))
    return str(folder)


def run(*stages: Any, executor: Executor | None = None) -> list[list[Row]]:
    """The rows of every batch, in order."""
    result = Pipeline("test", stages=stages).run(executor or InlineExecutor())
    return [batch.to_arrow().to_pylist() for batch in result]  # type: ignore[attr-defined]


def flat(batches: list[list[Row]]) -> list[Row]:
    return [row for batch in batches for row in batch]


def some(count: int, name: str = "d") -> list[Row]:
    return [{"id": f"{name}{number}", "text": f"text {number} " * (number % 7)} for number in range(count)]


def test_the_order_after_a_shuffle_depends_on_seed_and_rows_alone(cluster: LocalCluster, tmp_path: Path) -> None:
    rows = some(150)
    one, many = write(tmp_path / "one", rows, 1), write(tmp_path / "many", rows[::-1], 9)
    first = flat(run(JsonlReader(one), Shuffle(seed=3)))
    assert sorted(first, key=lambda row: int(row["id"][1:])) == rows
    assert first not in (rows, rows[::-1])
    for reader in (JsonlReader(many), JsonlReader(one, blocksize=2000)):
        for parts in (None, 1, 7):
            assert flat(run(reader, Shuffle(seed=3, npartitions=parts))) == first
    assert flat(run(JsonlReader(many), Shuffle(seed=3), executor=DaskExecutor(cluster=cluster))) == first
    assert flat(run(JsonlReader(one), Shuffle(seed=4))) != first
    by_id = flat(run(JsonlReader(one), Shuffle(seed=3, id_field="id")))
    assert by_id != first
    assert flat(run(JsonlReader(many), Shuffle(seed=3, id_field="id", blocksize="2kB"))) == by_id


def test_places_after_a_shuffle_are_as_if_drawn(tmp_path: Path) -> None:
    rows = [{"n": number} for number in range(4000)]
    order = [row["n"] for row in flat(run(JsonlReader(write(tmp_path / "in", rows, 3)), Shuffle(seed=1)))]
    mean = 4000**2 / 4
    deviation = (4000**3 / 36) ** 0.5
    footrule = sum(abs(number - place) for place, number in enumerate(order))
    assert abs(footrule - 4000**2 / 3) < 6 * deviation
    inversions = sum(1 for left, right in pairwise(order) if left > right)
    assert abs(inversions - 2000) < 6 * (4000 / 12) ** 0.5
    assert abs(sum(order[:2000]) - mean) < 6 * 4000 * 2000**0.5 / 12**0.5


def test_rows_of_equal_ids_come_together_in_the_order_of_the_source(tmp_path: Path) -> None:
    rows = [{"id": number % 50, "n": number} for number in range(500)]
    batches = run(JsonlReader(write(tmp_path / "in", rows, 6)), Shuffle(id_field="id", npartitions=8))
    assert len(batches) == 8
    for document in range(50):
        holding = [batch for batch in batches if any(row["id"] == document for row in batch)]
        assert len(holding) == 1
        assert [row["n"] for row in holding[0] if row["id"] == document] == list(range(document, 500, 50))


def test_output_files_by_name_have_the_order_of_the_shuffle(tmp_path: Path) -> None:
    source = write(tmp_path / "in", some(200), 4)
    Pipeline("test", stages=[JsonlReader(source), Shuffle(npartitions=12), JsonlWriter(str(tmp_path / "out"))]).run(
        InlineExecutor()
    )
    files = sorted((tmp_path / "out").glob("*.jsonl"))
    written = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert written == flat(run(JsonlReader(source), Shuffle()))
    assert len(files) == 12
    assert not (tmp_path / "out.dcurate" / "rounds").exists()


def test_columns_missing_from_a_file_are_null_after_a_shuffle(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1, "x": "a"}\n{"n": 2}\n')
    (tmp_path / "b.jsonl").write_text('{"n": 3, "y": [1.5]}\n')
    found = flat(run(JsonlReader(str(tmp_path)), Shuffle()))
    assert sorted(found, key=lambda row: row["n"]) == [
        {"n": 1, "x": "a", "y": None},
        {"n": 2, "x": None, "y": None},
        {"n": 3, "x": None, "y": [1.5]},
    ]


def test_nothing_comes_of_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "in", some(5), 1)
    for stage in (Shuffle(), SampleRows(3), Rebatch(rows=2), Rebatch(nbytes=10)):
        assert flat(run(JsonlReader(source), SampleFraction(0.0), stage)) == []


@pytest.mark.parametrize("count", [1, 7, 59, 60, 61])
def test_a_sample_is_the_beginning_of_the_shuffle(count: int, tmp_path: Path) -> None:
    source = write(tmp_path / "in", some(60), 5)
    stages: list[AnyStage] = [JsonlReader(source), SampleRows(count, seed=9, npartitions=3)]
    result = Pipeline("test", stages=stages).run(InlineExecutor())
    found = [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]
    assert found == flat(run(JsonlReader(source), Shuffle(seed=9)))[:count]
    stats = result.report.stages[1]
    assert (stats.rows_in, stats.rows_out) == (60, min(count, 60))
    assert stats.dropped == ({"not_sampled": 60 - count} if count < 60 else {})


def test_a_sample_of_equal_rows_has_the_number_asked_for(tmp_path: Path) -> None:
    source = write(tmp_path / "in", [{"text": "same"}] * 20 + [{"text": "other"}] * 5, 4)
    for count in (1, 6, 19, 24):
        assert len(flat(run(JsonlReader(source), SampleRows(count, npartitions=2)))) == count


def test_a_share_of_rows_is_the_same_for_any_files_and_grows_with_the_fraction(tmp_path: Path) -> None:
    rows = some(2000)
    one, many = write(tmp_path / "one", rows, 1), write(tmp_path / "many", rows, 11)
    tenth = flat(run(JsonlReader(one), SampleFraction(0.1, seed=5)))
    assert flat(run(JsonlReader(many), SampleFraction(0.1, seed=5))) == tenth
    assert abs(len(tenth) - 200) < 6 * (2000 * 0.1 * 0.9) ** 0.5
    half = {row["id"] for row in flat(run(JsonlReader(many), SampleFraction(0.5, seed=5)))}
    assert {row["id"] for row in tenth} < half
    assert len(flat(run(JsonlReader(many), SampleFraction(1.0)))) == 2000
    result = Pipeline("test", stages=[JsonlReader(one), SampleFraction(0.1, seed=5)]).run(InlineExecutor())
    assert result.report.stages[1].dropped == {"not_sampled": 2000 - len(tenth)}


def blend(sources: list[str], target: int, weights: list[float], **settings: Any) -> Blend:
    return Blend(target, [JsonlReader(source) for source in sources], weights, **settings)


@pytest.mark.parametrize(
    ("target", "weights", "shares"),
    [
        (90, [2, 1], [60, 30]),
        (100, [1, 1], [50, 50]),
        (101, [1, 1], [51, 50]),
        (10, [0.0, 3.5], [0, 10]),
        (470, [3, 1.7], [300, 170]),
    ],
)
def test_a_blend_has_exactly_the_rows_that_the_weights_say(
    target: int, weights: list[float], shares: list[int], tmp_path: Path
) -> None:
    sources = [write(tmp_path / "a", some(120, "a"), 4), write(tmp_path / "b", some(40, "b"), 2)]
    found = flat(run(blend(sources, target, weights, seed=2)))
    assert len(found) == target
    for share, name, rows in zip(shares, "ab", (120, 40), strict=True):
        counts = Counter(row["id"] for row in found if row["id"].startswith(name))
        assert sum(counts.values()) == share
        times = [counts[f"{name}{number}"] for number in range(rows)]
        assert set(times) <= {share // rows, -(-share // rows)}


def test_a_blend_depends_on_seed_and_rows_alone(cluster: LocalCluster, tmp_path: Path) -> None:
    a, b = some(90, "a"), some(30, "b")
    few = [write(tmp_path / "a1", a, 1), write(tmp_path / "b1", b, 1)]
    many = [write(tmp_path / "a5", a[::-1], 5), write(tmp_path / "b5", b, 5)]
    first = flat(run(blend(few, 150, [1, 1], seed=2)))
    for parts in (1, 4, 13):
        assert flat(run(blend(many, 150, [1, 1], seed=2, npartitions=parts))) == first
    assert flat(run(blend(many, 150, [1, 1], seed=2), executor=DaskExecutor(cluster=cluster))) == first
    assert flat(run(blend(few, 150, [1, 1], seed=3))) != first


def test_every_stretch_of_a_blend_has_the_shares_of_the_whole_and_copies_are_far_apart(tmp_path: Path) -> None:
    sources = [write(tmp_path / "a", some(2000, "a"), 3), write(tmp_path / "b", some(250, "b"), 2)]
    found = [row["id"] for row in flat(run(blend(sources, 2000, [1, 1])))]
    for start in range(0, 2000, 500):
        assert abs(sum(name.startswith("b") for name in found[start : start + 500]) - 250) < 60
    places: dict[str, list[int]] = {}
    for place, name in enumerate(found):
        places.setdefault(name, []).append(place)
    gaps = [later - sooner for at in places.values() for sooner, later in pairwise(at)]
    assert min(gaps) > 250
    assert len(places) == 1000 + 250


def test_a_dataset_without_rows_cannot_give_any(tmp_path: Path) -> None:
    sources = [write(tmp_path / "a", some(3, "a"), 1), write(tmp_path / "b", [], 1)]
    with pytest.raises(DataError, match="dataset 1 has no rows, and is to give 5; leave it out"):
        run(blend(sources, 10, [1, 1]))
    assert len(flat(run(blend(sources, 10, [1, 0])))) == 10


@pytest.mark.parametrize("rows", [1, 7, 100, 1000])
def test_batches_have_the_rows_asked_for_in_the_order_of_the_source(rows: int, tmp_path: Path) -> None:
    all_rows = some(100)
    batches = run(JsonlReader(write(tmp_path / "in", all_rows, 6)), Rebatch(rows=rows))
    assert flat(batches) == all_rows
    assert [len(batch) for batch in batches[:-1]] == [rows] * (len(batches) - 1)
    assert 0 < len(batches[-1]) <= rows


def test_batches_have_about_the_bytes_asked_for(cluster: LocalCluster, tmp_path: Path) -> None:
    all_rows = [{"id": number, "text": "x" * 1000} for number in range(3000)]
    source = write(tmp_path / "in", all_rows, 5)
    for executor in (InlineExecutor(), DaskExecutor(cluster=cluster)):
        batches = run(JsonlReader(source), Rebatch(nbytes="300kB"), executor=executor)
        assert flat(batches) == all_rows
        assert all(280 <= len(batch) <= 310 for batch in batches[:-1])


def test_an_unfinished_run_goes_on_to_the_same_files(tmp_path: Path) -> None:
    source = write(tmp_path / "in", some(200), 5)

    def content(name: str, resume: bool) -> tuple[dict[str, bytes], int]:
        stages: list[AnyStage] = [
            JsonlReader(source),
            Shuffle(npartitions=6),
            Rebatch(rows=30),
            JsonlWriter(str(tmp_path / name)),
        ]
        report = Pipeline("test", stages=stages).run(InlineExecutor(), resume=resume).report
        return {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.jsonl")}, report.splits_before

    whole, _ = content("out", False)
    assert [len(data.splitlines()) for _, data in sorted(whole.items())] == [30] * 6 + [20]
    assert content("out", True) == (whole, 5)
    next((tmp_path / "out").glob("*.jsonl")).unlink()
    assert content("out", True)[0] == whole


def test_no_row_is_lost_or_doubled_when_workers_die_on_either_side_of_exchanges(tmp_path: Path) -> None:
    exchanges = [Shuffle(npartitions=5), Rebatch(rows=9)]
    folders = [tmp_path / "before", tmp_path / "after"]
    for folder in folders:
        folder.mkdir()
    before, after = (DieOnce(str(folder), text) for folder, text in zip(folders, ("7", "23"), strict=True))
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        found = run(
            Numbers(6, 5), before, *exchanges, after.with_(name="again"), executor=DaskExecutor(cluster=cluster)
        )
    assert flat(found) == flat(run(Numbers(6, 5), *exchanges))
    assert all((folder / "died").exists() for folder in folders)


@dataclass
class FailWhile(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises on one row for as long as a file is there."""

    text: str = ""
    _mark: str = ""
    name: str = "fail_while"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if os.path.exists(self._mark) and self.text in task.to_arrow()["id"].to_pylist():
            raise ValueError("not yet")
        return task


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "stage", [Shuffle(npartitions=6), SampleRows(90, npartitions=6), Rebatch(rows=17)], ids=lambda stage: stage.name
)
def test_a_run_that_failed_before_or_after_the_exchange_goes_on_to_the_same_files(
    stage: Any, after: bool, tmp_path: Path
) -> None:
    source = write(tmp_path / "in", some(120), 5)
    fails = FailWhile("d70" if not after else flat(run(JsonlReader(source), stage))[-20]["id"], str(tmp_path / "mark"))

    def content(name: str) -> dict[str, bytes]:
        stages = [stage, fails] if after else [fails, stage]
        chain = [JsonlReader(source), *stages, JsonlWriter(str(tmp_path / name))]
        Pipeline("test", stages=chain).run(InlineExecutor(), resume=True)
        return {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.jsonl")}

    whole = content("whole")
    (tmp_path / "mark").touch()
    with pytest.raises(StageError, match="not yet"):
        content("out")
    before = list((tmp_path / "out").glob("*.jsonl"))
    assert (0 < len(before) < len(whole)) == after
    (tmp_path / "mark").unlink()
    assert content("out") == whole


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Shuffle(seed="x"), "seed='x' must be a whole number"),  # type: ignore[arg-type]
        (lambda: Shuffle(npartitions=0), "npartitions=0 must be a whole number of at least 1"),
        (lambda: Shuffle(blocksize="much"), "blocksize='much' is not a size"),
        (lambda: SampleRows(0), "n=0 must be a whole number of at least 1"),
        (lambda: SampleFraction(1.5), "fraction=1.5 must lie between 0 and 1"),
        (Rebatch, "give rows= or nbytes=, and not both"),
        (lambda: Rebatch(rows=1, nbytes=1), "give rows= or nbytes=, and not both"),
        (lambda: Blend(10, [JsonlReader("a")], [1, 2]), "1 datasets and 2 sampling_weights"),
        (lambda: Blend(10, [JsonlReader("a")], [-1.0]), "must be numbers of zero or more"),
        (lambda: Blend(10, [JsonlReader("a")], [0.0]), "must be numbers of zero or more, one above it"),
        (lambda: Blend(10, ["a"], [1.0]), "'a' is not a reader"),  # type: ignore[list-item]
    ],
)
def test_settings_that_mean_nothing_are_refused(make: Any, said: str) -> None:
    with pytest.raises(PipelineError) as refusal:
        make()
    assert said in str(refusal.value)


def test_a_recipe_can_blend(tmp_path: Path) -> None:
    sources = [write(tmp_path / name, some(20, name), 2) for name in "ab"]
    (tmp_path / "mix.yaml").write_text(
        "stages:\n  - Blend:\n      target_size: 30\n      sampling_weights: [2, 1]\n      datasets:\n"
        + "".join(f"        - JsonlReader: {{file_paths: {source}}}\n" for source in sources)
        + f"  - JsonlWriter: {{path: {tmp_path / 'out'}}}\n"
    )
    load_recipe(tmp_path / "mix.yaml").pipeline.run(InlineExecutor())
    (file,) = (tmp_path / "out").glob("*.jsonl")
    assert sum(json.loads(line)["id"].startswith("a") for line in file.read_text().splitlines()) == 20

"""A resumed run whose input is cut or grouped in another way now writes what a new run would write."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
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
)
from dcurate.core.pipeline import AnyStage
from dcurate.core.report import RunReport
from tests.forked import run_forked
from tests.places import records
from tests.run.regroup import pipeline
from tests.run.test_resume import content

pytestmark = pytest.mark.cluster


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Five files of four rows each, a row of which stands in all of them."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "bdfhj":
        write(folder, name)
    return folder


def write(folder: Path, name: str, rows: int = 4) -> None:
    texts = ["everywhere", *(f"row {row} of {name}" for row in range(1, rows))]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def resumed(source: Path, output: Path, dedup: bool = False) -> RunReport:
    return pipeline(str(source), str(output), dedup).run(InlineExecutor(), resume=True).report


def anew(source: Path, folder: Path, dedup: bool = False) -> dict[str, bytes]:
    """What a run from the beginning writes."""
    pipeline(str(source), str(folder), dedup).run(InlineExecutor())
    return content(folder)


def comes(source: Path) -> None:
    write(source, "c")


def shrinks(source: Path) -> None:
    write(source, "f", rows=2)


def both(source: Path) -> None:
    write(source, "a")
    write(source, "j", rows=1)


@pytest.mark.parametrize("dedup", [False, True])
@pytest.mark.parametrize("change", [comes, shrinks, both])
def test_rows_are_there_once_when_files_come_and_change(
    change: Callable[[Path], None], dedup: bool, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert not resumed(source, output, dedup).notices
    change(source)
    report = resumed(source, output, dedup)
    assert content(output) == anew(source, tmp_path / "new", dedup)
    if change is comes:
        assert report.notices == (
            "output of 3 splits of earlier runs was removed, and its rows were made again: files came or changed, so "
            "that the input is grouped or cut in another way now",
        )
    assert resumed(source, output, dedup).splits_before == report.splits
    assert content(output) == content(tmp_path / "new")


@pytest.mark.parametrize("dedup", ["", "dedup"])
@pytest.mark.parametrize(("event", "number"), [("os.remove", 1), ("os.remove", 2), ("os.remove", 7), ("os.rename", 1)])
def test_a_run_that_is_killed_while_it_makes_room_is_resumed_to_the_same_bytes(
    event: str, number: int, dedup: str, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    resumed(source, output, bool(dedup))
    write(source, "c")
    wanted = anew(source, tmp_path / "new", bool(dedup))
    before = content(output)
    command = [sys.executable, "-m", "tests.run.regroup", str(source), str(output), event, str(number), dedup]
    for _ in range(2):
        assert run_forked(command) == -signal.SIGKILL
    assert content(output) != before or number == 1
    resumed(source, output, bool(dedup))
    assert content(output) == wanted


@pytest.mark.parametrize("number", [2, 4, 11])
def test_what_a_killed_run_had_not_recorded_is_put_aside_when_the_input_is_grouped_anew(
    number: int, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-m", "tests.run.regroup", str(source), str(output), "os.rename", str(number), ""]
    assert run_forked(command) == -signal.SIGKILL
    left = content(output)
    assert len(left) == number - 1
    write(source, "c")
    *_, notice = resumed(source, output).notices
    assert content(output) == anew(source, tmp_path / "new")
    put_aside = {path.name: path.read_bytes() for path in (records(output) / "strays").iterdir()}
    assert f"of no finished split (first: {min(put_aside)!r})" in notice
    assert put_aside.items() <= left.items()
    assert len(put_aside) >= min(number - 1, 2)  # a slow run has recorded some of them


def test_what_another_run_wrote_beside_is_not_put_aside(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    resumed(source, output / "of another")
    stages: list[AnyStage] = [JsonlReader(str(source)), JsonlWriter(str(output), mode="ignore")]
    (output / "mine-0123456789ab.jsonl").touch()
    for resume in (False, True):
        report = Pipeline("test", stages=stages).run(InlineExecutor(), resume=resume).report
        assert not report.notices
    assert (output / "mine-0123456789ab.jsonl").exists()
    assert len(content(output)) == 26


def test_a_file_of_equal_size_that_takes_another_ones_place_is_deduplicated_anew(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonl").write_text('{"text": "x"}\n')
    (source / "b.jsonl").write_text('{"text": "x"}\n{"text": "y"}\n')
    (source / "c.jsonl").write_text('{"text": "w"}\n')
    resumed(source, output, dedup=True)
    (source / "a.jsonl").write_text('{"text": "z"}\n')
    resumed(source, output, dedup=True)
    assert content(output) == anew(source, tmp_path / "new", dedup=True)


@pytest.mark.parametrize("blocksize", ["128KiB", "40B"])
def test_blocks_that_a_file_does_not_have_any_more_leave_nothing(
    blocksize: str, source: Path, tmp_path: Path, cluster: LocalCluster
) -> None:
    def run(output: Path, resume: bool) -> None:
        stages: list[AnyStage] = [JsonlReader(str(source), blocksize=blocksize), JsonlWriter(str(output))]
        Pipeline("test", stages=stages).run(DaskExecutor(cluster=cluster), resume=resume)

    run(tmp_path / "out", True)
    write(source, "b", rows=1)
    write(source, "e", rows=9)
    run(tmp_path / "out", True)
    run(tmp_path / "new", False)
    assert content(tmp_path / "out") == content(tmp_path / "new")


def test_files_that_become_so_many_that_they_are_packed_leave_nothing_twice(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()

    def run(output: Path) -> RunReport:
        stages: list[AnyStage] = [JsonlReader(str(source)), JsonlWriter(str(output))]
        return Pipeline("test", stages=stages).run(InlineExecutor(), resume=True).report

    for number in range(999):
        (source / f"{number}.jsonl").write_text(f'{{"number": {number}}}\n')
    assert run(output).splits == len(content(output)) == 999
    (source / "999.jsonl").write_text('{"number": 999}\n')
    report = run(output)
    assert report.splits == len(content(output)) == 63
    assert any("1,000 files of 16 bytes on average are packed, up to 16 a split" in one for one in report.notices)
    run(tmp_path / "new")
    assert content(output) == content(tmp_path / "new")
    numbers = [json.loads(line)["number"] for data in content(output).values() for line in data.splitlines()]
    assert sorted(numbers) == list(range(1000))


def test_a_group_that_lost_one_of_its_files_is_refused_before_anything_is_done(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    resumed(source, output)
    before = content(output)
    (source / "d.jsonl").unlink()
    with pytest.raises(DataError) as refusal:
        resumed(source, output)
    assert str(refusal.value).startswith(
        f"'{output}' holds 1 finished splits of which some files are not in the input now, and others are in other "
        "splits now (first: 'b.jsonl+1-"
    )
    assert str(refusal.value).endswith(
        f", without '{source}/d.jsonl'); put the files back, or start afresh with mode='overwrite'"
    )
    assert content(output) == before
    write(source, "d")
    resumed(source, output)
    assert content(output) == anew(source, tmp_path / "new")


def test_rows_of_files_that_were_moved_away_stay(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    resumed(source, output)
    before = content(output)
    for name in "bd":
        (source / f"{name}.jsonl").unlink()
    write(source, "k")
    (notice,) = (one for one in resumed(source, output).notices if "also holds" in one)
    assert notice == (
        "the output also holds what earlier runs made of 1 splits that the input does not have any more: their files "
        "were removed; start afresh with mode='overwrite' if that is not wanted"
    )
    after = [json.loads(data)["text"] for data in content(output).values()]
    assert len(after) == 24
    assert {text for text in after if text[-1] in "bd"} == {
        text for data in before.values() if (text := json.loads(data)["text"])[-1] in "bd"
    }


@pytest.mark.parametrize("blocksize", [1, 40])
def test_a_limit_removes_nothing(blocksize: int, source: Path, tmp_path: Path) -> None:
    for name in "dfhj":
        (source / f"{name}.jsonl").unlink()

    def run(limit: int | None) -> None:
        stages: list[AnyStage] = [
            JsonlReader(str(source), blocksize=blocksize, limit=limit),
            JsonlWriter(str(tmp_path / "out")),
        ]
        Pipeline("test", stages=stages).run(InlineExecutor(), resume=True)

    run(None)
    before = content(tmp_path / "out")
    splits = len(list(JsonlReader(str(source), blocksize=blocksize).splits()))
    for limit in (1, splits - 1):
        run(limit)
        assert content(tmp_path / "out") == before


def test_fewer_batches_to_begin_with_remove_nothing(tmp_path: Path) -> None:
    def run(number: int) -> None:
        batches = [DocumentBatch(data=pd.DataFrame({"text": [f"batch {one}"]})) for one in range(number)]
        stages = [JsonlWriter(str(tmp_path / "out"))]
        Pipeline("test", stages=stages).run(InlineExecutor(), initial_tasks=batches, resume=True)

    run(3)
    before = content(tmp_path / "out")
    run(1)
    assert content(tmp_path / "out") == before


def test_records_that_do_not_name_their_files_are_kept_and_told_of(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    resumed(source, output)
    (segment,) = (records(output) / "ledger").glob("*.jsonl")
    lines = [json.dumps(json.loads(line)[:4]) for line in segment.read_text().splitlines()]
    segment.write_text("".join(f"{line}\n" for line in lines))
    assert resumed(source, output).splits_before == 3
    before = content(output)
    write(source, "c")
    (notice,) = resumed(source, output).notices
    assert "of 3 splits" in notice
    assert "which puts their rows there twice" in notice
    assert before.items() < content(output).items()

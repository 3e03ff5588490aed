"""What becomes of an output directory that others change, and of records that do not fit the input any more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dcurate import DataError, InlineExecutor, JsonlReader, JsonlWriter, Pipeline


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four files of a row each."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "bdfh":
        write(folder, name)
    return folder


def write(folder: Path, name: str) -> None:
    (folder / f"{name}.jsonl").write_text(json.dumps({"text": f"text of {name}"}) + "\n")


def pipeline(source: Path, output: Path, files: int | None = None, mode: str = "error") -> Pipeline:
    writer = JsonlWriter(str(output), mode=mode)  # type: ignore[arg-type]
    return Pipeline("test", stages=[JsonlReader(str(source), files_per_partition=files), writer])


def test_an_output_that_is_deleted_under_a_run_ends_it_with_one_sentence(source: Path, tmp_path: Path) -> None:
    stream = pipeline(source, tmp_path / "out").stream(InlineExecutor())
    next(stream)
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(DataError, match="out' was deleted while the run wrote to it; run again"):
        list(stream)


def test_a_run_whose_output_another_run_takes_over_ends_with_one_sentence(source: Path, tmp_path: Path) -> None:
    stream = pipeline(source, tmp_path / "out").stream(InlineExecutor())
    next(stream)
    (tmp_path / "out.dcurate" / "owner.json").unlink()  # as somebody may who thinks that the run is dead
    pipeline(source, tmp_path / "out", mode="overwrite").run(InlineExecutor())
    with pytest.raises(DataError, match="another run wrote to .*out' at the same time"):
        list(stream)


def test_a_resumed_run_says_what_the_output_holds_of_files_that_are_gone(source: Path, tmp_path: Path) -> None:
    pipeline(source, tmp_path / "out").run(InlineExecutor())
    assert not pipeline(source, tmp_path / "out").run(InlineExecutor(), resume=True).report.notices
    (source / "h.jsonl").unlink()
    report = pipeline(source, tmp_path / "out").run(InlineExecutor(), resume=True).report
    (notice,) = report.notices
    assert notice.startswith("the output also holds what earlier runs made of 1 splits that the input does not have")
    assert notice in " ".join((tmp_path / "out.dcurate" / "report.txt").read_text().split())
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == 4


def test_a_resumed_run_says_that_records_could_not_be_read(source: Path, tmp_path: Path) -> None:
    pipeline(source, tmp_path / "out").run(InlineExecutor())
    (segment,) = (tmp_path / "out.dcurate" / "ledger").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes()[:-20])
    report = pipeline(source, tmp_path / "out").run(InlineExecutor(), resume=True).report
    assert (report.splits_before, report.stages[-1].rows_out) == (0, 4)
    (notice,) = report.notices
    assert notice.startswith("1 of the files that say what earlier runs had finished could not be read")

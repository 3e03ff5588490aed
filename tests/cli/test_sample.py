"""``dcurate sample``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dcurate import DataError, InlineExecutor, JsonlReader, Pipeline
from dcurate.cli import cli
from dcurate.cli.samples import small_sample
from dcurate.recipe import SAMPLE


def written(*arguments: str) -> str:
    return CliRunner().invoke(cli, ["sample", *arguments], catch_exceptions=False).output


def test_the_bundled_sample_is_written_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "input"
    assert "10 files" in written(str(folder))
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in SAMPLE.glob("part-*"))
    assert all((folder / name).read_bytes() == (SAMPLE / name).read_bytes() for name in names)
    read = Pipeline("p", stages=[JsonlReader(str(folder), on_bad_line="quarantine")]).run(
        InlineExecutor(), observers=[]
    )
    assert read.report.stages[0].rows_out == 1114


def test_the_small_sample_may_be_written_again(tmp_path: Path) -> None:
    for _ in range(2):
        assert "3 files" in written(str(tmp_path), "--small")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == small_sample()


@pytest.mark.parametrize("name", ["mine.txt", "part-0.jsonl"])
def test_a_folder_with_other_files_is_refused_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match=f"holds '{name}', which is not of the sample; name an empty folder"):
        written(str(tmp_path), "--small")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]

"""``dcurate sample``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dcurate import DataError, DocumentBatch, InlineExecutor, JsonlReader, MediaReader, Pipeline
from dcurate.audio import AudioInfo
from dcurate.cli import cli
from dcurate.cli.sample_files import SAMPLES, small_sample
from dcurate.recipe import SAMPLE, SAMPLE_FILMS, SAMPLE_RECORDINGS
from dcurate.video import VideoInfo


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


def test_the_recordings_are_written_as_they_are_with_their_licence(tmp_path: Path) -> None:
    assert "9 files" in written(str(tmp_path), "--recordings")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files == {path.name: path.read_bytes() for path in SAMPLE_RECORDINGS.iterdir()}
    assert sum(map(len, files.values())) <= 300_000
    about = files["README.md"].decode()
    assert "CC BY-SA 3.0" in about
    assert "Allison Smith" in about
    reader = MediaReader(str(tmp_path), kinds=["audio"])
    result = Pipeline("p", stages=[reader, AudioInfo()]).run(InlineExecutor(), observers=[])
    assert result.report.stages[1].rows_out == 7
    assert result.report.stages[1].faulty == {"not a recording: HTML or XML": 1}
    [batch] = result
    assert isinstance(batch, DocumentBatch)
    assert all(f"`{name}`" in about for name in batch.to_arrow()["file_name"].to_pylist())


def test_the_films_are_written_as_they_are_with_their_licence(tmp_path: Path) -> None:
    assert "8 files" in written(str(tmp_path), "--films")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files == {path.name: path.read_bytes() for path in SAMPLE_FILMS.iterdir()}
    assert sum(map(len, files.values())) <= 400_000
    about = files["README.md"].decode()
    assert "Apache-2.0" in about
    result = Pipeline("p", stages=[MediaReader(str(tmp_path), kinds=["video"]), VideoInfo()]).run(
        InlineExecutor(), observers=[]
    )
    assert result.report.stages[1].rows_out == 6
    assert result.report.stages[1].faulty == {"not a film: HTML or XML": 1}
    [batch] = result
    assert isinstance(batch, DocumentBatch)
    rows = batch.to_arrow().to_pylist()
    assert all(f"`{row['file_name']}`" in about for row in rows)
    assert [row["file_name"] for row in rows if row["video_truncated"]] == ["cut-off.mkv"]


def test_two_samples_at_once_are_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["sample", str(tmp_path / "new"), "--small", "--recordings"])
    assert result.exit_code == 2
    assert "--small and --recordings are different samples; give one of them" in result.output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["mine.txt", "part-0.jsonl"])
def test_a_folder_with_other_files_is_refused_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match=f"holds '{name}', which is not of the sample; name an empty folder"):
        written(str(tmp_path), "--small")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.parametrize("option", [option for option in SAMPLES if option])
def test_a_sample_is_the_same_every_time_and_small(option: str, tmp_path: Path) -> None:
    for folder in ("first", "again", "again"):
        written(str(tmp_path / folder), option)
    first, again = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} for folder in ("first", "again")
    )
    assert first == again
    assert 0 < sum(map(len, first.values())) < 2_000_000

"""An output in the folder of the input: no run reads what an earlier one wrote, or deletes what it is to read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    DataError,
    DocumentWriter,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    TableReader,
    TableWriter,
)


def rows(folder: Path) -> int:
    return sum(path.read_text().count("\n") for path in folder.glob("*.jsonl"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": f"row {row}"}) + "\n" for row in range(3)))
    return folder


def run(reader: Any, writer: Any, **settings: Any) -> Any:
    return Pipeline("apart", stages=[reader, writer]).run(InlineExecutor(), observers=[], **settings)


@pytest.mark.parametrize("mode", ["error", "ignore", "append", "overwrite"])
@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("given", ["{}", "{}/", "{}/*", "{}/*.jsonl", "{}/**", "{}/../in", "{}-link", "file://{}"])
def test_an_output_in_the_folder_of_the_input_is_refused(source: Path, mode: Any, resume: bool, given: str) -> None:
    os.symlink(source, f"{source}-link")
    for _ in range(2):
        with pytest.raises(
            DataError, match=r"the input file '.*/in(-link)?/a.jsonl' is in the output directory|holds f"
        ):
            run(JsonlReader(given.format(source)), JsonlWriter(str(source), mode=mode), resume=resume)
        assert rows(source) == 3
    with pytest.raises(DataError) as refusal:
        run(JsonlReader(given.format(source)), JsonlWriter(str(source), mode=mode), resume=resume)
    assert "mode='ignore'" not in str(refusal.value)


@pytest.mark.parametrize("mode", ["error", "ignore", "append", "overwrite"])
@pytest.mark.parametrize("writer", [JsonlWriter, DocumentWriter])
def test_an_output_below_the_folder_of_the_input_does_not_grow(source: Path, mode: Any, writer: Any) -> None:
    for attempt in range(3):
        if attempt and mode != "overwrite":
            with pytest.raises(DataError, match="is in the output directory .*, so a run would read what the last one"):
                run(JsonlReader(str(source)), writer(str(source / "out"), mode=mode))
        else:
            run(JsonlReader(str(source)), writer(str(source / "out"), mode=mode))
        assert rows(source / "out") == 3


def test_an_output_is_not_deleted_that_is_read(source: Path, tmp_path: Path) -> None:
    run(JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out")))
    with pytest.raises(DataError, match="so a run would delete it before it is read; write to a directory that"):
        run(JsonlReader(str(tmp_path / "out")), JsonlWriter(str(tmp_path / "out"), mode="overwrite"))
    assert rows(tmp_path / "out") == 3


def test_what_no_run_reads_again_is_written_beside_the_input(source: Path) -> None:
    for _ in range(2):
        run(JsonlReader(str(source)), ParquetWriter(str(source), mode="ignore"))
        run(JsonlReader(f"{source}/a.jsonl"), JsonlWriter(str(source), mode="ignore"))
        run(JsonlReader(f"{source}/*.jsonl"), JsonlWriter(str(source / "_out"), mode="overwrite"))
        for path in source.glob("a-*.jsonl"):
            path.unlink()


@pytest.mark.parametrize("reader", [ParquetReader, TableReader])
def test_a_table_is_not_appended_to_itself(source: Path, tmp_path: Path, reader: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    run(JsonlReader(str(source)), TableWriter(path))
    with pytest.raises(DataError, match="is in the output directory"):
        run(reader(path), TableWriter(path, mode="append"))
    run(reader(path), TableWriter(path, mode="overwrite"))
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 3

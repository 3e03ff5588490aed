"""An output in the folder of the input: no run reads what an earlier one wrote, or deletes what it is to read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fsspec
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
from dcurate.datasets import Blend

READ = "where the output goes, so the next run would read what this one writes; write to a folder outside of the input"
DELETED = r"the input file '.*/in(-link)?/a.jsonl' is in the output directory .*, so a run would delete it"


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
@pytest.mark.parametrize("given", ["{}", "{}/", "{}/*", "{}/**/a*.jsonl", "{}/**", "{}/../in", "{}-link", "file://{}"])
@pytest.mark.parametrize("folder", ["", "/out", "-link", "-link/out"])
def test_an_output_that_the_reader_reads_is_refused(
    source: Path, mode: Any, resume: bool, given: str, folder: str
) -> None:
    os.symlink(source, f"{source}-link")
    for _ in range(2):
        with pytest.raises(DataError, match=f"{READ}|{DELETED}") as refusal:
            run(JsonlReader(given.format(source)), JsonlWriter(f"{source}{folder}", mode=mode), resume=resume)
        assert rows(source) == 3
        assert not (source / "out").exists()
        assert "mode='ignore'" not in str(refusal.value)


@pytest.mark.parametrize("writer", [DocumentWriter, JsonlWriter])
@pytest.mark.parametrize("separate_by", [None, "text"])
def test_an_output_below_one_of_several_inputs_is_refused(source: Path, writer: Any, separate_by: str | None) -> None:
    (source.parent / "more").mkdir()
    blended = Blend(2, [JsonlReader(f"{source}/a.jsonl"), JsonlReader(str(source.parent))], [1, 1])
    with pytest.raises(DataError, match=READ):
        run(blended, writer(str(source / "out"), separate_by=separate_by))


def test_a_folder_for_rejected_rows_that_the_reader_reads_is_refused(source: Path, tmp_path: Path) -> None:
    for rejected in (str(source / "rejected"), f"{tmp_path}/../{tmp_path.name}/in", f"file://{source}/rejected"):
        with pytest.raises(DataError, match="where rejected='.*' goes, so the next run would read what this one"):
            run(JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out")), rejected=rejected)
        assert not (source / "rejected").exists()
        assert not (tmp_path / "out").exists()
    run(JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out")), rejected=str(source / "_rejected"))


def test_an_output_in_the_input_is_refused_on_stores(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/apart/in/a.jsonl", b'{"text": "row"}\n')
    for out in ("in", "in/out", "in/"):
        with pytest.raises(DataError, match=f"{READ}|is not empty|holds files"):
            run(JsonlReader("memory://apart/in"), JsonlWriter(f"memory://apart/{out}"))
    assert store.find("/apart") == ["/apart/in/a.jsonl"]
    run(JsonlReader("memory://apart/in"), JsonlWriter("memory://apart/inner", mode="overwrite"))


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
    with pytest.raises(DataError, match=READ):
        run(reader(path), TableWriter(path, mode="append"))
    run(JsonlReader(str(source)), ParquetWriter(str(tmp_path / "parquet")))
    for mode in ("error", "overwrite", "append"):
        with pytest.raises(DataError, match=READ):
            run(ParquetReader(str(tmp_path / "parquet")), TableWriter(str(tmp_path / "parquet/new"), mode=mode))
    run(reader(path), TableWriter(path, mode="overwrite"))
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 3

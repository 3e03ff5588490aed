"""Rows are written to a folder for each value of a column."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    DaskExecutor,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.io.output import folder_name

pytestmark = pytest.mark.cluster


def write(kind: Any, folder: Path, columns: Mapping[str, Any], **settings: Any) -> list[str]:
    writer = kind(str(folder), **settings)
    writer.prepare(resume=False)
    group = writer.process(DocumentBatch(data=pa.table(columns), key=BatchKey("part-00.jsonl")))
    return [os.path.relpath(path, folder) for path in group.data]


@pytest.mark.parametrize(("kind", "reader"), [(JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)])
def test_each_value_has_a_folder_that_reads_as_a_dataset(kind: Any, reader: Any, tmp_path: Path) -> None:
    columns: Any = {"n": list(range(7)), "lang": ["en", "de", None, "en", "", "../x", "_de"]}
    written = write(kind, tmp_path, columns, separate_by="lang")
    assert [path.rpartition("/")[0] for path in written] == ["en", "de", "%null", "%empty", "%2E.%2Fx", "%5Fde"]
    for path, numbers in zip(written, [[0, 3], [1], [2], [4], [5], [6]], strict=True):
        source = reader(str(tmp_path / path.rpartition("/")[0]))
        table = source.process(next(source.splits())).to_arrow()
        assert table["n"].to_pylist() == numbers
        assert table["lang"].to_pylist() == [columns["lang"][number] for number in numbers]
    assert sum(1 for _ in reader(str(tmp_path)).splits()) == 6


def test_the_column_need_not_be_written(tmp_path: Path) -> None:
    (path,) = write(JsonlWriter, tmp_path, {"a": [1], "b": ["x"]}, separate_by="b", fields=["a"])
    assert (tmp_path / path).read_text() == '{"a":1}\n'
    assert JsonlWriter("out", separate_by="b", fields=["a"]).inputs() == ([], ["a", "b"])
    assert ParquetWriter("out", separate_by="b", partition_cols=["c"]).inputs() == ([], ["b", "c"])


def test_folders_can_be_above_hive_directories_and_files_of_limited_rows(tmp_path: Path) -> None:
    columns = {"n": [1, 2, 3], "year": [1, 1, 2], "lang": ["en", "en", "en"]}
    written = write(ParquetWriter, tmp_path, columns, separate_by="lang", partition_cols=["year"], max_rows_per_file=1)
    assert [path.rpartition("/")[0] for path in written] == ["en/year=1", "en/year=1", "en/year=2"]
    assert len(set(written)) == 3


@pytest.mark.parametrize("values", [[1, 2, 1], [1.5, None, 1.5], [True, False, True], [b"x", b"y", b"x"]])
def test_values_of_any_plain_kind_name_folders(values: list[Any], tmp_path: Path) -> None:
    written = write(ParquetWriter, tmp_path, {"v": values}, separate_by="v")
    assert [path.rpartition("/")[0] for path in written] == [folder_name(value) for value in dict.fromkeys(values)]


def test_what_names_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'v' holds list<item: int64>, which names no folder"):
        write(JsonlWriter, tmp_path, {"v": [[1]]}, separate_by="v")
    with pytest.raises(DataError, match="column 'v' holds extension<arrow.bool8>, which names no folder"):
        write(ParquetWriter, tmp_path, {"v": pa.array([True]).cast(pa.bool8())}, separate_by="v", mode="overwrite")
    with pytest.raises(DataError, match="no column 'w'"):
        write(JsonlWriter, tmp_path, {"v": [1]}, separate_by="w", mode="overwrite")
    with pytest.raises(PipelineError, match="separate_by=\\['a'\\] must be the name of one column"):
        JsonlWriter("out", separate_by=["a"])  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(st.none() | st.text(max_size=300) | st.sampled_from(["%null", "%empty", ".", "..", "_", "a/b"])))
def test_no_two_values_share_a_folder_and_every_name_is_safe(values: list[str | None]) -> None:
    names = {value: folder_name(value) for value in values}
    assert len(set(names.values())) == len(names)
    for name in names.values():
        assert name[0] not in "._"
        assert "/" not in name
        assert name.isascii()
        assert name.isprintable()
        assert 0 < len(name) <= 200


def test_a_resumed_run_writes_each_row_to_its_folder_once(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        lines = [json.dumps({"n": 10 * number + row, "lang": "xyz"[row % 3]}) + "\n" for row in range(10)]
        (tmp_path / "in" / f"{number}.jsonl").write_text("".join(lines))

    def content(executor: Any, resume: bool) -> dict[str, str]:
        stages: list[AnyStage] = [
            JsonlReader(str(tmp_path / "in")),
            JsonlWriter(str(tmp_path / "out"), separate_by="lang"),
        ]
        Pipeline("test", stages=stages).run(executor, resume=resume)
        return {str(p.relative_to(tmp_path / "out")): p.read_text() for p in (tmp_path / "out").glob("?/*.jsonl")}

    whole = content(DaskExecutor(cluster=cluster), False)
    assert len(whole) == 12
    next((tmp_path / "out" / "y").glob("*")).unlink()
    assert content(InlineExecutor(), True) == whole


@pytest.mark.parametrize("value", ["x" * 5000, "é" * 60])
def test_a_value_too_long_for_the_name_of_a_directory_is_shortened_or_refused(value: str, tmp_path: Path) -> None:
    columns = {"n": [1, 2], "v": ["a", value]}
    for kind, reader in ((JsonlWriter, JsonlReader), (ParquetWriter, ParquetReader)):
        write(kind, tmp_path / kind.__name__, columns, separate_by="v")
        source = reader(str(tmp_path / kind.__name__))
        found = [row for split in source.splits() for row in source.process(split).to_arrow().to_pylist()]
        assert sorted(found, key=lambda row: row["n"]) == [{"n": 1, "v": "a"}, {"n": 2, "v": value}]
    with pytest.raises(
        DataError, match="parquet_writer: a value of column 'v' makes a name of .* bytes, and a directory"
    ):
        write(ParquetWriter, tmp_path / "hive", columns, partition_cols=["v"])

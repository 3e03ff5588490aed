"""A run that appends to Parquet files writes none that could not be read together with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dcurate import DataError, InlineExecutor, ParquetReader, ParquetWriter, Pipeline, TableReader, TableWriter
from dcurate.core.stage import Stage

KINDS: dict[str, pa.Array] = {
    "int64": pa.array([1, None]),
    "int8": pa.array([1], pa.int8()),
    "double": pa.array([0.5]),
    "string": pa.array(["x"]),
    "large_string": pa.array(["x"], pa.large_string()),
    "bool": pa.array([True]),
    "null": pa.array([None]),
    "date": pa.array([1], pa.date32()),
    "list": pa.array([[1]], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1}]),
    "wider struct": pa.array([{"a": 0.5, "b": "x"}]),
    "dictionary": pa.array(["x"]).dictionary_encode(),
    "view": pa.array(["x"], pa.string_view()),
    "timestamp": pa.array([1], pa.timestamp("us")),
    "zoned": pa.array([1], pa.timestamp("us", "UTC")),
}


def append(folder: Path, values: pa.Array, executor: Any = None, **settings: Any) -> Any:
    stages = [ParquetWriter(str(folder), mode="append", **settings)]
    return Pipeline("t", stages=stages).run(executor or InlineExecutor(), pa.table({"v": values}), observers=[])


def rows(folder: Path) -> int:
    read: list[Stage] = [ParquetReader(str(folder))]
    return len(Pipeline("t", stages=read).run(InlineExecutor(), observers=[]).to_arrow())


@pytest.mark.parametrize("first", ["int64", "string", "struct", "null", "timestamp", "dictionary"])
def test_rows_are_appended_if_and_only_if_readers_find_a_common_type(first: str, tmp_path: Path) -> None:
    for second, values in KINDS.items():
        apart, together = tmp_path / second / "apart", tmp_path / second / "together"
        for name in {first, second}:
            append(apart / name, KINDS[name])
        append(together, KINDS[first])
        before = sorted(together.iterdir())
        try:
            rows(apart)
        except DataError:
            with pytest.raises(DataError, match="parquet_writer: column 'v' is .* in the rows, but .* of the output;"):
                append(together, values)
            assert sorted(together.iterdir()) == before
            assert rows(together) == len(KINDS[first])
        else:
            append(together, values)
            assert rows(together) == len(KINDS[first]) + len(values)


def test_a_repeated_day_may_have_other_types_if_no_other_day_is_there(tmp_path: Path) -> None:
    append(tmp_path / "out", KINDS["string"], label="monday")
    append(tmp_path / "out", KINDS["int64"], label="monday")
    append(tmp_path / "out", KINDS["double"], label="tuesday")
    with pytest.raises(DataError, match="column 'v' is string in the rows, but double"):
        append(tmp_path / "out", KINDS["string"], label="monday")
    assert rows(tmp_path / "out") == 3


def test_a_day_without_rows_and_other_modes_hold_nobody_to_their_types(tmp_path: Path) -> None:
    append(tmp_path / "out", KINDS["int64"][:0])
    append(tmp_path / "out", KINDS["string"])
    for mode in ("overwrite", "ignore"):
        stages = [ParquetWriter(str(tmp_path / "out"), mode=mode)]
        Pipeline("t", stages=stages).run(InlineExecutor(), pa.table({"v": KINDS["int64"]}), observers=[])


@pytest.mark.parametrize("settings", [{"partition_cols": ["day"]}, {"separate_by": "day"}])
def test_columns_in_names_of_folders_are_not_compared(settings: dict[str, Any], tmp_path: Path) -> None:
    def add(day: Any, values: list[Any]) -> None:
        table = pa.table({"day": [day] * len(values), "v": values})
        stages = [ParquetWriter(str(tmp_path / "out"), mode="append", **settings)]
        Pipeline("t", stages=stages).run(InlineExecutor(), table, observers=[])

    add("monday", [1])
    add("tuesday", [2.5])
    with pytest.raises(DataError, match="column 'v' is string in the rows"):
        add("wednesday", ["x"])


@pytest.mark.cluster
def test_workers_refuse_them_too(tmp_path: Path) -> None:
    append(tmp_path / "out", KINDS["int64"])
    stages: list[Stage] = [ParquetReader(str(tmp_path / "text")), ParquetWriter(str(tmp_path / "out"), mode="append")]
    append(tmp_path / "text", KINDS["string"])
    with pytest.raises(DataError, match="column 'v' is string in the rows, but int64"):
        Pipeline("t", stages=stages).run(n_workers=1, observers=[])


def test_a_table_of_delta_refuses_text_for_numbers_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")

    def write(values: pa.Array) -> None:
        stages = [TableWriter(str(tmp_path / "table"), format="delta", mode="append")]
        Pipeline("t", stages=stages).run(InlineExecutor(), pa.table({"v": values}), observers=[])

    write(KINDS["int64"])
    with pytest.raises(DataError, match="'v' is string in the rows, and int64 in table .*, which has no text; change"):
        write(KINDS["string"])
    read: list[Stage] = [TableReader(str(tmp_path / "table"), format="delta")]
    assert len(Pipeline("t", stages=read).run(InlineExecutor(), observers=[]).to_arrow()) == 2

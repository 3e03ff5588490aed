from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DataError, DocumentReader, InlineExecutor, JsonlReader, ParquetReader, Pipeline, PipelineError


def put(path, table, **settings):
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **settings)
    return path


def read(path, **settings):
    reader = ParquetReader(str(path), **settings)
    return [reader.process(split) for split in reader.splits()]


def rows(path, **settings):
    return [row for batch in read(path, **settings) for row in batch.data.to_pylist()]


def test_large_files_are_cut_at_row_groups_and_each_row_comes_once(tmp_path):
    path = put(tmp_path / "a.parquet", {"n": list(range(1000))}, row_group_size=100, compression="none")
    reader = ParquetReader(str(tmp_path), blocksize=path.stat().st_size // 3)
    splits = list(reader.splits())
    assert [(str(s.key), s.parts[0].start, s.parts[0].stop) for s in splits] == [
        ("a.parquet@00000", 0, 3),
        ("a.parquet@00001", 3, 6),
        ("a.parquet@00002", 6, 9),
        ("a.parquet@00003", 9, 10),
    ]
    assert [n for s in splits for n in reader.process(s).data["n"].to_pylist()] == list(range(1000))


def test_a_large_file_of_one_row_group_is_one_split(tmp_path):
    put(tmp_path / "a.parquet", {"n": list(range(1000))})
    assert [str(s.key) for s in ParquetReader(str(tmp_path), blocksize=100).splits()] == ["a.parquet"]


def test_rows_come_as_one_chunk_without_the_marks_of_pandas(tmp_path):
    frame = pd.DataFrame({"t": ["x", "y"] * 500, "c": pd.Categorical(["p", "q"] * 500)})
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=100)
    (batch,) = read(tmp_path)
    assert b"pandas" not in batch.data.schema.metadata  # or pandas would take a column for its index
    assert not pa.types.is_dictionary(batch.data.schema.field("c").type)
    assert all(column.num_chunks == 1 for column in batch.data.columns)
    assert batch.num_items == 1000


def test_types_drift_together(tmp_path):
    put(tmp_path / "a.parquet", {"n": pa.array([1], pa.int32()), "t": ["x"]})
    put(tmp_path / "b.parquet", {"n": pa.array([2.5], pa.float32()), "s": pa.array(["y"], pa.large_string())})
    wanted = [{"n": 1.0, "t": "x", "s": None}, {"n": 2.5, "t": None, "s": "y"}]
    assert rows(tmp_path) == wanted
    assert rows(tmp_path, files_per_partition=2) == wanted


@pytest.mark.parametrize(
    ("whole", "fraction"),
    [
        (pa.array([2**53 + 1, -1]), pa.array([0.5])),
        (pa.array([[2**53 + 1], None]), pa.array([[0.5]])),
        (pa.array([{"a": -(2**53) - 1}, None]), pa.array([{"a": 0.5}])),
        (pa.array([[("k", 2**63)], None], pa.map_("string", "uint64")), pa.array([[]], pa.map_("string", "float64"))),
    ],
)
def test_large_whole_numbers_that_become_floats_are_counted_for_a_notice(tmp_path, whole, fraction):
    put(tmp_path / "a.parquet", {"n": whole})
    put(tmp_path / "b.parquet", {"n": fraction})
    for reader in (ParquetReader(str(tmp_path)), DocumentReader(str(tmp_path))):
        run = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[])
        [notice] = run.report.notices
        assert "became floats, which may cost digits: 1 in 'n'" in notice


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.7], pa.int64()),
        ([float("nan")], pa.int64()),
        ([2.0**63], pa.int64()),
        ([2], pa.bool_()),
        ([0.5], pa.bool_()),
        ([1e300], pa.float32()),
        ([[1.0, 1.5]], pa.list_(pa.int64())),
        ([{"a": 1.5}], pa.struct({"a": pa.int64()})),
        (pa.array([[("k", 1.5)]], pa.map_("string", "float64")), pa.map_(pa.string(), pa.int64())),
        (pa.array([1], pa.timestamp("us")), pa.date32()),
        (pa.array([0], pa.timestamp("us", "Asia/Tokyo")), pa.date32()),
        (pa.array([0], pa.timestamp("us")), pa.time64("us")),
    ],
)
def test_a_type_that_would_change_a_value_in_silence_is_refused(tmp_path, values, wanted):
    put(tmp_path / "a.parquet", {"n": values})
    with pytest.raises(DataError, match=r"a.parquet: column 'n' is .*, and would lose values as .*; give the column"):
        read(tmp_path, schema={"n": wanted})


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, None], pa.int64()),
        ([1, 0, None], pa.bool_()),
        ([0.1, float("inf"), float("nan")], pa.float32()),
        (pa.array([86_400_000_000, None], pa.timestamp("us")), pa.date32()),
        (pa.array([-32_400_000_000], pa.timestamp("us", "Asia/Tokyo")), pa.date32()),
    ],
)
def test_a_type_that_holds_the_values_is_taken(tmp_path, values, wanted):
    put(tmp_path / "a.parquet", {"n": values})
    [batch] = read(tmp_path, schema={"n": wanted})
    assert batch.data.schema.field("n").type == wanted


def test_types_that_clash_are_refused_and_both_files_are_named(tmp_path):
    put(tmp_path / "a.parquet", {"id": [1]})
    put(tmp_path / "b.parquet", {"id": ["x"]})
    with pytest.raises(DataError) as refusal:
        ParquetReader(str(tmp_path)).columns()
    assert str(refusal.value) == (
        "column 'id' is string in b.parquet but int64 in a.parquet; say which it is to be with "
        "schema={'id': 'string'}, leave it out with fields=, or read the files apart"
    )
    assert rows(tmp_path, schema={"id": "string"}) == [{"id": "1"}, {"id": "x"}]
    with pytest.raises(DataError, match=r"b.parquet: .*; give the column another type with schema="):
        read(tmp_path, schema={"id": "int64"})


def test_fields_restrict_and_order_the_columns(tmp_path):
    put(tmp_path / "a.parquet", {"a": [1], "b": ["x"], "c": [2.0]})
    put(tmp_path / "b.parquet", {"b": ["y"]})
    reader = ParquetReader(str(tmp_path), fields=["b", "a"])
    assert reader.columns() == ["b", "a"]
    assert rows(tmp_path, fields=["b", "a"]) == [{"b": "x", "a": 1}, {"b": "y", "a": None}]
    with pytest.raises(DataError, match="no column 'd' in the first rows of the files; they have 'a', 'b', 'c'"):
        ParquetReader(str(tmp_path), fields=["d"]).columns()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all, but long enough to look"])
def test_a_file_that_is_no_parquet_is_refused(tmp_path, content):
    put(tmp_path / "a.parquet", {"a": [1]})
    (tmp_path / "b.parquet").write_bytes(content)
    with pytest.raises(
        DataError, match=r"b.parquet is truncated or not a Parquet file \(.*\); fetch it again or leave"
    ):
        read(tmp_path)


def test_a_file_that_is_cut_short_is_refused(tmp_path):
    path = put(tmp_path / "a.parquet", {"a": list(range(1000))})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"a.parquet is truncated or not a Parquet file"):
        ParquetReader(str(tmp_path)).columns()


def test_text_that_is_not_utf8_is_refused(tmp_path):
    column = pa.array([b"\xff"], pa.binary()).view(pa.string())
    put(tmp_path / "a.parquet", {"a": column})
    with pytest.raises(DataError, match=r"a.parquet is truncated or not a Parquet file \(.*UTF8"):
        read(tmp_path)


def test_a_file_without_rows_gives_no_batch(tmp_path):
    put(tmp_path / "a.parquet", {"a": pa.array([], pa.string())})
    assert read(tmp_path) == [None]


def test_a_file_that_is_gone_is_reported(tmp_path):
    path = put(tmp_path / "a.parquet", {"a": [1]})
    reader = ParquetReader(str(tmp_path))
    (split,) = reader.splits()
    path.unlink()
    with pytest.raises(DataError) as refusal:
        reader.process(split)
    assert str(refusal.value) == f"cannot read '{path}': no such file or directory; check the path"


def test_read_kwargs_reach_pyarrow_or_are_refused(tmp_path):
    put(tmp_path / "a.parquet", {"a": [1]})
    assert rows(tmp_path, read_kwargs={"memory_map": True, "engine": "pyarrow"}) == [{"a": 1}]
    with pytest.raises(PipelineError, match="read_kwargs 'filters' mean nothing here; there are 'memory_map'"):
        ParquetReader(str(tmp_path), read_kwargs={"filters": []})


def test_nested_values_are_text_as_json_where_the_schema_says_so_as_of_json_lines(tmp_path):
    values = [{"a": [1, None], "b": "ö\n"}, None, {"a": None, "b": ""}]
    put(tmp_path / "a.parquet", {"meta": values, "tags": [["x"], [], None]})
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"meta": value}) + "\n" for value in values))
    read_rows = rows(tmp_path / "a.parquet", schema={"meta": "string", "tags": "string"})
    assert [row["tags"] for row in read_rows] == ['["x"]', "[]", None]
    assert [row["meta"] and json.loads(row["meta"]) for row in read_rows] == values
    stages = [JsonlReader(str(tmp_path / "b.jsonl"), schema={"meta": "string"})]
    lines = Pipeline("lines", stages=stages).run(InlineExecutor(), observers=[]).to_arrow()["meta"].to_pylist()
    assert [value and json.loads(value) for value in lines] == values


def test_a_column_that_cannot_have_its_type_is_named(tmp_path):
    put(tmp_path / "a.parquet", {"meta": [{"a": b"\xff"}], "text": ["one"]})
    for column, kind in (("meta", "string"), ("meta", "int64"), ("text", "int64")):
        with pytest.raises(DataError, match=f"a.parquet: column '{column}' is .*, and cannot be .*; give the column"):
            read(tmp_path, schema={column: kind})

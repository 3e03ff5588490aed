"""CSV that is written is read back the same by dcurate, DuckDB and pandas."""

from __future__ import annotations

import datetime as dt
import decimal
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    CsvReader,
    CsvWriter,
    DataError,
    DocumentBatch,
    DocumentWriter,
    InlineExecutor,
    JsonlReader,
    Pipeline,
    PipelineError,
)

TEXTS = st.none() | st.text(st.sampled_from("a,\"\n\r ;\t'é€0\\.-\ufeff\0N"), max_size=6)
NAMES = st.lists(st.text(st.sampled_from('a,"\n \té'), max_size=4), min_size=2, max_size=2, unique=True)
SIGNS = st.fixed_dictionaries(
    {
        "delimiter": st.sampled_from(",;\t|.1"),
        "quote": st.sampled_from("\"'"),
        "escape": st.sampled_from([None, "\\", "a"]),
    }
)


def write(rows: pa.Table, folder: str | Path, **given: Any) -> list[str]:
    writer = CsvWriter(str(folder), **given)
    writer.prepare(resume=False)
    return list(writer.process(DocumentBatch(data=rows, key=BatchKey("rows"))).data)


def read(paths: list[str], **given: Any) -> pa.Table:
    readers = [CsvReader(path, **given) for path in paths]
    batches = [reader.process(split) for reader in readers for split in reader.splits()]
    return pa.concat_tables([batch.to_arrow() for batch in batches if batch is not None])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1), NAMES, SIGNS, st.booleans(), st.integers(1, 60) | st.none())
@example([("\ufeff", None), (None, None)], ["a", "b"], {}, False, None)
def test_rows_are_read_back_the_same(
    rows: list[tuple[str | None, str | None]], names: list[str], signs: Any, header: bool, limit: int | None
) -> None:
    columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
    table = pa.Table.from_arrays(columns, names)
    with tempfile.TemporaryDirectory() as folder:
        files = write(table, folder, header=header, max_bytes_per_file=limit, **signs)
        assert read(files, header=header or names, **signs).to_pylist() == table.to_pylist()


TYPED = {
    "whole": (pa.int64(), [1, None, -(2**62)]),
    "small": (pa.uint8(), [255, None, 0]),
    "float": (pa.float64(), [0.1, None, 1e300]),
    "odd": (pa.float64(), [float("inf"), None, -0.0]),
    "single": (pa.float32(), [0.5, None, 3e-40]),
    "exact": (pa.decimal128(12, 3), [decimal.Decimal("1.500"), None, decimal.Decimal(-7)]),
    "flag": (pa.bool_(), [True, None, False]),
    "day": (pa.date32(), [dt.date(2026, 11, 30), None, dt.date(1, 1, 1)]),
    "moment": (pa.timestamp("us"), [dt.datetime(2026, 11, 30, 1, 2, 3, 4), None, dt.datetime(1969, 1, 1)]),
    "zoned": (pa.timestamp("ms", "UTC"), [dt.datetime(2026, 11, 30, tzinfo=dt.UTC), None, None]),
    "text": (pa.large_string(), ["", None, "NULL"]),
    "word": (pa.dictionary(pa.int32(), pa.string()), ["x", None, "x"]),
}


@pytest.mark.parametrize("delimiter", [",", ".", "-"])
def test_types_are_read_back_with_a_schema(tmp_path: Path, delimiter: str) -> None:
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in TYPED.items()})
    types = {name: kind for name, (kind, _) in TYPED.items() if name not in ("text", "word")}
    again = read(write(table, tmp_path, delimiter=delimiter), schema=types, delimiter=delimiter)
    assert again.to_pylist() == table.to_pylist()
    assert all(again.schema.field(name).type == kind for name, kind in types.items())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXTS.map(lambda text: text and text.replace("\0", "")), st.integers(-5, 5)), min_size=1))
def test_duckdb_and_pandas_read_the_same(rows: list[tuple[str | None, int]]) -> None:
    table = pa.table({"t": pa.array([text for text, _ in rows], pa.string()), "n": [number for _, number in rows]})
    with tempfile.TemporaryDirectory() as folder:
        [file] = write(table, folder)
        frame = pd.read_csv(file, dtype={"t": str}, keep_default_na=False)
        assert list(frame.itertuples(index=False, name=None)) == [(text or "", number) for text, number in rows]
        query = f"""FROM read_csv('{file}', header=true, delim=',', quote='"', escape='"', auto_detect=false,
            allow_quoted_nulls=false, columns={{'t': 'VARCHAR', 'n': 'BIGINT'}})"""
        with duckdb.connect() as connection:
            assert connection.execute(query).fetchall() == rows


def test_files_end_as_their_content_and_are_written_again(tmp_path: Path) -> None:
    rows = pa.table({"text": ["one", "two"], "source": ["a", "b"]})
    for mode in ("error", "overwrite"):
        files = write(rows, tmp_path, delimiter="\t", compression="gzip", separate_by="source", mode=mode)
        assert [Path(file).parent.name for file in files] == ["a", "b"]
        assert all(file.endswith(".tsv.gz") for file in files)
    assert read([str(tmp_path)]).column("text").to_pylist() == ["one", "two"]
    write(rows, tmp_path, delimiter="\t", mode="append")
    assert read([str(tmp_path)]).num_rows == 4


def test_an_output_without_rows_has_the_header(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "a, b"}\n')
    reader = JsonlReader(str(tmp_path / "in.jsonl"), filter="id > 1")
    Pipeline("none", stages=[reader, CsvWriter(str(tmp_path / "out"))]).run(InlineExecutor(), observers=[])
    [file] = (tmp_path / "out").glob("*.csv")
    assert file.read_text() == "id,text\n"


@pytest.mark.parametrize("writer", [CsvWriter, partial(DocumentWriter, filetype="csv")])
def test_a_proof_is_refused_of_rows_that_are_not_compared_with_files(writer: Any, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n')
    stages = [JsonlReader(str(tmp_path / "in.jsonl")), writer(str(tmp_path / "out"))]
    with pytest.raises(PipelineError, match="proof=True is for the rows of one of 'JsonlWriter', 'ParquetWriter'"):
        Pipeline("none", stages=stages).run(InlineExecutor(), observers=[], proof=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": ["a"], "list": [[1]]}, "column 'list' holds list<.*>, which CSV has no form for; leave it out"),
        ({"id": ["a"], "bytes": [b"a"]}, "column 'bytes' holds binary, which CSV has no form for; leave it out"),
        (
            {"id": ["a"], "struct": [{"a": 1}]},
            "which CSV has no form for; leave it out with fields=, turn it into text",
        ),
        ({"id": ["a", None]}, "column 'id' is the only one and holds null, .*; write another column, too, or fill"),
    ],
)
def test_rows_that_csv_cannot_hold_are_refused(tmp_path: Path, rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        write(pa.table(rows), tmp_path / "out")
    assert list((tmp_path / "out").glob("*.csv")) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delimiter": ""}, "delimiter='' must be one ASCII character"),
        ({"delimiter": None}, "delimiter='' must be one ASCII character"),
        ({"quote": ","}, "delimiter and quote are both ','"),
        ({"escape": '"'}, "must differ from delimiter and quote"),
        ({"header": ["id"]}, "must be True or False"),
        ({"write_kwargs": {"sep": ";"}}, "write_kwargs 'sep' mean nothing here"),
        ({"compression": "zip"}, "zip"),
    ],
)
def test_settings_that_mean_nothing_are_refused(given: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        CsvWriter("out", **given)

"""CSV: every record is a row or in quarantine, and a row is what was written."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import (
    CsvReader,
    DataError,
    DcurateError,
    DocumentReader,
    FileGroup,
    InlineExecutor,
    JsonlWriter,
    Modify,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from dcurate.core.stage import Stage
from dcurate.io.csv_rows import Dialect, parse, records

TEXTS = st.text(st.sampled_from("a,\"\n\r ;\t'é€0\\"), max_size=6)
BYTES = st.lists(st.sampled_from([b"a", b",", b'"', b"\n", b"\r", b"\r\n", b"\xff", "é".encode(), b"1", b"\\"])).map(
    b"".join
)
DIALECTS = st.builds(
    Dialect, st.sampled_from(",;\t"), st.sampled_from("\"'"), st.booleans(), st.sampled_from([None, "\\", "a"])
)


def put(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def read(*paths: str, **given: Any) -> list[dict[str, Any]]:
    batches: Any = Pipeline("read", stages=[CsvReader(list(paths), **given)]).run(InlineExecutor(), observers=[])
    return [row for batch in batches for row in batch.to_arrow().to_pylist()]


@given(st.lists(st.tuples(TEXTS, TEXTS)), st.sampled_from(",;\t"), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_a_row_is_what_a_writer_wrote(rows: list[tuple[str, str]], delimiter: str, all_: bool, end: str) -> None:
    file = io.StringIO(newline="")
    all_ = all_ or any("\r" in value for row in rows for value in row)  # Python may leave it unquoted
    quoting: Any = csv.QUOTE_ALL if all_ else csv.QUOTE_MINIMAL
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    table, bad, _ = parse(file.getvalue().encode(), ["x", "y"], {}, Dialect(delimiter))
    assert bad == []
    assert [tuple(value or "" for value in row.values()) for row in table.to_pylist()] == rows
    if all_:
        assert [tuple(row.values()) for row in table.to_pylist()] == rows


@given(st.lists(st.tuples(TEXTS, TEXTS)), st.sampled_from("\\^]-"), st.sampled_from(["\n", "\r\n"]))
def test_escaped_quotes_are_read_as_a_writer_wrote_them(rows: list[tuple[str, str]], escape: str, end: str) -> None:
    file = io.StringIO(newline="")
    how: Any = {"quoting": csv.QUOTE_ALL, "doublequote": False, "escapechar": escape, "lineterminator": end}
    csv.writer(file, **how).writerows(rows)
    table, bad, _ = parse(file.getvalue().encode(), ["x", "y"], {}, Dialect(escape=escape))
    assert bad == []
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS.filter(bool)), min_size=1))
def test_files_with_escapes_are_read_as_duckdb_wrote_them(rows: list[tuple[str, str]]) -> None:
    table = pa.table({"x": [row[0] for row in rows], "y": [row[1] for row in rows]})
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.csv"
        with duckdb.connect() as connection:
            connection.register("rows", table)
            connection.execute(f"COPY rows TO '{path}' (FORMAT csv, HEADER, ESCAPE '\\')")
        assert read(path, escape="\\") == table.to_pylist()


def test_files_of_spark_are_read(tmp_path: Path) -> None:
    # Spark quotes a value that holds a delimiter or a quote, and leaves others as they are.
    path = put(tmp_path / "part-0.csv", b'id,path\n1,C:\\new\n2,"C:\\\\new, \\"old\\""\n3,""\n4,\n5,"a\\tb,"\n')
    paths = [row["path"] for row in read(path, escape="\\")]
    assert paths == ["C:\\new", 'C:\\new, "old"', "", None, "a\\tb,"]


@given(st.lists(st.tuples(st.none() | TEXTS, st.none() | st.integers(-5, 5))))
def test_null_is_told_from_empty_text(rows: list[tuple[str | None, int | None]]) -> None:
    schema = pa.schema([("x", pa.string()), ("n", pa.int64())])
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink, pyarrow.csv.WriteOptions(include_header=False))
    assert parse(sink.getvalue(), schema.names, {"n": pa.int64()}, Dialect()) == (table, [], {})


@settings(max_examples=400)
@given(BYTES, DIALECTS, st.integers(1, 3))
def test_every_record_is_a_row_or_a_bad_row(data: bytes, dialect: Dialect, columns: int) -> None:
    names = [f"c{number}" for number in range(columns)]
    table, bad, _ = parse(data, names, {}, dialect)
    found = list(records(data, dialect))
    assert table.num_rows + len(bad) == len(found)
    assert {row.line for row in bad} <= {record.line for record in found}
    assert b"".join(record.raw for record in found).replace(b"\r", b"").replace(b"\n", b"") == data.replace(
        b"\r", b""
    ).replace(b"\n", b"")
    if not bad and b'"' not in data and b"'" not in data:
        assert table.num_rows == sum(bool(line) for line in data.splitlines())


@given(BYTES, st.integers(1, 3))
def test_bad_rows_do_not_change_others(data: bytes, columns: int) -> None:
    names = [f"c{number}" for number in range(columns)]
    good = b",".join([b'"x"'] * columns) + b"\n"
    table = parse(good + data, names, {}, Dialect()).table
    assert table.slice(0, 1).to_pylist() == [dict.fromkeys(names, "x")]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-(2**70), 2**70) | st.sampled_from([2**53, -(2**53) - 1]) | st.floats() | st.just("x")))
@example([2**53 + 1, 2**53, -(2**53), f"{-(2**53) - 1}"])
def test_whole_numbers_that_floats_may_not_hold_are_counted(values: list[int | float | str]) -> None:
    data = "".join(f"{value},\n" for value in values).encode()
    table, bad, rounded = parse(data, ["n", "x"], {"n": pa.float64()}, Dialect())
    assert table.num_rows + len(bad) == len(values)
    large = sum(str(value).lstrip("-").isdecimal() and abs(int(value)) > 2**53 for value in values)
    assert rounded == ({"n": large} if large else {})


@pytest.mark.parametrize("reader", [CsvReader, DocumentReader])
def test_whole_numbers_that_become_floats_are_counted_for_a_notice(reader: Any, tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", b"n,m,x\n9007199254740993,9007199254740992,a\n-36028797018963969,1e300,b\n,0.5,\n")
    given = {"schema": {"n": "float64", "m": "float64"}}
    report = Pipeline("p", stages=[reader(path, **given)]).run(InlineExecutor(), observers=[]).report
    said = (
        "whole numbers beyond 2**53 became floats, which may cost digits: 2 in 'n'; keep them as text with schema={'n':"
    )
    assert [notice for notice in report.notices if notice.startswith(said)]
    fewer = Pipeline("p", stages=[reader(path, fields=["m", "x"], **given)]).run(InlineExecutor(), observers=[]).report
    assert fewer.notices == ()


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1), st.integers(1, 60))
def test_rows_do_not_depend_on_how_files_are_cut(tmp_path_factory: Any, rows: Any, size: int) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([("x", "y"), *((x.translate({10: 45, 13: 45}), y.translate({10: 45, 13: 45})) for x, y in rows)])
    folder = tmp_path_factory.mktemp("csv")
    path = put(folder / "a.csv", file.getvalue().encode())
    packed = put(folder / "b.csv.gz", gzip.compress(file.getvalue().encode()))
    whole = read(path)
    assert len(whole) == len(rows)
    assert read(path, blocksize=size, newlines_in_values=False) == whole == read(packed)


def outcome(reader: CsvReader, split: FileGroup) -> list[tuple[Any, ...]]:
    """The rows of a split, and after them what is in quarantine."""
    batch: Any = reader.process(split)
    if batch is None:
        return []
    bad = [tuple(row.values()) for one in batch.rejections for row in one.data.to_pylist()]
    return [*((tuple(row.values())) for row in batch.to_arrow().to_pylist()), *bad]


@settings(max_examples=100, deadline=None)
@given(BYTES, DIALECTS, st.integers(1, 3), st.sampled_from([None, 0, 1]))
@example(b'1\n\n"2\n\n3', Dialect(), 1, None)
@example(b"1\n2\n\n3\n", Dialect(), 1, 1)
def test_rows_that_are_read_one_by_one_are_those_of_the_file(
    tmp_path_factory: Any, data: bytes, dialect: Dialect, columns: int, damaged: int | None
) -> None:
    if damaged is not None:
        packed = gzip.compress(data)
        data = packed + packed[: len(packed) - 9 * damaged]
    path = put(tmp_path_factory.mktemp("csv") / ("in.csv" if damaged is None else "in.csv.gz"), data)
    header = [f"c{number}" for number in range(columns)]
    form: Any = {"delimiter": dialect.delimiter, "quote": dialect.quote, "newlines_in_values": dialect.multiline}
    reader = CsvReader(path, header=header, on_bad_line="quarantine", **form)
    [split] = reader.splits()
    counted: Any = reader.divided(split)
    alone = [counted.rows(row, row + 1) for row in range(counted.num_items if counted else 0)]
    found = [outcome(reader, one) for one in alone]
    assert all(len(each) == 1 for each in found)
    assert sorted(repr(row) for each in found for row in each) == sorted(map(repr, outcome(reader, split)))
    lines = [record["line"] for one in alone for record in reader.unread(one)]
    assert lines == sorted(lines)


BAD = b'id,text\n1,"two\nlines"\n\n2\n3,good\n4,\xff\n5,a,b\nx,good\n6,"open\n7,good\n'


def test_bad_rows_go_to_quarantine_with_file_and_line(tmp_path: Path) -> None:
    path = put(tmp_path / "in.csv", BAD)
    reader = CsvReader(path, schema={"id": "int64"}, on_bad_line="quarantine")
    done = Pipeline("p", stages=[reader, JsonlWriter(str(tmp_path / "out"))]).run(InlineExecutor(), observers=[])
    [stage, _] = done.report.stages
    assert (stage.rows_in, stage.rows_out, stage.faulty) == (
        8,
        3,
        {"malformed row": 3, "not UTF-8": 1, "column 'id' of another type": 1},
    )
    batch: Any
    [batch] = Pipeline("p", stages=[reader]).run(InlineExecutor(), observers=[])
    assert batch.to_arrow().to_pylist() == [
        {"id": 1, "text": "two\nlines"},
        {"id": 3, "text": "good"},
        {"id": 7, "text": "good"},
    ]
    found = [row for one in CsvReader.process(reader, next(reader.splits())).rejections for row in one.data.to_pylist()]
    assert sorted((row["file"], row["line"], row["error"], row["raw"]) for row in found) == [
        ("in.csv", 5, "it has 1 value, and there are 2 columns", "2"),
        ("in.csv", 7, "it is not UTF-8", "4,\\xff"),
        ("in.csv", 8, "it has 3 values, and there are 2 columns", "5,a,b"),
        ("in.csv", 9, "column 'id' is to be int64, and this is 'x'", "x,good"),
        ("in.csv", 10, "a quote is not closed", '6,"open'),
    ]


def test_a_bad_row_ends_a_run_with_file_and_line(tmp_path: Path) -> None:
    path = put(tmp_path / "in.csv", BAD)
    with pytest.raises(DataError, match="in.csv line 5: it has 1 value, and there are 2 columns; set on_bad_line="):
        read(path)


def test_a_damaged_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    streams = gzip.compress(b"x,y\n1,2\n"), gzip.compress(b"3,4\n5,6\n" * 50)
    path = put(tmp_path / "in.csv.gz", streams[0] + streams[1][:-6])
    with pytest.raises(DataError, match="in.csv.gz"):
        read(path)
    assert read(path, on_bad_line="quarantine") == [{"x": "1", "y": "2"}]
    reader = CsvReader(path, on_bad_line="quarantine")
    [lost] = reader.process(next(reader.splits())).rejections
    assert (lost.reason, lost.rows, lost.data["line"][0].as_py()) == ("damaged stream", 100, 3)


def test_values_are_text_unless_the_schema_names_another_type(tmp_path: Path) -> None:
    path = put(tmp_path / "in.csv", b'code,score,day,empty\n007,1.5,2024-02-30,\n"",,2024-02-01,""\n')
    assert read(path)[0] == {"code": "007", "score": "1.5", "day": "2024-02-30", "empty": None}
    assert read(path)[1] == {"code": "", "score": None, "day": "2024-02-01", "empty": ""}
    typed = read(path, schema={"score": "float64"}, fields=["score", "code"])
    assert typed == [{"score": 1.5, "code": "007"}, {"score": None, "code": ""}]


def test_delimiters_and_headers(tmp_path: Path) -> None:
    tabs = put(tmp_path / "a.tsv", b"x\ty,z\n1\t2\n")
    assert read(tabs) == [{"x": "1", "y,z": "2"}]
    bom = put(tmp_path / "b.csv", b"\xef\xbb\xbf\r\nx;y\r\n1;'a;b'\r\n")
    assert read(bom, delimiter=";", quote="'") == [{"x": "1", "y": "a;b"}]
    plain = put(tmp_path / "c.csv", b"1,2\n3,4")
    assert read(plain, header=False) == [{"f0": "1", "f1": "2"}, {"f0": "3", "f1": "4"}]
    assert read(plain, header=["m", "n"])[1] == {"m": "3", "n": "4"}
    other = put(tmp_path / "d.csv", b"n,o\n5,6\n")
    assert read(other, plain, header=["m", "n"])[-1] == {"m": "5", "n": "6"}
    both = [put(tmp_path / "e.csv", b"x\n1\n"), put(tmp_path / "f.csv", b"y,x\n2,3\n")]
    assert read(*both, files_per_partition=2) == [{"x": "1", "y": None}, {"x": "3", "y": "2"}]
    assert read(put(tmp_path / "g.csv", b"x,y\n")) == []
    with pytest.raises(DataError, match="h.csv has several columns 'x'; rename them"):
        read(put(tmp_path / "h.csv", b"x,x\n1,2\n"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delimiter": ";;"}, "delimiter=';;' must be one ASCII character"),
        ({"quote": ","}, None),
        ({"delimiter": ",", "quote": ","}, "delimiter and quote are both ','"),
        ({"escape": "ab"}, "escape='ab' must be one ASCII character"),
        ({"escape": '"'}, "must differ from delimiter and quote"),
        ({"header": "x"}, "header='x' must be True, False or a list of column names"),
        ({"on_bad_line": "skip"}, "on_bad_line='skip' must be 'raise' or 'quarantine'"),
        ({"read_kwargs": {"sep": ";"}}, "use delimiter="),
    ],
)
def test_settings_that_mean_nothing_are_refused(given: Any, said: str | None) -> None:
    if said is None:
        assert CsvReader("x", **given).quote == ","
        return
    with pytest.raises(PipelineError, match=said):
        CsvReader("x", **given)


def test_csv_becomes_parquet(tmp_path: Path) -> None:
    path = put(tmp_path / "in.csv", b'x,y\n1,"a\nb"\n')
    stages: list[Any] = [CsvReader(path), ParquetWriter(str(tmp_path / "out"))]
    Pipeline("p", stages=stages).run(InlineExecutor(), observers=[])
    batch: Any
    [batch] = Pipeline("p", stages=[ParquetReader(str(tmp_path / "out"))]).run(InlineExecutor(), observers=[])
    assert batch.to_arrow().to_pylist() == [{"x": "1", "y": "a\nb"}]


@given(st.sampled_from(";\t|"), st.integers(2, 5), st.booleans())
def test_a_file_that_is_divided_by_another_sign_is_named_with_the_setting(sign: str, count: int, named: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_text(sign.join(["text", *"bcdef"][:count]) + "\n" + sign.join("vwxyz"[:count]) + "\n")
        fields = ["text"] if named else None
        for reader in (CsvReader(str(path), fields=fields), DocumentReader(str(path), fields=fields)):
            with pytest.raises(DcurateError) as raised:
                Pipeline("p", stages=[reader, Modify(str.strip)]).run(InlineExecutor(), observers=[])
            assert f"looks divided by {sign!r}" in str(raised.value)
            assert f"delimiter={sign!r}" in str(raised.value)
        stages: list[Stage] = [CsvReader(str(path), fields=fields, delimiter=sign), Modify(str.strip)]
        rows = Pipeline("p", stages=stages).run(InlineExecutor(), observers=[])
        assert rows.to_pandas().text.tolist() == ["v"]


def test_a_sign_in_one_of_the_names_is_no_delimiter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a|b,c,d,e\n1,2,3,4\n")
    with pytest.raises(PipelineError, match=r"name the right column, or add"):
        Pipeline("p", stages=[CsvReader(str(tmp_path / "a.csv")), Modify(str.strip)]).build()

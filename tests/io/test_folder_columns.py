"""Folders named ``column=value`` are typed columns, the same for each format, and `filter=` on them is exact."""

from __future__ import annotations

import csv
import datetime
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    CsvReader,
    DataError,
    DocumentReader,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    MediaReader,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    PipelineError,
)
from dcurate.io.folder_columns import NULL_FOLDER
from dcurate.io.row_filter import RowFilter

READERS = {"jsonl": JsonlReader, "csv": CsvReader, "parquet": ParquetReader}
KINDS = [*READERS, "documents"]


def put(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows into a file of the format that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=1)


def reader(kind: str, folder: Path, **options: Any) -> Any:
    return READERS.get(kind, DocumentReader)(str(folder), **options)


def ending(kind: str, number: int = 0) -> str:
    return [*READERS][number % 3] if kind == "documents" else kind


def read(*stages: Any) -> pa.Table:
    return Pipeline("read", stages=list(stages)).run(InlineExecutor(), observers=[]).to_arrow()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("folders", "values"),
    [
        (["9", "10", "-3", NULL_FOLDER], [9, 10, -3, None]),
        (["0", "007"], ["0", "007"]),
        (["1", "+2"], ["1", "+2"]),
        (["1", "-0"], ["1", "-0"]),
        (["1", "12345678901234567890"], ["1", "12345678901234567890"]),
        (["2024-02-29", "0999-12-31"], [datetime.date(2024, 2, 29), datetime.date(999, 12, 31)]),
        (["2024-02-29", "2023-02-29"], ["2024-02-29", "2023-02-29"]),
        (["true", "false"], [True, False]),
        (["True", "false"], ["True", "false"]),
        (["1", "true"], ["1", "true"]),
        (["1.5", "2"], ["1.5", "2"]),
        (["%31", "a%2Fb"], ["1", "a/b"]),
        ([NULL_FOLDER], [None]),
    ],
)
def test_a_column_has_a_type_only_where_each_value_is_written_in_this_way(
    kind: str, folders: list[str], values: list[Any], tmp_path: Path
) -> None:
    for number, folder in enumerate(folders):
        put(tmp_path / "in" / f"key={folder}" / f"{number}.{ending(kind, number)}", [{"text": "a"}])
    rows = read(reader(kind, tmp_path / "in"))
    assert sorted(rows["key"].to_pylist(), key=str) == sorted(values, key=str)
    whole = Pipeline(
        "copy", stages=[reader(kind, tmp_path / "in"), ParquetWriter(str(tmp_path / "out"), partition_cols=["key"])]
    )
    whole.run(InlineExecutor(), observers=[])
    written = {path.parent.name for path in (tmp_path / "out").rglob("*.parquet")}
    assert written == {f"key={folder.replace('%31', '1')}" for folder in folders}


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_can_be_given_and_columns_of_folders_left_out(kind: str, tmp_path: Path) -> None:
    for year in ("7", "12"):
        put(tmp_path / f"year={year}" / f"a.{ending(kind)}", [{"text": "a"}])
    assert sorted(read(reader(kind, tmp_path, schema={"year": "string"}))["year"].to_pylist()) == ["12", "7"]
    assert read(reader(kind, tmp_path, schema={"year": "float64"}))["year"].type == pa.float64()
    assert read(reader(kind, tmp_path, folder_fields=False)).column_names == ["text"]
    assert read(reader(kind, tmp_path, fields=["text"])).column_names == ["text"]
    assert read(reader(kind, tmp_path, fields=["year"])).to_pydict() == {"year": [12, 7]}
    with pytest.raises(DataError, match="says year=12, which is not date32|says year=7, which is not date32"):
        read(reader(kind, tmp_path, schema={"year": "date32"}))
    with pytest.raises(PipelineError, match="folder_fields='no' must be True or False"):
        reader(kind, tmp_path, folder_fields="no")


def test_readers_whose_folders_are_no_columns_refuse_the_setting(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="folder_fields has no effect here"):
        MediaReader(str(tmp_path), folder_fields=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_keeps_its_values_of_the_column_of_its_folder_and_with_a_filter_they_must_agree(
    kind: str, tmp_path: Path
) -> None:
    name = f"lang=en/a.{ending(kind)}"
    put(tmp_path / "same" / name, [{"lang": "en", "n": "1"}, {"lang": "en", "n": "2"}])
    assert read(reader(kind, tmp_path / "same"))["lang"].to_pylist() == ["en", "en"]
    put(tmp_path / "other" / name, [{"lang": "en", "n": "1"}, {"lang": "de", "n": "2"}])
    assert read(reader(kind, tmp_path / "other"))["lang"].to_pylist() == ["en", "de"]
    with pytest.raises(DataError, match="has 'de' in column 'lang', and its folder says 'en'; with a filter they must"):
        read(reader(kind, tmp_path / "other", filter="lang IN ('de', 'en')"))
    put(tmp_path / "days" / "date=2024-01-02" / f"a.{ending(kind)}", [{"date": "2024-01-02T05:00:00Z", "n": "1"}])
    assert [str(day)[:10] for day in read(reader(kind, tmp_path / "days"))["date"].to_pylist()] == ["2024-01-02"]
    alone = reader(kind, tmp_path / "other", folder_fields=False, filter="lang = 'de'")
    assert [str(n) for n in read(alone)["n"].to_pylist()] == ["2"]


def test_lines_keep_their_bytes_and_get_the_columns_of_their_folder(tmp_path: Path) -> None:
    lines = {
        "a/year=7/x.jsonl": '{"text": "\\u0061",  "n": 1e0}\n',
        "a/year=8/x.jsonl": '{"year":  8, "text":"b"}\n',
        "b/x.jsonl": '{"year":9,"text" : "c"}\n',
    }
    for name, line in lines.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(line)
    for size in (None, "1MiB"):
        copy: list[Any] = [
            JsonlReader(str(tmp_path / "in"), blocksize=size),
            JsonlWriter(str(tmp_path / "out"), mode="overwrite"),
        ]
        Pipeline("copy", stages=copy).run(InlineExecutor(), observers=[])
        written = "".join(path.read_text() for path in sorted((tmp_path / "out").rglob("*.jsonl")))
        rows = sorted(map(orjson.loads, written.splitlines()), key=lambda row: row["text"])
        assert [(row["text"], row["year"]) for row in rows] == [("a", 7), ("b", 8), ("c", 9)]
        assert '{"text": "\\u0061",  "n": 1e0,"year":7}\n' in written
    apart: list[Any] = [JsonlReader(str(tmp_path / "in")), JsonlWriter(str(tmp_path / "apart"))]
    Pipeline("copy", stages=apart).run(InlineExecutor(), observers=[])
    assert lines["a/year=8/x.jsonl"] in {path.read_text() for path in (tmp_path / "apart").rglob("*.jsonl")}


#: The value of a folder, and of the rows of its file: as in the folder, null, or without the column.
_FILES = st.lists(
    st.tuples(
        st.sampled_from(["7", "12", "007", "en", "true", "2024-05-06", "2024-11-01", NULL_FOLDER, ""]),
        st.lists(st.sampled_from(["same", "null"]), max_size=3),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=5,
)
_CONDITIONS = [
    "key IS NULL",
    "key IS NOT NULL",
    "NOT key = 'en'",
    "key >= 10",
    "key IN (7, 12)",
    "key = '7'",
    "key > '2024-06-01' OR n = 1",
    "key = 'en' AND n > 0",
    "key = true",
    "n >= 1",
]


@settings(deadline=None, max_examples=100)
@given(files=_FILES, kind=st.sampled_from(KINDS), condition=st.sampled_from(_CONDITIONS), packed=st.booleans())
def test_a_filter_yields_what_filtering_after_reading_does(
    files: list[tuple[str, list[str], int]], kind: str, condition: str, packed: bool
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        for number, (value, present, rows) in enumerate(files):
            place = folder / f"key={value}" if value else folder / "none"
            owned = kind != "csv" and present and value not in ("", NULL_FOLDER)
            made: list[dict[str, Any]] = [{"n": row, "id": f"{number}-{row}"} for row in range(rows)]
            for row, how in zip(made, present * rows, strict=False) if owned else ():
                row["key"] = value if how == "same" else None
            put(place / f"{number}.{ending(kind, number)}", made)
        options: dict[str, Any] = {"schema": {"n": "int64"}, **({"blocksize": "1MiB"} if packed else {})}
        outcomes: list[Any] = []
        for filtered in (False, True):
            source = reader(kind, folder, **options, **({"filter": condition} if filtered else {}))
            try:
                rows_read = read(source)
                if not filtered and rows_read.num_columns:
                    rows_read = RowFilter(condition, "filter").matching(rows_read)
                outcomes.append(sorted((row["id"], str(row.get("key"))) for row in rows_read.to_pylist()))
            except DataError as error:
                outcomes.append(str(error))
        if isinstance(outcomes[0], list):
            assert outcomes[1] == outcomes[0]
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_that_leaves_out_all_files_leaves_the_columns(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "in" / "year=7" / f"a.{ending(kind)}", [{"text": "a"}])
    source = reader(kind, tmp_path / "in", filter="year > 7")
    rows = read(source)
    assert (rows.num_rows, rows.schema.names, rows["year"].type) == (0, ["text", "year"], pa.int64())
    Pipeline("copy", stages=[source, ParquetWriter(str(tmp_path / "out"))]).run(InlineExecutor(), observers=[])
    assert pq.read_schema(next((tmp_path / "out").glob("*.parquet"))).names == ["text", "year"]

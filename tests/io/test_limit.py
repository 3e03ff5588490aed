"""`limit=` of readers: the first rows of the input, however it is cut into splits."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate import (
    CsvReader,
    DataError,
    DocumentReader,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    Pipeline,
)
from dcurate.fs.compression import packing
from tests.io.test_lakehouse import FORMATS, Place


def jsonl(path: Path, rows: list[int]) -> None:
    """Lines with blank ones between them."""
    path.with_suffix(".jsonl").write_text("".join(f'{{"n": {n}}}\n{" " * (n % 2)}\n' for n in rows))


def packed(path: Path, rows: list[int]) -> None:
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress("\n".join(f'{{"n": {n}}}' for n in rows).encode()))


def csv(path: Path, rows: list[int]) -> None:
    path.with_suffix(".csv").write_text("n,text\n" + "".join(f'{n},"two\nlines"\n' for n in rows))


def parquet(path: Path, rows: list[int]) -> None:
    table = pa.table({"n": pa.array(rows, pa.int64())})
    pq.write_table(table, path.with_suffix(".parquet"), row_group_size=3)


def mixed(path: Path, rows: list[int]) -> None:
    (parquet if len(rows) % 2 else jsonl)(path, rows)


READERS: dict[str, tuple[Any, Callable[[Path, list[int]], None], dict[str, Any]]] = {
    "jsonl": (JsonlReader, jsonl, {}),
    "packed": (JsonlReader, packed, {}),
    "csv": (CsvReader, csv, {"schema": {"n": "int64"}}),
    "parquet": (ParquetReader, parquet, {}),
    "documents": (DocumentReader, mixed, {}),
}


def read(reader: Any) -> list[int]:
    rows = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[]).to_arrow()
    return rows["n"].to_pylist() if rows.num_columns else []


@pytest.mark.parametrize("kind", READERS)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any),
    limit=st.integers(1, 40),
    cut=st.sampled_from([{}, {"files_per_partition": 3}, {"blocksize": 30}, {"blocksize": 200}]),
)
@example(sizes=[3, 5], limit=3, cut={"files_per_partition": 3})
@example(sizes=[7, 7], limit=8, cut={"blocksize": 30})
@settings(max_examples=15, deadline=None)
def test_the_rows_of_a_limit_are_the_first_of_all(kind: str, sizes: list[int], limit: int, cut: dict[str, int]) -> None:
    make, write, options = READERS[kind]
    with TemporaryDirectory() as folder:
        for place, size in enumerate(sizes):
            write(Path(folder, f"{place}"), list(range(10 * place, 10 * place + size)))
        rows = read(make(folder, **options, **cut))
        assert len(rows) == sum(sizes)
        assert read(make(folder, **options, **cut, limit=limit)) == rows[:limit]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("cut", [{}, {"files_per_partition": 3}, {"blocksize": 30}])
def test_a_limit_that_grows_adds_rows_and_one_that_shrinks_removes_none(
    kind: str, cut: dict[str, int], tmp_path: Path
) -> None:
    make, write, options = READERS[kind]
    (tmp_path / "in").mkdir()
    for place in range(3):
        write(tmp_path / f"in/{place}", list(range(10 * place, 10 * place + 7)))
    rows = read(make(str(tmp_path / "in"), **options, **cut))
    done = 0
    for limit in (2, 1, 9, 8, 9, 20, None, 5):
        reader = make(str(tmp_path / "in"), **options, **cut, limit=limit)
        pipeline = Pipeline("copy", stages=[reader, JsonlWriter(str(tmp_path / "out"))])
        pipeline.run(InlineExecutor(), observers=[], resume=True)
        done = max(done, len(rows) if limit is None else limit)
        lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
        assert sorted(json.loads(line)["n"] for line in lines if line.strip()) == rows[:done]


def test_lines_that_cannot_be_read_count_and_the_report_says_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 0}\n{"n":\n{"n": 2}\n{"n": 3}\n')
    reader = JsonlReader(str(tmp_path), limit=3, on_bad_line="quarantine")
    stages: list[Any] = [reader, ParquetWriter(str(tmp_path / "out"))]
    report = Pipeline("read", stages=stages).run(InlineExecutor(), observers=[]).report
    assert pq.read_table(tmp_path / "out")["n"].to_pylist() == [0, 2]
    assert report.stages[0].rows_in == 3
    assert "no more than the first 3 rows of the input are read (limit=3)" in report.notices


def test_a_filter_looks_at_the_first_rows_of_all_files(tmp_path: Path) -> None:
    for day in "12":
        (tmp_path / f"day={day}").mkdir()
        parquet(tmp_path / f"day={day}/a", [int(day) * 10 + n for n in range(5)])
    assert read(ParquetReader(str(tmp_path), filter="day = 2", limit=7)) == [20, 21]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("limit", [1, 4, 5, 12, 99])
def test_a_limit_of_a_table_is_of_rows(kind: str, limit: int, tmp_path: Path) -> None:
    place = Place(kind, tmp_path)
    (tmp_path / "in").mkdir()
    for number in range(3):
        parquet(tmp_path / f"in/{number}", list(range(10 * number, 10 * number + 4)))
    stages: list[Any] = [ParquetReader(str(tmp_path / "in"), files_per_partition=1), place.writer()]
    Pipeline("write", stages=stages).run(InlineExecutor(), observers=[])
    assert read(place.reader(limit=limit)) == read(place.reader())[:limit]


def test_head_reads_no_further_than_the_limit(tmp_path: Path) -> None:
    parquet(tmp_path / "a", list(range(9)))
    head = Pipeline("read", stages=[ParquetReader(str(tmp_path), limit=4)]).head(6)
    assert head.to_arrow()["n"].to_pylist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [CsvReader, JsonlReader, DocumentReader])
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_limit_reads_no_further_into_packed_files_than_its_rows_need(kind: Any, ending: str, tmp_path: Path) -> None:
    rows = 40_000
    if kind is JsonlReader:
        path, content = tmp_path / f"a.jsonl{ending}", "".join(f'{{"n": {n * 7919}}}\n' for n in range(rows))
    else:
        path, content = tmp_path / f"a.csv{ending}", "n\n" + "".join(f"{n * 7919}\n" for n in range(rows))
    with path.open("wb") as target, packing(target, ending) as file:
        file.write(content.encode() * 20)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 40])  # where it breaks off, a whole file is not read
    assert [int(n) for n in read(kind(str(path), limit=5))] == [n * 7919 for n in range(5)]
    with pytest.raises(DataError, match="is truncated or not a"):
        read(kind(str(path)))

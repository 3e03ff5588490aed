"""Partitioned tables of Delta Lake and Iceberg: the rows of other libraries, each once, whenever a run dies."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DataError, InlineExecutor, ParquetReader, Pipeline, PipelineError, ScoreFilter, TableWriter
from dcurate.text import WordCountFilter
from tests.io.test_lakehouse import FORMATS, Place, run
from tests.run.test_appends import DEATHS

PARTITIONED = [kind for kind in FORMATS if kind != "lance"]
DAY = dt.date(2026, 11, 28)
LANGUAGES = ["en", "de", None, "a/b", "x=y", "zwölf", "en", "__HIVE_DEFAULT_PARTITION__", "a b%2F"]
ROWS = pa.table(
    {
        "text": [f"text {row}" for row in range(9)],
        "lang": LANGUAGES,
        "n": pa.array([1, 1, 1, None, -5, 2**40, 1, 1, 1], pa.int64()),
        "good": [True, False, None, True, True, True, True, True, True],
        "day": pa.array([DAY, None, DAY, DAY, DAY, DAY, DAY, DAY, DAY], pa.date32()),
        "score": [0.5 * row for row in range(9)],
    }
)


@pytest.fixture(params=PARTITIONED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def by_library(place: Place) -> pa.Table:
    """The rows as the library of the format has them."""
    if place.kind == "delta":
        return importlib.import_module("deltalake").DeltaTable(place.path).to_pyarrow_table()
    with place.iceberg() as table:
        return table.scan().to_arrow()


def by_duckdb(rows: pa.Table, sql: str) -> list[tuple[Any, ...]]:
    return importlib.import_module("duckdb").from_arrow(rows).query("t", sql).fetchall()


def partition(place: Place) -> list[str]:
    if place.kind == "delta":
        return importlib.import_module("deltalake").DeltaTable(place.path).metadata().partition_columns
    with place.iceberg() as table:
        return [field.name for field in table.spec().fields]


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by("text").to_pylist()


@pytest.mark.parametrize("columns", [["lang"], ["n", "lang"], ["good", "day"]])
def test_the_rows_are_the_same_for_all_who_read_a_partitioned_table(columns: Sequence[str], place: Place) -> None:
    run(place.writer(partition_cols=list(columns)), ROWS.slice(0, 5), ROWS.slice(5))
    assert partition(place) == list(columns)
    assert place.versions() == 1
    for rows in (by_library(place), place.rows()):
        assert rows.column_names == ROWS.column_names
        assert in_order(rows) == in_order(ROWS)
        assert by_duckdb(rows, "select lang, count(*) from t group by lang order by lang nulls last") == by_duckdb(
            ROWS, "select lang, count(*) from t group by lang order by lang nulls last"
        )
    kinds = [place.rows().schema.field(name).type for name in columns]
    assert kinds == [ROWS.schema.field(name).type for name in columns]


def test_a_filter_reads_one_partition(place: Place) -> None:
    run(place.writer(partition_cols=["lang"]), ROWS)
    reader = place.reader(filter="lang = 'de'")
    result = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[])
    assert result.to_arrow()["text"].to_pylist() == ["text 1"]
    assert any("7 of 8 files" in notice for notice in result.report.notices)


def test_a_partitioned_table_is_appended_to_and_replaced_with_one_commit(place: Place) -> None:
    writers = [place.writer(partition_cols=["lang"], mode=mode) for mode in ("append", "append", "overwrite")]
    for writer, rows in zip(writers, (ROWS.slice(0, 4), ROWS.slice(4), ROWS.slice(2)), strict=True):
        run(writer, rows)
        expected = {"overwrite": ROWS.slice(2)}.get(writer.mode, ROWS.slice(0, 4) if rows.num_rows == 4 else ROWS)
        assert in_order(by_library(place)) == in_order(expected)


def test_another_partition_than_that_of_the_table_is_refused(place: Place) -> None:
    run(place.writer(partition_cols=["lang"]), ROWS)
    for columns, advice in ((None, "give partition_cols="), (["n"], "give partition_cols=")):
        with pytest.raises(DataError, match=rf"is partitioned by 'lang'; {advice}\['lang'\], or name another table"):
            run(place.writer(partition_cols=columns, mode="append"), ROWS)
    assert in_order(by_library(place)) == in_order(ROWS)


def test_a_table_without_partitions_does_not_get_some(place: Place) -> None:
    run(place.writer(), ROWS)
    with pytest.raises(DataError, match="is not partitioned; leave out partition_cols=, or name another table"):
        run(place.writer(partition_cols=["lang"], mode="append"), ROWS)


def test_a_type_that_only_other_files_say_is_that_of_the_partition(place: Place) -> None:
    unknown = pa.table({"text": ["a"], "n": pa.nulls(1), "lang": ["de"], "score": pa.nulls(1)})
    small = pa.table({"text": ["b"], "n": pa.array([3], pa.int32()), "lang": ["de"], "score": [1.5]})
    large = pa.table({"text": ["c"], "n": pa.array([2**40], pa.int64()), "lang": ["en"], "score": [2.5]})
    run(place.writer(partition_cols=["n"]), unknown, small, large)
    for rows in (by_library(place), place.rows()):
        assert [(row["text"], row["n"], row["score"]) for row in in_order(rows)] == [
            ("a", None, None),
            ("b", 3, 1.5),
            ("c", 2**40, 2.5),
        ]


def test_a_killed_run_that_is_resumed_writes_each_row_once(place: Place, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        pq.write_table(ROWS.slice(4 * number, 4 + number), tmp_path / f"in/{number}.parquet")
    for touches in range(0, 10_000, 29):
        (tmp_path / f"{touches}").mkdir()
        there = Place(place.kind, tmp_path / f"{touches}")
        reader = ParquetReader(str(tmp_path / "in"), files_per_partition=1)
        pipeline = Pipeline("write", stages=[reader, there.writer(partition_cols=["lang"])])
        died = DEATHS.strike(partial(pipeline.run, InlineExecutor(), observers=[]), touches)
        pipeline.run(InlineExecutor(), observers=[], resume=True)
        assert in_order(by_library(there)) == in_order(ROWS)
        assert there.versions() == 1
        if not died:
            return
    pytest.fail("it dies at any number of touches")


def test_a_partitioned_table_without_rows_has_its_columns_and_takes_rows(place: Place) -> None:
    writer = place.writer(partition_cols=["lang"], mode="append")
    run(writer, ROWS, before=(ScoreFilter(WordCountFilter(min_words=9)),))
    assert partition(place) == ["lang"]
    assert by_library(place).schema.names == ROWS.column_names
    run(place.writer(partition_cols=["lang"], mode="append"), ROWS)
    assert in_order(by_library(place)) == in_order(ROWS)


def test_what_cannot_partition_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'score' of partition_cols holds double; partition by columns of text"):
        run(place.writer(partition_cols=["score"]), ROWS)
    with pytest.raises(DataError, match="partition_cols 'lang' must be some of the columns, and not all"):
        run(place.writer(partition_cols=["lang"], mode="overwrite"), ROWS.select(["lang"]))
    with pytest.raises(PipelineError, match=r"Lance has no partitions; leave out partition_cols="):
        TableWriter(str(tmp_path / "lance"), format="lance", partition_cols=["lang"])
    with pytest.raises(DataError, match=r"a value of column 'lang' has more than 1,024 bytes, too long for"):
        run(place.writer(partition_cols=["lang"]), pa.table({"text": ["a"], "lang": ["é" * 600]}))


@pytest.mark.parametrize("statistics", [False, ["text"]])
def test_iceberg_needs_the_statistics_of_a_partition(statistics: Any, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"takes the partition of a file from its statistics; leave out write_stat"):
        Place("iceberg", tmp_path).writer(partition_cols=["lang"], write_kwargs={"write_statistics": statistics})


def test_no_table_is_made_of_columns_that_cannot_be_partitioned_or_have_no_type(place: Place) -> None:
    nothing = ScoreFilter(WordCountFilter(min_words=9))
    report = run(place.writer(partition_cols=["text"]), ROWS.select(["text"]), before=(nothing,)).report
    assert any("'text' must be some of the columns" in notice for notice in report.notices), report.notices
    assert place.writer().is_empty()
    untyped = ROWS.select(["text"]).append_column("unknown", pa.nulls(9))
    report = run(place.writer(), untyped, before=(nothing,)).report
    assert any("types of columns 'unknown' are not known" in notice for notice in report.notices), report.notices
    assert place.writer().is_empty()


def test_delta_lake_does_not_make_null_of_an_empty_text(tmp_path: Path) -> None:
    place = Place("delta", tmp_path)
    with pytest.raises(DataError, match="a value of column 'lang' is an empty text, which Delta Lake reads as null"):
        run(place.writer(partition_cols=["lang"]), pa.table({"text": ["a"], "lang": [""]}))

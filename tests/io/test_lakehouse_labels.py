"""`label=` of tables: one commit puts the rows of a repeated day in the place of the earlier ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcurate import DataError, InlineExecutor, ParquetReader, Pipeline, ScoreFilter
from dcurate.text import WordCountFilter
from tests.io.test_lakehouse import Place, run
from tests.io.test_lakehouse_partitions import PARTITIONED, by_library
from tests.run.test_appends import DEATHS


@pytest.fixture(params=PARTITIONED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def day(place: Place, label: str | None, *values: str, **settings: Any) -> Any:
    rows = [pa.table({"text": [value], "lang": [value[:1]]}) for value in values]
    return run(place.writer(mode="append", label=label, **settings), *rows)


def texts(place: Place) -> list[str]:
    return sorted(by_library(place)["text"].to_pylist())


@pytest.mark.parametrize("columns", [None, ["lang"]])
def test_one_commit_puts_the_rows_of_a_repeated_day_in_the_place_of_the_earlier_ones(
    columns: list[str] | None, place: Place
) -> None:
    expected = []
    for label, values, rows in (
        ("monday", ["a1", "b1"], ["a1", "b1"]),
        ("tuesday", ["c1"], ["a1", "b1", "c1"]),
        (None, ["d1"], ["a1", "b1", "c1", "d1"]),
        ("monday", ["a2", "e2", "f2"], ["a2", "c1", "d1", "e2", "f2"]),
        ("monday", ["a3"], ["a3", "c1", "d1"]),
        ("tuesday", ["c2"], ["a3", "c2", "d1"]),
    ):
        expected.append(rows)
        day(place, label, *values, partition_cols=columns)
        assert texts(place) == rows
        assert place.versions() == len(expected)
    assert sorted(place.rows()["text"].to_pylist()) == rows


def test_a_repeated_day_without_rows_takes_out_the_earlier_ones(place: Place) -> None:
    day(place, "monday", "a1", "b1")
    day(place, "tuesday", "c1")
    rows = pa.table({"text": ["a2"], "lang": ["a"]})
    nothing = (ScoreFilter(WordCountFilter(min_words=9)),)
    for _ in range(2):
        run(place.writer(mode="append", label="monday"), rows, before=nothing)
        assert texts(place) == ["c1"]
    day(place, "monday", "a3")
    assert texts(place) == ["a3", "c1"]


def test_a_repeated_day_that_is_killed_anywhere_has_replaced_all_rows_or_none(place: Place, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        pq.write_table(pa.table({"text": [f"new{number}"], "lang": ["n"]}), tmp_path / f"in/{number}.parquet")
    for touches in range(0, 10_000, 7):
        (tmp_path / f"{touches}").mkdir()
        there = Place(place.kind, tmp_path / f"{touches}")
        day(there, "monday", "old")
        day(there, "tuesday", "other")
        reader = ParquetReader(str(tmp_path / "in"), files_per_partition=1)
        pipeline = Pipeline("write", stages=[reader, there.writer(mode="append", label="monday")])
        died = DEATHS.strike(partial(pipeline.run, InlineExecutor(), observers=[]), touches)
        assert texts(there) in (["old", "other"], ["new0", "new1", "other"])
        for _ in range(2):
            pipeline.run(InlineExecutor(), observers=[], resume=True)
            assert texts(there) == ["new0", "new1", "other"]
        assert there.versions() == 3
        if not died:
            return
    pytest.fail("it dies at any number of touches")


def test_rows_that_another_program_has_rewritten_are_not_guessed(place: Place) -> None:
    day(place, "monday", "a1", "b1")
    if place.kind == "delta":
        importlib.import_module("deltalake").DeltaTable(place.path).optimize.compact()
    else:
        with place.iceberg() as table:
            table.overwrite(table.scan().to_arrow())
    with pytest.raises(
        DataError, match="another program rewrote or deleted 2 files of table .* with rows of this labe"
    ):
        day(place, "monday", "a2")
    assert texts(place) == ["a1", "b1"]
    day(place, "again", "a2")
    assert texts(place) == ["a1", "a2", "b1"]


def in_between(place: Place, monkeypatch: pytest.MonkeyPatch, commit: Callable[[], Any], times: int) -> None:
    """Let another commit end each time that the library is about to commit, after dcurate looked at the table."""
    name = "deltalake.DeltaTable.create_write_transaction"
    library, _, method = (
        name if place.kind == "delta" else "pyiceberg.table.Transaction.commit_transaction"
    ).rpartition(".")
    module, _, owner = library.rpartition(".")
    holder = vars(importlib.import_module(module))[owner]
    plain, left = vars(holder)[method], [times]

    def after_another(*args: Any, **kwargs: Any) -> Any:
        if left[0]:
            left[0] -= 1
            waiting, left[0] = left[0], 0
            commit()
            left[0] = waiting
        return plain(*args, **kwargs)

    monkeypatch.setattr(holder, method, after_another)


@pytest.mark.parametrize("earlier", [("monday", "a1"), ("tuesday", "a1")])
@pytest.mark.parametrize("times", [1, 3])
def test_of_two_runs_of_a_label_that_commit_at_once_the_last_one_replaces_the_other(
    earlier: tuple[str, str], times: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    day(place, *earlier)
    day(place, None, "d1")
    in_between(place, monkeypatch, lambda: day(place, "monday", "b1", "b2"), times)
    day(place, "monday", "c1")
    assert texts(place) == [*(["a1"] if earlier[0] == "tuesday" else []), "c1", "d1"]


@pytest.mark.parametrize("label", ["tuesday", None])
def test_runs_of_several_labels_that_commit_at_once_keep_all_rows(
    label: str | None, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    day(place, "monday", "a1")
    in_between(place, monkeypatch, lambda: day(place, label, "b1"), 1)
    day(place, "monday", "c1", "c2")
    assert texts(place) == ["b1", "c1", "c2"]


def test_two_runs_of_a_label_that_begin_at_once_never_double_a_row(place: Place) -> None:
    for number in range(6):
        barrier = Barrier(2)

        def one_day(value: str, barrier: Barrier = barrier) -> None:
            barrier.wait(60)
            day(place, "monday", f"{value}1", f"{value}2")

        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(one_day, f"{value}{number}") for value in "ab"]
        assert [run.exception() for run in runs] == [None, None]
        assert len(texts(place)) == 2
        assert len({text[0] for text in texts(place)}) == 1

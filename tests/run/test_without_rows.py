"""An output that no row is left for has the columns of its rows, for each writer, however the run went."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dcurate import (
    DocumentBatch,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    ProcessingStage,
    ScoreFilter,
    TableReader,
)
from dcurate.text import AddId, WordCountFilter
from dcurate_testing.appends import TABLE_KINDS, AppendedOutput, write_day
from tests.run.test_appends import DEATHS

KINDS = ("parquet", "documents", *TABLE_KINDS)
TEXTS: dict[str, Sequence[str]] = {"a.parquet": ["one", "two words"], "b.parquet": ["three"]}


def filtered(output: AppendedOutput, source: Path, min_words: int, *more: Any, **settings: Any) -> Pipeline:
    reader, writer = output.stages(source, **settings)
    scored = ScoreFilter(WordCountFilter(min_words=min_words), score_field="words")
    return Pipeline("filter", stages=[reader, AddId("id"), scored, *more, writer])


def schema(output: AppendedOutput) -> dict[str, pa.DataType]:
    """The columns of an output as another library finds them."""
    if output.kind == "delta":
        table = importlib.import_module("deltalake").DeltaTable(str(output.path))
        columns = pa.schema(table.schema().to_arrow())
    elif output.kind == "lance":
        columns = importlib.import_module("lance").dataset(str(output.path)).schema
    elif output.kind == "iceberg":
        with importlib.import_module("pyiceberg.catalog").load_catalog(**output.catalog) as catalog:
            columns = catalog.load_table("db.out").schema().as_arrow()
    else:
        columns = ds.dataset(output.path).schema
    return dict(zip(columns.names, columns.types, strict=True))


def made(kind: str, folder: Path) -> tuple[AppendedOutput, Path]:
    output = AppendedOutput(kind, folder / "place")
    output.create()
    return output, write_day(folder / "in", TEXTS)


@pytest.mark.parametrize("more", [(), (ExactDuplicates(),)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_output_without_rows_has_the_columns_that_it_would_have_with_rows(
    kind: str, more: tuple[Any, ...], tmp_path: Path
) -> None:
    schemas = []
    for name, min_words in (("with", 0), ("without", 9)):
        output, source = made(kind, tmp_path / name)
        filtered(output, source, min_words, *more, mode="error").run(InlineExecutor(), observers=[])
        schemas.append(schema(output))
    assert not output.rows()
    assert schemas[1] == schemas[0]


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_without_rows_that_is_killed_anywhere_is_as_if_it_was_not_and_takes_rows_later(
    kind: str, tmp_path: Path
) -> None:
    whole, source = made(kind, tmp_path / "whole")
    filtered(whole, source, 9).run(InlineExecutor(), observers=[])
    for touches in range(0, 10_000, 37):
        output, source = made(kind, tmp_path / str(touches))
        pipeline = filtered(output, source, 9)
        died = DEATHS.strike(partial(pipeline.run, InlineExecutor(), observers=[]), touches)
        pipeline.run(InlineExecutor(), observers=[], resume=True)
        assert schema(output) == schema(whole)
        assert not output.rows()
        if not died:
            break
    else:
        pytest.fail("it dies at any number of touches")
    filtered(output, source, 0).run(InlineExecutor(), observers=[])
    assert sum(output.rows().values()) == 3
    assert not list(output.path.rglob("no-rows*"))


@pytest.mark.parametrize("more", [(), (ExactDuplicates(),)])
def test_a_result_without_rows_has_the_columns_that_it_would_have_with_rows(
    more: tuple[Any, ...], tmp_path: Path
) -> None:
    source = write_day(tmp_path / "in", TEXTS)
    results = [
        Pipeline("score", stages=[ParquetReader(str(source)), ScoreFilter(rule, score_field="words"), *more])
        .run(InlineExecutor(), observers=[])
        .to_arrow()
        for rule in (WordCountFilter(min_words=0), WordCountFilter(min_words=9))
    ]
    assert [rows.num_rows for rows in results] == [3, 0]
    assert results[1].schema.equals(results[0].schema)


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_a_table_without_rows_is_read_as_its_columns(kind: str, tmp_path: Path) -> None:
    output, source = made(kind, tmp_path)
    filtered(output, source, 9, mode="error").run(InlineExecutor(), observers=[])
    catalog = output.catalog if kind == "iceberg" else None
    path = "db.out" if kind == "iceberg" else str(output.path)
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    types = {name: small.get(kind, kind) for name, kind in schema(output).items()}
    filtered_by: dict[str, Any] = {"fields": ["words"], "filter": "words > 3"}
    for settings in ({}, filtered_by):
        names = settings.get("fields", list(types))
        reader = TableReader(path, format=kind, catalog=catalog, **settings)
        rows = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[]).to_arrow()
        assert rows.num_rows == 0
        assert rows.schema.equals(pa.schema([(name, types[name]) for name in names]))
        copy = tmp_path / f"copy-{len(names)}"
        Pipeline("copy", stages=[reader, ParquetWriter(str(copy))]).run(InlineExecutor(), observers=[])
        assert ds.dataset(copy).schema.names == names


@pytest.mark.parametrize("kind", ["parquet", "documents"])
def test_a_labelled_day_that_is_repeated_without_rows_leaves_the_columns(kind: str, tmp_path: Path) -> None:
    output, source = made(kind, tmp_path)
    for min_words, rows in ((0, 3), (9, 0), (0, 3)):
        filtered(output, source, min_words, label="monday").run(InlineExecutor(), observers=[])
        assert sum(output.rows().values()) == rows
        assert {"text", "id", "words"} <= set(schema(output))
        assert len(list(output.path.glob("no-rows*"))) == (rows == 0)


def test_an_input_without_rows_keeps_its_types(tmp_path: Path) -> None:
    types = pa.schema([("text", pa.string()), ("n", pa.int16()), ("at", pa.timestamp("us", "UTC"))])
    (tmp_path / "in").mkdir()
    pq.write_table(types.empty_table(), tmp_path / "in/a.parquet")
    stages: list[Any] = [ParquetReader(str(tmp_path / "in")), AddId("id"), ParquetWriter(str(tmp_path / "out"))]
    Pipeline("copy", stages=stages).run(InlineExecutor(), observers=[])
    columns = ds.dataset(tmp_path / "out").schema
    assert [(column.name, column.type) for column in columns] == [
        *((column.name, column.type) for column in types),
        ("id", pa.string()),
    ]


def test_columns_of_directories_are_columns_of_a_file_without_rows(tmp_path: Path) -> None:
    source = write_day(tmp_path / "in", TEXTS)
    writer = ParquetWriter(str(tmp_path / "out"), partition_cols=["words"], fields=["text", "words"])
    scored = ScoreFilter(WordCountFilter(min_words=9), score_field="words")
    stages: list[Any] = [ParquetReader(str(source)), scored, writer]
    Pipeline("filter", stages=stages).run(InlineExecutor(), observers=[])
    assert ds.dataset(tmp_path / "out").schema.equals(pa.schema({"text": pa.string(), "words": pa.int64()}))


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_json_lines_without_rows_are_an_empty_file(compression: str | None, tmp_path: Path) -> None:
    source = write_day(tmp_path / "in", TEXTS)
    writer = JsonlWriter(str(tmp_path / "out"), fields=["text"], compression=compression)
    stages: list[Any] = [ParquetReader(str(source)), ScoreFilter(WordCountFilter(min_words=9)), writer]
    Pipeline("filter", stages=stages).run(InlineExecutor(), observers=[])
    [file] = (tmp_path / "out").iterdir()
    assert pd.read_json(file, lines=True).empty
    read = Pipeline("read", stages=[JsonlReader(str(tmp_path / "out"))]).run(InlineExecutor(), observers=[])
    assert read.to_arrow().num_rows == 0


class NeedsRows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Fails on a batch without rows."""

    name = "needs_rows"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(task.to_pandas().assign(first=[task.to_pandas().text.iloc[0]]))


def test_a_stage_that_needs_rows_does_not_fail_a_run_that_has_none(tmp_path: Path) -> None:
    output, source = made("parquet", tmp_path)
    result = filtered(output, source, 9, NeedsRows()).run(InlineExecutor(), observers=[])
    [notice] = result.report.notices
    assert notice.startswith("no row is left, and the columns of the output are not known: stage 'needs_rows'")
    assert not list(output.path.rglob("*.parquet"))


def test_no_file_without_rows_is_written_beside_files_of_others(tmp_path: Path) -> None:
    output, source = made("parquet", tmp_path)
    output.path.mkdir()
    pq.write_table(pa.table({"text": ["mine"]}), output.path / "mine.parquet")
    filtered(output, source, 9, mode="ignore").run(InlineExecutor(), observers=[])
    assert [path.name for path in output.path.iterdir()] == ["mine.parquet"]


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_shards_that_leave_no_row_leave_the_columns(shards: int, tmp_path: Path) -> None:
    whole, source = made("parquet", tmp_path / "whole")
    filtered(whole, source, 9, mode="error").run(InlineExecutor(), observers=[])
    output = made("parquet", tmp_path / "shards")[0]
    for number in range(shards):
        pipeline = filtered(output, source, 9, mode="error")
        pipeline.run_shard(f"{number + 1}/{shards}", InlineExecutor(), observers=[])
        assert not list(output.path.rglob("*.parquet"))
    for _ in range(2):
        filtered(output, source, 9, mode="error").finish()
        assert schema(output) == schema(whole)
        assert not output.rows()


def test_shards_of_which_one_leaves_rows_leave_no_file_without_rows(tmp_path: Path) -> None:
    output, source = made("parquet", tmp_path)
    for number in (1, 2):
        filtered(output, source, 2, mode="error").run_shard(f"{number}/2", InlineExecutor(), observers=[])
    filtered(output, source, 2, mode="error").finish()
    assert sum(output.rows().values()) == 1
    assert not list(output.path.rglob("no-rows*"))

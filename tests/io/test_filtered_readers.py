"""Readers with `filter=` yield the rows that match, and read as little as the format allows."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from dcurate import (
    CsvReader,
    DataError,
    DcurateError,
    DocumentReader,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    MediaReader,
    ParquetReader,
    Pipeline,
    PipelineError,
    TableReader,
)
from dcurate.core.stage import RowNeeds, Stage
from dcurate.events import Event, SourceListed
from dcurate.recipe import load_recipe

ROWS = pa.table(
    {
        "n": list(range(100)),
        "text": [f"row {n}" for n in range(100)],
        "score": [None if n % 10 == 0 else n / 100 for n in range(100)],
    }
)


class Listener:
    """Keeps the event that says what was listed."""

    def __init__(self) -> None:
        self.listed: list[SourceListed] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, SourceListed):
            self.listed.append(event)


def _rows(*stages: Any) -> list[dict[str, Any]]:
    made = Pipeline("read", stages=list(stages)).run(InlineExecutor(), observers=[])
    return made.to_arrow().to_pylist() if len(made) else []


def _jsonl(path: Path, rows: pa.Table) -> None:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows.to_pylist()))


def _parquet(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, row_group_size=10)


FORMATS: dict[str, tuple[Callable[[Path, pa.Table], Any], Callable[..., Any]]] = {
    "a.jsonl": (_jsonl, JsonlReader),
    "a.csv": (lambda path, rows: pyarrow.csv.write_csv(rows, path), CsvReader),
    "a.parquet": (_parquet, ParquetReader),
    "b.jsonl": (_jsonl, DocumentReader),
    "b.parquet": (_parquet, DocumentReader),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("fields", [None, ["text"], ["score", "n"]])
def test_every_format_yields_the_rows_that_match(tmp_path: Path, name: str, fields: list[str] | None) -> None:
    write, make = FORMATS[name]
    write(tmp_path / name, ROWS)
    wanted = ROWS.filter(pc.field("n") > 95).select(fields or ROWS.column_names).to_pylist()

    for condition in ("n > 95", pc.field("n") > 95):
        read = make(str(tmp_path), filter=condition, fields=fields, schema={"n": "int64", "score": "float64"})
        assert _rows(read) == wanted


def test_a_reader_of_several_formats_filters_all_of_them(tmp_path: Path) -> None:
    _jsonl(tmp_path / "a.jsonl", ROWS[:50])
    _parquet(tmp_path / "b.parquet", ROWS[50:])

    read = DocumentReader(str(tmp_path), filter="n BETWEEN 48 AND 51", blocksize="1MiB")

    assert [row["n"] for row in _rows(read)] == [48, 49, 50, 51]


def test_lines_that_match_are_written_as_they_came(tmp_path: Path) -> None:
    lines = ['{"n": 1,  "text": "\\u0061"}', '{"n":2,"text":"b","x":1e2}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))

    stages: list[Stage] = [JsonlReader(str(tmp_path / "a.jsonl"), filter="n = 1"), JsonlWriter(str(tmp_path / "out"))]
    Pipeline("copy", stages=stages).run(InlineExecutor(), observers=[])

    [written] = (tmp_path / "out").glob("*.jsonl")
    assert written.read_text() == lines[0] + "\n"


def test_rows_left_out_do_not_count_as_input_and_the_report_says_so(tmp_path: Path) -> None:
    for language in ("de", "en", "fr"):
        (tmp_path / f"lang={language}").mkdir()
        _parquet(tmp_path / f"lang={language}" / "a.parquet", ROWS)
    listener = Listener()

    read = ParquetReader(str(tmp_path), filter="lang = 'en' AND n < 15")
    report = Pipeline("read", stages=[read]).run(InlineExecutor(), observers=[listener]).report

    size = (tmp_path / "lang=en" / "a.parquet").stat().st_size
    assert (report.stages[0].rows_out, report.stages[0].dropped, report.splits) == (15, {}, 1)
    assert report.notices[0].endswith(
        f"leaves 2 of 3 files unread ({2 * size:,} of {3 * size:,} bytes); rows left out do not count as input"
    )
    assert report.notices[1].startswith("the filter left 8 row groups unread (")
    [listed] = listener.listed
    assert (listed.skipped_files, listed.all_files) == (2, 3)
    assert (listed.skipped_bytes, listed.all_bytes) == (2 * size, 3 * size)


def test_a_file_left_out_is_not_opened(tmp_path: Path) -> None:
    for language in ("en", "fr"):
        (tmp_path / f"lang={language}").mkdir()
    _parquet(tmp_path / "lang=en" / "a.parquet", ROWS)
    (tmp_path / "lang=fr" / "a.parquet").write_bytes(b"not Parquet at all")

    assert len(_rows(ParquetReader(str(tmp_path), filter="lang = 'en'"))) == 100
    with pytest.raises(DataError):
        _rows(ParquetReader(str(tmp_path), filter="lang = 'en' OR n = 1"))


def test_rows_keep_the_places_at_which_they_are_in_their_file(tmp_path: Path) -> None:
    _parquet(tmp_path / "a.parquet", ROWS)
    needs = RowNeeds(origins=True)

    def read(**settings: Any) -> pa.Table:
        reader = ParquetReader(str(tmp_path / "a.parquet"), **settings).adapted(needs)
        assert reader is not None
        [split] = reader.splits()
        batch = reader.process(split)
        assert batch is not None
        return batch.data

    assert read(filter="n IN (35, 71)").equals(read().take([35, 71]))


def test_folders_with_a_typed_column_are_compared_by_value(tmp_path: Path) -> None:
    for year in (9, 10, 11):
        (tmp_path / f"year={year}").mkdir()
        _parquet(tmp_path / f"year={year}" / "a.parquet", ROWS[:1])

    assert [row["year"] for row in _rows(ParquetReader(str(tmp_path), filter="year >= 10"))] == [10, 11]
    assert _rows(ParquetReader(str(tmp_path), filter="year >= '10'", schema={"year": "string"}))[-1]["year"] == "9"
    with pytest.raises(DataError, match="write the value in single quotes"):
        _rows(ParquetReader(str(tmp_path), filter="year >= 10", schema={"year": "string"}))


def test_a_filter_that_nothing_matches_reads_no_row(tmp_path: Path) -> None:
    (tmp_path / "lang=en").mkdir()
    _parquet(tmp_path / "lang=en" / "a.parquet", ROWS)

    assert _rows(ParquetReader(str(tmp_path), filter="lang = 'de'")) == []
    assert _rows(ParquetReader(str(tmp_path), filter="n = -1")) == []


def test_a_column_that_no_file_has_is_refused(tmp_path: Path) -> None:
    _parquet(tmp_path / "a.parquet", ROWS)

    with pytest.raises(DataError, match="no column 'lang' in the first rows"):
        _rows(ParquetReader(str(tmp_path), filter="lang = 'en'"))
    with pytest.raises(DataError, match="write the value in single quotes"):
        _rows(ParquetReader(str(tmp_path), filter="text = 1"))


def test_readers_whose_rows_are_no_rows_of_a_table_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="filter has no effect here"):
        MediaReader(str(tmp_path), filter="a = 1")


def test_the_first_rows_are_those_that_match(tmp_path: Path) -> None:
    _parquet(tmp_path / "a.parquet", ROWS)

    first = Pipeline("head", stages=[ParquetReader(str(tmp_path), filter="n >= 57")]).head(3)

    assert first.to_pandas()["n"].tolist() == [57, 58, 59]


def test_another_filter_is_another_pipeline(tmp_path: Path) -> None:
    _jsonl(tmp_path / "a.jsonl", ROWS)

    def run(condition: Any) -> Any:
        stages: list[Stage] = [
            JsonlReader(str(tmp_path / "a.jsonl"), filter=condition),
            JsonlWriter(str(tmp_path / "out")),
        ]
        return Pipeline("run", stages=stages).run(InlineExecutor(), observers=[], resume=True)

    assert run("n < 5").report.splits_before == 0
    assert run("n < 5").report.splits_before == 1
    with pytest.raises(DcurateError):
        run("n < 6")


def test_a_recipe_takes_the_condition_as_text(tmp_path: Path) -> None:
    _parquet(tmp_path / "a.parquet", ROWS)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"name: filtered\nparams: {{filter: null}}\n"
        f"stages:\n  - ParquetReader: {{file_paths: {tmp_path}, filter: '${{filter}}'}}\n"
    )

    pipeline = load_recipe(recipe, {"filter": "n IN (3, 5) OR text LIKE 'row 9_'"}).pipeline

    assert pipeline.run(InlineExecutor(), observers=[]).report.stages[0].rows_out == 12


#: Values of one column in several files, which are of different types in some.
_FILES = st.lists(
    st.one_of(
        st.lists(st.none() | st.integers(2**53 - 1, 2**53 + 2), min_size=1, max_size=6),
        st.lists(st.none() | st.sampled_from([0.5, float(2**53)]), min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=4,
)


@given(_FILES, st.sampled_from(["=", "<", ">=", "!="]), st.integers(2**53 - 1, 2**53 + 2), st.sampled_from([1, 4]))
def test_a_filter_as_rows_are_read_equals_one_afterwards(
    tmp_path_factory: pytest.TempPathFactory, contents: list[list[Any]], sign: str, limit: int, packed: int
) -> None:
    folder = tmp_path_factory.mktemp("files")
    for number, values in enumerate(contents):
        pq.write_table(pa.table({"x": values}), folder / f"{number}.parquet", row_group_size=2)

    def rows(**settings: Any) -> list[Any]:
        read = ParquetReader(str(folder), files_per_partition=packed, **settings)
        return [row["x"] for row in _rows(read)]

    everything = pa.table({"x": rows()})
    if pa.types.is_null(everything["x"].type):
        return
    scalar = pa.scalar(limit).cast(everything["x"].type, safe=False)
    compare = {"=": pc.equal, "<": pc.less, ">=": pc.greater_equal, "!=": pc.not_equal}[sign]
    assert rows(filter=f"x {sign} {limit}") == everything.filter(compare(everything["x"], scalar))["x"].to_pylist()


# Tables


def _delta(folder: Path) -> dict[str, Any]:
    for day in range(4):
        at = datetime.datetime(2026, 11, day + 1, 12, 0, 0, 123_456, tzinfo=datetime.UTC)
        rows = ROWS[day * 10 : day * 10 + 10].append_column("at", pa.array([at] * 10))
        rows = rows.append_column("lang", pa.array([("en", "de")[day % 2]] * 10))
        write_deltalake(str(folder), rows, mode="append", partition_by=["lang"])
    return {"path": str(folder), "format": "delta"}


@pytest.mark.parametrize(
    ("condition", "numbers", "files"),
    [
        ("lang = 'de'", [*range(10, 20), *range(30, 40)], 2),
        ("n = 12", [12], 3),
        (pc.field("n") == 12, [12], 3),
        ("at > '2026-11-04 12:00:00.123'", list(range(30, 40)), 3),
        ("score IS NULL", [0, 10, 20, 30], 0),
        ("n < 0", [], 4),
    ],
)
def test_files_of_a_delta_table_are_left_out_by_partitions_and_statistics(
    tmp_path: Path, condition: Any, numbers: list[int], files: int
) -> None:
    listener = Listener()
    read = TableReader(**_delta(tmp_path / "t"), filter=condition, fields=["n"])

    result = Pipeline("read", stages=[read]).run(InlineExecutor(), observers=[listener])

    assert sorted(result.to_arrow()["n"].to_pylist() if len(result) else []) == numbers
    assert (listener.listed[0].skipped_files, listener.listed[0].all_files) == (files, 4)


def test_a_condition_that_does_not_suit_a_table_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="names a column 'language'"):
        _rows(TableReader(**_delta(tmp_path / "t"), filter="language = 'de'"))


@pytest.mark.parametrize(
    ("condition", "numbers", "files"),
    [
        ("n = 12", [12], 3),
        (pc.field("n") == 12, [12], 3),
        ("lang >= 'e'", [*range(10), *range(20, 30)], 2),
        ("day = '2026-11-02'", list(range(10, 20)), 3),
        ("price > 2.5", list(range(30, 40)), 3),
        ("at < '2026-11-02'", list(range(10)), 3),
        ("n IS NULL", [], 4),
    ],
)
def test_files_of_an_iceberg_table_are_left_out_by_its_statistics(
    tmp_path: Path, condition: Any, numbers: list[int], files: int
) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = pytest.importorskip("pyiceberg.catalog").load_catalog("default", **settings)
    catalog.create_namespace("db")
    moments = [datetime.datetime(2026, 11, day + 1, 12, tzinfo=datetime.UTC) for day in range(4)]
    days = [
        pa.table(
            {
                "n": list(range(day * 10, day * 10 + 10)),
                "lang": [("en", "de")[day % 2] * 20] * 10,  # bounds of long text are cut
                "at": pa.array([moment] * 10, pa.timestamp("us", "UTC")),
                "day": [moment.date()] * 10,
                "price": pa.array([Decimal(day)] * 10, pa.decimal128(10, 2)),
            }
        )
        for day, moment in enumerate(moments)
    ]
    table = catalog.create_table("db.t", days[0].schema)
    for rows in days:
        table.append(rows)
    listener = Listener()
    read = TableReader("db.t", format="iceberg", catalog=settings, filter=condition, fields=["n"])

    result = Pipeline("read", stages=[read]).run(InlineExecutor(), observers=[listener])

    assert sorted(result.to_arrow()["n"].to_pylist() if len(result) else []) == numbers
    assert (listener.listed[0].skipped_files, listener.listed[0].all_files) == (files, 4)
    catalog.close()


@pytest.mark.parametrize("condition", ["n IN (3, 8)", pc.field("n").isin([3, 8])])
def test_rows_of_a_lance_table_are_filtered(tmp_path: Path, condition: Any) -> None:
    pytest.importorskip("lance").write_dataset(ROWS, f"{tmp_path}/t", max_rows_per_file=5)
    settings: dict[str, Any] = {"path": f"{tmp_path}/t", "format": "lance", "filter": condition}

    assert _rows(TableReader(**settings)) == ROWS.take([3, 8]).to_pylist()
    assert _rows(TableReader(**settings, fields=["text"])) == [{"text": "row 3"}, {"text": "row 8"}]
    with pytest.raises(DataError, match="names a column 'm'"):
        _rows(TableReader(f"{tmp_path}/t", format="lance", filter="m = 1"))

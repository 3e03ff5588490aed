"""Tables of Delta Lake, Iceberg and Lance with the real libraries: one commit of all rows, each once, as they were."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    InlineExecutor,
    ParquetReader,
    Pipeline,
    PipelineError,
    ProcessingStage,
    ScoreFilter,
    TableReader,
    TableWriter,
)
from dcurate.frames.schema import NOTE
from dcurate.text import WordCountFilter

LIBRARIES = {"delta": "deltalake", "iceberg": "pyiceberg", "lance": "lance"}
FORMATS = [name for name, library in LIBRARIES.items() if importlib.util.find_spec(library) is not None]
WHEN = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
#: A column of each kind that all three formats have, with nulls.
ROWS = pa.table(
    {
        "text": ["one", None, "", "zwölf\n"],
        "n": pa.array([1, None, 2**62, -1], pa.int64()),
        "small": pa.array([1, 2, None, -(2**31)], pa.int32()),
        "score": [0.5, None, float("inf"), -0.0],
        "good": [True, None, False, True],
        "tags": [["a", None], [], None, ["b"]],
        "meta": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": ""}],
        "at": pa.array([WHEN, None, WHEN, WHEN], pa.timestamp("us")),
        "utc": pa.array([WHEN, None, WHEN, WHEN], pa.timestamp("us", "UTC")),
        "day": pa.array([WHEN.date(), None, WHEN.date(), WHEN.date()], pa.date32()),
        "raw": pa.array([b"\x00\xff", None, b"", b"x"], pa.binary()),
        "price": pa.array([decimal.Decimal("1.20"), None, None, None], pa.decimal128(10, 2)),
    }
)


class Place:
    """A place for a table of a format."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.settings: dict[str, Any] = {"format": kind}
        self.path = str(folder / "table")
        if kind == "iceberg":
            catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
            self.settings["catalog"] = {"name": "here", **catalog}
            self.path = "db.table"
            with importlib.import_module("pyiceberg.catalog").load_catalog("here", **catalog) as opened:
                opened.create_namespace("db")

    def writer(self, **settings: Any) -> TableWriter:
        return TableWriter(self.path, **self.settings, **settings)

    def reader(self, **settings: Any) -> TableReader:
        return TableReader(self.path, **self.settings, **settings)

    def rows(self, **settings: Any) -> pa.Table:
        made = Pipeline("read", stages=[self.reader(**settings)]).run(InlineExecutor(), observers=[])
        return made.to_arrow()

    def versions(self) -> int:
        """How many commits the table has."""
        if self.kind == "delta":
            return importlib.import_module("deltalake").DeltaTable(self.path).version() + 1
        if self.kind == "lance":
            return len(importlib.import_module("lance").dataset(self.path).versions())
        with self.iceberg() as table:
            return len(table.metadata.snapshots)

    @contextmanager
    def iceberg(self) -> Iterator[Any]:
        """Open the table of Iceberg."""
        with importlib.import_module("pyiceberg.catalog").load_catalog(**self.settings["catalog"]) as catalog:
            yield catalog.load_table(self.path)

    def append(self, rows: pa.Table) -> None:
        """Add rows as another program does."""
        if self.kind == "delta":
            importlib.import_module("deltalake").write_deltalake(self.path, rows, mode="append")
        elif self.kind == "lance":
            importlib.import_module("lance").write_dataset(rows, self.path, mode="append")
        else:
            with self.iceberg() as table:
                table.append(rows)

    def there(self) -> bool:
        table = self.writer()._table()
        return table.version() is not None


@pytest.fixture(params=FORMATS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def run(writer: Any, *batches: pa.Table, before: tuple[Any, ...] = (), resume: bool = False) -> Any:
    given = [DocumentBatch(key=BatchKey(f"part-{place}"), data=rows) for place, rows in enumerate(batches)]
    pipeline = Pipeline("write", stages=[*before, writer])
    return pipeline.run(InlineExecutor(), given, observers=[], resume=resume)


def texts(place: Place, **settings: Any) -> list[str]:
    return sorted(place.rows(**settings)["text"].to_pylist())


def words(*values: str) -> pa.Table:
    return pa.table({"text": list(values)})


def test_rows_types_nulls_and_order_are_as_they_were(place: Place) -> None:
    run(place.writer(), ROWS)
    assert place.rows().cast(ROWS.schema).equals(ROWS)
    assert place.rows(fields=["n", "text"]).equals(ROWS.select(["n", "text"]))


def test_one_commit_has_all_rows_that_were_not_dropped(place: Place) -> None:
    made = run(
        place.writer(), *(words(f"text {n}", "short") for n in range(5)), before=(ScoreFilter(WordCountFilter(2)),)
    )
    assert texts(place) == [f"text {n}" for n in range(5)]
    assert place.versions() == 1
    assert sum(one.dropped.get("word_count", 0) for one in made.report.stages) == 5


def test_a_mode_says_what_becomes_of_a_table_and_earlier_versions_stay(place: Place) -> None:
    run(place.writer(), words("a"))
    with pytest.raises(DataError, match="there is a table .* already; go on with the run that made it"):
        run(place.writer(), words("b"))
    run(place.writer(mode="append"), words("b"))
    assert texts(place) == ["a", "b"]
    run(place.writer(mode="overwrite"), words("c"))
    assert texts(place) == ["c"]
    first = 0 if place.kind == "delta" else 1
    assert texts(place, version=first) == ["a"]
    assert texts(place, version=first + 1) == ["a", "b"]


def test_a_resumed_run_commits_nothing_twice_and_adds_what_is_new(place: Place) -> None:
    run(place.writer(), words("a"), words("b"))
    count = place.versions()
    run(place.writer(), words("a"), words("b"), resume=True)
    assert (texts(place), place.versions()) == (["a", "b"], count)
    run(place.writer(), words("a"), words("b"), words("c"), resume=True)
    assert (texts(place), place.versions()) == (["a", "b", "c"], count + 1)


def test_columns_get_one_type_for_all_rows(place: Place) -> None:
    parts = [
        pa.table({"n": pa.array([1], pa.int64()), "late": pa.nulls(1), "never": pa.nulls(1), "tags": [[]]}),
        pa.table({"n": [2.5], "late": ["x"], "never": pa.nulls(1), "tags": [[7]]}),
        pa.table({"n": pa.nulls(1), "late": pa.nulls(1), "never": pa.nulls(1), "tags": pa.nulls(1)}),
    ]
    run(place.writer(), *parts)
    rows = place.rows().sort_by("n").to_pylist()
    assert rows == [
        {"n": 1.0, "late": None, "never": None, "tags": []},
        {"n": 2.5, "late": "x", "never": None, "tags": [7]},
        {"n": None, "late": None, "never": None, "tags": None},
    ]
    run(place.writer(mode="append"), pa.table({"n": pa.array([3], pa.int8())}))
    assert place.rows()["n"].to_pylist().count(3.0) == 1


def test_types_that_do_not_go_together_are_refused_and_nothing_is_committed(place: Place) -> None:
    with pytest.raises(DataError, match="column 'n' is string in .* but int64 in .*; give the type with schema="):
        run(place.writer(), pa.table({"n": [1]}), pa.table({"n": ["x"]}))
    assert not place.there()
    run(place.writer(mode="overwrite", schema={"n": "string"}), pa.table({"n": [1]}), pa.table({"n": ["x"]}))
    assert sorted(place.rows()["n"].to_pylist()) == ["1", "x"]
    with pytest.raises(DataError, match="has no column 'other'; add it to the table first"):
        run(place.writer(mode="append"), pa.table({"other": [1]}))
    assert place.rows().num_rows == 2


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (pa.array([1]), pa.array([1.7]), "column 'n' is double, and would lose values as int64"),
        (pa.array([1]), pa.array([float("nan")]), "column 'n' is double, and would lose values as int64"),
        (
            pa.array([{"a": 1}]),
            pa.array([{"a": 2, "b": 3}]),
            "column 'n' is .* in the rows, and .* in table .*, which has no field 'b'",
        ),
        (pa.array([[{"a": 1}]]), pa.array([[{"a": 2, "b": 3}]]), "which has no field 'b'; change"),
        (pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "UTC")), "which has no time zone; change"),
        (pa.array([0], pa.timestamp("us", "UTC")), pa.array([0], pa.timestamp("us")), "not times without one; change"),
        (
            pa.array([0], pa.date32()),
            pa.array([1], pa.timestamp("us")),
            "is timestamp.*, and would lose values as date",
        ),
    ],
)
def test_values_that_a_table_would_hold_in_part_are_refused(
    place: Place, first: pa.Array, second: pa.Array, sentence: str
) -> None:
    run(place.writer(), pa.table({"n": first}))
    before = place.rows()
    with pytest.raises(DataError, match=sentence):
        run(place.writer(mode="append"), pa.table({"n": second}))
    assert place.rows().equals(before)


def test_a_date_that_iceberg_cannot_count_with_is_refused_in_a_sentence(tmp_path: Path) -> None:
    place = Place("iceberg", tmp_path)
    with pytest.raises(DataError, match="Iceberg refuses the commit to 'db.table'"):
        run(place.writer(), pa.table({"n": pa.array([2**62], pa.timestamp("us"))}))


def test_json_in_a_column_of_lance_is_read_as_it_was(tmp_path: Path) -> None:
    place = Place("lance", tmp_path)
    run(place.writer(), pa.table({"n": pa.array(['{"a": 1}']).cast(pa.json_())}))
    assert place.rows()["n"].to_pylist() == ['{"a": 1}']


def test_what_a_table_of_lance_says_under_the_names_of_notes_is_not_believed(tmp_path: Path) -> None:
    field = pa.field("n", pa.int64(), metadata={NOTE + b"type": b"x", b"unit": b"m"})
    place = Place("lance", tmp_path)
    importlib.import_module("lance").write_dataset(pa.table({"n": [1]}, schema=pa.schema([field])), place.path)
    assert place.rows().schema.field("n").metadata == {b"unit": b"m"}


def test_a_table_that_another_program_changed_meanwhile_is_not_replaced(place: Place) -> None:
    class Meanwhile(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> DocumentBatch:
            place.append(words("theirs"))
            return task

    run(place.writer(), words("a"))
    with pytest.raises(DataError, match="another program wrote to table .*; nothing was committed: go on with resume"):
        run(place.writer(mode="overwrite"), words("b"), before=(Meanwhile(),))
    assert texts(place) == ["a", "theirs"]
    run(place.writer(mode="overwrite"), words("b"), before=(Meanwhile(),), resume=True)
    assert texts(place) == ["b"]
    run(place.writer(mode="append"), words("c"), before=(Meanwhile(),))
    assert texts(place) == ["b", "c", "theirs"]


def test_rows_go_to_a_table_of_lance_that_another_program_made_meanwhile(tmp_path: Path) -> None:
    lance = importlib.import_module("lance")
    place = Place("lance", tmp_path)

    class Meanwhile(ProcessingStage[DocumentBatch, DocumentBatch]):
        def process(self, task: DocumentBatch) -> DocumentBatch:
            if task.key == BatchKey("part-1") and not place.there():
                theirs = pa.table({"gone": [0], "text": ["theirs"]})
                lance.write_dataset(theirs, place.path).drop_columns(["gone"])  # columns are numbered otherwise
            return task

    with pytest.raises(DataError):
        run(place.writer(mode="append"), words("a"), words("b"), before=(Meanwhile(),))
    assert texts(place) == ["theirs"]
    run(place.writer(mode="append"), words("a"), words("b"), before=(Meanwhile(),), resume=True)
    assert texts(place) == ["a", "b", "theirs"]


def test_rows_are_replaced_by_rows_of_other_columns_and_by_none(place: Place) -> None:
    run(place.writer(), words("a"))
    run(place.writer(mode="overwrite"), pa.table({"text": ["b"], "n": [1]}))
    assert place.rows(fields=["text", "n"]).to_pylist() == [{"text": "b", "n": 1}]
    none = (ScoreFilter(WordCountFilter(2)),)
    run(place.writer(mode="overwrite"), words("short"), before=none)
    place.append(pa.table({"text": ["theirs"], "n": [2]}))
    run(place.writer(mode="overwrite"), words("short"), before=none, resume=True)
    assert place.rows(fields=["text", "n"]).to_pylist() == [{"text": "theirs", "n": 2}]


def test_input_that_changed_after_the_commit_is_refused(place: Place, tmp_path: Path) -> None:
    pq = importlib.import_module("pyarrow.parquet")
    (tmp_path / "in").mkdir()
    pq.write_table(words("a"), tmp_path / "in" / "a.parquet")
    stages: list[Any] = [ParquetReader(str(tmp_path / "in"), files_per_partition=1), place.writer()]
    Pipeline("write", stages=stages).run(InlineExecutor(), observers=[])
    pq.write_table(words("other"), tmp_path / "in" / "a.parquet")
    for _ in range(2):
        with pytest.raises(DataError, match="are of input that changed since .*, so the new rows would come twice"):
            Pipeline("write", stages=stages).run(InlineExecutor(), observers=[], resume=True)
        assert texts(place) == ["a"]


#: A program that writes ten parts, and is killed before or after a call of a method of the writer.
PROGRAM = """
import os, sys
import psutil
import pyarrow as pa
from dcurate import DocumentBatch, InlineExecutor, Pipeline, TableWriter
from dcurate import BatchKey

path, settings, stop, resume = eval(sys.argv[1])
calls = 0

def dying(name, number, after):
    whole = getattr(TableWriter, name)
    def go(self, *given):
        global calls
        calls += 1
        if not after and calls > number:
            os._exit(9)
        found = whole(self, *given)
        if after and calls > number:
            os._exit(9)
        return found
    setattr(TableWriter, name, go)

dying(*stop)
rows = [DocumentBatch(key=BatchKey(f"part-{n}"), data=pa.table({"text": [f"{n}"]})) for n in range(10)]
Pipeline("write", stages=[TableWriter(path, **settings)]).run(InlineExecutor(), rows, observers=[], resume=resume)
"""


@pytest.mark.program
def test_a_run_that_is_killed_anywhere_loses_and_doubles_no_row(place: Place) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def killed(stop: tuple[str, int, bool], resume: bool) -> None:
        given = repr((place.path, place.settings, stop, resume))
        assert subprocess.run([sys.executable, "-c", PROGRAM, given], env=environment, check=False).returncode == 9

    resume = False
    if place.kind != "iceberg":
        killed(("_put_file", 4, False), resume)
        assert not place.there()
        resume = True
    if place.kind == "delta":
        killed(("_keep", 1, True), True)  # what is to be committed is noted
        assert not place.there()
    killed(("_keep", 2, False), resume)  # the commit is made, and that is not noted
    assert texts(place) == [str(n) for n in range(10)]
    run(place.writer(), *(words(str(n)) for n in range(10)), resume=True)
    assert (texts(place), place.versions()) == ([str(n) for n in range(10)], 1)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(PipelineError, match="format='deltalake' is not a format of tables; did you mean 'delta'"):
        TableWriter("out", format="deltalake")
    with pytest.raises(
        PipelineError, match="a table of Iceberg is written through a catalog; give what pyiceberg asks"
    ):
        TableWriter("out", format="iceberg")
    with pytest.raises(PipelineError, match="only tables of Iceberg are in a catalog; leave out catalog= with 'lance'"):
        TableReader("out", format="lance", catalog={})
    with pytest.raises(PipelineError, match="mode='ignore' has no meaning for a table; give 'append' to add rows"):
        TableWriter("out", mode="ignore")
    with pytest.raises(PipelineError, match="version='3' must be a whole number"):
        TableReader("out", version="3")  # type: ignore[arg-type]


@pytest.mark.skipif("iceberg" not in FORMATS, reason="needs pyiceberg")
@pytest.mark.parametrize(
    ("path", "changes", "sentence"),
    [
        ("table", {}, "'table' must be a name in the catalog, such as 'namespace.table'"),
        ("lake/table", {}, "'lake/table' must be a name in the catalog"),
        ("db.", {}, "'db.' must be a name in the catalog"),
        ("db.table", None, "catalog must be a mapping of what pyiceberg asks for, such as"),
        ("db.table", {"type": "sqll"}, "catalog of table 'db.table' cannot be opened .'sqll' is not a valid"),
        ("db.table", {"uri": "sqlite:////nowhere/x.db"}, "cannot be opened .* unable to open database file.; check"),
        ("db.table", {"uri": "://me:hunter2@host"}, "cannot be opened .*Could not parse"),
        ("db.table", {"warehouse": None}, "table 'db.table' cannot be made .*; say in catalog= where new tables go"),
        ("other.table", {}, "no namespace for table 'other.table'; make it with create_namespace of the catalog"),
    ],
)
def test_a_catalog_that_cannot_be_used_is_a_sentence(
    path: str, changes: dict[str, Any] | None, sentence: str, tmp_path: Path
) -> None:
    settings = Place("iceberg", tmp_path).settings["catalog"]
    catalog: Any = "here" if changes is None else {k: v for k, v in {**settings, **changes}.items() if v is not None}

    def write() -> None:
        writer = TableWriter(path, format="iceberg", catalog=catalog)
        Pipeline("t", stages=[writer]).run(InlineExecutor(), initial_tasks=pa.table({"n": [1]}), observers=[])

    with pytest.raises((PipelineError, DataError), match=sentence) as refused:
        write()
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_secret_of_a_catalog_is_not_shown() -> None:
    writer = TableWriter("a.b", format="iceberg", catalog={"uri": "https://me:hunter2@host", "token": "hunter2"})
    assert "hunter2" not in repr(writer)
    assert "hunter2" not in str(writer.settings())


def test_a_table_of_iceberg_is_read_without_its_catalog(tmp_path: Path) -> None:
    place = Place("iceberg", tmp_path)
    run(place.writer(), words("a"))
    [about] = (tmp_path / "db" / "table" / "metadata").glob("*.metadata.json")
    made = Pipeline("read", stages=[TableReader(str(about), format="iceberg")]).run(InlineExecutor(), observers=[])
    assert made.to_arrow()["text"].to_pylist() == ["a"]
    with pytest.raises(
        DataError, match="is not a table of Iceberg that can be read without a catalog .*; give its newest"
    ):
        Pipeline("read", stages=[TableReader(str(tmp_path), format="iceberg")]).run(InlineExecutor(), observers=[])


def test_partitions_of_delta_are_read_with_their_types_and_written_as_they_are(tmp_path: Path) -> None:
    place = Place("delta", tmp_path)
    rows = pa.table({"text": ["a", "b", "c"], "year": [2023, None, 2024], "lang": ["en", "d e", None]})
    importlib.import_module("deltalake").write_deltalake(place.path, rows, partition_by=["year", "lang"])
    assert place.rows().select(rows.column_names).sort_by("text").equals(rows)
    with pytest.raises(DataError, match="is partitioned by 'year', 'lang'; give partition_cols="):
        run(place.writer(mode="append"), rows)
    run(place.writer(mode="append", partition_cols=["year", "lang"]), rows)
    assert place.rows().select(rows.column_names).num_rows == 6


def test_deleted_rows_are_not_read(place: Place) -> None:
    run(place.writer(), words(*"abcdef"))
    if place.kind == "iceberg":
        with place.iceberg() as table:
            table.delete("text == 'b'")
    else:
        library = importlib.import_module(LIBRARIES[place.kind])
        (library.DeltaTable(place.path) if place.kind == "delta" else library.dataset(place.path)).delete("text = 'b'")
    assert texts(place) == list("acdef")
    assert texts(place, blocksize=50) == list("acdef")


def test_connections_to_a_catalog_of_iceberg_are_closed(tmp_path: Path) -> None:
    place = Place("iceberg", tmp_path)
    gc.disable()
    try:
        for mode in ("overwrite", "append", "overwrite"):
            run(place.writer(mode=mode), words("a"))
        place.rows()
        open_files = [file.path for file in psutil.Process().open_files()]
    finally:
        gc.enable()
    assert not [path for path in open_files if path.startswith(str(tmp_path))]


def test_what_is_no_table_is_refused(place: Place) -> None:
    with pytest.raises(DataError, match="is not a table of|has no table"):
        place.rows()
    run(place.writer(), words("a"))
    with pytest.raises(DataError):
        place.rows(version=77)

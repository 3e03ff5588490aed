"""What a table says of its columns holds: names of other times, required columns, rules of values."""

from __future__ import annotations

import datetime as dt
import importlib
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

from dcurate import DataError, InlineExecutor, ParquetReader, Pipeline
from tests.io.test_lakehouse import FORMATS, Place, run, words

pytestmark = pytest.mark.skipif({"delta", "iceberg"} - set(FORMATS) != set(), reason="needs the 'tables' extra")

NAMES = st.sampled_from("abc")
#: What happens to a table of Iceberg, with names of columns.
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "add struct", "delete"]), NAMES),
        st.tuples(st.sampled_from(["rename", "add within", "delete within", "rename within"]), NAMES, NAMES),
        st.tuples(st.just("append")),
    ),
    max_size=8,
)
WHEN = dt.datetime(2024, 5, 6, 7, 8, 9)


def iceberg(folder: Path) -> Place:
    place = Place("iceberg", folder)
    run(place.writer(), words("first"))
    return place


def changed(table: Any, change: Callable[[Any], None]) -> bool:
    """Change the schema of a table; False if the library refuses."""
    try:
        with table.update_schema() as update:
            change(update)
    except (ValueError, importlib.import_module("pyiceberg.exceptions").ValidationError):
        return False
    return True


def step(table: Any, what: str, *names: str) -> None:
    types = importlib.import_module("pyiceberg.types")
    text = types.StringType()
    first, last = (*names, *names, "", "")[:2]
    changes = {
        "add": lambda update: update.add_column(first, text),
        "add struct": lambda update: update.add_column(
            first, types.StructType(types.NestedField(1, "a", text), types.NestedField(2, "b", text))
        ),
        "delete": lambda update: update.delete_column(first),
        "rename": lambda update: update.rename_column(first, last),
        "add within": lambda update: update.add_column((first, last), text),
        "delete within": lambda update: update.delete_column((first, last)),
        "rename within": lambda update: update.rename_column((first, last), last + "x"),
    }
    if what in changes:
        changed(table, changes[what])
        return
    schema = table.schema().as_arrow()
    row: dict[str, Any] = {"text": str(len(table.snapshots()))}
    for column in schema:
        if column.name != "text":
            within = (
                {child.name: f"{column.name}.{child.name}" for child in column.type} if column.type.num_fields else None
            )
            row[column.name] = column.name if within is None else within
    table.append(pa.Table.from_pylist([row], schema=pa.schema([(one.name, one.type) for one in schema])))


@settings(max_examples=12)
@given(CHANGES)
@example([("add", "a"), ("append",), ("delete", "a"), ("add", "a"), ("append",)])
@example([("add", "a"), ("add", "b"), ("append",), ("rename", "a", "c"), ("rename", "b", "a"), ("append",)])
@example([("add struct", "a"), ("append",), ("rename within", "a", "b"), ("add within", "a", "b"), ("append",)])
@example(
    [
        ("add struct", "a"),
        ("append",),
        ("delete within", "a", "a"),
        ("add within", "a", "a"),
        ("delete within", "a", "b"),
    ]
)
def test_a_table_of_iceberg_has_the_columns_of_its_schema_whatever_was_changed(changes: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        place = Place("iceberg", Path(folder))
        schema = importlib.import_module("pyiceberg.schema").Schema
        types = importlib.import_module("pyiceberg.types")
        with importlib.import_module("pyiceberg.catalog").load_catalog(**place.settings["catalog"]) as catalog:
            catalog.create_table(place.path, schema(types.NestedField(1, "text", types.StringType())))
        for change in [("append",), *changes]:
            with place.iceberg() as table:
                step(table, *change)
        with place.iceberg() as table:
            wanted = table.scan().to_arrow().sort_by("text")
        read = place.rows().sort_by("text")
        assert read.to_pylist() == wanted.to_pylist()
        name = wanted.column_names[-1]
        assert place.rows(fields=[name])[name].to_pylist() == place.rows()[name].to_pylist()


def test_a_column_that_was_dropped_does_not_come_back_under_its_name(tmp_path: Path) -> None:
    place = Place("iceberg", tmp_path)
    run(place.writer(), pa.table({"text": ["one"], "lang": ["en"]}))  # files without ids
    with place.iceberg() as table:
        assert changed(table, lambda update: update.delete_column("lang"))
    assert place.rows().to_pylist() == [{"text": "one"}]
    with place.iceberg() as table:
        assert changed(
            table, lambda update: update.add_column("lang", importlib.import_module("pyiceberg.types").StringType())
        )
    run(place.writer(mode="append"), pa.table({"text": ["two"], "lang": ["de"]}))
    assert place.rows().sort_by("text").to_pylist() == [{"text": "one", "lang": None}, {"text": "two", "lang": "de"}]
    assert set(place.rows(fields=["lang"])["lang"].to_pylist()) == {None, "de"}  # files of two runs have no order
    with place.iceberg() as table:
        assert changed(table, lambda update: update.rename_column("text", "body"))
    assert place.rows().sort_by("body").to_pylist() == [{"body": "one", "lang": None}, {"body": "two", "lang": "de"}]


def test_a_file_of_which_nothing_says_whose_columns_it_has_is_refused(tmp_path: Path) -> None:
    place = Place("iceberg", tmp_path)
    run(place.writer(), pa.table({"text": ["one"], "lang": ["en"]}))
    with place.iceberg() as table:
        assert changed(table, lambda update: update.delete_column("lang"))
        assert changed(
            table, lambda update: update.add_column("lang", importlib.import_module("pyiceberg.types").StringType())
        )
        first = table.snapshots()[0].snapshot_id
        run(place.writer(mode="append"), words("two"))
        table.refresh().maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(DataError, match="has had several columns 'lang'; rewrite the file with a library of Iceberg"):
        place.rows()
    assert place.rows(fields=["text"]).num_rows == 2


@pytest.mark.parametrize("transform", ["day", "month", "bucket[4]", "truncate[2]", "identity"])
def test_partitions_of_iceberg_add_no_columns(transform: str, tmp_path: Path) -> None:
    place = Place("iceberg", tmp_path)
    named = {
        name: importlib.import_module(f"pyiceberg.{name}") for name in ("schema", "types", "partitioning", "manifest")
    }
    types, of = named["types"], importlib.import_module("pyiceberg.transforms").parse_transform
    schema = named["schema"].Schema(
        types.NestedField(1, "at", types.TimestampType()), types.NestedField(2, "text", types.StringType())
    )
    source = 1 if transform in ("day", "month") else 2
    spec = named["partitioning"].PartitionSpec(
        named["partitioning"].PartitionField(source, 1000, of(transform), "part")
    )
    rows = pa.table(
        {"at": pa.array([WHEN], pa.timestamp("us")), "text": ["zwölf"]},
        schema=pa.schema([pa.field(one.name, one.type, metadata=one.metadata) for one in schema.as_arrow()]),
    )
    value = {"day": 19849, "month": 652, "bucket[4]": 3, "truncate[2]": "zw", "identity": "zwölf"}[transform]
    with importlib.import_module("pyiceberg.catalog").load_catalog(**place.settings["catalog"]) as catalog:
        table = catalog.create_table(place.path, schema, partition_spec=spec)
        path = Path(table.location().removeprefix("file://")) / "data" / f"part={value}" / "a.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(rows, path)
        file = named["manifest"].DataFile.from_args(
            content=named["manifest"].DataFileContent.DATA,
            file_path=f"file://{path}",
            file_format="PARQUET",
            partition=importlib.import_module("pyiceberg.typedef").Record(value),
            record_count=1,
            file_size_in_bytes=path.stat().st_size,
        )
        file.spec_id = table.spec().spec_id
        with table.transaction() as work, work.update_snapshot().fast_append() as append:
            append.append_data_file(file)
    assert place.rows().to_pylist() == [{"at": WHEN, "text": "zwölf"}]
    with pytest.raises(
        DataError, match=r"is partitioned by .*(which is not written here|give partition_cols=\['text'\])"
    ):
        run(place.writer(mode="append"), words("a"))


def test_a_column_that_is_only_in_the_partition_has_its_value(tmp_path: Path) -> None:
    place = Place("iceberg", tmp_path)
    types = importlib.import_module("pyiceberg.types")
    manifest, partitioning = (importlib.import_module(f"pyiceberg.{name}") for name in ("manifest", "partitioning"))
    schema = importlib.import_module("pyiceberg.schema").Schema(
        types.NestedField(1, "day", types.DateType()), types.NestedField(2, "text", types.StringType())
    )
    identity = importlib.import_module("pyiceberg.transforms").IdentityTransform()
    with importlib.import_module("pyiceberg.catalog").load_catalog(**place.settings["catalog"]) as catalog:
        spec = partitioning.PartitionSpec(partitioning.PartitionField(1, 1000, identity, "d"))
        table = catalog.create_table(place.path, schema, partition_spec=spec)
        path = Path(table.location().removeprefix("file://")) / "a.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(
            pa.table(
                {"text": ["a"]}, schema=pa.schema([pa.field("text", pa.string(), metadata={"PARQUET:field_id": "2"})])
            ),
            path,
        )
        file = manifest.DataFile.from_args(
            content=manifest.DataFileContent.DATA,
            file_path=f"file://{path}",
            file_format="PARQUET",
            partition=importlib.import_module("pyiceberg.typedef").Record(19849),
            record_count=1,
            file_size_in_bytes=path.stat().st_size,
        )
        file.spec_id = table.spec().spec_id
        with table.transaction() as work, work.update_snapshot().fast_append() as append:
            append.append_data_file(file)
    assert place.rows().to_pylist() == [{"day": WHEN.date(), "text": "a"}]


#: Columns that must not be null, and rows of which one is.
REQUIRED: dict[str, tuple[pa.Field, list[Any]]] = {
    "id": (pa.field("id", pa.int64(), nullable=False), [1, None]),
    "at.id": (pa.field("at", pa.struct([pa.field("id", pa.int64(), nullable=False)])), [{"id": 1}, {"id": None}]),
    "ids": (pa.field("ids", pa.list_(pa.field("element", pa.int64(), nullable=False))), [[1], [2, None]]),
    "map": (
        pa.field("map", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
        [[("a", 1)], [("b", None)]],
    ),
    "deep": (
        pa.field("deep", pa.list_(pa.field("element", pa.struct([pa.field("id", pa.int64(), nullable=False)])))),
        [[{"id": 1}], [{"id": None}]],
    ),
}


def nullable(kind: pa.DataType) -> pa.DataType:
    plain = {"id": pa.int64(), "text": pa.string()}
    if pa.types.is_struct(kind):
        return pa.struct([(child.name, plain[child.name]) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), pa.int64())
    return pa.list_(nullable(kind.value_type)) if pa.types.is_list(kind) else kind


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("what", REQUIRED)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_null_in_a_column_that_must_not_be_null_is_refused(kind: str, what: str, mode: str, tmp_path: Path) -> None:
    place = Place(kind, tmp_path)
    field, values = REQUIRED[what]
    schema = pa.schema([pa.field("text", pa.string()), field])
    if kind == "iceberg":
        with importlib.import_module("pyiceberg.catalog").load_catalog(**place.settings["catalog"]) as catalog:
            catalog.create_table(place.path, schema)
    elif kind == "delta":
        importlib.import_module("deltalake").DeltaTable.create(place.path, schema)
    else:
        importlib.import_module("lance").write_dataset(schema.empty_table(), place.path)
    good, bad = (pa.table({"text": ["a"], field.name: pa.array([value], nullable(field.type))}) for value in values)
    with pytest.raises(
        DataError, match=f"column '{what.partition('.')[0]}.*is not nullable, and a row has no value for it"
    ):
        run(place.writer(mode=mode), pa.concat_tables([good, bad]))
    run(place.writer(mode=mode), good)
    assert place.rows().select(good.column_names).to_pylist() == good.to_pylist()
    if what == "id":
        if mode == "overwrite":
            with pytest.raises(DataError, match="column 'id' .* is not nullable"):
                run(place.writer(mode=mode), words("a"))
        with pytest.raises(DataError, match="column 'id' .* is not nullable"):
            run(place.writer(mode="append"), words("a"))


def delta_with(path: str, features: list[str], configuration: dict[str, str], column: dict[str, Any]) -> None:
    """Make a table of Delta Lake whose first commit says more than deltalake can."""
    importlib.import_module("deltalake").write_deltalake(path, pa.table({"id": [1], "text": ["a"]}))
    [log] = Path(path).glob("_delta_log/*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"] = column
            action["metaData"] |= {"configuration": configuration, "schemaString": json.dumps(schema)}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


RULES: dict[str, tuple[list[str], dict[str, str], dict[str, Any]]] = {
    "the CHECK constraint c": (["checkConstraints"], {"delta.constraints.c": "id > 5"}, {}),
    "an invariant of column id": (["invariants"], {}, {"delta.invariants": '{"expression":{"expression":"id > 5"}}'}),
    "a generated value of column id": (["generatedColumns"], {}, {"delta.generationExpression": "1"}),
    "an identity of column id": (["identityColumns"], {}, {"delta.identity.start": 1, "delta.identity.step": 1}),
    "the table feature rowTracking": (["rowTracking"], {"delta.enableRowTracking": "true"}, {}),
    "the table feature inCommitTimestamp": (["inCommitTimestamp"], {"delta.enableInCommitTimestamps": "true"}, {}),
    "the table feature clustering": (["clustering", "domainMetadata"], {}, {}),
    "the table feature icebergCompatV1": (["icebergCompatV1"], {"delta.enableIcebergCompatV1": "true"}, {}),
    "a default of column id": (["allowColumnDefaults"], {}, {"CURRENT_DEFAULT": "7"}),
    "the table feature of-tomorrow": (["of-tomorrow"], {}, {}),
}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("rule", RULES)
def test_a_table_of_delta_with_rules_that_are_not_applied_is_refused_before_a_row_is_written(
    rule: str, mode: str, tmp_path: Path
) -> None:
    place = Place("delta", tmp_path)
    delta_with(place.path, *RULES[rule])
    with pytest.raises(DataError, match=f"Delta Lake with .*{rule}.*, which is not applied to rows here"):
        run(place.writer(mode=mode), pa.table({"id": [2], "text": ["b"]}))
    assert [path.name for path in Path(place.path).glob("*.parquet")] == [
        path.name for path in Path(place.path).glob("part-0*.parquet")
    ]
    assert place.rows().num_rows == 1


@pytest.mark.parametrize("features", [["appendOnly", "invariants"], ["changeDataFeed"], ["checkConstraints"]])
def test_features_without_rules_are_kept_to(features: list[str], tmp_path: Path) -> None:
    place = Place("delta", tmp_path)
    delta_with(place.path, features, {"delta.appendOnly": str("appendOnly" in features).lower()}, {})
    run(place.writer(mode="append"), pa.table({"id": [2], "text": ["b"]}))
    assert sorted(place.rows()["text"].to_pylist()) == ["a", "b"]
    if "appendOnly" in features:
        with pytest.raises(DataError, match="is append-only .*; give mode='append'"):
            run(place.writer(mode="overwrite"), words("c"))


def test_a_commit_that_the_library_refuses_is_not_called_a_conflict(tmp_path: Path) -> None:
    place = Place("delta", tmp_path)
    run(place.writer(), words("a"))
    writer = place.writer(mode="append")
    table = writer._table()
    file = pa.table({"text": ["b"]})
    commit = importlib.import_module("dcurate.io.lakehouse.table").Commit("run", 1, [], file.schema, True, 0)
    delta = importlib.import_module("deltalake").DeltaTable(place.path)
    delta.alter.set_table_properties({"delta.appendOnly": "true"})
    commit = importlib.import_module("dataclasses").replace(commit, base=1)
    with pytest.raises(DataError, match="Delta Lake refuses the commit to .*append-only"):
        table.commit(commit)


def test_values_of_partitions_of_delta_are_those_of_the_log(tmp_path: Path) -> None:
    place = Place("delta", tmp_path / "a b")
    (tmp_path / "a b").mkdir()
    days = ["1", None, "a b", "x%y", "ü", "a/b", "__HIVE_DEFAULT_PARTITION__x"]
    rows = pa.table({"day": days, "text": list("abcdefg")})
    importlib.import_module("deltalake").write_deltalake(place.path, rows, partition_by=["day"])
    assert place.rows().sort_by("text").select(["day", "text"]).to_pylist() == rows.to_pylist()
    read = Pipeline("read", stages=[ParquetReader(place.path)]).run(InlineExecutor(), observers=[])
    assert sorted(read.to_arrow()["text"].to_pylist()) == list("abcdefg")
    [log] = Path(place.path).glob("_delta_log/*.json")
    # Some writers put files into folders of random names.
    for folder in list(Path(place.path).glob("day=*")):
        name = f"random{len(list(Path(place.path).glob('random*')))}"
        from_, into = importlib.import_module("urllib.parse").quote(folder.name, safe="="), name
        log.write_text(log.read_text().replace(f'"{from_}/', f'"{into}/'))
        folder.rename(folder.with_name(name))
    assert place.rows().sort_by("text").select(["day", "text"]).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("values", [[7], [7.5], [True]], ids=str)
def test_text_is_not_appended_to_a_column_of_numbers(kind: str, values: list[Any], tmp_path: Path) -> None:
    place = Place(kind, tmp_path)
    run(place.writer(), pa.table({"n": values}))
    with pytest.raises(DataError, match="'n' is string in the rows, and .* in table .*, which has no text; change the"):
        run(place.writer(mode="append"), pa.table({"n": ["007"]}))
    assert place.rows()["n"].to_pylist() == values

"""What a Parquet file says of its columns and rows reaches the files that are written of it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    DataError,
    DocumentBatch,
    DocumentReader,
    ExactDuplicates,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Modify,
    ParquetReader,
    ParquetWriter,
    Pipeline,
    ProcessingStage,
    ScoreFilter,
)
from dcurate.datasets import Blend, Rebatch, Shuffle
from dcurate.frames.schema import NOTE, without
from dcurate.io.parquet_schema import unpacked
from dcurate.text import DocumentFilter, UnicodeReformatter, WordCountFilter
from tests.places import is_data

WORDS = pa.dictionary(pa.int8(), pa.string())


def kinds() -> dict[str, pa.Array]:
    """A column of each kind that pyarrow reads as it writes it; three rows, the last null where it can be."""
    tensor = pa.fixed_shape_tensor(pa.float32(), [2])
    tensors = pa.array([[1, 2], [3, 4], None], pa.list_(pa.float32(), 2))
    zoned = pa.timestamp("us", "Europe/Berlin")
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    inner = pa.struct([pa.field("a", pa.int16(), nullable=False, metadata={"unit": "m"}), pa.field("b", WORDS)])
    return {
        "dictionary": pa.array(["x", "y", None]).dictionary_encode().cast(WORDS),
        "ordered": pa.DictionaryArray.from_arrays(
            pa.array([2, 0, None], pa.int8()), ["low", "mid", "high"], ordered=True
        ),
        "dictionary_binary": pa.array([b"x", b"\xff", None]).dictionary_encode(),
        "view": pa.array(["x", "y", None], pa.string_view()),
        "binary_view": pa.array([b"x", b"\xff", None], pa.binary_view()),
        "large_string": pa.array(["x", "y", None], pa.large_string()),
        "large_binary": pa.array([b"x", b"y", None], pa.large_binary()),
        "fixed_binary": pa.array([b"xx", b"yy", None], pa.binary(2)),
        "narrow": pa.array([1, -128, None], pa.int8()),
        "unsigned": pa.array([1, 2**64 - 1, None], pa.uint64()),
        "float": pa.array([1.5, float("inf"), None], pa.float32()),
        "half": pa.array(np.array([1, 2, 3], np.float16)),
        "decimal": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-2.25"), None], pa.decimal128(12, 2)),
        "wide_decimal": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-2.25"), None], pa.decimal256(50, 2)),
        "zoned": pa.array([moment, moment, None], zoned),
        "nanoseconds": pa.array([1, 2, None], pa.timestamp("ns")),
        "date": pa.array([dt.date(2024, 1, 2), None, None]),
        "time": pa.array([1, 2, None], pa.time64("ns")),
        "duration": pa.array([1, 2, None], pa.duration("ms")),
        "nothing": pa.nulls(3),
        "list": pa.array([["x"], [], None], pa.list_(pa.field("element", pa.string(), nullable=False))),
        "large_list": pa.array([[1], [], None], pa.large_list(pa.int8())),
        "list_of_dictionary": pa.array([["x", None], [], None]).cast(pa.list_(WORDS)),
        "list_of_view": pa.array([["x", None], [], None]).cast(pa.list_(pa.string_view())),
        "struct": pa.StructArray.from_arrays(
            [pa.array([1, 2, 3], pa.int16()), pa.array(["x", None, "y"]).dictionary_encode().cast(WORDS)],
            fields=list(inner),
        ),
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        "map_of_dictionary": pa.array([[("k", "x")], [], None], pa.map_(pa.string(), pa.string())).cast(
            pa.map_(pa.string(), WORDS)
        ),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16, None], pa.binary(16))),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', "[]", None])),
        "tensor": pa.ExtensionArray.from_storage(tensor, tensors),
    }


def is_written(column: pa.Array) -> bool:
    """Whether this version of pyarrow writes and reads a column: not all of them know views, or null tensors."""
    file = BytesIO()
    try:
        pq.write_table(pa.table({"column": column}), file, row_group_size=1)
        pq.ParquetFile(file).read_row_group(len(column) - 1)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


#: Types that only some versions of pyarrow write.
VIEWS = [kind for kind in (pa.string_view(), pa.binary_view()) if is_written(pa.nulls(2, kind))]
needs_views = pytest.mark.skipif(not VIEWS, reason="this version of pyarrow writes no views")


def everything(copies: int = 1) -> pa.Table:
    """A table of all kinds of columns, with metadata of its own and of each column."""
    columns = {name: column for name, column in kinds().items() if is_written(column)}
    fields = [
        pa.field(
            name,
            column.type,
            nullable=name != "half",
            metadata={"about": f"the column {name}", "PARQUET:field_id": str(place)},
        )
        for place, (name, column) in enumerate(columns.items(), 1)
    ]
    table = pa.Table.from_arrays(
        list(columns.values()), schema=pa.schema(fields, {"licence": "CC0", "made by": "hand"})
    )
    rows = pa.concat_tables([table] * copies)
    number = pa.array(range(rows.num_rows))
    text = pa.array([f"text of row {place} and some more words" for place in range(rows.num_rows)])
    return rows.append_column("n", number).append_column("text", text)


def save(table: pa.Table, path: Path, **settings: Any) -> pa.Table:
    """Write a table, and return what pyarrow reads of it: some types change as it writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **settings)
    return load(path)


def load(path: Path | str) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return pa.concat_tables([file.read_row_group(number) for number in range(file.num_row_groups)])


def run(*stages: Any, **settings: Any) -> Any:
    return Pipeline("kept", stages=stages).run(InlineExecutor(), observers=[], **settings)


def written(folder: Path) -> list[pa.Table]:
    return [load(path) for path in sorted(folder.rglob("*.parquet")) if is_data(path)]


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """The rows, with their maps and times in forms that are equal if they are."""
    return [{name: repr(value) for name, value in row.items()} for row in table.to_pylist()]


def assert_kept(folder: Path, before: pa.Table, first: int = 0) -> None:
    """The files hold the rows of a table from one on, by the column ``n``, with its schema and metadata."""
    tables = written(folder)
    for table in tables:
        assert table.schema.equals(before.schema, check_metadata=True), f"{table.schema}\n\n{before.schema}"
    found = {row["n"]: row for table in tables for row in plain(table)}
    wanted = {row["n"]: row for row in plain(before.slice(first))}
    assert found == wanted
    assert sum(table.num_rows for table in tables) == len(wanted)


class Pandas(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage that reads rows as pandas, and keeps some."""

    name = "pandas"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        frame = task.to_pandas()
        assert frame["dictionary"].str.upper().fillna("another").tolist()[0] == "X"
        return task.with_data(frame[frame.n > 1])


_VIEW: Any = (lambda: [ScoreFilter(WordCountFilter(min_words=0), text_field="view")], {}, 0)
#: Stages, the settings of the writer, and the number of the first row that is kept.
ROUTES: dict[str, tuple[Callable[[], list[Any]], dict[str, Any], int]] = {
    "reading and writing alone": (lambda: [], {}, 0),
    "a filter": (lambda: [ScoreFilter(WordCountFilter(min_words=1), text_field="text")], {}, 0),
    "a filter of a dictionary": (lambda: [ScoreFilter(WordCountFilter(min_words=0), text_field="dictionary")], {}, 0),
    **({"a filter of a view": _VIEW} if VIEWS else {}),
    "pandas": (lambda: [Pandas()], {}, 2),
    "batches of one size": (lambda: [Rebatch(rows=7)], {}, 0),
    "a shuffle": (lambda: [Shuffle(seed=1, npartitions=3)], {}, 0),
    "exact duplicates": (lambda: [ExactDuplicates()], {}, 0),
    "near-duplicates": (lambda: [FuzzyDuplicates(threshold=0.99)], {}, 0),
    "files of few rows": (lambda: [], {"max_rows_per_file": 4}, 0),
}


@pytest.mark.parametrize("route", ROUTES)
def test_columns_of_every_kind_go_through_unchanged(route: str, tmp_path: Path) -> None:
    stages, options, first = ROUTES[route]
    before = save(everything(4), tmp_path / "in" / "a.parquet", row_group_size=5)
    run(ParquetReader(str(tmp_path / "in")), *stages(), ParquetWriter(str(tmp_path / "out"), **options))
    assert_kept(tmp_path / "out", before, first)


@pytest.mark.parametrize("column", ["dictionary", "ordered", pytest.param("view", marks=needs_views)])
def test_folders_for_the_values_of_a_column(column: str, tmp_path: Path) -> None:
    before = save(everything(2), tmp_path / "in" / "a.parquet")
    run(ParquetReader(str(tmp_path / "in")), ParquetWriter(str(tmp_path / "out"), separate_by=column))
    assert len(list((tmp_path / "out").glob("*/*.parquet"))) == 3
    tables = written(tmp_path / "out")
    assert {row["n"] for table in tables for row in plain(table)} == {row["n"] for row in plain(before)}
    assert all(table.schema.equals(before.schema, check_metadata=True) for table in tables)
    run(ParquetReader(str(tmp_path / "in")), ParquetWriter(str(tmp_path / "hive"), partition_cols=[column]))
    left = before.schema.remove(before.schema.get_field_index(column))
    assert all(table.schema.equals(left, check_metadata=True) for table in written(tmp_path / "hive"))


def test_a_blend_of_files_keeps_what_they_agree_on(tmp_path: Path) -> None:
    before = save(everything(2), tmp_path / "a" / "a.parquet")
    other = before.replace_schema_metadata({"licence": "CC0", "made by": "machine"})
    save(other, tmp_path / "b" / "b.parquet")
    blend = Blend(12, [ParquetReader(str(tmp_path / name)) for name in "ab"], [0.5, 0.5], npartitions=1)
    run(blend, ParquetWriter(str(tmp_path / "out")))
    (table,) = written(tmp_path / "out")
    assert table.schema.equals(before.schema)
    assert [field.metadata for field in table.schema] == [field.metadata for field in before.schema]
    assert table.schema.metadata == {b"licence": b"CC0"}


def test_a_run_that_is_resumed_keeps_the_same(tmp_path: Path) -> None:
    before = save(everything(2), tmp_path / "in" / "a.parquet")
    later = before.slice(3).set_column(before.num_columns - 2, "n", pa.array([13, 14, 15]))
    stages = [
        ParquetReader(str(tmp_path / "in")),
        ScoreFilter(WordCountFilter(min_words=1)),
        ParquetWriter(str(tmp_path / "out")),
    ]
    run(*stages)
    save(later, tmp_path / "in" / "b.parquet")
    run(*stages, resume=True)
    first, second = written(tmp_path / "out")
    assert first.schema.equals(before.schema, check_metadata=True)
    assert second.schema.equals(before.schema, check_metadata=True)
    assert first.num_rows + second.num_rows == 9


@needs_views
def test_dictionaries_and_views_are_text_in_json_and_among_rejected_rows(tmp_path: Path) -> None:
    columns = ["n", "dictionary", "ordered", "view", "list_of_dictionary", "list_of_view"]
    before = save(everything().select(columns), tmp_path / "in" / "a.parquet")
    reader = ParquetReader(str(tmp_path / "in"))
    wanted = before.to_pylist()
    run(reader, JsonlWriter(str(tmp_path / "out")))
    [batch] = run(JsonlReader(str(tmp_path / "out")))
    assert batch.to_arrow().to_pylist() == wanted
    run(
        reader,
        ScoreFilter(WordCountFilter(min_words=9), text_field="dictionary"),
        JsonlWriter(str(tmp_path / "none")),
        rejected=str(tmp_path / "rejected"),
    )
    [batch] = run(JsonlReader(str(tmp_path / "rejected")))
    assert batch.to_arrow().select(columns).to_pylist() == wanted


@needs_views
def test_views_within_structs_become_text_because_pyarrow_writes_them_in_one_row_group_only(tmp_path: Path) -> None:
    rows = [{"x": "y"}, {"x": None}, None]
    save(pa.table({"l": pa.array(rows).cast(pa.struct({"x": pa.string_view()}))}), tmp_path / "in" / "a.parquet")
    writer = ParquetWriter(str(tmp_path / "out"), write_kwargs={"row_group_size": 1})
    run(ParquetReader(str(tmp_path / "in")), writer)
    [table] = written(tmp_path / "out")
    assert table.schema.field("l").type == pa.struct({"x": pa.string()})
    assert table["l"].to_pylist() == rows


def test_what_pyarrow_cannot_make_a_dictionary_of_stays_text(tmp_path: Path) -> None:
    kind = pa.struct({"x": WORDS, "y": pa.list_(pa.null())})
    rows = [{"x": "a", "y": []}, {"x": "b", "y": [None, None]}]
    save(pa.table({"s": pa.array(rows, without(kind, "encoding")).cast(kind)}), tmp_path / "in" / "a.parquet")
    writer = ParquetWriter(str(tmp_path / "out"), max_rows_per_file=1)
    run(ParquetReader(str(tmp_path / "in")), writer)
    assert sorted(row["s"]["x"] for table in written(tmp_path / "out") for row in table.to_pylist()) == ["a", "b"]


def test_a_column_that_a_stage_changes_is_plain_and_undescribed(tmp_path: Path) -> None:
    before = save(everything(), tmp_path / "in" / "a.parquet")
    stage = Modify(UnicodeReformatter(), input_fields="dictionary")
    run(ParquetReader(str(tmp_path / "in")), stage, ParquetWriter(str(tmp_path / "out")))
    (table,) = written(tmp_path / "out")
    assert table.schema.field("dictionary").type == pa.string()
    assert table.schema.field("dictionary").metadata is None
    others = [name for name in before.column_names if name != "dictionary"]
    assert table.select(others).schema.equals(before.select(others).schema, check_metadata=True)


def test_no_text_of_a_dropped_row_is_left_in_a_dictionary(tmp_path: Path) -> None:
    secret = [f"secret {number}" for number in range(20_000)]
    for values in (["secret", "public", "secret"], ["public", *secret]):
        folder = tmp_path / str(len(values))
        save(pa.table({"text": pa.array(values).dictionary_encode()}), folder / "in" / "a.parquet")
        keep = ScoreFilter(Public(), text_field="text")
        run(ParquetReader(str(folder / "in")), keep, ParquetWriter(str(folder / "out"), compression="none"))
        [path] = (folder / "out").glob("*.parquet")
        assert load(path)["text"].combine_chunks().equals(pa.array(["public"]).dictionary_encode())
        assert b"secret" not in path.read_bytes()


#: Stages, and settings of the writer; each works with the values of rows in a way of its own.
FAR_ROUTES: dict[str, tuple[Callable[[], list[Any]], dict[str, Any]]] = {
    "a filter": (lambda: [ScoreFilter(WordCountFilter(min_words=2), text_field="text")], {}),
    "pandas": (lambda: [Changed(lambda frame: frame)], {}),
    "a shuffle": (lambda: [Shuffle(seed=1, npartitions=3)], {}),
    "exact duplicates": (lambda: [ExactDuplicates()], {}),
    "folders by the date": (lambda: [], {"separate_by": "day"}),
    "directories by the moment": (lambda: [], {"partition_cols": ["another"]}),
}


@pytest.mark.parametrize("route", FAR_ROUTES)
def test_dates_and_times_that_python_does_not_have_go_through_unchanged(route: str, tmp_path: Path) -> None:
    far = pa.array([2**62, -(2**62), None], pa.timestamp("us"))
    table = pa.table(
        {
            "text": ["one two", "three four", "five"],
            "day": pa.array([2**31 - 1, 0, None], pa.date32()),
            "moment": far,
            "another": far,
            "moments": pa.array([[2**62], [0], None], pa.list_(pa.timestamp("us", "UTC"))),
            "n": [0, 1, 2],
        }
    )
    before = save(table, tmp_path / "in" / "a.parquet")
    stages, settings = FAR_ROUTES[route]
    reader, writer = ParquetReader(str(tmp_path / "in")), ParquetWriter(str(tmp_path / "out"), **settings)
    run(reader, *stages(), writer, rejected=str(tmp_path / "rejected"))
    kept = pa.concat_tables(written(tmp_path / "out")).sort_by("n")
    assert kept.equals(before.select(kept.column_names).slice(0, 2 if route == "a filter" else 3))
    rejected = [line for path in (tmp_path / "rejected").glob("*.jsonl") for line in path.read_bytes().splitlines()]
    assert kept.num_rows + len(rejected) == table.num_rows


def test_dates_that_json_does_not_have_are_refused_in_a_sentence_and_kept_among_rejected_rows(tmp_path: Path) -> None:
    save(pa.table({"text": ["one"], "day": pa.array([2**31 - 1], pa.date32())}), tmp_path / "a.parquet")
    reader = ParquetReader(str(tmp_path / "a.parquet"))
    with pytest.raises(DataError, match="a value of date32\\[day\\] is outside of the years 1 to 9999"):
        run(reader, JsonlWriter(str(tmp_path / "out")))
    keep = ScoreFilter(WordCountFilter(min_words=2), text_field="text")
    run(reader, keep, ParquetWriter(str(tmp_path / "kept")), rejected=str(tmp_path / "rejected"))
    [path] = (tmp_path / "rejected").glob("*.jsonl")
    assert json.loads(path.read_bytes())["day"] == "<value out of range: 2147483647>"


@dataclass
class Changed(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage that gives another frame."""

    change: Callable[[pd.DataFrame], pd.DataFrame]
    name: str = "changed"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(self.change(task.to_pandas()))


CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "nothing": lambda frame: frame,
    "fewer rows": lambda frame: frame[frame.n > 0],
    "another order": lambda frame: frame.sort_values("n", ascending=False),
    "rows with a fresh index": lambda frame: frame[frame.n > 0].reset_index(drop=True),
    "another column": lambda frame: frame.assign(words=frame.text.str.len()),
    "a changed column": lambda frame: frame.assign(changed=[0.5, np.nan, 1.0]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nan_and_null_and_types_that_pandas_does_not_have_are_kept(change: str, tmp_path: Path) -> None:
    nan = float("nan")
    columns: dict[str, Any] = {
        "text": ["a", "b", "c"],
        "nan": [nan, 1.0, nan],
        "both": pa.array([None, nan, 1.0], pa.float32()),
        "half": pa.array(np.array([1, nan, 2], np.float16)),
        "list": [[nan, None], None, [1.0]],
        "struct": [{"x": nan, "y": 1}, {"x": None, "y": 2}, None],
        "map": pa.array([[("k", nan)], [("k", None)], None], pa.map_(pa.string(), pa.float64())),
        "view": pa.array([["x"], [], None], pa.list_view(pa.string())),
        "flag": pa.array([1, 0, None], pa.int8()).cast(pa.bool8()),
        "ids": pa.array([[b"0" * 16], [], None], pa.list_(pa.binary(16))).cast(pa.list_(pa.uuid())),
        "changed": [nan, nan, None],
        "n": [0, 1, 2],
    }
    table = pa.table({name: column for name, column in columns.items() if is_written(pa.array(column))})
    before = save(table, tmp_path / "in" / "a.parquet")
    reader, writer = ParquetReader(str(tmp_path / "in")), ParquetWriter(str(tmp_path / "out"))
    run(reader, Changed(CHANGES[change]), writer)
    after = pa.concat_tables(written(tmp_path / "out"))
    if change == "a changed column":
        assert after["changed"].to_pylist() == [0.5, None, 1.0]
        before, after = before.drop_columns("changed"), after.drop_columns("changed")
    wanted = {row["n"]: row for row in plain(before)}
    assert plain(after.select(before.column_names)) == [wanted[row["n"]] for row in plain(after.select(["n"]))]
    assert after.select(before.column_names).schema.equals(before.schema)


class Public(DocumentFilter):
    """Keeps public texts."""

    def score_document(self, text: str) -> float:
        return float(text == "public")

    def keep_document(self, score: float) -> bool:
        return score > 0


# Laws over any schema.


def scalars(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type."""
    is_ = pa.types
    if is_.is_dictionary(kind):
        return scalars(kind.value_type)
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return st.text(max_size=3)
    if is_.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if is_.is_binary(kind) or is_.is_binary_view(kind):
        return st.binary(max_size=3)
    if is_.is_boolean(kind):
        return st.booleans()
    if is_.is_floating(kind):
        return st.floats(width=32, allow_nan=False)
    if is_.is_decimal(kind):
        return st.decimals(-999, 999, places=2)
    if is_.is_null(kind):
        return st.none()
    if is_.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field) for field in kind})
    if is_.is_map(kind):
        pairs = st.tuples(scalars(kind.key_type), values(kind.item_field))
        return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    if is_.is_list(kind) or is_.is_large_list(kind):
        return st.lists(values(kind.value_field), max_size=3)
    return st.integers(0, 100)  # integers, dates, times


def values(field: pa.Field) -> st.SearchStrategy[Any]:
    return st.none() | scalars(field.type) if field.nullable else scalars(field.type)


LEAVES = st.sampled_from(
    [
        *(pa.string(), pa.large_string(), pa.binary(), pa.binary(2)),
        *(pa.int8(), pa.uint32(), pa.int64(), pa.bool_(), pa.float32(), pa.float64(), pa.decimal128(5, 2)),
        *(pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ns"), pa.date32(), pa.time64("us"), pa.duration("s")),
        *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.string()), WORDS),
    ]
)
PAIRS = st.dictionaries(st.sampled_from(["a", "b", "unit"]), st.text(max_size=3), max_size=2)


def inner(kinds: st.SearchStrategy[pa.DataType], name: str) -> st.SearchStrategy[pa.Field]:
    # Nulls are left out of what is no null: pyarrow 26 reads a struct of these wrongly where it is null itself.
    return st.builds(lambda kind: pa.field(name, kind), kinds)


KINDS = st.recursive(
    LEAVES,
    lambda kinds: st.one_of(
        st.builds(pa.list_, inner(kinds, "element")),
        st.builds(pa.large_list, inner(kinds, "element")),
        st.builds(lambda *fields: pa.struct(fields), inner(kinds, "x"), inner(kinds, "y")),
        st.builds(pa.map_, st.sampled_from([pa.string(), pa.int16()]), kinds),
    ),
    max_leaves=3,
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of any schema, with metadata and columns that hold no null."""
    rows = draw(st.integers(1, 6))
    fields, columns = [], []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(KINDS | st.sampled_from([*VIEWS, pa.null()]))
        nullable = pa.types.is_null(kind) or draw(st.booleans())
        field = pa.field(f"c{number}", kind, nullable, draw(PAIRS) or None)
        content = draw(st.lists(values(field), min_size=rows, max_size=rows))
        columns.append(made(content, kind))
        fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, draw(PAIRS) or None))


def made(content: list[Any], kind: pa.DataType) -> pa.Array:
    """An array of a type, of which pyarrow cannot make dictionaries within maps, or of lists."""
    flat = pa.array(content, without(kind, "encoding"))
    return flat if flat.type == kind else flat.cast(kind)


@given(
    table=tables(),
    size=st.integers(1, 4),
    most=st.integers(1, 4) | st.none(),
    mask=st.lists(st.booleans(), min_size=6),
    dictionary=st.booleans(),
)
def test_any_filter_gives_some_of_the_rows_and_all_of_the_schema(
    table: pa.Table, size: int, most: int | None, mask: list[bool], dictionary: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = save(table, folder / "a.parquet", row_group_size=size, use_dictionary=dictionary)
        reader, writer = ParquetReader(str(folder / "a.parquet")), ParquetWriter(name + "/out", max_rows_per_file=most)
        writer.prepare(resume=False)
        [split] = reader.splits()
        read = reader.process(split)
        for number, kept in enumerate(([True] * table.num_rows, mask[: table.num_rows])):
            batch = read.keep(np.array(kept), "stage", "reason")
            group = writer.process(replace(batch, key=BatchKey(str(number))))
            made = [load(path) for path in group.data]
            assert all(each.schema.equals(before.schema, check_metadata=True) for each in made)
            wanted = [row for row, keep in zip(plain(before), kept, strict=True) if keep]
            assert [row for each in made for row in plain(each)] == wanted


# Files that differ.


def read_all(folder: Path, **settings: Any) -> pa.Table:
    [batch] = run(ParquetReader(str(folder), files_per_partition=9, **settings))
    return batch.to_arrow()


def both(tmp_path: Path, one: pa.Table, other: pa.Table) -> pa.Table:
    """What is written of two files that one split holds."""
    save(one, tmp_path / "in" / "a.parquet")
    save(other, tmp_path / "in" / "b.parquet")
    run(ParquetReader(str(tmp_path / "in"), files_per_partition=2), ParquetWriter(str(tmp_path / "out")))
    [table] = written(tmp_path / "out")
    return table


def test_maps_of_several_types_and_with_sorted_keys_are_maps_of_their_common_type(tmp_path: Path) -> None:
    pairs = [[("k", 1), ("l", 2)], [], None]
    one = pa.map_(pa.string(), pa.int32(), keys_sorted=True)
    table = both(tmp_path, pa.table({"m": pa.array(pairs, one)}), pa.table({"m": pa.array(pairs, one)}))
    assert table["m"].to_pylist() == pairs * 2
    folder = tmp_path / "wider"
    table = both(
        folder, pa.table({"m": pa.array(pairs, one)}), pa.table({"m": pa.array(pairs, pa.map_("string", "int64"))})
    )
    assert table.schema.field("m").type == pa.map_(pa.string(), pa.int64())
    assert table["m"].to_pylist() == pairs * 2


def test_files_with_a_dictionary_and_with_text_become_text(tmp_path: Path) -> None:
    words = pa.array(["x", "y", None])
    table = both(tmp_path, pa.table({"w": words.dictionary_encode()}), pa.table({"w": words}))
    assert table.schema.field("w").type == pa.string()
    assert table["w"].to_pylist() == ["x", "y", None] * 2


def test_files_with_different_dictionaries_become_one_dictionary(tmp_path: Path) -> None:
    one, other = (pa.array([f"{name}{number}" for number in range(100)]).dictionary_encode() for name in "ab")
    table = both(tmp_path, pa.table({"w": one}), pa.table({"w": other}))
    assert table.schema.field("w").type == one.type
    assert table["w"].to_pylist() == one.to_pylist() + other.to_pylist()


def test_a_dictionary_whose_numbers_are_too_narrow_becomes_text(tmp_path: Path) -> None:
    one, other = (pa.array([f"{name}{n}" for n in range(100)]).dictionary_encode().cast(WORDS) for name in "ab")
    table = both(tmp_path, pa.table({"w": one}), pa.table({"w": other}))
    assert table.schema.field("w").type == pa.string()
    assert table["w"].to_pylist() == one.to_pylist() + other.to_pylist()


def test_row_groups_of_different_dictionaries_are_read(tmp_path: Path) -> None:
    parts = [pa.array([f"{name}{n}" for n in range(100)]).dictionary_encode().cast(WORDS) for name in "ab"]
    tables = [pa.table({"w": part}) for part in parts]
    (tmp_path / "in").mkdir()
    with pq.ParquetWriter(tmp_path / "in" / "a.parquet", tables[0].schema) as file:
        for table in tables:
            file.write_table(table)
    run(ParquetReader(str(tmp_path / "in")), ParquetWriter(str(tmp_path / "out"), max_rows_per_file=100))
    assert all(table.schema.field("w").type == WORDS for table in written(tmp_path / "out"))
    assert sorted(row["w"] for table in written(tmp_path / "out") for row in table.to_pylist()) == sorted(
        value for part in parts for value in part.to_pylist()
    )


def test_scales_that_differ_are_scales_no_more(tmp_path: Path) -> None:
    scales = (["low", "high"], ["high", "low"])
    one, other = (pa.DictionaryArray.from_arrays(pa.array([0, 1]), scale, ordered=True) for scale in scales)
    table = both(tmp_path, pa.table({"w": one}), pa.table({"w": other}))
    assert not table.schema.field("w").type.ordered
    assert table["w"].to_pylist() == ["low", "high", "high", "low"]


def test_of_metadata_and_fields_what_files_agree_on_is_kept(tmp_path: Path) -> None:
    one = pa.field("n", pa.int64(), nullable=False, metadata={"unit": "m", "by": "A"})
    other = one.with_metadata({"unit": "m", "by": "B"})
    more = pa.field("m", pa.int64(), nullable=False, metadata={"unit": "s"})
    table = both(
        tmp_path,
        pa.table([[1], [2]], pa.schema([one, more], {"licence": "CC0", "by": "A", "only": "A"})),
        pa.table([[3]], pa.schema([other], {"licence": "CC0", "by": "B"})),
    )
    wanted = [one.with_metadata({"unit": "m"}), more.with_nullable(True)]
    assert table.schema.equals(pa.schema(wanted, {"licence": "CC0"}), check_metadata=True)
    assert table.to_pylist() == [{"n": 1, "m": 2}, {"n": 3, "m": None}]


def test_a_type_that_is_given_holds_and_undoes_a_dictionary(tmp_path: Path) -> None:
    save(pa.table({"w": pa.array(["1", "2"]).dictionary_encode()}), tmp_path / "in" / "a.parquet")
    run(ParquetReader(str(tmp_path / "in"), schema={"w": "int64"}), ParquetWriter(str(tmp_path / "out")))
    [table] = written(tmp_path / "out")
    assert (table.schema.field("w").type, table["w"].to_pylist()) == (pa.int64(), [1, 2])


def test_parquet_beside_json_is_read_as_before(tmp_path: Path) -> None:
    save(pa.table({"w": pa.array(["x"]).dictionary_encode()}, metadata={"by": "A"}), tmp_path / "in" / "a.parquet")
    (tmp_path / "in" / "b.jsonl").write_text('{"w": "y"}\n')
    run(DocumentReader(str(tmp_path / "in"), files_per_partition=2), ParquetWriter(str(tmp_path / "out")))
    [table] = written(tmp_path / "out")
    assert table.equals(pa.table({"w": ["x", "y"]}))


# Descriptions for pandas and for datasets.


def frame() -> pd.DataFrame:
    scale = pd.Categorical(["b", "a", "b", "a"], categories=["b", "a", "unused"], ordered=True)
    return pd.DataFrame(
        {
            "text": ["one", "two", "three", None],
            "n": pd.array([1, None, 3, 4], dtype="Int64"),
            "lang": pd.Categorical(["en", "de", "en", "de"]),
            "scale": scale,
            "at": pd.date_range("2024-01-01", periods=4, tz="Europe/Berlin"),
        }
    )


INDEXES: dict[str, Any] = {
    "none": pd.RangeIndex(4),
    "a range": pd.RangeIndex(10, 18, 2, name="r"),
    "text": pd.Index(list("ijkl"), name="key"),
    "unnamed": pd.Index([7, 9, 8, 10]),
    "levels": pd.MultiIndex.from_product([["p", "q"], [1, 2]], names=["letter", "number"]),
}


def through(tmp_path: Path, given: pd.DataFrame, *stages: Any, **reading: Any) -> Path:
    """The file that is written of a frame."""
    (tmp_path / "in").mkdir(parents=True)
    given.to_parquet(tmp_path / "in" / "a.parquet")
    run(ParquetReader(str(tmp_path / "in"), **reading), *stages, ParquetWriter(str(tmp_path / "out")))
    [path] = (tmp_path / "out").glob("*.parquet")
    return path


@pytest.mark.parametrize("index", INDEXES)
def test_a_frame_is_read_back_as_it_was(index: str, tmp_path: Path) -> None:
    given = frame().set_index(INDEXES[index])
    given.attrs["licence"] = "CC0"
    path = through(tmp_path, given)
    assert pq.read_schema(path).equals(pq.read_schema(tmp_path / "in" / "a.parquet"), check_metadata=True)
    found = pd.read_parquet(path)
    pd.testing.assert_frame_equal(found, given)
    assert found.attrs == given.attrs


@pytest.mark.parametrize("index", INDEXES)
def test_a_frame_of_fewer_rows_has_an_index_of_these(index: str, tmp_path: Path) -> None:
    given = frame().set_index(INDEXES[index])
    found = pd.read_parquet(through(tmp_path, given, Alter(lambda table: table.slice(1, 2))))
    left = given.iloc[1:3]
    if index in ("none", "a range"):
        left = left.set_index(pd.RangeIndex(2, name=given.index.name))
    pd.testing.assert_frame_equal(found, left, check_categorical=False)


@dataclass
class Alter(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage of a function of a table."""

    function: Callable[[pa.Table], pa.Table]
    name: str = "alter"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(self.function(task.to_arrow()))


ALTERED: dict[str, tuple[Callable[[pa.Table], pa.Table], dict[str, str]]] = {
    "added": (lambda t: t.append_column("score", pa.array([0.5] * 4)), {"score": "float64"}),
    "dropped": (lambda t: t.drop_columns(["n", "key"]), {}),
    "another type": (lambda t: t.set_column(1, "n", pa.array(["a", "b", "c", "d"])), {"n": "str"}),
    "category of other values": (lambda t: t.set_column(2, "lang", pa.array([1, 2, 3, 4])), {"lang": "int64"}),
    "moments of text": (lambda t: t.set_column(4, "at", pa.array(["x"] * 4)), {"at": "str"}),
    "renamed": (lambda t: t.rename_columns(["text", "number", "lang", "scale", "at", "id"]), {"number": "float64"}),
    "other rows": (lambda t: pa.table({"text": ["x"]}), {"text": "str"}),
}


@pytest.mark.parametrize("how", ALTERED)
def test_pandas_reads_what_stages_made_of_the_columns(how: str, tmp_path: Path) -> None:
    function, changed = ALTERED[how]
    path = through(tmp_path, frame().set_index(pd.Index(list("ijkl"), name="key")), Alter(function))
    found = pd.read_parquet(path)
    assert {name: str(found.dtypes[name]) for name in changed} == changed
    table = load(path)
    described = json.loads((table.schema.metadata or {}).get(b"pandas", b'{"columns": [], "index_columns": []}'))
    assert {each["name"] for each in described["columns"]} <= set(table.column_names)
    assert set(described["index_columns"]) <= set(table.column_names)
    assert found.reset_index().shape[0] == table.num_rows


def test_columns_named_by_numbers_are_read_back_also_when_one_is_added(tmp_path: Path) -> None:
    given = pd.DataFrame({0: ["a"], 1: ["b"]})
    assert list(map(type, pd.read_parquet(through(tmp_path, given)).columns)) == [int, int]
    path = through(tmp_path / "more", given, Alter(lambda table: table.append_column("score", pa.array([1]))))
    assert pd.read_parquet(path).columns.tolist() == ["0", "1", "score"]


def test_frames_in_several_files_keep_their_description(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        frame().head(2 + number).to_parquet(tmp_path / "in" / f"{number}.parquet")
    run(ParquetReader(str(tmp_path / "in"), files_per_partition=3), ParquetWriter(str(tmp_path / "out")))
    found = pd.read_parquet(tmp_path / "out")
    wanted = pd.concat([frame().head(2 + number) for number in range(3)], ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted, check_categorical=False)


#: Descriptions for pandas that are JSON, and of no use.
ODD = [
    '{"columns": [], "index_columns": [["a"]]}',
    '{"columns": [], "index_columns": [{"kind": "range", "name": null, "start": 0, "stop": 1, "step": 0}]}',
    '{"columns": [], "index_columns": [{"kind": "range", "name": null, "start": "a", "stop": 1, "step": 1}]}',
    '{"columns": [], "index_columns": [{"kind": "range", "name": null, "start": 0, "stop": 1e9, "step": 1}]}',
    '{"columns": [], "index_columns": [], "column_indexes": [1]}',
    '{"columns": [{"name": ["n"]}], "index_columns": []}',
    "[" * 10**5,
]


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"columns": 1, "index_columns": []}', "no JSON", "\\ud800", *ODD]
)
@pytest.mark.parametrize("key", ["pandas", "huggingface"])
def test_a_description_that_is_none_does_no_harm(key: str, text: str, tmp_path: Path) -> None:
    save(pa.table({"n": [1]}, metadata={key: text, "by": "A"}), tmp_path / "in" / "a.parquet")
    run(
        ParquetReader(str(tmp_path / "in")),
        Alter(lambda table: table.set_column(0, "n", pa.array(["x"]))),
        ParquetWriter(str(tmp_path / "out")),
    )
    [table] = written(tmp_path / "out")
    assert table["n"].to_pylist() == ["x"]
    assert table.schema.metadata[b"by"] == b"A"


FEATURES = {
    "text": {"dtype": "string", "_type": "Value"},
    "label": {"names": ["good", "bad"], "_type": "ClassLabel"},
    "image": {"_type": "Image"},
}


def dataset(**more: Any) -> pa.Table:
    """Rows as the library `datasets` writes them."""
    about = {"info": {"features": FEATURES}, **more}
    image = pa.array([{"bytes": b"x", "path": None}] * 2, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    return pa.table({"text": ["a", "b"], "label": [0, 1], "image": image}, metadata={"huggingface": json.dumps(about)})


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda table: table, ["text", "label", "image"]),
        (lambda table: table.slice(1), ["text", "label", "image"]),
        (lambda table: table.append_column("score", pa.array([1, 2])), ["text", "label", "image"]),
        (lambda table: table.drop_columns(["label"]), ["text", "image"]),
        (lambda table: table.set_column(1, "label", pa.array(["x", "y"])), ["text", "image"]),
    ],
)
def test_features_of_datasets_are_of_the_columns_that_are_written(
    function: Callable[[pa.Table], pa.Table], left: list[str], tmp_path: Path
) -> None:
    before = save(dataset(citation="none"), tmp_path / "in" / "a.parquet")
    run(ParquetReader(str(tmp_path / "in")), Alter(function), ParquetWriter(str(tmp_path / "out")))
    [table] = written(tmp_path / "out")
    assert table.to_pylist() == function(before).to_pylist()
    about = json.loads(table.schema.metadata[b"huggingface"])
    assert about == {"info": {"features": {name: FEATURES[name] for name in left}}, "citation": "none"}


def test_features_of_files_that_describe_a_column_differently_are_left_out(tmp_path: Path) -> None:
    other = dataset()
    about = json.dumps({"info": {"features": {**FEATURES, "label": {"dtype": "int64", "_type": "Value"}}}})
    table = both(tmp_path, dataset(), other.replace_schema_metadata({"huggingface": about}))
    assert json.loads(table.schema.metadata[b"huggingface"])["info"]["features"].keys() == {"text", "image"}


# Encodings and indexes.


def encodings(path: Path) -> dict[str, tuple[set[str], bool]]:
    """The encodings of the values of each column of a file, and whether its pages have an index."""
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        chunks = [group.column(number) for number in range(group.num_columns)]
        return {chunk.path_in_schema: (set(chunk.encodings) - {"RLE"}, chunk.has_column_index) for chunk in chunks}


ENCODED = {"s": "DELTA_BYTE_ARRAY", "v.list.element": "BYTE_STREAM_SPLIT", "st.x": "DELTA_BINARY_PACKED", "p": "PLAIN"}


def encoded(path: Path, **settings: Any) -> dict[str, tuple[set[str], bool]]:
    """A file of columns of several encodings."""
    columns = {"a": [1, 2], "s": ["x", "y"], "v": [[1.5], [2.5]], "st": [{"x": 1, "y": "q"}] * 2, "p": ["x", "y"]}
    save(pa.table({**columns, "b": [True, None]}), path, **settings)
    return encodings(path)


@pytest.mark.parametrize("index", [True, False])
def test_columns_keep_their_encodings_and_page_index(index: bool, tmp_path: Path) -> None:
    before = encoded(
        tmp_path / "in" / "a.parquet",
        use_dictionary=["a", "st.y"],
        column_encoding=ENCODED,
        write_page_index=index,
    )
    add = Alter(lambda table: table.append_column("more", pa.array(["x", "y"])))
    run(ParquetReader(str(tmp_path / "in")), add, ParquetWriter(str(tmp_path / "out")))
    [path] = (tmp_path / "out").glob("*.parquet")
    assert encodings(path) == {**before, "more": ({"PLAIN", "RLE_DICTIONARY"}, index)}
    assert before["s"] == ({"DELTA_BYTE_ARRAY"}, index)


def test_a_changed_column_and_given_settings_have_encodings_of_their_own(tmp_path: Path) -> None:
    encoded(tmp_path / "in" / "a.parquet", use_dictionary=False, column_encoding={"s": "DELTA_BYTE_ARRAY"})
    change = Alter(lambda table: table.set_column(1, "s", pa.array([1, 2])))
    run(ParquetReader(str(tmp_path / "in")), change, ParquetWriter(str(tmp_path / "out")))
    [path] = (tmp_path / "out").glob("*.parquet")
    assert encodings(path)["s"][0] == {"PLAIN", "RLE_DICTIONARY"}
    assert encodings(path)["a"][0] == {"PLAIN"}
    given = ParquetWriter(str(tmp_path / "given"), write_kwargs={"use_dictionary": True})
    run(ParquetReader(str(tmp_path / "in")), given)
    [path] = (tmp_path / "given").glob("*.parquet")
    assert encodings(path)["s"][0] == {"PLAIN", "RLE_DICTIONARY"}


def int32_note() -> bytes:
    """A note of another type, as a reader makes it."""
    made = unpacked(pa.table({"n": pa.array([1, 2], pa.int32()).dictionary_encode()}))
    return bytes(made.schema.field("n").metadata[NOTE + b"type"])


@pytest.mark.parametrize(
    "note", [b"x", b"{}", b"null", b"\xff", b'{"n": "RLE"}', pytest.param(int32_note(), id="int32")]
)
def test_what_a_file_says_under_the_names_of_notes_is_not_believed(note: bytes, tmp_path: Path) -> None:
    names = [b"type", b"values", b"encoding", b"range", b"pandas", b"huggingface", b"page index"]
    notes = {NOTE + name: note for name in names}
    fields = [pa.field("n", pa.int64(), metadata={**notes, b"unit": b"m"})]
    before = pa.table({"n": [1, 2]}, schema=pa.schema(fields, {**notes, b"by": b"A"}))
    save(before, tmp_path / "in" / "a.parquet")
    run(ParquetReader(str(tmp_path / "in")), ParquetWriter(str(tmp_path / "out")))
    fields = [pa.field("n", pa.int64(), metadata={b"unit": b"m"})]
    assert_kept(tmp_path / "out", pa.table({"n": [1, 2]}, schema=pa.schema(fields, {b"by": b"A"})))


def test_notes_are_not_in_files(tmp_path: Path) -> None:
    before = save(everything(), tmp_path / "in" / "a.parquet")
    assert any(NOTE in pairs for pairs in map(str.encode, [str(read_all(tmp_path / "in").schema)]))
    run(ParquetReader(str(tmp_path / "in")), ParquetWriter(str(tmp_path / "out")))
    [path] = (tmp_path / "out").glob("*.parquet")
    assert NOTE not in path.read_bytes()
    assert_kept(tmp_path / "out", before)

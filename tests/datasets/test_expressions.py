"""`AddColumns` and `FilterByExpression`: rows keep their order, and an expression is a function of one row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError
from dcurate.core.extras import MissingDependencyError
from dcurate.core.stage import Stage
from dcurate.datasets import AddColumns, FilterByExpression
from dcurate.datasets.sql_check import checked_expression
from dcurate.errors import DcurateError
from dcurate.recipe import load_recipe
from dcurate.testing import check_stage

pytestmark = pytest.mark.program

KEPT = pa.schema(
    [
        ("long", pa.large_string()),
        ("coded", pa.dictionary(pa.int8(), pa.string())),
        ("moment", pa.timestamp("ns", "Europe/Berlin")),
        ("nested", pa.list_(pa.struct([("a", pa.int16())]))),
        ("number", pa.string()),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "long": st.none() | st.text(max_size=3),
            "coded": st.none() | st.sampled_from("ab"),
            "moment": st.none() | st.integers(-(2**60), 2**60),
            "nested": st.none() | st.lists(st.none() | st.fixed_dictionaries({"a": st.integers(-9, 9)}), max_size=2),
            "number": st.none() | st.sampled_from(["1", "-7", " 12 ", "x", "", "99999999999", "é"]),
        }
    ),
    max_size=12,
)
FAILING = {"x", "", "99999999999", "é"}


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({field.name: pa.array([row[field.name] for row in rows], field.type) for field in KEPT})


@pytest.fixture(scope="module")
def adding() -> Iterator[AddColumns]:
    stage = AddColumns({"twice": "number::INTEGER * 2", "long": "long || '!'"})
    stage.setup()
    yield stage
    stage.teardown()


@pytest.fixture(scope="module")
def keeping() -> Iterator[FilterByExpression]:
    stage = FilterByExpression("number::INTEGER > 0")
    stage.setup()
    yield stage
    stage.teardown()


def process(stage: Any, *columns: Any, **named: Any) -> DocumentBatch:
    with_rows = DocumentBatch(data=pa.table(*columns) if columns else pa.table(named))
    try:
        return stage.process(with_rows)
    finally:
        stage.teardown()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
def test_rows_stay_and_failing_ones_go_to_quarantine_by_the_plain_rule(adding: AddColumns, rows: list[Any]) -> None:
    table = table_of(rows)
    made = adding.process(DocumentBatch(data=table))
    good = pa.array([row["number"] not in FAILING for row in rows], pa.bool_())
    kept, after = table.filter(good), made.to_arrow()
    assert after.column_names == [*KEPT.names, "twice"]
    untouched = ["coded", "moment", "nested", "number"]
    assert after.select(untouched).equals(kept.select(untouched), check_metadata=True)
    assert after.schema.field("long").type == pa.large_string()
    assert after["long"].to_pylist() == [text if text is None else f"{text}!" for text in kept["long"].to_pylist()]
    numbers = [text if text is None else int(text) * 2 for text in kept["number"].to_pylist()]
    assert after.schema.field("twice").type == pa.int32()
    assert after["twice"].to_pylist() == numbers
    gone = [rejection.data.drop_columns(["sql_error"]) for rejection in made.rejections]
    assert all(rejection.fault and rejection.reason == "twice: Conversion Error" for rejection in made.rejections)
    assert pa.concat_tables([table.slice(0, 0), *gone]).to_pylist() == table.filter(pa.compute.invert(good)).to_pylist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.integers(0, 12))
def test_values_do_not_depend_on_the_cut_into_batches(adding: AddColumns, rows: list[Any], cut: int) -> None:
    table = table_of(rows)
    whole = adding.process(DocumentBatch(data=table)).to_arrow()
    parts = [adding.process(DocumentBatch(data=part)).to_arrow() for part in (table.slice(0, cut), table.slice(cut))]
    assert whole.to_pylist() == [row for part in parts for row in part.to_pylist()]
    assert {part.schema.field("twice").type for part in parts} == {pa.int32()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
def test_a_condition_keeps_drops_or_quarantines_each_row(keeping: FilterByExpression, rows: list[Any]) -> None:
    table = table_of(rows)
    made = keeping.process(DocumentBatch(data=table))
    positive = [row["number"] not in FAILING and row["number"] is not None and int(row["number"]) > 0 for row in rows]
    assert made.to_arrow().equals(table.filter(pa.array(positive, pa.bool_())))
    counts = {rejection.reason: rejection.rows for rejection in made.rejections}
    failing = sum(row["number"] in FAILING for row in rows)
    wanted = {"not number::INTEGER > 0": len(rows) - sum(positive) - failing, "condition: Conversion Error": failing}
    assert counts == {reason: count for reason, count in wanted.items() if count}


PIECES = [*"()[]{}'\";,.*$#-", "SELECT", "a", "FROM", "--"]


@given(st.text(max_size=60) | st.lists(st.sampled_from(PIECES)).map(" ".join))
@example("1) FROM range(3), (SELECT 1")
@example("1/*")
def test_any_text_is_an_expression_or_refused_in_one_sentence(text: str) -> None:
    sentence = ""
    try:
        checked_expression(text, "columns")
    except DcurateError as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert len(sentence) < 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("random()", "calls random()"),
        ("now()", "calls now()"),
        ("uuid()", "calls uuid()"),
        ("nextval('s')", "calls nextval()"),
        ("getenv('HOME')", "calls getenv()"),
        ("current_setting('threads')", "calls current_setting()"),
        ("getvariable('x')", "calls getvariable()"),
        ("read_text('/etc/hostname')", "calls read_text()"),
        ("glob('*')", "calls glob()"),
        ("write_log('x')", "calls write_log()"),
        ("sum(n)", "calls sum()"),
        ("count(*)", "calls count()"),
        ("unnest(l)", "calls unnest()"),
        ("list_aggregate(l, 'reservoir_quantile', 0.5)", "calls list_aggregate()"),
        ("row_number() OVER ()", "has a window function"),
        ("(SELECT 1)", "has a subquery"),
        ("(FROM '/etc/hostname')", "has a subquery"),
        ("EXISTS (SELECT 1)", "has a subquery"),
        ("list_transform(l, lambda x: random())", "calls random()"),
        ("CASE WHEN a THEN now() END", "calls now()"),
        ("*", "has *"),
        ("COLUMNS('a.*')", "has *"),
        ("$1", "has a parameter"),
        ("#1", "has a column by its number"),
        ("a AS b", "is not an expression of SQL"),
        ("year(at)", "a word of SQL, which takes double quotes"),
        ("select", "write names that are words of SQL in double quotes"),
        ("1) AS a, (2", "must be one expression"),
        ("1) FROM t, (SELECT 2", "must be one expression"),
        ("1); DROP TABLE t; SELECT (1", "is not an expression of SQL"),
        ("SELECT a", "without SELECT, FROM and WHERE"),
        ("where a > 1", "without SELECT, FROM and WHERE"),
        ("len(a) > 1;", "leave out the semicolon"),
        ("a > 1 and", "something is missing before it"),
        ("lenght(text)", "did you mean 'length'?"),
        ("size(l)", "did you mean 'len'?"),
        ("text.upper()", "write upper(text, ...)"),
        ("text.str.len()", "write len(text, ...)"),
        ("(" * 101 + "1" + ")" * 101, "brackets within each other"),
        ("1" + "+1" * 4000, "nested too deeply"),
        ("-" * 10_001, "more than 10,000 characters"),
        ("", "must be an expression of SQL"),
        (3, "must be an expression of SQL"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_what_is_no_function_of_a_row_is_refused_where_the_stage_is_made(text: Any, problem: str) -> None:
    for make in (lambda: AddColumns({"x": text}), lambda: FilterByExpression(text)):
        with pytest.raises(PipelineError) as raised:
            make()
        assert problem in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('a + b.c + "two words"', ["a", "b", "two words"]),
        ("list_transform(l, lambda x: x + n)", ["l", "n"]),
        ("[y * 2 for y in l if y > n]", ["l", "n"]),
        ("list_filter(l, lambda x: len(list_filter(m, lambda y: y = x)) > 0)", ["l", "m"]),
        ("d -> '$.a'", ["d"]),
        ("d ->> '$.a' || e", ["d", "e"]),
        ("CASE WHEN a IN (1, b) THEN c ELSE d[1:e] END", ["a", "b", "c", "d", "e"]),
        ("'constant'", []),
        ("current_date", ["current_date"]),  # a column, as any other name
    ],
)
def test_the_columns_that_an_expression_reads_are_known(text: str, columns: list[str]) -> None:
    assert sorted(FilterByExpression(text).inputs()[1]) == sorted(columns)


@pytest.mark.parametrize(
    ("columns", "rows", "sentence"),
    [
        ({"x": "txt"}, {"text": ["a"]}, "add_columns: the rows have no column 'txt'; did you mean 'text'?"),
        (
            {"y": "1", "x": "text + 1"},
            {"text": ["a"]},
            "add_columns: x='text + 1' does not suit the columns: Binder Error",
        ),
        ({"x": "Text || text"}, {"text": ["a"], "Text": ["b"]}, "differ in case alone"),
        ({"x": "n"}, {"n": pa.array([1], pa.decimal256(50, 2))}, "does not suit the columns"),
    ],
)
def test_columns_that_do_not_suit_are_one_sentence(
    columns: dict[str, str], rows: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DataError) as raised:
        process(AddColumns(columns), **rows)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_text_in_double_quotes_is_answered_by_the_right_quotes() -> None:
    rows = pa.table({"lang": ["en"]})
    pipeline = Pipeline("p", stages=[FilterByExpression('lang = "en"')])
    with pytest.raises(PipelineError, match="reads column 'en', .*; a text is written in single quotes: 'en'$"):
        pipeline.run(InlineExecutor(), rows, observers=[])


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(DataError, match="condition='n' gives int64, and not true or false; compare it with a value"):
        process(FilterByExpression("n"), n=[1])
    assert process(FilterByExpression("NULL"), n=[1]).num_items == 0


def test_a_column_that_is_not_read_is_replaced_only_if_that_is_allowed() -> None:
    with pytest.raises(PipelineError, match="column 'b' already exists"):
        process(AddColumns({"b": "a"}), a=[1], b=["x"], c=[2])
    made = process(AddColumns({"b": "a"}, overwrite=True), a=[1], b=["x"], c=[2])
    assert made.to_arrow().to_pylist() == [{"a": 1, "b": 1, "c": 2}]
    assert made.to_arrow().column_names == ["a", "b", "c"]


def test_no_rows_have_the_types_of_the_expressions() -> None:
    made = process(AddColumns({"day": "moment::DATE", "words": "string_split(long, ' ')"}), table_of([])).to_arrow()
    assert made.schema.field("day").type == pa.date32()
    assert made.schema.field("words").type == pa.list_(pa.field("l", pa.string()))


def test_times_with_a_zone_are_in_utc() -> None:
    moment = pa.array([1_700_000_000_000], pa.timestamp("ms", "Asia/Tokyo"))  # 22:13 in UTC, the next day in Tokyo
    made = process(AddColumns({"hour": "hour(moment)", "day": "moment::DATE::VARCHAR"}), moment=moment)
    assert made.to_arrow().drop_columns(["moment"]).to_pylist() == [{"hour": 22, "day": "2023-11-14"}]


def test_a_row_that_takes_all_memory_goes_to_quarantine_and_the_others_go_on() -> None:
    made = process(AddColumns({"x": "list_sum(range(n))"}), n=[3, 10**9, *range(5)])
    assert made.to_arrow()["x"].to_pylist() == [3, None, 0, 1, 3, 6]
    assert [(rejection.reason, rejection.data["n"].to_pylist()) for rejection in made.rejections] == [
        ("out of memory", [10**9])
    ]


def test_a_value_that_differs_from_a_null_by_failing_is_found_in_a_large_batch() -> None:
    numbers = ["x" if row % 999 == 0 else None if row % 10 == 0 else str(row) for row in range(20_000)]
    made = process(AddColumns({"x": "n::INTEGER"}), n=numbers)
    assert made.to_arrow()["x"].to_pylist() == [text if text is None else int(text) for text in numbers if text != "x"]
    assert sum(rejection.rows for rejection in made.rejections) == numbers.count("x")
    assert "Could not convert string 'x' to INT32" in made.rejections[0].data["sql_error"][0].as_py()


def test_a_recipe_without_trust_may_hold_expressions_and_lines_leave_as_they_came(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"b": 1.50, "text": "two words"}\n{"b": 2e1, "text": "one"}\n')
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"""
stages:
  - JsonlReader: {{file_paths: {tmp_path}/in.jsonl}}
  - AddColumns: {{columns: {{words: "len(string_split(text, ' '))"}}}}
  - FilterByExpression: {{condition: "words > 1"}}
  - JsonlWriter: {{path: {tmp_path}/out}}
"""
    )
    pipeline = load_recipe(recipe)
    result = pipeline.pipeline.run(InlineExecutor(), observers=[])
    [path] = (tmp_path / "out").glob("*.jsonl")
    assert path.read_text() == '{"b": 1.50, "text": "two words","words":2}\n'
    assert result.dropped[["stage", "reason", "rows"]].values.tolist() == [["filter_by_expression", "not words > 1", 1]]


def test_another_expression_is_another_pipeline(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n')

    def run(expression: str) -> None:
        reader, writer = JsonlReader(str(tmp_path / "in.jsonl")), JsonlWriter(str(tmp_path / "out"))
        stages: list[Stage] = [reader, AddColumns({"x": expression}), writer]
        Pipeline("x", stages=stages).run(InlineExecutor(), resume=True, observers=[])

    run("upper(text)")
    run("upper(text)")
    with pytest.raises(DcurateError, match="add_columns"):
        run("lower(text)")


def test_the_stages_do_what_they_declare() -> None:
    rows = DocumentBatch(data=pa.table({"text": ["a b", "c"], "other": [1, 2]}))
    check_stage(AddColumns({"words": "len(string_split(text, ' '))"}), rows)
    check_stage(FilterByExpression("len(text) > 1"), rows)


def test_without_duckdb_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from dcurate.datasets import sql_check  # noqa: PLC0415 - the connection is kept there

    sql_check._parser.cache_clear()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'dcurate\[sql\]'"):
        AddColumns({"x": "1"})

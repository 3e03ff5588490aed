"""Documents get the annotations of their key, whatever the files, and no row is lost without a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask.distributed import LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    DaskExecutor,
    DataError,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetReader,
    Pipeline,
    PipelineError,
)
from dcurate.datasets import JoinTable

pytestmark = pytest.mark.cluster

Row = dict[str, Any]


def jsonl(folder: Path, rows: list[Row], files: int = 1) -> JsonlReader:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        lines = "".join(json.dumps(row) + "\n" for row in rows[number::files])
        (folder / f"{number}.jsonl").write_text(lines)
    return JsonlReader(str(folder))


def joined(
    documents: Any, annotations: Any, executor: Any = None, key_field: str = "url", **settings: Any
) -> tuple[list[Row], dict[str, int]]:
    join = JoinTable(documents, annotations, key_field, ["topic", "score"], **settings)
    result = Pipeline("join", stages=[join]).run(executor or InlineExecutor(), observers=[])
    dropped: dict[str, int] = {}
    for stage in result.report.stages:
        for reason, rows in stage.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + rows
    return [row for batch in result for row in batch.to_arrow().to_pylist()], dropped  # type: ignore[attr-defined]


DOCUMENTS: list[Row] = [
    {"url": "a", "text": "one", "n": [1]},
    {"url": "b", "text": "two", "n": [2]},
    {"url": "c", "text": "three", "n": []},
    {"url": None, "text": "four", "n": None},
    {"url": "a", "text": "five", "n": [5]},
]
ANNOTATIONS: list[Row] = [
    {"url": "a", "topic": "x", "score": 1, "other": 1},
    {"url": "a", "topic": "x", "score": 1, "other": 2},
    {"url": "c", "topic": "y", "score": 2, "other": 3},
    {"url": "c", "topic": "y", "score": 3, "other": 4},
    {"url": None, "topic": "z", "score": 4, "other": 5},
    {"url": "q", "topic": None, "score": 5, "other": 6},
]


def test_documents_get_the_annotations_of_their_key_and_others_are_counted(tmp_path: Path) -> None:
    rows, dropped = joined(jsonl(tmp_path / "d", DOCUMENTS), jsonl(tmp_path / "a", ANNOTATIONS))
    assert rows == [
        {"url": "a", "text": "one", "n": [1], "topic": "x", "score": 1},
        {"url": "a", "text": "five", "n": [5], "topic": "x", "score": 1},
    ]
    assert dropped == {"no key": 2, "row of the table": 5, "no match": 1, "contradictory rows of the table": 1}


KEYS = st.one_of(st.none(), st.sampled_from("abcdefg"))


@settings(max_examples=15, deadline=None)
@given(
    st.lists(KEYS, max_size=12),
    st.lists(st.tuples(KEYS, st.sampled_from("xy"), st.integers(0, 1)), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_a_join_is_that_of_dictionaries_and_conserves_rows(
    tmp_path_factory: pytest.TempPathFactory,
    keys: list[str | None],
    notes: list[tuple[str | None, str, int]],
    files: int,
) -> None:
    folder = tmp_path_factory.mktemp("join")
    documents: list[Row] = [{"url": key, "text": f"t{number}"} for number, key in enumerate(keys)] or [
        {"url": "h", "text": "t"}
    ]
    annotations = [{"url": key, "topic": topic, "score": score} for key, topic, score in notes]
    by_key: dict[str, set[tuple[str, int]]] = {}
    for key, topic, score in notes:
        if key is not None:
            by_key.setdefault(key, set()).add((topic, score))
    expected = {
        row["text"]: next(iter(by_key[row["url"]]))
        for row in documents
        if row["url"] is not None and len(by_key.get(row["url"], ())) == 1
    }
    rows, dropped = joined(jsonl(folder / "d", documents, files), jsonl(folder / "a", annotations, files))
    assert {row["text"]: (row["topic"], row["score"]) for row in rows} == expected
    assert len(rows) + sum(dropped.values()) == len(documents) + len(annotations)


PAIRS = st.tuples(st.none() | st.sampled_from("ab"), st.none() | st.integers(0, 1))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(PAIRS, min_size=1, max_size=8),
    st.lists(st.tuples(PAIRS, st.sampled_from("xy")), min_size=1, max_size=6),
    st.sampled_from(["inner", "left", "anti"]),
    st.sampled_from([1000, "128MiB"]),
)
def test_joins_by_several_columns_of_other_names_are_those_of_dictionaries(
    tmp_path_factory: pytest.TempPathFactory, documents: Any, table: Any, how: Any, blocksize: Any
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    rows: list[Row] = [{"site": site, "n": n, "text": f"t{at}"} for at, (site, n) in enumerate(documents)]
    side: list[Row] = [{"text": site, "page": n, "licence": licence} for (site, n), licence in table]
    licences: dict[Any, set[str]] = {}
    for key, licence in table:
        if None not in key:
            licences.setdefault(key, set()).add(licence)
    fields = [] if how == "anti" else ["licence"]
    expected = {}
    for row in rows:
        matches = licences.get((row["site"], row["n"]), set())
        if (how == "inner" and len(matches) == 1) or (how == "left" and len(matches) < 2):
            expected[row["text"]] = {**row, "licence": next(iter(matches), None)}
        elif how == "anti" and not matches:
            expected[row["text"]] = row
    join = JoinTable(
        jsonl(folder / "d", rows, 2),
        jsonl(folder / "t", side, 2),
        ["site", "n"],
        fields,
        how,
        ["text", "page"],
        blocksize=blocksize,
    )
    result = Pipeline("join", stages=[join]).run(InlineExecutor(), observers=[])
    made = [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]
    assert {row["text"]: row for row in made} == expected
    assert sum(sum(stage.dropped.values()) for stage in result.report.stages) == len(rows) + len(side) - len(made)


def test_a_blocklist_takes_out_its_documents_and_an_allowlist_all_others(tmp_path: Path) -> None:
    documents = jsonl(tmp_path / "d", DOCUMENTS)
    blocked = jsonl(tmp_path / "b", [{"page": "a"}, {"page": "a"}, {"page": "q"}])
    for how, texts in (("anti", ["four", "three", "two"]), ("inner", ["five", "one"])):
        join = JoinTable(documents, blocked, "url", how=how, table_key_field="page")  # type: ignore[arg-type]
        writer = JsonlWriter(str(tmp_path / how))
        result = Pipeline("join", stages=[join, writer]).run(InlineExecutor(), observers=[])
        lines = [line for path in (tmp_path / how).glob("*.jsonl") for line in path.read_text().splitlines()]
        assert sorted(json.loads(line)["text"] for line in lines) == texts
        assert set(lines) <= {json.dumps(row) for row in DOCUMENTS}, "rows are written as they came"
        assert result.report.stages[-2].dropped["match" if how == "anti" else "row of the table"] in (2, 3)


def test_columns_of_a_left_join_have_their_types_where_nothing_matches(tmp_path: Path) -> None:
    labels = ParquetReader(str(tmp_path / "labels.parquet"))
    pq.write_table(pa.table({"url": ["q"], "grade": pa.array([1], pa.int8())}), tmp_path / "labels.parquet")
    documents = jsonl(tmp_path / "d", [{"url": f"u{number}", "text": "t" * 99} for number in range(200)], 3)
    join = JoinTable(documents, labels, "url", ["grade"], "left", blocksize=2000)
    result = Pipeline("join", stages=[join]).run(InlineExecutor(), observers=[])
    tables = [batch.to_arrow() for batch in result]  # type: ignore[attr-defined]
    assert len(tables) > 2
    assert {str(table.schema.field("grade").type) for table in tables} == {"int8"}
    assert sum(table["grade"].null_count for table in tables) == 200


def test_a_join_is_the_same_for_any_files_batches_and_workers(cluster: LocalCluster, tmp_path: Path) -> None:
    documents = [{"url": f"u{number}", "text": "t" * (number % 9)} for number in range(300)]
    annotations = [{"url": f"u{number * 3}", "topic": "abc"[number % 3], "score": number} for number in range(150)]
    first, _ = joined(jsonl(tmp_path / "d", documents), jsonl(tmp_path / "a", annotations))
    assert sorted(row["url"] for row in first) == sorted(f"u{number}" for number in range(0, 300, 3))
    assert all(row["score"] * 3 == int(row["url"][1:]) for row in first)
    many = jsonl(tmp_path / "d9", documents[::-1], 9), jsonl(tmp_path / "a4", annotations, 4)
    assert joined(*many)[0] == first
    assert joined(*many, blocksize=1000)[0] == first
    assert joined(*many, DaskExecutor(cluster=cluster))[0] == first
    pq.write_table(pa.Table.from_pylist(annotations), tmp_path / "a.parquet")
    assert joined(many[0], ParquetReader(str(tmp_path / "a.parquet")))[0] == first


def test_columns_that_are_missing_or_there_already_are_one_sentence(tmp_path: Path) -> None:
    documents = jsonl(tmp_path / "d", [{"url": "a", "topic": "mine"}])
    with pytest.raises(PipelineError, match="the documents have 'topic' already; rename the columns of one dataset"):
        joined(documents, jsonl(tmp_path / "a", ANNOTATIONS))
    with pytest.raises(DataError, match="no column 'score'"):
        joined(jsonl(tmp_path / "d", [{"url": "a"}]), jsonl(tmp_path / "a", [{"url": "a", "topic": "x"}]))


def test_wrong_settings_are_one_sentence() -> None:
    reader = JsonlReader("x")
    with pytest.raises(PipelineError, match="table='x' is not a reader"):
        JoinTable(reader, "x", "url", ["topic"])  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="must be the column of the key, or a list"):
        JoinTable(reader, reader, "url", ["url"])
    for arguments, message in (
        ({"fields": ["a"], "how": "anti"}, "no document that comes out has a row of the table; leave fields out"),
        ({"how": "left"}, "nothing is to be added; name the columns to add"),
        ({"how": "outer"}, "how='outer' is not one of 'inner', 'left'"),
        ({"table_key_field": ["a", "b"]}, "must name as many columns as key_field='url'"),
    ):
        with pytest.raises(PipelineError, match=message):
            JoinTable(reader, reader, "url", **arguments)


def test_keys_of_types_that_are_never_equal_are_refused_before_the_run(tmp_path: Path) -> None:
    documents = jsonl(tmp_path / "documents", [{"id": 1, "text": "one"}])
    table = jsonl(tmp_path / "table", [{"number": "1", "topic": "a"}])
    sentence = "join_table: 'id' of the documents is int64, and 'number' of the table is string, so no key is equal"
    with pytest.raises(PipelineError, match=sentence):
        Pipeline("p", stages=[JoinTable(documents, table, "id", ["topic"], table_key_field="number")]).build()
    read_as_text = JsonlReader(str(tmp_path / "documents"), schema={"id": "string"})
    stages = [JoinTable(read_as_text, table, "id", ["topic"], table_key_field="number")]
    made = Pipeline("p", stages=stages).run(InlineExecutor(), observers=[])
    assert made.to_arrow()["topic"].to_pylist() == ["a"]

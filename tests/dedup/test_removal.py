import json
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    BatchKey,
    DaskExecutor,
    DataError,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
    StageError,
)
from dcurate.dedup import RemoveIds, removal_ids
from dcurate.dedup.removal import IdsFound, ids_found
from dcurate.dedup.removal_ids import RemovalIds
from dcurate.frames.ids import id_keys
from dcurate.run import AnyStage

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files of a test's own; none is left when it ends."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not [path for path in folder.rglob("*") if path.is_file()]


def listed(folder: Path, *columns: Any, name: str = "id") -> str:
    """A folder of Parquet files, each with a column of ids."""
    folder.mkdir()
    for number, column in enumerate(columns):
        pq.write_table(pa.table({name: column, "other": pa.nulls(len(column))}), folder / f"{number}.parquet")
    return str(folder)


def removed(path: str, ids: Any) -> list[Any]:
    """The documents kept without these ids."""
    stage = RemoveIds(path, id_field="id")
    stage.setup()
    try:
        made = stage.process(DocumentBatch(key=BatchKey("a"), data=pa.table({"id": ids})))
        left: list[Any] = made.to_arrow()["id"].to_pylist()
        return left
    finally:
        stage.teardown()


texts = st.one_of(st.none(), st.sampled_from(["", "a", "ä", "1", "a" * 50]), st.text(max_size=3))
numbers = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from([(texts, pa.string()), (texts, pa.large_string()), (numbers, pa.int64())]))
def test_what_is_left_is_what_sets_say(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: tuple[st.SearchStrategy[Any], pa.DataType]
) -> None:
    ids, type_ = kind
    gone = data.draw(st.lists(st.lists(ids, max_size=20), min_size=1, max_size=3))
    there = data.draw(st.lists(st.one_of(ids, st.sampled_from(gone[0] or [None])), max_size=30))
    path = listed(tmp_path_factory.mktemp("ids") / "ids", *(pa.array(one, type_) for one in gone))
    wanted = {one for each in gone for one in each} - {None}
    assert removed(path, pa.array(there, type_)) == [one for one in there if one not in wanted]


@pytest.mark.parametrize(
    ("listed_as", "there_as"),
    [
        (pa.array([3, 9]), pa.array([1.0, 3.0, None])),
        (pa.array([3, 9], pa.uint8()), pa.array([1, 3, None], pa.int32())),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([2**64 - 1, 1], pa.uint64())),
        (pa.array(["x", "y"]), pa.array(["z", "x", "z"]).dictionary_encode()),
        (pa.array([uuid.UUID(int=1).bytes], pa.binary(16)), pa.array([uuid.UUID(int=1).bytes, b"2"], pa.binary())),
    ],
)
def test_ids_are_equal_at_any_width(listed_as: pa.Array, there_as: pa.Array, tmp_path: Path) -> None:
    gone = set(listed_as.to_pylist())
    left = [one for one in there_as.to_pylist() if one not in gone]
    assert len(left) < len(there_as)
    assert removed(listed(tmp_path / "ids", listed_as), there_as) == left


def test_the_largest_whole_number_is_not_minus_one() -> None:
    keys = [
        id_keys(pa.table({"id": pa.array([n], kind)}), "id").keys for n, kind in ((-1, "int64"), (2**64 - 1, "uint64"))
    ]
    assert not (keys[0] == keys[1]).all()


def test_text_and_numbers_are_never_equal_and_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ids of a in column 'id': they are text, and the ids to remove are whole num"):
        removed(listed(tmp_path / "ids", pa.array([1])), pa.array(["1"]))
    with pytest.raises(DataError, match="is string in 1.parquet but int64 in 0.parquet"):
        removed(listed(tmp_path / "mixed", pa.array([1]), pa.array(["1"])), pa.array(["1"]))
    with pytest.raises(DataError, match="fractions"):
        removed(listed(tmp_path / "halves", pa.array([0.5])), pa.array(["1"]))
    with pytest.raises(DataError, match="holds list.*ids are text or whole numbers"):
        removed(listed(tmp_path / "lists", pa.array([[1]])), pa.array(["1"]))


def test_many_ids_in_many_parts_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal_ids, "_PART_BYTES", 50_000)
    draw = np.random.default_rng(3)
    gone = draw.integers(0, 2**40, 100_000)
    path = listed(tmp_path / "ids", pa.array(gone[:60_000]), pa.array(gone[50_000:]))
    opened = RemovalIds(path, "id").opened()
    assert len(opened) == len(np.unique(gone))
    there = draw.permutation(np.concatenate([gone[::7], draw.integers(0, 2**40, 20_000)]))
    found = opened.find(id_keys(pa.table({"id": there}), "id"), len(there))
    assert (found.rows == np.isin(there, gone)).all()
    assert len(found.places) == len(np.unique(there[found.rows]))
    opened.close()


def test_ids_that_share_their_first_64_bits_are_distinguished(tmp_path: Path) -> None:
    opened = RemovalIds(listed(tmp_path / "ids", pa.array([0])), "id").opened()
    opened._high, opened._low = np.array([5, 5, 5, 9], np.uint64), np.array([1, 4, 6, 2], np.uint64)
    ids = np.array([[5, 6], [5, 5], [9, 2], [5, 1], [9, 3], [1, 1]], np.uint64)
    keys = id_keys(pa.table({"id": list(range(6))}), "id")._replace(keys=ids)
    found = opened.find(keys, 6)
    assert (found.rows.tolist(), found.places.tolist()) == ([True, False, True, True, False, False], [0, 2, 3])
    opened.close()


def run(tmp_path: Path, stage: RemoveIds, executor: Any) -> tuple[list[str], dict[str, int]]:
    source, output = tmp_path / "in", tmp_path / f"out-{executor.mode}"
    if not source.exists():
        source.mkdir()
        for number in range(4):
            rows = [{"doc": f"{number}-{row}", "text": "x"} for row in range(5)] + [{"doc": "twice", "text": "y"}]
            (source / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stages: list[AnyStage] = [JsonlReader(str(source)), stage, JsonlWriter(str(output))]
    report = Pipeline("removal", stages=stages).run(executor).report
    files = sorted(output.glob("*.jsonl"))
    return [json.loads(line).get("doc", "") for file in files for line in file.read_text().splitlines()], report.stages[
        1
    ].dropped


def test_the_report_counts_documents_that_went_and_notes_say_which_ids_nobody_had(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    path = listed(tmp_path / "ids", ["0-1", "twice", "9-9", "0-1"], ["3-4", None])
    for executor in (InlineExecutor(), DaskExecutor(cluster=cluster)):
        notes = str(tmp_path / f"notes-{executor.mode}")
        stage = RemoveIds(path, "doc", "id", found_url=notes)
        left, dropped = run(tmp_path, stage, executor)
        assert left == [f"{n}-{row}" for n in range(4) for row in range(5) if (n, row) not in ((0, 1), (3, 4))]
        assert dropped == {"id_to_remove": 6}
        assert ids_found(notes) == IdsFound(ids=4, found=3)


def test_the_column_of_ids_may_go(tmp_path: Path) -> None:
    stage = RemoveIds(listed(tmp_path / "ids", ["0-1"]), "doc", drop_id_field=True)
    assert run(tmp_path, stage, InlineExecutor())[0] == [""] * 23


def test_a_folder_that_dcurate_wrote_no_file_to_has_no_ids(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is nothing at"):
        removed(str(tmp_path / "nowhere"), pa.array(["a"]))
    JsonlWriter(str(tmp_path / "none")).prepare(resume=False)
    assert removed(str(tmp_path / "none"), pa.array(["a"])) == ["a"]


def test_a_run_is_not_resumed_with_other_ids(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
    path = listed(tmp_path / "ids", ["a"])
    stages: list[AnyStage] = [
        JsonlReader(str(tmp_path / "in")),
        RemoveIds(path, "id"),
        JsonlWriter(str(tmp_path / "o")),
    ]
    Pipeline("one", stages=stages).run(InlineExecutor())
    pq.write_table(pa.table({"id": ["a", "b"]}), tmp_path / "ids" / "0.parquet")
    with pytest.raises(PipelineError, match="text_duplicates_removal"):
        Pipeline("one", stages=stages).run(InlineExecutor(), resume=True)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises((DataError, StageError), match="no column 'id'.*'doc_id'"):
        removed(listed(tmp_path / "ids", ["a"], name="doc_id"), pa.array(["a"]))

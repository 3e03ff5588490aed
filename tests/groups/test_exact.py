import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import (
    DaskExecutor,
    DocumentBatch,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.dedup import Highest, Lowest, Preferred
from dcurate.frames.hashes import content_hashes
from dcurate.run import Executor
from dcurate.text import AddId

pytestmark = pytest.mark.cluster

Row = dict[str, Any]


def write(folder: Path, files: list[list[str | None]]) -> str:
    folder.mkdir(exist_ok=True)
    for number, texts in enumerate(files):
        lines = [json.dumps({"id": f"{number}-{row}", "text": text}) + "\n" for row, text in enumerate(texts)]
        (folder / f"{number:02}.jsonl").write_text("".join(lines))
    return str(folder)


FILES: list[list[str | None]] = [["a", "b", "a"], ["c", "b", "", "d"], [None, "e", "a"], ["e"]]


def ids(source: str, executor: Executor, tmp_path: Path) -> list[str]:
    output = tmp_path / f"out-{executor.mode}"
    Pipeline("test", stages=[JsonlReader(source), ExactDuplicates(), JsonlWriter(str(output))]).run(executor)
    return [json.loads(line)["id"] for path in sorted(output.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_the_first_of_equal_texts_stays_in_every_mode(cluster: LocalCluster, tmp_path: Path) -> None:
    source = write(tmp_path / "in", FILES)
    expected = ["0-0", "0-1", "1-0", "1-2", "1-3", "2-0", "2-1"]
    assert ids(source, InlineExecutor(), tmp_path) == expected
    assert ids(source, DaskExecutor(cluster=cluster), tmp_path) == expected
    assert ids(source, DaskExecutor({"execution_mode": "batch"}, cluster), tmp_path) == expected


def test_duplicates_are_counted_and_kept_where_asked(tmp_path: Path) -> None:
    stages: list[AnyStage] = [JsonlReader(write(tmp_path / "in", FILES)), ExactDuplicates()]
    result = Pipeline("test", stages=stages).run(InlineExecutor(), rejected=str(tmp_path / "rejected"))
    stats = result.report.stages[1]
    assert (stats.name, stats.rows_in, stats.rows_out, stats.dropped) == (
        "exact_duplicates",
        11,
        7,
        {"exact_duplicate": 4},
    )
    kept = [
        json.loads(line) for path in (tmp_path / "rejected").rglob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert sorted(row["id"] for row in kept) == ["0-2", "1-1", "2-2", "3-0"]
    assert {row["_dcurate_reason"] for row in kept} == {"exact_duplicate"}


def test_removing_duplicates_twice_is_removing_them_once(tmp_path: Path) -> None:
    stages = [ExactDuplicates(), ExactDuplicates().with_(name="again")]
    once, twice = (
        Pipeline("test", stages=[JsonlReader(write(tmp_path / "in", FILES)), *chain]).run(InlineExecutor())
        for chain in (stages[:1], stages)
    )
    assert [batch.to_arrow() for batch in once] == [batch.to_arrow() for batch in twice]  # type: ignore[attr-defined]


def test_a_finished_run_is_not_done_again(tmp_path: Path) -> None:
    source, output = write(tmp_path / "in", FILES), tmp_path / "out"
    stages: list[AnyStage] = [JsonlReader(source), ExactDuplicates(), JsonlWriter(str(output))]

    def once() -> tuple[int, dict[str, float]]:
        report = Pipeline("test", stages=stages).run(InlineExecutor(), resume=True).report
        assert report.stages[1].dropped == {"exact_duplicate": 4}
        return report.splits_before, {path.name: path.stat().st_mtime_ns for path in output.glob("*.jsonl")}

    first, second = once(), once()
    assert (first[0], second[0]) == (0, 4)
    assert first[1] == second[1]
    next(output.glob("00-*")).unlink()
    assert once()[1].keys() == first[1].keys()


def test_nothing_is_left_beside_the_output(tmp_path: Path) -> None:
    ids(write(tmp_path / "in", FILES), InlineExecutor(), tmp_path)
    assert (tmp_path / "out-inline.dcurate").exists()
    assert not (tmp_path / "out-inline.dcurate" / "rounds").exists()


texts = st.lists(st.lists(st.sampled_from(["", "a", "A ", "b", "ä", "ab" * 9]), max_size=6), max_size=5)


def batches(files: list[list[Row]]) -> list[DocumentBatch]:
    return [DocumentBatch(data=pa.Table.from_pylist(rows)) for rows in files if rows]


def run(stage: ExactDuplicates, files: list[list[Row]]) -> list[Row]:
    result = Pipeline("test", stages=[stage]).run(InlineExecutor(), initial_tasks=batches(files))
    return [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]


def numbered(files: list[list[str]]) -> list[list[Row]]:
    number = itertools.count()
    return [[{"id": next(number), "text": text, "score": len(text) % 3} for text in texts] for texts in files]


@settings(deadline=None, max_examples=25)
@given(texts, st.sampled_from(["first", "longest", "highest", "lowest"]), st.booleans())
def test_of_each_group_the_best_stays_and_the_first_of_equals(files: list[list[str]], keep: str, normal: bool) -> None:
    def form(text: str) -> str:
        return " ".join(text.lower().split()) if normal else text

    rules = {"highest": Highest("score"), "lowest": Lowest("score")}
    cost: Callable[[Row], float] = {
        "first": lambda row: 0,
        "longest": lambda row: -len(row["text"].encode()),
        "highest": lambda row: -row["score"],
        "lowest": lambda row: row["score"],
    }[keep]
    rows = numbered(files)
    groups: dict[str, list[Row]] = {}
    for row in itertools.chain(*rows):
        groups.setdefault(form(str(row["text"])), []).append(row)
    expected = sorted(min(group, key=lambda row: (cost(row), row["id"]))["id"] for group in groups.values())
    stage = ExactDuplicates(normalize=("case", "whitespace") if normal else (), keep=rules.get(keep, keep))
    if rows and any(rows):
        assert [row["id"] for row in run(stage, rows)] == expected


@settings(deadline=None, max_examples=15)
@given(texts, st.integers(1, 5))
def test_the_result_does_not_depend_on_how_rows_are_cut_into_batches(files: list[list[str]], size: int) -> None:
    rows = list(itertools.chain(*numbered(files)))
    if rows:
        cut = [rows[start : start + size] for start in range(0, len(rows), size)]
        stages = [ExactDuplicates(keep="longest", action=action, id_field="id") for action in ("drop", "identify")]
        for stage in stages:
            assert sorted(map(repr, run(stage, cut))) == sorted(map(repr, run(stage, [rows])))


def test_many_files_are_merged_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = numbered([["a", "b"], ["a"], ["c", "b"], ["d", "a", "c"]])
    before = [run(ExactDuplicates(action=action), rows) for action in ("drop", "flag")]
    monkeypatch.setattr("dcurate.shuffle.merge.MOST_READS", 0)
    monkeypatch.setattr("dcurate.shuffle.merge.MERGED_BYTES", 150)
    assert [run(ExactDuplicates(action=action), rows) for action in ("drop", "flag")] == before


def test_groups_say_who_is_a_copy_of_whom() -> None:
    rows = numbered([["a", "b", "a"], ["c", "a", "b"]])
    found = run(ExactDuplicates(action="identify", id_field="id", keep=Preferred("id", [4])), rows)
    shown = [(row["id"], row["group_id"], row["group_size"], row["kept"], row["kept_id"]) for row in found]
    assert shown == [
        (0, 0, 3, False, 4),
        (1, 1, 2, True, 1),
        (2, 0, 3, False, 4),
        (4, 0, 3, True, 4),
        (5, 1, 2, False, 1),
    ]
    assert {row["similarity"] for row in found} == {1.0}


def test_ids_are_made_as_add_id_makes_them(tmp_path: Path) -> None:
    source = write(tmp_path / "in", FILES)
    found = Pipeline("test", stages=[JsonlReader(source), ExactDuplicates(action="identify")]).run(InlineExecutor())
    made = Pipeline("test", stages=[JsonlReader(source), AddId("key")]).run(InlineExecutor())
    ids = {row["key"] for batch in made for row in batch.to_arrow().to_pylist()}  # type: ignore[attr-defined]
    members = {row["id"] for batch in found for row in batch.to_arrow().to_pylist()}  # type: ignore[attr-defined]
    assert len(members) == 7
    assert members < ids


def test_flagged_rows_all_stay_and_name_their_group() -> None:
    found = run(ExactDuplicates(action="flag"), numbered([["a", "b"], ["a"], ["c", "b"]]))
    assert [(row["id"], row["duplicate_group"], row["is_duplicate"]) for row in found] == [
        (0, 0, False),
        (1, 1, False),
        (2, 0, True),
        (3, 3, False),
        (4, 1, True),
    ]


def test_a_report_holds_the_groups_beside_clean_data(tmp_path: Path) -> None:
    source, report = write(tmp_path / "in", FILES), tmp_path / "groups"
    stages: list[AnyStage] = [
        JsonlReader(source),
        ExactDuplicates(id_field="id", report_path=str(report)),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("test", stages=stages).run(InlineExecutor())
    rows = pa.parquet.read_table(sorted(report.glob("*.parquet"))).to_pylist()
    assert len(rows) == 7
    assert sorted(row["id"] for row in rows if not row["kept"]) == ["0-2", "1-1", "2-2", "3-0"]


def test_rows_are_compared_by_columns_where_asked_and_not_where_all_are_null() -> None:
    rows: list[list[Row]] = [
        [{"url": "x", "n": 1, "id": 0}, {"url": None, "n": None, "id": 1}, {"url": "x", "n": 2, "id": 2}],
        [{"url": None, "n": None, "id": 3}, {"url": "x", "n": 1, "id": 4}],
    ]
    assert [row["id"] for row in run(ExactDuplicates(fields=["url"]), rows)] == [0, 1, 3]
    assert [row["id"] for row in run(ExactDuplicates(fields=["url", "n"]), rows)] == [0, 1, 2, 3]


def test_unicode_forms_of_one_text_are_equal_where_asked() -> None:
    rows = numbered([["\u00e9", "e\u0301", "\ufb01"], ["fi"]])
    assert [row["id"] for row in run(ExactDuplicates(), rows)] == [0, 1, 2, 3]
    assert [row["id"] for row in run(ExactDuplicates(normalize=["unicode"]), rows)] == [0, 2]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"keep": "longst"}, "keep='longst' is not a rule; did you mean 'longest'"),
        ({"action": "remove"}, "no action 'remove'"),
        ({"normalize": ["case", "space"]}, "no normalize 'space'"),
        ({"fields": []}, r"fields=\[\] must be a list of column names"),
        ({"fields": ["url"], "normalize": ["case"]}, "normalize is for texts"),
    ],
)
def test_settings_that_there_are_not_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError, match=f"exact_duplicates: {sentence}"):
        ExactDuplicates(**settings)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_slice_of_a_table_has_the_hashes_of_its_rows(kind: pa.DataType) -> None:
    table = pa.table({"text": pa.array(["x", "y", None, "z"], kind)})
    whole, part = content_hashes(table, "text"), content_hashes(table.slice(1, 3), "text")
    assert (whole.rows.tolist(), part.rows.tolist()) == ([0, 1, 3], [0, 2])
    assert part.hashes.tolist() == whole.hashes[1:].tolist()

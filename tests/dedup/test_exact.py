import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DaskExecutor, ExactDuplicates, InlineExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline
from dcurate.frames.hashes import hashes_of, repeats, with_hashes
from dcurate.run import Executor


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
    expected = ["0-0", "0-1", "1-0", "1-2", "1-3", "2-1"]
    assert ids(source, InlineExecutor(), tmp_path) == expected
    assert ids(source, DaskExecutor(cluster=cluster), tmp_path) == expected
    assert ids(source, DaskExecutor({"execution_mode": "batch"}, cluster), tmp_path) == expected


def test_duplicates_are_counted_and_kept_where_asked(tmp_path: Path) -> None:
    stages = [JsonlReader(write(tmp_path / "in", FILES)), ExactDuplicates()]
    result = Pipeline("test", stages=stages).run(InlineExecutor(), rejected=str(tmp_path / "rejected"))
    stats = result.report.stages[1]
    assert (stats.name, stats.rows_in, stats.rows_out, stats.dropped) == (
        "exact_duplicates",
        11,
        6,
        {"exact_duplicate": 5},
    )
    kept = [
        json.loads(line) for path in (tmp_path / "rejected").rglob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert sorted(row["id"] for row in kept) == ["0-2", "1-1", "2-0", "2-2", "3-0"]
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
    stages = [JsonlReader(source), ExactDuplicates(), JsonlWriter(str(output))]

    def run() -> tuple[int, dict[str, float]]:
        report = Pipeline("test", stages=stages).run(InlineExecutor(), resume=True).report
        assert report.stages[1].dropped == {"exact_duplicate": 5}
        return report.splits_before, {path.name: path.stat().st_mtime_ns for path in output.glob("*.jsonl")}

    first, second = run(), run()
    assert (first[0], second[0]) == (0, 4)
    assert first[1] == second[1]
    next(output.glob("00-*")).unlink()
    assert run()[1].keys() == first[1].keys()


def test_nothing_is_left_beside_the_output(tmp_path: Path) -> None:
    ids(write(tmp_path / "in", FILES), InlineExecutor(), tmp_path)
    assert not list((tmp_path / "out-inline" / "_dcurate").glob("exact_duplicates*"))


texts = st.lists(st.lists(st.sampled_from(["", "a", "b", "ä", "ab" * 9]), max_size=6), max_size=5)


@settings(deadline=None)
@given(texts)
def test_repeats_are_what_python_s_own_set_says(files: list[list[str]]) -> None:
    seen: set[str] = set()
    expected = []
    for one in files:
        expected.append([text in seen or seen.add(text) is not None for text in one])  # type: ignore[func-returns-value]
    tables = [with_hashes(pa.table({"text": pa.array(one, pa.string())}), "text", "hash") for one in files]
    assert [marks.tolist() for marks in repeats(hashes_of(table, "hash") for table in tables)] == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_slice_of_a_table_has_the_hashes_of_its_rows(kind: pa.DataType) -> None:
    table = pa.table({"text": pa.array(["x", "y", None, "z"], kind)})
    whole = hashes_of(with_hashes(table, "text", "hash"), "hash")
    part = hashes_of(with_hashes(table.slice(1, 2), "text", "hash"), "hash")
    assert part.tolist() == whole[1:3].tolist()

"""A sample of a run, derived again, is what was proved, or differs where the sources or the records do."""

import json
from pathlib import Path

import pandas as pd
import pytest

from dcurate import (
    DataError,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
)
from dcurate.core.stage import Stage
from dcurate.fs.stores import Directory
from dcurate.io.proof_record import ProofRecord
from dcurate.runs import prove, prove_sample
from dcurate.text import AddId, WordCountFilter


def lines(name: str, rows: int) -> bytes:
    return b"".join(
        json.dumps({"key": f"{name}{row}", "text": "word " * (row % 4)}).encode() + b"\n" for row in range(rows)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten files of 40 rows."""
    (tmp_path / "in").mkdir()
    for number in range(10):
        (tmp_path / "in" / f"{number}.jsonl").write_bytes(lines(f"{number}-", 40))
    return tmp_path


def pipeline(folder: Path, *stages: Stage) -> Pipeline:
    words = ScoreFilter(WordCountFilter(min_words=2))
    last = JsonlWriter(str(folder / "out"))
    return Pipeline("demo", stages=[JsonlReader(str(folder / "in")), words, *(stages or (AddId("id"),)), last])


def run(folder: Path, *stages: Stage) -> Pipeline:
    made = pipeline(folder, *stages)
    made.run(InlineExecutor(), proof=True, observers=[])
    return made


def test_a_sample_is_derived_and_another_seed_draws_others(folder: Path) -> None:
    run(folder)
    proof = prove_sample(str(folder / "out"), pipeline(folder), rows=100)
    assert (proof.changes, proof.rows, proof.splits, proof.files, proof.from_record) == ((), 120, 3, 3, ())
    everything = prove_sample(str(folder / "out"), pipeline(folder), rows=10_000, seed=1)
    assert (everything.changes, everything.rows, everything.splits) == ((), 400, 10)
    assert everything.root == prove(str(folder / "out")).root


def test_a_source_that_gives_another_row_is_found_and_the_row_is_located(folder: Path) -> None:
    run(folder)
    source = folder / "in" / "4.jsonl"
    source.write_bytes(source.read_bytes().replace(b"4-3", b"4-9", 1))
    changes = prove_sample(str(folder / "out"), pipeline(folder), rows=10_000).changes
    [change] = [change for change in changes if change.row is not None]
    assert (change.what, change.split, change.row) == ("underived", "4.jsonl", 1)
    assert change.why == "changed in what the sources give"


def test_a_dropped_row_that_is_another_one_now_is_found(folder: Path) -> None:
    run(folder)
    source = folder / "in" / "4.jsonl"
    source.write_bytes(source.read_bytes().replace(b"4-5", b"4-x", 1))
    [change] = prove_sample(str(folder / "out"), pipeline(folder), rows=10_000).changes
    sentence = "stage 'word_count' takes out other rows; its source files have changed since the run"
    assert (change.what, change.split, change.why) == ("underived", "4.jsonl", sentence)


def test_a_row_that_gets_another_verdict_is_found(folder: Path) -> None:
    run(folder)
    source = folder / "in" / "4.jsonl"
    source.write_bytes(source.read_bytes().replace(b'"word "', b'"word word"', 1))
    changes = prove_sample(str(folder / "out"), pipeline(folder), rows=10_000).changes
    assert changes[0].why == (
        "stage 'word_count' gives rows_in 40, rows_out 21, dropped {'word_count': 19}, and the record says rows_in 40, "
        "rows_out 20, dropped {'word_count': 20}; its source files have changed since the run"
    )
    assert [change.row for change in changes if change.row is not None][:1] == [0]


def test_sources_that_are_gone_are_named(folder: Path) -> None:
    run(folder)
    (folder / "in" / "4.jsonl").unlink()
    [change] = prove_sample(str(folder / "out"), pipeline(folder), rows=10_000).changes
    assert (change.split, change.why) == ("4.jsonl", "its source files are gone")
    for path in (folder / "in").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="in'"):
        prove_sample(str(folder / "out"), pipeline(folder))


def test_another_pipeline_and_rows_in_memory_are_refused(folder: Path) -> None:
    run(folder)
    other = Pipeline("demo", stages=[JsonlReader(str(folder / "in")), JsonlWriter(str(folder / "out"))])
    with pytest.raises(PipelineError, match="is not the one that wrote"):
        prove_sample(str(folder / "out"), other)
    with pytest.raises(PipelineError, match="rows=0 must be a whole number of at least 1"):
        prove_sample(str(folder / "out"), other, rows=0)
    memory = Pipeline("demo", stages=[JsonlWriter(str(folder / "two"))])
    memory.run(InlineExecutor(), pd.DataFrame({"text": ["a"]}), proof=True, observers=[])
    with pytest.raises(PipelineError, match="which reads nothing"):
        prove_sample(str(folder / "two"), memory)


def test_stages_that_compare_all_rows_are_taken_from_the_record_and_those_before_them_derived(folder: Path) -> None:
    made = run(folder, ExactDuplicates(), AddId("id"))
    proof = prove_sample(str(folder / "out"), made, rows=10_000)
    assert (proof.changes, proof.rows, proof.files) == ((), 400, 0)
    assert proof.from_record == ("exact_duplicates", "add_id", "jsonl_writer")
    source = folder / "in" / "4.jsonl"
    source.write_bytes(source.read_bytes().replace(b"4-5", b"4-x", 1))
    [change] = prove_sample(str(folder / "out"), made, rows=10_000).changes
    assert change.why.startswith("stage 'word_count' takes out other rows")


def test_parquet_is_derived_with_its_values(folder: Path) -> None:
    stages: list[Stage] = [JsonlReader(str(folder / "in")), ParquetWriter(str(folder / "out"), max_rows_per_file=7)]
    made = Pipeline("demo", stages=stages)
    made.run(InlineExecutor(), proof=True, observers=[])
    proof = prove_sample(str(folder / "out"), made, rows=10_000)
    assert (proof.changes, proof.files) == ((), 60)
    record = ProofRecord(Directory(str(folder / "out")))
    assert {split.split for split in record.splits()} == {f"{number}.jsonl" for number in range(10)}

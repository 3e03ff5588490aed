"""Shards of a run on hosts that no scheduler joins, and one output of them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    DataError,
    DocumentBatch,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    ParquetWriter,
    Pipeline,
    PipelineError,
    ScoreFilter,
    processing_stage,
)
from dcurate.core.pipeline import AnyStage
from dcurate.core.shard import Shard
from dcurate.fs.stores import Directory
from dcurate.io.ledger import saved_records
from dcurate.runs import prove, prove_sample
from dcurate.text import WordCountFilter
from tests.deadly import Broken
from tests.forked import finished
from tests.places import records

SPLITS, SHARDS = 70, 64


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(SPLITS):
        rows = [{"id": f"{number}-{row}", "text": "word " * (row % 4)} for row in range(5)]
        (folder / f"part-{number:03}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def pipeline(source: Path, output: Path, min_words: int = 1, mode: Any = "error") -> Pipeline:
    keep = ScoreFilter(WordCountFilter(min_words=min_words))
    return Pipeline("curate", stages=[JsonlReader(str(source)), keep, JsonlWriter(str(output), mode=mode)])


def run(shard: str, source: Path, output: Path, **options: Any) -> Any:
    return pipeline(source, output).run_shard(shard, InlineExecutor(), observers=[], **options).report


def content(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}


def ledger(output: Path) -> dict[str, Any]:
    segments = saved_records(Directory(str(output)))
    assert not segments.damaged
    return {
        record.split: (record.version, record.files, [(stage["name"], stage["rows_out"]) for stage in record.stats])
        for record in segments.records()
    }


def figures(report: Any) -> list[Any]:
    stages = [(one.name, one.rows_in, one.rows_out, one.dropped, one.scores) for one in report.stages]
    return [stages, report.splits, report.files, report.inputs_digest, report.outputs_digest, report.error]


def test_shards_and_finish_leave_what_one_run_leaves(source: Path, tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    whole = pipeline(source, one).run(InlineExecutor(), observers=[], rejected=str(tmp_path / "no")).report
    for number in range(SHARDS, 0, -1):
        run(f"{number}/{SHARDS}", source, many, rejected=str(tmp_path / "no-of-many"))
    joined = pipeline(source, many).finish()
    assert content(many) == content(one)
    assert content(tmp_path / "no-of-many") == content(tmp_path / "no")
    assert figures(joined.report) == figures(whole)
    resumed = pipeline(source, one).run(InlineExecutor(), observers=[], resume=True)
    assert [repr(files).replace(str(many), "") for files in joined] == [
        repr(files).replace(str(one), "") for files in resumed
    ]
    assert ledger(many) == ledger(one)
    beside = [path.name for path in records(many).iterdir()]
    assert {path.name for path in records(one).iterdir()} | {"runs", "shards.json"} == set(beside)
    left = {path.name for path in (records(many) / "runs" / "shard-3-of-64").iterdir() if path.is_file()}
    assert left == {"report.json", "report.txt", "report.html", "history.json"}
    again = pipeline(source, many).run(InlineExecutor(), observers=[], resume=True)
    assert again.report.nothing_was_left


def test_shards_with_a_proof_have_the_root_of_one_run(source: Path, tmp_path: Path) -> None:
    pipeline(source, tmp_path / "whole").run(InlineExecutor(), observers=[], proof=True)
    whole, output = prove(str(tmp_path / "whole")), tmp_path / "out"
    run("2/3", source, output, proof=True)
    run("1/3", source, output)  # the first decides
    with pytest.raises(DataError, match="has no proof: the run has not ended"):
        prove(str(output))
    run("3/3", source, output, proof=True)
    notices = [pipeline(source, output).finish().report.notices for _ in range(2)]
    assert all(any(whole.root in notice for notice in of_finish) for of_finish in notices)
    proof = prove(str(output), root=whole.root)
    assert proof.holds
    assert proof.rows == whole.rows
    assert prove_sample(str(output), pipeline(source, output), rows=20).holds
    path = min(output.iterdir())
    path.write_bytes(path.read_bytes().replace(b"word word", b"word Word", 1))
    assert [change.what for change in prove(str(output)).changes] == ["changed"]


def test_a_shard_with_a_proof_is_refused_beside_one_without(source: Path, tmp_path: Path) -> None:
    run("1/2", source, tmp_path / "out")
    with pytest.raises(PipelineError, match=r"the shards of .* were begun without a proof"):
        run("2/2", source, tmp_path / "out", proof=True)
    run("2/2", source, tmp_path / "out")
    pipeline(source, tmp_path / "out").finish()
    with pytest.raises(DataError, match="has no proof: run the pipeline with proof=True"):
        prove(str(tmp_path / "out"))


@pytest.mark.parametrize("of", [1, 2, 7, 200])
def test_shares_are_disjoint_and_whole(of: int) -> None:
    shares = [list(Shard(number, of).share(range(SPLITS))) for number in range(1, of + 1)]
    assert sorted(split for share in shares for split in share) == list(range(SPLITS))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_finish_names_the_shards_that_are_missing(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(PipelineError, match="no shards have written to"):
        pipeline(source, output).finish()
    for number in (1, 2, 4):
        run(f"{number}/4", source, output)
    with pytest.raises(DataError, match=r"^shard 3/4 of .* has not finished; let it end, or run it again: .* 3/4 --re"):
        pipeline(source, output).finish()
    run("3/4", source, output, resume=True)  # as an array does, whose tasks all have --resume
    first = pipeline(source, output).finish()
    assert figures(pipeline(source, output).finish().report) == figures(first.report)
    with pytest.raises(DataError, match="were joined, so it is finished"):
        run("3/4", source, output, resume=True)


def test_a_list_of_many_missing_shards_is_short(source: Path, tmp_path: Path) -> None:
    run("1/9", source, tmp_path / "out")
    with pytest.raises(DataError, match=r"shards 2/9, 3/9, 4/9, 5/9, 6/9 and 3 more of .* have not finished"):
        pipeline(source, tmp_path / "out").finish()


def test_a_shard_that_was_begun_is_not_begun_again(source: Path, tmp_path: Path) -> None:
    run("1/2", source, tmp_path / "out")
    with pytest.raises(DataError, match=r"shard 1/2 of .* has begun before; go on with resume=True"):
        run("1/2", source, tmp_path / "out")
    assert run("1/2", source, tmp_path / "out", resume=True).nothing_was_left


def test_shards_of_another_pipeline_or_number_are_refused(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run("1/2", source, output)
    with pytest.raises(PipelineError, match="begun in 2 shards, and this is one of 3"):
        run("1/3", source, output)
    other = pipeline(source, output, min_words=2)
    with pytest.raises(PipelineError, match="begun by another pipeline: stage '.*' is changed"):
        other.run_shard("2/2", InlineExecutor(), observers=[])
    run("2/2", source, output)
    with pytest.raises(PipelineError, match="begun by another pipeline"):
        other.finish()


def test_a_pipeline_that_cannot_run_in_shards_is_refused(source: Path, tmp_path: Path) -> None:
    reader, writer = JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out"))
    dedup = Pipeline("dedup", stages=[reader, ExactDuplicates(), writer])
    for call in (lambda: dedup.run_shard("1/2", InlineExecutor()), dedup.finish):
        with pytest.raises(PipelineError, match="stage 'exact_duplicates.*' needs the rows of all shards at once"):
            call()
    with pytest.raises(PipelineError, match="ends with a writer of files"):
        Pipeline("none", stages=[reader]).run_shard("1/2", InlineExecutor())
    with pytest.raises(PipelineError, match="mode='overwrite' cannot be used with shards"):
        pipeline(source, tmp_path / "out", mode="overwrite").run_shard("1/2", InlineExecutor())
    for text in ("0/2", "3/2", "1", "1/0", "a/b", "1/2/3"):
        with pytest.raises(PipelineError, match="is not a shard"):
            run(text, source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not records(tmp_path / "out").exists()


def test_an_output_of_another_run_is_left_alone(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    pipeline(source, output).run(InlineExecutor(), observers=[])
    before = content(output)
    with pytest.raises(DataError, match="holds the output of a finished"):
        run("1/2", source, output, resume=True)
    assert content(output) == before


def test_an_input_that_changes_between_shards_is_noticed(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run("1/2", source, output)
    (source / "part-000a.jsonl").write_text('{"id": "new", "text": "a new row"}\n')
    run("2/2", source, output)
    with pytest.raises(DataError, match=r"shard 1/2 of .* read another input than there is now; run all shards again"):
        pipeline(source, output).finish()
    for shard in ("1/2", "2/2"):
        run(shard, source, output, resume=True)
    joined = pipeline(source, output).finish().report
    whole = pipeline(source, tmp_path / "one").run(InlineExecutor(), observers=[]).report
    assert content(output) == content(tmp_path / "one")
    assert ledger(output) == ledger(tmp_path / "one")
    assert joined.stages[-1].rows_out == whole.stages[-1].rows_out


def test_a_file_that_is_gone_is_not_counted_as_written(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    for shard in ("1/2", "2/2"):
        run(shard, source, output)
    sorted(output.glob("*.jsonl"))[7].unlink()
    with pytest.raises(DataError, match=r"split '.*' is not finished, or a file of it is gone; run the shards again"):
        pipeline(source, output).finish()
    for shard in ("1/2", "2/2"):
        run(shard, source, output, resume=True)
    pipeline(source, output).finish()
    pipeline(source, tmp_path / "one").run(InlineExecutor(), observers=[])
    assert content(output) == content(tmp_path / "one")


def test_splits_that_cannot_be_read_are_reported_and_tried_again_by_a_later_run(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in "abcdef":
        (broken / f"{name}.jsonl").write_text('{"text": "one two"}\n')
    mark = tmp_path / "mark"
    mark.touch()

    def damaged(output: Path) -> Pipeline:
        reader = Broken(str(broken), mark=str(mark)).with_(ignore_failures=True)
        return Pipeline("read", stages=[reader, JsonlWriter(str(output))])

    whole = damaged(tmp_path / "one").run(InlineExecutor(), observers=[]).report
    assert whole.notices[0].startswith("1 of 6 splits are not finished")
    for shard in ("1/2", "2/2"):
        damaged(tmp_path / "many").run_shard(shard, InlineExecutor(), observers=[])
    joined = damaged(tmp_path / "many").finish().report
    assert figures(joined) == figures(whole)
    assert joined.notices == whole.notices
    assert joined.quarantine_path
    mark.unlink()
    again = damaged(tmp_path / "many").run(InlineExecutor(), observers=[], resume=True).report
    assert (again.splits_before, again.stages[-1].rows_out) == (5, 6)


def test_parquet_in_shards(source: Path, tmp_path: Path) -> None:
    def written(output: Path) -> Pipeline:
        return Pipeline("parquet", stages=[JsonlReader(str(source)), ParquetWriter(str(output))])

    written(tmp_path / "one").run(InlineExecutor(), observers=[])
    for number in range(1, 6):
        written(tmp_path / "many").run_shard(f"{number}/5", InlineExecutor(), observers=[])
    written(tmp_path / "many").finish()
    assert content(tmp_path / "many") == content(tmp_path / "one")


def test_finish_can_be_killed_anywhere(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    for number in range(1, 6):
        run(f"{number}/5", source, output)
    write, remove = Directory.writing, Directory.remove
    deadly = 0
    while True:
        left = deadly

        def dies(call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*args: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
                return call(*args, **options)

            return wrapped

        monkeypatch.setattr(Directory, "writing", dies(write))
        monkeypatch.setattr(Directory, "remove", dies(remove))
        try:
            pipeline(source, output).finish()
            break
        except KeyboardInterrupt:
            deadly += 1
        finally:
            monkeypatch.undo()
    assert deadly > 8
    pipeline(source, tmp_path / "one").run(InlineExecutor(), observers=[])
    assert content(output) == content(tmp_path / "one")
    assert ledger(output) == ledger(tmp_path / "one")


@processing_stage(name="nap")
def nap(batch: DocumentBatch) -> DocumentBatch:
    time.sleep(float(os.environ.get("NAP", "0")))
    return batch


PROGRAM = """
import sys, time
from dcurate import InlineExecutor, JsonlReader, JsonlWriter, Pipeline
from tests.run.test_shards import nap

source, output, shard = sys.argv[1:]
stages = [JsonlReader(source), nap, JsonlWriter(output)]
Pipeline("slow", stages=stages).run_shard(shard, InlineExecutor(), observers=[], resume=True)
"""


def test_a_shard_that_is_killed_is_resumed_and_another_process_that_runs_it_is_refused(
    source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    stages: list[AnyStage] = [JsonlReader(str(source)), nap, JsonlWriter(str(output))]
    slow = Pipeline("slow", stages=stages)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(source), str(output), "2/2"], env={**os.environ, "NAP": "0.5"}
    )
    try:
        end = time.monotonic() + 120
        while len(list(output.glob("*.jsonl"))) < 5:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        with pytest.raises(DataError, match=rf"is being written by run .* \(process {process.pid} on "):
            slow.run_shard("2/2", InlineExecutor(), observers=[], resume=True)
    finally:
        process.kill()
        process.wait(30)
    slow.run_shard("1/2", InlineExecutor(), observers=[])
    with pytest.raises(DataError, match="shard 2/2 of .* has not finished"):
        slow.finish()
    resumed = slow.run_shard("2/2", InlineExecutor(), observers=[], resume=True).report
    assert resumed.splits == SPLITS // 2
    slow.finish()
    Pipeline("slow", stages=[stages[0], nap, JsonlWriter(str(tmp_path / "one"))]).run(InlineExecutor(), observers=[])
    assert content(output) == content(tmp_path / "one")


def test_the_commands(source: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "params: {input: null, output: null}\n"
        "stages:\n- JsonlReader: {file_paths: '${input}'}\n- JsonlWriter: {path: '${output}'}\n"
    )
    places = ["--input", source, "--output", tmp_path / "out"]

    def dcurate(*command: object) -> Any:
        return finished([sys.executable, "-m", "dcurate.cli", *command], cwd=tmp_path)

    first = dcurate("run", recipe, *places, "--mode", "inline", "--shard", "1/2", "--progress", "none")
    assert first.returncode == 0, first.stderr
    assert "shard-1-of-2/report.html" in first.stdout.replace("\n", "")
    missing = dcurate("finish", recipe, *places)
    assert missing.returncode == 1
    assert "error: shard 2/2 of" in missing.stderr
    assert missing.stderr.count("\n") == 1
    wrong = dcurate("run", recipe, *places, "--shard", "3/2")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    second = dcurate("run", recipe, *places, "--mode", "inline", "--shard", "2/2", "--resume", "--quiet")
    assert second.returncode == 0, second.stderr
    done = dcurate("finish", recipe, *places)
    assert done.returncode == 0, done.stderr
    assert f"{SPLITS * 5:,}" in done.stdout
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == SPLITS

"""The proof of a run is the same however it runs, and leaves what the run writes as it is."""

import json
import random
import signal
from pathlib import Path

import pandas as pd
import pytest

from dcurate import (
    DaskExecutor,
    FuzzyDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    ParquetWriter,
    Pipeline,
    PipelineError,
    TokenWriter,
)
from dcurate.core.stage import Stage
from dcurate.running.executor import Executor
from dcurate.runs import prove
from tests.dying import dying
from tests.faulty import CrashOn, RaiseOn
from tests.forked import run_forked
from tests.run.curate import pipeline
from tests.stages import KeepEvery

pytestmark = pytest.mark.cluster

_IGNORES = {"ignore_failures": True}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve files of texts, some of which are in several."""
    folder = tmp_path_factory.mktemp("in")
    draw = random.Random(3)
    for number in range(12):
        texts = ["".join(draw.choices("abc", k=draw.randint(3, 9))) for _ in range(12)]
        (folder / f"part-{number:02}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return folder


@pytest.fixture(scope="module")
def root(source: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root of a run in one process."""
    output = tmp_path_factory.mktemp("whole") / "out"
    report = pipeline(str(source), str(output)).run(InlineExecutor(), proof=True, observers=[]).report
    proof = prove(str(output))
    assert proof.holds
    assert proof.rows == report.stages[-1].rows_out
    assert any(proof.root in notice for notice in report.notices)
    return proof.root


@pytest.mark.parametrize(("workers", "mode"), [(1, "streaming"), (2, "batch"), (3, "streaming")])
def test_the_root_is_the_same_for_any_workers(workers: int, mode: str, source: Path, root: str, tmp_path: Path) -> None:
    with LocalCluster(n_workers=workers, gpus=False) as cluster:
        executor = DaskExecutor({"execution_mode": mode}, cluster)
        pipeline(str(source), str(tmp_path / "out")).run(executor, proof=True, observers=[])
    proof = prove(str(tmp_path / "out"), root=root)
    assert proof.holds
    assert proof.root == root


@pytest.mark.parametrize("place", ["out.dcurate/rounds/**/*.chunks", "out/*.jsonl"])
def test_the_root_is_the_same_after_a_kill_in_each_round_and_a_resume(
    place: str, source: Path, root: str, tmp_path: Path
) -> None:
    command = dying(tmp_path, place, "tests.run.curate", source, tmp_path / "out", "inline", "proved")
    assert run_forked(command) == -signal.SIGKILL
    pipeline(str(source), str(tmp_path / "out")).run(InlineExecutor(), resume=True, observers=[])
    proof = prove(str(tmp_path / "out"))
    assert proof.holds
    assert proof.root == root


def short(source: Path, output: Path) -> Pipeline:
    return Pipeline("short", stages=[JsonlReader(str(source)), KeepEvery(3), JsonlWriter(str(output))])


def test_a_run_writes_the_same_with_a_proof_and_its_ledger_has_one_only_then(source: Path, tmp_path: Path) -> None:
    contents = []
    for name, proof in (("plain", False), ("proved", True)):
        short(source, tmp_path / name).run(InlineExecutor(), proof=proof, observers=[])
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
        ledger = b"".join(path.read_bytes() for path in Path(f"{tmp_path / name}.dcurate", "ledger").iterdir())
        assert (b'"proof"' in ledger) is proof
        assert Path(f"{tmp_path / name}.dcurate", "proof").exists() is proof
    assert contents[0] == contents[1]


def test_a_stream_leaves_the_proof_of_a_run(source: Path, tmp_path: Path) -> None:
    short(source, tmp_path / "run").run(InlineExecutor(), proof=True, observers=[])
    batches = list(short(source, tmp_path / "stream").stream(InlineExecutor(), proof=True, observers=[]))
    assert len(batches) == 12
    assert prove(str(tmp_path / "stream")).root == prove(str(tmp_path / "run")).root


def test_a_proof_is_not_begun_in_the_middle_of_a_run(source: Path, tmp_path: Path) -> None:
    short(source, tmp_path / "out").run(InlineExecutor(), observers=[])
    with pytest.raises(PipelineError, match="was begun without a proof, so what it finished has none; resume it"):
        short(source, tmp_path / "out").run(InlineExecutor(), resume=True, proof=True, observers=[])


def test_a_new_run_without_a_proof_leaves_none_of_the_run_before(source: Path, tmp_path: Path) -> None:
    short(source, tmp_path / "out").run(InlineExecutor(), proof=True, observers=[])
    stages: list[Stage] = [JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out"), mode="overwrite")]
    Pipeline("again", stages=stages).run(InlineExecutor(), observers=[])
    assert not Path(tmp_path, "out.dcurate", "proof").exists()


def test_writers_whose_rows_cannot_be_proved_are_refused(tmp_path: Path) -> None:
    rows = pd.DataFrame({"text": ["a"]})
    path = str(tmp_path / "out")
    refused: list[tuple[Stage, str]] = [
        (JsonlWriter(path, mode="append"), "mode='append' leaves rows of other runs in the output"),
        (ParquetWriter(path, write_kwargs={"coerce_timestamps": "ms"}), "write_kwargs 'coerce_timestamps' may change"),
        (TokenWriter(path, "tokenizer.json"), "the pipeline ends with stage 'token"),
    ]
    for writer, sentence in refused:
        with pytest.raises(PipelineError, match=sentence):
            Pipeline("x", stages=[writer]).run(InlineExecutor(), rows, proof=True, observers=[])
    with pytest.raises(PipelineError, match="the pipeline has no writer; end it with one of them"):
        Pipeline("x", stages=[KeepEvery(2)]).run(InlineExecutor(), rows, proof=True, observers=[])


def test_rounds_of_a_search_for_near_duplicates_are_proved(source: Path, tmp_path: Path) -> None:
    stages: list[Stage] = [JsonlReader(str(source)), FuzzyDuplicates(), JsonlWriter(str(tmp_path / "out"))]
    report = Pipeline("near", stages=stages).run(InlineExecutor(), proof=True, observers=[]).report
    proof = prove(str(tmp_path / "out"))
    assert proof.holds
    assert proof.rows == report.stages[-1].rows_out < report.stages[0].rows_out


def test_rows_that_fail_and_bad_lines_are_proved_alike(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        texts = [f"{name}{row}{'!' if row % 7 == 3 else '?' if row == 9 else ''}" for row in range(20)]
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / "in" / f"{name}.jsonl").write_text("\n".join([*lines, "no JSON"]) + "\n")
    roots = set()
    executors: list[Executor] = [InlineExecutor(_IGNORES), DaskExecutor(_IGNORES, cluster)]
    for number, executor in enumerate(executors):
        reader = JsonlReader(str(tmp_path / "in"), on_bad_line="quarantine")
        writer = JsonlWriter(str(tmp_path / f"{number}"))
        stages: list[Stage] = [reader, RaiseOn(), RaiseOn("?").with_(name="more"), writer]
        report = Pipeline("fails", stages=stages).run(executor, proof=True, observers=[]).report
        assert sum(sum(stage.faulty.values()) for stage in report.stages) == 10
        proof = prove(str(tmp_path / f"{number}"))
        assert proof.holds
        roots.add(proof.root)
    assert len(roots) == 1


def test_rows_that_kill_their_process_are_proved(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ("a", "b!", "c", "d")))
    roots = set()
    for workers in (1, 2):
        output = str(tmp_path / f"out{workers}")
        stages: list[Stage] = [JsonlReader(str(tmp_path / "a.jsonl")), CrashOn(), JsonlWriter(output)]
        with LocalCluster(n_workers=workers, gpus=False) as deadly:
            Pipeline("dies", stages=stages).run(DaskExecutor(_IGNORES, deadly), proof=True, observers=[])
        proof = prove(output)
        assert (proof.holds, proof.rows) == (True, 3)
        roots.add(proof.root)
    assert len(roots) == 1


def test_dropped_rows_are_not_kept_among_those_that_are_proved(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    pipeline = Pipeline("x", stages=[JsonlReader(str(tmp_path / "in.jsonl")), JsonlWriter(str(tmp_path / "out"))])
    with pytest.raises(PipelineError, match=r"rejected='.*dropped' is in the output, and proof=True is of all rows"):
        pipeline.run(InlineExecutor(), proof=True, rejected=str(tmp_path / "out/dropped"), observers=[])
    assert not (tmp_path / "out").exists()

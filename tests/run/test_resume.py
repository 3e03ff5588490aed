"""Half a run and a resume equal one run, wherever the first was killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dcurate import (
    DaskExecutor,
    DataError,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
)
from dcurate.core.pipeline import AnyStage
from tests.conftest import ROOT
from tests.dedup.test_fuzzy import documents
from tests.dying import dying
from tests.forked import run_forked
from tests.places import is_data
from tests.run.curate import near_duplicates, pipeline
from tests.stages import Append, KeepEvery

pytestmark = pytest.mark.cluster


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Twenty-four files of texts, some of which stand in several."""
    folder = tmp_path / "in"
    folder.mkdir()
    draw = random.Random(3)
    for number in range(24):
        texts = ["".join(draw.choices("abc", k=draw.randint(3, 9))) for _ in range(12)]
        (folder / f"part-{number:02}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return folder


def content(output: Path) -> dict[str, bytes]:
    """Every output file and its bytes, without the run's own records."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file() and is_data(path)
    }


@pytest.fixture
def whole(source: Path, tmp_path: Path) -> dict[str, bytes]:
    """What one uninterrupted run writes."""
    pipeline(str(source), str(tmp_path / "whole")).run(InlineExecutor())
    return content(tmp_path / "whole")


def start(source: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.run.curate", str(source), str(output), "streaming", "several"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True, stdout=-1, stderr=-1)


def files(output: Path) -> int:
    """How many files there are of results, and of what one round leaves for the next."""
    # Folders may be removed meanwhile, which os.walk passes over and Path.rglob does not.
    return sum(name.endswith((".chunks", ".jsonl")) for _, _, names in os.walk(output) for name in names)


def wait_for_files(run: subprocess.Popen[bytes], output: Path, more: int) -> None:
    """Wait until a run has made so many files more, or has ended."""
    before = files(output)
    while run.poll() is None and files(output) < before + more:
        time.sleep(0.01)


@pytest.mark.parametrize(("victim", "seed"), [("driver", 0), ("worker", 0), ("everything", 0)])
def test_a_killed_run_goes_on_to_the_same_bytes(
    victim: str, seed: int, source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    output, draw = tmp_path / "out", random.Random(f"{victim}{seed}")
    for _ in range(2 if victim == "everything" else 1):
        run = start(source, output)
        wait_for_files(run, output, draw.randint(1, 60))  # of about 80
        children = psutil.Process(run.pid).children(recursive=True) if run.poll() is None else []
        workers = [child for child in children if child.ppid() != run.pid]  # forked from a child of the run
        if victim == "driver":
            run.kill()
        elif victim == "everything":
            os.killpg(run.pid, signal.SIGKILL)
        elif workers:
            draw.choice(workers).kill()
        err = run.communicate(timeout=240)[1]
        assert victim != "worker" or run.returncode == 0, err.decode()
        psutil.wait_procs(children, timeout=120)
        for path in content(output).values():
            assert path.endswith(b"\n"), "a partial file under a final name"
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        pipeline(str(source), str(output)).run(DaskExecutor({"execution_mode": "streaming"}, cluster), resume=True)
    assert content(output) == whole


def test_near_duplicates_are_the_same_when_each_round_of_their_search_is_killed(source: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted(source.iterdir())):
        rows = [{"text": text, "id": f"{number}-{row}"} for row, text in enumerate(documents(number % 20, 3, 6))]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    near_duplicates(str(source), str(tmp_path / "whole")).run(InlineExecutor())
    whole, output = content(tmp_path / "whole"), tmp_path / "out"
    for round_ in ("", "_pairs", "_labels", "_gathered", "_marks", "done"):
        place = "out/*.jsonl" if round_ == "done" else f"out.dcurate/rounds/fuzzy_duplicates{round_}/**/*.chunks"
        command = dying(tmp_path, place, "tests.run.curate", source, output, "inline", "near")
        assert run_forked(command) == -signal.SIGKILL, f"not killed in {round_}"
        assert any(tmp_path.glob(place))
    near_duplicates(str(source), str(output)).run(InlineExecutor(), resume=True)
    assert content(output) == whole
    assert len(whole) == 21  # groups, and those of the inputs that do not repeat others


def test_a_second_run_does_only_what_is_missing(source: Path, tmp_path: Path) -> None:
    def run() -> tuple[int, int]:
        stages: list[AnyStage] = [JsonlReader(str(source)), Append(), JsonlWriter(str(tmp_path / "out"))]
        report = Pipeline("test", stages=stages).run(InlineExecutor(), resume=True).report
        return report.splits_before, report.splits

    assert run() == (0, 24)
    assert run() == (24, 24)
    (source / "part-99.jsonl").write_text('{"text": "new"}\n')
    (source / "part-03.jsonl").write_text('{"text": "changed"}\n')
    assert run() == (23, 25)
    assert '{"text":"changeda"}\n' in [text.decode() for text in content(tmp_path / "out").values()]


def test_another_pipeline_is_not_resumed_into_the_same_output(source: Path, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    Pipeline("test", stages=[JsonlReader(str(source)), KeepEvery(2), JsonlWriter(output)]).run(InlineExecutor())
    changed = Pipeline("test", stages=[JsonlReader(str(source)), KeepEvery(3), JsonlWriter(output)])
    with pytest.raises(PipelineError, match="keep_every"):
        changed.run(InlineExecutor(), resume=True)


def test_an_output_is_not_written_over_unasked(source: Path, tmp_path: Path) -> None:
    stages: list[AnyStage] = [JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out"))]
    Pipeline("test", stages=stages).run(InlineExecutor())
    with pytest.raises(DataError, match="resume=True"):
        Pipeline("test", stages=stages).run(InlineExecutor())


def test_the_report_of_a_resumed_run_counts_all_rows(source: Path, tmp_path: Path) -> None:
    stages: list[AnyStage] = [JsonlReader(str(source)), KeepEvery(2), JsonlWriter(str(tmp_path / "out"))]
    first = Pipeline("test", stages=stages).run(InlineExecutor(), resume=True)
    again = Pipeline("test", stages=stages).run(InlineExecutor(), resume=True)
    counts = [[(s.name, s.rows_in, s.rows_out, s.dropped) for s in run.report.stages] for run in (first, again)]
    assert counts[0] == counts[1]
    assert [file.data for file in first] == [file.data for file in again]  # type: ignore[attr-defined]

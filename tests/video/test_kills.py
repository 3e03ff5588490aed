"""Films are decoded and measured with the same rows by any number of workers, also while they are killed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from distributed.worker import Worker

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, JsonlWriter, LocalCluster, MediaReader, Pipeline
from dcurate.core.pipeline import AnyStage
from dcurate.video import VideoInfo, VideoSignals
from tests.audio.layouts.test_workers import files_of
from tests.engine.test_kills import Killer
from tests.faulty import mark
from tests.video.films import KINDS, film

pytestmark = pytest.mark.cluster

FILMS, KILLS = 12, 20


@dataclass
class SlowInfo(VideoInfo):
    """Takes its time before it reads what the container says, and says so."""

    folder: str = ""

    def process(self, batch: DocumentBatch) -> DocumentBatch:
        phase = mark(self.folder, "probe") if list(Worker._instances) else None
        time.sleep(0.05)
        result = super().process(batch)
        if phase is not None:
            phase.unlink(missing_ok=True)
        return result


@dataclass
class SlowSignals(VideoSignals):
    """Takes its time before and after it decodes, and says so."""

    folder: str = ""

    def process(self, batch: DocumentBatch) -> DocumentBatch:
        phase = mark(self.folder, "decode") if list(Worker._instances) else None
        time.sleep(0.05)
        result = super().process(batch)
        time.sleep(0.05)
        if phase is not None:
            phase.unlink(missing_ok=True)
        return result


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Films in different containers, and as many files that are none."""
    root = tmp_path_factory.mktemp("corpus")
    for number in range(FILMS):
        (root / f"{number:02}.bin").write_bytes(film(sorted(KINDS)[number % len(KINDS)], frames=20 + number))
        (root / f"{number:02}.html").write_text("<html></html>")
    return root


def measured(
    corpus: Path, out: Path, executor: DaskExecutor | InlineExecutor, marks: Path
) -> tuple[dict[str, bytes], list[str]]:
    """Run a pipeline; return its files, and the quarantine's lines, in order."""
    stages: list[AnyStage] = [
        MediaReader(str(corpus), files_per_partition=1),  # an operator of its own, that ends first
        SlowInfo(folder=str(marks)),
        SlowSignals(folder=str(marks)),
        JsonlWriter(str(out)),
    ]
    result = Pipeline("films", stages=stages).run(executor, observers=[])
    rows = result.report.stages
    assert (rows[0].rows_out, rows[1].faulty, rows[-1].rows_out) == (
        2 * FILMS,
        {"not a film: HTML or XML": FILMS},
        FILMS,
    )
    quarantine = Path(f"{out}.dcurate", "quarantine").rglob("*.jsonl")
    return files_of(out), sorted(line for path in quarantine for line in path.read_text().splitlines())


@pytest.mark.timeout(600)
def test_the_bytes_depend_neither_on_workers_nor_on_their_deaths(
    corpus: Path, tmp_path: Path, cluster: LocalCluster
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    alone = measured(corpus, tmp_path / "inline", InlineExecutor(), marks)
    assert (len(alone[0]), len(alone[1])) == (FILMS, FILMS)
    with LocalCluster(n_workers=1, gpus=False) as one:
        assert measured(corpus, tmp_path / "one", DaskExecutor(cluster=one), marks) == alone
    assert measured(corpus, tmp_path / "two", DaskExecutor(cluster=cluster), marks) == alone
    with LocalCluster(n_workers=3, gpus=False) as three:
        assert measured(corpus, tmp_path / "three", DaskExecutor(cluster=three), marks) == alone
        killer = Killer(marks, "any", KILLS, seconds=400)
        killer.start()
        rounds = 0
        while killer.is_alive():
            rounds += 1
            killed = measured(corpus, tmp_path / f"killed-{rounds}", DaskExecutor(cluster=three), marks)
            assert killed == alone
    assert len(killer.killed) == KILLS

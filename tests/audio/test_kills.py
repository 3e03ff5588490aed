"""Decoded, measured, cut and written with the same bytes by any number of workers, also while they are killed."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from distributed.worker import Worker

from dcurate import DaskExecutor, DocumentBatch, FileGroup, InlineExecutor, LocalCluster, Pipeline
from dcurate.audio import AudioInfo, AudioSignals, CutAudio, LhotseSharWriter, NemoManifestReader
from dcurate.core.pipeline import AnyStage
from tests.audio.layouts.test_workers import files_of
from tests.audio.sounds import voice
from tests.engine.test_kills import Killer
from tests.faulty import mark

pytestmark = pytest.mark.cluster

MANIFESTS, RATE, KILLS = 12, 8_000, 20


@dataclass
class SlowCut(CutAudio):
    """Takes its time before and after it decodes and encodes, and says so, but in a process of a sandbox."""

    folder: str = ""

    def process(self, batch: DocumentBatch) -> DocumentBatch:
        phase = mark(self.folder, "process") if list(Worker._instances) else None
        time.sleep(0.05)
        cut = super().process(batch)
        time.sleep(0.05)
        if phase is not None:
            phase.unlink(missing_ok=True)
        return cut


@dataclass
class SlowSharWriter(LhotseSharWriter):
    """Takes its time before and after it writes, and says so."""

    folder: str = ""

    def process(self, batch: DocumentBatch) -> FileGroup:
        phase = mark(self.folder, "write") if list(Worker._instances) else None
        time.sleep(0.05)
        files = super().process(batch)
        time.sleep(0.05)
        if phase is not None:
            phase.unlink(missing_ok=True)
        return files


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Manifests of a recording in WAV, FLAC or Ogg each, whole and by segment, and of a file that is none."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "page.wav").write_text("<html></html>")
    for number in range(MANIFESTS):
        name = f"{number:02}.{('wav', 'flac', 'ogg')[number % 3]}"
        soundfile.write(folder / name, voice(number, 3.0, RATE).astype(np.float32), RATE)
        rows = [
            {"audio_filepath": name, "text": "whole"},
            {"audio_filepath": name, "text": "part", "offset": 0.25, "duration": 1.5},
            {"audio_filepath": "page.wav", "text": "none"},
        ]
        (folder / f"{number:02}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def written(
    corpus: Path, out: Path, executor: DaskExecutor | InlineExecutor, marks: Path
) -> tuple[dict[str, bytes], list[str]]:
    """Run a pipeline; return its files, and the quarantine's lines, in order."""
    stages: list[AnyStage] = [
        NemoManifestReader(f"{corpus}/*.jsonl"),
        AudioInfo(),
        AudioSignals(),
        SlowCut("ogg", sample_rate=16_000, loudness_lufs=-23, folder=str(marks)),
        SlowSharWriter(str(out), folder=str(marks)),
    ]
    result = Pipeline("speech", stages=stages).run(executor, observers=[])
    rows = result.report.stages
    assert (rows[0].rows_out, rows[1].faulty, rows[-1].rows_out) == (
        3 * MANIFESTS,
        {"not a recording: HTML or XML": MANIFESTS},
        2 * MANIFESTS,
    )
    quarantine = Path(f"{out}.dcurate", "quarantine").rglob("*.jsonl")
    return files_of(out), sorted(line for path in quarantine for line in path.read_text().splitlines())


@pytest.mark.timeout(600)
def test_the_bytes_depend_neither_on_workers_nor_on_their_deaths(
    corpus: Path, tmp_path: Path, cluster: LocalCluster
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    alone = written(corpus, tmp_path / "inline", InlineExecutor(), marks)
    assert (len(alone[0]), len(alone[1])) == (2 * MANIFESTS, MANIFESTS)
    with LocalCluster(n_workers=1, gpus=False) as one:
        assert written(corpus, tmp_path / "one", DaskExecutor(cluster=one), marks) == alone
    assert written(corpus, tmp_path / "two", DaskExecutor(cluster=cluster), marks) == alone
    with LocalCluster(n_workers=3, gpus=False) as three:
        assert written(corpus, tmp_path / "three", DaskExecutor(cluster=three), marks) == alone
        killer = Killer(marks, "any", KILLS, seconds=400)
        killer.start()
        rounds = 0
        while killer.is_alive():
            rounds += 1
            killed = written(corpus, tmp_path / f"killed-{rounds}", DaskExecutor(cluster=three), marks)
            assert killed == alone
    assert len(killer.killed) == KILLS

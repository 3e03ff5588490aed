"""Rows keep their lines when workers die, and when a run is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dcurate import DaskExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline, ScoreFilter, StageError
from dcurate.core.stage import Stage
from dcurate.text import AddId, WordCountFilter
from tests.io.test_fidelity import without, written
from tests.stages import DieOnce, FailOn

pytestmark = pytest.mark.cluster


@dataclass
class Failing(FailOn):
    """Fails on one text; which one does not matter to the run."""

    def settings(self) -> dict[str, Any]:
        return {}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        yield cluster


MANY = [f'{{"text": "{row}", "m": {{"{"ab"[row % 2]}": {row}}}, "n": {10**25 + row}}}\n'.encode() for row in range(400)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for start in range(0, len(MANY), 50):
        (folder / f"{start:03}.jsonl").write_bytes(b"".join(MANY[start : start + 50]))
    return folder


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_lines_survive_the_death_of_a_worker(cluster: LocalCluster, source: Path, tmp_path: Path, mode: str) -> None:
    die = DieOnce(folder=str(tmp_path), text="77")
    stages: list[Stage] = [
        JsonlReader(str(source)),
        AddId("an id"),
        die,
        without("an id"),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("deaths", stages=stages).run(DaskExecutor({"execution_mode": mode}, cluster), observers=[])
    assert (tmp_path / "died").exists()
    assert sorted(written(tmp_path / "out")) == sorted(MANY)


def test_lines_survive_a_resumed_run(cluster: LocalCluster, source: Path, tmp_path: Path) -> None:
    def run(text: str, resume: bool) -> None:
        filtered = ScoreFilter(WordCountFilter(min_words=1))
        stages: list[Stage] = [
            JsonlReader(str(source)),
            filtered,
            Failing(text=text),
            JsonlWriter(str(tmp_path / "out")),
        ]
        Pipeline("resumed", stages=stages).run(DaskExecutor(cluster=cluster), resume=resume, observers=[])

    with pytest.raises(StageError):
        run("277", resume=False)
    run("none of them", resume=True)
    assert sorted(written(tmp_path / "out")) == sorted(MANY)

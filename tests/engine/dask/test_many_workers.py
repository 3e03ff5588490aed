"""With many workers, tasks are stolen only while their operator has a free slot elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, LocalCluster, Pipeline, ProcessingStage
from dcurate.engine.dask import joining
from tests.stages import Append, KeepEvery, Numbers, OneByOne

pytestmark = pytest.mark.cluster


@dataclass
class FirstIsSlow(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Notes where each call begins; the first split takes as long as all others together, and longer."""

    folder: str = ""
    name: str = "first_is_slow"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        number = task.to_arrow()["text"][0].as_py()
        Path(self.folder, f"{time.time():.6f}-{os.getpid()}-{number}").touch()
        time.sleep(8.0 if number == "0" else 0.4)
        return task


@pytest.fixture
def large_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Two workers that count as many."""
    monkeypatch.setattr(joining, "MANY_WORKERS", 2)
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        yield cluster


def rows(batches: Any) -> list[tuple[str, list[str]]]:
    return sorted((str(batch.key), batch.to_arrow()["text"].to_pylist()) for batch in batches)


def test_many_workers_give_the_same_rows(large_cluster: LocalCluster) -> None:
    stages = Numbers(40, 7), Append("a"), OneByOne(), KeepEvery(3, 1), Append("b").with_(name="pinned", num_workers=1)
    pipeline = Pipeline("many", stages=list(stages))
    inline, dask = (rows(pipeline.run(executor)) for executor in (InlineExecutor(), DaskExecutor({}, large_cluster)))
    assert inline == dask


def test_what_waits_behind_a_long_call_is_stolen_by_a_free_slot(large_cluster: LocalCluster, tmp_path: Path) -> None:
    pipeline = Pipeline("steal", stages=[Numbers(6, 1), FirstIsSlow(str(tmp_path)).with_(num_workers=2)])
    assert len(list(pipeline.run(DaskExecutor({}, large_cluster)))) == 6
    calls = [name.name.split("-") for name in sorted(tmp_path.iterdir())]
    place = next(place for place, (_, _, number) in enumerate(calls) if number == "0")
    assert all(process != calls[place][1] for _, process, _ in calls[place + 1 :])

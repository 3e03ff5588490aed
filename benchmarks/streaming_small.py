"""Many CPU stages that cannot be fused, on a machine with fewer cores than stages: is the CPU busy with stage work?"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from benchmarks.hosts import busy_cpu, nothing_remembered
from benchmarks.sleeping import Diary, read_diary
from dcurate import (
    BatchKey,
    DaskExecutor,
    DocumentBatch,
    LocalCluster,
    Pipeline,
    ProcessingStage,
    SourceStage,
    WorkerMetadata,
)

STAGES = 8

#: CPU seconds of each stage for a batch, and bytes hashed between looks at the clock; hashing lets other threads run.
BURN_S, PIECE = 0.1, bytes(1 << 18)


class _Burner:
    """What the source and the other stages have in common. There is no set-up: that would be a reason not to share."""

    place: int
    folder: str

    @cached_property
    def diary(self) -> Diary:
        return Diary(self.folder, self.place)

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        diary = self.diary
        begin, cpu = time.monotonic(), time.thread_time()
        while time.thread_time() < cpu + BURN_S:
            hashlib.blake2b(PIECE).digest()
        diary.write("call", begin, time.monotonic(), work=time.thread_time() - cpu)
        return None if self.place == STAGES - 1 else DocumentBatch(data=pa.table({"number": [self.place]}))


@dataclass
class BurningSource(_Burner, SourceStage[DocumentBatch, DocumentBatch]):
    """Lists splits, and burns CPU over each."""

    place: int
    folder: str
    count: int
    name: str = "burning_source"

    def splits(self) -> Iterator[DocumentBatch]:
        for number in range(self.count):
            yield DocumentBatch(key=BatchKey(f"split-{number:05}"), data=pa.table({"number": [number]}))


@dataclass
class Burning(_Burner, ProcessingStage[DocumentBatch, DocumentBatch]):
    """Burns CPU over every batch."""

    place: int
    folder: str
    name: str = "burning"


class BurningWithSetup(Burning):
    """The same, with something to load first."""

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self.loaded = True


def small(seconds: float) -> dict[str, Any]:
    """Run such stages on an embedded cluster with a worker a core: without anything to set up, and with."""
    return {kind.__name__: _run(kind, seconds) for kind in (Burning, BurningWithSetup)}


def _run(kind: type[Burning], seconds: float) -> dict[str, Any]:
    """Run stages of a kind.

    Returns:
        ``stage_share``: CPU seconds of stage work by those that the cores had between the first call's begin and the
        last one's end. ``stage_share_of_free``: by those that other processes of the machine left.
        ``stage_share_with_start``: by those that the cores had from the call of the run to its return.
    """
    cores = os.cpu_count() or 1
    count = max(2, round(seconds * cores / (STAGES * BURN_S)))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dcurate-small-"))
        stack.enter_context(nothing_remembered())
        cluster = stack.enter_context(LocalCluster(n_workers=cores, gpus=False))
        stages: list[Any] = [BurningSource(0, folder, count)]
        stages += [kind(place, folder, f"burning_{place}") for place in range(1, STAGES)]
        pipeline = Pipeline("small", stages=[stage.with_(batch_size=2) for stage in stages])
        began, all_cpu, our_cpu = time.monotonic(), busy_cpu(), _tree_cpu()
        pipeline.run(DaskExecutor(cluster=cluster))
        wall = time.monotonic() - began
        ours = _tree_cpu() - our_cpu
        others = max(0.0, busy_cpu() - all_cpu - ours)
        calls = [entry for path in Path(folder).iterdir() for entry in read_diary(path) if entry.kind == "call"]
    work = sum(call.work for call in calls)
    span = max(call.end for call in calls) - min(call.begin for call in calls)
    return {
        "calls": len(calls),
        "stage_share": round(work / (cores * span), 4),
        "stage_share_of_free": round(work / (cores * span - others), 4),
        "stage_share_with_start": round(work / (cores * wall), 4),
        "stage_share_of_our_cpu": round(work / ours, 4),
        "wall_s": round(wall, 2),
        "cores": cores,
    }


def _tree_cpu() -> float:
    """CPU seconds that this process and those below it have used."""
    root = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (root, *root.children(recursive=True)))

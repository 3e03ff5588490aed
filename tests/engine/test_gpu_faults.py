"""Errors of CUDA in real worker processes: no row is lost, no innocent one blamed, and workers are restarted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from distributed import Worker

from dcurate import DaskExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline, ProcessingStage, RunResult
from dcurate.events import CallHung
from tests.engine.test_faults_rows import Heard, ids, quarantined
from tests.faulty import PoisonsOn
from tests.gpu_errors import OUT_OF_MEMORY, POISON
from tests.gpu_stages import NeedsGpuMemory

pytestmark = pytest.mark.cluster

ROWS = 4


def write(folder: Path, texts: list[list[str]]) -> None:
    """Write a file of each list; rows are numbered across files."""
    folder.mkdir()
    number = 0
    for file, each in enumerate(texts):
        rows = [{"id": number + row, "text": text} for row, text in enumerate(each)]
        number += len(each)
        (folder / f"part-{file:03}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(tmp_path: Path, stage: ProcessingStage, cluster: LocalCluster, *observers: Heard) -> RunResult:
    stages = [JsonlReader(str(tmp_path / "in")), stage, JsonlWriter(str(tmp_path / "out"))]
    executor = DaskExecutor({"ignore_failures": True}, cluster)
    return Pipeline("test", stages=stages).run(executor, observers=observers)


def process_id(dask_worker: Worker) -> int:
    return os.getpid()


def device_order(dask_worker: Worker) -> str | None:
    return os.environ.get("CUDA_DEVICE_ORDER")


def test_cuda_counts_gpus_in_workers_as_nvml_does(cluster: LocalCluster) -> None:
    assert set(cluster.client.run(device_order).values()) == {"PCI_BUS_ID"}


def test_a_poisoned_gpu_costs_the_process_and_only_the_row_that_poisons_it(tmp_path: Path) -> None:
    texts = [[str(file * ROWS + row) for row in range(ROWS)] for file in range(4)]
    texts[1][1] += "!0"
    texts[3][0] += "?1"
    write(tmp_path / "in", texts)
    heard = Heard()
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        before = set(cluster.client.run(process_id).values())
        result = run(tmp_path, PoisonsOn(str(tmp_path), tuple(POISON[:2])), cluster, heard)
        cluster.settle()
        after = set(cluster.client.run(process_id).values())
    assert ids(tmp_path / "out") == [row for row in range(4 * ROWS) if row != 5]
    (row,) = quarantined(tmp_path / "out")
    assert (row["id"], row["_dcurate_reason"]) == (5, "died: CudaAPIError")
    assert str(row["_dcurate_error"]).startswith("left the GPU unusable to its process: CudaAPIError: [700] Call to cu")
    assert {one.name: one.faulty for one in result.report.stages}["poisons_on"] == {"died: CudaAPIError": 1}
    assert after - before
    causes = " ".join(event.doing for event in heard if isinstance(event, CallHung))
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in causes
    assert (tmp_path / "12").exists()


def test_memory_of_a_gpu_that_runs_out_is_no_row_s_fault_whichever_library_says_so(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    texts = [[f"{row}!{number}" for row in range(10)] for number in range(len(OUT_OF_MEMORY))]
    texts[3][0] = "0?3"
    write(tmp_path / "in", texts)
    result = run(tmp_path, NeedsGpuMemory(calls=3, folder=str(tmp_path)), cluster)
    assert ids(tmp_path / "out") == list(range(10 * len(OUT_OF_MEMORY)))
    assert not quarantined(tmp_path / "out")
    assert {one.name: one.faulty for one in result.report.stages}["needs_gpu_memory"] == {}
    assert len(list(tmp_path.glob("call-*"))) == 3

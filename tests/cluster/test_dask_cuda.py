"""dask-cuda itself, on GPUs that only NVML has: what its workers are like, and where they keep results."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dcurate.core.gpu_memory import usable_memory
from tests.conftest import skip_outside_ci

pytestmark = [pytest.mark.cluster, pytest.mark.program]


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """What `on_dask_cuda` says on the second of two GPUs."""
    found = importlib.util.find_spec("dask_cuda")
    if found is None or found.origin is None:
        skip_outside_ci("needs dask-cuda: pip install --no-deps -r requirements-models.txt")
    stand_ins = str(Path(__file__).with_name("fake_gpu"))
    path = os.pathsep.join([stand_ins, *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "1"}
    command = [sys.executable, "-m", "tests.cluster.on_dask_cuda"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_processes_on_a_gpu_see_it_first_and_run_beside_it(said: dict[str, Any]) -> None:
    cpu, *gpus = said["local"]
    assert len(gpus) == 2
    for process in [*gpus, said["alone"]]:
        assert (process["visible"], process["gpus"], process["threads"]) == ("1", ["GPU-bb"], 4)
        assert (process["cpus"], process["has_context"], process["order"]) == ([1], True, "PCI_BUS_ID")
        assert process["no_initialize"] == "True"
    assert (cpu["visible"], cpu["gpus"], cpu["has_context"], cpu["rmm"]) == ("", [], False, [])


def test_memory_comes_from_a_pool_that_gives_back_what_is_not_used(said: dict[str, Any]) -> None:
    for process in said["local"][1:]:
        asked = dict(process["rmm"])
        assert asked["async"] == {"initial_pool_size": None, "release_threshold": 80 * 10**9 * 0.25 / 4}
        assert (asked["current"], "import cudf" in asked) == ({"resource": "async"}, True)


def test_two_slots_of_a_small_model_share_one_process_and_its_weights(said: dict[str, Any]) -> None:
    assert said["slots"] == {"processes": 1, "slots": 2, "models": 1, "rows": 80, "equal": True}


def test_an_adaptive_worker_of_a_gpu_has_the_whole_gpu_and_what_dask_cuda_gives(said: dict[str, Any]) -> None:
    alone, shape = said["alone"], said["shape"]
    pool = dict(alone["rmm"])["pool"]
    assert (pool["initial_pool_size"], pool["managed_memory"]) == (8 * 10**9, False)
    assert (alone["kind"], alone["data"], alone["spills"]) == ("card", "DeviceHostFile", True)
    assert (shape["gpus"], shape["gpu_memory"], shape["max_slots"], shape["maximum"]) == (1, usable_memory(80e9), 4, 1)


def test_results_on_a_gpu_move_to_the_host_where_there_are_too_many(said: dict[str, Any]) -> None:
    results = said["results"]
    assert not results["before"], "dask-cuda does not see them by itself"
    assert (results["device"], results["host"]) == (["batch", "gpu-1", "gpu-2"], ["gpu-0", "host"])
    assert results["back"] == ["cudf", 2**20]
    assert results["after"] == ["batch", "gpu-0", "gpu-2"]


def test_results_stay_with_cudf_where_it_spills_itself(said: dict[str, Any]) -> None:
    spilling = said["spilling"]
    assert (spilling["others"], spilling["device"]) == (["batch", "gpu-0", "gpu-1", "gpu-2"], [])
    assert spilling["host"] == ["host"]

"""What workers say of themselves, in processes started as on a cluster."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Worker
from distributed import LocalCluster as DaskLocalCluster
from hypothesis import given
from hypothesis import strategies as st

from dcurate import ResourceError
from dcurate.cluster.worker_info import (
    VisibleGpu,
    WorkerInfo,
    WorkerOverrides,
    choose,
    detect,
    set_worker_info,
    worker_info,
)
from dcurate.core.gpu_memory import usable_memory
from tests.conftest import ROOT, process, wait_for, workers_of
from tests.forked import finished, forked

pytestmark = pytest.mark.cluster

#: A library in the place of NVML: four GPUs, of which one may not be used, one is of unknown memory, one divided.
NVML = """
import os
from collections import namedtuple
class NVMLError(Exception): pass
Memory = namedtuple("Memory", "total")
Process = namedtuple("Process", "pid usedGpuMemory")
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 4
def nvmlDeviceGetHandleByIndex(number):
    if number == 1: raise NVMLError("no permission")
    return f"GPU-{number}"
def nvmlDeviceGetUUID(handle): return handle
def nvmlDeviceGetMemoryInfo(handle):
    if handle == "GPU-2": raise NVMLError("not supported")
    return Memory(10_000_000_000 if handle.startswith("MIG") else 80_000_000_000)
def nvmlDeviceGetComputeRunningProcesses(handle):
    # Two are of Dask: this one and its parent, which has others like it. Init is not.
    if handle != "GPU-0": return []
    return [Process(os.getpid(), 3 * 10**9), Process(os.getppid(), None), Process(1, 10**10)]
def nvmlDeviceGetGraphicsRunningProcesses(handle): raise NVMLError("not supported")
def nvmlDeviceGetMaxMigDeviceCount(handle):
    if handle != "GPU-3": raise NVMLError("not supported")
    return 7
def nvmlDeviceGetMigDeviceHandleByIndex(handle, number):
    if number > 1: raise NVMLError("not found")
    return f"MIG-{number}"
"""

names_of_gpus = st.lists(st.from_regex(r"GPU-[0-9a-f]{4}", fullmatch=True), unique=True, max_size=5)


def told(dask_worker: Worker) -> dict[str, Any]:
    return worker_info(dask_worker).to_dict()


def device_order() -> str | None:
    return os.environ.get("CUDA_DEVICE_ORDER")


@contextmanager
def scheduler(folder: Path, *options: str) -> Iterator[str]:
    """A ``dask scheduler`` process."""
    info = folder / "scheduler.json"
    where = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(info))
    with forked(sys.executable, "-m", "dask", "scheduler", *where, *options, log=folder / "scheduler.log"):
        wait_for(info)
        yield json.loads(info.read_text())["address"]


@contextmanager
def workers(
    folder: Path, address: str, commands: Sequence[Sequence[str]], **environment: str
) -> Iterator[dict[str, WorkerInfo]]:
    """``dask worker`` processes, one for each list of options; gives what they announce, by name."""
    with ExitStack() as stack:
        for number, options in enumerate(commands):
            basics = ("--name", f"w{number}", "--nthreads", "2", "--no-dashboard", "--no-nanny")
            command = (sys.executable, "-m", "dask", "worker", address, *basics, "--local-directory", str(folder))
            start = process if "PYTHONPATH" in environment else forked  # other libraries take the place of real ones
            stack.enter_context(start(*command, *options, log=folder / "worker.log", **environment))
        client = stack.enter_context(Client(address, set_as_default=False))
        client.wait_for_workers(len(commands), timeout=180)
        names = {address: one["name"] for address, one in workers_of(client).items()}
        yield {names[where]: WorkerInfo.from_dict(said) for where, said in client.run(told).items()}


def test_workers_of_one_machine_can_stand_for_hosts_with_gpus(tmp_path: Path) -> None:
    preload = ("--preload", "dcurate.preload")
    commands = [
        (*preload, "--host-name", "h0", "--cpus", "8"),
        (*preload, "--host-name", "h1", "--simulate-gpus", "1,0", "--simulated-gpu-memory-gb", "24"),
        ("--nanny", "--memory-limit", "1000000000", *preload, "--kind", "big"),
    ]
    with (
        scheduler(tmp_path, "--preload", "dcurate.preload") as address,
        workers(tmp_path, address, commands, CUDA_VISIBLE_DEVICES="", DCURATE_HOST="elsewhere") as said,
    ):
        assert (said["w0"].host, said["w0"].cpus, said["w0"].gpus, said["w0"].kind) == ("h0", 8.0, (), "cpu")
        assert said["w1"].gpus == (VisibleGpu("simulated-1", 24e9), VisibleGpu("simulated-0", 24e9))
        assert (said["w1"].host, said["w1"].cpus, said["w1"].kind) == ("h1", 0.0, "gpu")
        assert said["w2"] == WorkerInfo("elsewhere", 2.0, (), "big", 1_000_000_000)


def test_without_a_preload_environment_variables_and_dask_resources_speak(tmp_path: Path) -> None:
    commands = [("--resources", "GPU=2 GPU_MEMORY=8e9"), ("--resources", "GPU=1"), ()]
    with (
        scheduler(tmp_path) as address,
        workers(tmp_path, address, commands, DCURATE_HOST="h7", DCURATE_CPUS="3.5") as said,
    ):
        assert said["w0"].gpus == (VisibleGpu("w0/0", 8e9), VisibleGpu("w0/1", 8e9))
        assert said["w1"].gpus == (VisibleGpu("w1/0", 0.0),)
        assert [one.kind for _, one in sorted(said.items())] == ["gpu", "gpu", "cpu"]
        assert {(one.host, one.cpus) for one in said.values()} == {("h7", 3.5)}


def test_gpus_are_those_that_the_process_may_use_by_their_uuids(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(NVML)
    # Dask itself is not to ask the stand-in, which knows no more than is needed here.
    aside = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]), "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "False"}
    preload = ("--preload", "dcurate.preload")
    commands = [(), (*preload, "--kind", "cpu"), ("--resources", "GPU=1")]
    with scheduler(tmp_path) as address:
        with workers(tmp_path, address, commands, **aside, CUDA_VISIBLE_DEVICES="1,0,MIG-1,9") as said:
            free = (usable_memory(80e9, 1e10), usable_memory(10e9, 0))
            seen = (VisibleGpu("GPU-2", 0.0), VisibleGpu("GPU-0", free[0]), VisibleGpu("MIG-1", free[1]))
            assert (said["w0"].gpus, said["w0"].cpus, said["w0"].kind) == (seen, 0.0, "gpu")
            assert (said["w1"].gpus, said["w1"].cpus, said["w1"].kind) == ((), 2.0, "cpu")
            assert said["w2"].gpus == seen
            with Client(address, set_as_default=False) as client:
                orders = sorted(map(str, client.run(device_order).values()))
            assert orders == ["None", "PCI_BUS_ID", "PCI_BUS_ID"]
        commands = [(), (*preload, "--kind", "gpu")]
        environ = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "environ", environ)
            with workers(tmp_path, address, commands, **aside) as said:
                assert said["w0"].gpus == ()
                assert [gpu.name for gpu in said["w1"].gpus] == ["GPU-0", "GPU-2", "GPU-3"]


def test_a_worker_announces_the_gpus_that_the_driver_of_the_machine_knows(tmp_path: Path) -> None:
    listed = ""
    if shutil.which("nvidia-smi") and importlib.util.find_spec("pynvml"):
        query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        listed = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    with scheduler(tmp_path) as address, workers(tmp_path, address, [()], CUDA_VISIBLE_DEVICES="0,1") as said:
        assert [gpu.name for gpu in said["w0"].gpus] == listed.split()[:2]
        assert all(gpu.memory > 1e9 for gpu in said["w0"].gpus)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--kind", "cpu", "--simulate-gpus", "0"], "a worker of kind 'cpu' has no GPUs, but 1 are to be simulated"),
        (["--cpus", "-1"], "cpus=-1 must be zero or more"),
        (["--cpus", "many"], "could not convert string to float"),
        (["--simulate-gpus", "0,0"], "GPUs '0,0' name one of them twice"),
        (["--simulate-gpu", "0"], "No such option"),
    ],
)
def test_options_that_cannot_be_end_the_worker_before_it_starts(options: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "dask", "worker", "tcp://127.0.0.1:1", "--preload", "dcurate.preload", *options]
    done = finished(command)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_workers_of_one_process_each_announce_their_own() -> None:
    with DaskLocalCluster(n_workers=2, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster:
        first, second = cluster.workers.values()
        own = WorkerInfo("h0", 4.0, (VisibleGpu("a", 1e9),), "gpu", 5)
        set_worker_info(first, own)
        assert worker_info(first) is own
        assert worker_info(second) == detect(second, WorkerOverrides())
        assert worker_info(second) is worker_info(second)


@pytest.mark.parametrize("name", ["DCURATE_CPUS", "DCURATE_SIMULATED_GPU_MEMORY_GB"])
def test_an_environment_variable_that_is_no_number_is_named(name: str) -> None:
    with pytest.raises(ResourceError, match=f"environment variable {name}='x' must be a number"):
        WorkerOverrides.in_environment({name: "x"})


@given(names_of_gpus, st.lists(st.integers(0, 6), unique=True))
def test_gpus_are_seen_in_the_order_listed_up_to_the_first_that_is_not_there(
    names: list[str], listed: list[int]
) -> None:
    gpus = [VisibleGpu(name, 1.0) for name in names]
    seen = choose(",".join(map(str, listed)), gpus)
    missing = next((place for place, number in enumerate(listed) if number >= len(gpus)), len(listed))
    assert seen == tuple(gpus[number] for number in listed[:missing])
    assert choose(",".join(gpu.name for gpu in seen), gpus) == seen


@given(
    st.builds(
        WorkerInfo,
        host=st.text(),
        cpus=st.floats(0, 1e6),
        gpus=st.lists(st.builds(VisibleGpu, st.text(), st.floats(0, 1e12))).map(tuple),
        kind=st.text(),
        memory=st.integers(0, 2**60),
    )
)
def test_an_announcement_survives_being_sent(said: WorkerInfo) -> None:
    assert WorkerInfo.from_dict(json.loads(json.dumps(said.to_dict()))) == said

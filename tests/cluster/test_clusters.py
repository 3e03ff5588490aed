import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from dask.system import CPU_COUNT
from dask.utils import key_split
from distributed import Client, Nanny, Scheduler, SpecCluster, Status, Worker
from distributed.diskutils import WorkSpace
from distributed.system import MEMORY_LIMIT

from dcurate import AttachedCluster, DaskExecutor, ElasticCluster, LocalCluster, Pipeline, ResourceError, RunError
from dcurate.cluster import Kind, Shape, compat, cuda
from dcurate.cluster.nannies import GPU_PROCESSES, GPU_THREADS
from dcurate.cluster.worker_info import worker_info
from tests.conftest import ROOT, scheduler_and_workers, wait_until, workers_of
from tests.stages import Numbers, Sleep

pytestmark = pytest.mark.cluster


def test_an_embedded_cluster_takes_what_this_process_may_use() -> None:
    cluster = LocalCluster()
    assert cluster.n_workers == CPU_COUNT
    assert cluster.n_workers * cluster.memory_limit <= MEMORY_LIMIT
    assert LocalCluster(cpu_fraction=1e-6).n_workers == 1


def test_workers_are_processes_of_one_thread(cluster: LocalCluster) -> None:
    workers = workers_of(cluster.client).values()
    assert [worker["nthreads"] for worker in workers] == [1, 1]
    assert len(set(cluster.client.run(os.getpid).values()) - {os.getpid()}) == 2


def test_a_closed_cluster_leaves_no_process() -> None:
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        pids = list(cluster.client.run(os.getpid).values())
    alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=60)[1]
    assert not alive


def test_a_killed_driver_leaves_no_worker(tmp_path: Path) -> None:
    program = (
        "import os, time\nfrom dcurate import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2) as cluster:\n"
        "        print(*cluster.client.run(os.getpid).values(), flush=True)\n"
        "        time.sleep(600)\n"
    )
    (tmp_path / "driver.py").write_text(program)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "driver.py"], cwd=tmp_path, env=env, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in driver.stdout.readline().split()]
        driver.kill()
    assert len(workers) == 2
    assert not psutil.wait_procs(workers, timeout=120)[1]


def test_a_cluster_that_is_not_open_says_how_to_open_it() -> None:
    with pytest.raises(RunError, match="the cluster is not open; use it in a with statement"):
        _ = LocalCluster().client


def test_a_cluster_is_opened_in_one_cell_and_closed_in_another() -> None:
    cluster = LocalCluster(n_workers=1, gpus=False)
    assert repr(cluster) == "<LocalCluster, not open>"
    assert cluster.open() is cluster.open() is cluster
    assert repr(cluster) == f"<LocalCluster at {cluster.client.scheduler.address}>"
    assert cluster.client.submit(abs, -1).result() == 1
    cluster.close()
    cluster.close()
    assert not cluster.is_open


def test_a_worker_that_does_not_start_says_why() -> None:
    options = {"nthreads": 1, "host": "127.0.0.1", "preload": ["raise ImportError('no such library')"]}
    cluster = ElasticCluster({"cpu": Kind(Shape(minimum=1), {"cls": Nanny, "options": options})})
    with pytest.raises(RunError, match=r"the worker processes did not start; ImportError\('no such library'\)"):
        cluster.open()


def test_a_worker_whose_folder_cannot_be_made_says_why_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    folders, make = iter(range(9)), WorkSpace.__init__

    def full(folder: WorkSpace, path: str) -> None:
        if next(folders) == 2:  # after those of the scheduler and the first worker
            raise OSError(errno.ENOSPC, "No space left on device")
        make(folder, path)

    monkeypatch.setattr(WorkSpace, "__init__", full)
    clusters = {id(one) for one in SpecCluster._instances}
    with pytest.raises(
        RunError, match=r"the worker processes did not start; OSError\(28, 'No space left on device'\)"
    ) as caught:
        LocalCluster(n_workers=2).open()
    assert caught.value.__cause__ is not None  # its frames keep the cluster
    assert [one.status for one in SpecCluster._instances if id(one) not in clusters] == [Status.closed]


def test_less_than_one_worker_is_refused() -> None:
    with pytest.raises(ResourceError, match="n_workers=0 must be a whole number of at least 1"):
        LocalCluster(n_workers=0)


def test_where_nvml_finds_no_gpu_none_is_started_and_none_can_be_asked_for() -> None:
    if cuda.gpus_here():
        with LocalCluster(n_workers=1) as cluster:
            kinds = sorted(said["kind"] for said in cluster.client.run(told).values())
        assert kinds == ["cpu"] + ["gpu"] * cuda.gpus_here()
        return
    with pytest.raises(ResourceError, match="gpus=True, but NVML finds no GPU on this machine"):
        LocalCluster(gpus=True).open()


def told(dask_worker: Worker) -> dict[str, Any]:
    more = {"threads": dask_worker.state.nthreads, "devices": os.environ["CUDA_VISIBLE_DEVICES"]}
    return {**worker_info(dask_worker).to_dict(), **more}


def test_simulated_gpus_have_workers_each_that_see_the_others_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("DCURATE_SIMULATED_GPUS", "7")
    with LocalCluster(n_workers=1, simulate_gpus=2, simulated_gpu_memory_gb=24) as cluster:
        every = list(cluster.client.run(told).values())
        said = {one["kind"] + str(one["gpus"]): one for one in every}
    first, second = ["simulated-0", 24e9], ["simulated-1", 24e9]
    assert sorted(said) == ["cpu[]", f"gpu{[first, second]}", f"gpu{[second, first]}"]
    assert {(one["kind"], one["threads"], one["cpus"]) for one in said.values()} == {
        ("cpu", 1, 1.0),
        ("gpu", GPU_THREADS, 0.0),
    }
    assert len({one["host"] for one in said.values()}) == 1
    assert len(every) == 1 + 2 * GPU_PROCESSES
    assert sum(one["memory"] for one in every) <= MEMORY_LIMIT
    assert {one["devices"] for one in said.values()} == {""}


def test_gpus_are_either_real_or_simulated() -> None:
    with pytest.raises(ResourceError, match="gpus=True asks for real GPUs and simulate_gpus=2 for GPUs that are not"):
        LocalCluster(gpus=True, simulate_gpus=2)
    with pytest.raises(ResourceError, match="simulate_gpus=-1 must be zero or more"):
        LocalCluster(simulate_gpus=-1)
    with pytest.raises(ResourceError, match="simulated_gpu_memory_gb=0 more than zero"):
        LocalCluster(simulate_gpus=1, simulated_gpu_memory_gb=0)


def test_an_address_without_workers_says_how_to_start_some(tmp_path: Path) -> None:
    with scheduler_and_workers(tmp_path, "--nworkers", "1") as address:
        with AttachedCluster(address) as cluster:
            cluster.client.retire_workers()
            wait_until(lambda: not workers_of(cluster.client))
        executor = DaskExecutor({"worker_timeout_s": 2}, AttachedCluster(address))
        with pytest.raises(
            ResourceError,
            match=f"none came within 2 seconds; start some with 'dask worker {address}",
        ):
            Pipeline("test", stages=[Numbers(2, 1)]).run(executor, observers=[])


def test_a_scheduler_keeps_nothing_of_each_call(tmp_path: Path) -> None:
    def kept(dask_scheduler: Scheduler) -> tuple[int, int]:
        spans = dask_scheduler.extensions["spans"].spans.values()
        calls = sum(len(span.metadata["collections"]) for span in spans if span.metadata is not None)
        return key_split.cache_info().currsize, calls

    with scheduler_and_workers(tmp_path, "--nworkers", "1") as address:
        Pipeline("test", stages=[Numbers(60, 1), Sleep(0.1)]).run(DaskExecutor(cluster=address), observers=[])
        with Client(address, set_as_default=False) as client:
            names, calls = client.run_on_scheduler(kept)
    assert names < 20
    assert calls <= 2 * compat.COLLECTIONS

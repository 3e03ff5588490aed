import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from dask.system import CPU_COUNT
from distributed.system import MEMORY_LIMIT

from dcurate import AttachedCluster, LocalCluster
from dcurate.cluster import cuda
from dcurate.errors import ResourceError, RunError
from tests.conftest import ROOT, scheduler_and_workers


def test_an_embedded_cluster_takes_what_this_process_may_use() -> None:
    cluster = LocalCluster()
    assert cluster.n_workers == CPU_COUNT
    assert cluster.n_workers * cluster.memory_limit <= MEMORY_LIMIT
    assert LocalCluster(cpu_share=1e-6).n_workers == 1


def test_workers_are_processes_of_one_thread(cluster: LocalCluster) -> None:
    workers = cluster.client.scheduler_info()["workers"].values()
    assert [worker["nthreads"] for worker in workers] == [1, 1]
    assert len(set(cluster.client.run(os.getpid).values()) - {os.getpid()}) == 2


def test_a_closed_cluster_leaves_no_process() -> None:
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        pids = list(cluster.client.run(os.getpid).values())
    alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=10)[1]
    assert not alive


def test_a_killed_driver_leaves_no_worker(tmp_path: Path) -> None:
    program = (
        "import os, time\nfrom dcurate import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2) as cluster:\n"
        "        print(*cluster.client.run(os.getpid).values(), flush=True)\n"
        "        time.sleep(60)\n"
    )
    (tmp_path / "driver.py").write_text(program)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "driver.py"], cwd=tmp_path, env=env, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in driver.stdout.readline().split()]
        driver.kill()
    assert len(workers) == 2
    assert not psutil.wait_procs(workers, timeout=20)[1]


def test_a_cluster_that_is_not_open_says_how_to_open_it() -> None:
    with pytest.raises(RunError, match="the cluster is not open; use it in a with statement"):
        _ = LocalCluster().client


def test_less_than_one_worker_is_refused() -> None:
    with pytest.raises(ResourceError, match="n_workers=0 must be at least 1"):
        LocalCluster(n_workers=0)


def test_gpus_are_asked_of_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    if cuda.devices():
        assert all(memory > 0 for memory in cuda.devices())
        return
    with pytest.raises(ResourceError, match="gpus=True, but NVML finds no GPU on this machine"):
        LocalCluster(gpus=True).__enter__()


def test_an_address_without_workers_says_how_to_start_some(tmp_path: Path) -> None:
    with scheduler_and_workers(tmp_path, "--nworkers", "1") as address:
        with AttachedCluster(address) as cluster:
            cluster.client.retire_workers()
            start = time.monotonic()
            while cluster.client.scheduler_info()["workers"] and time.monotonic() - start < 20:
                time.sleep(0.1)
        with pytest.raises(
            RunError, match=f"the scheduler at '{address}' has no workers; start some with 'dask worker"
        ):
            AttachedCluster(address, timeout_s=2).__enter__()

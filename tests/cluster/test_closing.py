"""Clusters that are closed, or cannot be started, while their workers start: a sentence, and nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from distributed import SpecCluster, Status

from dcurate import ElasticCluster, LocalCluster, RunError
from dcurate.cluster import Kind, nannies
from dcurate.cluster.base import Cluster
from tests.conftest import wait_until

pytestmark = pytest.mark.cluster


def local() -> Cluster:
    return LocalCluster(n_workers=2, gpus=False)


def elastic() -> Cluster:
    return ElasticCluster({"cpu": Kind.cpus_here(maximum=2, minimum=2)})


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """All clusters that a test makes are closed, and their processes gone."""
    clusters = {id(one) for one in SpecCluster._instances}
    yield
    made = [one for one in SpecCluster._instances if id(one) not in clusters]
    assert {one.status for one in made} <= {Status.closed}
    wait_until(lambda: not [child for child in psutil.Process().children(recursive=True) if is_worker(child)])


def is_worker(process: psutil.Process) -> bool:
    try:
        return process.name().startswith("Dask Worker") or any("Dask Worker" in one for one in process.cmdline())
    except psutil.Error:
        return False


def on_restart(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Run some code in each worker process as it starts, but not in the first two."""
    code = f"""
import os, signal, time
for number in range(3) if "TEST_STARTED" not in os.environ else ():  # Dask loads it twice in a process
    try:
        os.close(os.open(f"{folder}/{{number}}", os.O_CREAT | os.O_EXCL))
        break
    except FileExistsError:
        continue
else:
    if "TEST_STARTED" not in os.environ:
        {code}
os.environ["TEST_STARTED"] = ""
"""
    before = nannies.DASK_SETTINGS["distributed.worker.preload"]
    monkeypatch.setitem(nannies.DASK_SETTINGS, "distributed.worker.preload", [*before, code])


@pytest.mark.parametrize("make", [local, elastic])
@pytest.mark.parametrize("code", ["os.kill(os.getpid(), signal.SIGKILL)", "time.sleep(60)", "raise OSError('no')"])
@pytest.mark.parametrize("seconds", [0.0, 0.7, 1.5])
@pytest.mark.timeout(90)
def test_a_cluster_whose_workers_die_or_hang_as_they_come_back_is_closed(
    make: Callable[[], Cluster],
    code: str,
    seconds: float,
    nothing_left: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_restart(monkeypatch, tmp_path, code)
    with make() as cluster:
        for pid in cluster.client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        time.sleep(seconds)


@pytest.mark.parametrize("make", [local, elastic])
@pytest.mark.timeout(90)
def test_workers_that_take_too_long_to_start_end_in_a_sentence(
    make: Callable[[], Cluster], nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = nannies.DASK_SETTINGS["distributed.worker.preload"]
    slow = [*before, "import time; time.sleep(60)"]
    monkeypatch.setitem(nannies.DASK_SETTINGS, "distributed.worker.preload", slow)
    monkeypatch.setattr(nannies, "START_S", 3)
    with pytest.raises(RunError, match="did not start within 3 seconds"):
        make().open()

"""Workers that end by themselves as they are started again: a few times they are started once more."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from dcurate import LocalCluster
from dcurate.cluster import nannies

pytestmark = pytest.mark.cluster


def exit_when_restarted(monkeypatch: pytest.MonkeyPatch, folder: Path, times: int) -> None:
    """Make a worker end by itself as it is started again, the first `times` times."""
    code = f"""
import os
for number in range({times + 2}) if "TEST_STARTED" not in os.environ else ():  # Dask loads it twice in a process
    try:
        os.close(os.open(f"{folder}/{{number}}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        continue
    if 0 < number <= {times}:
        os._exit(3)
    break
os.environ["TEST_STARTED"] = ""
"""
    before = nannies.DASK_SETTINGS["distributed.worker.preload"]
    monkeypatch.setitem(nannies.DASK_SETTINGS, "distributed.worker.preload", [*before, code])


def kill_worker(cluster: LocalCluster) -> None:
    (pid,) = cluster.client.run(os.getpid).values()
    os.kill(pid, signal.SIGKILL)


def test_a_worker_that_ends_a_few_times_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exit_when_restarted(monkeypatch, tmp_path, nannies.STARTS - 1)
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        kill_worker(cluster)
        assert cluster.client.submit(sum, [1, 2]).result(timeout=60) == 3
        assert not cluster.trouble()
    assert len(list(tmp_path.iterdir())) == nannies.STARTS + 1


def test_a_worker_that_always_ends_is_given_up_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exit_when_restarted(monkeypatch, tmp_path, 100)
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        kill_worker(cluster)
        end = time.monotonic() + 60
        while not (trouble := cluster.trouble()) and time.monotonic() < end:
            time.sleep(0.1)
    assert trouble == (
        "a worker process ends by itself while it starts, 4 times in a row; see the workers' log for what ends it, and "
        "start the run again with resume=True to go on"
    )
    assert len(list(tmp_path.iterdir())) in (nannies.STARTS + 1, nannies.STARTS + 2)  # Dask itself may try once

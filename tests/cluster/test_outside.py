"""A driver that reaches the scheduler and not the workers, as one outside of Kubernetes with a forwarded port."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed.core import ConnectionPool

from dcurate import AttachedCluster, DaskExecutor, Pipeline
from tests.conftest import scheduler_and_workers, wait_for, wait_for_workers
from tests.forked import forked
from tests.stages import Numbers, Sleep

pytestmark = pytest.mark.cluster

#: Where the worker says that it is: nothing listens there. Only the scheduler knows the way.
SAID = "tcp://127.0.0.1:1"
ROUTE = """
from distributed.core import ConnectionPool
def routed(connect):
    async def route(self, addr, timeout=None):
        return await connect(self, addr.replace("{said}", "{true}"), timeout)
    return route
ConnectionPool.connect = routed(ConnectionPool.connect)
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler with a worker that only the scheduler can reach."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    info, route = tmp_path / "scheduler.json", tmp_path / "route.py"
    route.write_text(ROUTE.format(said=SAID, true=f"tcp://127.0.0.1:{port}"))
    dask = [sys.executable, "-m", "dask"]
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    files = ["--scheduler-file", str(info), "--preload", str(route)]
    addresses = ["--contact-address", SAID, "--listen-address", f"tcp://127.0.0.1:{port}"]
    worker = [*addresses, "--no-nanny", "--local-directory", str(tmp_path), "--no-dashboard"]
    with forked(*dask, "scheduler", *here, "--port", "0", *files, log=tmp_path / "scheduler.log"):
        wait_for(info)
        address = json.loads(info.read_text())["address"]
        with forked(*dask, "worker", *worker, "--nthreads", "1", *files[:2], log=tmp_path / "worker.log"):
            wait_for_workers(address, 1)
            yield address


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses to which Dask tries to connect in this process."""
    tried, connect = [], ConnectionPool.connect

    async def noting(pool: ConnectionPool, addr: str, timeout: Any = None) -> Any:
        tried.append(addr)
        return await connect(pool, addr, timeout)

    monkeypatch.setattr(ConnectionPool, "connect", noting)
    return tried


def test_results_come_through_the_scheduler_where_workers_cannot_be_reached(address: str, tried: list[str]) -> None:
    result = Pipeline("test", stages=[Numbers(10, 5), Sleep(0.0)]).run(DaskExecutor(cluster=address))
    assert sum(batch.num_items for batch in result) == 50
    assert SAID not in tried


def test_results_come_from_the_workers_where_they_can_be_reached(tmp_path: Path, tried: list[str]) -> None:
    with scheduler_and_workers(tmp_path) as address, AttachedCluster(address) as cluster:
        worker = next(iter(cluster.client.scheduler_info()["workers"]))
        result = Pipeline("test", stages=[Numbers(10, 5), Sleep(0.0)]).run(DaskExecutor(cluster=cluster))
    assert sum(batch.num_items for batch in result) == 50
    assert worker in tried

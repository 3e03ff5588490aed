"""Runs and jobs on a real dask-gateway server with its local backend, and on dask-jobqueue: ``make check-gateway``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dask_gateway import Gateway
from dask_jobqueue.local import LocalCluster as JobCluster

from dcurate import DaskExecutor, JsonlReader, JsonlWriter, Pipeline, submit

BIN = os.path.dirname(sys.executable)
CONFIG = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.Proxy.address = "127.0.0.1:{http}"
c.Proxy.tcp_address = "127.0.0.1:{tcp}"
c.UnsafeLocalBackend.clusters_directory = {folder!r}
c.ClusterConfig.scheduler_cmd = [{dask!r}, "scheduler"]
c.ClusterConfig.worker_cmd = [{dask!r}, "worker"]
"""


def free_port() -> int:
    """A port that nothing listens on; `tests.conftest` needs packages that are not here."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def gateway(folder: Path) -> Iterator[Gateway]:
    """A client of a server that ends with the test."""
    http, tcp = free_port(), free_port()
    config = folder / "config.py"
    (folder / "clusters").mkdir()
    config.write_text(CONFIG.format(http=http, tcp=tcp, folder=str(folder / "clusters"), dask=f"{BIN}/dask"))
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    with (folder / "server.log").open("wb") as log:
        command = [f"{BIN}/dask-gateway-server", "-f", str(config)]
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        address, proxy = f"http://127.0.0.1:{http}", f"gateway://127.0.0.1:{tcp}"
        end = time.monotonic() + 60
        while True:
            try:
                client = Gateway(address, proxy_address=proxy, auth="basic")
                client.list_clusters()
                break
            except (OSError, ValueError):  # ValueError: its routes are not there yet
                assert time.monotonic() < end, (folder / "server.log").read_text()
                time.sleep(0.5)
        yield client
    finally:
        server.terminate()
        server.wait(30)


def pipeline(folder: Path, output: str) -> Pipeline:
    source = folder / "in"
    if not source.exists():
        source.mkdir()
        for number in range(6):
            (source / f"{number}.jsonl").write_text('{"text": "one two"}\n')
    return Pipeline("doors", stages=[JsonlReader(str(source)), JsonlWriter(str(folder / output))])


def check_run(folder: Path, cluster: Any, output: str) -> None:
    report = pipeline(folder, output).run(DaskExecutor(cluster=cluster), observers=[]).report
    assert (report.splits, report.stages[-1].rows_out) == (6, 6), report
    sys.stdout.write(f"{output}: {report}\n")


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        with JobCluster(cores=1, memory="1GB", processes=1, scheduler_options={"host": "127.0.0.1"}) as jobs:
            jobs.adapt(minimum=0, maximum=2)
            check_run(folder, jobs, "jobqueue")
        with gateway(folder) as client:
            cluster = client.new_cluster()
            cluster.adapt(minimum=0, maximum=2)
            check_run(folder, cluster, "gateway")
            with cluster.get_client(set_as_default=False) as connected:
                check_run(folder, connected, "client")
                record = submit(pipeline(folder, "job"), connected).wait(120)
                assert (record.state, record.rows_out) == ("done", 6), record
            record = submit(pipeline(folder, "job-of-cluster"), cluster).wait(120)
            assert record.state == "done", record
            sys.stdout.write("jobs: done\n")
            cluster.shutdown()


if __name__ == "__main__":
    main()

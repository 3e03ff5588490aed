"""Starts and stops Prometheus and Grafana for a scheduler, where they are installed.

Starting Grafana is tested with a fake program: Grafana itself was not available.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from dcurate.core.lazy import lazy
from dcurate.errors import ResourceError, RunError
from dcurate.ui.metrics.definitions import TARGETS
from dcurate.ui.monitor.config import (
    ALERTS,
    DASHBOARD,
    DASHBOARD_UID,
    PROMETHEUS,
    PROVISIONING,
    Watched,
    write_config,
)

if TYPE_CHECKING:
    import urllib3
else:  # other commands need none of it
    urllib3 = lazy("urllib3")

#: The processes that were started, by name.
RUNNING = "running.json"
#: How long a process may take until it answers, and until it has ended, in seconds.
START_S, END_S, LOOK_S = 60.0, 20.0, 0.1
#: How long a page may take, in seconds.
ANSWER_S = 2.0

GET_PROMETHEUS = (
    "Prometheus is not installed; get it with 'apt-get install prometheus' (Debian, Ubuntu) or from "
    "prometheus.io/download, and put it on the PATH"
)
GET_GRAFANA = "Grafana is not installed (grafana.com/grafana/download); a Grafana that you have can import {dashboard}"


@dataclass(frozen=True)
class Service:
    """A server to start.

    Attributes:
        name: name of its program.
        port: on this machine, at which it answers ``ready`` once it can be used.
    """

    name: str
    command: Sequence[str]
    port: int
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The addresses of the pages."""
        return f"http://127.0.0.1:{self.port}"


class Started(NamedTuple):
    """A server that was started, and its port."""

    process: psutil.Process
    port: int


def up(watched: Watched, folder: Path, grafana_port: int = 3000) -> list[str]:
    """Write the configuration, start what is installed, and say in lines where to look.

    What was started goes on until `down`.

    Args:
        folder: for configuration, data and logs.

    Raises:
        ResourceError: Prometheus is not installed, or its port is taken, or a file in the way is not dcurate's.
        RunError: a process ended at once, or did not answer; its log says why.
    """
    kept = write_config(watched, folder)
    lines = [f"{path} was changed by hand and is left as it is" for path in kept]
    started = _running(folder)
    service = prometheus_service(watched, folder)
    _start(service, folder, started)
    lines += [
        f"Prometheus  {service.url}  watches {watched.url}",
        *missing(watched.url),
        *_grafana(grafana_port, folder, started),
        f"stop with: dcurate monitor down --dir {folder}",
    ]
    return lines


def down(folder: Path) -> list[str]:
    """Stop what `up` started for a folder, and say in lines what was stopped."""
    running = _running(folder)
    processes = [started.process for started in running.values()]
    for process in processes:
        process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=END_S)
    for process in alive:
        process.kill()
    (folder / RUNNING).unlink(missing_ok=True)
    return [f"{name} is stopped" for name in running] or [f"nothing runs that was started for {folder}"]


def prometheus_service(watched: Watched, folder: Path) -> Service:
    """Prometheus, with the configuration of a folder.

    Raises:
        ResourceError: it is not installed.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise ResourceError(f"{GET_PROMETHEUS}; the configuration is in {folder}")
    command = [
        program,
        f"--config.file={folder / PROMETHEUS}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{watched.port}",
    ]
    return Service("prometheus", command, watched.port, "/-/ready")


def grafana_service(port: int, folder: Path) -> Service | None:
    """Grafana, with what is provided in a folder: anybody of this machine may look; None if it is not installed."""
    program = shutil.which("grafana-server")
    if program is None:
        return None
    home, root = Path("/usr/share/grafana"), (folder / "grafana").absolute()
    environment = {
        "GF_PATHS_PROVISIONING": str((folder / PROVISIONING).absolute()),
        "GF_PATHS_DATA": str(root / "data"),
        "GF_PATHS_LOGS": str(root / "logs"),
        "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str((folder / DASHBOARD).absolute()),
    }
    command = [program, *(["--homepath", str(home)] if home.exists() else [])]
    return Service("grafana-server", command, port, "/api/health", environment)


def _grafana(port: int, folder: Path, started: dict[str, Started]) -> list[str]:
    service = grafana_service(port, folder)
    if service is None:
        return [GET_GRAFANA.format(dashboard=folder / DASHBOARD)]
    _start(service, folder, started)
    return [f"Grafana     {service.url}/d/{DASHBOARD_UID}"]


def _start(service: Service, folder: Path, running: dict[str, Started]) -> None:
    """Start a server unless it runs already, and wait until it answers; what runs is written down."""
    if service.name in running:
        _refuse_elsewhere(service, running[service.name], folder)
        if service.name == "prometheus":
            running[service.name].process.send_signal(signal.SIGHUP)  # it reads its configuration again
        return
    _refuse_taken(service)
    log = folder / f"{service.name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            service.command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **service.environment},
            start_new_session=True,
        )
    running[service.name] = Started(psutil.Process(process.pid), service.port)
    _write_down(folder, running)
    if not _waited(lambda: process.poll() is not None or _answers(f"{service.url}{service.ready}"), START_S):
        raise RunError(f"{service.name} does not answer at {service.url} after {START_S:.0f} s; see {log}")
    if process.poll() is not None:
        last = log.read_text("utf-8", errors="replace").strip().splitlines()[-1:]
        raise RunError(f"{service.name} ended as it started; {log} ends with: {''.join(last)}")


def _refuse_elsewhere(service: Service, started: Started, folder: Path) -> None:
    if started.port != service.port:
        raise ResourceError(
            f"{service.name} was started for {folder} at port {started.port} already; stop it first: "
            f"dcurate monitor down --dir {folder}"
        )


def _refuse_taken(service: Service) -> None:
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", service.port)) == 0
    if taken:
        option = "--port" if service.name == "prometheus" else "--grafana-port"
        raise ResourceError(
            f"port {service.port} is taken (the system's own {service.name}?); give another with {option}, "
            f"or have that one read {ALERTS} and {PROMETHEUS}"
        )


def missing(dashboard: str) -> list[str]:
    """Say in a line what a scheduler needs before it can be watched; no line where it is ready."""
    try:
        metrics, workers = (
            urllib3.request("GET", f"{dashboard}{page}", timeout=ANSWER_S, retries=False)
            for page in ("/metrics", TARGETS)
        )
    except urllib3.exceptions.HTTPError:
        return [f"nothing answers at {dashboard} yet; metrics come as soon as a scheduler's dashboard does"]
    if b"Prometheus metrics are not available" in metrics.data:
        return [f"the scheduler at {dashboard} has no Prometheus client; run pip install 'dcurate[monitor]' there"]
    if workers.status != 200:
        return [f"dcurate is not loaded at {dashboard} yet; the first run does so, or --preload dcurate.preload"]
    return []


def _answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, timeout=ANSWER_S, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _waited(until: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_S)
    return True


def _write_down(folder: Path, running: Mapping[str, Started]) -> None:
    state = {
        name: {"pid": started.process.pid, "began": started.process.create_time(), "port": started.port}
        for name, started in running.items()
    }
    (folder / RUNNING).write_text(json.dumps(state) + "\n", encoding="utf-8")


def _running(folder: Path) -> dict[str, Started]:
    """Processes that were started for a folder and still run; reused process ids are left out."""
    path = folder / RUNNING
    state = json.loads(path.read_text("utf-8")) if path.exists() else {}
    running = {}
    for name, record in state.items():
        try:
            process = psutil.Process(record["pid"])
        except psutil.NoSuchProcess:
            continue
        if process.create_time() == record["began"] and process.status() != psutil.STATUS_ZOMBIE:
            running[name] = Started(process, record["port"])
    return running

"""Fixtures that several rooms share: real Dask processes."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dcurate import LocalCluster
from dcurate.cluster.cuda import gpus_here

ROOT = Path(__file__).parents[1]


#: Test modules that say one of these start Dask processes, and some of them measure time.
STARTS = re.compile(r"\b((Attached|Elastic|Local)Cluster|DaskExecutor|scheduler_and_workers|cluster:|tests.run.curate)")


@cache
def turn(path: str) -> str:
    """What a file's tests take turns with: those with Dask processes with each other, the rest with their file's."""
    return "processes" if path.startswith("tests") and STARTS.search((ROOT / path).read_text("utf-8")) else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run in parallel, tests with Dask processes run one after the other, beside the rest."""
    scheduling = importlib.import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    scheduling._split_scope = lambda test: turn(test.partition("::")[0])
    return scheduling


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where NVML finds none; ``-ra`` says so of each test."""
    if not gpus_here():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, and NVML finds none on this machine"))


def skip_outside_ci(reason: str) -> NoReturn:
    """Skip a test that this machine cannot run; in CI, where nothing may be skipped, fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; in CI this must run")
    pytest.skip(reason)


@pytest.fixture(autouse=True, scope="session")
def no_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Rates that earlier test runs measured must not matter, nor those of this one to the user's own runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DCURATE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Two worker processes that all tests may use which do not harm them."""
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        yield cluster


@contextmanager
def process(*command: str, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a test's own, ended with it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with log.open("ab") as out, subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=ROOT) as started:
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()


def wait_for(path: Path, seconds: float = 30.0) -> None:
    """Wait until a file is there and not empty."""
    end = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < end, f"{path} did not come within {seconds} s"
        time.sleep(0.05)


@contextmanager
def scheduler_and_workers(folder: Path, *worker_options: str) -> Iterator[str]:
    """A ``dask scheduler`` and a ``dask worker`` started as on a cluster; gives the scheduler's address."""
    info = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    scheduler = [
        *dask,
        "scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(info),
    ]
    worker = [*dask, "worker", "--scheduler-file", str(info), "--nthreads", "1", "--no-dashboard", *worker_options]
    with process(*scheduler, log=folder / "scheduler.log"):
        wait_for(info)
        address = json.loads(info.read_text())["address"]
        with process(*worker, "--local-directory", str(folder), log=folder / "worker.log"):
            yield address

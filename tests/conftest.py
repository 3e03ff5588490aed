"""Order of the tests, and fixtures that several packages share: real Dask processes, an endpoint."""

from __future__ import annotations

import gc
import importlib
import json
import logging
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import dask
import pytest
from distributed import Client
from hypothesis import HealthCheck, is_hypothesis_test, settings

from dcurate import LocalCluster
from dcurate.cluster import nannies
from dcurate.cluster.compat import keep_preload_of_fork_server
from dcurate.cluster.cuda import gpus_here
from tests.forked import forked

if TYPE_CHECKING:
    from dcurate_testing.llm_server import Endpoint

ROOT = Path(__file__).parents[1]

#: Names of what starts Dask processes; a module that imports one is marked ``cluster``.
STARTS_CLUSTERS = {"AttachedCluster", "DaskExecutor", "ElasticCluster", "LocalCluster", "scheduler_and_workers"}

settings.register_profile("suite", settings(), max_examples=30, deadline=None)
settings.load_profile("suite")

#: Multiplies the examples that every law is tried on, also where the law gives their number.
EXAMPLES_FACTOR = int(os.environ.get("DCURATE_EXAMPLES_FACTOR", "1"))


#: The part of the tests with Dask processes, from the end, that runs once the rest has ended: else the first process
#: would be left with them, and the others would wait for it.
LATE_CLUSTERS = 1 / 6


def start_order(item: pytest.Item) -> int:
    """Return when a test begins: first those with Dask processes, then those with other programs, then the rest.

    The longest go first, so that no process is left with them at the end.
    """
    return 0 if item.get_closest_marker("cluster") else 1 if item.get_closest_marker("program") else 2


def late_files(items: Sequence[pytest.Item]) -> set[str]:
    """Return the files of the last tests with Dask processes."""
    clusters = [file_of(item) for item in items if item.get_closest_marker("cluster")]
    return set(clusters[len(clusters) - int(len(clusters) * LATE_CLUSTERS) :])


def file_of(item: pytest.Item) -> str:
    """Return the path of a test's file, relative to the repository."""
    return item.nodeid.partition("::")[0]


def needs_cluster_marker(item: pytest.Item) -> bool:
    """Whether a test is not marked ``cluster``, but has a fixture or an import that starts Dask processes."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("cluster"):
        return False
    return "cluster" in item.fixturenames or not STARTS_CLUSTERS.isdisjoint(vars(item.module))


def multiply_examples(items: list[pytest.Item], factor: int) -> None:
    """Try every Hypothesis test on more examples, with as much more time; a slow machine fails none of them."""
    laws = [item for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)]
    for law in laws:
        law.add_marker(pytest.mark.timeout(float(law.config.getini("timeout")) * factor))
    for function in {getattr(law.obj, "__func__", law.obj) for law in laws}:  # one for all of its parameters
        own = function._hypothesis_internal_use_settings
        function._hypothesis_internal_use_settings = settings(
            own,
            max_examples=own.max_examples * factor,
            deadline=None,
            suppress_health_check=[*own.suppress_health_check, HealthCheck.too_slow],
        )


#: Modules with the names of libraries: imported here, they would take their places.
collect_ignore = ["cluster/fake_gpu", "cluster/on_dask_gateway.py"]


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order and group the tests by their markers, and skip what needs a GPU where NVML finds none.

    In parallel (``-n 3``) tests with Dask processes run one after the other, beside the rest, and the last of them in a
    second row, when the rest has ended; the others run file by file.
    """
    if unmarked := sorted({file_of(item) for item in items if needs_cluster_marker(item)}):
        raise pytest.UsageError(
            f"{', '.join(unmarked)}: tests that can start Dask processes run one after the other; "
            "mark the module with `pytestmark = pytest.mark.cluster`"
        )
    items.sort(key=start_order)
    if EXAMPLES_FACTOR != 1:
        multiply_examples(items, EXAMPLES_FACTOR)
    if config.pluginmanager.hasplugin("xdist"):
        late = late_files(items)
        items.sort(key=lambda item: file_of(item) in late)
        for item in items:
            row = "late cluster" if file_of(item) in late else "cluster"
            item.add_marker(pytest.mark.xdist_group(row if item.get_closest_marker("cluster") else file_of(item)))
    if not gpus_here():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, and NVML finds none on this machine"))


def pytest_runtestloop() -> None:
    """Leave the tests and all that was imported so far out of later garbage collections, which many tests start."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    """End a parallel run in which xdist ignores the groups: clusters beside each other would be slow and time out."""
    if not all("@" in test for test in ids):
        reason = "`pytest --collect-only` names an unmarked module, or pytest is 9.2 or newer"
        pytest.exit(f"xdist does not see the groups of tests: {reason} (here {pytest.__version__})", 4)


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport, name: str) -> None:
    """In CI nothing may be skipped: a test that does not run shows nothing."""
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"{name} was skipped; in CI it must run: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail what is skipped in CI, but for what needs a GPU."""
    report = yield
    if not item.get_closest_marker("gpu"):
        fail_if_skipped(report, item.nodeid)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a module that is skipped as a whole in CI."""
    report = yield
    fail_if_skipped(report, collector.nodeid)
    return report


def skip_outside_ci(reason: str) -> NoReturn:
    """Skip a test that this machine cannot run; in CI, where nothing may be skipped, fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; in CI this must run")
    pytest.skip(reason)


@pytest.fixture(autouse=True, scope="session")
def workers_start_soon() -> Iterator[None]:
    """All clusters of the tests' own process fork their workers, as a `LocalCluster` does.

    Workers may take minutes to start: what else runs on the machine is no fault of theirs.
    """
    forks = dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    with forks, pytest.MonkeyPatch.context() as patch:
        patch.setattr(nannies, "START_S", 180)
        keep_preload_of_fork_server()
        multiprocessing.get_context("forkserver").set_forkserver_preload(["dcurate.cluster.preloaded"])
        yield


@pytest.fixture(autouse=True, scope="session")
def no_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Rates that earlier test runs measured must not matter, nor those of this one to the user's own runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DCURATE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def logging_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Undo what a test, or a library that it loads, does to all loggers: tests after it would miss messages."""

    def found() -> dict[str, Any]:
        loggers = logging.root.manager.loggerDict.items()
        ours = {name: one.disabled for name, one in loggers if isinstance(one, logging.Logger) and "dcurate" in name}
        return {"level": logging.root.level, "disable": logging.root.manager.disable, "disabled": ours}

    before = found()
    yield
    after = found()
    after["disabled"] = {name: after["disabled"][name] for name in before["disabled"]}
    if after != before:
        logging.root.setLevel(before["level"])
        logging.disable(before["disable"])
        for name, disabled in before["disabled"].items():
            logging.getLogger(name).disabled = disabled
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
            warnings.warn(f"{request.node.nodeid} changed the settings of logging: {changed}", stacklevel=1)


@pytest.fixture(scope="session")
def llm_server() -> Iterator[Endpoint]:
    """A server process with an OpenAI-compatible endpoint for all tests."""
    server = importlib.import_module("dcurate_testing.llm_server")  # aiohttp is not installed beside the oldest Dask
    with server.served() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(llm_server: Endpoint) -> Endpoint:
    """The server, behaving well and having seen nothing."""
    llm_server.behave()
    return llm_server


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


def wait_until(holds: Callable[[], object], what: str = "the condition", seconds: float = 120.0) -> None:
    """Wait until a condition holds; fail after a while."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def wait_for(path: Path, seconds: float = 120.0) -> None:
    """Wait until a file is there and not empty."""
    wait_until(lambda: path.exists() and path.stat().st_size, str(path), seconds)


def free_port() -> int:
    """A port for a server that cannot choose one: below those that the system gives to whoever asks for any."""
    draw = random.SystemRandom()  # tests that run beside each other draw others
    while True:
        port = draw.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def scheduler_and_workers(folder: Path, *worker_options: str) -> Iterator[str]:
    """A ``dask scheduler`` and a ``dask worker`` with the options that they have on a cluster; gives the address."""
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
    with forked(*scheduler, log=folder / "scheduler.log"):
        wait_for(info)
        address = json.loads(info.read_text())["address"]
        with forked(*worker, "--local-directory", str(folder), log=folder / "worker.log"):
            number = int(worker[worker.index("--nworkers") + 1]) if "--nworkers" in worker else 1
            wait_for_workers(address, number)
            yield address


def workers_of(client: Client) -> dict[str, dict[str, Any]]:
    """What the scheduler knows of its workers now, by their addresses.

    ``Client.scheduler_info`` answers from a note that the client also renews by itself, without workers: one time in
    thousands it is that which comes.
    """
    known: dict[str, dict[str, Any]] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return known


def wait_for_workers(address: str, number: int) -> None:
    """Wait until a scheduler has a number of workers, so that clients find them, also on a busy machine."""
    with Client(address, timeout=120, set_as_default=False) as client:
        client.wait_for_workers(number, timeout=120)

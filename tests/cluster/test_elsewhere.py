"""Clusters that run elsewhere: versions are compared, modules of a user travel, and a missing extra is named."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import dcurate
from dcurate import (
    DaskExecutor,
    DocumentBatch,
    JsonlReader,
    JsonlWriter,
    Pipeline,
    ProcessingStage,
    ResourceError,
)
from dcurate.cluster import versions
from dcurate.core import extras
from dcurate.core.owner import owner_here
from dcurate.events import Event, SlotsChanged
from tests.cluster.joining import FILES, run_that_is_joined
from tests.conftest import ROOT, free_port, process, scheduler_and_workers, wait_for, wait_for_workers, workers_of

pytestmark = pytest.mark.cluster

STAGE = """
from dcurate import DocumentBatch, ProcessingStage
from helpers_of_a_user import louder


class Louder(ProcessingStage):
    def process(self, task):
        frame = task.to_pandas()
        return task.with_data(frame.assign(text=[louder(text) for text in frame["text"]]))
"""


@contextmanager
def cluster_in(folder: Path, scheduler: str = "", worker: str = "") -> Iterator[str]:
    """A ``dask scheduler`` and a ``dask worker`` in a folder, after programs of their own; gives the address."""
    info = folder / "scheduler.json"
    where = ["--scheduler-file", str(info), "--no-dashboard"]
    path = f"import os, sys; os.chdir({str(folder)!r}); sys.path[:0] = [{str(ROOT)!r}]; "

    def dask(before: str, *arguments: str) -> list[str]:
        return [sys.executable, "-c", f"{path}{before}from dask.__main__ import main; main()", *arguments, *where]

    started = dask(scheduler, "scheduler", "--host", "127.0.0.1", "--port", "0")
    with process(*started, log=folder / "scheduler.log"):
        wait_for(info)
        found = json.loads(info.read_text())["address"]
        joined = dask(worker, "worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
        with process(*joined, log=folder / "worker.log"):
            wait_for_workers(found, 1)
            yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler and a worker that were started in another directory."""
    with cluster_in(tmp_path_factory.mktemp("elsewhere")) as found:
        yield found


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_the_log_of_the_scheduler_names_runs_with_their_owners(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    reader, writer = JsonlReader(str(tmp_path / "in.jsonl")), JsonlWriter(str(tmp_path / "out"))
    with scheduler_and_workers(tmp_path) as address:
        Pipeline("named", stages=[reader, writer]).run(DaskExecutor(cluster=address), observers=[])
    log = (tmp_path / "scheduler.log").read_text()
    about = f"'named' of {owner_here()}, to {tmp_path / 'out'}"
    assert [line.partition(about)[2] for line in log.splitlines() if about in line] == [" begins", " has ended"]


def test_a_module_of_a_user_travels_with_what_it_imports(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stages_of_a_user.py").write_text(STAGE)
    (tmp_path / "helpers_of_a_user.py").write_text("def louder(text):\n    return text.upper() + '!'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    stage = importlib.import_module("stages_of_a_user").Louder()
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    stages = [JsonlReader(str(tmp_path / "in.jsonl")), stage, JsonlWriter(str(tmp_path / "out"))]
    Pipeline("p", stages=stages).run(DaskExecutor(cluster=address), observers=[])
    assert rows(tmp_path / "out") == [{"text": "A!"}]


@pytest.mark.parametrize("package", ["dcurate", "Python", "distributed", "pandas"])
def test_another_version_is_refused_in_one_sentence(
    address: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, compared = versions.versions() | {package: "99.1"}, versions.difference
    monkeypatch.setattr(versions, "difference", lambda _, there: compared(here, there))
    said = f"^the scheduler has {package} [0-9.]+, and this process has 99.1; install the same versions on the client,"
    with pytest.raises(ResourceError, match=said):
        Pipeline("p", stages=[NeedsMore()]).run(
            DaskExecutor(cluster=address), initial_tasks=[DocumentBatch()], observers=[]
        )


OTHER_NUMBA = """
import importlib.metadata as found
version = found.version
found.version = lambda name: "99.1" if name == "numba" else version(name)
"""


class NeedsColors(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage that needs a library of Python's own."""

    def requires(self) -> dict[str, str]:
        return {"colorsys": "lang"}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


class LoadsColors(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage whose worker loads a library that it does not say it needs."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        importlib.import_module("colorsys")
        vars(self).update(state)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


WITHOUT_COLORS = "import sys; sys.modules['colorsys'] = None"


@pytest.mark.parametrize(
    ("before", "stage", "reason"),
    [
        (OTHER_NUMBA, NeedsColors(), "it has numba 99.1, and the scheduler has "),
        (WITHOUT_COLORS, NeedsColors(), "stage 'needs_colors': No module named 'colorsys'"),
        (WITHOUT_COLORS, LoadsColors(), "it cannot load operator 'jsonl_reader-"),
        ("import sys; sys.modules['dcurate'] = None", NeedsColors(), "it ended before it said what it has"),
    ],
    ids=["version", "library", "loads", "dcurate"],
)
def test_a_stale_worker_that_joins_a_run_is_left_out_with_a_notice(
    before: str, stage: ProcessingStage[Any, Any], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    program = f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n{before}\nfrom dask.__main__ import main; main()"
    with scheduler_and_workers(tmp_path) as address, Client(address, set_as_default=False) as client:
        (good,) = workers_of(client)
        stale = f"tcp://127.0.0.1:{free_port()}"
        where = ["--listen-address", stale, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        command = [sys.executable, "-c", program, "worker", address, *where, "--local-directory", str(tmp_path)]
        joining = process(*command, log=tmp_path / "joined.log")
        heard = run_that_is_joined(address, tmp_path / "in", tmp_path / "out", joining, [stage])
    assert heard.slots == [good]
    [said] = heard.notices
    assert said.startswith(f"worker {stale} takes no part in the run: {reason}")
    assert len(rows(tmp_path / "out")) == FILES


def test_a_worker_that_its_nanny_starts_in_vain_is_left_out_with_one_notice(tmp_path: Path) -> None:
    """Dask keeps such a worker for minutes, though it does nothing any more."""
    (tmp_path / "in").mkdir()
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "dcurate.py").write_text("raise ImportError('not installed')")
    impatient = "import dcurate.engine.dask.joining as joining; joining.ANSWER_S = 8.0; "
    with cluster_in(tmp_path, scheduler=impatient) as address, Client(address, set_as_default=False) as client:
        (good,) = workers_of(client)
        command = [sys.executable, "-m", "dask", "worker", address, "--nanny", "--nthreads", "1", "--no-dashboard"]
        log, environment = tmp_path / "joined.log", {"PYTHONPATH": str(tmp_path / "without"), "PYTHONSAFEPATH": "1"}
        joining = process(*command, "--local-directory", str(tmp_path), log=log, **environment)
        heard = run_that_is_joined(address, tmp_path / "in", tmp_path / "out", joining)
    assert heard.slots == [good]
    [notice] = heard.notices
    assert "takes no part in the run until it answers: it has not for 30 seconds; its log says why" in notice
    assert len(rows(tmp_path / "out")) == FILES


def test_the_version_that_counts_is_that_of_the_modules_that_were_loaded(tmp_path: Path) -> None:
    with (
        cluster_in(tmp_path, worker="import dcurate; dcurate.__version__ = '99.1'; ") as address,
        pytest.raises(ResourceError, match=f"has dcurate 99.1, and this process has {dcurate.__version__};"),
    ):
        Pipeline("p", stages=[NeedsMore()]).run(
            DaskExecutor(cluster=address), initial_tasks=[DocumentBatch()], observers=[]
        )


class Slots:
    """The workers that had slots."""

    def __init__(self) -> None:
        self.workers: set[str] = set()

    def on_event(self, event: Event) -> None:
        if isinstance(event, SlotsChanged):
            self.workers.add(event.worker)


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (f"{OTHER_NUMBA}", "it has numba 99.1, and this process has "),
        ("import sys; sys.modules['dcurate'] = None", "it cannot load dcurate ("),
        ("import sys; sys.modules['colorsys'] = None", "stage 'needs_colors': No module named 'colorsys'"),
    ],
)
def test_one_stale_worker_is_left_out_with_a_notice_and_the_run_goes_on(
    before: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(20):
        (tmp_path / "in" / f"{number:02}.jsonl").write_text(f'{{"text": "{number}"}}\n')
    reader, writer = JsonlReader(str(tmp_path / "in"), files_per_partition=1), JsonlWriter(str(tmp_path / "out"))
    pipeline = Pipeline("p", stages=[reader, NeedsColors(), writer])
    slots = Slots()
    program = f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n{before}\nfrom dask.__main__ import main; main()"
    with scheduler_and_workers(tmp_path) as address, Client(address, set_as_default=False) as client:
        (good,) = workers_of(client)
        joining = [sys.executable, "-c", program, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        with process(*joining, "--local-directory", str(tmp_path), log=tmp_path / "stale.log"):
            wait_for_workers(address, 2)
            (stale,) = {*workers_of(client)} - {good}
            with caplog.at_level(logging.WARNING, "dcurate"):
                pipeline.run(DaskExecutor(cluster=address), observers=[slots])
    assert len(rows(tmp_path / "out")) == 20
    assert slots.workers == {good}
    [said] = [record.getMessage() for record in caplog.records if "takes no part" in record.getMessage()]
    assert said.startswith(f"worker {stale} takes no part in the run: {reason}")


@pytest.mark.parametrize("without", ["scheduler", "worker"])
def test_a_cluster_without_dcurate_is_refused_in_one_sentence(without: str, tmp_path: Path) -> None:
    with (
        cluster_in(tmp_path, **{without: "import sys; sys.modules['dcurate'] = None; "}) as address,
        pytest.raises(ResourceError, match=r"^the cluster cannot load dcurate \(.*\); install"),
    ):
        Pipeline("p", stages=[NeedsMore()]).run(
            DaskExecutor(cluster=address), initial_tasks=[DocumentBatch()], observers=[]
        )


@pytest.mark.parametrize(
    ("here", "there", "matters"),
    [
        ({"numpy": "2.1"}, {"numpy": "2.3"}, False),
        ({"numpy": "2.1"}, {"numpy": "3.0"}, True),
        ({"dask": "2026.7.1"}, {"dask": "2026.7.2"}, True),
        ({"numba": "0.61"}, {}, False),
        ({}, {"numba": "0.61"}, False),
    ],
)
def test_a_version_matters_where_objects_would_not_be_understood(here: Any, there: Any, matters: bool) -> None:
    assert bool(versions.difference(here, there)) == matters


class NeedsMore(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage that needs a library."""

    def requires(self) -> dict[str, str]:
        return {"no_such_module": "lang"}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        raise AssertionError("it was not refused")


def test_an_extra_that_a_worker_lacks_is_named_with_the_worker(address: str) -> None:
    with pytest.raises(ResourceError, match="^worker tcp://.*: stage 'needs_more': No module named 'no_such_module'; "):
        Pipeline("p", stages=[NeedsMore()]).run(
            DaskExecutor(cluster=address), initial_tasks=[DocumentBatch()], observers=[]
        )


def test_an_extra_is_looked_for_before_workers_of_this_machine_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DaskExecutor, "session", lambda self: pytest.fail("workers were started"))
    assert extras.missing(["no_such_module", "json"]) == ["no_such_module"]
    with pytest.raises(ResourceError, match="^stage 'needs_more': No module named 'no_such_module'; "):
        Pipeline("p", stages=[NeedsMore()]).run(DaskExecutor(), initial_tasks=[DocumentBatch()], observers=[])

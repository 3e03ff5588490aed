"""What goes wrong outside of stages, with real processes."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, Worker

from dcurate import AttachedCluster, DaskExecutor, LocalCluster, Pipeline, RunError
from dcurate.cluster import compat
from dcurate.engine.dask import executor
from dcurate.engine.dask.backend import DaskBackend
from dcurate.engine.dask.observation import RunConfig
from dcurate.engine.dask.scheduler_plugin import SlotManager
from dcurate.engine.dask.worker_plugin import DcurateWorkerPlugin
from dcurate.running import pipeline_run
from tests.conftest import ROOT, scheduler_and_workers
from tests.stages import Numbers, Sleep

pytestmark = pytest.mark.cluster


def test_a_scheduler_that_goes_away_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    with scheduler_and_workers(tmp_path, "--nworkers", "1") as address:
        with Client(address, set_as_default=False) as client:
            scheduler = client.run_on_scheduler(os.getpid)
        stream = Pipeline("test", stages=[Numbers(1000, 1), Sleep(0.05)]).stream(
            DaskExecutor(cluster=AttachedCluster(address))
        )
        next(stream)
        threading.Timer(0.5, os.kill, (scheduler, signal.SIGKILL)).start()
        with pytest.raises(RunError, match="scheduler .* start the run again with resume=True to go on"):
            list(stream)


#: What a run calls on its cluster, from its first question to the end.
BEGINNING = {
    "open": (AttachedCluster, "_connect"),
    "versions": (executor, "check_versions"),
    "modules": (executor, "travelling"),
    "serialize": (executor, "pickled_policies"),
    "libraries": (executor, "_check_libraries"),
    "shapes": (executor, "client_offered_shapes"),
    "workers": (executor, "_workers"),
    "fit": (executor, "form_pools"),
    "publish": (pipeline_run, "SnapshotPublisher"),
    "identify": (compat, "identify_workers"),
    "subscribe": (executor, "DaskBackend"),
    "register": (executor, "_register"),
    "install": (executor, "_install_worker_plugin"),
    "loop": (executor, "DriverLoop"),
}


@pytest.mark.parametrize("moment", BEGINNING)
@pytest.mark.timeout(120)
def test_a_scheduler_that_dies_as_a_run_begins_ends_it_with_one_sentence(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name = BEGINNING[moment]
    before = getattr(where, name)
    with (
        scheduler_and_workers(tmp_path, "--nworkers", "1") as address,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        Client(address, set_as_default=False) as client,
    ):
        scheduler = client.run_on_scheduler(os.getpid)

        def kill_first(*arguments: Any, **options: Any) -> Any:
            with suppress(ProcessLookupError):
                os.kill(scheduler, signal.SIGKILL)
            return before(*arguments, **options)

        monkeypatch.setattr(where, name, kill_first)
        with pytest.raises(RunError, match=r"scheduler.* (does not answer|went away|answers at)"):
            Pipeline("test", stages=[Numbers(10, 1), Sleep(0.05)]).run(DaskExecutor(cluster=address))


def test_a_scheduler_that_is_gone_does_not_hide_the_error_of_the_run(tmp_path: Path) -> None:
    short = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with (
        scheduler_and_workers(tmp_path, "--nworkers", "1") as address,
        short,
        Client(address, set_as_default=False) as client,
    ):
        scheduler = client.run_on_scheduler(os.getpid)
        busy = threading.Event()
        client.loop.add_callback(client.rpc.collect)
        client.loop.add_callback(busy.wait, 60)  # the client does not notice that the scheduler is gone
        os.kill(scheduler, signal.SIGKILL)
        threading.Timer(0.5, busy.set).start()
        assert client.status == "running"
        executor._unregister(client, SlotManager("run", RunConfig([], {}), client.id))


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)


SCRIPT = """
from dataclasses import dataclass
from dcurate import DaskExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline, ProcessingStage, processing_stage

SUFFIX = "!"

@dataclass
class Shout(ProcessingStage):
    times: int = 2
    def process(self, task):
        rows = task.to_pandas()
        return task.with_data(rows.assign(text=rows.text.str.upper() + SUFFIX * self.times))

@processing_stage(name="question")
def question(task):
    rows = task.to_pandas()
    return task.with_data(rows.assign(text=rows.text + "?"))

if __name__ == "__main__":
    stages = [JsonlReader("in"), Shout(), question, JsonlWriter("out")]
    Pipeline("script", stages=stages).run(DaskExecutor(cluster=LocalCluster(n_workers=1)))
"""


def test_stages_of_a_script_s_own_travel_to_workers(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "hello"}\n')
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python("script.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert next((tmp_path / "out").glob("*.jsonl")).read_text() == '{"text":"HELLO!!?"}\n'


def test_a_script_from_standard_input_runs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "hello"}\n')
    done = subprocess.run(
        [sys.executable], input=SCRIPT, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert next((tmp_path / "out").glob("*.jsonl")).read_text() == '{"text":"HELLO!!?"}\n'


def test_a_script_without_a_main_guard_is_told_so_and_nothing_besides(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "hello"}\n')
    body = SCRIPT.replace('if __name__ == "__main__":\n', "if True:\n")
    (tmp_path / "script.py").write_text(textwrap.dedent(body))
    done = python("script.py", cwd=tmp_path)
    assert done.returncode == 1
    *frames, sentence = done.stderr.splitlines()
    assert 'put the lines that run the pipeline under: if __name__ == "__main__":' in sentence
    assert [line for line in frames if not line.startswith(" ")] == ["Traceback (most recent call last):"]


def test_importing_dcurate_is_light() -> None:
    heavy = "import sys, dcurate; print([m for m in ('torch', 'bokeh', 'cudf', 'pandas', 'dask') if m in sys.modules])"
    done = python("-c", heavy, cwd=ROOT)
    assert done.stdout == "[]\n"


def made_after_deaths(folder: str, deaths: int) -> str:
    """A result whose making ends its process so many times."""
    Path(folder, str(os.getpid())).touch()
    if len(list(Path(folder).iterdir())) <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return "made"


def test_a_result_whose_remaking_dies_with_its_worker_is_made_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=2, gpus=False) as cluster,
    ):
        backend = object.__new__(DaskBackend)
        backend.client = cluster.client
        monkeypatch.setattr(backend, "_meanwhile", lambda: None)  # the backend has no run, and so no events
        monkeypatch.setattr(compat, "_GATHER_S", 0.01)
        future = cluster.client.submit(made_after_deaths, str(tmp_path), 2, pure=False)
        assert backend._gather(future) == "made"  # type: ignore[comparison-overlap]
        assert len(list(tmp_path.iterdir())) == 3


class DiesOnce(DcurateWorkerPlugin):
    """Kills the first worker that it comes to."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def setup(self, worker: Worker) -> None:
        with suppress(FileExistsError):
            self.mark.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        super().setup(worker)


def test_a_worker_that_dies_as_a_run_begins_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor, "DcurateWorkerPlugin", lambda: DiesOnce(tmp_path / "killed"))
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        stream = Pipeline("test", stages=[Numbers(6, 5), Sleep(0.01)]).stream(DaskExecutor(cluster=cluster))
        assert sum(batch.num_items for batch in stream) == 30
    gc.collect()  # what nobody has asked for is shown when it goes
    assert (tmp_path / "killed").exists()
    assert not [record for record in caplog.records if record.name == "asyncio"]

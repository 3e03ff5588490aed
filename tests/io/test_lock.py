"""The lock of an output: two real processes that want one output, kills, frozen processes, and clocks that differ."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import orjson
import pytest

from dcurate import DataError, DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ProcessingStage
from dcurate.core import owner
from dcurate.core.owner import RunOwner
from dcurate.fs.stores import Directory
from dcurate.io import lock
from dcurate.io.lock import LOCK, OutputLock
from tests.conftest import ROOT, process, wait_for

#: A run that waits in its second split until a file is there.
SLOW = """
import json, sys
from dcurate import InlineExecutor
from tests.io.test_lock import pipeline

asked = json.loads(sys.argv[1])
resume = asked.pop("resume")
pipeline(**asked).run(InlineExecutor(), resume=resume)
"""


@dataclass
class Waits(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Waits in the second split until a file is there, if it has a folder."""

    folder: str = ""
    name: str = "waits"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self.folder and task.key is not None and task.key.split == "b.jsonl":
            Path(self.folder, "waits").write_text("x")
            while not Path(self.folder, "go").exists():
                time.sleep(0.02)
        return task


def pipeline(source: str, output: str, mode: Any, folder: str = "", options: dict[str, Any] | None = None) -> Pipeline:
    writer = JsonlWriter(output, mode=mode, storage_options=options)
    return Pipeline("run", stages=[JsonlReader(source, storage_options=options), Waits(folder), writer])


#: A process whose clock jumps a day back and forth at each look.
SKEW = """
import time
true_time, state = time.time, [0]
def jumping():
    state[0] += 1
    return true_time() + 86_400.0 * (-1) ** state[0]
time.time = jumping
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.jsonl").write_text(json.dumps({"text": f"text of {name}"}) + "\n")
    return folder


class Other:
    """A run in another process, which goes on until `finish`."""

    def __init__(self, started: subprocess.Popen[bytes], folder: Path) -> None:
        self.process, self.folder, self.log = started, folder, folder / "other.log"

    def finish(self) -> int:
        (self.folder / "go").touch()
        return self.process.wait(60)


@contextmanager
def other_run(
    folder: Path, source: str, output: str, mode: str = "error", resume: bool = False, **more: Any
) -> Iterator[Other]:
    """Start a run in another process, and wait until it is in its second split."""
    for name in ("waits", "go"):
        (folder / name).unlink(missing_ok=True)
    asked = {"folder": str(folder), "source": source, "output": output, "mode": mode, "resume": resume}
    asked["options"] = more.pop("options", None)
    (folder / "slow.py").write_text(SLOW)
    command = [sys.executable, str(folder / "slow.py"), json.dumps(asked)]
    with process(*command, log=folder / "other.log", **more) as started:
        wait_for(folder / "waits")
        yield Other(started, folder)
        started.kill()


def run(source: Path | str, output: Path | str, mode: Any = "error", resume: bool = False, options: Any = None) -> None:
    run_here = pipeline(str(source), str(output), mode, options=options)
    run_here.run(InlineExecutor(), resume=resume, observers=[])


def files_of(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}


def texts(output: Path) -> list[str]:
    return sorted(json.loads(data)["text"] for data in files_of(output).values())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process wait three seconds for a heartbeat, and not thirty."""
    monkeypatch.setattr(lock, "STALE_S", 3.0)


@pytest.mark.parametrize(
    ("first", "second", "resume"),
    [
        ("overwrite", "overwrite", False),
        ("append", "append", False),
        ("ignore", "ignore", False),
        ("append", "overwrite", False),
        ("overwrite", "append", True),
        ("error", "error", False),
        ("error", "error", True),
    ],
)
def test_a_second_run_is_refused_and_deletes_nothing(
    first: str, second: str, resume: bool, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    if first in ("append", "overwrite"):
        run(source, output)
    with other_run(tmp_path, str(source), str(output), first) as other:
        before = files_of(output)
        with pytest.raises(DataError) as raised:
            run(source, output, second, resume)
        assert files_of(output) == before
        assert before
        held = json.loads((tmp_path / "out.dcurate" / "owner.json").read_text())
        assert f"being written by run {held['run']} of {held['owner']} (process {other.process.pid} on" in str(
            raised.value
        )
        assert "last heartbeat 20" in str(raised.value)
        assert str(raised.value).endswith("wait for its end, stop that process, or name another directory")
        assert other.finish() == 0, other.log.read_text()
    wanted = ["text of a", "text of b", "text of c"]
    assert texts(output) == sorted(wanted * (2 if first == "append" else 1))
    assert not (tmp_path / "out.dcurate" / "owner.json").exists()
    if not resume:
        run(source, output, "overwrite")
        assert texts(output) == wanted


def test_the_output_of_a_process_that_was_killed_is_free_at_once(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with other_run(tmp_path, str(source), str(output)) as other:
        other.process.kill()
        began = time.monotonic()
        run(source, output, resume=True)  # before anybody has asked how the process ended
    assert time.monotonic() - began < lock.STALE_S / 2
    assert texts(output) == ["text of a", "text of b", "text of c"]
    assert not (tmp_path / "out.dcurate" / "owner.json").exists()


def test_a_frozen_run_is_taken_over_and_ends_when_it_goes_on(source: Path, tmp_path: Path, short: None) -> None:
    output = tmp_path / "out"
    with other_run(tmp_path, str(source), str(output)) as other:
        other.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        run(source, output, resume=True)
        assert time.monotonic() - began >= lock.STALE_S
        after = files_of(output)
        records = files_of(tmp_path / "out.dcurate")
        with OutputLock("later") as mine:  # a third run, which is there when the frozen one goes on
            mine.acquire(Directory(str(output)))
            other.process.send_signal(signal.SIGCONT)
            time.sleep(2 * lock.BEAT_S)
            assert other.finish() == 1
        assert "run later of" in other.log.read_text()
        assert "has taken" in other.log.read_text()
    assert files_of(output) == after
    assert {name: data for name, data in files_of(tmp_path / "out.dcurate").items() if "ledger" in name} == {
        name: data for name, data in records.items() if "ledger" in name
    }


def test_a_clock_that_jumps_neither_frees_an_output_nor_keeps_it(source: Path, tmp_path: Path, short: None) -> None:
    output = tmp_path / "out"
    (tmp_path / "skew").mkdir()
    (tmp_path / "skew" / "sitecustomize.py").write_text(SKEW)
    path = f"{tmp_path / 'skew'}:{ROOT}"
    with other_run(tmp_path, str(source), str(output), PYTHONPATH=path) as other:
        with pytest.raises(DataError, match="is being written by run"):
            run(source, output, "overwrite")
        assert other.finish() == 0, other.log.read_text()
    held = {"run": "x", "nonce": "y", "at": time.time() + 1e6, "machine": "another boot", "born": "1", "process": 1}
    (tmp_path / "out.dcurate" / "owner.json").write_bytes(orjson.dumps(held))
    run(source, output, "overwrite")  # of a host that died and whose clock was ahead
    assert texts(output) == ["text of a", "text of b", "text of c"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"process": "x", "machine": 3, "born": []}'])
def test_a_damaged_lock_is_that_of_a_dead_run(content: bytes, source: Path, tmp_path: Path, short: None) -> None:
    (tmp_path / "out.dcurate").mkdir()
    (tmp_path / "out.dcurate" / "owner.json").write_bytes(content)
    run(source, tmp_path / "out")
    assert texts(tmp_path / "out") == ["text of a", "text of b", "text of c"]


def test_another_driver_of_the_same_job_takes_over_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_present", [RunOwner("alice@laptop", "7f3a90c1")])
    directory = Directory(str(tmp_path / "out"))
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(OutputLock(name)) for name in ("one", "two", "three"))
        first.acquire(directory)
        began = time.monotonic()
        second.acquire(directory)
        assert time.monotonic() - began < lock.BEAT_S
        eventually(lambda: first.lost)
        with pytest.raises(DataError, match=r"run two of alice@laptop \(job 7f3a90c1, process .* has taken "):
            first.check()
        second.check()
        monkeypatch.setattr(owner, "_present", [RunOwner("bob@desk", "11111111")])
        with pytest.raises(DataError, match=r"stop it \(dcurate stop 7f3a90c1\), or name another directory$"):
            third.acquire(directory)
    assert directory.read(LOCK) is None
    assert not files_of(tmp_path / "out.dcurate")


def eventually(holds: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_of_several_that_find_a_dead_lock_one_has_it(tmp_path: Path) -> None:
    program = """
import sys
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.io.lock import OutputLock
with OutputLock("run") as lock:
    try:
        lock.acquire(Directory(sys.argv[1]))
    except DataError as error:
        print("refused")
    else:
        print("has it", flush=True)
        sys.stdin.read()
"""
    (tmp_path / "out.dcurate").mkdir()
    dead = {"nonce": "x", "machine": lock._machine(), "process": os.getpid(), "born": "1"}
    (tmp_path / "out.dcurate" / "owner.json").write_bytes(orjson.dumps(dead))
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    lines = [each.stdout.readline().strip() for each in started if each.stdout]
    for each in started:
        each.communicate()
    assert sorted(lines) == ["has it", "refused", "refused", "refused"]


def test_a_run_that_is_refused_or_fails_leaves_no_lock(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "out")
    with pytest.raises(DataError, match="holds the output of a finished"):
        run(source, tmp_path / "out")
    stream = pipeline(str(source), str(tmp_path / "more"), "error").stream(InlineExecutor())
    next(stream)
    assert (tmp_path / "more.dcurate" / "owner.json").exists()
    stream.close()
    for name in ("out", "more"):
        assert not (tmp_path / f"{name}.dcurate" / "owner.json").exists()


def test_the_lock_counts_neither_as_data_nor_as_a_record_of_a_run(tmp_path: Path, source: Path) -> None:
    """A directory with a file that has a name of ours, but no records, is not ours to overwrite."""
    output = tmp_path / "out"
    output.mkdir()
    (output / f"x-{0:012x}.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="holds files that dcurate did not write"):
        run(source, output, "overwrite")
    assert list(files_of(output)) == [f"x-{0:012x}.jsonl"]


def test_a_full_disk_leaves_no_half_lock(small_disk: Path) -> None:
    (small_disk / "fill").write_bytes(bytes(1 << 20)[: _free(small_disk)])
    with (
        OutputLock("run") as mine,
        pytest.raises(DataError, match="no space left on device while writing"),
    ):
        mine.acquire(Directory(str(small_disk / "out")))
    assert not list(small_disk.rglob("owner.json"))


def _free(path: Path) -> int:
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize


def test_an_output_in_a_store_has_an_owner(bucket: tuple[str, dict[str, Any]], tmp_path: Path, short: None) -> None:
    url, options = bucket
    store = fsspec.filesystem("s3", **options, skip_instance_cache=True)
    for name in "abc":
        store.pipe_file(f"{url}/in/{name}.jsonl", b'{"text": "%s"}\n' % name.encode())

    def data() -> list[bytes]:
        store.invalidate_cache()
        return sorted(store.cat_file(name) for name in store.find(f"{url}/out") if ".dcurate" not in name)

    with other_run(tmp_path, f"{url}/in", f"{url}/out", "overwrite", options=options) as other:
        written = data()
        with pytest.raises(DataError, match="is being written by run"):
            run(f"{url}/in", f"{url}/out", "overwrite", options=options)
        assert data() == written
        other.process.send_signal(signal.SIGSTOP)
        run(f"{url}/in", f"{url}/out", "overwrite", resume=True, options=options)
    assert data() == [b'{"text": "%s"}\n' % name for name in (b"a", b"b", b"c")]
    assert not store.exists(f"{url}/out.dcurate/owner.json")

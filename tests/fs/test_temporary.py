"""Folders in the temporary directory are this user's alone, and nothing stays of processes that were killed."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import dcurate
from dcurate import ExactDuplicates, JsonlReader, LocalCluster, Pipeline, ResourceError
from dcurate.cluster import fork_server
from dcurate.core.pipeline import AnyStage
from dcurate.dedup.removal_ids import RemovalIds
from dcurate.download import origin
from dcurate.engine.worker.slots import forget_host_setup
from dcurate.engine.worker.timeouts import (
    WATCHDOG,
    acquire_host_folder,
    host_folder,
    release_host_folder,
    take_hangs,
)
from dcurate.fs.temporary import folder_of_host, held, own_folder, remove_unused, scratch_folder, sweep

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A temporary directory of the test's own, with the rights of ``/tmp``."""
    fork_server.start()  # its socket is not in there: other tests of this process use it, too
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def base(temporary):
    return temporary / f"dcurate-{os.getuid()}"


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


#: Everything that has a folder with a name that others can guess.
USES = {
    "a folder of ones own": lambda: own_folder("some", "more"),
    "a run on a host": lambda: acquire_host_folder("run"),
    "reports of hung calls": lambda: take_hangs("run"),
    "limits per server": lambda: origin._opened("host.0").close(),
    "sorted ids": lambda: RemovalIds("nowhere", "id").opened(),
    "between rounds": lambda: scratch_folder().__enter__(),
    "scratch space of Dask": lambda: LocalCluster(n_workers=1)._started(0),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("planted", ["a link", "a dangling link", "a file"])
def test_what_somebody_else_put_in_its_place_is_refused_in_a_sentence(temporary, tmp_path, monkeypatch, use, planted):
    monkeypatch.setattr(RemovalIds, "version", "0")
    target = tmp_path / "target"
    if planted == "a link":
        target.mkdir()
    if planted == "a file":
        base(temporary).touch()
    else:
        base(temporary).symlink_to(target)
    with pytest.raises(ResourceError, match="cannot be used as a private folder") as caught:
        USES[use]()
    assert "TMPDIR" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not target.exists() or not list(target.iterdir())


@pytest.mark.parametrize("planted", ["some", "some/more"])
def test_links_further_down_are_refused_as_well(temporary, tmp_path, planted):
    (base(temporary) / planted).parent.mkdir(parents=True)
    (base(temporary) / planted).symlink_to(tmp_path)
    with pytest.raises(ResourceError, match="cannot be used as a private folder"):
        own_folder("some", "more")


def test_a_folder_of_another_user_is_refused(temporary):
    """Only a superuser can give a folder away; for others the owner of the root folder will do."""
    if os.getuid():
        base(temporary).parent.rmdir()
        base(temporary).parent.symlink_to("/")
        theirs = Path("/")
        with pytest.raises(ResourceError, match="belongs to another user"):
            held(theirs)
        return
    base(temporary).mkdir()
    os.chown(base(temporary), 12345, -1)
    with pytest.raises(ResourceError, match="belongs to another user"):
        own_folder("some")
    assert not list(base(temporary).iterdir())


def test_every_folder_is_private_with_any_umask(temporary):
    base(temporary).mkdir()
    base(temporary).chmod(0o777)
    before = os.umask(0)
    try:
        run = acquire_host_folder("run")
        origin._opened("host.0").close()
        with scratch_folder() as scratch:
            found = [base(temporary), run, Path(scratch), *(one for one in base(temporary).rglob("*") if one.is_dir())]
            assert {path.name: rights(path) for path in found} == {path.name: 0o700 for path in found}
    finally:
        os.umask(before)
        release_host_folder("run")
    assert not Path(scratch).exists()


PROGRAM = """
import os, sys, time
from pathlib import Path
from dcurate.fs.temporary import own_folder, scratch_folder
from dcurate.fs.locks import open_locked
from dcurate.engine.worker.timeouts import acquire_host_folder

with scratch_folder() as scratch:
    Path(scratch, "rows").touch()
    (acquire_host_folder("theirs") / "operator.done").touch()
    ids = own_folder("ids")
    lock = open_locked(ids / "0123.lock", shared=True)
    (ids / "0123").mkdir()
    print("ready", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_left_goes_at_the_next_run_and_what_a_living_one_uses_stays(temporary, monkeypatch):
    monkeypatch.setattr(RemovalIds, "version", "4567")
    monkeypatch.setattr(RemovalIds, "_sort", lambda *_: (_ for _ in ()).throw(KeyError("enough")))
    environment = {**os.environ, "PYTHONPATH": str(Path(dcurate.__file__).parent.parent)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        left = [host_folder("theirs"), own_folder("ids", "0123"), *folder_of_host("scratch").iterdir()]
        assert len(left) == 3

        def next_run(name):
            acquire_host_folder(name)
            with scratch_folder(), pytest.raises(KeyError):
                RemovalIds("nowhere", "id").opened()
            release_host_folder(name)

        next_run("one")
        assert all(path.exists() for path in left)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        assert all(path.exists() for path in left)
        next_run("two")
        assert [path for path in left if path.exists()] == []
        assert not list(own_folder("ids").iterdir())
    finally:
        process.kill()
        process.communicate()


def test_marks_of_a_run_stay_until_the_last_process_of_the_host_forgets_it(temporary):
    environment = {**os.environ, "PYTHONPATH": str(Path(dcurate.__file__).parent.parent)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        mark = acquire_host_folder("theirs") / "operator.done"
        forget_host_setup("theirs")
        assert mark.exists()
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        forget_host_setup("theirs")
        assert not mark.parent.exists()
    finally:
        process.kill()
        process.communicate()


def test_a_report_of_a_call_that_hung_waits_for_who_asks_for_it(temporary):
    folder = acquire_host_folder("hanging")
    (folder / "hung-4194305.txt").write_text("stage 'x'\nTimeout (0:00:01)!\n")
    release_host_folder("hanging")
    acquire_host_folder("next")
    assert [hang.doing for hang in take_hangs("hanging")] == ["stage 'x'"]
    release_host_folder("next")
    acquire_host_folder("third")
    assert not folder.exists()
    release_host_folder("third")


def test_a_folder_that_is_removed_as_it_is_taken_is_made_again(tmp_path, monkeypatch):
    flock, times = fcntl.flock, []

    def late(folder, how):
        if len(times) < 3:
            times.append(how)
            (tmp_path / "f").rmdir()
        flock(folder, how)

    monkeypatch.setattr(fcntl, "flock", late)
    folder = held(tmp_path / "f")
    assert (tmp_path / "f").is_dir()
    sweep(tmp_path)
    assert (tmp_path / "f").is_dir()
    os.close(folder)
    sweep(tmp_path)
    assert not (tmp_path / "f").exists()


def test_a_folder_that_another_process_looks_at_is_removed_after_that_and_one_that_is_held_stays(tmp_path, monkeypatch):
    path = tmp_path / "run"
    path.mkdir()
    other = os.open(path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            fcntl.flock(other, lasts)

    monkeypatch.setattr("dcurate.fs.temporary.time.sleep", wait)
    lasts = fcntl.LOCK_EX
    remove_unused(path)
    assert path.exists()
    assert sum(waits) <= 1.01
    waits, lasts = [], fcntl.LOCK_UN
    remove_unused(path)
    assert (len(waits), path.exists()) == (3, False)
    path.mkdir()
    mine, waits = held(path), []
    remove_unused(path)
    assert (waits, path.exists()) == ([], True)
    os.close(mine)
    os.close(other)


def test_a_run_leaves_nothing_and_begins_with_what_others_left(temporary, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n{"text": "a"}\n')
    left = held(folder_of_host("scratch") / "left")
    os.close(left)
    result = Pipeline("p", stages=[JsonlReader(str(source)), ExactDuplicates()]).run(dcurate.InlineExecutor())
    assert sum(len(batch.to_pandas()) for batch in result) == 1  # type: ignore[attr-defined, misc]
    assert not list(folder_of_host("scratch").iterdir())
    assert not list(folder_of_host("runs").iterdir())
    assert not WATCHDOG._files


def test_an_embedded_cluster_keeps_what_it_spills_and_all_else_in_the_private_folder(temporary, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n{"text": "a"}\n')
    stages: list[AnyStage] = [JsonlReader(str(source)), ExactDuplicates()]
    executor = dcurate.DaskExecutor(cluster=LocalCluster(n_workers=1))
    result = Pipeline("p", stages=stages).run(executor, observers=[])
    assert sum(len(batch.to_pandas()) for batch in result) == 1  # type: ignore[attr-defined, misc]
    left = {path for path in temporary.iterdir() if not path.name.startswith("pymp-")}  # multiprocessing's, private
    assert left == {base(temporary)}
    assert rights(base(temporary)) == 0o700
    assert [path.name for path in folder_of_host("dask").iterdir()] == ["dask-scratch-space"]

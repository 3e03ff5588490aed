"""Workers of this machine are forked from a process that has loaded what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest

from dcurate import LocalCluster
from dcurate.cluster import fork_server

pytestmark = pytest.mark.cluster

PROGRAM = """
import os, sys
from multiprocessing import forkserver
import psutil
from dcurate import LocalCluster
from dcurate.cluster.preloaded import MODULES

def parent():
    return psutil.Process().ppid(), os.environ.get("GIVEN"), sorted(set(sys.modules) & set(MODULES)) == sorted(MODULES)

def asked(cluster):
    (answer,) = cluster.client.run(parent).values()
    return answer

if __name__ == "__main__":
    os.environ["GIVEN"] = "first"
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        number, given, loaded = asked(cluster)
        server = psutil.Process(number)
        assert "forkserver" in " ".join(server.cmdline()) and server.ppid() == os.getpid(), server.cmdline()
        assert given == "first" and loaded
    os.environ["GIVEN"] = "second"
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        number, given, _ = asked(cluster)
        assert (number, given) == (os.getpid(), "second")
    os.environ["GIVEN"] = "first"
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        assert asked(cluster)[:2] == (server.pid, "first")
"""


def test_workers_are_forked_while_the_environment_is_the_same(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    (tmp_path / "pandas.py").write_text("raise SystemExit('taken from the folder of the script')")
    subprocess.run([sys.executable, "-P", script], cwd=tmp_path, check=True, timeout=240)


START = """
import sys
from multiprocessing import forkserver
from numba import njit
import numpy as np
from dcurate.cli import main

@njit
def product(a):
    return np.dot(a, a)

def loaded():
    return {"pandas", "numba.np.arraymath", "scipy.linalg"} & set(sys.modules), product(np.full((1, 1), 3.0)).item()

if __name__ == "__main__":
    sys.argv = ["dcurate", "run", "demo", "--input", "a.jsonl", "--output", "out", "--workers", "1", "--quiet"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
    assert not {"pandas", "numba.np.arraymath", "scipy.linalg", "urllib3"} & set(sys.modules)
    from dcurate import LocalCluster
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        ((there, nine),) = cluster.client.run(loaded).values()
        assert there == {"pandas", "numba.np.arraymath"} and nine == 9.0, (there, nine)
"""


def test_each_process_of_a_run_loads_only_the_libraries_that_it_needs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(START)
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' * 3)
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, timeout=240)


def test_a_process_that_starts_a_run_loads_no_kernel_to_find_the_columns(tmp_path: Path) -> None:
    nested = '{"text": "two", "deep": ' + "[" * 50 + "]" * 50 + "}"
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' + nested + "\n")
    code = (
        "import sys, dcurate\n"
        "reader = dcurate.JsonlReader('a.jsonl', on_bad_line='quarantine')\n"
        "print(*reader.columns(), 'numba.np.arraymath' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "text False\n"


def test_workers_come_back_after_the_process_that_they_are_forked_from_is_killed() -> None:
    with LocalCluster(n_workers=2, memory_limit=2**30, gpus=False) as cluster:
        before = set(cluster.client.run(os.getpid).values())
        ended = [psutil.Process(pid) for pid in before]
        server = psutil.Process(min(before)).parent()
        assert server is not None
        assert server.pid == vars(vars(forkserver)["_forkserver"])["_forkserver_pid"]
        server.send_signal(signal.SIGKILL)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            now = set(cluster.client.run(os.getpid, on_error="ignore").values())
            if len(now) == 2 and not now & before:
                break
            time.sleep(0.2)
        assert len(now) == 2
        assert not now & before
        _, alive = psutil.wait_procs(ended, timeout=30)
        assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]  # those whom nobody waits for


def test_a_command_that_fails_leaves_no_process_that_loads(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("dcurate")), "run", "no-such-recipe"]
    ended = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "neither a recipe file nor the name of a bundled recipe" in ended.stderr
    left = [one.cmdline() for one in psutil.process_iter() if _is_in(one, tmp_path)]
    assert not left


def _is_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.cwd() == str(folder)
    except psutil.Error:
        return False


def test_nothing_is_forked_from_a_process_with_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_started_with", {"OMP_NUM_THREADS": "3"})
    assert not fork_server.start()


SPAWNED = """
import os
import psutil
from dcurate import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        (parent,) = cluster.client.run(lambda: psutil.Process().ppid()).values()
    assert parent == os.getpid()
"""


def test_workers_start_where_the_temporary_directory_has_too_long_a_path_for_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SPAWNED)
    subprocess.run([sys.executable, script], env={**os.environ, "TMPDIR": str(folder)}, check=True, timeout=240)

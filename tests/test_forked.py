"""Programs that tests fork end, print and find modules as those that Python starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.forked import finished

pytestmark = pytest.mark.cluster

PROGRAM = """
import os, sys
import beside
print(beside.NAME, sys.argv[1:], os.environ["GIVEN"], os.getcwd() == sys.path[0], __name__)
print("wrong", file=sys.stderr)
sys.exit(3)
"""

WORKERS = """
import sys
from dcurate import LocalCluster

def loaded():
    return "tests.forked" in sys.modules

if __name__ == "__main__":
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        print(sorted(cluster.client.run(loaded).values()))
"""


def test_a_program_ends_prints_and_finds_modules_as_one_that_python_starts(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    done = finished([sys.executable, "-m", "program", "a", 1], cwd=tmp_path, env={"GIVEN": "b"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "beside ['a', '1'] b True __main__\n", "wrong\n")


def test_workers_of_a_program_are_forked_from_a_copy_of_it_and_load_nothing_again(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(WORKERS)
    done = finished([sys.executable, "-m", "program"], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[True, True]\n"), done.stderr

"""How the command ends on signals: Ctrl-C, SIGTERM, and a second one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.program

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}

RECIPE = """
params: {output: out}
stages:
  - JsonlReader: {file_paths: in, files_per_partition: 1}
  - slow_stage:Slow: {}
  - JsonlWriter: {path: ${output}}
"""

SLOW = """
import time
from pathlib import Path

from dcurate import ProcessingStage


class Slow(ProcessingStage):
    def process(self, task):
        time.sleep(0 if Path("hurry").exists() else 0.4)
        return task
"""


@pytest.fixture
def here(tmp_path):
    (tmp_path / "r.yaml").write_text(RECIPE)
    (tmp_path / "slow_stage.py").write_text(SLOW)
    (tmp_path / "in").mkdir()
    for part in range(40):
        (tmp_path / "in" / f"part-{part:02}.jsonl").write_text(f'{{"text": "document {part}"}}\n')
    return tmp_path


def started(here, *options):
    """The command in a group of its own, once it has written some output."""
    minding = ["env", "--default-signal=INT,TERM"]  # what a shell starts in the background would ignore it
    command = [*minding, sys.executable, "-m", "dcurate.cli", "run", "r.yaml", "--trust", *options]
    running = subprocess.Popen(
        command, cwd=here, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    end = time.monotonic() + 60
    while len(list(Path(here, "out").glob("*.jsonl"))) < 2:
        assert time.monotonic() < end, "no output within 60 s"
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.05)
    return running


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_a_terminated_run_ends_in_good_order_and_can_be_resumed(here, mode):
    running = started(here, "--mode", mode)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 143, said
    assert "Traceback" not in said
    assert "stopping cleanly; press Ctrl-C again to stop at once" in said
    assert said.splitlines()[-1] == f"terminated; resume with: dcurate run r.yaml --trust --mode {mode} --resume"
    assert (here / "out.dcurate" / "report.json").exists()
    (here / "hurry").touch()
    command = [
        sys.executable,
        "-m",
        "dcurate.cli",
        "run",
        "r.yaml",
        "--trust",
        "--mode",
        "inline",
        "--resume",
        "--quiet",
    ]
    assert subprocess.run(command, cwd=here, env=ENVIRONMENT, timeout=120, check=False).returncode == 0
    assert len(list((here / "out").glob("*.jsonl"))) == 40


def test_a_second_ctrl_c_ends_at_once_and_leaves_no_worker(here):
    running = started(here, "--mode", "streaming")
    family = psutil.Process(running.pid).children(recursive=True)
    assert family
    running.send_signal(signal.SIGINT)
    line = ""
    while "stopping" not in line:
        line = running.stderr.readline()
        assert line, "it ended without a word"
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "resume with" not in said  # it did not end cleanly, and says nothing more
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive

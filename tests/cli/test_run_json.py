"""`dcurate run --json`: the result for other programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dcurate import read_run
from dcurate.cli import cli
from tests.conftest import ROOT

LINES = '{"text": "one two"}\n{broken\n{"text": "one"}\n[]\n{"text": "three four"}\n'
RECIPE = """
params: {input: in.jsonl, output: out, words: 2}
stages:
- JsonlReader: {file_paths: "${input}", on_bad_line: quarantine}
- ScoreFilter: {filter_obj: {WordCountFilter: {min_words: "${words}"}}}
- JsonlWriter: {path: "${output}"}
"""

HELD = """
from dcurate import processing_stage


@processing_stage()
def hold(task):
    open("begun.txt", "w").close()
    open("held.txt").read()
    return task
"""
#: How the stage waits. Python remembers for the end of the process that an `exec` of text was interrupted, and ignores
#: what is raised within a callback from C, after which the stage waits again.
HELD_BY = {
    "code": 'open("held.txt").read()',
    "text": "exec('open(\"held.txt\").read()')",
    "callback": """__import__("ctypes").CFUNCTYPE(None)(lambda: open("held.txt") and None)(); open("held.txt")""",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text(LINES)
    (tmp_path / "r.yaml").write_text(RECIPE)
    return tmp_path


def run(*arguments: str) -> tuple[Result, dict[str, Any]]:
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    return result, json.loads(result.stdout)


@pytest.mark.parametrize("more", [[], ["--quiet"], ["--progress", "json"], ["--progress", "lines"]])
def test_the_result_is_json_and_says_what_became_of_each_row(more: list[str], here: Path) -> None:
    result, outcome = run("run", "r.yaml", "--mode", "inline", *more)
    assert result.exit_code == 0
    assert outcome["state"] == "done"
    taken_out = [
        rows for counts in ("dropped", "quarantined") for stage in outcome[counts].values() for rows in stage.values()
    ]
    assert outcome["rows_in"] == outcome["rows_out"] + sum(taken_out) == 5
    assert outcome["dropped"] == {"word_count": {"word_count": 1}}
    assert outcome["quarantined"] == {"jsonl_reader": {"malformed line": 2}}
    assert (outcome["output"], outcome["files"]) == (str(here / "out"), 1)
    assert Path(outcome["report"]).is_file()
    assert Path(outcome["quarantine"]).is_dir()
    assert outcome["run"] == read_run("out").report.run
    assert ("jsonl_writer" in result.stderr) is (more != ["--quiet"])


def test_a_run_that_fails_is_json_too_and_exits_as_without_it() -> None:
    for arguments in (["--set", "wrds=3"], ["--input", "none"], ["--set", "mode=wrong"], ["--shard", "3"]):
        result, outcome = run("run", "r.yaml", "--mode", "inline", *arguments)
        plain = CliRunner().invoke(cli, ["run", "r.yaml", "--mode", "inline", *arguments])
        assert (result.exit_code, type(result.exception)) == (plain.exit_code, type(plain.exception))
        assert outcome == {"state": "failed", "why": str(plain.exception)}
    again = [run("run", "r.yaml", "--mode", "inline")[1] for _ in range(2)]
    assert [outcome["state"] for outcome in again] == ["done", "failed"]
    assert "go on with it with --resume" in again[1]["why"]


def test_shards_that_are_joined_are_json() -> None:
    for number in (1, 2):
        (_, outcome) = run("run", "r.yaml", "--mode", "inline", "--shard", f"{number}/2")
        assert Path(outcome["report"]).is_file()
    result, outcome = run("finish", "r.yaml")
    assert (result.exit_code, outcome["rows_in"], outcome["rows_out"]) == (0, 5, 2)
    result, outcome = run("finish", "r.yaml", "--output", "none")
    assert (result.exit_code, outcome["state"]) == (1, "failed")


@pytest.mark.program
@pytest.mark.parametrize("within", HELD_BY)
def test_a_run_that_is_stopped_says_so(here: Path, within: str) -> None:
    os.mkfifo(here / "held.txt")
    (here / "held.py").write_text(HELD.replace('open("held.txt").read()', HELD_BY[within]))
    (here / "r.yaml").write_text(RECIPE.replace("- ScoreFilter", "- held:hold\n- ScoreFilter"))
    command = [sys.executable, "-m", "dcurate.cli", "run", "r.yaml", "--mode", "inline", "--trust", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        deadline = time.monotonic() + 120
        while running.poll() is None and not (here / "begun.txt").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        written, _ = running.communicate(timeout=120)
    assert json.loads(written) == {"state": "stopped", "why": ""}
    assert running.returncode == 130

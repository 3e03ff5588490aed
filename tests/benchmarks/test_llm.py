"""The benchmark of asking a model runs on few rows and writes the figures that it promises."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.program


def test_llm_gives_speeds_and_cpu_of_each_way_to_ask(tmp_path: Path) -> None:
    file = tmp_path / "llm.json"
    small = ("--latency", "0.01", "--spread", "0.5", "--concurrency", "4", "--rounds", "3", "--repeat", "1")
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.llm", *small, "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(file.read_text())
    assert [(one["who"], one["rows"]) for one in figures["runs"]] == [
        ("dcurate", 12),
        ("dcurate over AsyncOpenAI", 12),
        ("AsyncOpenAI and gather", 12),
        ("OpenAI, one at a time", 3),
    ]
    assert all(one["cpu_s"] > 0 for one in figures["runs"])
    assert {"machine", "versions"} <= set(figures)

"""The benchmark of being watched runs on a small run and writes the figures that it promises."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.program


def test_observe_metrics_gives_the_cost_of_a_scrape_and_of_a_span(tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    options = ("--stages", "3", "--workers", "4", "--reasons", "2", "--repeat", "3", "--json", str(file))
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.observe_metrics", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(file.read_text())
    assert 0 < figures["scrape"]["cpu_ms"]["median"] <= figures["scrape"]["cpu_ms"]["most"]
    assert figures["scrape"]["series"] > 100
    assert figures["span_us"] > 0
    assert {"machine", "versions"} <= set(figures)

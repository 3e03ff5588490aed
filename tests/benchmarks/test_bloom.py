"""The benchmark of the Bloom filter runs on few keys and writes the figures that it promises."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.program


def test_bloom_gives_rates_speeds_and_the_cost_of_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "bloom.json"
    options = ("--keys", "20000", "--batches", "2", "--processes", "1", "--json", str(file))
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.bloom", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(file.read_text())
    assert [one["missed"] for one in figures["rates"]] == [0] * 5
    assert all(one["bits_a_key"] > 4 and one["query_ns"] > 0 for one in figures["rates"])
    assert figures["claims"][0]["claim_ms"] > 0
    assert {"machine", "versions"} <= set(figures)

"""The benchmarks run on tiny input and write the figures that they promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]


def figures_of(benchmark: str, folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """What a benchmark writes as JSON, and what it prints."""
    file = folder / "figures.json"
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--repeat", "1", "--json", str(file), *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(file.read_text()), ended.stdout


def test_filters_gives_rates_and_leaves_out_a_peer_that_is_not_there(tmp_path: Path) -> None:
    rows = [{"text": f"Document {number}: " + "the quick brown fox jumps over it. " * 20} for number in range(40)]
    (tmp_path / "input.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    figures, printed = figures_of(
        *("filters", tmp_path, "--input", str(tmp_path / "input.jsonl"), "--sizes", "1,2", "--workers", "1"),
        *("--peer", "datatrove", "--peer-python", str(tmp_path / "nowhere")),
    )
    assert {"marginal_mb_per_cpu_s", "mb_per_cpu_s", "wall_s_per_mb", "peak_rss_mb", "rules"} <= set(figures["dcurate"])
    assert [size["documents_in"] for size in figures["dcurate"]["sizes"]] == [40, 80]
    assert figures["peers"] == {}
    assert "datatrove: not installed here" in printed
    assert {"machine", "versions", "ratio"} <= set(figures)


def test_overhead_gives_times_costs_and_peaks(tmp_path: Path) -> None:
    small = ("--partitions", "40", "--streamed-gb", "0.008", "--workers", "1")
    figures, printed = figures_of(
        "overhead", tmp_path, *small, "--only", "import", "first_output", "per_task", "memory"
    )
    assert figures["import"]["import dcurate"]["heavy"] == []
    assert figures["first_output"]["command line"]["first_s"] > 0
    assert set(figures["per_task"]) >= {"dropped", "written", "mapped"}
    assert figures["memory"]["streamed_gb"]["0.008"]["splits"] == 2
    assert figures["memory"]["ratio"]["driver"]["rss_mb"] == 1
    assert "trivial partitions" in printed


def test_cpu_of_a_process_that_nobody_waits_for_is_counted() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    measured = (
        f"import sys; from benchmarks.measure import measure; print(measure([sys.executable, '-c', {parent!r}]).cpu_s)"
    )
    ended = subprocess.run([sys.executable, "-c", measured], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(ended.stdout) > 0.3

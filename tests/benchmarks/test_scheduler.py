"""The benchmark of the scheduler counts every call, and its figures are those of its samples."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scheduler import figures_of

ROOT = Path(__file__).parents[2]


@pytest.mark.program
@pytest.mark.cluster
def test_stand_ins_answer_every_call_of_a_run_on_a_real_scheduler(tmp_path: Path) -> None:
    found = tmp_path / "figures.json"
    sizes = ["--workers", "6", "--slots", "60", "--calls", "1200", "--seconds", "0.3"]
    brief = ["--processes", "1", "--idle", "1"]
    command = [sys.executable, "-m", "benchmarks.scheduler", *sizes, *brief, "--json", str(found)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for figures in (json.loads(found.read_text())["figures"][way] for way in ("dcurate", "plain Dask")):
        assert figures["calls"] == 1200
        assert 0 < figures["scheduler_ms_a_call"] < 20
        assert figures["delay"]["longest_ms"] >= figures["delay_cpu"]["longest_ms"] > 0
    assert "6 workers, 60 slots" in done.stdout


def test_figures_are_those_of_the_window_in_which_all_slots_are_in_use() -> None:
    # 100 calls and 0.05 CPU seconds a second; each call costs 1 KB; a stop of 0.5 s in each second
    samples = [(float(second), 0.05 * second, 100_000 * second, 100 * second, 50 * second) for second in range(11)]
    delays = [0.5 if tick % 50 == 0 else 0.0 for tick in range(500)]
    collections = [(float(second), 2, 0.01 * second) for second in range(11)]
    looks = [(second / 10, second < 20 or second % 10 == 0) for second in range(100)]
    figures = figures_of(samples, delays, [delay / 5 for delay in delays], collections, looks)
    assert (figures["calls"], figures["calls_in_window"], figures["window_s"]) == (1000, 700, 7.0)
    assert figures["calls_a_second"] == 100
    assert figures["scheduler_ms_a_call"] == pytest.approx(0.5)
    assert figures["own_ms_a_call"] == pytest.approx(0.5 * 8 / 71)
    assert figures["scheduler_busy"] == pytest.approx(0.05)
    assert figures["rss_growth_mb_a_100k_calls"] == pytest.approx(100)
    assert figures["gc_longest_ms"] == pytest.approx(90)
    assert figures["gc_ms_a_call"] == pytest.approx(1e3 * 0.44 / 700)
    assert figures["delay"]["longest_ms"] == 500
    assert figures["delay_cpu"]["longest_ms"] == 100
    assert 480 < figures["delay"]["p99_ms"] < 500  # half of all messages wait, up to 0.5 s
    assert figures["delay"]["p50_ms"] <= 10


def test_sizes_that_do_not_fit_are_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.scheduler", "--workers", "20", "--slots", "50"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "50 slots on 20 workers" in done.stderr

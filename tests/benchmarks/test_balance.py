"""The balancer's benchmark runs on tiny files and writes the figures that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]


def stage(name: str, seconds: float, gpus: float = 0, memory_gb: float = 0, cpus: float = 1) -> dict[str, Any]:
    amounts = {"cpus": cpus, "gpus": gpus, "gpu_memory_gb": memory_gb}
    return {"name": name, "seconds_per_task": seconds, "fanout": 1, **amounts, "setup_s": 0, "cv": 0}


def scenario(name: str, workers: dict[str, int], rate: float, *stages: dict[str, Any]) -> dict[str, Any]:
    nodes = [{"cpus": 8, "gpus": 2, "gpu_memory_gb": 80}] * 2
    optimum = {"workers": workers, "tasks_per_s": rate}
    return {"name": name, "stages": stages, "nodes": nodes, "optimum": optimum, "feasible": rate > 0}


def test_balance_gives_shares_of_the_optimum_moves_and_seconds(tmp_path: Path) -> None:
    both = scenario("both", {"read": 2, "embed": 8}, 4.0, stage("read", 0.5), stage("embed", 2.0, 0.5, 36))
    drifting = scenario("drifting", {"a": 3, "b": 1}, 3.0, stage("a", 1.0, 1), stage("b", 0.25, 1))
    drifting["phases"] = [
        {"seconds_per_task": {}, "optimum": drifting["optimum"]},
        {"seconds_per_task": {"a": 0.25, "b": 1.0}, "optimum": {"workers": {"a": 1, "b": 3}, "tasks_per_s": 3.0}},
    ]
    too_much = scenario("too much", {}, 0.0, stage("wide", 1.0, 4))
    (tmp_path / "scenarios.json").write_text(json.dumps([both, drifting, too_much]))
    (tmp_path / "random.json").write_text(json.dumps([both]))
    command = [sys.executable, "-m", "benchmarks.balance", "--scenarios", str(tmp_path / "scenarios.json")]
    command += ["--random", str(tmp_path / "random.json"), "--json", str(tmp_path / "figures.json")]
    command += ["--hosts", "10", "--repeat", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [one["name"] for one in figures["scenarios"]] == [
        *("both", "drifting, phase 1", "drifting, phase 2", "too much")
    ]
    assert all(one["true_rates"] == one["blind_start"] == 1.0 for one in figures["scenarios"])
    assert figures["scenarios"][0]["counts"] == {"read": 2, "embed": 8}
    assert figures["scenarios"][2]["moved"] == 0
    assert "operator 'wide' needs 4 GPUs of one host" in ended.stdout
    summary = figures["summary"]
    assert summary["true_rates_min"] == summary["blind_start_min"] == summary["random_mean"] == 1.0
    assert summary["random_min"] == 1.0
    assert summary["decision_seconds_10_hosts"] > 0
    assert figures["many_hosts"]["units"] == 11

"""The seeds' example on Ray Data and on Cosmos-Xenna, beside dcurate; written by hand for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import measure
from benchmarks.scenario import EXAMPLE
from benchmarks.timeline import Timeline

HERE = Path(__file__).parent / "peers"

#: Scripts, and seconds between two looks of Xenna's balancer. Its default of 180 would not be over before the run is.
SCRIPTS = {
    "ray_data": ("ray_balance.py",),
    "xenna": ("xenna_balance.py", "--interval", "5"),
    "xenna, saturation-aware": ("xenna_balance.py", "--interval", "5", "--scheduler", "saturation_aware"),
}

#: Seconds over which throughput is taken to see when it is near the optimum, and the share of it that counts as near.
SPAN_S, NEAR = 10.0, 0.9


def speeds(began: float, first: float, ends: Sequence[float], optimum: float) -> dict[str, Any]:
    """How fast tasks came out.

    Args:
        began: when the run was asked for.
        first: when its first task began.
        ends: when each task left the last stage.
        optimum: tasks a second.

    Examples:
        >>> speeds(0.0, 5.0, [6.0 + number / 4 for number in range(100)], 4.0)["seconds_to_90"]
        6.0
    """
    ends = sorted(ends)
    near = next((end for end in ends if _count(ends, end) >= NEAR * optimum * SPAN_S), None)
    return {
        "tasks": len(ends),
        "mean_per_s": round(len(ends) / (ends[-1] - first), 3),
        "mean_per_s_with_start": round(len(ends) / (ends[-1] - began), 3),
        "seconds_to_first_task": round(first - began, 2),
        "seconds_to_90": None if near is None else round(near - began, 2),
    }


def _count(ends: Sequence[float], since: float) -> int:
    return sum(since <= end < since + SPAN_S for end in ends)


def compare_peers(python: str, ours: Timeline, tasks: int) -> dict[str, Any]:
    """Run the example on each peer, one after the other.

    Args:
        python: of the environment in which they are installed.
        ours: dcurate's run of the example, with as many tasks.
    """
    rate = EXAMPLE.phases[0].rate
    first = min(call.begin for call in ours.calls_of(0))
    figures: dict[str, Any] = {
        "dcurate": speeds(ours.began, first, [call.end for call in ours.calls_of(len(EXAMPLE.steps) - 1)], rate)
    }
    print(f"dcurate: {figures['dcurate']}", flush=True)
    for name, (script, *options) in SCRIPTS.items():
        answer = measure([python, HERE / script, "--tasks", str(tasks), *options]).result
        times = speeds(answer.pop("began"), answer.pop("first"), answer.pop("ends"), rate)
        figures[name] = times | answer
        print(f"{name}: {figures[name]}", flush=True)
    return figures

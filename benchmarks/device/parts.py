"""The parts of `python -m benchmarks.device`: what each runs, how long it may take, and what it cannot do without."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

#: Seconds that a process has between being asked to end and being ended.
_GRACE_S = 3.0
_SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore::RuntimeWarning"}


@dataclass(frozen=True)
class DevicePart:
    """A part of the benchmark, which runs in a process of its own.

    Args:
        name: what ``--only`` calls it.
        limit: seconds that it may take.
        least: seconds that must be left to begin it.
        command: arguments of Python; ``--json FILE`` follows.
        needs: what `preflight` must have found.
        cpu: arguments of Python where there is no GPU; None if nothing of it runs there.
        simulated: whether numba simulates CUDA there.
    """

    name: str
    limit: float
    least: float
    command: tuple[str, ...]
    needs: tuple[str, ...] = ("kernels",)
    cpu: tuple[str, ...] | None = None
    simulated: bool = False


def _module(name: str, *options: str) -> tuple[str, ...]:
    return "-m", f"benchmarks.device.{name}", *options


_WORKERS, _SPEED, _SANITIZER = _module("sections", "workers"), _module("kernels", "speed"), _module("sanitizer")
_TINY = ["--device", "cpu", "--documents", "60", "--classifier", "deberta-v3-tiny", "--embedder", "minilm-tiny"]
#: By worth: what is learned first decides what is worth to look at next.
PARTS = (
    DevicePart("peaks", 40, 10, _module("peaks"), ("torch",), _module("peaks", "--cpu")),
    DevicePart("right", 100, 30, _module("kernels", "right"), cpu=_module("kernels", "right", "--cpu"), simulated=True),
    DevicePart("speed", 140, 30, _SPEED, cpu=(*_SPEED, "--cpu"), simulated=True),
    DevicePart("models", 200, 60, _module("models"), ("torch",), _module("models", *_TINY)),
    DevicePart("kmeans", 50, 20, _module("sections", "kmeans"), ("cupy",), _module("sections", "kmeans", "--cpu")),
    DevicePart("workers", 80, 30, _WORKERS, ("kernels", "dask"), (*_WORKERS, "--cpu")),
    DevicePart("slots", 90, 30, _module("slots"), cpu=_module("slots", "--cpu", "--seconds", "0.5")),
    DevicePart("faults", 100, 40, _module("faults"), ("kernels", "dask"), _module("faults", "--cpu")),
    DevicePart("sanitizer", 130, 40, _SANITIZER, ("kernels", "sanitizer"), (*_SANITIZER, "--cpu"), simulated=True),
    DevicePart("frames", 60, 20, _module("sections", "frames"), ("kernels", "cudf")),
    DevicePart("rmm", 100, 40, _module("sections", "rmm"), ("kernels", "dask", "cudf")),
    DevicePart("tests", 180, 60, ("pytest",), ("kernels",)),
)


def _environment(simulated: bool) -> dict[str, str]:
    """This one, with the CUDA toolkit, if it is on the path, for numba-cuda to find its compiler."""
    nvcc = shutil.which("nvcc")
    toolkit = {"CUDA_HOME": str(Path(nvcc).resolve().parents[1])} if nvcc else {}
    return {**toolkit, **os.environ, **(_SIMULATED if simulated else {})}


def gpu_tests() -> list[str]:
    """The files that have tests for a GPU."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file) for file in files if "pytest.mark.gpu" in file.read_text("utf-8")]


def command_of(part: DevicePart, file: Path, cpu: bool) -> list[str]:
    """What runs a part; it writes its figures into the file."""
    if part.command == ("pytest",):
        # By file: to collect all tests takes packages that an image for GPUs need not have, and its own may warn.
        # Without the options of pyproject.toml, which need pytest-xdist.
        options = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "-W", "default", "-o", "addopts="]
        return [sys.executable, "-m", "pytest", *options, *gpu_tests()]
    return [sys.executable, *((cpu and part.cpu) or part.command), "--json", str(file)]


def run_limited(command: list[str], seconds: float, environment: dict[str, str]) -> tuple[int | None, str]:
    """Run a command with all that it starts, for some seconds at most; its exit status, None if it was ended.

    Returns:
        The status, and the end of what it wrote.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        _end(process)
        output.seek(0)
        return status, output.read().decode(errors="replace")[-4000:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a process and of those that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            if number == signal.SIGTERM:
                continue


def run_part(part: DevicePart, seconds: float, folder: Path, cpu: bool) -> dict[str, Any]:
    """Run a part: whether all in it is right, its seconds, its figures so far, and the end of what it wrote."""
    file, start = folder / f"{part.name}.json", time.monotonic()
    status, said = run_limited(command_of(part, file, cpu), seconds, _environment(cpu and part.simulated))
    ended = {None: f"ended after {seconds:.0f} s", 0: "done"}.get(status, f"exit status {status}")
    figures = None
    with suppress(OSError, ValueError):
        figures = json.loads(file.read_text())
    took = round(time.monotonic() - start, 1)
    return {"part": part.name, "right": status == 0, "ended": ended, "seconds": took, "figures": figures, "said": said}


def run_all(
    parts: Iterable[DevicePart],
    missing: dict[str, str],
    budget: float,
    run: Callable[[DevicePart, float], dict[str, Any]],
    written: Callable[[list[dict[str, Any]]], object],
) -> list[dict[str, Any]]:
    """Run parts in order while the budget lasts; what came of each, also of those that did not run.

    Args:
        parts: by worth.
        missing: what is not there, and a sentence about it.
        budget: seconds for all.
        run: runs a part, for some seconds at most.
        written: called with the results so far, after each part.
    """
    end, found = time.monotonic() + budget, []
    for part in parts:
        left = end - time.monotonic()
        absent = [missing[need] for need in part.needs if need in missing]
        if absent or left < part.least:
            why = (
                absent[0] if absent else f"{max(left, 0):.0f} s of the budget were left, and it needs {part.least:.0f}"
            )
            one = {"part": part.name, "right": None, "ended": f"not run: {why}", "seconds": 0.0}
        else:
            one = run(part, min(part.limit, left))
        found.append(one)
        written(found)
    return found

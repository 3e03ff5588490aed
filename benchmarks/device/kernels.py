"""Kernels on a GPU beside one core of the CPU, each in a process of its own: equal bits, GB/s, the ratio of the two.

    python -m benchmarks.device.kernels right [--json FILE]          all kernels, twelve processes at a time
    python -m benchmarks.device.kernels speed [--json FILE]          one after the other, with a text of a megabyte, too
    python -m benchmarks.device.kernels one "personal data"          one of them, in this process
    python -m benchmarks.device.kernels right --cpu                  in this process: numba's simulator and few texts
    python -m benchmarks.device.kernels speed --cpu                  two kernels, in processes, in the same way

An error of CUDA makes the process useless that it happens in, and no other kernel's. Figures are written after each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device.calls import calls, names, same, texts
from benchmarks.device.parts import run_limited
from benchmarks.measure import table
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels import cuda
from dcurate_testing.device import SAMPLE

AT_ONCE, RIGHT_S, SPEED_S = 12, 60.0, 20.0
#: MB of text that kernels are compared on, and timed on.
RIGHT_MB, SPEED_MB = 2.0, 16.0
MEGABYTE = 1_000_000
SIMULATED_TEXTS, SIMULATED_CHARACTERS = 6, 400
SIMULATED = ("word", "url")
_COLUMNS = "core_gb_s", "gpu_gb_s", "gpu_gb_s_with_1_mb", "cores", "cores_with_upload", "first_s"
#: What may be faster on a GPU than on 16 cores if the text is on the host; the others are timed after these.
_MAY_WIN = ("personal data", "C4", "MinHash", "n-grams", "anchors", "spans of three")


def seconds(work: Callable[[], Any], times: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """The median time of a call, after one that is not counted."""
    work()
    found = []
    for _ in range(times):
        start = clock()
        work()
        found.append(clock() - start)
    return statistics.median(found)


def measured(name: str, column: TextColumn, timed: bool) -> dict[str, Any]:
    """Whether a kernel gives the CPU's bits, and GB/s of both.

    Args:
        name: of the kernel.
        column: texts.
        timed: whether to time it.
    """
    start = time.perf_counter()
    gpu = cuda.on_gpu(*column)
    ((on_cpu, on_gpu),) = calls(column, gpu, 20 if not timed else 200_000, only=name).values()
    found: dict[str, Any] = {"kernel": name, "mb": len(column.data) / 1e6, "equal": same(on_cpu(), on_gpu())}
    found["first_s"] = round(time.perf_counter() - start, 2)
    if timed:
        core_s, gpu_s = seconds(on_cpu, 1, time.process_time), seconds(on_gpu)
        found["upload_s"] = seconds(lambda: cuda.on_gpu(*column))
        found |= {"core_gb_s": len(column.data) / core_s / 1e9, "gpu_gb_s": len(column.data) / gpu_s / 1e9}
        found |= {"cores": core_s / gpu_s, "cores_with_upload": core_s / (gpu_s + found["upload_s"])}
    return found


def few() -> TextColumn:
    """As many texts as numba's simulator can do; `sample` would read with kernels, which it runs in Python."""
    lines = (SAMPLE / "part-00.jsonl").read_bytes().splitlines()[:SIMULATED_TEXTS]
    return column_of([json.loads(line)["text"][:SIMULATED_CHARACTERS].encode() for line in lines])


def one(name: str, column: TextColumn, long: bytes) -> dict[str, Any]:
    """Measure a kernel on texts; if a long one is given, time it, and with that among the others, too."""
    timed = bool(long)
    found = measured(name, column, timed)
    if timed:
        more = TextColumn(
            np.append(column.offsets, len(column.data) + len(long)),
            np.append(column.data, np.frombuffer(long, np.uint8)),
        )
        with_long = measured(name, more, timed)
        found |= {"equal": found["equal"] and with_long["equal"], "gpu_gb_s_with_1_mb": with_long["gpu_gb_s"]}
    return found


def apart(name: str, limit: float, timed: bool, cpu: bool = False) -> dict[str, Any]:
    """The same in a process of its own, for some seconds at most."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "one.json")
        options = [name, "--json", str(file), *(["--timed"] if timed else []), *(["--cpu"] if cpu else [])]
        command = [sys.executable, "-m", "benchmarks.device.kernels", "one", *options]
        status, said = run_limited(command, limit, dict(os.environ))
        if file.exists():
            return dict(json.loads(file.read_text()))
    ended = f"ended after {limit:.0f} s" if status is None else f"exit status {status}"
    return {"kernel": name, "equal": False, "ended": ended, "said": said[-800:]}


def ordered() -> list[str]:
    """The names of kernels, those first that may win."""
    return sorted(names(), key=lambda name: not name.startswith(_MAY_WIN))


def many(timed: bool, written: Callable[[list[dict[str, Any]]], object], cpu: bool = False) -> list[dict[str, Any]]:
    """Measure all kernels, or two where they are simulated; `written` is called with the results so far."""
    found: list[dict[str, Any]] = []
    lock, limit = threading.Lock(), SPEED_S if timed else RIGHT_S

    def add(name: str) -> None:
        made = apart(name, limit, timed, cpu)
        with lock:
            found.append(made)
            written(found)

    with ThreadPoolExecutor(1 if timed else AT_ONCE) as pool:
        list(pool.map(add, SIMULATED if cpu else ordered()))
    return found


def simulated() -> list[dict[str, Any]]:
    """All kernels in this process on few texts, in numba's simulator."""
    column = few()
    pairs = calls(column, cuda.on_gpu(*column), 20)
    return [{"kernel": name, "equal": same(on_cpu(), on_gpu())} for name, (on_cpu, on_gpu) in pairs.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("right", "speed", "one"))
    parser.add_argument("name", nargs="?", choices=names())
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    def written(found: Any) -> None:
        if options.json is not None:
            whole = options.json.with_suffix(".new")
            whole.write_text(json.dumps(found))
            whole.replace(options.json)

    if options.what == "one":
        column = few() if options.cpu else texts(SPEED_MB if options.timed else RIGHT_MB)
        data = column.data[:MEGABYTE].tobytes().decode(errors="ignore").encode()
        found = [one(options.name, column, data if options.timed else b"")]
        written(found[0])
    elif options.what == "right" and options.cpu:
        found = simulated()
        written(found)
    else:
        found = many(options.what == "speed", written, options.cpu)
    wrong = [each["kernel"] for each in found if not each["equal"]]
    columns = [name for name in _COLUMNS if any(name in each for each in found)]
    equal = ["yes" if each["equal"] else each.get("ended", "NO") for each in found]
    rows = [[each["kernel"], bits, *map(each.get, columns)] for each, bits in zip(found, equal, strict=True)]
    print(table(["kernel", "equal bits", *columns], rows))
    print(f"{len(found)} kernels, {len(wrong)} wrong{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

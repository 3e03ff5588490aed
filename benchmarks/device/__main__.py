"""Everything that only a machine with a GPU can show, in the time of one visit: what is right, and how fast it is.

    python -m benchmarks.device --budget 540 --json FILE [--only right,speed]      on the machine with the GPU
    python -m benchmarks.device --cpu                                              elsewhere: as far as each part runs

Works from the checkout alone with the wheels that `stage` carries. Each part runs in a process of its own with a limit
of its own, so that one that fails or hangs leaves the others; none begins when the budget does not last for it. The
JSON is written again after each part. Ends with 0 if all that ran are right, 1 if one is not, 2 without a GPU.

preflight  what is missing, in one line
peaks      GB/s of copies, TFLOP/s of products of matrices, memory of a process with CUDA
right      every kernel, a process each, twelve at a time: the CPU's bits
speed      every kernel, a process each: GB/s beside one core, also of a text of a megabyte; first those that may win
models     `python -m benchmarks.device.models`
kmeans     k-means and semantic duplicates with CuPy beside NumPy
workers    a pipeline with GPU stages on a LocalCluster of CUDA and CPU workers: the rows that the CPU gives
slots      documents per second of 1 to 4 slots in 1 to 4 processes on one GPU
faults     a kernel that writes out of bounds, and a GPU whose memory is taken: no row is lost
sanitizer  compute-sanitizer, memcheck and initcheck, on eight kernels
frames     cuDF: its own MinHash beside ours, layouts without copies, Parquet decoded on the GPU
rmm        workers again, with a pool of RMM and cuDF that spills
tests      ``pytest -m gpu``, of the files that have such tests
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.device.parts import PARTS, DevicePart, run_all, run_limited, run_part
from benchmarks.device.preflight import NO_GPU, gpus
from benchmarks.measure import machine, table, versions

_PACKAGES = ("numba", "numba-cuda", "numpy", "pyarrow", "torch", "cupy-cuda13x", "cudf-cu13", "dask", "dask-cuda")
_PREFLIGHT_S = 90.0


def checked(seconds: float) -> dict[str, str]:
    """What `preflight` finds missing, in a process of its own: it begins to use the GPU."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "missing.json")
        command = [sys.executable, "-m", "benchmarks.device.preflight", "--json", str(file)]
        status, said = run_limited(command, seconds, dict(os.environ))
        if file.exists():
            return dict(json.loads(file.read_text()))
    why = "hangs" if status is None else f"ended with {status}"
    return {"kernels": f"preflight {why}: {said.strip().splitlines()[-1] if said.strip() else 'it wrote nothing'}"}


def written(path: Path | None, known: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    """Write all figures so far; a file that was there before is whole until the new one is."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f"{path.name}.new")
        whole.write_text(json.dumps({**known, "parts": parts}, indent=1) + "\n")
        whole.replace(path)


def shown(one: dict[str, Any]) -> None:
    print(f"\n=== {one['part']}: {one['ended']}, {one['seconds']} s\n{one.get('said', '').strip()}", flush=True)


def without_gpu(part: DevicePart) -> DevicePart:
    """The part where there is no GPU: it needs nothing, or one."""
    return replace(part, needs=() if part.cpu else ("gpu",))


def _chosen(parser: argparse.ArgumentParser, only: str | None) -> list[DevicePart]:
    wanted = only.split(",") if only else [part.name for part in PARTS]
    unknown = [name for name in wanted if name not in {part.name for part in PARTS}]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(part.name for part in PARTS)}")
    return [part for part in PARTS if part.name in wanted]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="parts, with commas between them")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds for all parts")
    parser.add_argument("--cpu", action="store_true", help="run each part as far as it runs without a GPU")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    end = time.monotonic() + options.budget
    parts, found = _chosen(parser, options.only), gpus()
    if not found and not options.cpu:
        print(f"{NO_GPU}; --cpu runs what needs none")
        return 2
    if options.cpu:
        missing, parts = {"gpu": "nothing of it runs without a GPU"}, list(map(without_gpu, parts))
    else:
        missing = checked(min(_PREFLIGHT_S, options.budget))
        print(f"preflight: {'; '.join(missing.values()) or 'nothing is missing'}", flush=True)
    known = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "gpus": found,
        "simulated": options.cpu,
        "machine": machine(),
        "versions": versions(*_PACKAGES),
        "missing": missing,
    }

    def after(ran: list[dict[str, Any]]) -> None:
        shown(ran[-1])
        written(options.json, known, ran)

    with tempfile.TemporaryDirectory() as folder:
        run = partial(run_part, folder=Path(folder), cpu=options.cpu)
        ran = run_all(parts, missing, end - time.monotonic(), run, after)
    answers = {True: "yes", False: "NO", None: "-"}
    rows = [[one["part"], answers[one["right"]], one["seconds"], one["ended"]] for one in ran]
    print(f"\n{table(['part', 'right', 's', 'ended'], rows)}")
    return 0 if all(one["right"] is not False for one in ran) else 1


if __name__ == "__main__":
    sys.exit(main())

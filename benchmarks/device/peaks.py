"""What a GPU can do at most: copies between host and GPU, within the GPU, products of matrices; memory of a process.

    python -m benchmarks.device.peaks [--cpu] [--json FILE]

With ``--cpu`` the same calls on the CPU, small, to see that they run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import table


def rate(torch: Any, device: str, amount: float, work: Callable[[], Any]) -> float:
    """The amount of work in a second: the best of five times, each waited for."""
    best = 0.0
    for _ in range(6):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = max(best, amount / (time.perf_counter() - start))
    return best


def peaks(device: str) -> dict[str, float]:
    """GB/s of copies, TFLOP/s of products in each type, and MB of private memory of a process with CUDA."""
    torch = importlib.import_module("torch")
    size, side = (2**28, 8192) if device == "cuda" else (2**20, 64)
    pageable = torch.ones(size, dtype=torch.uint8)
    pinned = pageable.pin_memory() if device == "cuda" else pageable
    there, other = (torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2))
    found = {
        "pageable to GPU, GB/s": rate(torch, device, size / 1e9, lambda: there.copy_(pageable)),
        "pinned to GPU, GB/s": rate(torch, device, size / 1e9, lambda: there.copy_(pinned, non_blocking=True)),
        "GPU to pinned, GB/s": rate(torch, device, size / 1e9, lambda: pinned.copy_(there, non_blocking=True)),
        "within the GPU, read and written, GB/s": rate(torch, device, 2 * size / 1e9, lambda: other.copy_(there)),
    }
    for name in ("bfloat16", "float32"):
        left, right = (torch.rand(side, side, device=device).to(getattr(torch, name)) for _ in range(2))
        product = partial(torch.matmul, left, right)
        found[f"products in {name}, TFLOP/s"] = rate(torch, device, 2 * side**3 / 1e12, product)
    status = Path("/proc/self/status").read_text()
    found["private memory of the process, MB"] = int(status.split("VmData:")[1].split()[0]) / 1e3
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = peaks("cpu" if options.cpu else "cuda")
    print(table(["of the GPU" if not options.cpu else "of the CPU", "at most"], list(found.items())))
    if options.json is not None:
        options.json.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

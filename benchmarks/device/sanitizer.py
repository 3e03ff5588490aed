"""NVIDIA's compute-sanitizer on kernels: bytes out of bounds, and reads of memory that nothing was written to.

    python -m benchmarks.device.sanitizer [--cpu] [--json FILE]

With ``--cpu`` one kernel runs in numba's simulator without the tool, to see that the processes do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.device.parts import run_limited
from benchmarks.measure import table

KERNELS = (
    *("personal data", "C4", "n-grams", "MinHash, one_permutation"),
    *("anchors", "spans of three sentences", "sets of shingles", "word"),
)
TOOLS = ("memcheck", "initcheck")
_EACH_S = 30.0


def command_of(tool: str, kernel: str, cpu: bool) -> list[str]:
    """What runs a kernel under a tool; the kernel alone where there is no GPU."""
    checked = [sys.executable, "-m", "benchmarks.device.kernels", "one", kernel]
    if cpu:
        return [*checked, "--cpu"]
    return ["compute-sanitizer", f"--tool={tool}", "--error-exitcode=3", "--target-processes=all", *checked]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for tool in TOOLS[: 1 if options.cpu else None]:
        for kernel in KERNELS[-1:] if options.cpu else KERNELS:
            command = command_of(tool, kernel, options.cpu)
            status, said = run_limited(command, _EACH_S, {**os.environ, "DCURATE_DEVICE_TEXTS": "50"})
            found.append({"tool": tool, "kernel": kernel, "status": status, "said": said[-600:] if status else ""})
            if options.json is not None:
                options.json.write_text(json.dumps(found))
    words: dict[Any, str] = {None: "not done in time", 0: "clean", 3: "FAULTS"}
    rows = [[one["tool"], one["kernel"], words.get(one["status"], f"exit {one['status']}")] for one in found]
    print(table(["tool", "kernel", "found"], rows))
    return 1 if any(one["status"] not in (0, None) for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Texts per second of several slots on one GPU: threads of a process, and processes.

    python -m benchmarks.device.slots [--json FILE] [--seconds 4] [--cpu]

Each slot copies batches of the sample to the GPU and finds personal data and signatures in them, as a stage would. With
``--cpu`` the kernels of the CPU do so, in one process of two slots and in two of one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device.calls import texts
from benchmarks.measure import ROOT, table
from dcurate.dedup import MinHash
from dcurate.kernels import cuda
from dcurate.kernels.pii.scan import pii_counts

#: Processes, and threads of each.
SHAPES = ((1, 1), (1, 4), (4, 1), (4, 4), (1, 16))
SHAPES_OF_CPU = ((1, 2), (2, 1))
_MB, _MB_OF_CPU = 8.0, 1.0


def worked(slots: int, seconds: float, cpu: bool) -> float:
    """Texts per second of some threads of this process."""
    column, minhash = texts(_MB_OF_CPU if cpu else _MB), MinHash()
    done = [0] * slots

    def batch() -> None:
        given = column if cpu else cuda.on_gpu(*column)
        pii_counts.run(given, np.arange(len(column)), 127, True)
        minhash.signatures(given)

    batch()  # compiles
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + seconds

    def slot(number: int) -> None:
        while time.monotonic() < end:
            batch()
            done[number] += len(column)

    threads = [threading.Thread(target=slot, args=(number,)) for number in range(slots)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.monotonic() - start)


def together(processes: int, slots: int, seconds: float, cpu: bool) -> float:
    """Texts per second of processes that begin together."""
    command = [sys.executable, "-m", "benchmarks.device.slots", "--one", str(slots), "--seconds", str(seconds)]
    command += ["--cpu"] if cpu else []
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = [subprocess.Popen(command, cwd=ROOT, env=os.environ, text=True, **pipes) for _ in range(processes)]
    for one in started:
        one.stdout.readline()
    for one in started:
        one.stdin.write("go\n")
        one.stdin.flush()
    return sum(float(one.communicate()[0]) for one in started)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.one is not None:
        print(worked(options.one, options.seconds, options.cpu))
        return 0
    found = []
    for processes, slots in SHAPES_OF_CPU if options.cpu else SHAPES:
        rate = together(processes, slots, options.seconds, options.cpu)
        found.append({"processes": processes, "slots": slots, "texts_s": rate})
        if options.json is not None:
            options.json.write_text(json.dumps(found))
    print(table(["processes", "slots of each", "texts/s"], [list(one.values()) for one in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

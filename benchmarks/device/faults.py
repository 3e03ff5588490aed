"""Faults of a GPU in a pipeline: a kernel that writes out of bounds in a worker, and a GPU whose memory is taken.

    python -m benchmarks.device.faults [--cpu] [--json FILE]

No row may be lost or blamed. With ``--cpu`` the error is raised by hand, and no memory is taken.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.device.fault_stages import PoisonOnce
from dcurate import DaskExecutor, InlineExecutor, JsonlWriter, LocalCluster, Pipeline, Resources
from dcurate_testing.device import curate, reader

#: Bytes that are left to the pipeline on a GPU that is full.
_LEFT = 3 * 10**9


def cluster(cpu: bool) -> LocalCluster:
    """Workers for all faults: to start them takes longer than a fault."""
    return LocalCluster(n_workers=1, simulate_gpus=1) if cpu else LocalCluster(n_workers=1, gpus=True, rmm_async=False)


def _lines(folder: str) -> list[str]:
    return sorted(line for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines())


def poisoned(workers: LocalCluster, cpu: bool) -> bool:
    """Whether all rows come out of a pipeline in which a CUDA error poisons a worker."""
    with tempfile.TemporaryDirectory() as folder:
        stage = PoisonOnce(f"{folder}/done", cpu).with_(resources=Resources(cpus=1, gpus=0.25))
        Pipeline(name="all", stages=[reader(), JsonlWriter(f"{folder}/all")]).run(InlineExecutor())
        executor = DaskExecutor({"ignore_failures": True}, workers)
        Pipeline(name="poison", stages=[reader(), stage, JsonlWriter(f"{folder}/out")]).run(executor)
        return Path(folder, "done").exists() and _lines(f"{folder}/out") == _lines(f"{folder}/all")


def full(workers: LocalCluster, cpu: bool) -> bool:
    """Whether a pipeline gives the CPU's rows on a GPU that has little free memory, after its workers have begun."""
    taken = None
    if not cpu:
        torch = importlib.import_module("torch")
        taken = torch.empty(max(0, torch.cuda.mem_get_info()[0] - _LEFT), dtype=torch.uint8, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        expected = curate(f"{folder}/cpu", 0, InlineExecutor())
        found = curate(f"{folder}/gpu", 0.25, DaskExecutor(cluster=workers))
    del taken
    return found == expected and len(found) > 0


FAULTS: dict[str, Callable[[LocalCluster, bool], bool]] = {"a kernel out of bounds": poisoned, "a full GPU": full}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with cluster(options.cpu) as workers:
        for name, fault in FAULTS.items():
            try:
                found[name] = fault(workers, options.cpu)
            except Exception as error:  # the other fault is worth its own look
                found[name] = f"{type(error).__name__}: {error}"
            print(f"{name}: {'no row is lost' if found[name] is True else f'WRONG: {found[name]}'}", flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(found))
    return 0 if all(right is True for right in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The three visits in which a machine with one GPU, and no network, shows what the GPU code is and does.

    python -m benchmarks.device.stage --slim                  here: folders of wheels, each small enough to carry
    python -m benchmarks.device.visits 1 [--out FOLDER]       there, with .stage1; then 2 with .stage2, 3 with .stage3

Each takes in the folders of wheels that lie in the checkout, adds what is installed to PYTHONPATH, and runs its parts
of `benchmarks.device` by worth, within a budget that leaves a command of ten minutes time to start. Figures are in
FOLDER/visit1.json and so on, written again after each part. The first visit alone is worth the way: it needs the wheels
of base.txt only. The third needs all, so the machine must be kept between visits.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.device.receive import SITE, STORE, receive
from benchmarks.measure import ROOT


class Visit(NamedTuple):
    """What a visit runs.

    Args:
        budget: seconds for all parts.
        parts: their names, by worth.
    """

    budget: int
    parts: tuple[str, ...]


#: 24 minutes together, of 30; the rest is for starts and copies.
VISITS = {
    1: Visit(540, ("peaks", "right", "speed", "models", "kmeans", "workers")),
    2: Visit(400, ("slots", "faults", "sanitizer")),
    3: Visit(500, ("frames", "rmm", "tests")),
}


def command(number: int, out: Path, cpu: bool) -> list[str]:
    """What runs a visit."""
    budget, parts = VISITS[number]
    options = ["--budget", str(budget), "--only", ",".join(parts), "--json", str(out / f"visit{number}.json")]
    return [sys.executable, "-m", "benchmarks.device", *options, *(["--cpu"] if cpu else [])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int, choices=VISITS)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "out")))
    parser.add_argument("--cpu", action="store_true", help="run each part as far as it runs without a GPU")
    options = parser.parse_args()
    environment = dict(os.environ)
    folders = sorted(ROOT.glob(".stage[0-9]*"))
    if folders and not options.cpu:
        waiting = receive(folders, STORE, SITE)
        print(f"waiting for {', '.join(waiting)}" if waiting else "all wheels are there", flush=True)
    if SITE.exists() and not options.cpu:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), environment.get("PYTHONPATH")]))
    line = command(options.number, options.out, options.cpu)
    return subprocess.run(line, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

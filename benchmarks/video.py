"""Figures of `dcurate.video`, by part: ``python -m benchmarks.video --input DIR --json FILE [--only poison]``.

DIR holds ``videos.tar`` and ``videos-truth.jsonl``. A part is a module ``benchmarks.video_MODULE`` with
``run(folder)``, or with ``PARTS``, a function of the folder by the name of each part.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, save, versions

Part = Callable[[Path], dict[str, Any]]

#: The modules of parts: those beside this one.
MODULES = sorted(path.stem for path in Path(__file__).parent.glob("video_*.py"))
#: Libraries whose versions are noted.
LIBRARIES = ("av", "numba", "numpy", "onnxruntime", "opencv-python-headless", "pyarrow", "scenedetect", "torch")


def parts() -> dict[str, Part]:
    """The function of each part, by name."""
    functions: dict[str, Part] = {}
    for name in MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        functions |= vars(module).get("PARTS") or {name.removeprefix("video_"): module.run}
    return functions


def main() -> None:
    functions = parts()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="the folder with the data")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--only", default=",".join(functions), help="parts, with commas")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(functions):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(functions)}")
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", *LIBRARIES), "seconds": {}}
    for part in wanted:
        begin = time.perf_counter()
        figures[part] = functions[part](arguments.input)
        figures["seconds"][part] = round(time.perf_counter() - begin, 1)
        save(arguments.json, figures)
    for part in wanted:
        print(f"{part}: " + ", ".join(f"{name} {value}" for name, value in figures[part].items()))


if __name__ == "__main__":
    main()

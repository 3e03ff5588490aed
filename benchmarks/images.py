"""Images: speed, near-duplicates, shards, interleaved documents, and files that hurt decoders.

    python -m benchmarks.images --input DIR --json FILE [--only speed,poison] [--peers-python VENV/bin/python]

DIR is laid out as the data of the project: ``near.tar``, ``near-truth.jsonl.zst``, ``near-pairs.jsonl.zst``,
``shard-*.tar*``, ``shards-truth.jsonl.zst``, ``interleaved.tar``, ``interleaved-truth.jsonl.zst``, ``poison.tar.zst``,
``poison-truth.jsonl.zst``. Each part is a module ``benchmarks.images_<part>`` with a function ``run``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, save, versions

PARTS = ("speed", "near", "shards", "interleaved", "poison")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="the folder with the data")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    parser.add_argument(
        "--peers-python", default=None, help="Pythons with imagededup, data-juicer, daft or ray[data], with commas"
    )
    given = parser.parse_args()
    wanted = given.only.split(",")
    unknown = set(wanted) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    figures: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("dcurate", "pillow", "simplejpeg", "numba", "numpy", "pyarrow"),
        "seconds": {},
    }
    for part in PARTS:
        name = f"benchmarks.images_{part}"
        if part not in wanted or importlib.util.find_spec(name) is None:
            continue
        options = {"peers_python": given.peers_python} if part == "speed" else {}
        begin = time.perf_counter()
        figures[part] = importlib.import_module(name).run(given.input, **options)
        figures["seconds"][part] = round(time.perf_counter() - begin, 1)
        print(part, json.dumps(figures[part], indent=1))
        save(given.json, figures)


if __name__ == "__main__":
    main()

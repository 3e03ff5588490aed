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
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, save, table, versions

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
        save(given.json, figures)
    print(summary(figures))


def summary(figures: Mapping[str, Any]) -> str:
    """The most important figures as text."""
    lines = [
        f"{figures['machine']['cpu']}, {figures['machine']['cpus']} CPUs, load {figures['machine']['load_before']}"
    ]
    speed = figures.get("speed")
    if speed:
        ours, large = speed["ours"], speed["large"]
        rows: list[list[Any]] = [
            ["info, signals, hashes", ours["images_per_cpu_s"], 1.0, ours["large_images_per_cpu_s"], 1.0],
            ["info alone", ours["info_images_per_cpu_s"]],
            ["bare decode, same scale", ours["decode_images_per_cpu_s"]],
            ["bare decode, Pillow, full size", ours["decode_pillow_images_per_cpu_s"]],
        ]
        for name, times in speed["times_faster"].items():
            both = [large[name]["images_per_cpu_s"], large["times_faster"][name]] if name in large else []
            rows.append([name, speed[name]["images_per_cpu_s"], times, *both])
        header = ["images/CPU-s", "small", "ours is x faster", "2 MP", "ours is x faster"]
        lines += ["", table(header, [row + [None] * (5 - len(row)) for row in rows]), ""]
        lines += [f"cost of {what}, by that of a bare decode at the same scale: {ours[key]}" for what, key in _COSTS]
    for part in PARTS[1:]:
        if part in figures:
            plain = {name: value for name, value in figures[part].items() if not isinstance(value, dict | list)}
            lines += ["", f"{part}: " + ", ".join(f"{name} {value}" for name, value in plain.items())]
    return "\n".join(lines)


_COSTS = (("signals and hashes", "cost_of_signals"), ("signals", "cost_of_ten"))


if __name__ == "__main__":
    main()

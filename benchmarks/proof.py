"""What it costs that a corpus can account for itself: rights, the root over all rows, lineage, summary and opt-outs.

``python -m benchmarks.proof --input DIR [--pages PATH] [--json FILE]`` runs the five benchmarks of these parts, each of
which can be run by itself: `proof_rights`, `proof_root`, `proof_lineage`, `proof_summary`, `proof_optout`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import proof_lineage, proof_optout, proof_rights, proof_root, proof_summary
from benchmarks.measure import called, machine, save, scratch_folder, versions


def measure(input: Path, pages: Path | None) -> dict[str, Any]:  # noqa: A002 - the name that the parts share
    """Return the figures of all parts.

    Args:
        input: folder of JSON Lines with a column ``text``.
        pages: web archives, or JSON Lines with a column ``html``; rights are left out if None.
    """
    parts: dict[str, tuple[Callable[[Path], dict[str, Any]], Path]] = {
        "root": (proof_root.measure, input),
        "lineage": (proof_lineage.measure, input),
        "optout": (proof_optout.measure, input),
    }
    if pages is not None:
        parts["rights"] = proof_rights.measure, pages
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", "pyarrow")}
    for name, (part, source) in parts.items():
        print(f"{name} ...", flush=True)
        figures[name] = part(source)
    with scratch_folder("proof", None) as scratch:
        print("summary ...", flush=True)
        figures["summary"] = proof_summary.measure(scratch)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.proof", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", type=Path, required=True, metavar="DIR", help="JSON Lines with a column text")
    parser.add_argument("--pages", type=Path, metavar="PATH", help="web archives, or JSON Lines with a column html")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    figures = measure(options.input, options.pages)
    if options.pages is None:
        print("rights were not measured: name web archives or pages with --pages")
    save(options.json, figures)


if __name__ == "__main__":
    called(main)

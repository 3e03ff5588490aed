"""How fast a filter of one's own is, written in each of the three ways that docs/howto/own-filter.md shows.

``python -m benchmarks.own_filters --input DIR [--json FILE]``. The filters are those of the page. See README.md here.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import ROOT, called, machine, save, table, versions
from benchmarks.rows import texts
from benchmarks.signals import speed
from dcurate import BatchKey, DocumentBatch, ScoreFilter
from dcurate.text import DocumentFilter

PAGE = ROOT / "docs" / "howto" / "own-filter.md"


def filters() -> list[DocumentFilter]:
    """The filters of the page, in its order."""
    names: dict[str, Any] = {"__name__": "own_filter"}
    for block in re.findall(r"```python\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    return [kind() for name, kind in names.items() if name.startswith("FewCapitals")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.own_filters", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", type=Path, required=True, help="JSONL file, .zst or not, or a folder of them")
    parser.add_argument("--megabytes", type=float, default=16.0, help="of text to read")
    parser.add_argument("--times", type=int, default=5, help="runs, of which the best counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    documents = list(texts(given.input, given.megabytes))
    batch = DocumentBatch(key=BatchKey("all"), data=pa.table({"text": pa.array(documents, pa.large_string())}))
    size = sum(len(text.encode()) for text in documents)
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", "numba", "pandas", "pyarrow")}
    figures |= {"documents": len(documents), "mb": size / 1e6, "mb_per_s": {}}
    kept = set()
    for rule in filters():
        stage = ScoreFilter(rule)
        kept.add(stage.process(batch).num_items)
        figures["mb_per_s"][type(rule).__name__] = speed(lambda stage=stage: stage.process(batch), size, given.times)  # type: ignore[misc]
    if len(kept) != 1:
        raise SystemExit(f"the filters keep different numbers of documents: {sorted(kept)}")
    print(f"{len(documents)} documents, {size / 1e6:.1f} MB of text; all three keep {kept.pop()}\n")
    print(table(["filter", "MB/s a core"], figures["mb_per_s"].items()))
    save(given.json, figures)


if __name__ == "__main__":
    called(main)

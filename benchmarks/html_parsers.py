"""Parsers of HTML: MB per CPU-second to parse a page and look once at each element, and whether depth costs more.

``python -m benchmarks.html_parsers --input FILE [--peers DIR] [--json FILE]``: DIR is a folder with selectolax.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lxml import etree
from resiliparse.parse.html import HTMLTree

from benchmarks.measure import MB, called, machine, save, table, versions
from benchmarks.rows import read_rows

DEEP = (20_000, 40_000)


class _EventCounter:
    """Target of a parser that is told of each element and text."""

    def __init__(self) -> None:
        self.count = 0

    def start(self, tag: str, attributes: Any) -> None:
        self.count += 1

    def end(self, tag: str) -> None:
        pass

    def data(self, text: str) -> None:
        self.count += 1

    def close(self) -> int:
        return self.count


def lxml_tree(page: str) -> int:
    tree = etree.HTML(page.encode(), etree.HTMLParser(huge_tree=True, encoding="utf-8"))
    return 0 if tree is None else sum(1 for each in tree.iter() if (each.tag, each.text, each.tail, each.get("class")))


def lxml_events(page: str) -> int:
    parser = etree.HTMLParser(target=_EventCounter(), huge_tree=True, encoding="utf-8")
    parser.feed(page.encode())
    count: int = parser.close()
    return count


def resiliparse(page: str) -> int:
    return sum(bool((each.type, each.tag)) for each in HTMLTree.parse(page).document)


def parsers(peers: Path | None) -> dict[str, Callable[[str], int]]:
    own: dict[str, Callable[[str], int]] = {
        "lxml, events": lxml_events,
        "lxml, tree": lxml_tree,
        "resiliparse, tree": resiliparse,
    }
    if peers is None:
        return own
    sys.path.append(str(peers))
    parse = import_module("selectolax.lexbor").LexborHTMLParser

    def selectolax(page: str) -> int:
        nodes = parse(page).root.traverse(include_text=True)
        return sum(1 for each in nodes if (each.tag, each.attributes))

    return {**own, "selectolax, tree": selectolax}


def seconds(read: Callable[[str], int], pages: Sequence[str]) -> float:
    begin = time.process_time()
    for page in pages:
        read(page)
    return time.process_time() - begin


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="JSONL with the column html")
    parser.add_argument("--peers", type=Path, help="a folder with selectolax")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the fastest counts")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    pages = [row["html"] for row in read_rows(given.input, {"html": str}).rows]
    mb = sum(len(page.encode()) for page in pages) / MB
    before = machine()
    results: dict[str, dict[str, Any]] = {}
    for name, read in parsers(given.peers).items():
        best = min(seconds(read, pages) for _ in range(given.repeat))
        results[name] = {
            "mb_per_cpu_s": mb / best,
            "deep_s": [seconds(read, ["<div>" * depth + "x"]) for depth in DEEP],
        }
    print(f"{len(pages)} pages, {mb:.1f} MB of HTML; the best of {given.repeat} runs; seconds for nested elements\n")
    header = ["parser", "MB/s", *(f"{depth:,} deep" for depth in DEEP)]
    rows = [
        [name, f"{each['mb_per_cpu_s']:.0f}", *(f"{s:.3f}" for s in each["deep_s"])] for name, each in results.items()
    ]
    print(table(header, rows))
    packages = versions("lxml", "resiliparse", "selectolax")
    save(given.json, {"pages": len(pages), "mb": mb, "machine": before, "versions": packages, "results": results})


if __name__ == "__main__":
    called(main)

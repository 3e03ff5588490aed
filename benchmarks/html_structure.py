"""Pages to text: which code, tables, formulas and prose of pages of known structure come back, and at what cost.

``python -m benchmarks.html_structure --input DIR [--peers DIR] [--json FILE]``

DIR has ``pages.jsonl`` and ``truth.jsonl``, as ``benchmarks.make_html_pages`` writes them. With ``--peers``, a folder
into which readability-lxml was installed (``pip install --target``), it is measured too.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.html import matched, scores
from benchmarks.measure import MB, called, machine, save, table, versions
from benchmarks.rows import read_rows
from dcurate.text import HtmlExtractor

_ROW = re.compile(r"^\s*\|(.*)\|\s*$")
_RULE = re.compile(r"^[\s|:-]+$")
_PLACE = re.compile(r"(?<!\\)\|")
_BRACES = re.compile(r"\{(\w)\}")

Extract = Callable[[str], str]


def by_stage(name: str, **settings: Any) -> Extract:
    stage = HtmlExtractor(name, settings)
    stage.setup()
    return lambda page: stage.extract(page).text


def readability(peers: Path) -> Extract:
    """readability-lxml, with all text of the part of the page that it chooses."""
    sys.path.append(str(peers))
    made = import_module("readability").Document
    html = import_module("lxml.html")

    def extract(page: str) -> str:
        return str(html.fromstring(made(page).summary()).text_content())

    return extract


def tools(peers: Path | None) -> Mapping[str, Extract]:
    own = {
        "dcurate": by_stage("dcurate"),
        "dcurate, markdown": by_stage("dcurate", markdown=True),
        "trafilatura": by_stage("trafilatura"),
        "resiliparse": by_stage("resiliparse"),
        "justext": by_stage("justext"),
    }
    return {**own, "readability-lxml": readability(peers)} if peers else own


def tables_in(text: str) -> list[list[list[str]]]:
    r"""The tables of a text, by their rows between ``|``.

    Examples:
        >>> tables_in("x\n| a | b |\n| --- | --- |\n| 1 |  |")
        [[['a', 'b'], ['1', '']]]
    """
    found: list[list[list[str]]] = []
    within = False
    for line in text.split("\n"):
        row = _ROW.match(line)
        if row and not within:
            found.append([])
        if row and not _RULE.match(line):
            found[-1].append([cell.strip().replace("\\|", "|") for cell in _PLACE.split(row[1])])
        within = row is not None
    return found


def cells_in_place(truth: Sequence[Sequence[str]], found: Sequence[Sequence[Sequence[str]]]) -> int:
    """Cells with text of a table that are in their row and column of the table that is most like it."""
    return max((sum(_equal(truth, other)) for other in found), default=0)


def _equal(truth: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> list[bool]:
    places = [(row, column, cell) for row, cells in enumerate(truth) for column, cell in enumerate(cells) if cell]
    return [row < len(other) and other[row][column : column + 1] == [cell] for row, column, cell in places]


def same_formula(latex: str) -> str:
    """A formula without spaces, and without braces around one character: they change nothing that is shown."""
    return _BRACES.sub(r"\1", "".join(latex.split()).replace("\\displaystyle", ""))


def in_order(paragraphs: Sequence[str], text: str) -> tuple[int, int]:
    """Of the pairs of paragraphs that follow each other, how many do so in the text."""
    places = [text.find(paragraph[:80].strip()) for paragraph in paragraphs]
    pairs = list(pairwise(places))
    return sum(0 <= one < two for one, two in pairs), len(pairs)


def judged(truth: Mapping[str, Any], text: str) -> dict[str, tuple[int, int]]:
    """Of the code blocks, cells, formulas and neighbours of a page: how many came back, of how many."""
    lines = f"\n{text}\n"
    found = tables_in(text)
    formulas = same_formula(text)
    cells = sum(bool(cell) for grid in truth["tables"] or () for row in grid for cell in row)
    return {
        "code_equal": (sum(f"\n{code}\n" in lines for code in truth["code"] or ()), len(truth["code"] or ())),
        "table_cells": (sum(cells_in_place(grid, found) for grid in truth["tables"] or ()), cells),
        "formulas": (
            sum(same_formula(latex) in formulas for latex in truth["formulas"] or ()),
            len(truth["formulas"] or ()),
        ),
        "order": in_order(_paragraphs(truth), text),
        "boilerplate": (sum(part in text for part in truth["boilerplate"] or ()), len(truth["boilerplate"] or ())),
    }


def _paragraphs(truth: Mapping[str, Any]) -> list[str]:
    return [part for part in truth["text"].split("\n\n") if len(part) > 100 and "\n" not in part and "\\" not in part]


def figures(truths: Sequence[Mapping[str, Any]], found: Sequence[str]) -> dict[str, float | None]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for truth, text in zip(truths, found, strict=True):
        for name, (right, of) in judged(truth, text).items():
            sums[name][0] += right
            sums[name][1] += of
    shares = {name: right / of if of else None for name, (right, of) in sums.items()}
    return {
        "f1": scores([matched(truth["text"], text) for truth, text in zip(truths, found, strict=True)])["f1"],
        **shares,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="the folder with pages.jsonl and truth.jsonl")
    parser.add_argument("--peers", type=Path, help="a folder with readability-lxml")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the fastest counts")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    pages = read_rows(given.input / "pages.jsonl", {"id": str, "html": str, "generator": str}).rows
    by_id = {row["id"]: row for row in read_rows(given.input / "truth.jsonl", {"id": str, "text": str}).rows}
    truths = [by_id[page["id"]] for page in pages]
    mb = sum(len(page["html"].encode()) for page in pages) / MB
    before = machine()
    results: dict[str, Any] = {}
    for name, extract in tools(given.peers).items():
        seconds = []
        for _ in range(given.repeat):
            begin = time.process_time()
            found = [extract(page["html"]) for page in pages]
            seconds.append(time.process_time() - begin)
        results[name] = {
            **figures(truths, found),
            "mb_per_cpu_s": mb / min(seconds),
            "seconds": seconds,
            "generators": {},
        }
        for generator in sorted({page["generator"] for page in pages}):
            chosen = [at for at, page in enumerate(pages) if page["generator"] == generator]
            results[name]["generators"][generator] = figures(
                [truths[at] for at in chosen], [found[at] for at in chosen]
            )
    columns = ["f1", "code_equal", "table_cells", "formulas", "order", "boilerplate", "mb_per_cpu_s"]
    print(f"{len(pages)} pages, {mb:.1f} MB of HTML; the best of {given.repeat} runs\n")
    print(
        table(
            ["extractor", *columns], [[name, *(_shown(each[key]) for key in columns)] for name, each in results.items()]
        )
    )
    print("\ndcurate, markdown, by generator\n")
    own = results["dcurate, markdown"]["generators"]
    print(
        table(
            ["generator", *columns[:-1]],
            [[name, *(_shown(each[key]) for key in columns[:-1])] for name, each in own.items()],
        )
    )
    packages = versions("dcurate", "trafilatura", "resiliparse", "justext", "readability-lxml", "lxml")
    save(given.json, {"pages": len(pages), "mb": mb, "machine": before, "versions": packages, "results": results})


def _shown(share: float | None) -> str | None:
    return None if share is None else f"{share:.3f}"


if __name__ == "__main__":
    called(main)

"""Forums, shops, documentation, services and lists to text: F1, snippets and speed of extractors by type of page.

``python -m benchmarks.html_kinds --input FOLDER [--split dev test] [--most N] [--peers DIR] [--json FILE]``

FOLDER is a checkout of Murrough-Foley/web-content-extraction-benchmark (WCXB), or has its form:
``SPLIT/html/ID.html.gz`` and ``SPLIT/ground-truth/ID.json``. See README.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.html_structure import readability
from benchmarks.measure import MB, called, machine, save, table, versions
from dcurate.text import HtmlExtractor
from dcurate.text.extract.page_kind import ARTICLE, DOCUMENTATION, FORUM, KINDS, LISTING, PRODUCT

#: Types of pages, and the kind that is dcurate's for each; a service is of no kind.
TYPES = {
    "article": ARTICLE,
    "documentation": DOCUMENTATION,
    "service": None,
    "forum": FORUM,
    "product": PRODUCT,
    "collection": LISTING,
    "listing": LISTING,
}
_WORD = re.compile(r"\w+")
_NAMES = ("f1", "precision", "recall", "with", "without")

Extract = Callable[[bytes], str]


@dataclass(frozen=True)
class TypedPage:
    """A page, its type and its truth.

    Args:
        html: bytes of the page.
        type: one of `TYPES`.
        truth: main content.
        within: snippets of the main content.
        without: snippets of what is around it.
    """

    html: bytes
    type: str
    truth: str
    within: Sequence[str]
    without: Sequence[str]


def typed_pages(folder: Path, split: str, most: int) -> list[TypedPage]:
    """Return the pages of a split, at most some, spread evenly over it.

    Raises:
        SystemExit: the folder has no such split.
    """
    places = sorted((folder / split / "ground-truth").glob("*.json"))
    if not places:
        raise SystemExit(f"{folder}: {split}/ground-truth has no file *.json; give a checkout of WCXB")
    step = max(1.0, len(places) / most)
    chosen = [places[int(number * step)] for number in range(min(most, len(places)))]
    return [_page(folder / split / "html" / f"{place.stem}.html.gz", place) for place in chosen]


def _page(html: Path, truth: Path) -> TypedPage:
    row = json.loads(truth.read_bytes())
    kind = row["_internal"]["page_type"]["primary"]
    marked = row["ground_truth"]
    return TypedPage(
        gzip.decompress(html.read_bytes()),
        "collection" if kind == "category" else kind,
        *(marked.get("main_content") or "", marked.get("with") or [], marked.get("without") or []),
    )


def judged(text: str, page: TypedPage) -> dict[str, float]:
    """Return precision, recall and F1 of words, and the shares of snippets, as WCXB's evaluate.py defines them.

    Examples:
        >>> page = TypedPage(b"", "article", "one two two", ["two two"], ["Home"])
        >>> judged("Two two, home", page)
        {'f1': 0.666..., 'precision': 0.666..., 'recall': 0.666..., 'with': 0.0, 'without': 0.0}
    """
    words, true = Counter(_WORD.findall(text.lower())), Counter(_WORD.findall(page.truth.lower()))
    both = (words & true).total()
    precision, recall = both / max(1, words.total()), both / max(1, true.total())
    if not true:
        precision = recall = float(not words)
    lower = text.lower()
    return {
        "f1": 2 * precision * recall / (precision + recall) if both or not (words or true) else 0.0,
        "precision": precision,
        "recall": recall,
        "with": _share([part.lower() in lower for part in page.within]),
        "without": _share([part.lower() not in lower for part in page.without]),
    }


def _share(right: Sequence[bool]) -> float:
    return sum(right) / len(right) if right else 1.0


def by_stage(name: str) -> Extract:
    stage = HtmlExtractor(name)
    stage.setup()
    return lambda page: stage.extract(page).text


def tools(peers: Path | None) -> dict[str, Extract]:
    stages = {name: by_stage(name) for name in ("dcurate", "trafilatura", "resiliparse", "justext")}
    if peers is None:
        return stages
    extract = readability(peers)

    def text_of(page: bytes) -> str:
        try:
            return extract(page.decode("utf-8", "replace"))
        except Exception as error:  # of the library: its own class, and those of lxml
            if type(error).__module__.partition(".")[0] in ("readability", "lxml", "builtins"):
                return ""
            raise

    return {**stages, "readability-lxml": text_of}


def figures_of(extract: Extract, pages: Sequence[TypedPage]) -> dict[str, Any]:
    """Return the means by type and over all pages of one extractor, and its speed."""
    begin = time.process_time()
    texts = [extract(page.html) for page in pages]
    seconds = time.process_time() - begin
    marks: dict[str, list[dict[str, float]]] = defaultdict(list)
    empty: Counter[str] = Counter()
    for page, text in zip(pages, texts, strict=True):
        for name in (page.type, "all"):
            marks[name].append(judged(text, page))
            empty[name] += not text
    return {
        "pages_per_cpu_s": len(pages) / seconds,
        "types": {
            name: {
                "pages": len(marks[name]),
                "no_text": empty[name],
                **{key: statistics.mean(mark[key] for mark in marks[name]) for key in _NAMES},
            }
            for name in (*TYPES, "all")
            if name in marks
        },
    }


def kinds_of(pages: Sequence[TypedPage]) -> dict[str, Any]:
    """Return what kinds the pages of each type have, and how much of threads is in turns."""
    stage = HtmlExtractor("dcurate", kind_field="kind", turns_field="turns")
    stage.setup()
    kinds: dict[str, Counter[str]] = {name: Counter() for name in TYPES}
    threads = []
    for page in pages:
        extracted = stage.extract(page.html)
        kinds[page.type][extracted.kind] += 1
        if page.type == "forum":
            turns = "\n\n".join(turn.text for turn in extracted.turns)
            threads.append({"turns": len(extracted.turns), **judged(turns, page)})
    expected = {name: kind for name, kind in TYPES.items() if kind}
    agreed = sum(kinds[name][kind] for name, kind in expected.items())
    with_turns = [thread for thread in threads if thread["turns"]]
    return {
        "kinds": {name: dict(counts) for name, counts in kinds.items()},
        "agreement": agreed / max(1, sum(kinds[name].total() for name in expected)),
        "threads": len(threads),
        "threads_with_turns": len(with_turns),
        "turns_f1": statistics.mean(thread["f1"] for thread in with_turns) if with_turns else None,
    }


def measured(pages: Sequence[TypedPage], extractors: dict[str, Extract]) -> dict[str, Any]:
    return {
        "pages": len(pages),
        "mb": sum(len(page.html) for page in pages) / MB,
        "results": {name: figures_of(extract, pages) for name, extract in extractors.items()},
        **kinds_of(pages),
    }


def show(split: str, figures: dict[str, Any]) -> None:
    results = figures["results"]
    columns = [name for name in (*TYPES, "all") if name in results["dcurate"]["types"]]
    print(f"{split}: {figures['pages']} pages, {figures['mb']:.1f} MB of HTML; F1 of words by type\n")
    rows = [
        [
            *(name, *(f"{each['types'][column]['f1']:.3f}" for column in columns)),
            f"{each['pages_per_cpu_s']:.0f}",
        ]
        for name, each in results.items()
    ]
    counts = ["pages", *(results["dcurate"]["types"][column]["pages"] for column in columns), None]
    print(table(["extractor", *columns, "pages/s"], [counts, *rows]))
    print(f"\n{split}: over all types\n")
    header = ["extractor", "F1", "precision", "recall", "with", "without", "no text"]
    everywhere = {name: each["types"]["all"] for name, each in results.items()}
    print(
        table(
            header,
            [[name, *(f"{each[key]:.3f}" for key in _NAMES), each["no_text"]] for name, each in everywhere.items()],
        )
    )
    for name, key in (("snippets of the content that come back", "with"), ("snippets of the rest left out", "without")):
        print(f"\n{split}: {name}, by type\n")
        print(
            table(
                ["extractor", *columns],
                [
                    [tool, *(f"{each['types'][column][key]:.3f}" for column in columns)]
                    for tool, each in results.items()
                ],
            )
        )
    print(f"\n{split}: kinds of dcurate by type; {figures['agreement']:.3f} agree, without pages of services\n")
    print(
        table(
            ["type", *KINDS], [[name, *(counts.get(k, 0) for k in KINDS)] for name, counts in figures["kinds"].items()]
        )
    )
    print(
        f"\n{split}: {figures['threads_with_turns']} of {figures['threads']} forums have turns; "
        f"F1 of the words of these turns {figures['turns_f1'] or 0:.3f}\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="the folder of WCXB")
    parser.add_argument("--split", nargs="+", choices=("dev", "test"), default=["dev"], help="which pages")
    parser.add_argument("--most", type=int, default=10_000, help="the most pages of a split, spread evenly")
    parser.add_argument("--peers", type=Path, help="a folder with readability-lxml")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    before = machine()
    extractors = tools(options.peers)
    splits = {}
    for split in options.split:
        splits[split] = measured(typed_pages(options.input, split, options.most), extractors)
        show(split, splits[split])
    packages = versions("dcurate", "trafilatura", "resiliparse", "justext", "readability-lxml", "lxml")
    save(options.json, {"machine": before, "versions": packages, "splits": splits})


if __name__ == "__main__":
    called(main)

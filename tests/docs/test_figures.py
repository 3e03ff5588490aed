"""A figure beside a link to the output of a benchmark is in that output, or says how it follows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NUMBER = re.compile(r"(?<![\w.@/-])\d[\d,]*(?:\.\d+)?(?![\w]|\.\d)")
NAME = re.compile(r"([a-z_]+)\.txt")
SIZING = "docs/howto/sizing.md"
#: Figures that no output contains, by page: what they follow from, or that they are no results.
DERIVED = {
    "README.md": {"70": "23.3 over 0.332", "7.3": "74.6 over 10.3", "128": "74.6 over 0.58"},
    "docs/benchmarks.md": {
        "16": "625 MB over 40",
        "1.06": "1 / 94.3 %",
        "35": "how many filters there are",
        "0.46": "14.7 s over 32.2",
        "0.65": "22.7 s over 35.0",
        "0.84": "13.2 s over 15.8",
        "0.94": "13.2 s over 14",
        "0.15": "2.07 s over 13.9",
        "0.24": "3.25 s over 13.7",
    },
    "docs/howto/classifiers.md": {"9,000": "characters of the policy"},
    "docs/howto/semantic-dedup.md": {"160": "rows over clusters", "640": "rows over clusters"},
    "docs/howto/pii.md": {"32": "how many issuers there are"},
    "docs/near-duplicates.md": {"39": "2,317 minutes", "2017": "a year"},
    "docs/rule-sets.md": {
        "181": "pages that were read",
        "2,880": "paragraphs that were read",
        "4,145": "1,084 and 3,061",
        "1,802": "271 and 1,531",
        "5,228": "2,167 and 3,061",
        "2,592": "nine times 288",
    },
    SIZING: {
        "5": "TB of text, asked",
        "28": "how many filters there are",
        "700": "1,000 over 1.43",
        "100": "slots, asked",
        "0.14": "100 over 700",
        "1,000": "slots, asked",
        "1.4": "1,000 over 700",
        "10,000": "slots, asked",
        "14": "10,000 over 700",
        "32,000": "slots, asked",
        "500": "machines, asked",
        "64": "cores, asked",
        "46": "32,000 over 700",
    },
}


def blocks(page: str) -> Iterator[tuple[str, set[str]]]:
    """Paragraphs and items that name outputs, and rows of tables, with all outputs that are named in their section."""
    for section in re.split(
        r"^#+ ", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL), flags=re.MULTILINE
    ):
        named = {name for name in NAME.findall(section) if (RESULTS / f"{name}.txt").exists()}
        for block in re.split(r"\n\s*\n|\n(?=[-*|] ?)|\n(?=\d\. )", section):
            if named and (block.startswith("|") or any(name in named for name in NAME.findall(block))):
                yield re.sub(r"\]\([^)]*\)|`[^`]*`|<sup>.*?</sup>", "", block), named


@cache
def figures(name: str) -> frozenset[float]:
    found = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", (RESULTS / f"{name}.txt").read_text())
    return frozenset(float(one.replace(",", "")) for one in found)


def is_figure_in(figure: str, known: set[float]) -> bool:
    """Whether a figure is one of those known, rounded, or as a percentage.

    >>> is_figure_in("0.97", {0.966}), is_figure_in("97", {0.966}), is_figure_in("0.98", {0.966})
    (True, True, False)
    """
    text = figure.replace(",", "")
    half = 0.5 / 10 ** len(text.partition(".")[2])
    return any(abs(one * scale - float(text)) <= half * (1 + 1e-9) for one in known for scale in (1, 100))


def missing(page: Path) -> list[str]:
    derived = {**DERIVED.get(str(page.relative_to(ROOT)), {})}
    if page == ROOT / SIZING:
        derived |= dict.fromkeys((hours for _, hours in SIZES), "held by a test of its own")
    return [
        figure
        for block, named in blocks(page.read_text(encoding="utf-8"))
        for figure in NUMBER.findall(block)
        if figure not in derived and not is_figure_in(figure, set().union(*map(figures, named)))
    ]


SIZES = re.findall(r"\| ([\d.]+) \| ([\d.]+) \| `benchmarks", (ROOT / SIZING).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(blocks(page.read_text(encoding="utf-8")))], ids=lambda page: page.stem
)
def test_a_figure_is_in_the_output_that_is_linked_beside_it(page: Path) -> None:
    assert missing(page) == []


@pytest.mark.parametrize(("rate", "hours"), SIZES)
def test_hours_for_a_terabyte_follow_from_the_rate(rate: str, hours: str) -> None:
    assert f"{1e6 / float(rate) / 3600:.1f}" == hours


def test_there_are_figures_to_hold() -> None:
    assert len(SIZES) >= 8
    assert sum(len(NUMBER.findall(block)) for page in PAGES for block, _ in blocks(page.read_text("utf-8"))) > 100

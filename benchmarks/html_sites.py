"""What `RemoveSiteBoilerplate` takes out of whole sites, and what it costs: F1 before and after, and bytes that go.

``python -m benchmarks.html_sites --texts FILE [--input DIR] [--site NAME=DIR ...] [--json FILE]``

Sites are made of sentences of the texts: pages with names of sections that all pages of a site share, and boilerplate
in plain elements that an extractor cannot know by their names. Each generator of ``benchmarks.make_html_pages`` is
another site (``--input``). Real sites are folders of pages that a program made (``--site``); the text within ``<main>``
is the truth. The result of every extractor goes through the stage with its defaults, and with other fractions.
"""

from __future__ import annotations

import argparse
import html
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from lxml.html import document_fromstring

from benchmarks.html import matched, scores
from benchmarks.make_html_pages import blog, forum, layout
from benchmarks.measure import called, machine, save, table, versions
from benchmarks.rows import read_rows, texts
from dcurate import DocumentBatch, InlineExecutor, Pipeline
from dcurate.dedup import RemoveSiteBoilerplate
from dcurate.text import HtmlExtractor

EXTRACTORS = ("dcurate", "trafilatura", "resiliparse", "justext")
FRACTIONS = (0.3, 0.5, 0.8, 0.9)
#: Characters from which on a real page is one: shorter ones lead to others.
_LEAST = 1_000
_SECTIONS = ("What you need", "How to do it", "Notes of the author", "What others say about it", "In short")
_AROUND = (
    ("Skip to the content", "Search this site", "Sign in or register to write a comment", "Print"),
    ("All you want to know, every day, since 1998.", "Write to us", "Share this page with your friends"),
    ("We reserve the right to change this text without notice at any time, for all readers.", "Go to top"),
)


class SitePage(NamedTuple):
    """A page of a site, and its text."""

    url: str
    html: str
    truth: str


def made_sites(sentences: Sequence[str], pages: int) -> Iterator[tuple[str, list[SitePage]]]:
    """Yield sites by template: each page has two to five of the site's sections, and what is around them."""
    for name, template in (("blog", blog), ("layout", layout), ("forum", forum), ("plain", None)):
        chance = random.Random(name)
        before, between, after = (chance.sample(part, k=2) for part in _AROUND)
        site = []
        for number in range(pages):
            truth, body = [], "".join(f"<div>{html.escape(line)}</div>" for line in before)
            for place, section in enumerate(sorted(chance.sample(_SECTIONS, k=chance.randint(2, 5)))):
                prose = [" ".join(chance.choices(sentences, k=chance.randint(1, 4))) for _ in range(2)]
                truth += [section, *prose]
                body += f"<h2>{section}</h2>" + "".join(f"<p>{html.escape(text)}</p>" for text in prose)
                if place == 0:
                    body += "".join(f"<div>{html.escape(line)}</div>" for line in between)
            body += "".join(f"<p>{html.escape(line)}</p>" for line in after)
            title = f"On matter {number}"
            page = template(title, body, "") if template else f"<title>{title}</title><h1>{title}</h1>{body}"
            site.append(SitePage(f"https://{name}.example.org/{number}", page, "\n\n".join(truth)))
        yield f"made: {name}", site


def generated_sites(folder: Path) -> Iterator[tuple[str, list[SitePage]]]:
    """Yield the pages of each generator as a site."""
    truths = {row["id"]: row["text"] for row in read_rows(folder / "truth.jsonl", {"id": str, "text": str}).rows}
    pages = read_rows(folder / "pages.jsonl", {"id": str, "html": str, "generator": str}).rows
    for name in sorted({page["generator"] for page in pages}):
        of_site = [page for page in pages if page["generator"] == name]
        yield name, [SitePage(f"https://{name}.example.org/{p['id']}", p["html"], truths[p["id"]]) for p in of_site]


def real_site(name: str, folder: Path, most: int) -> list[SitePage]:
    """Return pages of a folder, evenly over it, whose ``<main>`` has text."""
    site = []
    files = sorted(folder.rglob("*.html"))
    for file in files[:: max(1, len(files) // most)]:
        page = file.read_text("utf-8", "replace")
        main = document_fromstring(page).find(".//main") if page.strip() else None
        truth = "" if main is None else "\n".join(main.itertext())
        if len(truth) > _LEAST:
            site.append(SitePage(f"https://{name}/{file.relative_to(folder)}", page, truth))
    return site


def without_boilerplate(site: Sequence[SitePage], extracted: Sequence[str], fraction: float) -> tuple[list[str], float]:
    """Return the texts of a site after the stage, in order, and the CPU seconds that it took."""
    rows = {"n": list(range(len(site))), "url": [page.url for page in site], "text": list(extracted)}
    stage = RemoveSiteBoilerplate(min_fraction=fraction)
    begin = time.process_time()
    result = Pipeline("site", stages=[stage]).run(InlineExecutor(), initial_tasks=[DocumentBatch(data=pa.table(rows))])
    seconds = time.process_time() - begin
    kept = {row["n"]: row["text"] for batch in result for row in batch.to_arrow().to_pylist()}  # type: ignore[attr-defined]
    return [kept.get(number, "") for number in range(len(site))], seconds


def measured(site: Sequence[SitePage], extractor: str) -> dict[str, Any]:
    stage = HtmlExtractor(extractor)
    stage.setup()
    extracted = [stage.extract(page.html).text for page in site]
    before = [matched(page.truth, text) for page, text in zip(site, extracted, strict=True)]
    figures: dict[str, Any] = {"before": scores(before)}
    for fraction in FRACTIONS:
        texts_after, seconds = without_boilerplate(site, extracted, fraction)
        after = [matched(page.truth, text) for page, text in zip(site, texts_after, strict=True)]
        size = sum(map(len, extracted))
        figures[str(fraction)] = {
            **scores(after),
            "cut_ratio": (size - sum(map(len, texts_after))) / max(1, size),
            "pages_better": sum(
                new.extra < old.extra and new.lost <= old.lost for new, old in zip(after, before, strict=True)
            ),
            "pages_with_loss": sum(new.lost > old.lost for new, old in zip(after, before, strict=True)),
            "pages_per_cpu_s": len(site) / seconds,
        }
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--texts", type=Path, required=True, help="JSONL with the column text: where prose is taken from"
    )
    parser.add_argument("--input", type=Path, help="a folder of benchmarks.make_html_pages")
    parser.add_argument("--site", action="append", default=[], help="a real site: its name and its folder, NAME=DIR")
    parser.add_argument("--pages", type=int, default=60, help="pages of a made site, and the most of a real one")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    pattern = r"[A-Z][a-z]+ [a-z][a-z ,]{40,160}[a-z]\.(?= )"
    sentences = sorted({sentence for text in texts(options.texts, 3) for sentence in re.findall(pattern, text)})
    sites = dict(made_sites(sentences, options.pages))
    if options.input:
        sites |= dict(generated_sites(options.input))
    for name, folder in (site.split("=", 1) for site in options.site):
        sites[f"real: {name}"] = real_site(name, Path(folder), options.pages)
    before = machine()
    results = {name: {extractor: measured(site, extractor) for extractor in EXTRACTORS} for name, site in sites.items()}
    header = [
        "site",
        "pages",
        "extractor",
        "F1",
        *(f"F1, {fraction}" for fraction in FRACTIONS),
        "cut",
        "better",
        "with loss",
    ]
    print(
        "F1 before, and after with min_fraction; of the default: part that was cut, pages that are better, with loss\n"
    )
    print(table(header, [row for name, site in sites.items() for row in _rows(name, len(site), results[name])]))
    save(
        options.json,
        {
            "pages": {name: len(site) for name, site in sites.items()},
            "machine": before,
            "versions": versions("dcurate", "trafilatura", "resiliparse", "justext"),
            "results": results,
        },
    )


def _rows(name: str, pages: int, results: Mapping[str, Any]) -> Iterator[list[Any]]:
    for extractor, figures in results.items():
        usual = figures[str(RemoveSiteBoilerplate.min_fraction)]
        after = [f"{figures[str(fraction)]['f1']:.3f}" for fraction in FRACTIONS]
        cut = [f"{usual['cut_ratio']:.3f}", usual["pages_better"], usual["pages_with_loss"]]
        yield [name, pages, extractor, f"{figures['before']['f1']:.3f}", *after, *cut]


if __name__ == "__main__":
    called(main)

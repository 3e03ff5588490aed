"""Pages to text: F1 against text marked by hand, and pages a second, of each extractor and of its library called bare.

``python -m benchmarks.html --input FILE [--segments FOLDER] [--most N] [--repeat 3] [--json FILE]``: see README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import justext
import pyarrow as pa
import trafilatura
from lxml.etree import LxmlError
from resiliparse.extract.html2text import extract_plain_text

from benchmarks.measure import MB, called, machine, save, table, versions
from benchmarks.rows import read_rows
from dcurate import DocumentBatch
from dcurate.text import HtmlExtractor, JusTextExtractor, ResiliparseExtractor, TrafilaturaExtractor

#: README.rst of scrapinghub/article-extraction-benchmark: trafilatura 2.0.0, jusText 3.0.2.
PUBLISHED = {"trafilatura": 0.958, "justext": 0.804}

_TOKEN = re.compile(r"\w+")
_SHINGLE = 4


@dataclass(frozen=True)
class Subject:
    """What is measured.

    Args:
        name: in the table.
        stage: that extracts.
        bare: the library called on decoded bytes with the same settings, and nothing around it; None where the stage
            has a rule that the library has not.
        published: F1 that the library's version of that time reached.
    """

    name: str
    stage: HtmlExtractor
    bare: Callable[[str], str | None] | None = None
    published: float | None = None


def _english(name: str) -> HtmlExtractor:
    """An extractor that takes every page for English."""
    return HtmlExtractor(name, language_field="language")


def subjects() -> list[Subject]:
    english = justext.get_stoplist("English")

    def bare_justext(page: str) -> str:
        found = justext.justext(page, english, 50, 200, 0.1, 0.2, 0.2, 200, True)
        return "\n\n".join(paragraph.text for paragraph in found if not paragraph.is_boilerplate)

    return [
        Subject(
            "trafilatura",
            HtmlExtractor("trafilatura"),
            lambda page: trafilatura.extract(page, include_comments=False),
            PUBLISHED["trafilatura"],
        ),
        Subject(
            "trafilatura, fast",
            HtmlExtractor("trafilatura", {"fast": True}),
            lambda page: trafilatura.extract(page, include_comments=False, fast=True),
        ),
        Subject(
            "trafilatura, fast, favor_recall",
            HtmlExtractor("trafilatura", {"fast": True, "favor_recall": True}),
            lambda page: trafilatura.extract(page, include_comments=False, fast=True, favor_recall=True),
        ),
        Subject("dcurate", HtmlExtractor("dcurate")),
        Subject(
            "resiliparse",
            HtmlExtractor("resiliparse"),
            lambda page: extract_plain_text(page, main_content=True, alt_texts=False),
        ),
        Subject("justext", HtmlExtractor("justext"), None, PUBLISHED["justext"]),
        Subject("justext, English stop words", _english("justext"), bare_justext, PUBLISHED["justext"]),
        Subject("TrafilaturaExtractor(), NeMo Curator's defaults", HtmlExtractor(TrafilaturaExtractor())),
        Subject("ResiliparseExtractor(), NeMo Curator's defaults", HtmlExtractor(ResiliparseExtractor())),
        Subject("JusTextExtractor(), NeMo Curator's defaults", HtmlExtractor(JusTextExtractor())),
    ]


# The public scorer's definition: counts of 4-token shingles, precision and recall averaged over pages


@dataclass(frozen=True)
class Match:
    """Shingles of one page: in both texts, only in the one extracted, only in the true one."""

    both: int
    extra: int
    lost: int


def matched(truth: str, text: str) -> Match:
    wanted, found = _shingles(truth), _shingles(text)
    return Match((wanted & found).total(), (found - wanted).total(), (wanted - found).total())


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    tokens = _TOKEN.findall(text)
    shingles = (tuple(tokens[at : at + _SHINGLE]) for at in range(max(1, len(tokens) - _SHINGLE + 1)))
    return Counter(shingle for shingle in shingles if shingle)


def scores(matches: Sequence[Match]) -> dict[str, float]:
    precision = _mean([m.both / (m.both + m.extra) for m in matches if m.both + m.extra])
    recall = _mean([m.both / (m.both + m.lost) for m in matches if m.both + m.lost])
    both = precision + recall
    return {"f1": 2 * precision * recall / both if both else 0.0, "precision": precision, "recall": recall}


def _mean(shares: Sequence[float]) -> float:
    """The mean; 0 of none, where nothing was extracted from any page."""
    return statistics.mean(shares) if shares else 0.0


def spread(matches: Sequence[Match], times: int = 500) -> float:
    """Standard deviation of F1 over samples of the pages, as the public scorer has it."""
    chance = random.Random(0)
    return statistics.stdev(scores(chance.choices(matches, k=len(matches)))["f1"] for _ in range(times))


# The runs


def measured(subjects: Sequence[Subject], pages: Sequence[dict[str, str]], repeat: int) -> dict[str, dict[str, Any]]:
    """Scores and rates of extractors, by name; they take turns, as the speed of a shared machine changes."""
    html = [page["html"].encode() for page in pages]
    truths = [page["truth_text"] for page in pages]
    mb = sum(map(len, html)) / MB
    batch = _batch(html)
    stage_s: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    bare_s: dict[str, list[float]] = {subject.name: [] for subject in subjects if subject.bare}
    texts: dict[str, list[str]] = {}
    bare_texts: dict[str, list[str]] = {}
    for _ in range(repeat):
        for subject in subjects:
            subject.stage.setup()
            begin = time.process_time()
            rows = subject.stage.process(batch)
            stage_s[subject.name].append(time.process_time() - begin)
            by_page = dict(zip(*(rows.to_pandas()[name] for name in ("id", "text")), strict=True))
            texts[subject.name] = [by_page.get(number, "") for number in range(len(html))]
            if subject.bare:
                begin = time.process_time()
                bare_texts[subject.name] = [_alone(subject.bare, page.decode()) for page in html]
                bare_s[subject.name].append(time.process_time() - begin)
    figures: dict[str, dict[str, Any]] = {}
    for subject in subjects:
        matches = [matched(*pair) for pair in zip(truths, texts[subject.name], strict=True)]
        seconds = statistics.median(stage_s[subject.name])
        figures[subject.name] = {
            **{**scores(matches), "f1_deviation": spread(matches), "published_f1": subject.published},
            **{"pages_per_cpu_s": len(html) / seconds, "mb_per_cpu_s": mb / seconds, "seconds": stage_s[subject.name]},
        }
        if subject.bare:
            alone = statistics.median(bare_s[subject.name])
            matches = [matched(*pair) for pair in zip(truths, bare_texts[subject.name], strict=True)]
            figures[subject.name] |= {
                **{"bare_f1": scores(matches)["f1"], "bare_pages_per_cpu_s": len(html) / alone},
                **{"overhead_ratio": seconds / alone, "bare_seconds": bare_s[subject.name]},
            }
    return figures


def ratios(figures: dict[str, dict[str, Any]], name: str, peer: str) -> list[float]:
    """How many times as fast as another an extractor is, in each round, in rising order; its library called bare."""
    seconds = zip(figures[peer]["bare_seconds"], figures[name]["seconds"], strict=True)
    return sorted(theirs / ours for theirs, ours in seconds)


def _batch(html: Sequence[bytes]) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"id": list(range(len(html))), "content": html, "language": ["en"] * len(html)}))


# The evaluation of trafilatura: segments that the text of a page holds, and others that it does not


@dataclass(frozen=True)
class Marked:
    """A page, segments of its text, and segments of what is around it."""

    html: bytes
    within: list[str]
    without: list[str]


def marked_pages(folder: Path) -> list[Marked]:
    """The pages of the folder ``tests`` of trafilatura's repository."""
    pages = []
    for _, page in sorted(json.loads((folder / "evaldata.json").read_bytes()).items()):
        places = [folder / part / page["file"] for part in ("cache", "eval")]
        html = next(place for place in places if place.is_file()).read_bytes()
        pages.append(Marked(html, [_spaced(one) for one in page["with"]], [_spaced(one) for one in page["without"]]))
    return pages


def _spaced(text: str) -> str:
    return " ".join(text.split())


def measure_segments(subject: Subject, pages: Sequence[Marked]) -> dict[str, Any]:
    """F1 over all segments, as trafilatura's own evaluation has it."""
    subject.stage.setup()
    begin = time.process_time()
    rows = subject.stage.process(_batch([page.html for page in pages])).to_pandas()
    seconds = time.process_time() - begin
    found = {number: _spaced(text) for number, text in zip(rows["id"], rows["text"], strict=True)}
    right = wrong = lost = 0
    for number, page in enumerate(pages):
        text = found.get(number, "")
        right += sum(one in text for one in page.within)
        lost += sum(one not in text for one in page.within)
        wrong += sum(one in text for one in page.without)
    return {
        "f1": 2 * right / max(1, 2 * right + wrong + lost),
        "precision": right / max(1, right + wrong),
        "recall": right / max(1, right + lost),
        "pages_without_text": len(pages) - len(found),
        "pages_per_cpu_s": len(pages) / seconds,
    }


def _alone(extract: Callable[[str], str | None], page: str) -> str:
    """What the library finds in a page; nothing in one that it refuses, such as an empty one."""
    try:
        return extract(page) or ""
    except LxmlError:
        return ""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="JSONL with the columns html and truth_text")
    parser.add_argument("--segments", type=Path, help="the folder tests of trafilatura's repository")
    parser.add_argument("--most", type=int, default=10_000, help="the most of these pages to take, spread evenly")
    parser.add_argument("--repeat", type=int, default=3, help="rounds in which all take turns; medians count")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    pages, left_out = read_rows(given.input, {"html": str, "truth_text": str})
    before = machine()
    results = measured(subjects(), pages, given.repeat)
    faster = ratios(results, "dcurate", "trafilatura")
    header = ["extractor", "F1", "±", "published", "precision", "recall", "pages/s", "MB/s", "bare F1", "stage/bare"]
    rows = [
        [
            name,
            *(f"{each[key]:.3f}" for key in ("f1", "f1_deviation")),
            each["published_f1"],
            *(f"{each[key]:.3f}" for key in ("precision", "recall")),
            f"{each['pages_per_cpu_s']:.0f}",
            f"{each['mb_per_cpu_s']:.1f}",
            f"{each['bare_f1']:.3f}" if "bare_f1" in each else None,
            f"{each['overhead_ratio']:.2f}" if "overhead_ratio" in each else None,
        ]
        for name, each in results.items()
    ]
    size = sum(len(page["html"].encode()) for page in pages) / MB
    print(
        f"{len(pages)} pages, {size:.1f} MB of HTML; rates are per CPU-second of one core, medians of {given.repeat}\n"
    )
    print(table(header, rows))
    spread_of_rounds = f"{faster[0]:.2f} to {faster[-1]:.2f} by round"
    print(f"\ndcurate: {statistics.median(faster):.2f} times trafilatura called bare, {spread_of_rounds}")
    marked = marked_pages(given.segments) if given.segments else []
    marked = marked[:: -(-len(marked) // given.most) or 1]
    segments = {subject.name: measure_segments(subject, marked) for subject in subjects()} if marked else {}
    if marked:
        print(f"\n{len(marked)} pages of many languages with segments marked by hand\n")
        header = ["extractor", "F1", "precision", "recall", "no text", "pages/s"]
        rows = [
            [
                name,
                *(f"{each[key]:.3f}" for key in ("f1", "precision", "recall")),
                each["pages_without_text"],
                f"{each['pages_per_cpu_s']:.0f}",
            ]
            for name, each in segments.items()
        ]
        print(table(header, rows))
    packages = versions("dcurate", "trafilatura", "resiliparse", "justext", "lxml")
    save(
        given.json,
        {
            "pages": len(pages),
            "rows_left_out": left_out,
            "mb": size,
            "machine": before,
            "versions": packages,
            "results": results,
            "times_trafilatura": faster,
            "pages_with_segments": len(marked),
            "segments": segments,
        },
    )


if __name__ == "__main__":
    called(main)

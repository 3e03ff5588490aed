"""How fast a dump of Wikipedia becomes text, and how far the text is that of NeMo Curator's rule.

``python -m benchmarks.wikipedia --input DUMP.xml.bz2 [--language en] [--json FILE]``. The rule is carried out here as
the original does it (a tree of nodes, from which nodes are removed while it is walked), and with none missed. See
README.md.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mwparserfromhell

from benchmarks.measure import called, machine, save, table, versions
from dcurate.download import Skipped, WikipediaExtractor, WikipediaIterator
from dcurate.download.wikipedia.pages import Article

_MEDIA = re.compile("^(?:File|Image|Media):", re.IGNORECASE)
_CATEGORY = re.compile("^Category:", re.IGNORECASE)


def by_the_rule(markup: str, walk: Callable[[Any], Any]) -> str:
    """The text of a page by the rule; ``walk`` is given what is looked for, while nodes are removed."""
    sections = []
    for section in mwparserfromhell.parse(markup).get_sections(flat=True, include_lead=True, include_headings=True):
        for link in walk(section.ifilter_wikilinks(recursive=True)):
            with suppress(ValueError):
                if _MEDIA.match(str(link.title)):
                    section.remove(link)
                elif _CATEGORY.match(str(link.title)):
                    link.text = _CATEGORY.sub("", link.__strip__())
        for tag in walk(section.ifilter_tags(matches=lambda tag: str(tag.tag) in {"ref", "table"}, recursive=True)):
            with suppress(ValueError):
                section.remove(tag)
        sections.append(re.sub("__[A-Z]*__", "", section.strip_code().strip()))
    return "\n\n".join(text for text in sections if text)


def timed(function: Callable[[Article], str], articles: Sequence[Article]) -> tuple[list[str], float]:
    """What a function gives for articles, and its CPU-seconds."""
    begin = time.process_time()
    found = [function(article).strip() for article in articles]
    return found, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.wikipedia", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", type=Path, required=True, help="a dump, .xml.bz2")
    parser.add_argument("--language", default="en", help="of the Wikipedia")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", "mwparserfromhell")}
    begin = time.process_time()
    records = list(WikipediaIterator(given.language).iterate(str(given.input)))
    reading = time.process_time() - begin
    articles = [record for record in records if isinstance(record, Article)]
    size = sum(len(article["raw_content"].encode()) for article in articles)
    extractor = WikipediaExtractor(given.language)

    def own(article: Article) -> str:
        row = extractor.extract(article)
        return "" if row is None or isinstance(row, Skipped) else row["text"]

    texts, seconds = timed(own, articles)
    original, original_s = timed(lambda article: by_the_rule(article["raw_content"], iter), articles)
    whole, _ = timed(lambda article: by_the_rule(article["raw_content"], list), articles)
    figures |= {
        "input": given.input.name,
        "articles": len(articles),
        "mb": size / 1e6,
        "skipped": Counter(record.reason for record in records if isinstance(record, Skipped)),
        "mb_per_s": {"reading": size / reading / 1e6, "dcurate": size / seconds / 1e6, "rule": size / original_s / 1e6},
        "articles_per_s": {"dcurate": len(articles) / seconds, "rule": len(articles) / original_s},
        "differ_from_rule": sum(one != two for one, two in zip(texts, whole, strict=True)),
        "original_leaves_markup_in": sum(one != two for one, two in zip(original, whole, strict=True)),
    }
    print(f"{len(articles)} articles, {size / 1e6:.1f} MB of markup; left out: {dict(figures['skipped'])}\n")
    rows = [(name, speed, figures["articles_per_s"].get(name)) for name, speed in figures["mb_per_s"].items()]
    print(table(["step, one core", "MB/s", "articles/s"], rows))
    print(f"\nother text than the rule's: {figures['differ_from_rule']} articles")
    print(f"in which the original leaves what the rule removes: {figures['original_leaves_markup_in']} articles")
    save(given.json, figures)


if __name__ == "__main__":
    called(main)

"""What the stages of recorded runs say: what they removed and why, what they generated, where rows came from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dcurate.events import StageStats
from dcurate.runs.load import RecordedRun

#: Words in the name or class of a stage, or in a reason, by what the stage is a measure for.
RIGHTS = re.compile(r"rights|robots|tdm|opt.?(ed.?)?out|noai|licen[cs]e|paywall", re.IGNORECASE)
ILLEGAL = re.compile(
    r"pii|privacy|unsafe|safety|aegis|nsfw|bad_?words|pornograph|urlsfilter|urls_filter|blocklist|csam|toxic|hate"
    r"|violence|poison|instruction_?data_?guard",
    re.IGNORECASE,
)
#: Stages by which a language model writes text.
GENERATING = frozenset(
    ("Generate", "Rephrase", "LLMCleanup", "NemotronCC", "SyntheticQA", "Translate", "TranslateSegments")
)
#: Readers and downloads, and what they read.
SOURCES: Mapping[str, str] = {
    "DownloadCommonCrawl": "Common Crawl",
    "CommonCrawlWARCReader": "Common Crawl",
    "CommonCrawlWARCDownloader": "Common Crawl",
    "MainCommonCrawlUrlGenerator": "Common Crawl",
    "NewsCommonCrawlUrlGenerator": "Common Crawl (news)",
    "DownloadWikipedia": "Wikipedia",
    "WikipediaUrlGenerator": "Wikipedia",
    "DownloadArxiv": "arXiv",
    "ArxivUrlGenerator": "arXiv",
    "WarcReader": "web archives (WARC)",
    "WetReader": "web archives (WET)",
}
_DRAWN = re.compile(
    r"(?P<source>.+): [\d,]+ tokens requested, (?P<drawn>[\d,]+) drawn, in (?P<epochs>[\d,.]+) epochs of .+"
)
_MADE = re.compile(r"\b[A-Z]\w+(?=\()")


@dataclass(frozen=True)
class StageFacts:
    """A stage of a recorded run.

    Attributes:
        run: id of the run.
        counts: its counts.
        kind: its class; empty if the record does not say it.
        settings: its settings as text.
    """

    run: str
    counts: StageStats
    kind: str = ""
    settings: Mapping[str, str] | None = None

    @property
    def words(self) -> str:
        """Its name and the names of its class and of those that it is made with."""
        return " ".join((self.counts.name, self.kind, *_made({"settings": self.settings or {}})))

    def rows(self, words: re.Pattern[str] | None) -> Iterator[dict[str, Any]]:
        """Yield a row for each reason for which it removed documents, and for each kind of what it counted in them.

        Args:
            words: only what it did for reasons with these words, or everything if they are in its own; all if None.
        """
        whole = words is None or words.search(self.words) is not None
        removed = {**self.counts.dropped}
        for reason, rows in self.counts.faulty.items():
            removed[reason] = removed.get(reason, 0) + rows
        matching = {reason: rows for reason, rows in removed.items() if whole or (words and words.search(reason))}
        for reason, rows in sorted(matching.items(), key=lambda pair: (-pair[1], pair[0])):
            yield self._row(reason, rows)
        if whole and words is not None:
            for kind, number in sorted(self.counts.found.items()):
                yield {**self._row("", 0), "counted": kind, "number": number}
            if not matching and not self.counts.found:
                yield self._row("", 0)

    def _row(self, reason: str, rows: int) -> dict[str, Any]:
        return {"run": self.run, "stage": self.counts.name, "reason": reason, "removed documents": rows}


class Generated(NamedTuple):
    """A column that a language model wrote."""

    column: str
    stage: str
    model: str


def stages_of(run: RecordedRun) -> list[StageFacts]:
    """Return the stages of a run, with what its record says of them."""
    by_name = {stage["name"]: stage for stage in run.about.get("stages", ())}
    stages = []
    for counts in run.report.stages:
        about = by_name.get(counts.name, {})
        stages.append(StageFacts(run.report.run, counts, about.get("kind", ""), about.get("settings", {})))
    return stages


def sources_of(run: RecordedRun) -> list[str]:
    """Return what a run read, by the classes of its stages."""
    kinds = [kind for stage in run.about.get("stages", ()) for kind in (stage.get("kind", ""), *_made(stage))]
    return list(dict.fromkeys(SOURCES[kind] for kind in kinds if kind in SOURCES))


def _made(stage: Mapping[str, Any]) -> list[str]:
    """Classes that a stage is made with, by its settings."""
    return [name for value in stage.get("settings", {}).values() for name in _MADE.findall(value)]


def mixed_by(run: RecordedRun) -> list[dict[str, Any]]:
    """Return the tokens of each source of a mixture, by the notices of its run.

    Examples:
        >>> from dcurate.core.report import RunReport
        >>> says = "web: 2,250 tokens requested, 2,251 drawn, in 1.50 epochs of 1,500; 0 are left"
        >>> mixed_by(RecordedRun(RunReport("7f3a", "demo", "inline", 0.0, 1.0, (), notices=(says,))))
        [{'run': '7f3a', 'source': 'web', 'tokens drawn': 2251, 'epochs': 1.5}]
    """
    matches = filter(None, map(_DRAWN.fullmatch, run.report.notices))
    return [
        {
            "run": run.report.run,
            "source": said["source"],
            "tokens drawn": int(said["drawn"].replace(",", "")),
            "epochs": float(said["epochs"].replace(",", "")),
        }
        for said in matches
    ]


def generated_by(run: RecordedRun) -> list[Generated]:
    """Return the columns that language models wrote in a run.

    Examples:
        >>> from dcurate.core.report import RunReport
        >>> settings = {"output_field": "'qa'", "model": "'llama'"}
        >>> about = {"stages": [{"name": "ask", "kind": "Rephrase", "settings": settings}]}
        >>> generated_by(RecordedRun(RunReport("7f3a", "demo", "inline", 0.0, 1.0, ()), about=about))
        [Generated(column='qa', stage='ask', model='llama')]
    """
    made = []
    for stage in run.about.get("stages", ()):
        if stage.get("kind") in GENERATING:
            settings = stage.get("settings", {})
            column = _literal(settings.get("output_field", "'text'"))
            made.append(Generated(column, stage["name"], _literal(settings.get("model", "''"))))
    return made


def _literal(shown: str) -> str:
    """The text whose `repr` a setting shows."""
    try:
        return str(ast.literal_eval(shown))
    except (ValueError, SyntaxError):
        return shown

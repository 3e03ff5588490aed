"""What became of the documents of a run, stage by stage, as parts of its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from rich.filesize import decimal

from dcurate.core.events import StageStats
from dcurate.core.report import Threshold
from dcurate.runs.text import number_text
from dcurate.ui.profile_table import share
from dcurate.ui.report.blocks import ReportData, section, share_bar, table
from dcurate.ui.report.scores import bars_of, goes_by_factors, is_whole, numbers_of
from dcurate.ui.svg import histogram

_MOST_CARDS, _MOST_LABELS = 60, 12


def funnel(data: ReportData) -> str:
    """Documents and bytes that each stage left."""
    stages = data.report.stages
    widest = max((stage.rows_in for stage in stages), default=0) or 1
    first = stages[0].rows_in if stages else 0
    rows = [_stage_row(stage, first, widest) for stage in stages]
    heads = ("stage", "", "documents in", "out", "dropped", "quarantined", "of the input", "bytes out")
    note = (
        f"{_most(stages, first)} The bar is what came in: "
        '<span class="kept"></span> passed on <span class="dropped"></span> taken out.'
    )
    return section("funnel", "What became of the documents", table(heads, rows, "funnel"), note)


def _most(stages: Sequence[StageStats], first: int) -> str:
    """Which stages took most documents out, in a sentence."""
    ranked = sorted(stages, key=lambda stage: -sum(stage.dropped.values()))[:3]
    named = [
        f"<b>{escape(stage.name)}</b> ({share(sum(stage.dropped.values()), first)})"
        for stage in ranked
        if stage.dropped
    ]
    return f"Most were dropped by {', '.join(named)}." if named else "None were dropped."


def _stage_row(stage: StageStats, first: int, widest: int) -> tuple[str, ...]:
    out = min(stage.rows_out, stage.rows_in) / widest
    lost = max(stage.rows_in - stage.rows_out, 0) / widest
    dropped, faulty = sum(stage.dropped.values()), sum(stage.faulty.values())
    return (
        escape(stage.name),
        share_bar((out, "kept-part"), (lost, "drop-part")),
        f"{stage.rows_in:,}",
        f"{stage.rows_out:,}",
        f"{dropped:,}" if dropped else "",
        f'<b class="bad">{faulty:,}</b>' if faulty else "",
        share(stage.rows_out, first),
        decimal(stage.bytes_out),
    )


def reasons(data: ReportData) -> str:
    """Why documents were taken out, most frequent first, with examples."""
    first = data.report.stages[0].rows_in if data.report.stages else 0
    found = sorted(_reasons(data.report.stages), key=lambda one: (-one[2], one[0].name, one[1]))
    widest = max((rows for _, _, rows, _ in found), default=1)
    lines = []
    for stage, reason, rows, fault in found:
        name = escape(stage.name if reason == stage.name else f"{stage.name}: {reason}")
        mark = ' <em class="bad">quarantined</em>' if fault else ""
        bar = f'<i class="drop" style="width:{100 * rows / widest:.2f}%"></i>'
        examples = _examples(stage.examples.get(reason, ()))
        lines.append(
            f'<tr><th>{name}{mark}{examples}</th><td class="bar">{bar}</td><td>{rows:,}</td>'
            f"<td>{share(rows, first)}</td></tr>"
        )
    content = f'<article><table class="counts reasons">{"".join(lines)}</table></article>' if lines else ""
    return section("reasons", "Why documents were taken out", content, _reasons_note(data))


def _reasons_note(data: ReportData) -> str:
    if not any(stage.dropped or stage.faulty for stage in data.report.stages):
        return ""
    places = [
        ("Dropped documents are kept in", data.report.rejected_path),
        ("Those that could not be processed are in", data.report.quarantine_path),
    ]
    said = [f"{words} <code>{escape(path)}</code>." for words, path in places if path]
    if data.report.rejected_path is None:
        said.append("To keep all dropped documents, run with <code>rejected=</code> (<code>--rejected PATH</code>).")
    return " ".join(said)


def _reasons(stages: Sequence[StageStats]) -> Iterator[tuple[StageStats, str, int, bool]]:
    for stage in stages:
        for fault, counts in ((False, stage.dropped), (True, stage.faulty)):
            for reason, rows in counts.items():
                yield stage, reason, rows, fault


def _examples(examples: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(f"<dt>{_named(one)}</dt><dd>{escape(str(one.get('excerpt', '')))}</dd>" for one in examples)
    return f"<details><summary>{len(examples)} examples</summary><dl>{rows}</dl></details>" if rows else ""


def _named(example: Mapping[str, Any]) -> str:
    said = [f"<code>{escape(str(example[key]))}</code>" for key in ("id",) if key in example]
    if "score" in example:
        score = example["score"]
        said.append(f"scores {escape(number_text(score) if isinstance(score, float) else str(score))}")
    if "source" in example:
        said.append(f"from {escape(str(example['source']))}")
    return " ".join(said) or "a document"


def scores(data: ReportData) -> str:
    """How the scores of each filter are distributed, with its thresholds."""
    found = [(stage, name, counts) for stage in data.report.stages for name, counts in stage.scores.items() if counts]
    cards = "".join(_card(data, stage, name, counts) for stage, name, counts in found[:_MOST_CARDS])
    more = f" {len(found) - _MOST_CARDS} more are in report.json." if len(found) > _MOST_CARDS else ""
    note = (
        '<span class="kept"></span> kept <span class="dropped"></span> beyond the threshold; documents on a scale of '
        "factors of ten. Scores are cut to two digits, and estimated from samples where batches are large or many; "
        f"each filter scores what the ones before it left.{more}"
    )
    return section("scores", "Scores", f'<div class="grid three">{cards}</div>' if cards else "", note)


def _card(data: ReportData, stage: StageStats, name: str, counts: Mapping[str, int]) -> str:
    cuts = data.thresholds(stage.name, name)
    numbers = numbers_of(counts)
    dropped = sum(stage.dropped.values()) if len(stage.scores) == 1 else stage.dropped.get(name, 0)
    title = escape(name if name == stage.name else f"{stage.name}: {name}")
    side = f"drops {share(dropped, stage.rows_in) or '0 %'}" if dropped or cuts else ""
    drawn = _labels(counts) if numbers is None else _drawn(numbers, cuts)
    return f"<article><h3>{title} <em>{side}</em></h3>{drawn}{_rules(cuts)}</article>"


def _drawn(numbers: Mapping[float, int], cuts: Sequence[Threshold]) -> str:
    marks = [(cut.value, cut.keeps) for cut in cuts]
    return histogram(bars_of(numbers, cuts), marks, whole=is_whole(numbers), across=goes_by_factors(numbers))


def _rules(cuts: Sequence[Threshold]) -> str:
    rules = " and ".join(f"<code>{escape(cut.keeps)}</code>" for cut in cuts)
    return f'<p class="rule">keeps {rules}</p>' if rules else ""


def _labels(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_LABELS]
    total, widest = sum(counts.values()), ranked[0][1]
    rows = "".join(
        f'<tr><th>{escape(label)}</th><td class="bar"><i style="width:{100 * count / widest:.2f}%"></i></td>'
        f"<td>{share(count, total)}</td></tr>"
        for label, count in ranked
    )
    return f'<table class="counts">{rows}</table>'

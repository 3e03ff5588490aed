"""Sections 2 and 3: sources of the data and what was done to it, as far as columns and records say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dcurate.io.corpus_counts import MODALITIES, CorpusCounts
from dcurate.io.group_counts import GroupCounts
from dcurate.runs.load import RecordedRun
from dcurate.runs.summary.evidence import ARCHIVES, SummedCorpus
from dcurate.runs.summary.fields import SummaryField
from dcurate.runs.summary.sizes import columns_of, counted_in, value_rows
from dcurate.runs.summary.stages import ILLEGAL, RIGHTS, StageFacts, generated_by, mixed_by, sources_of, stages_of
from dcurate.runs.text import many

_AGENTS = ("http-header-user-agent", "user-agent", "software")


def runs_of(corpora: Sequence[SummedCorpus]) -> list[RecordedRun]:
    """Return the recorded runs of corpora, each once."""
    runs = [corpus.run for corpus in corpora if corpus.run is not None]
    return list({run.report.run: run for run in runs}.values())


def source_fields(total: CorpusCounts, groups: GroupCounts, corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    """Yield what is known of where documents came from: section 2.1."""
    read = [
        {
            "run": run.report.run,
            "source": ", ".join(sources),
            "documents read": _rows_in(run),
            "documents kept": _rows_out(run),
        }
        for run in runs_of(corpora)
        if (sources := sources_of(run))
    ]
    if read:
        how = "from the classes of stages in the records of runs"
        yield SummaryField("sources_read", "Sources that runs read", read, how)
    mixed = [row for run in runs_of(corpora) for row in mixed_by(run)]
    if mixed:
        how = "from the reports of runs with a mixture"
        yield SummaryField("sources_mixed", "Sources of mixtures", mixed, how)
    column = columns_of(total, "source")
    if column:
        rows = value_rows(groups, "source", total.rows)
        yield SummaryField("sources_named", "Sources that documents name", rows, counted_in(total, column))
    parts = corpora[0].archives if len(corpora) == 1 else _merged(corpora)
    if "ispartof" in parts:
        named = [f"{name} ({archives:,} archives)" for name, archives in sorted(parts["ispartof"].items())]
        yield SummaryField("crawls_named", "Crawls that web archives are part of", named, _how_described(corpora))
    column = columns_of(total, "licence")
    if column:
        rows = value_rows(groups, "licence", total.rows)
        yield SummaryField("licences", "Licences of documents", rows, counted_in(total, column))


def _rows_in(run: RecordedRun) -> int:
    stages = run.report.stages
    return stages[0].rows_in or stages[0].rows_out if stages else 0


def _rows_out(run: RecordedRun) -> int:
    return run.report.stages[-1].rows_out if run.report.stages else 0


def _merged(corpora: Sequence[SummedCorpus]) -> dict[str, Counter[str]]:
    """What the descriptions of web archives say; those of a run that wrote several outputs count once."""
    merged = dict[str, Counter[str]]()
    for corpus in {corpus.run.report.run if corpus.run else corpus.address: corpus for corpus in corpora}.values():
        for name, values in corpus.archives.items():
            merged.setdefault(name, Counter()).update(values)
    return merged


def _how_described(corpora: Sequence[SummedCorpus]) -> str:
    read = sum(corpus.archives_read for corpus in corpora)
    limit = f" (the first {ARCHIVES:,})" if any(corpus.archives_read == ARCHIVES for corpus in corpora) else ""
    return f"from the warcinfo records of {many(read, 'web archive')}{limit} that runs read"


def crawler_fields(corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    """Yield the names of crawlers, and how they behaved, by the descriptions of web archives: section 2.3."""
    described = _merged(corpora)
    agents = sorted({agent for name in _AGENTS for agent in described.get(name, ())})
    how = _how_described(corpora)
    if not agents:
        unreachable = [corpus.unreachable for corpus in corpora if corpus.unreachable]
        if unreachable:
            how = unreachable[0]
        elif any(corpus.archives_read for corpus in corpora):
            how = f"{how.replace('from the', 'the')} name none"
        else:
            how = "records of runs name no web archives"
    yield SummaryField("crawlers", "Names and identifiers of the crawlers", agents or None, how)
    robots = [
        f"{text} ({archives:,} archives)" for text, archives in sorted(described.get("robots", Counter()).items())
    ]
    if robots:
        title = "Behaviour of the crawlers: robots.txt, captchas, paywalls"
        yield SummaryField("crawler_behaviour", title, robots, _how_described(corpora))


def modalities_of(total: CorpusCounts, corpora: Sequence[SummedCorpus]) -> list[str]:
    """Return the modalities that there are."""
    tokens = any(corpus.tokens is not None for corpus in corpora)
    there = {kind for kind, media in total.media.items() if media.rows} | ({"text"} if tokens else set())
    return [modality for modality in MODALITIES if modality in there]


def synthetic_fields(total: CorpusCounts, corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    """Yield the documents that language models wrote, and the models: section 2.5."""
    made = [(run.report.run, generated) for run in runs_of(corpora) for generated in generated_by(run)]
    flag = columns_of(total, "synthetic")
    if made:
        how = "stages of recorded runs that ask a language model, and rows with a value in their columns"
        rows: list[dict[str, Any]] = [
            {
                "run": run,
                "stage": generated.stage,
                "model": generated.model,
                "column": generated.column,
                "documents": total.present[generated.column],
            }
            for run, generated in made
        ]
        yield SummaryField("synthetic_columns", "Columns that language models wrote", rows, how)
        models = sorted({generated.model for _, generated in made if generated.model})
        title = "Models on the market that synthetic data was made with"
        yield SummaryField("synthetic_models", title, models or None, "settings of these stages")
    if not made and not flag:
        how = "records of runs name no stage that asks a language model, and a column `synthetic` is missing"
        known = bool(runs_of(corpora))
        blank = "" if known else "cannot be counted: the outputs have no records of runs"
        yield SummaryField("synthetic_documents", "Synthetic documents", 0 if known else None, how, blank=blank)
        return
    columns = sorted({f"`{generated.column}`" for _, generated in made})
    ways = [flag] * bool(flag) + [f"values in {', '.join(columns)}"] * bool(columns)
    how = f"counted: {' or '.join(ways)}"
    yield SummaryField("synthetic_documents", "Synthetic documents", total.generated, how)
    share = round(total.generated / total.rows, 6) if total.rows else 0.0
    yield SummaryField("synthetic_share", "Share of synthetic documents", share, f"{how}, of {total.rows:,} documents")


def rights_fields(total: CorpusCounts, groups: GroupCounts, corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    """Yield measures for reservations of rights, and what columns say of them: section 3.1."""
    title = "Measures to respect reservations of rights, before and during collection"
    yield _measures("opt_out_measures", title, corpora, rights=True)
    columns = sorted(role for role in total.columns if role.startswith("rights_") or role == "opted_out")
    rows = [
        {"column": column, **row} for column in columns for row in value_rows(groups, column, total.rows, title="value")
    ]
    if rows:
        how = counted_in(total, ", ".join(columns_of(total, column) for column in columns))
        yield SummaryField("rights_columns", "What columns say of rights", rows, how)


def illegal_fields(corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    """Yield measures against illegal content and personal data: section 3.2."""
    yield _measures("illegal_content_measures", "Measures to avoid or remove illegal content", corpora, rights=False)


def _measures(name: str, title: str, corpora: Sequence[SummedCorpus], *, rights: bool) -> SummaryField:
    runs = runs_of(corpora)
    if not runs:
        return SummaryField(name, title, how="the outputs have no records of runs")
    stages = [stage for run in runs for stage in stages_of(run)]
    rows = [row for stage in stages for row in stage.rows(RIGHTS if rights else ILLEGAL)]
    ids = ", ".join(run.report.run for run in runs)
    if not rows:
        return SummaryField(name, title, how=f"no stage of run {ids} is one of them by its name, class or reasons")
    return SummaryField(name, title, rows, f"from the report of run {ids}: stages by name, class and reasons")


def processing_fields(corpora: Sequence[SummedCorpus]) -> Iterator[SummaryField]:
    """Yield what all stages did: section 3.3."""
    for run in runs_of(corpora):
        how = f"from the report of run {run.report.run}"
        rows = [_stage_row(stage) for stage in stages_of(run)]
        yield SummaryField(f"stages_{run.report.run}", f"Stages of the run {run.report.pipeline!r}", rows, how)
    if not runs_of(corpora):
        yield SummaryField("stages", "Stages", how="the outputs have no records of runs", blank="not known")


def _stage_row(stage: StageFacts) -> dict[str, Any]:
    counts = stage.counts
    reasons = [f"{row['reason']}: {row['removed documents']:,}" for row in stage.rows(None)]
    return {
        "stage": counts.name,
        "documents in": counts.rows_in,
        "documents out": counts.rows_out,
        "removed documents": sum(counts.dropped.values()) + sum(counts.faulty.values()),
        "by reason": "; ".join(reasons[:20]),
    }


def removed_fields(removed: CorpusCounts | None, groups: GroupCounts) -> Iterator[SummaryField]:
    """Yield counts over documents that were removed and kept aside."""
    if removed is None:
        how = "runs removed nothing, did not keep it, or it is not there any more; run them with rejected='FOLDER'"
        yield SummaryField("removed_documents", "Documents", how=how, blank=f"cannot be counted: {how}")
        return
    how = f"counted in {many(removed.files, 'file')} of rejected rows and quarantine"
    yield SummaryField("removed_documents", "Documents", removed.rows, how)
    for kind, title in (("stage", "By stage"), ("reason", "By reason"), ("language", "Languages")):
        column = columns_of(removed, kind)
        if column:
            rows = value_rows(groups, kind, removed.rows)
            yield SummaryField(f"removed_by_{kind}", title, rows, counted_in(removed, column))

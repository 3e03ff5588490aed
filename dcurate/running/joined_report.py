"""The report of a run, of those of its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dcurate.core.report import RunReport
from dcurate.core.stage import Stage
from dcurate.events import StageStats


def joined_report(
    reports: Sequence[RunReport], stages: Sequence[Stage], owners: Mapping[str, str], notices: Sequence[str]
) -> RunReport:
    """Join the reports of all rounds of a run to one.

    Args:
        reports: report of each round, in order.
        stages: stages of the pipeline.
        owners: the stage that a person wrote, by the name of a stage that works for it.
        notices: notices of the run, which come before those of stages and rounds.
    """
    stats: dict[str, StageStats] = {stage.name: StageStats(stage.name) for stage in stages}
    for report in reports:
        for stage_stats in report.stages:
            if stage_stats.name in stats:
                stats[stage_stats.name].add(stage_stats)
            elif stage_stats.name in owners:
                stats[owners[stage_stats.name]].add(stage_stats.part())
    remarks = [remark for stage in stages for remark in stage.remarks(stats[stage.name].found)]
    ended = [ended_in(stage, stats[stage.name]) for stage in stages if not stage.declares_columns]
    return replace(
        reports[-1],
        started=reports[0].started,
        seconds=sum(report.seconds for report in reports),
        compile_seconds=sum(report.compile_seconds for report in reports),
        stages=tuple(stats.values()),
        splits=reports[0].splits,
        splits_before=reports[0].splits_before,
        inputs_digest=reports[0].inputs_digest,
        workers=max(report.workers for report in reports),
        notices=(
            *notices,
            *remarks,
            *filter(None, ended),
            *dict.fromkeys(notice for report in reports for notice in report.notices),
        ),
    )


def ended_in(stage: Stage, stats: StageStats) -> str:
    """Return a notice where a user's stage returned no rows at all, and did not say why; empty elsewhere."""
    if not stats.rows_in or stats.dropped != {stage.name: stats.rows_in}:
        return ""
    return (
        f"stage {stage.name!r} returned None or no rows for each batch, and so dropped all rows ({stats.rows_in:,}); "
        "if it should keep some, see whether a 'return' is missing"
    )

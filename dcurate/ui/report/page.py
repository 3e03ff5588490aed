"""A finished run as a self-contained HTML page of some tens of kilobytes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from rich.filesize import decimal

from dcurate.core.redirects import guarded
from dcurate.core.report import RunReport
from dcurate.fs.atomic import atomic_write
from dcurate.runs.history import History
from dcurate.runs.snapshot import kept_share
from dcurate.runs.text import many, seconds_text, used_text
from dcurate.ui.profile_table import share
from dcurate.ui.report.agreement import agreement_rows
from dcurate.ui.report.blocks import PictureCard, ReportData, lasted
from dcurate.ui.report.stages import linked, most_dropped, reasons, score_cards
from dcurate.ui.report.timeline import cost, happenings, measured, most_slots, plots
from dcurate.ui.svg import short
from dcurate.ui.templating import render

#: File name of the page in a directory.
PAGE = "report.html"

_LONGEST = 400


def write_run_page(
    report: RunReport,
    history: History,
    about: Mapping[str, Any],
    path: str,
    storage_options: Mapping[str, Any] | None = None,
    *,
    aside: Sequence[PictureCard] = (),
) -> str:
    """Write the page, whole or not at all, and return its path.

    Args:
        report: report of the run.
        history: history of the run; an empty one leaves out the plots over time.
        about: the manifest of the run, see `dcurate.runs.manifest.provenance`: ``stages`` with their settings,
            ``thresholds``, ``versions``, ``recipe``, ``params``, ``command``, and the ``agreement`` of judges. Missing
            entries are left out.
        path: a file that ends with ``.html``, or a directory, local or as fsspec opens it.
        storage_options: for fsspec.
        aside: files that the run set aside, see `dcurate.ui.report.aside`.

    Raises:
        OSError: it cannot be written.
    """
    target = path if path.endswith((".html", ".htm")) else f"{path.rstrip('/')}/{PAGE}"
    content = run_page(report, history, about, aside).encode()
    store, place = fsspec.core.url_to_fs(target, **guarded(target, storage_options))
    if isinstance(store, LocalFileSystem):
        with atomic_write(place, durable=False) as file:
            file.write(content)
    else:
        store.pipe_file(place, content)
    return target


def run_page(report: RunReport, history: History, about: Mapping[str, Any], aside: Sequence[PictureCard] = ()) -> str:
    """Return the page as text.

    Args:
        aside: files that the run set aside, see `dcurate.ui.report.aside`.
    """
    data = ReportData(report, history, history.snapshot(report.started + report.seconds), about)
    notes, more_notes = happenings(data)
    return render(
        "run.html",
        **overview(data),
        **removed(data),
        about=about,
        begun=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.started)),
        agreement=agreement_rows(about),
        aside=aside,
        lasted=lasted,
        most_slots=most_slots(data),
        measured=measured,
        notes=notes,
        more_notes=more_notes,
        cost=cost(data),
        cut=_cut,
    )


def overview(data: ReportData) -> dict[str, Any]:
    """Values for the templates that a page and a notebook share: cards, funnel and plots over time."""
    return {
        "report": data.report,
        "present": data.present,
        "cards": cards(data),
        "most_dropped": most_dropped(data.report.stages),
        "plots": plots(data),
    }


def removed(data: ReportData, suffix: str = "") -> dict[str, Any]:
    """Values for the templates that say why documents were removed: reasons and scores, linked as `linked` does."""
    cards, more_scores = score_cards(data)
    why, cards = linked(reasons(data.report.stages), cards, suffix)
    return {"reasons": why, "scores": cards, "more_scores": more_scores}


def cards(data: ReportData) -> Iterator[tuple[str, str, str, str]]:
    """The figures at the top of the page: value, name, details and colour."""
    report = data.report
    stages = report.stages
    rows_in, rows_out = (stages[0].rows_in, stages[-1].rows_out) if stages else (0, 0)
    nbytes = stages[0].bytes_in if stages else 0
    seconds = report.working_seconds
    yield f"{rows_in:,}", "documents in", f"{decimal(nbytes)} of input", ""
    yield f"{rows_out:,}", "documents out", _kept(report), ""
    speed = "" if report.splits_before else f"{short(rows_in / seconds)} docs/s, {nbytes / seconds / 1e6:,.1f} MB/s"
    yield seconds_text(report.seconds), "by the clock", speed, ""
    used = sum(stage.seconds for stage in stages)
    threads = sum(host.threads for host in data.present.hosts)
    held = f"{many(threads, 'thread')} held for it" if threads else "over all slots"
    yield seconds_text(used), "in stages' code", held, ""
    if report.cost is not None:
        yield f"{report.cost:,.4g}", "cost of the stages' work", used_text(report), ""
    faulty = sum(sum(stage.faulty.values()) for stage in stages)
    lost = data.present.workers_lost
    more = f"{many(lost, 'worker')} lost" if lost else "no worker was lost" if report.workers else ""
    yield f"{faulty:,}", "could not be processed", more, "bad" if faulty else ""


def _kept(report: RunReport) -> str:
    """The share of documents kept, or how many each became. Of a run that stopped early: of those that stages saw."""
    stages = report.stages
    if not stages or not stages[0].rows_in:
        return ""
    part = (kept_share(stages) or 0.0) if report.error else stages[-1].rows_out / stages[0].rows_in
    of_seen = " of what stages saw" if report.error else ""
    if part > 1:  # stages that make several of one, as clips of films: not a share
        return f"{part:,.3g} for each{of_seen or ' document in'}"
    kept = f"{100 * part:.3g} %" if report.error else share(stages[-1].rows_out, stages[0].rows_in)
    return f"{kept} kept{of_seen}"


def _cut(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

"""A finished run as a page: one file of some tens of kilobytes that needs nothing else, no network either."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from rich.filesize import decimal

from dcurate.core.redirects import guarded
from dcurate.core.report import RunReport
from dcurate.fs.atomic import atomic_write
from dcurate.runs.history import History
from dcurate.runs.text import many, seconds_text
from dcurate.ui.profile_table import share
from dcurate.ui.report.blocks import ReportData, card, pairs, section, table
from dcurate.ui.report.stages import funnel, reasons, scores
from dcurate.ui.report.timeline import cost, happenings, over_time_section, performance
from dcurate.ui.svg import short

#: What the page is called in a directory.
PAGE = "report.html"

_LONGEST = 400


def write_run_page(
    report: RunReport,
    history: History,
    about: Mapping[str, Any],
    path: str,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Write the page, whole or not at all; gives its address.

    Args:
        report: of the run.
        history: of the run; an empty one leaves out the plots over time.
        about: what else is known, as `dcurate.runs.manifest.provenance` gives it: ``stages`` with their settings,
            ``thresholds``, ``versions``, ``recipe``, ``params``, ``command``. What is missing is left out.
        path: a file that ends with ``.html``, or a directory, local or as fsspec opens it.
        storage_options: for fsspec.

    Raises:
        OSError: it cannot be written.
    """
    target = path if path.endswith((".html", ".htm")) else f"{path.rstrip('/')}/{PAGE}"
    content = run_page(report, history, about).encode()
    store, place = fsspec.core.url_to_fs(target, **guarded(target, storage_options))
    if isinstance(store, LocalFileSystem):
        with atomic_write(place, durable=False) as file:
            file.write(content)
    else:
        store.pipe_file(place, content)
    return target


def run_page(report: RunReport, history: History, about: Mapping[str, Any]) -> str:
    """The page as text."""
    data = ReportData(report, history, history.snapshot(report.started + report.seconds), about)
    parts = [
        funnel(data),
        reasons(data),
        scores(data),
        over_time_section(data),
        performance(data),
        happenings(data),
        _what_ran(data),
        _where(data),
    ]
    room = files("dcurate.ui")
    style = "".join(room.joinpath(name).read_text("utf-8") for name in ("profile.css", "report.css"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(report.pipeline)}: run {escape(report.run)}</title>\n<style>{style}</style></head>\n"
        f"<body><main>{_header(data)}{''.join(parts)}</main></body></html>\n"
    )


def _header(data: ReportData) -> str:
    report = data.report
    status = "stopped early" if report.error else "finished"
    begun = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.started))
    resumed = (
        f", {report.splits_before:,} of {report.splits:,} splits by an earlier run" if report.splits_before else ""
    )
    workers = f" on {many(report.workers, 'worker')}" if report.workers else ""
    about = escape(str(data.about.get("description") or "").rstrip(". "))
    banners = [("error", report.error), *(("notice", notice) for notice in report.notices)]
    told_first = "".join(f'<p class="banner {kind}">{escape(text)}</p>' for kind, text in banners if text)
    return (
        f'<header><p class="kind">run <span class="status {status.partition(" ")[0]}">{status}</span></p>'
        f"<h1>{escape(report.pipeline)}</h1>"
        f'<p class="note">{about + ". " if about else ""}Run <code>{escape(report.run)}</code>, {escape(report.mode)}'
        f"{workers}, begun {begun}{resumed}.</p>{told_first}"
        f'<div class="cards">{"".join(cards(data))}</div></header>'
    )


def cards(data: ReportData) -> Iterable[str]:
    """The figures at the head of the page."""
    report = data.report
    stages = report.stages
    rows_in, rows_out = (stages[0].rows_in, stages[-1].rows_out) if stages else (0, 0)
    nbytes = stages[0].bytes_in if stages else 0
    seconds = max(report.seconds, 1e-6)
    yield card(f"{rows_in:,}", "documents in", f"{decimal(nbytes)} of input")
    yield card(f"{rows_out:,}", "documents out", f"{share(rows_out, rows_in)} kept" if rows_in else "")
    speed = "" if report.splits_before else f"{short(rows_in / seconds)} docs/s, {nbytes / seconds / 1e6:,.1f} MB/s"
    yield card(seconds_text(report.seconds), "by the clock", speed)
    used = sum(stage.seconds for stage in stages)
    threads = sum(host.threads for host in data.present.hosts)
    held = f"{many(threads, 'thread')} held for it" if threads else "over all slots"
    yield card(seconds_text(used), "in stages' code", held)
    faulty = sum(sum(stage.faulty.values()) for stage in stages)
    lost = data.present.workers_lost
    more = f"{many(lost, 'worker')} lost" if lost else "no worker was lost" if report.workers else ""
    yield card(f"{faulty:,}", "could not be processed", more, "bad" if faulty else "")


def _what_ran(data: ReportData) -> str:
    about = data.about
    rows = [
        (
            escape(str(one["name"])),
            escape(str(one.get("kind", ""))),
            escape(str(one.get("needs", ""))),
            _settings(one.get("settings", {})),
        )
        for one in about.get("stages", ())
    ]
    recipe = pairs(
        [
            ("recipe", _code(about.get("recipe", ""))),
            *((str(name), _code(value)) for name, value in about.get("params", {}).items() if name != "sample"),
            ("command", _code(about.get("command", ""))),
        ]
    )
    content = recipe + table(("stage", "class", "a slot needs", "settings"), rows, "settings")
    return section("what", "What ran", content)


def _settings(settings: Mapping[str, Any]) -> str:
    return " ".join(f"<span>{escape(name)}={escape(_cut(str(value)))}</span>" for name, value in settings.items())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _code(value: Any) -> str:
    text = _cut(str(value))
    return f"<code>{escape(text)}</code>" if text else ""


def _where(data: ReportData) -> str:
    """Machines and versions, input and output, cost, and how to go on or do it again."""
    report, about = data.report, data.about
    last = report.stages[-1] if report.stages else None
    written = f"{many(report.files, 'file')}, {decimal(last.bytes_out)}" if last and report.files else ""
    places = pairs(
        [
            ("input", "<br>".join(_code(path) for path in about.get("inputs", ())[:5])),
            ("splits", f"{report.splits:,}, {decimal(report.stages[0].bytes_in) if report.stages else ''}"),
            ("input digest", _code(report.inputs_digest)),
            ("output", f"{_code(report.output_path or '')} {written}" if report.output_path else ""),
            ("output digest", _code(report.outputs_digest)),
            ("rejected", _code(report.rejected_path or "")),
            ("quarantine", _code(report.quarantine_path or "")),
        ]
    )
    versions = pairs((name, _code(version)) for name, version in about.get("versions", {}).items())
    machines = pairs([*_machines(data), *((name, escape(text)) for name, text in cost(data))])
    again = "".join(
        f'<p class="note">{escape(words)}</p><pre>{escape(str(about[key]))}</pre>'
        for key, words in (("resume", "To go on where it stopped:"), ("reproduce", "To do the same again:"))
        if about.get(key)
    )
    cards = [("input and output", places), ("machines and cost", machines), ("versions", versions)]
    articles = "".join(f"<article><h3>{title}</h3>{content}</article>" for title, content in cards if content)
    return section("where", "Where, with what, and how to do it again", f'<div class="grid">{articles}</div>{again}')


def _machines(data: ReportData) -> Iterable[tuple[str, str]]:
    for host in data.present.hosts:
        cards = "".join(f", {escape(gpu.name)} ({decimal(gpu.memory_total)})" for gpu in host.gpus)
        size = f"{many(host.workers, 'worker')}, {many(host.threads, 'thread')}, {decimal(host.memory_limit)}{cards}"
        yield host.host, size
    if not data.present.hosts and data.about.get("machine"):
        yield "this machine", escape(str(data.about["machine"]))

"""The text parts of the page as HTML by name. A part may contain others; the browser fills them in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from dcurate.runs.snapshot import RunSnapshot
from dcurate.runs.text import many
from dcurate.ui.dashboard.text import count, nbytes, percent, short, spent
from dcurate.ui.dashboard.view_model import RunPanel
from dcurate.ui.svg import DROPPED

#: Parts by name; outer ones come before those within them.
Parts = dict[str, str]

_EMPTY = (
    '<section class="empty"><h1>No run yet</h1><p>This page shows pipelines as they run on this scheduler. '
    "It need not be reloaded: start one, and it appears here.</p>"
    "<pre>from dcurate import DaskExecutor, JsonlReader, JsonlWriter, Pipeline\n\n"
    'pipeline = Pipeline("first", stages=[JsonlReader("input/"), JsonlWriter("output/")])\n'
    "pipeline.run(DaskExecutor(cluster=cluster))  # your LocalCluster or Client</pre></section>"
)
_UNKNOWN = (
    '<section class="empty"><h1>Run {run} is not known here</h1><p>It has not begun, ran on another scheduler, or many '
    'have run since: the newest ones are kept. <a href="curation"><u>Show the newest run</u></a>.</p></section>'
)


def slot(name: str, tag: str = "span", style: str = "") -> str:
    """The placeholder of a part within another part."""
    return f'<{tag} data-part="{escape(name)}" class="{style}"></{tag}>'


def shown_state(view: RunPanel | None, asked: str) -> Parts:
    """The visible half of the page: a run, or help if there is none."""
    if view is not None:
        return {"state": view.state, "empty": ""}
    unknown = _UNKNOWN.format(run=escape(asked))
    return {"state": "empty", "empty": unknown if asked else _EMPTY}


def runs(snapshots: Sequence[tuple[RunSnapshot, str]], chosen: str, page: str) -> Parts:
    """The list of runs, newest first.

    Args:
        snapshots: snapshot and state of each run, newest last.
        chosen: id of the run that is shown.
        page: the page's own address, without a folder: links are relative, so that they hold behind any proxy.
    """
    newest_first = snapshots[::-1]
    links = (
        f'<a class="run{" chosen" if snapshot.run == chosen else ""}" href="{page}?run={quote(snapshot.run, safe="")}">'
        f"{slot(f'run {snapshot.run}', 'div')}</a>"
        for snapshot, _ in newest_first
    )
    parts = {"runs": "".join(links) or '<p class="note">none yet</p>'}
    for snapshot, state in newest_first:
        took = spent(snapshot.elapsed)
        rate = "" if snapshot.ended is None else f"{short(snapshot.rows_in / snapshot.working)}/s"
        begun = time.strftime("%b %d, %H:%M", time.localtime(snapshot.started))
        output = _small(_end(snapshot.output), snapshot.output)
        parts[f"run {snapshot.run}"] = (
            f'<b><i class="dot {state.replace(" ", "-")}"></i>{escape(snapshot.pipeline)}</b>'
            f"<span>{count(snapshot.rows_in)} docs<em>{rate}</em></span>"
            f"<span>{state}<em>{took}</em></span>"
            f"<span>begun<em>{begun}</em></span>{_small(snapshot.owner)}{output}"
        )
    return parts


def _small(text: str, title: str = "") -> str:
    """A line of small text, with the text that is shown when it is pointed at; nothing for an empty one."""
    return f'<small title="{escape(title or text)}">{escape(text)}</small>' if text else ""


def _end(path: str) -> str:
    """The end of a path, by which two of them differ most.

    Examples:
        >>> _end("s3://bucket/corpora/2026-30/clean"), _end("out")
        ('…/2026-30/clean', 'out')
    """
    parts = path.rstrip("/").split("/")
    return path if len(parts) < 4 else f"…/{'/'.join(parts[-2:])}"


def headline(view: RunPanel) -> Parts:
    """Title, state and cards."""
    now = view.now
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now.started))
    output = f", writes to {escape(now.output)}" if now.output else ""
    owner = f" of {escape(now.owner)}" if now.owner else ""
    phase = f", phase {now.phase + 1}" if view.phases > 1 and view.goes_on else ""
    splits = f"{count(now.splits_before + now.splits_done)}"
    of = f" of {count(now.splits)}" if now.splits is not None else ""
    cards = [
        ("rows-in", "documents read", count(now.rows_in), f"{short(view.rate_in)} docs/s"),
        ("rows-out", "documents out", count(now.rows_out), f"{short(view.rate_out)} docs/s"),
        ("kept", "kept", percent(view.kept), f"{splits}{of} splits"),
        ("bytes-in", "input", nbytes(now.bytes_in), f"{nbytes(view.bytes_rate)}/s"),
        _time_card(view),
        _error_card(view),
    ]
    return {
        "title": escape(now.pipeline),
        "pill": f'<i class="dot {view.state.replace(" ", "-")}"></i>{view.state}{phase}',
        "about": f"{escape(now.mode)}, run {escape(now.run)}{owner}, begun {began}{output}",
        "error": f"<p>{escape(now.error)}</p>" if now.error else "",
        "cards": "".join(
            f'<div class="card"><span>{name}</span><b>{slot(f"card {at}")}</b><small>{slot(f"more {at}")}</small></div>'
            for at, name, _, _ in cards
        ),
        **{f"card {at}": value for at, _, value, _ in cards},
        **{f"more {at}": more for at, _, _, more in cards},
    }


def _time_card(view: RunPanel) -> tuple[str, str, str, str]:
    took = f"{spent(view.now.elapsed)} so far"
    done = f", {int(100 * view.now.share)} % done" if view.now.splits else ""
    if not view.goes_on:
        return "time", "time", spent(view.now.elapsed), "from start to end"
    if view.state == "silent":
        return "time", "last message", f"{spent(max(0.0, time.time() - view.now.time))} ago", took
    return "time", "left", spent(view.left), took + done


def _error_card(view: RunPanel) -> tuple[str, str, str, str]:
    lost = view.now.workers_lost
    more = f"{many(lost, 'worker')} lost" if lost else "no worker lost"
    return "errors", "in quarantine", count(view.faulty), more


def notes_beside(view: RunPanel) -> Parts:
    """The text beside the headings of plots."""
    now = view.now
    slots = sum(operator.figures.slots for operator in view.operators)
    held = f"{nbytes(now.held_bytes)} of {nbytes(now.budget_bytes)}" if now.budget_bytes else ""
    memory, limit = sum(host.memory for host in now.hosts), sum(host.memory_limit for host in now.hosts)
    return {
        "beside throughput": f"{short(view.rate_in)} docs/s, {nbytes(view.bytes_rate)}/s",
        "beside slots": many(slots, "slot") if view.goes_on else "",
        "beside queues": held,
        "beside memory": (f"{nbytes(memory)} of {nbytes(limit)}" if limit else "") + _on_gpus(view),
    }


def _on_gpus(view: RunPanel) -> str:
    gpus = [gpu for host in view.now.hosts for gpu in host.gpus]
    used, total = sum(gpu.memory for gpu in gpus), sum(gpu.memory_total for gpu in gpus)
    return f", {key(DROPPED)}GPUs {nbytes(used)} of {nbytes(total)}" if gpus else ""


def key(colour: str) -> str:
    """A colour sample, for a legend."""
    return f'<i class="key" style="--colour:{colour}"></i>'


def colours(view: RunPanel) -> Parts:
    """The legend of operators."""
    names = "".join(
        f'<li style="--colour:{operator.colour}"><i></i>{escape(operator.figures.title)}</li>'
        for operator in view.operators
    )
    return {"legend": names}

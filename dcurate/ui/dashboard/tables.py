"""The tables of the page: dropped documents by reason, notes, and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from dcurate.events import GpuSample, HostSample
from dcurate.runs.snapshot import Note
from dcurate.runs.text import many
from dcurate.ui.dashboard.html_blocks import Parts
from dcurate.ui.dashboard.text import bar, clock, count, nbytes, percent
from dcurate.ui.dashboard.view_model import RunPanel

#: The most rows of a table that are shown.
ROWS = 12
#: Notes that are shown, the newest of all.
NOTES = 40
#: Share of the limit from which the memory of a host or worker is marked.
NEARLY_FULL = 0.8

_KINDS = {
    "decision": "balance",
    "lost": "worker lost",
    "left": "worker left",
    "recycled": "worker restarted",
    "hung": "call ended",
    "waits": "run waited",
    "copied": "call copied",
    "error": "error",
}


def dropped(view: RunPanel) -> Parts:
    """Dropped and quarantined documents by stage and reason, most frequent first."""
    rows_in = max(view.now.rows_in, 1)
    return {
        "dropped": _reasons(((stage.name, stage.dropped) for stage in view.now.stages), rows_in, "none so far"),
        "quarantine": _reasons(((stage.name, stage.faulty) for stage in view.now.stages), rows_in, "none"),
    }


def _reasons(stages: Iterable[tuple[str, Mapping[str, int]]], rows_in: int, none: str) -> str:
    removals = [(rows, name, reason) for name, reasons in stages for reason, rows in reasons.items() if rows]
    if not removals:
        return f'<p class="note">{none}</p>'
    removals.sort(key=lambda removal: (-removal[0], removal[1:]))
    most = removals[0][0]
    lines = [
        f"<tr><th>{escape(name)}{f'<small>{escape(reason)}</small>' if reason != name else ''}</th>"
        f"<td>{count(rows)}</td><td>{percent(min(1.0, rows / rows_in))}</td><td>{bar(rows / most, 'drop')}</td></tr>"
        for rows, name, reason in removals[:ROWS]
    ]
    remaining = removals[ROWS:]
    if remaining:
        rows = sum(removal[0] for removal in remaining)
        more = many(len(remaining), "more reason")
        lines.append(f'<tr class="rest"><th>{more}</th><td>{count(rows)}</td><td></td><td></td></tr>')
    return f"<table>{''.join(lines)}</table>"


def notes(view: RunPanel, kept: Sequence[Note]) -> Parts:
    """The notes of a run, newest first."""
    newest = sorted({*kept, *view.now.latest}, key=lambda note: note.time)[: -NOTES - 1 : -1]
    lines = (
        f'<tr class="{escape(note.kind)}"><td>{clock(max(0.0, note.time - view.now.started))}</td>'
        f"<td>{_KINDS.get(note.kind, escape(note.kind))}</td><th>{_with_arrow(note.text)}</th></tr>"
        for note in newest
    )
    table = f"<table>{''.join(lines)}</table>" if newest else '<p class="note">nothing so far</p>'
    more = f"the newest {len(newest)} of {count(view.now.notes)}" if view.now.notes > len(newest) else ""
    return {"notes": table, "beside notes": more}


def _with_arrow(text: str) -> str:
    """A note as HTML, with a change of slots on one line.

    Examples:
        >>> _with_arrow("read 1 -> 2 slots: <reason>")
        'read 1&nbsp;→&nbsp;2 slots: &lt;reason&gt;'
    """
    return escape(text).replace(" -&gt; ", "&nbsp;→&nbsp;")


def hosts(found: Sequence[HostSample]) -> Parts:
    """Machines, and the GPUs on them."""
    if not found:
        return {"hosts": '<p class="note">no report yet</p>', "beside hosts": ""}
    lines = "".join(_host(host) for host in sorted(found, key=lambda host: host.host))
    return {"hosts": f"<table>{lines}</table>", "beside hosts": many(len(found), "host")}


def _host(host: HostSample) -> str:
    spilled = f", {nbytes(host.spilled)} spilled" if host.spilled else ""
    full = host.memory / host.memory_limit if host.memory_limit else 0.0
    processes = f"{many(host.workers, 'worker')}, {many(host.threads, 'thread')}{spilled}"
    return (
        f"<tr><th>{escape(host.host)}<small>{processes}</small></th>"
        f"<td>{host.cpu:.1f} CPUs{bar(host.cpu / max(host.threads, 1))}</td>"
        f"<td>{nbytes(host.memory)}{bar(full, 'drop' if full > NEARLY_FULL else '')}</td></tr>"
        f"{''.join(map(_gpu, host.gpus))}"
    )


def _gpu(gpu: GpuSample) -> str:
    full = gpu.memory / gpu.memory_total if gpu.memory_total else 0.0
    return (
        f'<tr class="gpu"><th>GPU {escape(gpu.name)}</th><td>{percent(min(1.0, gpu.busy))} busy{bar(gpu.busy)}</td>'
        f"<td>{nbytes(gpu.memory)}{bar(full)}</td></tr>"
    )

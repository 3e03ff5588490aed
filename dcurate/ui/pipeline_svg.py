"""A pipeline as a picture: its operators one after the other, their stages, and the columns that flow."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from dcurate.core.stage import SinkStage, SourceStage, Stage
from dcurate.errors import without_secrets
from dcurate.plan.operators import Operator, Plan


def picture(name: str, description: str | None, plan: Plan) -> str:
    """The plan of a pipeline as HTML, for a notebook.

    Examples:
        >>> from dcurate import Pipeline, ScoreFilter, WordCountFilter
        >>> "word_count" in Pipeline("demo", stages=[ScoreFilter(WordCountFilter())])._repr_html_()
        True
    """
    about = f" <span class='muted'>{escape(description)}</span>" if description else ""
    parts = [f"{_style()}<div class='dcurate-plan'><div style='margin:0 0 8px'><b>{escape(name)}</b>{about}</div>"]
    columns: list[str] | None = None
    for number, operator in enumerate(plan.operators):
        drawn, columns, new = _operator(operator, columns)
        parts.append(drawn)
        if number < len(plan.operators) - 1:
            parts.append(f"<div class='flow'>{_columns(columns, new)}</div>")
    return "".join(parts) + "</div>"


def _style() -> str:
    return f"<style>{files('dcurate.ui').joinpath('pipeline_svg.css').read_text('utf-8')}</style>"


def _operator(operator: Operator, columns: list[str] | None) -> tuple[str, list[str] | None, set[str]]:
    """An operator drawn, the columns behind it, and those of them that it adds."""
    tasks = "one task a batch" if len(operator.parts) > 1 else ""
    if operator.is_barrier:
        tasks = "sees every row before it passes any on"
    head = f"<div class='head'><span>{escape(tasks)}</span><span>{escape(str(operator.resources))} a slot</span></div>"
    drawn, new = [], set()
    for stage in operator.parts:
        added = [name for name in stage.outputs()[1] if columns is None or name not in columns]
        drawn.append(_stage(stage, added))
        if isinstance(stage, SourceStage):
            columns = stage.columns()
        elif not isinstance(stage, SinkStage):
            new.update(added)
            columns = None if columns is None else [*columns, *added]
    return f"<div class='op'>{head}{''.join(drawn)}</div>", columns, new


def _stage(stage: Stage, added: Sequence[str]) -> str:
    notes = [f"<b>{escape(stage.name)}</b>", f"<span class='muted'>{escape(type(stage).__name__)}</span>"]
    if isinstance(stage, SourceStage):
        known = stage.columns()
        return _line(
            [*notes, _said("yields", known) if known else "<span class='muted'>columns known when it runs</span>"]
        )
    if isinstance(stage, SinkStage):
        return _line(
            [*notes, f"<span class='muted'>writes to</span> <code>{escape(without_secrets(stage.output_path))}</code>"]
        )
    changed = [name for name in stage.outputs()[1] if name not in added]
    read = [name for name in stage.inputs()[1] if name not in changed]
    parts = (_said("reads", read), _said("rewrites", changed), _said("adds", added, "new"))
    return _line([*notes, *filter(None, parts)])


def _line(notes: Sequence[str]) -> str:
    return f"<div class='stage'>{' '.join(notes)}</div>"


def _said(what: str, columns: Sequence[str], kind: str = "") -> str:
    return f"<span class='muted'>{what}</span> {_chips(columns, kind)}" if columns else ""


def _columns(columns: Sequence[str] | None, new: set[str]) -> str:
    if columns is None:
        return "<span class='muted'>" + ("… and " + ", ".join(map(escape, sorted(new))) if new else "") + "</span>"
    return "".join(f"<span class='column{' new' if name in new else ''}'>{escape(name)}</span>" for name in columns)


def _chips(names: Sequence[str], kind: str = "") -> str:
    return " ".join(f"<span class='column {kind}'>{escape(name)}</span>" for name in names)

"""A pipeline as a picture: its operators one after the other, their stages, and the columns that flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dcurate.core.stage import SinkStage, SourceStage, Stage
from dcurate.plan.operators import Operator, Plan, columns_after
from dcurate.redaction import without_secrets
from dcurate.ui.templating import render


def picture(name: str, description: str | None, plan: Plan) -> str:
    """Draw the plan of a pipeline as HTML, for a notebook.

    Examples:
        >>> from dcurate import Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> "word_count" in Pipeline("demo", stages=[ScoreFilter(WordCountFilter())])._repr_html_()
        True
    """
    operators: list[dict[str, Any]] = []
    columns: list[str] | None = None
    for operator in plan.operators:
        operators.append(_operator(operator, columns))
        columns = operators[-1]["columns"]
    return render("pipeline.html", name=name, description=description, operators=operators)


def _operator(operator: Operator, columns: list[str] | None) -> dict[str, Any]:
    """An operator: its stages, the ``columns`` that it passes on, and which of them are ``new``."""
    stages, new = [], set()
    for stage in operator.parts:
        added = [name for name in stage.outputs()[1] if columns is None or name not in columns]
        stages.append(_stage(stage, added))
        if not isinstance(stage, SourceStage):
            new.update(added)
        columns = columns_after(columns, stage)
    if columns is not None:
        new &= set(columns)
    note = "one task a batch" if len(operator.parts) > 1 else ""
    if operator.is_barrier:
        note = "sees every row before it passes any on"
    return {"note": note, "resources": operator.resources, "stages": stages, "columns": columns, "new": sorted(new)}


def _stage(stage: Stage, added: Sequence[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": stage.name, "kind": type(stage).__name__, "output": "", "columns": []}
    if isinstance(stage, SourceStage):
        known = stage.columns()
        return shown | {"columns": [("yields", known, "") if known else ("columns known when it runs", None, "")]}
    if isinstance(stage, SinkStage):
        return shown | {"output": without_secrets(stage.output_path)}
    changed = [name for name in stage.outputs()[1] if name not in added]
    read = [name for name in stage.inputs()[1] if name not in changed]
    return shown | {
        "columns": [
            ("reads", read, ""),
            ("rewrites", changed, ""),
            ("adds", added, "new"),
            ("drops", stage.dropped_columns(), ""),
        ]
    }

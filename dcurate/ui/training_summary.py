"""A summary of training content as a self-contained page."""

from __future__ import annotations

from typing import Any

from dcurate.runs.summary.fields import TEMPLATE, SummaryField
from dcurate.runs.summary.summary import TrainingSummary, table_of, text_of
from dcurate.ui.templating import render

#: Fields that are shown as cards at the top, where they are there.
_CARDS = ("text_documents", "text_tokens", "image_documents", "audio_hours", "video_hours", "domains_in_all")


def summary_page(summary: TrainingSummary) -> str:
    """Return the page as text; all that comes from data is escaped."""
    cards = [field for name in _CARDS if (field := summary.field(name)) is not None and field.value is not None]
    return render(
        "training_summary.html",
        summary=summary,
        template=TEMPLATE,
        cards=[(text_of(field.value), field.title, "estimate" if field.estimate else "") for field in cards],
        values=_values,
        shown_blank=_blank,
        table_of=table_of,
        text_of=text_of,
    )


def _values(field: SummaryField) -> list[tuple[str, Any]]:
    """What a field says: its kind, ``"table"``, ``"list"`` or ``"text"``, and the value; first what is stated."""
    shown: list[tuple[str, Any]] = []
    for value in (field.stated, field.value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            shown.append(("table", value))
        elif isinstance(value, list):
            shown.append(("list", value or ["none"]))
        elif value is not None:
            shown.append(("text", value))
    return shown


def _blank(field: SummaryField) -> str:
    """What is to be filled in, without the title, which is above it."""
    about, colon, _ = field.blank.partition(": ")
    return (
        f"{about}{': ' if field.how else ''}{field.how}" if colon and field.blank.startswith("to be") else field.blank
    )

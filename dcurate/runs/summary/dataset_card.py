"""The card of training data, from its summary and the reports of its runs."""

from __future__ import annotations

import re
from typing import Any

import yaml

from dcurate.runs.publish.card import BEGIN, END, cell, run_section, size_category
from dcurate.runs.summary.summary import TrainingSummary, text_of

_LANGUAGE = re.compile(r"[a-z]{2,3}")
#: Languages at the top of a card.
_LANGUAGES = 50


def dataset_card(summary: TrainingSummary) -> str:
    """Return the text of ``README.md``: YAML for the Hugging Face Hub, what was counted, and what the runs did.

    Examples:
        >>> print(dataset_card(TrainingSummary((), ("out",))).splitlines()[0])
        ---
    """
    name = summary.stated("dataset_name") or "Training data"
    head = yaml.safe_dump(_about(summary), sort_keys=False, allow_unicode=True)
    parts = [
        f"---\n{head}---",
        f"# {cell(name)}",
        *([cell(summary.stated("dataset_description"))] if summary.stated("dataset_description") else []),
        f"{BEGIN}\n## What it holds\n\n{_table(summary)}",
        *(run_section(run) for run in summary.runs),
    ]
    return "\n\n".join(parts) + f"\n{END}\n"


def _about(summary: TrainingSummary) -> dict[str, Any]:
    about: dict[str, Any] = {"tags": ["dcurate"]}
    licence = summary.stated("dataset_licence")
    if licence:
        about["license"] = licence.lower()
    languages = summary.field("languages")
    if languages is not None and languages.value:
        codes = [row["language"].lower() for row in languages.value[:_LANGUAGES]]
        about["language"] = sorted({code for code in codes if _LANGUAGE.fullmatch(code)})
    rows = [_number(summary, f"{kind}_documents") for kind in ("text", "image", "audio", "video", "other")]
    if sum(rows):
        about["size_categories"] = [size_category(sum(rows))]
    return about


def _number(summary: TrainingSummary, name: str) -> int:
    field = summary.field(name)
    return field.value if field is not None and isinstance(field.value, int) else 0


def _table(summary: TrainingSummary) -> str:
    """The numbers of the summary, each with how it was obtained."""
    lines = ["| | | how |", "|---|---:|---|"]
    for section in summary.sections:
        for field in section.fields:
            if isinstance(field.value, int | float | str) and not isinstance(field.value, bool):
                lines.append(f"| {cell(field.title)} | {cell(text_of(field.value))} | {cell(field.how)} |")
    return "\n".join(lines)

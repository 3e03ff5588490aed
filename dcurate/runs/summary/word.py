"""The summary as a document of Word (DOCX)."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any

from dcurate.core.extras import needed
from dcurate.fs.atomic import atomic_write
from dcurate.fs.errors import storage_errors
from dcurate.runs.summary.fields import TEMPLATE, SummaryField
from dcurate.runs.summary.summary import TrainingSummary, table_of, text_of

#: Characters that XML cannot hold.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff￾￿]")


def write_docx(summary: TrainingSummary, path: str | Path) -> None:
    """Write a summary as a document of Word, whole or not at all.

    Raises:
        ResourceError: ``python-docx`` is not installed.
        DataError: the file cannot be written.
    """
    document = needed("docx", "a summary as DOCX", "summary").Document()
    document.add_heading("Public summary of training content", 0)
    document.add_paragraph(TEMPLATE)
    for section in summary.sections:
        document.add_heading(f"{section.number} {section.title}", 1)
        for field in section.fields:
            document.add_heading(_xml(field.title), 2)
            _add_field(document, field)
    content = BytesIO()
    document.save(content)
    with storage_errors("write", str(path)), atomic_write(path, durable=False) as file:
        file.write(content.getvalue())


def _add_field(document: Any, field: SummaryField) -> None:
    for value in (field.stated, field.value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            _add_table(document, value)
        elif isinstance(value, list):
            for text in value:
                document.add_paragraph(_xml(text_of(text)), "List Bullet")
        elif value is not None:
            document.add_paragraph(_xml(text_of(value)))
    if field.value == [] and field.stated is None:
        document.add_paragraph("none")
    for note in (field.blank, f"{'Estimate. ' * field.estimate}{field.how}"):
        if note and not (field.blank and note != field.blank):
            document.add_paragraph().add_run(_xml(note)).italic = True


def _add_table(document: Any, rows: list[dict[str, Any]]) -> None:
    heads, cells = table_of(rows)
    table = document.add_table(rows=0, cols=len(heads), style="Light Grid Accent 1")
    for texts in (heads, *cells):
        # `table.add_row().cells` takes time that grows with the table.
        for cell, text in zip(table.add_row()._tr.tc_lst, texts, strict=True):
            cell.p_lst[0].add_r().text = _xml(text)


def _xml(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)

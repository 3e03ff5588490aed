"""Record a run beside its output: the report as JSON, as text and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from dcurate.core.report import RunReport
from dcurate.fs.stores import META_DIR, Directory
from dcurate.runs.history import History
from dcurate.ui.report.aside import files_set_aside
from dcurate.ui.report.page import PAGE, run_page
from dcurate.ui.table import report_text


def record(report: RunReport, history: History, about: Mapping[str, Any], output: Directory) -> None:
    """Write ``report.json``, ``report.txt``, ``history.json`` and ``report.html``, each whole or not at all.

    Args:
        about: the run's manifest, as `dcurate.runs.manifest.provenance` gives it.
        output: the files go to its records, ``<output>.dcurate``.

    Raises:
        DataError: they cannot be written.
    """
    for name, content in record_files(report, history, about, output.options).items():
        output.write(name, content)


def record_files(
    report: RunReport, history: History, about: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> dict[str, bytes]:
    """Return the files that `record` writes, by name.

    Args:
        options: fsspec's ``storage_options`` of the output.
    """
    aside = files_set_aside(report, about, options or {})
    files = {
        "report.json": orjson.dumps({**report.to_dict(), "about": dict(about)}, option=_READABLE) + b"\n",
        "report.txt": report_text(report).encode(),
        "history.json": orjson.dumps(history.to_dict()) + b"\n",
        PAGE: run_page(report, history, about, aside).encode(),
    }
    return {f"{META_DIR}/{name}": content for name, content in files.items()}


_READABLE = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS

"""The text of pages with mathematics: HTML by the lynx browser, notebooks, plain text."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dcurate.compat.nemo.rows import records, with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.download.extract import DocumentExtractor, Skipped
from dcurate.text.extract.charset import decoded


def _types(kind: str, names: str) -> set[str]:
    return {f"{kind}/{name}" for name in names.split()}


#: MIME types that servers give text and HTML, and that libmagic gives them.
TEXT_MIME_TYPES = (
    _types("application", "mathematica mbox postscript x-elc x-matlab-data x-sas x-sh x-subrip x-tex x-tika-msoffice")
    | _types("message", "news rfc822")
    | _types("text", "plain troff vtt x-assembly x-basic x-c++src x-cgi x-chdr x-common-lisp x-csrc x-diff x-expect")
    | _types("text", "x-fortran x-haskell x-log x-matlab x-ml x-objcsrc x-pascal x-perl x-python x-rsrc x-rst x-ruby")
    | _types("text", "x-verilog x-web-markdown")
)
HTML_MIME_TYPES = (
    _types("application", "atom+xml rdf+xml rss+xml x-bibtex-text-file xhtml+xml xml")
    | _types("text", "asp html x-coldfusion x-jsp x-php")
    | {"image/svg+xml", "message/x-emlx"}
)
TEXT_MAGIC_TYPES = (
    _types("application", "postscript x-matlab-data")
    | _types("message", "news rfc822")
    | _types("text", "plain texmacs x-Algol68 x-diff x-fortran x-java x-lisp x-perl x-shellscript")
)
HTML_MAGIC_TYPES = (
    _types("application", "octet-stream x-appleworks3 x-bytecode.python x-setupscript x-wine-extension-ini")
    | _types("text", "csv html x-c x-c++ x-forth x-objective-c x-php x-ruby x-script.python x-tex xml")
    | {"image/svg+xml"}
)

_LYNX = "lynx -dump -stdin -nolist -width=10000 -assume_charset=utf-8 -display_charset=utf-8 -localhost -force_html"
_MARKUP = re.compile(rb"\s*+(?:<!--.*?-->\s*+)?<(?:!doctype\s+html|html|head|body|title|script|table)\b", re.I | re.S)
_CELLS = ("code", "markdown", "raw")


class LynxExtractor:
    """The text of HTML as the browser lynx shows it.

    Args:
        timeout_sec: for one page.

    Raises:
        RuntimeError: lynx is not installed.
    """

    def __init__(self, timeout_sec: int = 20) -> None:
        if not shutil.which("lynx"):
            raise RuntimeError("lynx executable not found in PATH: install the package lynx on every host")
        self.timeout_sec = timeout_sec

    def extract_text(self, html: str) -> str:
        """The text; empty if lynx fails."""
        if not html:
            return ""
        page = html.encode("utf-8", "replace")
        try:
            done = subprocess.run(_LYNX.split(), input=page, capture_output=True, check=False, timeout=self.timeout_sec)
        except (subprocess.SubprocessError, OSError, UnicodeError):
            return ""
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


@dataclass
class MathContentExtractor(DocumentExtractor):
    """Make text of a page: HTML with lynx, the cells of a notebook, and other text as it is.

    Args:
        binary_column: with the bytes of the page.
        url_column: with its address.
        mime_type_column: with the MIME type that the server gave.
        lynx_timeout_sec: for one page.
    """

    binary_column: str = "binary_content"
    url_column: str = "url"
    mime_type_column: str = "mime_type"
    lynx_timeout_sec: int = 20

    _lynx: LynxExtractor | None = field(default=None, init=False, repr=False, compare=False)

    def input_columns(self) -> list[str]:
        return [self.binary_column, self.url_column, self.mime_type_column]

    def output_columns(self) -> list[str]:
        return ["text", self.url_column, "type", "magic_mime_type"]

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """The row of a page; None if it has no text."""
        page = record.get(self.binary_column)
        content = decoded(bytes(page)) if isinstance(page, bytes | bytearray) and page else ""
        if not content:
            return None
        url = record.get(self.url_column)
        mime_type = magic_type(bytes(page))  # type: ignore[arg-type]
        notebook = _notebook(content) if mime_type == "application/json" or str(url).endswith(".ipynb") else None
        if notebook is not None:
            kind, text = "notebook", notebook
        elif _is_text(mime_type, record.get(self.mime_type_column)):
            kind, text = "text", content
        else:
            self._lynx = self._lynx or LynxExtractor(self.lynx_timeout_sec)
            kind, text = "html", self._lynx.extract_text(content)
        return {"text": text, self.url_column: url, "type": kind, "magic_mime_type": mime_type}


def magic_type(page: bytes) -> str | None:
    """The MIME type that libmagic finds; without the package python-magic, whether bytes are HTML, JSON or text.

    Examples:
        >>> magic_type(b"Just text."), magic_type(b"<!DOCTYPE html><p>")
        ('text/plain', 'text/html')
    """
    try:
        return str(importlib.import_module("magic").from_buffer(page, mime=True))
    except ImportError:
        return _plain_type(page)
    except Exception:  # libmagic does not know
        return None


def _plain_type(page: bytes) -> str:
    if _MARKUP.match(page):
        return "text/html"
    try:
        text = page.decode("utf-8")
    except UnicodeDecodeError:
        return "application/octet-stream" if b"\0" in page else "text/plain"
    return "text/plain" if _parsed(text) is None else "application/json"


def _is_text(magic: str | None, mime: Any) -> bool:
    if magic is not None and (magic in HTML_MAGIC_TYPES or mime in HTML_MIME_TYPES):
        return False
    return mime in TEXT_MIME_TYPES or magic in TEXT_MAGIC_TYPES


def _parsed(text: str) -> Any:
    """A dict or list from JSON, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _notebook(content: str) -> str | None:
    """The cells of a notebook and what they print; None if it is none."""
    notebook = _parsed(content)
    if not isinstance(notebook, dict) or not {"nbformat", "nbformat_minor"} <= set(notebook):
        return None
    if not isinstance(notebook.get("cells"), list):
        return None
    text = ""
    for cell in notebook["cells"]:
        if cell.get("cell_type") not in _CELLS:
            continue
        text += "".join(cell.get("source", ()))
        for output in cell.get("outputs", ()) if cell["cell_type"] == "code" else ():
            text += "".join(output.get("data", {}).get("text/plain", output.get("text", ())))
    return text


@dataclass
class MathExtractStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row of each record with an extractor; those without one are dropped.

    Args:
        extractor: any `DocumentExtractor`.
        add_filename_column: keep the column with the name of the file: True for ``file_name``, or its name.
    """

    extractor: DocumentExtractor
    add_filename_column: bool | str = False

    def __post_init__(self) -> None:
        column = self.add_filename_column
        self.filename_col = column if isinstance(column, str) else "file_name" if column else None
        self.name = f"extract_{type(self.extractor).__name__.lower()}"

    def inputs(self) -> Spec:
        return ["data"], self.extractor.input_columns()

    def outputs(self) -> Spec:
        return ["data"], [*self.extractor.output_columns(), *([self.filename_col] if self.filename_col else [])]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Extract each row."""
        rows = []
        for record in records(task.to_pandas()):
            row = self.extractor.extract(record)
            if row is None or isinstance(row, Skipped):
                continue
            if self.filename_col and self.filename_col in record:
                row = {**row, self.filename_col: record[self.filename_col]}
            rows.append(row)
        return with_rows(task, pd.DataFrame(rows) if rows else pd.DataFrame(columns=self.outputs()[1]))

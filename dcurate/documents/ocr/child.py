"""What the child process of `PdfExtract` does with a PDF when OCR is on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dcurate.documents.child import read_pdf
from dcurate.documents.ocr.pages import OcrPages
from dcurate.documents.pdf import extract_pdf

#: Bytes that the models and what they compute of a page may take.
MEMORY = 2**31


def read_pdf_with_ocr(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Extract a PDF; pages whose text is not in the file are read by OCR.

    Args:
        data: the file.
        options: those of `dcurate.documents.child.read_pdf`; in ``ocr`` those of `OcrPages`.

    Raises:
        MediaError: the file cannot be read; with its reason.
    """
    pdf_options = {name: value for name, value in options.items() if name != "ocr"}
    extract = partial(extract_pdf, revise=OcrPages(**(options.get("ocr") or {})))
    return read_pdf(data, pdf_options, extract, MEMORY)

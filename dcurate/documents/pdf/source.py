"""Opens PDFs, with a reason for each that cannot be read."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pypdfium2 as pdfium
from pypdfium2 import raw

from dcurate.documents.pdf.faults import PdfError

#: What files that are no PDFs begin with.
_KINDS = (
    (b"<!doctype html", "HTML"),
    (b"<html", "HTML"),
    (b"<?xml", "XML"),
    (b"{", "JSON"),
    (b"[", "JSON"),
    (b"pk\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip"),
    (b"x\x9c", "zlib"),
    (b"x\xda", "zlib"),
    (b"x\x01", "zlib"),
    (b"\x89png", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"gif8", "a GIF picture"),
    (b"%!ps", "PostScript"),
    (b"{\\rtf", "RTF"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
)

#: PDF readers accept the header anywhere in the first 1,024 bytes.
_HEADER_WITHIN = 1024


@contextmanager
def opened(data: bytes, password: str | None = None) -> Iterator[pdfium.PdfDocument]:
    """Open a PDF.

    Raises:
        MediaError: with reason ``"empty"``, ``"not a PDF: HTML"`` and the like, ``"encrypted"``, ``"truncated"``,
            ``"damaged"`` or ``"no pages"``.
    """
    if not data:
        raise PdfError("empty", "the file has no bytes")
    if b"%PDF-" not in data[: _HEADER_WITHIN + 5]:
        raise PdfError(f"not a PDF: {kind_of(data)}", f"it begins with {bytes(data[:16])!r}")
    try:
        document = pdfium.PdfDocument(data, password=password)
    except pdfium.PdfiumError as error:
        raise _refused(data, error) from None
    try:
        yield document
    finally:
        document.close()


def kind_of(data: bytes) -> str:
    """What a file that is no PDF looks like.

    Examples:
        >>> kind_of(b"<!DOCTYPE html><html>"), kind_of(bytes(9))
        ('HTML', 'zeros')
    """
    begin = data[:256].lstrip().lower()
    for magic, name in _KINDS:
        if begin.startswith(magic) or data.startswith(magic):
            return name
    if not data.strip(b"\0"):
        return "zeros"
    return "text" if begin.isascii() and begin.decode("ascii").isprintable() else "unknown bytes"


def _refused(data: bytes, error: pdfium.PdfiumError) -> PdfError:
    if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
        return PdfError("encrypted", "it needs a password, or another one")
    if getattr(error, "err_code", None) == raw.FPDF_ERR_SECURITY:
        return PdfError("encrypted", "it uses encryption that is not supported")
    if b"%%EOF" not in data[-2048:]:
        return PdfError("truncated", f"the file ends after {len(data):,} bytes without an end mark")
    return PdfError("damaged", str(error))


def metadata(document: pdfium.PdfDocument, key: str) -> str:
    """A value of the document's information, such as ``Title``; empty if there is none."""
    name = key.encode()
    size = raw.FPDF_GetMetaText(document.raw, name, None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(min(size, 1 << 20))
    raw.FPDF_GetMetaText(document.raw, name, buffer, len(buffer))
    return buffer.raw[: len(buffer) - 2].decode("utf-16-le", "replace").split("\0", 1)[0].strip()

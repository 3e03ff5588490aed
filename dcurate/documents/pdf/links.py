"""What pages link to, and the values of form fields."""

from __future__ import annotations

import ctypes
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

_MOST = 1_000
_MOST_FIELDS = 10_000
_MOST_BYTES = 1 << 16
_WIDGET = 20


def links_of(document: Any, page: Any, box: list[float]) -> list[dict[str, Any]]:
    """Addresses outside the document that a page links to, with boxes in points from its top left."""
    if not raw.FPDFPage_GetAnnotCount(page):
        return []
    links: list[dict[str, Any]] = []
    position, link, rect = ctypes.c_int(0), raw.FPDF_LINK(), raw.FS_RECTF()
    for _ in range(_MOST):
        if not raw.FPDFLink_Enumerate(page, position, link):
            break
        action = raw.FPDFLink_GetAction(link)
        if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
            continue
        size = raw.FPDFAction_GetURIPath(document, action, None, 0)
        if not 1 < size <= _MOST_BYTES:
            continue
        buffer = ctypes.create_string_buffer(size)
        raw.FPDFAction_GetURIPath(document, action, buffer, size)
        if raw.FPDFLink_GetAnnotRect(link, rect):
            left, top = box[0], box[3]
            bbox = [rect.left - left, top - rect.top, rect.right - left, top - rect.bottom]
            links.append({"url": buffer.value.decode("utf-8", "replace"), "bbox": bbox})
    return links


def fields_of(document: pdfium.PdfDocument) -> dict[str, str]:
    """Values of the form fields of a document by their names."""
    if document.get_formtype() not in {raw.FORMTYPE_ACRO_FORM, raw.FORMTYPE_XFA_FOREGROUND}:
        return {}
    document.init_forms()
    fields: dict[str, str] = {}
    if document.formenv is None:
        return fields
    form = document.formenv.raw
    for number in range(len(document)):
        page = document[number]
        for at in range(min(raw.FPDFPage_GetAnnotCount(page.raw), _MOST)):
            annotation = raw.FPDFPage_GetAnnot(page.raw, at)
            if annotation and raw.FPDFAnnot_GetSubtype(annotation) == _WIDGET:
                name = _text(raw.FPDFAnnot_GetFormFieldName, form, annotation)
                if name:
                    fields[name] = _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
            if annotation:
                raw.FPDFPage_CloseAnnot(annotation)
        page.close()
        if len(fields) >= _MOST_FIELDS:
            break
    return fields


def _text(read: Any, form: Any, annotation: Any) -> str:
    size = read(form, annotation, None, 0)
    if not 2 < size <= _MOST_BYTES:
        return ""
    buffer = (raw.FPDF_WCHAR * (size // 2))()
    read(form, annotation, buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")

"""What is written on a page beside its content: values of form fields, and free-text notes."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from pypdfium2 import raw

from dcurate.documents.pdf.native import Characters
from dcurate.kernels.pdf.characters import ANGLE, BREAK_BEFORE, COLOR, FONT, SPACE_BEFORE, TURN
from dcurate.kernels.pdf.grids import frame as framed

#: Fields and notes of a page that are read, and bytes of each.
_MOST, _MOST_BYTES = 1_000, 1 << 16
#: Bits of annotations that are not shown, and of fields whose value is shown as dots.
_HIDDEN, _NO_VIEW, _PASSWORD = 2, 32, 1 << 13
_CHOICES = (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
#: Size of the font in points and as a share of the height of a line; the width of a letter; shares of the size.
_SIZE, _OF_LINE, _WIDE, _RISE = 10.0, 0.8, 0.5, 0.7
_BLACK = 0xFF000000


class PageNote(NamedTuple):
    """A text that is written on a page.

    Args:
        text: with line breaks.
        box: left, bottom, right and top of it on the page, in points.
    """

    text: str
    box: tuple[float, float, float, float]


def notes_of(page: Any, form: Any) -> tuple[list[PageNote], int]:
    """Read the values of form fields and the free-text notes that a page shows.

    Args:
        page: pdfium's handle.
        form: pdfium's handle of the forms of the document; None if it has none.

    Returns:
        The notes, and how many annotations beyond the limit were not looked at.
    """
    count = raw.FPDFPage_GetAnnotCount(page)
    found = []
    for number in range(min(count, _MOST)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            text = _shown(annotation, form)
            rect = raw.FS_RECTF()
            if text.strip() and raw.FPDFAnnot_GetRect(annotation, rect):
                found.append(PageNote(text, (rect.left, rect.bottom, rect.right, rect.top)))
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    return found, max(0, count - _MOST)


def _shown(annotation: Any, form: Any) -> str:
    """The text that an annotation shows; empty for others."""
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind not in (raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_WIDGET):
        return ""
    if raw.FPDFAnnot_GetFlags(annotation) & (_HIDDEN | _NO_VIEW):
        return ""
    if kind == raw.FPDF_ANNOT_FREETEXT:
        return _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if form is None:
        return ""
    field = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if field == raw.FPDF_FORMFIELD_TEXTFIELD:
        secret = raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
        return "" if secret else _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    if field not in _CHOICES:
        return ""
    chosen = [
        _text(raw.FPDFAnnot_GetOptionLabel, form, annotation, number)
        for number in range(min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MOST))
        if raw.FPDFAnnot_IsOptionSelected(form, annotation, number)
    ]
    return "\n".join(chosen) or _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)


def _text(read: Any, *about: Any) -> str:
    size = read(*about, None, 0)
    if not 2 < size <= _MOST_BYTES:
        return ""
    buffer = (raw.FPDF_WCHAR * (size // 2))()
    read(*about, buffer, size)
    return ctypes.string_at(buffer, size - 2).decode("utf-16-le", "replace").replace("\r\n", "\n").replace("\r", "\n")


def with_notes(characters: Characters, notes: list[PageNote], turn: int) -> Characters:
    """The characters of a page with those of notes, each in a black text object of a font without a name.

    Args:
        characters: of the page.
        notes: on it.
        turn: quarter turns against the clock that they have on the page.
    """
    codes: list[int] = []
    places: list[tuple[float, float, float, float]] = []
    owners: list[int] = []
    flags: list[int] = []
    for number, note in enumerate(notes):
        left, right, top, bottom = framed(np.array([note.box]), turn)[0].tolist()
        lines = [line for line in note.text.split("\n") if line.strip()]
        high = abs(bottom - top) / len(lines)
        size = min(_SIZE, _OF_LINE * high)
        for at, line in enumerate(lines):
            base, wide = top + at * high + (high + _RISE * size) / 2, min(_WIDE * size, abs(right - left) / len(line))
            flag = BREAK_BEFORE
            for column, character in enumerate(line):
                if character.isspace():
                    flag |= SPACE_BEFORE
                    continue
                codes.append(ord(character))
                places.append((left + column * wide, left + (column + 1) * wide, base, size))
                owners.append(len(characters.objects) + number)
                flags.append(flag)
                flag = 0
    objects = np.zeros((len(notes), ANGLE + 1), np.int64)
    objects[:, FONT], objects[:, TURN], objects[:, COLOR] = -1, turn, _BLACK
    objects[:, ANGLE] = round(turn * np.pi / 2 * 1e6)
    added = np.array(places, np.float32).reshape(-1, 4)
    spots = np.stack([(added[:, 0] + added[:, 1]) / 2, added[:, 2] - 0.3 * added[:, 3]], axis=1)
    return characters._replace(
        codes=np.concatenate([characters.codes, np.array(codes, np.int32)]),
        places=np.concatenate([characters.places, added]),
        owners=np.concatenate([characters.owners, np.array(owners, np.int32)]),
        flags=np.concatenate([characters.flags, np.array(flags, np.uint8)]),
        objects=np.concatenate([characters.objects, objects]),
        spots=np.concatenate([characters.spots, spots]) if len(characters.spots) else characters.spots,
    )

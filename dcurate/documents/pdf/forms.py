"""Read the text of annotations on a page: values of form fields, ticks of boxes and buttons, and free-text notes."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pypdfium2 import raw

from dcurate.documents.pdf.native import Characters
from dcurate.kernels.pdf.characters import ANGLE, BREAK_BEFORE, COLOR, FONT, SPACE_BEFORE, TURN
from dcurate.kernels.pdf.grids import frame as framed

#: Fields and notes of a page that are read, and bytes of each.
_MOST, _MOST_BYTES = 1_000, 1 << 22
#: Bits of annotations that are not shown, and of fields whose value is shown as dots.
_HIDDEN, _NO_VIEW, _PASSWORD = 2, 32, 1 << 13
_CHOICES = (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
#: Fields that are ticked, and how they are written: as Word does in a text.
_TICKED, _TICKS = (
    (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON),
    ("\N{BALLOT BOX}", "\N{BALLOT BOX WITH X}"),
)
#: Size of the font in points, the largest and the smallest, and as a share of the height of a line; the width of a
#: letter, how far it rises and the distance of lines as shares of the size.
_SIZE, _LEAST_SIZE, _OF_LINE, _WIDE, _RISE, _LEAD = 10.0, 1.5, 0.8, 0.5, 0.7, 1.2
_BLACK = 0xFF000000
#: Annotations that are icons, or only there once they are opened.
_ICONS = (
    raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_FILEATTACHMENT,
    raw.FPDF_ANNOT_SOUND, raw.FPDF_ANNOT_MOVIE, raw.FPDF_ANNOT_SCREEN,
)  # fmt: skip


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
        The notes, and how many annotations were left out: those beyond a limit, and others that draw text, such as
        stamps, push buttons and signatures.
    """
    count = raw.FPDFPage_GetAnnotCount(page)
    notes, left_out, budget = [], max(0, count - _MOST), _Budget()
    for number in range(min(count, _MOST)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            text = _shown(annotation, form, budget)
            rect = raw.FS_RECTF()
            left_out += text is None
            if text and text.strip() and raw.FPDFAnnot_GetRect(annotation, rect):
                notes.append(PageNote(text, (rect.left, rect.bottom, rect.right, rect.top)))
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    return notes, left_out


@dataclass(slots=True)
class _Budget:
    """How many appearances of annotations of a page are still looked at, and objects in them."""

    appearances: int = 100
    objects: int = 10_000

    def draws_text(self, annotation: Any) -> bool:
        """Whether the appearance of an annotation has text, also within forms; False where the budget is spent."""
        if not (self.appearances and self.objects):
            return False
        self.appearances -= 1
        inner = [(raw.FPDFAnnot_GetObject, annotation, raw.FPDFAnnot_GetObjectCount(annotation))]
        while inner:
            read, parent, count = inner.pop()
            for number in range(min(count, self.objects)):
                self.objects -= 1
                drawn = read(parent, number)
                kind = raw.FPDFPageObj_GetType(drawn)
                if kind == raw.FPDF_PAGEOBJ_TEXT:
                    return True
                if kind == raw.FPDF_PAGEOBJ_FORM:
                    inner.append((raw.FPDFFormObj_GetObject, drawn, raw.FPDFFormObj_CountObjects(drawn)))
        return False


def _shown(annotation: Any, form: Any, budget: _Budget) -> str | None:
    """The text that an annotation shows; empty for others, and None if it is too long or cannot be read."""
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind in _ICONS or raw.FPDFAnnot_GetFlags(annotation) & (_HIDDEN | _NO_VIEW):
        return ""
    if kind == raw.FPDF_ANNOT_FREETEXT:
        return _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
    field = raw.FPDF_FORMFIELD_UNKNOWN
    if kind == raw.FPDF_ANNOT_WIDGET:
        if form is None:
            return ""
        field = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if field == raw.FPDF_FORMFIELD_TEXTFIELD:
        secret = raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
        return "" if secret else _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    if field in _TICKED:
        # The state of its appearance. What pdfium says by itself needs a page that is drawn.
        return _TICKS[_text(raw.FPDFAnnot_GetStringValue, annotation, b"AS") not in ("", "Off")]
    if field not in _CHOICES:
        return None if budget.draws_text(annotation) else ""
    chosen = [
        _text(raw.FPDFAnnot_GetOptionLabel, form, annotation, number)
        for number in range(min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MOST))
        if raw.FPDFAnnot_IsOptionSelected(form, annotation, number)
    ]
    return "\n".join(filter(None, chosen)) or _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)


def _text(read: Any, *about: Any) -> str | None:
    """A text that pdfium gives; None if it is too long."""
    size = read(*about, None, 0)
    if size <= 2 or size > _MOST_BYTES:
        return "" if size <= 2 else None
    buffer = (raw.FPDF_WCHAR * (size // 2))()
    read(*about, buffer, size)
    return ctypes.string_at(buffer, size - 2).decode("utf-16-le", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _lines(text: str, width: float, height: float) -> tuple[list[str], float]:
    """Lines of a text in a box, and the size of the font with which they fit; they run over it if it is too small."""
    parts = [line for line in text.split("\n") if line.strip()]
    size = min(_SIZE, _OF_LINE * height / len(parts))
    if any(len(line) * _WIDE * size > width for line in parts):
        size = min(size, math.sqrt(width * height / (_WIDE * _LEAD * sum(map(len, parts)))))
    size = max(size, _LEAST_SIZE)
    most = max(1, int(width / (_WIDE * size)))
    lines = [""]
    for part in parts:
        for word in part.split():
            for start in range(0, len(word), most):
                piece = word[start : start + most]
                if lines[-1] and len(lines[-1]) + 1 + len(piece) > most:
                    lines.append("")
                lines[-1] += f" {piece}" if lines[-1] else piece
        lines.append("")
    return lines[:-1], size


def with_notes(characters: Characters, notes: list[PageNote], turn: int) -> Characters:
    """The characters of a page with those of notes, each in a black text object of a font without a name.

    Args:
        characters: characters of the page.
        notes: on it.
        turn: quarter turns against the clock that they have on the page.
    """
    codes: list[int] = []
    places: list[tuple[float, float, float, float]] = []
    spots: list[tuple[float, float]] = []
    owners: list[int] = []
    flags: list[int] = []
    for number, note in enumerate(notes):
        left, right, top, bottom = framed(np.array([note.box]), turn)[0].tolist()
        lines, size = _lines(note.text, abs(right - left), abs(bottom - top))
        high = max(abs(bottom - top) / len(lines), _LEAD * size if len(lines) > 1 else 0)
        for at, line in enumerate(lines):
            base, flag = top + at * high + (high + _RISE * size) / 2, BREAK_BEFORE
            wide = abs(right - left) if note.text in _TICKS else _WIDE * size
            for column, character in enumerate(line):
                if character.isspace():
                    flag |= SPACE_BEFORE
                    continue
                codes.append(ord(character))
                places.append((left + column * wide, left + (column + 1) * wide, base, size))
                spots.append(((left + right) / 2, (top + bottom) / 2))
                owners.append(len(characters.objects) + number)
                flags.append(flag)
                flag = 0
    objects = np.zeros((len(notes), ANGLE + 1), np.int64)
    objects[:, FONT], objects[:, TURN], objects[:, COLOR] = -1, turn, _BLACK
    objects[:, ANGLE] = round(turn * np.pi / 2 * 1e6)
    before = characters.spots
    if not len(before):
        middle, height = characters.places[:, :2].mean(axis=1), characters.places[:, 2] - 0.3 * characters.places[:, 3]
        before = np.stack([middle, height], axis=1).astype(np.float32)
    return characters._replace(
        codes=np.concatenate([characters.codes, np.array(codes, np.int32)]),
        places=np.concatenate([characters.places, np.array(places, np.float32).reshape(-1, 4)]),
        owners=np.concatenate([characters.owners, np.array(owners, np.int32)]),
        flags=np.concatenate([characters.flags, np.array(flags, np.uint8)]),
        objects=np.concatenate([characters.objects, objects]),
        spots=np.concatenate([before, np.array(spots, np.float32).reshape(-1, 2)]),
    )

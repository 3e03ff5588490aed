"""Writes ``dcurate/bundled/warm.pdf``, which needs every kernel: ``python -m tests.documents.warm``."""

from __future__ import annotations

from pathlib import Path

from tests.documents.pdf.writer import pages_of, paragraph, shown, stream

WARM = Path(__file__).parents[2] / "dcurate" / "bundled" / "warm.pdf"
LINES = ["The first of some lines of text, and an-", "other one that goes on below it for long", "enough, and ends."]
#: Maps A to alef and so on, and Z to a private character.
HEBREW = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
1 begincodespacerange <00> <ff> endcodespacerange
2 beginbfrange <41> <59> <05d0> <5a> <5a> <e000> endbfrange endcmap end end"""


def grid(x: float, y: float, columns: int, rows: int) -> bytes:
    """A ruled table, with one cell over two columns."""
    wide, high = 90.0, 20.0
    parts = []
    for row in range(rows + 1):
        parts.append(b"%g %g m %g %g l S\n" % (x, y - row * high, x + columns * wide, y - row * high))
    for column in range(columns + 1):
        top = y - high if column == 1 else y
        parts.append(b"%g %g m %g %g l S\n" % (x + column * wide, top, x + column * wide, y - rows * high))
    for row in range(rows):
        for column in range(columns):
            if row or column != 1:
                parts.append(shown(f"cell {row}{column}", x + 5 + column * wide, y - 14 - row * high))
    return b"".join(parts)


def warm() -> bytes:
    columns = b"".join(paragraph(LINES * 4, x, 700) for x in (60, 320))
    aligned = b"".join(shown(f"{10 * n + k}.5", 60 + 120 * k, 480 - 14 * n) for n in range(5) for k in range(4))
    picture = b"q 200 0 0 100 60 40 cm /I Do Q\n"
    hebrew = b"BT /H 11 Tf 300 180 Td (ABCDE FGH) Tj 0 -14 Td (IKLM NOP) Tj 0 -14 Td (ZZZZ) Tj ET\n"
    bullets = b"".join(shown(f"- item {n}", 60, 320 - 13 * n) for n in range(3))
    first = shown("A heading", 60, 760, 20, "B") + columns + aligned + bullets + picture + hebrew
    second = shown("Another", 60, 760, 20, "B") + grid(60, 700, 4, 4) + paragraph(LINES, 60, 560)
    turned = b"0 1 -1 0 500 100 cm " + paragraph(LINES, 0, 0)
    pages = [shown("Title of all pages", 60, 815, 8) + each for each in (first, second, turned)]
    image = stream(
        bytes(range(48)),
        b"/Type /XObject /Subtype /Image /Width 4 /Height 4 /ColorSpace /DeviceRGB /BitsPerComponent 8 ",
    )
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /ToUnicode 92 0 R >>"
    more = {90: image, 91: font, 92: stream(HEBREW)}
    resources = b"/XObject << /I 90 0 R >>"
    found = pages_of(pages, resources=resources, more=more)
    return found.replace(b"/F << /Type", b"/H 91 0 R /F << /Type")


if __name__ == "__main__":
    WARM.write_bytes(warm())

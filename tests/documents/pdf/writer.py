"""Writes small PDFs: objects as they are given, and pages of text in Helvetica."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def written(objects: Mapping[int, bytes], extra: bytes = b"") -> bytes:
    """A PDF of these objects; number 1 is the catalogue."""
    out, places = bytearray(b"%PDF-1.7\n"), {}
    for number, body in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    begin, size = len(out), max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        out += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n"
    out += b"trailer\n<< /Size %d /Root 1 0 R %b>>\nstartxref\n%d\n%%%%EOF\n" % (size, extra, begin)
    return bytes(out)


def stream(content: bytes, extra: bytes = b"") -> bytes:
    return b"<< /Length %d %b>>\nstream\n%b\nendstream" % (len(content), extra, content)


def pages_of(
    contents: Sequence[bytes],
    page: bytes = b"",
    resources: bytes = b"",
    more: Mapping[int, bytes] | None = None,
    catalog: bytes = b"",
    fonts: bytes = b"",
) -> bytes:
    """A PDF of A4 pages with these contents; fonts /F (Helvetica), /B (Helvetica-Bold) and /M (Courier), and more."""
    fonts += b"".join(
        b"/%b << /Type /Font /Subtype /Type1 /BaseFont /%b /Encoding /WinAnsiEncoding >> " % pair
        for pair in ((b"F", b"Helvetica"), (b"B", b"Helvetica-Bold"), (b"M", b"Courier"))
    )
    numbers = [10 + 2 * at for at in range(len(contents))]
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R %b>>" % catalog,
        2: b"<< /Type /Pages /Kids [%b] /Count %d >>" % (b" ".join(b"%d 0 R" % n for n in numbers), len(numbers)),
    }
    for number, content in zip(numbers, contents, strict=True):
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R %b"
            b"/Resources << /Font << %b>> %b>> >>" % (number + 1, page, fonts, resources)
        )
        objects[number + 1] = stream(content)
    return written({**objects, **(more or {})})


def shown(text: str, x: float, y: float, size: float = 10, font: str = "F") -> bytes:
    """The operators that show a text with its baseline at x and y, from the bottom left of the page."""
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return b"BT /%b %g Tf %g %g Td (%b) Tj ET\n" % (font.encode(), size, x, y, escaped.encode("cp1252"))


def paragraph(lines: Sequence[str], x: float, y: float, size: float = 10, lead: float = 1.3) -> bytes:
    """Lines from y downwards."""
    return b"".join(shown(line, x, y - number * size * lead, size) for number, line in enumerate(lines))


def squares(count: int) -> bytes:
    """A TrueType font whose glyphs are squares, for texts of which only the places matter."""
    square = struct.pack(">5hHH4B8h", 1, 100, 0, 900, 800, 3, 0, *4 * [1], 100, 800, 0, -800, 0, 0, 800, 0)
    square += bytes(-len(square) % 4)
    head = (65536, 65536, 0, 0x5F0F3CF5, 3, 1000, 0, 0, 100, 0, 900, 800, 0, 8, 2, 1, 0)
    tables = {
        b"glyf": square * count,
        b"head": struct.pack(">4IHHQQ4hHH3h", *head),
        b"hhea": struct.pack(">I3hH6h8xhH", 65536, 800, -200, 0, 1000, 100, 100, 900, 1, 0, 0, 0, 1),
        b"hmtx": struct.pack(">Hh", 1000, 100) + struct.pack(">h", 100) * (count - 1),
        b"loca": struct.pack(f">{count + 1}I", *range(0, (count + 1) * len(square), len(square))),
        b"maxp": struct.pack(">I14H", 65536, count, 4, 1, 0, 0, 2, *8 * [0]),
    }
    index, body = struct.pack(">I4H", 65536, len(tables), 64, 2, 32), b""
    for name, table in tables.items():
        index += name + struct.pack(">3I", 0, 12 + 16 * len(tables) + len(body), len(table))
        body += table + bytes(-len(table) % 4)
    return index + body

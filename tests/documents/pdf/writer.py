"""Writes small PDFs: objects as they are given, and pages of text in Helvetica."""

from __future__ import annotations

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
) -> bytes:
    """A PDF of A4 pages with these contents; fonts /F (Helvetica), /B (Helvetica-Bold) and /M (Courier)."""
    fonts = b"".join(
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

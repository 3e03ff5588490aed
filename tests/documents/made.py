"""Small PDFs for tests, written by hand: whole, cut off, broken."""

from __future__ import annotations

import zlib

CATALOG, TREE, FONT = 1, 2, 3
WORDS = "It is a truth universally acknowledged, that a single man must be in want of a wife."


def objects_of(texts: list[str], *, streams_first: bool = True) -> dict[int, bytes]:
    """The objects of a PDF with a page for each text, by number, in the order of the file."""
    pages, streams = {}, {}
    for place, text in enumerate(texts):
        page, stream = 4 + 2 * place, 5 + 2 * place
        lines = " T* ".join(f"({line}) Tj" for line in text.split("\n")) if text else ""
        content = f"BT /F 11 Tf 13 TL 72 720 Td {lines} ET ".encode("latin-1") + b" " * (40 * place % 7)
        streams[stream] = b"<</Length %d>>\nstream\n%b\nendstream" % (len(content), content)
        pages[page] = b"<</Type /Page /Parent 2 0 R /Contents %d 0 R>>" % stream
    kids = b" ".join(b"%d 0 R" % page for page in pages)
    shared = b"/MediaBox [0 0 612 792] /Resources <</Font <</F 3 0 R>>>>"
    head = {
        CATALOG: b"<</Type /Catalog /Pages 2 0 R>>",
        TREE: b"<</Type /Pages /Count %d /Kids [%b] %b>>" % (len(pages), kids, shared),
        FONT: b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>",
    }
    return {**head, **(streams | pages if streams_first else pages | streams)}


def pdf(texts: list[str] | None = None, *, streams_first: bool = True, info: bytes = b"") -> bytes:
    """A PDF with a page for each text, with a table of its objects."""
    texts = [WORDS] if texts is None else texts
    objects = objects_of(texts, streams_first=streams_first)
    if info:
        objects[max(objects) + 1] = info
    return written(objects, b"/Info %d 0 R" % max(objects) if info else b"")


def written(objects: dict[int, bytes], trailer: bytes = b"") -> bytes:
    """Objects as a file."""
    parts, places = [b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n"], {}
    for number, body in objects.items():
        places[number] = sum(map(len, parts))
        parts.append(b"%d 0 obj\n%b\nendobj\n" % (number, body))
    start, size = sum(map(len, parts)), max(objects) + 1
    rows = b"".join(
        b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n" for number in range(size)
    )
    end = b"trailer\n<</Size %d /Root 1 0 R %b>>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)
    return b"".join([*parts, b"xref\n0 %d\n" % size, rows, end])


def packed(texts: list[str]) -> bytes:
    """A PDF whose objects are in an object stream, cut off before its table of objects."""
    objects = objects_of(texts)
    inner = {number: body for number, body in objects.items() if b"stream" not in body}
    heads, bodies, at = [], [], 0
    for number, body in inner.items():
        heads.append(b"%d %d" % (number, at))
        bodies.append(body + b" ")
        at += len(body) + 1
    head = b" ".join(heads) + b" "
    content = zlib.compress(head + b"".join(bodies))
    outer = {number: body for number, body in objects.items() if number not in inner}
    stream = b"<</Type /ObjStm /N %d /First %d /Filter /FlateDecode /Length %d>>\nstream\n%b\nendstream"
    outer[max(objects) + 1] = stream % (len(inner), len(head), len(content), content)
    whole = written(outer)
    return whole[: whole.rindex(b"xref\n0")]


def bomb(levels: int = 30, leaf: bytes = b"BT /F 9 Tf (some words) Tj ET") -> bytes:
    """A page that draws a form twice, which draws a form twice, and so on: 2 to the power of `levels` calls."""
    objects = objects_of([""])
    first = max(objects) + 1
    objects[4] = b"<</Type /Page /Parent 2 0 R /Contents 5 0 R /Resources <</XObject <</X %d 0 R>>>>>>" % first
    objects[5] = b"<</Length 11>>\nstream\n/X Do /X Do\nendstream"
    head = b"<</Type /XObject /Subtype /Form /BBox [0 0 9 9] "
    for level in range(levels):
        inner = b"/Resources <</XObject <</X %d 0 R>>>> /Length 11>>" % (first + level + 1)
        objects[first + level] = head + inner + b"\nstream\n/X Do /X Do\nendstream"
    content = zlib.compress(leaf)
    last = b"/Resources <</Font <</F 3 0 R>>>> /Filter /FlateDecode /Length %d>>\nstream\n%b\nendstream"
    objects[first + levels] = head + last % (len(content), content)
    return written(objects)


def endless() -> bytes:
    """A page that takes minutes and little memory: ten million operators that do nothing, a thousand times."""
    return bomb(10, b"q Q " * 5_000_000)

"""Give a PDF that was cut off a page tree again, from the objects that are left."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

#: Bytes that all object streams of a file may unpack to.
MOST_UNPACKED = 2**26
#: Pages of a tree that is made.
MOST_PAGES = 100_000

_OBJECT = re.compile(rb"(?<![0-9])([0-9]{1,10})[\0\t\n\f\r ]{1,4}[0-9]{1,5}[\0\t\n\f\r ]{1,4}obj\b")
_MARK = re.compile(_OBJECT.pattern + rb"|\bendobj\b|\bstream\r?\n")
_TABLE = re.compile(rb"\b(?:xref|trailer|startxref)\b")
_STREAM = re.compile(rb"\bstream\r?\n")
_PAGE = re.compile(rb"/Type[\0\t\n\f\r ]{0,4}/Page(?![A-Za-z0-9])")
_TREE = re.compile(rb"/Type[\0\t\n\f\r ]{0,4}/Pages(?![A-Za-z0-9])")
_CATALOG = re.compile(rb"/Type[\0\t\n\f\r ]{0,4}/Catalog(?![A-Za-z0-9])")
_PACKED = re.compile(rb"/Type[\0\t\n\f\r ]{0,4}/ObjStm(?![A-Za-z0-9])")
_ENCRYPTED = re.compile(rb"/Filter[\0\t\n\f\r ]{0,4}/Standard(?![A-Za-z0-9])")
_KIDS = re.compile(rb"/Kids[\0\t\n\f\r ]{0,4}\[([^\[\]]{0,1000000})\]")
_REFERENCE = re.compile(rb"(?<![0-9])([0-9]{1,10})[\0\t\n\f\r ]{1,4}[0-9]{1,5}[\0\t\n\f\r ]{1,4}R\b")
_ROOT = re.compile(rb"/Pages[\0\t\n\f\r ]{1,4}([0-9]{1,10})[\0\t\n\f\r ]")
_COUNTS = [re.compile(rb"/" + name + rb"[\0\t\n\f\r ]{1,4}([0-9]{1,9})") for name in (b"N", b"First")]
#: Above the numbers that objects may have.
_NUMBERS = 2**23
#: Bytes of an object that are looked at.
_HEAD = 2**20


def with_page_tree(data: bytes) -> bytes | None:
    r"""Return the file with a catalogue, a page tree and a trailer after what is left of it; None if it has no page.

    A file that was cut off has lost its table of objects, which is at the end. Its objects are found by their marks,
    also those within object streams (PDF 1.5, section 3.4.6), and its pages are put under a new tree: in the order of
    the old one where that is left, then in that of the file. The work is linear in the size of the file.

    Args:
        data: the bytes of the file.

    Examples:
        >>> page = b"%PDF-1.4\n3 0 obj\n<</Type/Page/MediaBox[0 0 9 9]>>\nendobj\n"
        >>> with_page_tree(page).count(b"/Kids[3 0 R]"), with_page_tree(b"%PDF-1.4\n")
        (1, None)
    """
    objects = dict(_objects(data))
    if any(_ENCRYPTED.search(body) for body in objects.values()):
        return None  # its strings and streams would be read as noise
    unpacked = dict(_unpacked(data))
    bodies = {**unpacked, **objects}
    pages = _in_order(bodies)[:MOST_PAGES]
    if not pages:
        return None
    root = max(bodies) + 1
    table = _TABLE.search(data, max(data.rfind(b"endobj"), 0))
    data = data[: table.start()] if table else data  # half of a table or trailer would swallow what follows
    closed = b"\nendstream\nendobj\n" if data.rfind(b"endstream") < data.rfind(b"stream") - 3 else b"\nendobj\n"
    parts = [data, closed]
    parts += [b"%d 0 obj\n%b\nendobj\n" % entry for entry in unpacked.items() if entry[0] not in objects]
    kids = b" ".join(b"%d 0 R" % page for page in pages)
    parts.append(b"%d 0 obj\n<</Type/Pages/Count %d/Kids[%b]>>\nendobj\n" % (root, len(pages), kids))
    parts.append(b"%d 0 obj\n<</Type/Catalog/Pages %d 0 R>>\nendobj\n" % (root + 1, root))
    parts.append(b"trailer\n<</Size %d/Root %d 0 R>>\nstartxref\n0\n%%%%EOF\n" % (root + 2, root + 1))
    return b"".join(parts)


def has_no_pages(data: bytes) -> bool:
    """Return whether a file has the root of a page tree, and nothing under it.

    Examples:
        >>> tree = b"2 0 obj <</Type /Pages /Count %d /Kids [%b]>> endobj"
        >>> has_no_pages(tree % (0, b"")), has_no_pages(tree % (1, b"3 0 R")), has_no_pages(b"2 0 obj <<>> endobj")
        (True, False, False)
    """
    trees = [body for _, body in _objects(data) if _TREE.search(body)]
    kids = [_KIDS.search(body) for body in trees]
    return bool(trees) and not any(match is None or match[1].strip() for match in kids)


def _objects(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and dictionary of each object, up to its stream."""
    number, begin, place = 0, -1, 0
    while mark := _MARK.search(data, place):
        place = mark.end()
        if begin >= 0:
            yield number, data[begin : min(mark.start(), begin + _HEAD)]
        number, begin = (int(mark[1]), mark.end()) if mark[1] and int(mark[1]) < _NUMBERS else (0, -1)
        if mark[0].startswith(b"stream"):
            end = data.find(b"endstream", place)
            place = len(data) if end < 0 else end + len(b"endstream")


def _unpacked(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and text of each object that is in an object stream."""
    budget, place = MOST_UNPACKED, 0
    while budget > 0 and (packed := _PACKED.search(data, place)):
        begin = data.rfind(b"obj", max(0, packed.start() - 4096), packed.start())
        stream = _STREAM.search(data, packed.end(), packed.end() + 4096)
        place = packed.end()
        if begin < 0 or not stream:
            continue
        end = data.find(b"endstream", stream.end())
        place = len(data) if end < 0 else end
        counts = [number.search(data, begin, stream.start()) for number in _COUNTS]
        try:
            content = zlib.decompressobj().decompress(data[stream.end() : place], budget)
        except zlib.error:
            continue
        budget -= len(content)
        if all(counts):
            yield from _members(content, *(int(match[1]) for match in counts if match))


def _members(content: bytes, count: int, first: int) -> Iterator[tuple[int, bytes]]:
    heads = [int(digits) for digits in content[:first].split()[: 2 * count] if digits.isdigit() and len(digits) < 10]
    numbers, places = heads[::2], [first + place for place in heads[1::2]]
    end = first
    for number, start, stop in zip(numbers, places, [*places[1:], len(content)], strict=False):
        if end <= start < stop <= len(content):  # in the order of the file, so that they do not overlap
            yield number, content[start:stop]
            end = stop


def _in_order(bodies: dict[int, bytes]) -> list[int]:
    """The numbers of all pages: those of the tree in its order, then the others."""
    pages = {number for number, body in bodies.items() if _PAGE.search(body)}
    trees = [number for number, body in bodies.items() if _TREE.search(body)]
    roots = [int(root[1]) for body in bodies.values() if _CATALOG.search(body) and (root := _ROOT.search(body))]
    ordered, seen, waiting = list[int](), set[int](), [*reversed([*roots, *trees])]
    while waiting:
        number = waiting.pop()
        if number in seen or number not in bodies:
            continue
        seen.add(number)
        if number in pages:
            ordered.append(number)
        else:
            kids = _KIDS.search(bodies[number])
            waiting += reversed(_references(kids[1]) if kids else [])
    return [*ordered, *(number for number in bodies if number in pages and number not in seen)]


def _references(text: bytes) -> list[int]:
    return [int(match[1]) for match in _REFERENCE.finditer(text)]

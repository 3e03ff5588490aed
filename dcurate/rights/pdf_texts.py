"""Metadata of PDF files: compressed XMP, C2PA manifests, and texts of the document information."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from dcurate.rights.blocks import MetadataBlock, unpacked

#: Objects of each kind in a file, and bytes of a stream or of document information, that are looked at.
_MOST, _LARGEST, _LARGEST_INFO = 4, 2**20, 2**16
_METADATA = re.compile(rb"/Type\s{0,9}/Metadata\b")
_INFO = re.compile(rb"/Info\s{1,9}(\d{1,10})\s{1,9}(\d{1,5})\s{1,9}R\b")
#: The file specification of a C2PA manifest store, and the stream that it refers to.
_MANIFEST, _EMBEDDED = (
    b"/C2PA_Manifest",
    re.compile(rb"/EF\s{0,9}<<[^>]{0,99}?/U?F\s{1,9}(\d{1,10})\s{1,9}(\d{1,5})\s{1,9}R\b"),
)
#: Entries of the document information: Author is of ISO 32000; the others are what writers add.
_ENTRY = re.compile(
    rb"/(Author|Copyright|Rights|License)\s{0,9}(?:\(((?:[^\\()]|\\.){0,2000}+)\)|<([0-9A-Fa-f\s]{0,8000}+)>)",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\([nrtbf()\\]|[0-7]{1,3}|\r?\n)")
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def pdf_blocks(file: bytes) -> Iterator[MetadataBlock]:
    r"""Yield XMP that a PDF file compresses, its C2PA manifests, and what its document information says about rights.

    What is in object streams, or encrypted, is not read.

    Raises:
        BlockError: compressed XMP cannot be unpacked, or is larger than a megabyte.

    Examples:
        >>> file = b"%PDF-1.7\n1 0 obj\n<</Author(A. B)>>\nendobj\ntrailer\n<</Info 1 0 R>>"
        >>> list(pdf_blocks(file))
        [MetadataBlock(kind='text', data=b'A. B', name='PDF Author', start=0)]
    """
    if b"%PDF-" not in file[:1024]:
        return
    for match in islice(_METADATA.finditer(file), _MOST):
        begin = file.rfind(b"obj", max(0, match.start() - 1024), match.start())
        start, packed = _stream(file, begin, match.end())
        if begin >= 0 and packed:
            yield MetadataBlock("xmp", unpacked(file[start : start + _LARGEST]), start=len(file))
    if b"/Encrypt" in file:
        return
    yield from _manifests(file)
    for match in list(islice(_INFO.finditer(file), _MOST)):
        at = _object_at(file, b"%b %b obj" % match.groups())
        if at is not None:
            end = file.find(b"endobj", at, at + _LARGEST_INFO)
            for entry in _ENTRY.finditer(file, at, end if end >= 0 else at + _LARGEST_INFO):
                yield MetadataBlock("text", _text(entry[2], entry[3]), f"PDF {entry[1].decode()}")


def _stream(file: bytes, begin: int, at: int) -> tuple[int, bool]:
    """Where the stream of an object begins, or -1, and whether it is compressed."""
    stream = file.find(b"stream", at, at + 1024)
    if stream < 0:
        return -1, False
    start = stream + 6 + (2 if file[stream + 6 : stream + 8] == b"\r\n" else 1)
    return start, b"FlateDecode" in file[begin:stream]


def _manifests(file: bytes) -> Iterator[MetadataBlock]:
    """The C2PA manifest stores that are embedded, each once, the last first."""
    seen, at = set[int](), len(file)
    for _ in range(_MOST):
        at = file.rfind(_MANIFEST, 0, at)
        begin = file.rfind(b"obj", max(0, at - 1024), at) if at >= 0 else -1
        named = _EMBEDDED.search(file, begin, at + 1024) if begin >= 0 else None
        place = _object_at(file, b"%b %b obj" % named.groups()) if named else None
        start, packed = (-1, False) if place is None else _stream(file, place, place)
        if start >= 0 and start not in seen:
            seen.add(start)
            store = unpacked(file[start : start + _LARGEST]) if packed else file[start:]
            yield MetadataBlock("jumbf", store[: int.from_bytes(store[:4], "big")], start=start)
        if at < 0:
            return


def _object_at(file: bytes, head: bytes) -> int | None:
    """Where the last object with a head begins; None if there is none."""
    at = len(file)
    for _ in range(_MOST):
        at = file.rfind(head, 0, at)
        if at < 0:
            return None
        if not file[max(0, at - 1) : at].isdigit():
            return at + len(head)
    return None


def _text(literal: bytes | None, digits: bytes | None) -> bytes:
    """A string of PDF as UTF-8."""
    if literal is None:
        packed = b"".join((digits or b"").split())
        literal = bytes.fromhex((packed + b"0" * (len(packed) % 2)).decode())
    else:
        literal = _ESCAPE.sub(_unescaped, literal)
    if literal.startswith(b"\xfe\xff"):
        return literal[2:].decode("utf-16-be", "replace").encode()
    return literal.removeprefix(b"\xef\xbb\xbf")


def _unescaped(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    if code.isdigit():
        return bytes([int(code, 8) & 255])
    return _LETTERS.get(code, b"" if code.endswith(b"\n") else code)

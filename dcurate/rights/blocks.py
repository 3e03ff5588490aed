"""Blocks of metadata in files of pictures, films and sounds, found by the structure of the file."""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

BlockKind = Literal["exif", "photoshop", "iptc", "xmp", "jumbf", "text"]

#: Segments, chunks or boxes of a file that are visited, compressed texts that are unpacked, and bytes of each.
_MOST, _MOST_PACKED, _LARGEST_TEXT = 2**16, 4, 2**20
_PNG, _EXIF, _PHOTOSHOP = b"\x89PNG\r\n\x1a\n", b"Exif\0\0", b"Photoshop 3.0\0"
_EXTENSION = b"http://ns.adobe.com/xmp/extension/\0"
_XMP_KEYWORD = b"XML:com.adobe.xmp"
#: Keywords of texts in PNG that say something about rights (https://www.w3.org/TR/png-3/#11keywords).
_PNG_KEYWORDS = (b"Copyright", b"Author", b"Disclaimer")
#: Fields of a RIFF file's list INFO, and what each is called.
_RIFF_INFO = {b"ICOP": "Copyright", b"IART": "Artist"}
#: The extended type of a box that holds a C2PA manifest store.
_C2PA_UUID = bytes.fromhex("d8fec3d61b0e483c92975828877ec481")
#: Boxes that hold others, on the way to a notice of copyright.
_C2PA_GIF = b"\x0bC2PA_GIF\x01\0\0"
_C2PA_SVG = re.compile(rb"<c2pa:manifest\s{0,9}>([A-Za-z0-9+/=\s]{0,9999999}+)</")
_PARENTS = (b"moov", b"udta", b"meta", b"ilst")
_NOTICES = (b"cprt", b"\xa9cpy")


class MetadataBlock(NamedTuple):
    """A block of metadata.

    Args:
        kind: what it holds.
        data: its bytes, unpacked.
        name: what a block of kind ``"text"`` is called.
        start: where the block starts in the file.
    """

    kind: BlockKind
    data: bytes
    name: str = ""
    start: int = 0


class BlockError(ValueError):
    """A block is compressed and cannot be unpacked, or is too large."""


def blocks_of(file: bytes) -> Iterator[MetadataBlock]:
    r"""Yield the blocks of metadata of a JPEG, PNG, GIF, SVG, RIFF (WebP, WAV, AVI), TIFF or ISO media file.

    Lengths that do not fit the file end the search. Time and memory are linear in the size of the file.

    Raises:
        BlockError: a compressed block cannot be unpacked, or is larger than a megabyte.

    Examples:
        >>> list(blocks_of(b"\xff\xd8\xff\xe1\x00\x0aExif\0\0MM\xff\xda"))
        [MetadataBlock(kind='exif', data=b'MM', name='', start=2)]
    """
    if file.startswith(b"\xff\xd8\xff"):
        yield from _jpeg(file)
    elif file.startswith(_PNG):
        yield from _png(file)
    elif file.startswith(b"RIFF"):
        yield from _riff(file, 12, min(len(file), 8 + int.from_bytes(file[4:8], "little")))
    elif file.startswith((b"II*\0", b"MM\0*")):
        yield MetadataBlock("exif", file)
    elif file[4:8] in (b"ftyp", b"JXL "):
        yield from _boxes(file)
    elif file.startswith((b"GIF87a", b"GIF89a")):
        yield from _gif(file)
    elif b"<svg" in file[:4096]:
        for match in islice(_C2PA_SVG.finditer(file), _MOST_PACKED):
            yield MetadataBlock("jumbf", _from_base64(match[1]), start=match.start())


def _jpeg(file: bytes) -> Iterator[MetadataBlock]:
    """Blocks of a JPEG file; those that are divided among segments are put together."""
    resources: list[bytes] = []
    extended: dict[bytes, list[tuple[int, int, bytes]]] = {}
    stores: dict[bytes, list[tuple[int, bytes]]] = {}
    starts: dict[bytes, int] = {}
    for marker, at, segment in _segments(file):
        if marker == 0xE1 and segment.startswith(_EXIF):
            yield MetadataBlock("exif", segment[len(_EXIF) :], start=at)
        elif marker == 0xE1 and segment.startswith(_EXTENSION):
            head, packet = len(_EXTENSION), segment[len(_EXTENSION) : len(_EXTENSION) + 32]
            if len(segment) >= head + 40:
                size, offset = struct.unpack_from(">II", segment, head + 32)
                starts.setdefault(packet, at)
                extended.setdefault(packet, []).append((offset, size, segment[head + 40 :]))
        elif marker == 0xED and segment.startswith(_PHOTOSHOP):
            resources.append(segment[len(_PHOTOSHOP) :])
        elif marker == 0xEB and segment.startswith(b"JP") and len(segment) >= 16:
            stores.setdefault(segment[2:4], []).append((int.from_bytes(segment[4:8], "big"), segment[8:]))
    if resources:
        yield MetadataBlock("photoshop", b"".join(resources))
    for packet, parts in extended.items():
        parts.sort(key=lambda part: part[0])
        if sum(len(data) for _, _, data in parts) > _LARGEST_TEXT:
            raise BlockError("extended XMP is larger than 1 MiB")
        yield MetadataBlock("xmp", b"".join(data for _, _, data in parts), start=starts[packet])
    for pieces in stores.values():
        pieces.sort(key=lambda piece: piece[0])
        head = 16 if pieces[0][1].startswith(b"\0\0\0\1") else 8  # the others repeat the head of the box
        yield MetadataBlock("jumbf", pieces[0][1] + b"".join(data[head:] for _, data in pieces[1:]))


def _segments(file: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Markers, places and contents of the segments before the picture of a JPEG file."""
    at = 2
    for _ in range(_MOST):
        if at + 4 > len(file) or file[at] != 0xFF or file[at + 1] in (0xD9, 0xDA):
            return
        marker, size = file[at + 1], int.from_bytes(file[at + 2 : at + 4], "big")
        if marker == 0xFF:  # filling
            at += 1
            continue
        if size < 2:
            return
        if marker in (0xE1, 0xEB, 0xED):
            yield marker, at, file[at + 4 : at + 2 + size]
        at += 2 + size


def _png(file: bytes) -> Iterator[MetadataBlock]:
    at, packed = len(_PNG), 0
    for _ in range(_MOST):
        if at + 12 > len(file):
            return
        size, kind = int.from_bytes(file[at : at + 4], "big"), file[at + 4 : at + 8]
        if kind in (b"eXIf", b"caBX"):
            yield MetadataBlock("exif" if kind == b"eXIf" else "jumbf", file[at + 8 : at + 8 + size], start=at)
        elif kind in (b"iTXt", b"tEXt", b"zTXt"):
            for block, was_packed in _png_text(kind, file[at + 8 : at + 8 + size], at):
                packed += was_packed
                yield block
            if packed == _MOST_PACKED:
                raise BlockError(f"texts after the first {_MOST_PACKED} compressed ones are not read")
        at += 12 + size


def _png_text(kind: bytes, chunk: bytes, at: int) -> Iterator[tuple[MetadataBlock, bool]]:
    """The block of a chunk of text, if it is one about rights, and whether it was compressed."""
    keyword, _, rest = chunk[:80].partition(b"\0")
    if keyword != _XMP_KEYWORD and keyword not in _PNG_KEYWORDS:
        return
    rest = chunk[len(keyword) + 1 :]
    packed = kind == b"zTXt"
    if kind == b"iTXt":
        packed, rest = rest[:1] == b"\1", rest[2:].partition(b"\0")[2].partition(b"\0")[2]
    elif packed:
        rest = rest[1:]
    if packed:
        rest = unpacked(rest)
    if keyword != _XMP_KEYWORD:
        yield MetadataBlock("text", rest, f"PNG {keyword.decode()}", at), packed
    elif packed:  # one that is not is found without the structure of the file
        yield MetadataBlock("xmp", rest, start=at), packed


def unpacked(data: bytes) -> bytes:
    """Return what zlib compressed, up to a megabyte, for any size that it claims.

    Raises:
        BlockError: it is not zlib's, or is larger.
    """
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, _LARGEST_TEXT)
    except zlib.error as error:
        raise BlockError(f"a compressed text cannot be unpacked ({error})") from error
    if unpacker.unconsumed_tail:
        raise BlockError("a compressed text is larger than 1 MiB")
    return text


def _riff(file: bytes, at: int, end: int) -> Iterator[MetadataBlock]:
    for _ in range(_MOST):
        if at + 8 > end:
            return
        kind, size = file[at : at + 4], int.from_bytes(file[at + 4 : at + 8], "little")
        if kind == b"EXIF":
            yield MetadataBlock("exif", file[at + 8 : at + 8 + size].removeprefix(_EXIF), start=at)
        elif kind == b"C2PA":
            yield MetadataBlock("jumbf", file[at + 8 : at + 8 + size], start=at)
        elif kind in _RIFF_INFO:
            yield MetadataBlock("text", file[at + 8 : at + 8 + size], f"RIFF {_RIFF_INFO[kind]}", at)
        # The chunks of a list of texts are read as those of the file.
        at += 12 if kind == b"LIST" and file[at + 8 : at + 12] == b"INFO" else 8 + size + size % 2


def _boxes(file: bytes) -> Iterator[MetadataBlock]:
    """Blocks of an ISO media file (MP4, HEIF, AVIF) and of a JPEG XL file in boxes."""
    at = 0
    for _ in range(_MOST):
        if at + 8 > len(file):
            return
        size, kind, head = int.from_bytes(file[at : at + 4], "big"), file[at + 4 : at + 8], 8
        if size == 1:
            size, head = int.from_bytes(file[at + 8 : at + 16], "big"), 16
        size = len(file) - at if size == 0 else size
        if size < head:
            return
        content = at + head
        if kind == b"uuid" and file[content : content + 16] == _C2PA_UUID:
            # Version and flags, then what it is for, then 8 bytes: a place in the file.
            purpose, zero, store = file[content + 20 : at + size].partition(b"\0")
            if zero and purpose in (b"manifest", b"original", b"update"):
                yield MetadataBlock("jumbf", store[8:], start=at)
        elif kind == b"jumb":
            yield MetadataBlock("jumbf", file[at : at + size], start=at)
        elif kind in _NOTICES:
            yield MetadataBlock("text", _notice(file[content : at + min(size, 2**16)]), "MP4 Copyright", at)
        if kind not in _PARENTS:
            at += size
        else:  # its boxes come next; in MP4, ``meta`` has version and flags before them
            at = content + 4 * (kind == b"meta" and file[content + 4 : content + 8] != b"hdlr")


def _gif(file: bytes) -> Iterator[MetadataBlock]:
    """The C2PA manifest store of a GIF file, in an application extension."""
    at = 13 + _palette(file[10:11])
    for _ in range(_MOST):
        kind, label = file[at : at + 1], file[at + 1 : at + 2]
        if kind == b"," and at + 10 <= len(file):  # a picture: its place and size, colours, and the size of codes
            start, end = 0, at + 11 + _palette(file[at + 9 : at + 10])
        elif kind == b"!":
            start = at + 2 + len(_C2PA_GIF) if label == b"\xff" and file.startswith(_C2PA_GIF, at + 2) else 0
            end = start or at + 2
        else:
            return
        pieces = []
        while end < len(file) and file[end]:
            if start:
                pieces.append(file[end + 1 : end + 1 + file[end]])
            end += 1 + file[end]
        if start:
            yield MetadataBlock("jumbf", b"".join(pieces), start=at)
        at = end + 1


def _palette(flags: bytes) -> int:
    """The size of a table of colours in GIF."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error as error:
        raise BlockError(f"a C2PA manifest is not base64 ({error})") from error


def _notice(content: bytes) -> bytes:
    """The text of a box with a notice of copyright, of iTunes (a box ``data``), 3GPP or QuickTime."""
    if content[4:8] == b"data":
        return content[16 : int.from_bytes(content[:4], "big")]
    return content[6:] if content.startswith(b"\0\0\0\0") else content[4:]

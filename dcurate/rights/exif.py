"""Texts about rights in EXIF (the tags of TIFF) and in IPTC-IIM."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from dcurate.rights.blocks import BlockKind, MetadataBlock

#: Tags of TIFF that are read: texts, blocks with metadata of another kind, and the bytes of an item of a type.
_TEXTS = {0x013B: "Artist", 0x8298: "Copyright"}
_BLOCKS: Mapping[int, BlockKind] = {33723: "iptc", 34377: "photoshop", 52545: "jumbf"}
_ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 13: 4}
#: Datasets of IPTC-IIM's record 2 that are read, and the value of 1:90 that says that texts are UTF-8.
_DATASETS = {40: "Special Instructions", 80: "By-line", 116: "Copyright Notice"}
_UTF8 = b"\x1b%G"
#: The number of Photoshop's resource that holds IPTC-IIM; and how many resources and datasets are read.
_IPTC_RESOURCE, _MOST = 0x0404, 4096
#: Bytes of a text that are read.
_LONGEST = 2000


def exif_texts(data: bytes) -> Iterator[MetadataBlock]:
    r"""Yield texts and blocks of the first directory of a TIFF structure; nothing of what is not one.

    Examples:
        >>> tag = b"\x98\x82\x02\0\x04\0\0\0A. B"
        >>> list(exif_texts(b"II*\0\x08\0\0\0\x01\0" + tag))
        [MetadataBlock(kind='text', data=b'A. B', name='Copyright', start=0)]
    """
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None or len(data) < 8:
        return
    (start,) = struct.unpack_from(f"{order}I", data, 4)
    if start + 2 > len(data):
        return
    (count,) = struct.unpack_from(f"{order}H", data, start)
    wanted = {*_TEXTS, *_BLOCKS}
    for entry in range(start + 2, min(start + 2 + 12 * count, len(data) - 11), 12):
        tag, kind, items = struct.unpack_from(f"{order}HHI", data, entry)
        if tag not in wanted:
            continue
        wanted.remove(tag)  # a tag that comes again could name the same large block
        size = items * _ITEM_BYTES.get(kind, 0)
        at = entry + 8 if size <= 4 else struct.unpack_from(f"{order}I", data, entry + 8)[0]
        if tag in _TEXTS:
            yield MetadataBlock("text", data[at : at + min(size, _LONGEST)], _TEXTS[tag])
        else:
            yield MetadataBlock(_BLOCKS[tag], data[at : at + size])


def photoshop_texts(data: bytes) -> Iterator[MetadataBlock]:
    """Yield the texts of IPTC-IIM among Photoshop's resources."""
    at = 0
    for _ in range(_MOST):
        if data[at : at + 4] != b"8BIM" or at + 12 > len(data):
            return
        number, name = int.from_bytes(data[at + 4 : at + 6], "big"), data[at + 6]
        size_at = at + 6 + (name + 2) // 2 * 2
        size = int.from_bytes(data[size_at : size_at + 4], "big")
        if number == _IPTC_RESOURCE:
            yield from iptc_texts(data[size_at + 4 : size_at + 4 + size])
        at = size_at + 4 + size + size % 2


def iptc_texts(data: bytes) -> Iterator[MetadataBlock]:
    r"""Yield the texts about rights in IPTC-IIM, in UTF-8.

    Examples:
        >>> list(iptc_texts(b"\x1c\x02\x74\x00\x01B"))
        [MetadataBlock(kind='text', data=b'B', name='Copyright Notice', start=0)]
    """
    at, utf8 = 0, False
    for _ in range(_MOST):
        if at + 5 > len(data) or data[at] != 0x1C:
            return
        record, dataset, size = data[at + 1], data[at + 2], int.from_bytes(data[at + 3 : at + 5], "big")
        at += 5
        if size & 0x8000:  # the size of the size
            width = min(size & 0x7FFF, 8)
            size = int.from_bytes(data[at : at + width], "big")
            at += width
        value = data[at : at + min(size, _LONGEST)]
        if (record, dataset) == (1, 90):
            utf8 = value == _UTF8
        elif record == 2 and dataset in _DATASETS:
            text = value if utf8 else value.decode("utf-8" if _is_utf8(value) else "latin-1").encode()
            yield MetadataBlock("text", text, _DATASETS[dataset])
        at += size


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True

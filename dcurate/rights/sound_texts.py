"""Notices and C2PA manifests in sounds: ID3 in MP3 and FLAC, Vorbis comments in FLAC, Ogg Vorbis and Opus."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dcurate.rights.blocks import MetadataBlock

#: Frames of ID3v2 that are read (https://id3.org/id3v2.4.0-frames): texts, and addresses.
_TEXTS, _ADDRESSES = {b"TCOP": "ID3 Copyright", b"TPE1": "ID3 Artist"}, {b"WCOP": "ID3 Copyright"}
#: What the frame of a C2PA manifest store begins with, after its encoding.
_MANIFEST = re.compile(rb"application/(?:x-)?c2pa(?:-manifest-store)?\0")
#: Names of Vorbis comments that are read (https://wiki.xiph.org/VorbisComment).
_COMMENTS = {"copyright": "Copyright", "license": "License", "artist": "Artist", "rights": "Rights"}
#: Frames, blocks or comments that are visited, bytes of a text, and how far into an Ogg file comments begin.
_MOST, _LONGEST, _FAR = 4096, 2000, 2**16
#: Encodings of ID3v2, by their number.
_ENCODINGS = ("latin-1", "utf-16", "utf-16-be", "utf-8")


def sound_texts(file: bytes) -> Iterator[MetadataBlock]:
    r"""Yield the notices of copyright in a sound, in UTF-8, and its C2PA manifests; nothing of other files.

    Examples:
        >>> list(sound_texts(b"ID3\4\0\0\0\0\0\x10TCOP\0\0\0\6\0\0\0A. B\0"))
        [MetadataBlock(kind='text', data=b'A. B', name='ID3 Copyright', start=0)]
    """
    begin = 0
    if file.startswith(b"ID3"):
        begin = 10 + _synchsafe(file[6:10])
        yield from _id3(file, begin)
    if file.startswith(b"fLaC", begin):
        at = begin + 4
        for _ in range(_MOST):
            if at + 4 > len(file):
                return
            last, kind, size = file[at] >> 7, file[at] & 127, int.from_bytes(file[at + 1 : at + 4], "big")
            if kind == 4:
                yield from _comments(file[at + 4 : at + 4 + size])
            at += 4 + size
            if last:
                return
    elif file.startswith(b"OggS"):
        for mark in (b"OpusTags", b"\x03vorbis"):
            at = file.find(mark, 0, _FAR)
            if at >= 0:
                yield from _comments(file[at + len(mark) : at + len(mark) + _FAR])


def _id3(file: bytes, end: int) -> Iterator[MetadataBlock]:
    version, flags = file[3:4], file[5:6]
    if version not in (b"\3", b"\4") or flags[0] & 0xC0:  # unsynchronised, or with an extended header
        return
    at = 10
    for _ in range(_MOST):
        kind = file[at : at + 4]
        if at + 11 > min(end, len(file)) or not kind.isalnum():
            return
        size = _synchsafe(file[at + 4 : at + 8]) if version == b"\4" else int.from_bytes(file[at + 4 : at + 8], "big")
        value = file[at + 10 : at + 10 + min(size, _LONGEST)]
        if kind in _TEXTS and b"\0" <= value[:1] < b"\4":
            text = value[1:].decode(_ENCODINGS[value[0]], "replace")
            yield MetadataBlock("text", text.rstrip("\0").encode(), _TEXTS[kind])
        elif kind in _ADDRESSES:
            yield MetadataBlock("text", value, _ADDRESSES[kind])
        elif kind == b"GEOB" and _MANIFEST.match(value, 1):
            store = value.find(b"jumb", 1) - 4  # after a file name and a description
            if store > 0:
                yield MetadataBlock("jumbf", file[at + 10 + store : at + 10 + size], start=at)
        at += 10 + size


def _synchsafe(size: bytes) -> int:
    """A number of 7 bits a byte."""
    number = 0
    for byte in size:
        number = number << 7 | byte & 127
    return number


def _comments(block: bytes) -> Iterator[MetadataBlock]:
    at = 4 + int.from_bytes(block[:4], "little")  # after the name of the encoder
    count = int.from_bytes(block[at : at + 4], "little")
    at += 4
    for _ in range(min(count, _MOST)):
        if at + 4 > len(block):
            return
        size = int.from_bytes(block[at : at + 4], "little")
        name, _, value = block[at + 4 : at + 4 + min(size, _LONGEST)].partition(b"=")
        key = _COMMENTS.get(name.decode("latin-1").lower())
        if key is not None:
            yield MetadataBlock("text", value, f"Vorbis {key}")
        at += 4 + size

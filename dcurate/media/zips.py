"""Zip archives by their directories: where each member lies, also beside entries that are damaged.

`zipfile` refuses an archive as a whole for one entry: a name that is not UTF-8, an extra field of a wrong length.
Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from dcurate.core.foreign import LARGEST
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.names import shown

#: An entry of the directory, the end of the directory, and in a large archive the wide end with the pointer to it.
_ENTRY, _END, _END64, _POINTER64 = (struct.Struct(f"<4s{form}") for form in ("6H3L5H2L", "4H2LH", "Q2H2L4Q", "LQL"))
_ENTRY_MARK, _END_MARK, _END64_MARK, _POINTER64_MARK = b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\7"
_LOCAL_MARK = b"PK\3\4"
#: Value of a number that is in the extra field instead, and the id of that field.
IN_EXTRA, _WIDE = 2**32 - 1, 1
#: Bytes of the largest comment; and bytes of headers before a member, the fixed ones and the most that may follow.
_COMMENT = 2**16
_LOCAL, _AROUND = 30, 2 * 2**16 + 24


class ZipEntry(NamedTuple):
    """An entry of a directory.

    Args:
        name: name as `shown` gives it; empty where the entry cannot be read.
        offset: where the header of the member begins in the file; None if it is not there.
        held: bytes from there on that the member takes at most.
        size: bytes of the member, unpacked, from the entry.
        is_encrypted: whether the member has a password.
        fault: why the member cannot be read, if that is known.
    """

    name: str
    offset: int | None = None
    held: int = 0
    size: int = 0
    is_encrypted: bool = False
    fault: MediaFault | None = None


class _Entry(NamedTuple):
    """An entry as stored, with the offset in the file; or why it cannot be read."""

    name: bytes
    offset: int
    packed: int
    size: int
    is_encrypted: bool
    detail: str = ""

    @property
    def text(self) -> str:
        """The name as `shown` gives it."""
        return shown(self.name.partition(b"\0")[0].decode("utf-8", "surrogateescape"))


def entries(file: BinaryIO) -> Iterator[ZipEntry]:
    """Yield the entries of a zip archive in the order of its directory, damaged ones with the reason.

    Raises:
        MediaError: it has no directory.
    """
    begin, end, before = _directory(file)
    file.seek(begin)
    stored = list(_stored(file.read(end - begin), before))
    faults = dict(_faults(stored, file, begin))
    begins = [*sorted({entry.offset for number, entry in enumerate(stored) if number not in faults}), begin]
    for number, entry in enumerate(stored):
        if number in faults:
            yield ZipEntry(entry.text, entry.offset if 0 <= entry.offset < begin else None, fault=faults[number])
            continue
        held = begins[bisect_right(begins, entry.offset, hi=len(begins) - 1)] - entry.offset
        held = min(held, _LOCAL + entry.packed + _AROUND)
        yield ZipEntry(entry.text, entry.offset, held, entry.size, entry.is_encrypted)


def _faults(stored: Sequence[_Entry], file: BinaryIO, end: int) -> Iterator[tuple[int, MediaFault]]:
    """Yield the numbers of entries with an impossible offset or size, and the reasons; members end before `end`."""
    placed: list[tuple[int, int]] = []
    for number, entry in enumerate(stored):
        if not entry.text:
            detail = entry.detail or "the entry of the zip archive has no name"
            yield number, MediaFault("damaged entry" if entry.detail else "no name", detail)
        elif not 0 <= entry.offset < end:
            yield number, MediaFault("damaged entry", f"the member would begin at byte {entry.offset:,} of {end:,}")
        elif entry.packed > end or entry.size > LARGEST:
            detail = f"the member would have {entry.packed:,} bytes, {entry.size:,} unpacked"
            yield number, MediaFault("damaged entry", detail)
        else:
            placed.append((entry.offset, number))
    reach = 0
    for offset, number in sorted(placed):
        if offset < reach:  # it begins within another one, which it must not cut if its offset is wrong
            file.seek(offset)
            if file.read(len(_LOCAL_MARK)) != _LOCAL_MARK:
                yield number, MediaFault("damaged entry", f"no member begins at byte {offset:,}")
                continue
        reach = max(reach, offset + _LOCAL + len(stored[number].name) + stored[number].packed)


def _directory(file: BinaryIO) -> tuple[int, int, int]:
    """Return where the directory begins and ends, and by how much its offsets are too small."""
    size = file.seek(0, 2)
    start = max(0, size - _END.size - _COMMENT - _END64.size - _POINTER64.size)
    file.seek(start)
    tail = file.read(size - start)
    at = tail.rfind(_END_MARK, 0, max(0, len(tail) - _END.size + len(_END_MARK)))
    if at < 0:
        raise MediaError("damaged archive", "the zip archive has no directory at its end")
    *_, length, offset, _ = _END.unpack_from(tail, at)
    pointer, wide = at - _POINTER64.size, at - _POINTER64.size - _END64.size
    if wide >= 0 and tail.startswith(_POINTER64_MARK, pointer) and tail.startswith(_END64_MARK, wide):
        *_, length, offset = _END64.unpack_from(tail, wide)
        at = wide
    end = start + at
    if length > end:
        raise MediaError("damaged archive", f"the directory of the zip archive would have {length:,} bytes")
    return end - length, end, end - length - offset


def _stored(directory: bytes, before: int) -> Iterator[_Entry]:
    """Yield the entries of a directory; one without a name for each piece of it that cannot be read."""
    at = 0
    while at < len(directory):
        begin, at, entry = at, len(directory), None
        if directory.startswith(_ENTRY_MARK, begin) and begin + _ENTRY.size <= at:
            values = _ENTRY.unpack_from(directory, begin)
            name = begin + _ENTRY.size
            extra = name + values[10]
            comment = extra + values[11]
            if comment + values[12] <= at:
                at = comment + values[12]
                size, packed, offset = widened(directory[extra:comment], values[9], values[8], values[16])
                entry = _Entry(directory[name:extra], offset + before, packed, size, bool(values[3] & 1))
        inner = directory.find(_ENTRY_MARK, begin + 1, at)
        if inner >= 0:  # the lengths of the entry are wrong: others are within
            at, entry = inner, None
        yield entry or _Entry(b"", -1, 0, 0, False, f"bytes {begin:,} to {at:,} of the directory cannot be read")


def widened(extra: bytes, *numbers: int) -> list[int]:
    """Sizes and the offset of a member, with those that do not fit 32 bits from its extra field.

    Examples:
        >>> widened(struct.pack("<2HQ", 1, 8, 2**40), 3, IN_EXTRA)
        [3, 1099511627776]
    """
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == _WIDE:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))
            return [next(wide, number) if number == IN_EXTRA else number for number in numbers]
        at += 4 + length
    return list(numbers)

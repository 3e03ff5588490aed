"""Tar archives by their headers alone: where each member lies, also in archives that are cut or damaged."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from fsspec.implementations.local import LocalFileSystem

from dcurate.core.foreign import LARGEST, whole_number
from dcurate.fs.compression import blocks
from dcurate.fs.listing import unchanged
from dcurate.media.names import compression_of, shown
from dcurate.media.ranges import Place, UnpackedStream

BLOCK = 512
#: The part of a file that a row means: start and end in seconds and number of the track, as in `Ref`; and all of it.
MeantPart = tuple[float | None, float | None, int | None]
NO_PART: MeantPart = (None, None, None)
#: Fields of a member that say them.
SEGMENT = ("DCURATE.start_s", "DCURATE.stop_s", "DCURATE.stream")
#: Bytes of the largest header with further fields or a long name.
_LARGEST_META = 2**20
#: Headers that a member has at most, besides its own.
_MOST_META = 16
#: Fields of such headers that are used, and how those of sparse files begin.
_USED, _SPARSE = (b"path", b"linkpath", b"size", *(name.encode() for name in SEGMENT)), b"GNU.sparse."
_NOTHING = bytes(BLOCK)
#: Bytes that are looked through at once, and what headers have at a place.
_SCAN, _MAGIC, _MAGIC_AT = 2**16, b"ustar", 257
_WINDOW_HERE, _WINDOW_FAR = 2**14, 2**20


class Member(NamedTuple):
    """A member of a tar archive.

    Args:
        name: name as `shown` gives it, with the parts of long names joined.
        begin: where its first header begins, in the (unpacked) archive.
        offset: where its content begins.
        size: bytes of the content.
        kind: ``"file"``, ``"folder"``, ``"link"``, ``"sparse file"`` or ``"device"``.
        held: bytes of the content that the archive has; fewer than `size` where it is cut.
        content: content of a file that was asked for, else None.
        target: target of a link.
        segment: the part that is meant.
    """

    name: str
    begin: int
    offset: int
    size: int
    kind: str
    held: int
    content: bytes | None = None
    target: str = ""
    segment: MeantPart = NO_PART


class TarDamage(NamedTuple):
    """A part of an archive in which no member can be found.

    Args:
        begin: where it begins.
        end: where the next member begins, or the archive ends.
        reason: short and stable.
        detail: what else is known.
    """

    begin: int
    end: int
    reason: str
    detail: str = ""


class ArchiveWindow(Protocol):
    """The content of an archive, read from front to back."""

    @property
    def damage(self) -> str:
        """Why the content cannot be read further, if that is so."""

    def get(self, offset: int, size: int) -> bytes:
        """Return a range of bytes that begins at or behind the last one; fewer at the end."""

    def held(self, begin: int, end: int) -> int:
        """Return how many bytes of a range there are."""


class _Direct:
    """A file of which any range can be read."""

    damage = ""

    def __init__(self, read: Callable[[int, int], bytes], size: int, block: int) -> None:
        self._read, self._size, self._block = read, size, block
        self._data, self._at = b"", 0

    def get(self, offset: int, size: int) -> bytes:
        begin = offset - self._at
        if begin < 0 or begin + size > len(self._data):
            wanted = min(max(size, self._block), self._size - offset)
            self._data, self._at, begin = self._read(offset, wanted) if wanted > 0 else b"", offset, 0
        return self._data[begin : begin + size]

    def held(self, begin: int, end: int) -> int:
        return max(0, min(end, self._size) - begin)


class _InTurn:
    """A compressed file, whose content is unpacked in turn."""

    def __init__(self, stream: UnpackedStream) -> None:
        self._stream = stream
        self._last, self._at = b"", 0

    @property
    def damage(self) -> str:
        return self._stream.damage

    def get(self, offset: int, size: int) -> bytes:
        begin = offset - self._at
        if begin >= 0 and begin + size <= len(self._last):
            return self._last[begin : begin + size]
        kept = self._last[begin:] if 0 <= begin < len(self._last) else b""
        more = self._stream.read(Place(offset + len(kept), size - len(kept)))
        self._last, self._at = kept + more, offset
        return self._last

    def held(self, begin: int, end: int) -> int:
        if end <= begin or self.get(end - 1, 1):
            return end - begin
        return max(0, self._stream.at - begin)


@contextmanager
def opened(store: Any, path: str, size: int, version: str = "", name: str = "") -> Iterator[ArchiveWindow]:
    """Open an archive, plain or compressed.

    Args:
        size: size of the file.
        version: from its listing; an empty one is not checked.
        name: name of the file in messages.

    Raises:
        DataError: it changed since it was listed.
    """
    with unchanged(store, path, version, name or path), _window(store, path, size) as window:
        yield window


@contextmanager
def _window(store: Any, path: str, size: int) -> Iterator[ArchiveWindow]:
    if compression_of(path):
        with store.open(path, "rb") as file:
            yield _InTurn(UnpackedStream(file, blocks(file, compression_of(path), path)))
    elif isinstance(store, LocalFileSystem):
        with open(path, "rb", buffering=0) as file:
            yield _Direct(lambda offset, size: os.pread(file.fileno(), size, offset), size, _WINDOW_HERE)
    else:
        yield _Direct(lambda offset, size: store.cat_file(path, start=offset, end=offset + size), size, _WINDOW_FAR)


def walk(
    window: ArchiveWindow,
    start: int = 0,
    stop: int | None = None,
    wants: Callable[[str, int], bool] = lambda name, size: False,
) -> Iterator[Member | TarDamage]:
    """Yield the members whose headers begin in a range of an archive, and what of it is damaged, in order.

    Blocks of zeros, which end an archive, are passed over: several archives may follow each other in one file.

    Args:
        window: the archive.
        start: where the range begins: at a header.
        stop: where it ends; None for the end of the archive.
        wants: whether a file of this name and size is to be read along.

    Raises:
        DataError: the archive cannot be read.
    """
    at = start
    common: dict[str, str] = {}
    while stop is None or at < stop:
        block = window.get(at, BLOCK)
        if not block:
            if window.damage:
                yield TarDamage(at, at, "damaged stream", window.damage)
            return
        if block == _NOTHING:
            at += _zeros(window.get(at, _SCAN))
            continue
        member = _member(window, at, common, wants)
        if isinstance(member, int):
            end, last = _next_header(window, member, stop)
            yield TarDamage(at, end, "truncated header" if last and end - at < 3 * BLOCK else "damaged header")
            at = end
            continue
        at = member.offset + -(-member.size // BLOCK) * BLOCK
        yield member


def _member(
    window: ArchiveWindow, begin: int, common: dict[str, str], wants: Callable[[str, int], bool]
) -> Member | int:
    """The member whose headers begin at `begin`; if they are damaged, where to look for the next one.

    No header is read twice, however many there are before the damaged one.
    """
    at, local = begin, {}
    for _ in range(_MOST_META):
        try:
            info = tarfile.TarInfo.frombuf(window.get(at, BLOCK), "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            return max(at, begin + BLOCK)
        at += BLOCK
        if info.type not in b"xgLKX" or not info.type:
            break
        if not 0 <= info.size <= _LARGEST_META:
            return at
        data = window.get(at, info.size)
        if len(data) < info.size:
            return at
        if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            field = "path" if info.type == tarfile.GNUTYPE_LONGNAME else "linkpath"
            local[field] = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
        else:
            fields = _fields(data)
            if fields is None:
                return at
            (common if info.type == tarfile.XGLTYPE else local).update(fields)
        at += -(-info.size // BLOCK) * BLOCK
    else:
        return at
    fields = {**common, **local}
    size = whole_number(fields["size"]) if "size" in fields else info.size
    if size is None or not 0 <= size < LARGEST:
        return at
    return _described(window, info, fields, (begin, at, size), wants)


def _described(
    window: ArchiveWindow,
    info: tarfile.TarInfo,
    fields: dict[str, str],
    place: tuple[int, int, int],
    wants: Callable[[str, int], bool],
) -> Member:
    begin, at, size = place
    name = _shown(fields.get("path", info.name))
    kind = _kind(info, fields)
    if kind not in ("file", "sparse file"):
        return Member(name, begin, at, 0, kind, 0, None, _shown(fields.get("linkpath", info.linkname)))
    content = window.get(at, size) if kind == "file" and wants(name, size) else None
    start_s, stop_s, stream = (_number(fields.get(name)) for name in SEGMENT)
    segment = start_s, stop_s, None if stream is None else int(stream)
    return Member(name, begin, at, size, kind, window.held(at, at + size), content, segment=segment)


def _number(text: str | None) -> float | None:
    """A time or number of a field; None for what is none."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < 2**53 else None


def _kind(info: tarfile.TarInfo, fields: dict[str, str]) -> str:
    if info.type == tarfile.GNUTYPE_SPARSE or _SPARSE.decode() in fields:
        return "sparse file"
    if info.isdir() or (info.type == tarfile.AREGTYPE and info.name.endswith("/")):
        return "folder"
    if info.issym() or info.islnk():
        return "link"
    if info.isdev():
        return "device"
    return "file"


def _shown(name: str) -> str:
    return shown(name).replace("\0", "\\0")


def _fields(data: bytes) -> dict[str, str] | None:
    """The fields of a header of POSIX that are used; None if it is damaged.

    They are lines that begin with their own length. A global header may have very many, which each member would copy.
    """
    fields, at = {}, 0
    while at < len(data) and data[at]:
        space = data.find(b" ", at, at + 20)
        length = whole_number(data[at:space] if space > 0 else b"")
        if length is None or length < 5 or at + length > len(data):
            return None
        line = data[space + 1 : at + length - 1]
        name, equals, value = line.partition(b"=")
        if not equals:
            return None
        if name in _USED or name.startswith(_SPARSE):
            kept = _SPARSE if name.startswith(_SPARSE) else name
            fields[kept.decode()] = value.decode("utf-8", "surrogateescape")
        at += length
    return fields


def _zeros(data: bytes) -> int:
    """The bytes of the blocks of zeros with which data begin, at least one."""
    tail = len(data.lstrip(b"\0"))
    return max(BLOCK, (len(data) - tail) // BLOCK * BLOCK if tail else len(data))


def _next_header(window: ArchiveWindow, at: int, stop: int | None) -> tuple[int, bool]:
    """Return where the next header begins, and whether the archive ends before one."""
    while stop is None or at < stop:
        data = window.get(at, _SCAN)
        if not data:
            break
        place = data.find(_MAGIC)
        while place >= 0:
            begin = place - _MAGIC_AT
            if begin >= 0 and begin % BLOCK == 0 and (stop is None or at + begin < stop):
                with suppress(tarfile.HeaderError):
                    tarfile.TarInfo.frombuf(data[begin : begin + BLOCK], "utf-8", "surrogateescape")
                    return at + begin, False
            place = data.find(_MAGIC, place + 1)
        at += len(data)
    return at if stop is None else min(at, stop), True


def bounds(window: ArchiveWindow, size: int, target: int, key: Callable[[str], str]) -> list[int]:
    """Return where a large archive is best cut into parts of about `target` bytes: no sample is in two parts.

    Args:
        key: the sample to which the member of a name belongs.
    """
    last: dict[str, int] = {}
    begins: list[tuple[int, str]] = []
    for number, member in enumerate(walk(window)):
        if isinstance(member, Member) and member.kind == "file":
            last[key(member.name)] = number
            begins.append((member.begin, key(member.name)))
        else:
            begins.append((member.begin, ""))
    cuts, reach = [0], -1
    for number, (begin, name) in enumerate(begins):
        if reach < number and begin - cuts[-1] >= target and size - begin >= target // 2:
            cuts.append(begin)
        reach = max(reach, last.get(name, number))
    return [*cuts, size]

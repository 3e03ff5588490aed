"""What directories and containers hold: references, names and sizes, without the bytes where that is possible."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dcurate.core.batch import FilePart
from dcurate.fs.listing import open_unchanged
from dcurate.io import warc
from dcurate.io.warc_http import response
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media import tar
from dcurate.media.names import KINDS, is_climbing, is_hidden, stored
from dcurate.media.reference import Ref
from dcurate.media.zips import entries

_READ_AHEAD = 2**22
#: What servers call a file of which they know nothing.
_ANY = ("", "application/octet-stream", "binary/octet-stream", "application/download", "unk")


class ContainerFile(NamedTuple):
    """A file of media.

    Args:
        name: in its container, or below the directory that was read.
        ref: where its bytes lie.
        size: size of the file in bytes; None where it is not known.
        about: what its container says of it, by column.
    """

    name: str
    ref: Ref
    size: int | None
    about: dict[str, Any] = {}  # noqa: RUF012 - never changed


class LostPart(NamedTuple):
    """A part of a container that is no file, and why.

    Args:
        name: name of the member, where there is one.
        ref: where it lies.
        fault: what is wrong.
        url: address of the member, where it is known.
        is_fault: False for a member that is whole, and none of the data.
    """

    name: str
    ref: Ref
    fault: MediaFault
    url: str | None = None
    is_fault: bool = True


@dataclass(frozen=True)
class WantedFiles:
    """Which files are wanted.

    Args:
        endings: endings of their names, with the dot; None for all.

    Examples:
        >>> wanted = WantedFiles.of(["pdf", ".ps"])
        >>> wanted.named("a.PDF"), wanted.typed("application/pdf", "https://host/get?id=3"), wanted.named("a.html")
        (True, True, False)
    """

    endings: tuple[str, ...] | None = None

    @classmethod
    def of(cls, kinds: Sequence[str] | None) -> WantedFiles:
        """Those of some kinds of media, or with some endings."""
        if kinds is None:
            return cls()
        return cls(tuple(ending for kind in kinds for ending in KINDS.get(kind, (kind.lower(),))))

    def named(self, name: str) -> bool:
        """Whether a file of this name is wanted."""
        return self.endings is None or name.lower().endswith(self.endings)

    def typed(self, mime: str, url: str) -> bool:
        """Whether a file of this media type is wanted; the name in its address decides where a server knows no type."""
        if self.endings is None:
            return True
        if mime not in _ANY:
            return any(ending in self.endings for ending in mimetypes.guess_all_extensions(mime))
        try:
            return self.named(urlsplit(url).path)
        except ValueError:
            return False


def of_tar(store: Any, path: str, part: FilePart, name: str) -> Iterator[ContainerFile | LostPart]:
    """The files of a tar archive, from its headers."""
    with tar.opened(store, path, part.size, part.version, name) as window:
        for member in tar.walk(window, part.start, part.stop):
            lost = lost_in_tar(member, part.path)
            if lost is not None:
                yield lost
            elif isinstance(member, tar.Member) and member.kind == "file":
                ref = Ref(part.path, member.name, member.offset, member.size, *member.segment)
                yield ContainerFile(member.name, ref, member.size)


def lost_in_tar(each: tar.Member | tar.TarDamage, path: str) -> LostPart | None:
    """Why a part of a tar archive is no file; None if it is one, or a folder."""
    if isinstance(each, tar.TarDamage):
        detail = each.detail or f"bytes {each.begin:,} to {each.end:,} of the archive hold no member"
        return LostPart("", Ref(path, "", each.begin, each.end - each.begin), MediaFault(each.reason, detail))
    ref = Ref(path, each.name, each.offset, each.size)
    if each.kind == "folder":
        return None
    if each.kind != "file":
        return LostPart(each.name, ref, MediaFault(each.kind, f"to {each.target!r}" if each.target else ""))
    if is_climbing(stored(each.name)):
        return LostPart(each.name, ref, MediaFault("name leads out of the archive", each.name))
    if is_hidden(each.name):
        return LostPart(each.name, ref, MediaFault("hidden member", each.name), is_fault=False)
    if each.held < each.size:
        return LostPart(each.name, ref, cut(each))
    return None


def cut(member: tar.Member) -> MediaFault:
    """The fault of a member of which not all bytes are there."""
    return MediaFault("truncated", f"{member.name!r}: {member.held:,} of {member.size:,} bytes are there")


def of_zip(store: Any, path: str, part: FilePart, name: str) -> Iterator[ContainerFile | LostPart]:
    """The files of a zip archive, from its directory."""
    with open_unchanged(store, path, part.version, name, cache_type="readahead", block_size=_READ_AHEAD) as file:
        try:
            zip_entries = list(entries(file))
        except MediaError as error:
            yield LostPart("", Ref(part.path, "", 0, part.size), error.fault)
            return
    for entry in zip_entries:
        ref = Ref(part.path, entry.name, entry.offset, entry.held)
        if entry.name.endswith("/"):
            continue
        if entry.name and is_climbing(stored(entry.name)):
            yield LostPart(entry.name, ref, MediaFault("name leads out of the archive", entry.name))
        elif is_hidden(entry.name):
            yield LostPart(entry.name, ref, MediaFault("hidden member", entry.name), is_fault=False)
        elif entry.fault is not None:
            yield LostPart(entry.name, ref, entry.fault)
        elif entry.is_encrypted:
            yield LostPart(entry.name, ref, MediaFault("encrypted", "the member of the archive has a password"))
        else:
            yield ContainerFile(entry.name, ref, entry.size)


def of_warc(
    store: Any, path: str, part: FilePart, name: str, wanted: WantedFiles
) -> Iterator[ContainerFile | LostPart]:
    """The wanted records of a web archive; its records are read to find them."""
    waiting: ContainerFile | None = None
    with open_unchanged(store, path, part.version, name, cache_type="readahead", block_size=_READ_AHEAD) as file:
        # The end of a record is where the next one begins, also if that belongs to the next part.
        for record in warc.iterate_records(file, part.start, None):
            if waiting is not None and record.offset > (waiting.ref.offset or 0):
                yield _ending(waiting, record.offset)
                waiting = None
            if part.stop is not None and record.offset >= part.stop:
                break
            if isinstance(record, warc.Damage):
                ref = Ref(part.path, "", record.offset, 0)
                yield LostPart(
                    "",
                    ref,
                    MediaFault("damaged record", f"byte {record.offset:,}: {record.reason}"),
                    record.url or None,
                )
                continue
            page = _page(record, part.path, wanted)
            if page is None:
                continue
            if waiting is not None:  # several records in one compressed member
                yield _ending(waiting, part.size)
                waiting = None
            if isinstance(page, LostPart):
                yield page
            else:
                waiting = page
    if waiting is not None:
        yield _ending(waiting, part.size)


def _ending(file: ContainerFile, end: int) -> ContainerFile:
    return file._replace(ref=file.ref._replace(size=end - (file.ref.offset or 0)))


def _page(record: warc.Record, path: str, wanted: WantedFiles) -> ContainerFile | LostPart | None:
    if record.kind not in ("response", "resource"):
        return None
    message = response(record.content) if record.kind == "response" else None
    declared = record.headers.get("content-type", "") if message is None else message.headers.get("content-type", "")
    mime = record.headers.get("warc-identified-payload-type") or declared
    mime = mime.partition(";")[0].strip().lower()
    if not wanted.typed(mime, record.url):
        return None
    member = record.id or record.url
    ref = Ref(path, member, record.offset, 0)
    if message is not None and message.damage:
        return LostPart(record.url, ref, MediaFault("damaged record", message.damage), record.url)
    about = {
        "url": record.url or None,
        "date": record.date or None,
        "status": None if message is None else message.status,
        "mime_type": mime or None,
        "truncated": record.headers.get("warc-truncated"),
    }
    body = record.content if message is None else message.body
    return ContainerFile(record.url.rpartition("/")[2] or member, ref, len(body), about)

"""Find members of containers by their names, for references without an offset."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import Any, TypeAlias

from dcurate.core.batch import FilePart
from dcurate.isolate.errors import MediaFault
from dcurate.media.containers import ContainerFile, LostPart, WantedFiles, of_tar, of_warc, of_zip
from dcurate.media.names import container_of
from dcurate.media.ranges import Version
from dcurate.media.reference import Ref

_Directory: TypeAlias = dict[str, Ref | MediaFault]

#: Containers whose members a process remembers, and how many members together, at most.
_KEPT, _MOST_MEMBERS = 16, 1_000_000

_directories: OrderedDict[Version, _Directory] = OrderedDict()
_lock = Lock()


def found_by_name(store: Any, path: str, version: Version, ref: Ref) -> Ref | MediaFault:
    """Return a reference with the range of its member, or why there is none.

    A container is listed once until it changes. Of several members with one name the first counts, unless the
    reference has an offset. A file with an unknown ending is read as a tar.

    Args:
        store: file system.
        path: path of the container in the store.
        version: version of the container.
        ref: a reference with a member.

    Raises:
        OSError: the container cannot be read.
    """
    assert ref.member is not None
    if container_of(ref.path) == "lines":
        return MediaFault("bad reference", "a line of JSON Lines is found by its offset and size alone; give both")
    with _lock:
        members = _directories.get(version)
    if members is None:
        members = _listed(store, path, version, ref.path)
        with _lock:
            _directories[version] = members
            while len(_directories) > _KEPT or (
                len(_directories) > 1 and sum(map(len, _directories.values())) > _MOST_MEMBERS
            ):
                _directories.popitem(last=False)
    member = members.get(ref.member if ref.offset is None else f"{ref.offset}\0{ref.member}") or members.get("")
    return member or MediaFault("missing", f"{ref.path!r} has no member {_named(ref)}")


def _named(ref: Ref) -> str:
    return repr(ref.member) if ref.offset is None else f"{ref.member!r} at byte {ref.offset:,}"


def _listed(store: Any, path: str, version: Version, url: str) -> _Directory:
    members: _Directory = {}
    for member in _members(store, path, FilePart(url, size=version.size)):
        ref = member.ref
        value: Ref | MediaFault = member.fault if isinstance(member, LostPart) and member.is_fault else ref
        if not ref.member and isinstance(value, MediaFault):
            members.setdefault("", value)  # of members that are not found
        about = member.about if isinstance(member, ContainerFile) else {"url": member.url}
        for name in dict.fromkeys(filter(None, (ref.member, about.get("url")))):
            members.setdefault(name, value)
            members.setdefault(f"{ref.offset}\0{name}", value)
    return members


def _members(store: Any, path: str, part: FilePart) -> Iterator[ContainerFile | LostPart]:
    match container_of(part.path):
        case "zip":
            return of_zip(store, path, part, part.path)
        case "warc":
            return of_warc(store, path, part, part.path, WantedFiles())
    return of_tar(store, path, part, part.path)

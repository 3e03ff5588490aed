"""Open the zip archives that office files and ebooks are, within limits."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from lxml import etree

from dcurate.documents.losses import DocumentLosses
from dcurate.isolate.errors import MediaError

T = TypeVar("T")
#: Reasons that lie in one part of a file.
_OF_A_PART = ("damaged", "broken zip")
_ENTITY = re.compile(rb"<!ENTITY|<\0!\0E\0N\0T\0I\0T\0Y|\0<\0!\0E\0N\0T\0I\0T\0Y")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError, IndexError)


#: Times that all parts of a file may be read.
_READS = 4


class Package:
    """The members of a zip archive.

    The sizes of the archive's directory are checked before anything is unpacked; `zipfile` unpacks no more than these.

    Args:
        data: the archive.
        max_unpacked: refuse an archive whose members are larger than this in all, in bytes.
        max_members: refuse an archive with more members.

    Attributes:
        losses: what of the file is not in its text.
        fault: the first error of a part that was left out.

    Raises:
        MediaError: "broken zip", "zip bomb".
    """

    def __init__(self, data: bytes, max_unpacked: int = 2**30, max_members: int = 100_000) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            members = self._zip.infolist()
        except _BROKEN as error:
            raise MediaError("broken zip", str(error)[:200]) from None
        unpacked = sum(member.file_size for member in members)
        if len(members) > max_members:
            raise MediaError("zip bomb", f"{len(members)} members, more than {max_members}")
        if unpacked > max_unpacked or (unpacked > 2**26 and unpacked > 400 * len(data)):
            raise MediaError("zip bomb", f"{len(data)} bytes unpack to {unpacked}")
        #: Bytes that may still be read: a few times all, as files can name one part again and again.
        self._left = _READS * unpacked + 2**20
        self._members = {member.filename.replace("\\", "/").lstrip("/"): member for member in members}
        self._folded = {_folded(name): name for name in self._members}
        self.losses = DocumentLosses()
        self.fault: MediaError | None = None

    def __contains__(self, name: str) -> bool:
        return _folded(name) in self._folded

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str) -> bytes:
        """The bytes of a member; names are compared without regard to case and to percent-encoding.

        Raises:
            MediaError: "broken zip", "damaged" if there is no such member, "encrypted".
        """
        key = self._folded.get(_folded(name))
        if key is None:
            raise MediaError("damaged", f"no member {name!r}"[:200])
        member = self._members[key]
        if member.flag_bits & 1:
            raise MediaError("encrypted", f"member {name!r} needs a password"[:200])
        self._left -= member.file_size
        if self._left < 0:
            raise MediaError("zip bomb", f"it names the same parts again and again, {name!r} the last"[:200])
        try:
            return self._zip.read(member)
        except _BROKEN as error:
            raise MediaError("broken zip", f"{name}: {error}"[:200]) from None

    def part(self, what: str, read: Callable[[], T]) -> T | None:
        """Read a part without which the rest of the file is of use; one that is damaged or missing counts as a loss.

        Args:
            what: kind of loss; see `dcurate.documents.losses`.
            read: reads the part.
        """
        try:
            return read()
        except MediaError as error:
            if error.fault.reason not in _OF_A_PART:
                raise
            self.losses.add(what, where=error.fault.detail)
            self.fault = self.fault or error
            return None

    def xml(self, name: str) -> Any:
        """The root element of an XML member.

        Raises:
            MediaError: "damaged" if it is not XML, "external entities" if it declares entities.
        """
        return parse_xml(self.read(name), name)

    def optional_xml(self, name: str) -> Any | None:
        """Like `xml`; None if there is no such member, or it is not XML."""
        if name not in self:
            return None
        try:
            return self.xml(name)
        except MediaError as error:
            if error.fault.reason == "damaged":
                return None
            raise


def _folded(name: str) -> str:
    return unquote(name).lower()


def parse_xml(data: bytes, name: str) -> Any:
    """Parse XML without a DTD, entities or the network."""
    if _ENTITY.search(data):
        raise MediaError("external entities", f"{name} declares XML entities")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise MediaError("damaged", f"{name}: {error}"[:200]) from None
    if root is None:
        raise MediaError("damaged", f"{name} has no element")
    return root


#: What a relationship names: last word of its type, target, whether it is outside the file.
Relations: TypeAlias = dict[str, tuple[str, str, bool]]


def relationships(package: Package, part: str) -> Relations:
    """The relationships of an OOXML part by their ids; none if it has none.

    Raises:
        MediaError: "damaged" if they are not XML.
    """
    folder, name = posixpath.split(part)
    path = posixpath.join(folder, "_rels", f"{name}.rels")
    relations = {}
    for relation in package.xml(path) if path in package else ():
        target = relation.get("Target", "")
        outside = relation.get("TargetMode") == "External"
        if not outside:
            target = member_path(folder, target.replace("\\", "/"))
        relations[relation.get("Id", "")] = (relation.get("Type", "").rsplit("/", 1)[-1], target, outside)
    return relations


def main_part(package: Package, default: str) -> str:
    """The part of an OOXML file that names its other parts."""
    main = next((target for kind, target, _ in relationships(package, "").values() if kind == "officeDocument"), "")
    return main if main in package else default


def linked_xml(package: Package, part: str, links: Relations, relation: str) -> Any | None:
    """The root element of what one of the relationships of a part names; None if it is outside the file.

    Raises:
        MediaError: "damaged" if there is no such relationship, or its part is missing or is not XML.
    """
    if relation not in links:
        raise MediaError("damaged", f"{part} has no relationship {relation!r}"[:200])
    _, target, outside = links[relation]
    return None if outside else package.xml(target)


def member_path(folder: str, target: str) -> str:
    """The member that a link in `folder` points at; one that climbs out of the archive stays at its top.

    Examples:
        >>> member_path("word", "../media/a%20b.png"), member_path("word", "/ppt/slides/s.xml")
        ('media/a b.png', 'ppt/slides/s.xml')
        >>> member_path("word", "../../../etc/passwd")
        'etc/passwd'
    """
    return posixpath.normpath(posixpath.join("/", folder, unquote(target.split("#", maxsplit=1)[0]))).lstrip("/")


def local(element: Any) -> str:
    """The name of an element without its namespace; empty for what is not an element."""
    tag = element.tag
    return tag.rsplit("}", 1)[-1] if isinstance(tag, str) else ""


def seen(parent: Any) -> Iterator[Any]:
    """An element and its descendants in document order, without fallbacks for elements that are not understood."""
    stack = [parent]
    while stack:
        element = stack.pop()
        if local(element) != "Fallback":
            yield element
            stack.extend(reversed(element))


def attribute(element: Any, name: str) -> str | None:
    """An attribute by its name without namespace."""
    value = element.get(name)
    if value is not None:
        return str(value)
    return next((str(value) for key, value in element.attrib.items() if key.endswith("}" + name)), None)


def attribute_of_relation(element: Any) -> str:
    """The `r:id` of an element that has an `id` of its own, too."""
    return next((str(value) for key, value in element.attrib.items() if key.endswith("}id")), "")


def core_properties(package: Package, part: str = "docProps/core.xml") -> dict[str, str]:
    """Title, author and language of an OOXML file."""
    root = package.optional_xml(part)
    names = {"title": "title", "creator": "author", "language": "language"}
    properties = {}
    for element in root if root is not None else ():
        if local(element) in names and (element.text or "").strip():
            properties[names[local(element)]] = element.text.strip()
    return properties

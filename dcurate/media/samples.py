"""The samples of WebDataset shards, and the columns that hold their members of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from dcurate.errors import DataError
from dcurate.media import tar
from dcurate.media.containers import LostPart, cut, lost_in_tar
from dcurate.media.names import kind_of, sample_of
from dcurate.media.refs import MEDIA_REF, Ref

#: Columns of samples: their name, as the library webdataset has it, and references to all of their members.
KEY, MEMBERS = "__key__", "members"
MEMBERS_TYPE = pa.list_(MEDIA_REF)

#: Suffixes of members that are columns of the same name, with the types of these.
TEXTS: Mapping[str, pa.DataType] = {"txt": pa.string(), "json": pa.string(), "cls": pa.int64()}
#: Bytes of the largest member that becomes a value of a column.
LARGEST_TEXT = 2**24


@dataclass
class ShardSample:
    """A sample of a shard: the members with one key.

    Attributes:
        key: the names of its members up to their first dot.
        members: in the order of the shard.
    """

    key: str
    members: list[tar.Member] = field(default_factory=list)

    @property
    def media(self) -> tar.Member | None:
        """The member with the picture, PDF or recording: the first such, and the last of its name."""
        first = next((member for member in self.members if kind_of(member.name)), None)
        if first is None:
            return None
        return [member for member in self.members if member.name == first.name][-1]

    def texts(self) -> dict[str, bytes]:
        """The content of its members of text by suffix in lower case; the last, where one is there again."""
        contents = {}
        for member in self.members:
            if member.content is not None:
                contents[sample_of(member.name)[1].lower()] = member.content
        return contents

    def refs(self, path: str) -> list[Ref]:
        """References to its members."""
        return [Ref(path, member.name, member.offset, member.size) for member in self.members]


def samples_of(items: Iterable[tar.Member | tar.TarDamage], path: str) -> Iterator[ShardSample | LostPart]:
    """Group the members of an archive, or a part of it; what is no member of a sample is lost.

    Members of a sample may lie apart: those of all samples are held.
    """
    samples: dict[str, ShardSample] = {}
    for member in items:
        is_cut = isinstance(member, tar.Member) and member.kind == "file" and member.held < member.size
        lost = lost_in_tar(
            member._replace(held=member.size) if isinstance(member, tar.Member) and is_cut else member, path
        )
        if lost is not None:
            yield lost
        elif isinstance(member, tar.Member) and member.kind == "file":
            key = sample_of(member.name)[0]
            samples.setdefault(key, ShardSample(key)).members.append(member)
    yield from samples.values()


def fault_of(sample: ShardSample) -> tuple[str, str]:
    """The reason why a sample cannot be used, with details; both empty if it can."""
    for member in sample.members:
        if member.held < member.size:
            return cut(member)
    media = sample.media
    if media is not None and not media.size:
        return "empty", f"{media.name!r} has no bytes"
    return "", ""


def value_of(data: bytes, kind: pa.DataType) -> Any:
    """The value of a member of text in its column: bytes that are no UTF-8 become U+FFFD.

    Examples:
        >>> value_of(b" 7", pa.int64()), value_of(b"x", pa.int64()), value_of("ä".encode(), pa.string())
        (7, None, 'ä')
    """
    text = data.decode("utf-8", "replace")
    if not pa.types.is_integer(kind):
        return text
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None


def problem_of(suffix: str, data: bytes, kind: pa.DataType) -> str:
    r"""Why the content of a member of text is not what its suffix says; empty if it is.

    Examples:
        >>> problem_of("txt", b"\xff", pa.string()), problem_of("json", b"{", pa.string())
        ('txt: not UTF-8', 'json: not JSON')
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return f"{suffix}: not UTF-8"
    if suffix == "json" or suffix.endswith(".json"):
        try:
            orjson.loads(data)
        except orjson.JSONDecodeError:
            return f"{suffix}: not JSON"
    if pa.types.is_integer(kind) and value_of(data, kind) is None:
        return f"{suffix}: not a whole number"
    return ""


def content_of_value(value: Any) -> bytes:
    """The content of a member for a value of a column: text as it is, other values as JSON.

    Raises:
        DataError: JSON cannot hold it.

    Examples:
        >>> content_of_value("text"), content_of_value(3), content_of_value({"a": [1]})
        (b'text', b'3', b'{"a":[1]}')
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise DataError(f"a value of type {type(value).__name__} cannot be a member of a shard: {error}") from error

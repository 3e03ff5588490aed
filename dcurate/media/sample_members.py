"""From rows to the members of the samples that they become in a shard."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from dcurate.core.batch import BatchKey
from dcurate.isolate.errors import MediaFault
from dcurate.media.names import is_climbing, kind_of, sample_of, shown, stored
from dcurate.media.refs import BYTES, REF, Ref, fetch, ref_array, refs_of
from dcurate.media.samples import KEY, LARGEST_TEXT, MEMBERS, content_of_value, value_of
from dcurate.media.tar import BLOCK, NO_PART, MeantPart

#: Bytes of members that are held at a time, about, and members.
_HELD, _AT_ONCE = 2**26, 4096
_UNKNOWN = 2**20


class SampleMember(NamedTuple):
    """A member to write.

    Args:
        name: name of the member as it is stored: with ``surrogateescape`` for bytes that are not UTF-8.
        source: its bytes, or where they are; None if its column alone has its content.
        column: column that may have changed the content; empty if none.
        value: value in that column.
        is_media: whether it is the file of the sample, rather than a text.
        segment: the part of it that the row means.
    """

    name: str
    source: Ref | bytes | None
    column: str = ""
    value: Any = None
    is_media: bool = False
    segment: MeantPart = NO_PART

    @property
    def size(self) -> int:
        """Its bytes, about."""
        if isinstance(self.source, Ref):
            return _UNKNOWN if self.source.size is None else self.source.size
        return len(self.source or b"") or len(str(self.value or ""))


@dataclass
class Samples:
    """The samples that the rows of a table become.

    Attributes:
        keys: keys of the samples, one a row.
        entries: their members.
        kinds: types of the columns that are members of text.
        replaced: how many members were left out because another of their name, with other content, comes later.
    """

    keys: list[str]
    entries: list[list[SampleMember]]
    kinds: dict[str, pa.DataType]
    replaced: int = 0

    @classmethod
    def of(cls, table: pa.Table, suffixes: Mapping[str, str], key: BatchKey) -> Samples:
        """Make the samples of rows.

        Args:
            suffixes: the columns that are members of text, by suffix.
            key: key of the batch; rows without a name are called after it.
        """
        names = table.column_names
        rows = table.num_rows

        def column(name: str) -> list[Any]:
            return table[name].to_pylist() if name in names else [None] * rows

        refs = refs_of(table) if REF in names else [None] * rows
        sample_keys, files, data, members = column(KEY), column("file_name"), column(BYTES), column(MEMBERS)
        texts = {suffix: column(name) for suffix, name in suffixes.items()}
        keys, entries = [], []
        for row in range(rows):
            values = {suffix: texts[suffix][row] for suffix in texts}
            ref = refs[row]
            segment = NO_PART if ref is None else (ref.start_s, ref.stop_s, ref.stream)
            if members[row] is not None:
                sample_key = stored(
                    str(sample_keys[row]) if sample_keys[row] is not None else sample_of(members[row][0]["member"])[0]
                )
                made = _of_members(sample_key, [Ref(**ref) for ref in members[row]], values, files[row])
            else:
                name = files[row] or sample_keys[row] or f"{key.digest}-{row:06d}{_ending(ref)}"
                name = _safe(stored(name) if ref is not None and ref.member == name else name)
                sample_key = sample_of(name)[0]
                source = data[row] if data[row] is not None else refs[row]
                made = [] if source is None else [SampleMember(name, source, is_media=True)]
                made += _new(sample_key, values, ())
            keys.append(sample_key)
            entries.append([entry._replace(segment=segment) if entry.is_media else entry for entry in made])
        return cls(keys, entries, {suffix: table.schema.field(name).type for suffix, name in suffixes.items()})

    def shards(self, most_rows: int | None, most_bytes: int | None) -> Iterator[list[int]]:
        """The rows of each shard; samples of one key are in different ones."""
        seen = Counter[str]()
        groups: dict[int, list[int]] = {}
        for row, key in enumerate(self.keys):
            groups.setdefault(seen[key], []).append(row)
            seen[key] += 1
        for rows in groups.values():
            shard: list[int] = []
            size = 0
            for row in rows:
                nbytes = sum(BLOCK + entry.size + -entry.size % BLOCK for entry in self.entries[row])
                full = most_rows is not None and len(shard) >= most_rows
                if shard and (full or (most_bytes is not None and size + nbytes > most_bytes)):
                    yield shard
                    shard, size = [], 0
                shard.append(row)
                size += nbytes
            yield shard

    def read(
        self, rows: Sequence[int], options: Mapping[str, Any]
    ) -> Iterator[tuple[int, list[tuple[SampleMember, bytes]] | MediaFault]]:
        """Yield rows with the content of their members, or why one of these cannot be had."""
        chosen: list[int] = []
        size = number = 0
        for row in rows:
            nbytes = sum(entry.size for entry in self.entries[row])
            if chosen and (size + nbytes > _HELD or number >= _AT_ONCE):
                yield from self._read(chosen, options)
                chosen, size, number = [], 0, 0
            chosen.append(row)
            size, number = size + nbytes, number + len(self.entries[row])
        yield from self._read(chosen, options)

    def _read(
        self, rows: Sequence[int], options: Mapping[str, Any]
    ) -> Iterator[tuple[int, list[tuple[SampleMember, bytes]] | MediaFault]]:
        wanted = [entry.source for row in rows for entry in self.entries[row] if isinstance(entry.source, Ref)]
        fetched_contents = iter(fetch(pa.table({REF: ref_array(wanted)}), storage_options=options) if wanted else [])
        for row in rows:
            contents: dict[str, tuple[SampleMember, bytes]] = {}
            fault: MediaFault | None = None
            for entry in self.entries[row]:
                data = next(fetched_contents) if isinstance(entry.source, Ref) else entry.source
                if isinstance(data, MediaFault):
                    fault = fault or data._replace(detail=f"{shown(entry.name)!r}: {data.detail}")
                    continue
                content = self._content(entry, data)
                if content is not None:
                    self.replaced += entry.name in contents and contents[entry.name][1] != content
                    contents[entry.name] = entry, content
            yield row, list(contents.values()) if fault is None else fault

    def _content(self, entry: SampleMember, data: bytes | None) -> bytes | None:
        """The content of a member: as it was, unless its column says something else; None if it is left out."""
        if not entry.column:
            return data
        if data is None:
            return content_of_value(entry.value)
        if entry.value is None:
            unread = len(data) > LARGEST_TEXT or value_of(data, self.kinds[entry.column]) is None
            return data if unread else None
        return data if _is_same(data, entry.value, self.kinds[entry.column]) else content_of_value(entry.value)


def _ending(ref: Ref | None) -> str:
    """The ending of the file that a row without a name refers to, without which readers leave its sample out."""
    return "" if ref is None else os.path.splitext(ref.member or ref.path)[1]


def _is_same(data: bytes, value: Any, kind: pa.DataType) -> bool:
    """Whether a value is what a member holds."""
    if isinstance(value, str) or pa.types.is_integer(kind):
        return bool(value_of(data, kind) == value)
    try:
        return bool(orjson.loads(data) == value)
    except orjson.JSONDecodeError:
        return False


def _of_members(key: str, refs: Sequence[Ref], values: Mapping[str, Any], media: str | None) -> list[SampleMember]:
    """The members of a sample that was read from a shard, and texts that it did not have."""
    last = {sample_of(ref.member or "")[1].lower(): place for place, ref in enumerate(refs)}
    entries = []
    for place, ref in enumerate(refs):
        name = ref.member or ""
        suffix = sample_of(name)[1].lower()
        column = suffix if suffix in values and last[suffix] == place else ""
        is_media = name == media if media is not None else bool(kind_of(name))
        entries.append(SampleMember(_safe(stored(name)), ref, column, values.get(column), is_media))
    return entries + _new(key, values, last)


def _new(key: str, values: Mapping[str, Any], present: Mapping[str, int] | Sequence[str]) -> list[SampleMember]:
    """Members for the texts of a sample that has none of their suffix."""
    return [
        SampleMember(f"{key}.{suffix}", None, suffix, value)
        for suffix, value in values.items()
        if value is not None and suffix not in present
    ]


def _safe(name: str) -> str:
    """The name, if it does not lead out of the folder that the shard is unpacked to.

    Examples:
        >>> _safe("a/b.png"), _safe("../b.png"), _safe("/etc/b.png")
        ('a/b.png', '_/b.png', '_/etc/b.png')
    """
    if not is_climbing(name):
        return name
    parts = name.replace("\\", "/").replace(":", "_").split("/")
    return "/".join("_" if part in ("", "..") else part for part in parts)

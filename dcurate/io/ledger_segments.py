"""The segments of a ledger, files that never change, and an index of the records in them."""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.ledger import SplitRecord
from dcurate.errors import DataError
from dcurate.fs.stores import Directory

#: Number of segments that are joined to one, so that a long run leaves few files.
JOINED = 64

#: Records and bytes in memory from which on a segment is full, and not joined to others.
FULL_RECORDS, FULL_BYTES = 32_768, 64 * 2**20

#: Records of a group, which are read together, and number of groups and of whole files that are kept in memory.
_GROUP, _GROUPS, _FILES = 1_024, 16, 4

_WRITTEN, _JOINT = ".jsonl", ".parquet"

_Names = pa.list_(pa.large_string())
_SCHEMA = pa.schema(
    [
        ("key", pa.uint64()),
        ("split", pa.large_string()),
        ("version", pa.large_string()),
        ("files", _Names),
        ("stats", pa.large_binary()),
        ("inputs", _Names),
    ]
)

_Keys = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.int64]  # the number of a segment in the upper half, that of a row in the lower
_Kept = TypeVar("_Kept")


class _DamagedError(Exception):
    """The content of a segment differs from what was written."""


@dataclass
class _Segment:
    name: str
    rows: int
    nbytes: int
    dropped: npt.NDArray[np.bool_] | None = None

    @property
    def full(self) -> bool:
        return self.rows >= FULL_RECORDS or self.nbytes >= FULL_BYTES

    def drop(self, row: int) -> None:
        if self.dropped is None:
            self.dropped = np.zeros(self.rows, bool)
        self.dropped[row] = True

    def has(self, row: int) -> bool:
        return self.dropped is None or not self.dropped[row]


class LedgerSegments:
    """Records of finished splits in files of a folder, with 16 bytes of memory for each, whatever it holds.

    Records are appended in small segments of JSON lines. 64 segments are joined to one of Parquet and removed after
    that, so that each record is on disk at every moment. Of several records of a split, the one in the segment with the
    highest number is valid.

    Args:
        directory: directory of the output.
        folder: name of the folder in it.
        forget: whether the segments of the folder are removed.

    Attributes:
        damaged: names of the segments that could not be read.

    Raises:
        DataError: the folder cannot be read.
    """

    def __init__(self, directory: Directory, folder: str, forget: bool = False) -> None:
        self.damaged: list[str] = []
        self._directory, self._folder = directory, folder
        self._segments: dict[int, _Segment] = {}
        self._tiers: list[list[int]] = [[]]
        self._levels: list[tuple[_Keys, _Places]] = []
        self._files: OrderedDict[int, pq.ParquetFile | pa.Table] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int], list[list[Any]]] = OrderedDict()
        names = [name for name in directory.files(folder) if name.endswith((_WRITTEN, _JOINT))]
        if forget:
            directory.remove(names)
            names = []
        self._next = 1 + max(map(_number, names), default=0)
        self._load(sorted(names, key=_number))

    def __bool__(self) -> bool:
        return bool(self._segments)

    def find(self, split: str) -> SplitRecord | None:
        """Return the record of a split; None if there is none."""
        place = self._place(split)
        return None if place is None else self._record(place)

    def records(self) -> Iterator[SplitRecord]:
        """Yield the record of each split, in the order of writing."""
        for number in list(self._segments):
            yield from self._of(number, lambda splits: range(len(splits)))

    def outside(self, splits: Container[str]) -> Iterator[SplitRecord]:
        """Yield the records of all splits but these."""
        for number in list(self._segments):
            yield from self._of(number, lambda names: [row for row, name in enumerate(names) if name not in splits])

    def append(self, records: Sequence[SplitRecord]) -> None:
        """Write records, which replace earlier ones of their splits."""
        for record in records:
            self.drop(record.split)
        data = b"".join(_line(record) + b"\n" for record in records)
        number, name = self._next, f"{self._folder}/{self._next:06d}{_WRITTEN}"
        self._directory.write(name, data)
        self._next += 1
        keys = np.fromiter((_key(record.split) for record in records), np.uint64, len(records))
        self._segments[number] = _Segment(name, len(records), len(data))
        self._index(keys, _places(number, len(records)))
        self._tiers[0].append(number)
        self._join_tiers()

    def drop(self, split: str) -> None:
        """Forget the record of a split, which stays on disk until `compact`."""
        while (place := self._place(split)) is not None:
            self._segments[place >> 32].drop(place & 0xFFFFFFFF)

    def compact(self) -> None:
        """Join segments, and remove invalid records and damaged files."""
        partial = [number for number, segment in self._segments.items() if segment.dropped is not None]
        small = [number for number, segment in self._segments.items() if not segment.full and number not in partial]
        rewritten = [*partial, *small]
        if partial or len(small) > 1:
            self._tiers = [[number for number in self._join(sorted(rewritten)) if not self._segments[number].full]]
        self._directory.remove(self.damaged)

    # Read

    def _place(self, split: str) -> int | None:
        """Return the place of the valid record of a split; None if there is none."""
        key = np.uint64(_key(split))
        places: list[int] = []
        for keys, of_keys in self._levels:
            start = int(keys.searchsorted(key))
            while start < len(keys) and keys[start] == key:
                places.append(int(of_keys[start]))
                start += 1
        for place in sorted(places, reverse=True):
            segment = self._segments.get(place >> 32)
            if segment is not None and segment.has(place & 0xFFFFFFFF) and self._name(place) == split:
                return place
        return None

    def _name(self, place: int) -> str:
        """Return the split of the record at a place."""
        return cast(str, self._group(place)[0][(place & 0xFFFFFFFF) % _GROUP])

    def _record(self, place: int) -> SplitRecord:
        return _decoded(*(column[(place & 0xFFFFFFFF) % _GROUP] for column in self._group(place)))

    def _group(self, place: int) -> list[list[Any]]:
        """Return the columns, without the first, of the group of records that a place is in."""
        number, group = place >> 32, (place & 0xFFFFFFFF) // _GROUP

        def read() -> list[list[Any]]:
            file = self._file(number)
            rows = file.slice(group * _GROUP, _GROUP) if isinstance(file, pa.Table) else file.read_row_group(group)
            return [column.to_pylist() for column in rows.columns[1:]]

        return _kept(self._groups, (number, group), _GROUPS, read)

    def _of(self, number: int, choose: Callable[[list[str]], Iterable[int]]) -> Iterator[SplitRecord]:
        """Yield chosen valid records of a segment.

        Args:
            number: number of the segment.
            choose: chooses rows, by the splits of all rows.
        """
        segment = self._segments[number]
        file = self._file(number)
        table = file if isinstance(file, pa.Table) else file.read(columns=["split"])
        names = table.column("split").to_pylist()
        for row in choose(names):
            if segment.has(row):
                yield self._record(number << 32 | row)

    def _file(self, number: int) -> pq.ParquetFile | pa.Table:
        """Return a segment, of which only the needed parts are read."""

        def read() -> pq.ParquetFile | pa.Table:
            data, name = self._data(number), self._segments[number].name
            return _parsed(data) if name.endswith(_WRITTEN) else pq.ParquetFile(pa.BufferReader(data))

        return _kept(self._files, number, _FILES, read)

    def _data(self, number: int) -> bytes:
        """Return the content of a segment, which was undamaged when it was loaded.

        Raises:
            DataError: the segment has changed since.
        """
        name = self._segments[number].name
        data = self._directory.read(name) or b""
        if name.endswith(_JOINT) and not _is_whole(name, data):
            path = self._directory.path(name)
            raise DataError(f"{path!r} changed while a run read it; run again with resume=True")
        return data

    # Load and write

    def _load(self, names: Sequence[str]) -> None:
        all_keys: list[_Keys] = []
        all_places: list[_Places] = []
        for name in names:
            try:
                data = self._directory.read(name) or b""
                keys, nbytes = _check(name, data)
            except _DamagedError:
                self.damaged.append(name)
                continue
            number = _number(name)
            self._segments[number] = _Segment(name, len(keys), nbytes)
            all_keys.append(keys)
            all_places.append(_places(number, len(keys)))
        if all_keys:
            self._index(np.concatenate(all_keys), np.concatenate(all_places))
            self._drop_earlier()
        self._tiers = [[number for number, segment in self._segments.items() if not segment.full]]

    def _drop_earlier(self) -> None:
        """Drop all records of a split but the last; a run that is killed while it joins segments leaves several."""
        keys, places = self._levels[0]
        repeated = np.flatnonzero(keys[1:] == keys[:-1])
        seen: set[str] = set()
        for place in sorted(places[np.union1d(repeated, repeated + 1)].tolist(), reverse=True):
            name = self._name(place)
            if name in seen:
                self._segments[place >> 32].drop(place & 0xFFFFFFFF)
            seen.add(name)

    def _index(self, keys: _Keys, places: _Places) -> None:
        """Add records to the index, of whose levels each has at least twice as many records as the next."""
        order = np.argsort(keys, kind="stable")
        self._levels.append((keys[order], places[order]))
        while len(self._levels) > 1 and len(self._levels[-2][0]) < 2 * len(self._levels[-1][0]):
            (keys, places), (more_keys, more_places) = self._levels[-2:]
            keys, places = np.concatenate([keys, more_keys]), np.concatenate([places, more_places])
            present = np.isin(places >> 32, np.fromiter(self._segments, np.int64, len(self._segments)))
            keys, places = keys[present], places[present]
            order = np.argsort(keys, kind="stable")
            self._levels[-2:] = [(keys[order], places[order])]

    def _join_tiers(self) -> None:
        tier = 0
        while tier < len(self._tiers):
            members = [self._segments[number] for number in self._tiers[tier]]
            full = _Segment("", sum(member.rows for member in members), sum(member.nbytes for member in members)).full
            if len(members) < JOINED and not (full and len(members) > 1):
                return
            joined = self._join(self._tiers[tier])
            self._tiers[tier] = []
            if tier + 1 == len(self._tiers):
                self._tiers.append([])
            self._tiers[tier + 1] += [number for number in joined if not self._segments[number].full]
            tier += 1

    def _join(self, numbers: Sequence[int]) -> list[int]:
        """Write the valid records of segments to new full segments and a last one; return their numbers."""
        joined: list[int] = []
        tables: list[pa.Table] = []
        removed = [self._segments[number].name for number in numbers]
        for number in numbers:
            file = self._file(number)
            table = file if isinstance(file, pa.Table) else file.read()
            dropped = self._segments[number].dropped
            tables.append(table if dropped is None else table.filter(pa.array(~dropped)))
            if sum(map(len, tables)) >= FULL_RECORDS or sum(part.nbytes for part in tables) >= FULL_BYTES:
                joined += self._write(tables)
                tables = []
        joined += self._write(tables)
        for number in numbers:
            self._segments.pop(number, None)
        self._directory.remove(removed)
        return joined

    def _write(self, tables: Sequence[pa.Table]) -> list[int]:
        """Write a segment with the records of tables, unless there are none; return its number in a list."""
        if not sum(map(len, tables)):
            return []
        table = pa.concat_tables(tables)
        data = _packed(table)
        number, name = self._next, f"{self._folder}/{self._next:06d}-{zlib.crc32(data):08x}{_JOINT}"
        self._directory.write(name, data)
        self._next += 1
        self._segments[number] = _Segment(name, len(table), table.nbytes)
        self._index(table.column("key").to_numpy(), _places(number, len(table)))
        return [number]


def _kept(cache: OrderedDict[Any, _Kept], key: Any, most: int, make: Callable[[], _Kept]) -> _Kept:
    """Return a value of a cache that keeps the latest ones.

    Args:
        cache: the cache.
        key: key of the value.
        most: largest number of values.
        make: makes a value that is not in the cache.
    """
    if key not in cache:
        cache[key] = make()
        while len(cache) > most:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]


def _number(name: str) -> int:
    digits = name.rpartition("/")[2].partition(".")[0].partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def _key(split: str) -> int:
    return int.from_bytes(hashlib.blake2b(split.encode(), digest_size=8).digest())


def _places(number: int, rows: int) -> _Places:
    return np.arange(rows, dtype=np.int64) + (number << 32)


def _line(record: SplitRecord) -> bytes:
    return orjson.dumps([record.split, record.version, record.files, record.stats, record.inputs])


def _decoded(split: str, version: str, files: list[str], stats: bytes, inputs: list[str]) -> SplitRecord:
    return SplitRecord(split, version, tuple(files), tuple(orjson.loads(stats)), tuple(inputs))


def _parsed(data: bytes) -> pa.Table:
    """Return the columns of a segment of JSON lines.

    Raises:
        _DamagedError: the segment is damaged.
    """
    lines = data.split(b"\n")
    if lines.pop():
        raise _DamagedError
    rows: list[tuple[Any, ...]] = []
    try:
        for line in lines:
            split, version, files, stats, *inputs = orjson.loads(line)  # earlier versions did not name the inputs
            rows.append((_key(split), split, version, files, orjson.dumps(stats), *(inputs or [[]])))
        if not rows:
            return _SCHEMA.empty_table()
        columns = zip(zip(*rows, strict=True), _SCHEMA.types, strict=True)
        return pa.Table.from_arrays([pa.array(column, kind) for column, kind in columns], schema=_SCHEMA)
    except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise _DamagedError from error


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    compressed = ["split", "version", "files.list.element", "stats", "inputs.list.element"]
    pq.write_table(
        table.cast(_SCHEMA),
        sink,
        row_group_size=_GROUP,
        compression=dict.fromkeys(compressed, "zstd") | {"key": "none"},
        use_dictionary=["version"],
        write_statistics=False,
    )
    return cast(bytes, sink.getvalue().to_pybytes())


def _check(name: str, data: bytes) -> tuple[_Keys, int]:
    """Return the hashes of the splits of a segment, and its size in memory.

    Raises:
        _DamagedError: the segment is damaged.
    """
    if name.endswith(_WRITTEN):
        table = _parsed(data)
        return table.column("key").to_numpy(), table.nbytes
    if not _is_whole(name, data):
        raise _DamagedError
    file = pq.ParquetFile(pa.BufferReader(data))
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    return file.read(columns=["key"]).column(0).to_numpy(), sum(group.total_byte_size for group in groups)


def _is_whole(name: str, data: bytes) -> bool:
    """Return whether a joined segment has the checksum in its name."""
    return name.endswith(f"-{zlib.crc32(data):08x}{_JOINT}")

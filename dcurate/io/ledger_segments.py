"""The segments of a ledger: files that never change, and are joined to larger ones."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.ledger import SplitRecord
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.io.ledger_files import (
    GROUP,
    JOINT,
    WRITTEN,
    DamagedSegmentError,
    JointSegment,
    check,
    decoded,
    is_whole,
    key_of_split,
    line_of,
    parsed,
)
from dcurate.io.ledger_index import Keys, Places, RecordIndex

#: Number of segments that are joined to one, so that a long run leaves few files.
JOINED = 64

#: Records and bytes in memory from which on a segment is full, and not joined to others.
FULL_RECORDS, FULL_BYTES = 32_768, 64 * 2**20

#: Records that are added to the index together.
_INDEXED = 2**20

#: Number of groups and of whole files that are kept in memory.
_GROUPS, _FILES = 16, 4

_Kept = TypeVar("_Kept")


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
    """Records of finished splits in files of a folder, with an index of 16 bytes for each in the temporary folder.

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
        self._index = RecordIndex(self._is_present)
        self._files: OrderedDict[int, pq.ParquetFile | pa.Table] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int], list[list[Any]]] = OrderedDict()
        names = [name for name in directory.files(folder) if name.endswith((WRITTEN, JOINT))]
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
        data = b"".join(line_of(record) + b"\n" for record in records)
        number, name = self._next, f"{self._folder}/{self._next:06d}{WRITTEN}"
        self._directory.write(name, data)
        self._next += 1
        keys = np.fromiter((key_of_split(record.split) for record in records), np.uint64, len(records))
        self._segments[number] = _Segment(name, len(records), len(data))
        self._index.add(keys, _places(number, len(records)))
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
        for place in self._index.find(key_of_split(split)):
            segment = self._segments.get(place >> 32)
            if segment is not None and segment.has(place & 0xFFFFFFFF) and self._name(place) == split:
                return place
        return None

    def _name(self, place: int) -> str:
        """Return the split of the record at a place."""
        return cast(str, self._group(place)[0][(place & 0xFFFFFFFF) % GROUP])

    def _record(self, place: int) -> SplitRecord:
        return decoded(*(column[(place & 0xFFFFFFFF) % GROUP] for column in self._group(place)))

    def _group(self, place: int) -> list[list[Any]]:
        """Return the columns, without the first, of the group of records that a place is in."""
        number, group = place >> 32, (place & 0xFFFFFFFF) // GROUP

        def read() -> list[list[Any]]:
            file = self._file(number)
            rows = file.slice(group * GROUP, GROUP) if isinstance(file, pa.Table) else file.read_row_group(group)
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
            return parsed(data) if name.endswith(WRITTEN) else pq.ParquetFile(pa.BufferReader(data))

        return _kept(self._files, number, _FILES, read)

    def _data(self, number: int) -> bytes:
        """Return the content of a segment, which was undamaged when it was loaded.

        Raises:
            DataError: the segment has changed since.
        """
        name = self._segments[number].name
        data = self._directory.read(name) or b""
        if name.endswith(JOINT) and not is_whole(name, data):
            path = self._directory.path(name)
            raise DataError(f"{path!r} changed while a run read it; run again with resume=True")
        return data

    # Load and write

    def _load(self, names: Sequence[str]) -> None:
        keys: list[Keys] = []
        places: list[Places] = []
        for name in names:
            try:
                data = self._directory.read(name) or b""
                of_segment, nbytes = check(name, data)
            except DamagedSegmentError:
                self.damaged.append(name)
                continue
            number = _number(name)
            self._segments[number] = _Segment(name, len(of_segment), nbytes)
            keys.append(of_segment)
            places.append(_places(number, len(of_segment)))
            if sum(map(len, keys)) >= _INDEXED:
                self._index.add(np.concatenate(keys), np.concatenate(places))
                keys, places = [], []
        if keys:
            self._index.add(np.concatenate(keys), np.concatenate(places))
        self._drop_earlier()
        self._tiers = [[number for number, segment in self._segments.items() if not segment.full]]

    def _drop_earlier(self) -> None:
        """Drop all records of a split but the last; a run that is killed while it joins segments leaves several."""
        seen: set[str] = set()
        for place in sorted(set(self._index.repeated()), reverse=True):
            name = self._name(place)
            if name in seen:
                self._segments[place >> 32].drop(place & 0xFFFFFFFF)
            seen.add(name)

    def _is_present(self, places: Places) -> npt.NDArray[np.bool_]:
        """Return which places are in segments that exist."""
        return np.isin(places >> 32, np.fromiter(self._segments, np.int64, len(self._segments)))

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
        """Join segments to new full ones and a last one, and remove them; return the numbers of the new ones."""
        removed = [self._segments[number].name for number in numbers]
        joined = self._write_joined(numbers)
        for number in numbers:
            self._segments.pop(number, None)
            self._files.pop(number, None)
        for place in [place for place in self._groups if place[0] not in self._segments]:
            del self._groups[place]
        self._directory.remove(removed)
        pa.default_memory_pool().release_unused()  # Arrow keeps some ten MB for the next join, which is far away
        return joined

    def _write_joined(self, numbers: Sequence[int]) -> list[int]:
        """Write the valid records of segments to new full segments and a last one; return their numbers."""
        joined: list[int] = []
        joint = JointSegment()
        for number in numbers:
            for table in self._valid_of(number):
                joint.add(table)
            if joint.rows >= FULL_RECORDS or joint.nbytes >= FULL_BYTES:
                joined.append(self._write(joint))
                joint = JointSegment()
        if joint.rows:
            joined.append(self._write(joint))
        return joined

    def _valid_of(self, number: int) -> Iterator[pa.Table]:
        """Yield the valid records of a segment, a group at a time."""
        file, dropped = self._file(number), self._segments[number].dropped
        for start in range(0, self._segments[number].rows, GROUP):
            rows = file.slice(start, GROUP) if isinstance(file, pa.Table) else file.read_row_group(start // GROUP)
            yield rows if dropped is None else rows.filter(pa.array(~dropped[start : start + GROUP]))

    def _write(self, joint: JointSegment) -> int:
        """Write a joined segment; return its number."""
        data, keys = joint.finish()
        number, name = self._next, f"{self._folder}/{self._next:06d}-{zlib.crc32(data):08x}{JOINT}"
        self._directory.write(name, data)
        self._next += 1
        self._segments[number] = _Segment(name, joint.rows, joint.nbytes)
        self._index.add(keys, _places(number, joint.rows))
        return number


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


def _places(number: int, rows: int) -> Places:
    return np.arange(rows, dtype=np.int64) + (number << 32)

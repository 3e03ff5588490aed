"""The two forms of a segment of a ledger: JSON lines as they are written, and Parquet as they are joined."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.ledger import SplitRecord
from dcurate.io.ledger_index import Keys

#: Records of a group, which are written and read together.
GROUP = 1_024

#: How the names of written and of joined segments end.
WRITTEN, JOINT = ".jsonl", ".parquet"

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
_COMPRESSED = ("split", "version", "files.list.element", "stats", "inputs.list.element")


class DamagedSegmentError(Exception):
    """The content of a segment differs from what was written."""


class JointSegment:
    """Builds a joined segment, with the records of one group in memory, beside what is compressed.

    Attributes:
        rows: number of records so far.
        nbytes: size of the records in memory, in bytes.
    """

    def __init__(self) -> None:
        self.rows = self.nbytes = 0
        self._keys: list[Keys] = []
        self._waiting: list[pa.Table] = []
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            _SCHEMA,
            compression=dict.fromkeys(_COMPRESSED, "zstd") | {"key": "none"},
            use_dictionary=["version"],
            write_statistics=False,
        )

    def add(self, table: pa.Table) -> None:
        """Add records."""
        self.rows += len(table)
        self.nbytes += table.nbytes
        self._keys.append(table.column("key").to_numpy().copy())
        self._waiting.append(table)
        waiting = sum(map(len, self._waiting))
        if waiting >= GROUP:
            self._write(waiting - waiting % GROUP)

    def finish(self) -> tuple[bytes, Keys]:
        """Return the content of the segment, and the hashes of the splits, in the order of the records."""
        self._write(sum(map(len, self._waiting)))
        self._writer.close()
        return cast(bytes, self._sink.getvalue().to_pybytes()), np.concatenate(self._keys)

    def _write(self, rows: int) -> None:
        """Write the first rows of those that wait."""
        if rows:
            table = pa.concat_tables(self._waiting)
            self._writer.write_table(table.slice(0, rows).cast(_SCHEMA), row_group_size=GROUP)
            self._waiting = [table.slice(rows)] if len(table) > rows else []


def key_of_split(split: str) -> int:
    """Return the hash of the name of a split."""
    return int.from_bytes(hashlib.blake2b(split.encode(), digest_size=8).digest())


def line_of(record: SplitRecord) -> bytes:
    """Return a record as a line of a written segment, without the line break."""
    return orjson.dumps([record.split, record.version, record.files, record.stats, record.inputs])


def decoded(split: str, version: str, files: list[str], stats: bytes, inputs: list[str]) -> SplitRecord:
    """Return the record of the values of a row, without the hash."""
    return SplitRecord(split, version, tuple(files), tuple(orjson.loads(stats)), tuple(inputs))


def parsed(data: bytes) -> pa.Table:
    """Return the columns of a segment of JSON lines.

    Raises:
        DamagedSegmentError: the segment is damaged.
    """
    lines = data.split(b"\n")
    if lines.pop():
        raise DamagedSegmentError
    rows: list[tuple[Any, ...]] = []
    try:
        for line in lines:
            split, version, files, stats, *inputs = orjson.loads(line)  # earlier versions did not name the inputs
            rows.append((key_of_split(split), split, version, files, orjson.dumps(stats), *(inputs or [[]])))
        if not rows:
            return _SCHEMA.empty_table()
        columns = zip(zip(*rows, strict=True), _SCHEMA.types, strict=True)
        return pa.Table.from_arrays([pa.array(column, kind) for column, kind in columns], schema=_SCHEMA)
    except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise DamagedSegmentError from error


def check(name: str, data: bytes) -> tuple[Keys, int]:
    """Return the hashes of the splits of a segment, and its size in memory.

    Raises:
        DamagedSegmentError: the segment is damaged.
    """
    if name.endswith(WRITTEN):
        table = parsed(data)
        return table.column("key").to_numpy(), table.nbytes
    if not is_whole(name, data):
        raise DamagedSegmentError
    file = pq.ParquetFile(pa.BufferReader(data))
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    return file.read(columns=["key"]).column(0).to_numpy(), sum(group.total_byte_size for group in groups)


def is_whole(name: str, data: bytes) -> bool:
    """Return whether a joined segment has the checksum in its name."""
    return name.endswith(f"-{zlib.crc32(data):08x}{JOINT}")

"""The columns that describe the documents of a corpus: URLs, languages, sizes, dates; without the texts, of Parquet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.io.corpus_values import (
    as_role,
    has_lengths,
    is_of_rights,
    kind_of,
    length_of,
    numbers_of,
    plain_value,
    simple_type,
    suits,
    type_of,
)
from dcurate.io.files import PARQUET
from dcurate.io.folder_columns import folder_columns
from dcurate.io.rows import numbered_lines, open_parquet
from dcurate.rows.lines import parsed_line

#: What a column says of documents, and the names that it usually has; the first one that a file has is taken.
ROLES: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "content", "messages"),
    "url": ("url", "source_url", "page_url"),
    "date": ("date", "crawl_date", "warc_date"),
    "language": ("language", "lang", "content_language"),
    "licence": ("rights_licences", "licence", "license", "licences"),
    "source": ("source", "dataset", "source_name"),
    "tokens": ("n_tokens", "token_count", "num_tokens", "tokens"),
    "bytes": ("text_bytes", "content_bytes", "n_bytes", "nbytes", "size"),
    "duration": ("duration", "duration_s"),
    "mime": ("mime_type", "media_type"),
    "file": ("file_name",),
    "synthetic": ("synthetic", "is_synthetic"),
    "stage": ("_dcurate_stage",),
    "reason": ("_dcurate_reason",),
}
_ROWS = 2**16
#: Lines of JSON that are counted at a time, and the most bytes of them.
_LINES, _LINE_BYTES = 2**12, 2**24
#: Columns of a file of JSON Lines that are noted, and columns of rights that are counted; more are an accident.
_COLUMNS, _OF_RIGHTS = 10_000, 50
#: The longest value of a column of text that is counted by itself; URLs are not cut.
LONGEST = 200


@dataclass(frozen=True)
class DescribedRows:
    """Some rows of a file.

    Attributes:
        rows: how many.
        columns: columns by role, each of one type: ``tokens`` and ``bytes`` are int64, ``duration`` int64 of
            milliseconds, ``synthetic`` bool, the others text. A role without a column is missing. Columns of rights are
            there by their names, see `is_of_rights`.
        text_bytes: bytes of each row's text; null for a row without. None if the file has no such column.
        present: for columns that are only looked at, whether each row has a value.
    """

    rows: int
    columns: dict[str, pa.Array]
    text_bytes: pa.Array | None = None
    present: dict[str, pa.Array] = field(default_factory=dict)


@dataclass
class FileColumns:
    """The describing columns of one file.

    Args:
        directory: where it is.
        name: its name there.
        chosen: columns by role, instead of those in `ROLES`.
        looked_at: columns of which only counts whether a row has a value.
        read_texts: whether the texts of Parquet files are read, for their exact sizes.
    """

    directory: Directory
    name: str
    chosen: Mapping[str, str] = field(default_factory=dict)
    looked_at: tuple[str, ...] = ()
    read_texts: bool = False
    #: What is known once the pieces were read: names by role, whether sizes of texts are exact, bytes that were read.
    names: dict[str, str] = field(default_factory=dict)
    exact: bool = True
    bytes_read: int = 0
    #: Names and types of all columns, as far as they were seen.
    types: dict[str, str] = field(default_factory=dict)

    def pieces(self) -> Iterator[DescribedRows]:
        """Yield the rows of the file.

        Raises:
            DataError: it cannot be read.
        """
        self._folders = folder_columns(self.name)
        yield from self._parquet() if PARQUET.matches(self.name) else self._json()

    def _roles(self, columns: Collection[str], types: Mapping[str, pa.DataType] | None = None) -> dict[str, str]:
        """The columns of a file by role: the first one that is there and, by its type, suits."""

        def takes(role: str, name: str) -> bool:
            there = name in columns and (types is None or suits(role, types[name]))
            return there or (name in self._folders and role != "text")

        names = {}
        for role, usual in ROLES.items():
            wanted = (self.chosen[role],) if role in self.chosen else usual
            name = next((name for name in wanted if takes(role, name)), None)
            if name is not None:
                names[role] = name
        of_rights = (name for name in columns if is_of_rights(name) and takes(name, name))
        return names | {name: name for name in islice(of_rights, _OF_RIGHTS)}

    # Parquet

    def _parquet(self) -> Iterator[DescribedRows]:
        with open_parquet(self.directory, self.name) as file:
            schema = file.schema_arrow
            self.types = {column.name: simple_type(column.type) for column in schema}
            types = {column.name: column.type for column in schema if schema.names.count(column.name) == 1}
            self.names = self._roles(types, types)
            self.bytes_read += file.metadata.serialized_size
            text = self.names.get("text", "")
            in_text = self.read_texts and text in types and has_lengths(types[text])
            self.exact = in_text or not text
            wanted = {name for role, name in self.names.items() if role != "text" or in_text}
            wanted |= {name for name in self.looked_at if name in types and name != text}
            projected = [name for name in schema.names if name in wanted]
            for group in range(file.num_row_groups):
                self.bytes_read += _stored_bytes(file.metadata.row_group(group), set(projected))
                yield from self._group(file, group, projected, in_text)

    def _group(self, file: pq.ParquetFile, group: int, projected: list[str], in_text: bool) -> Iterator[DescribedRows]:
        about, text = file.metadata.row_group(group), self.names.get("text")
        spread = None
        if text is not None and not in_text:
            spread = _Spread(_plain_bytes(about, text), about.num_rows)
            weights = self.names.get("tokens")
            if weights in projected:
                read = file.read_row_group(group, columns=[weights])
                spread.weigh(numbers_of(read.column(0).combine_chunks()))
        if not projected:
            for start in range(0, about.num_rows, _ROWS):
                rows = min(_ROWS, about.num_rows - start)
                lengths = None if spread is None else spread.next(rows, None)
                present = {} if lengths is None or text not in self.looked_at else {text: lengths.is_valid()}
                yield DescribedRows(rows, self._of_folders(rows), lengths, present)
            return
        for batch in file.iter_batches(_ROWS, row_groups=[group], columns=projected):
            columns = {
                role: as_role(role, batch.column(name))
                for role, name in self.names.items()
                if role != "text" and name in batch.schema.names
            }
            lengths = None
            if spread is not None:
                lengths = spread.next(batch.num_rows, columns.get("tokens"))
            elif in_text and text is not None:
                lengths = pc.cast(pc.binary_length(batch.column(text)), pa.int64())
            present = {name: batch.column(name).is_valid() for name in self.looked_at if name in batch.schema.names}
            if lengths is not None and text in self.looked_at:
                present[text] = lengths.is_valid()
            yield DescribedRows(batch.num_rows, self._of_folders(batch.num_rows) | columns, lengths, present)

    # JSON Lines

    def _json(self) -> Iterator[DescribedRows]:
        for block in _blocks(numbered_lines(self.directory, self.name)):
            rows = [self._row(line, number) for number, line in block]
            self.bytes_read += sum(len(line) + 1 for _, line in block)
            keys = dict.fromkeys(key for row in rows for key in row)
            self._note_types(rows)
            names = self._roles(keys)
            self.names = {**names, **self.names}
            columns = {
                role: pa.array([plain_value(role, row.get(name)) for row in rows], type_of(role))
                for role, name in names.items()
                if role != "text" and name in keys
            }
            lengths = None
            if "text" in names:
                lengths = pa.array([length_of(row.get(names["text"])) for row in rows], pa.int64())
            present = {
                name: pa.array([row.get(name) is not None for row in rows]) for name in self.looked_at if name in keys
            }
            yield DescribedRows(len(rows), self._of_folders(len(rows)) | columns, lengths, present)

    def _note_types(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            for key, value in row.items():
                known = self.types.get(key)
                if known == "null" or (known is None and len(self.types) < _COLUMNS):
                    self.types[key] = kind_of(value)

    def _row(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = parsed_line(line)
        except (ValueError, RecursionError) as error:
            path = self.directory.path(self.name)
            raise DataError(f"{path!r}, row {number}: {error}; is it JSON Lines?") from error
        return row if isinstance(row, dict) else {}

    def _of_folders(self, rows: int) -> dict[str, pa.Array]:
        """Columns that are in the names of folders, such as ``language=en``."""
        return {
            role: pa.array([plain_value(role, self._folders[name])] * rows, type_of(role))
            for role, name in self.names.items()
            if name in self._folders
        }


def _blocks(lines: Iterator[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    block, nbytes = list[tuple[int, bytes]](), 0
    for line in lines:
        block.append(line)
        nbytes += len(line[1])
        if len(block) == _LINES or nbytes >= _LINE_BYTES:
            yield block
            block, nbytes = [], 0
    if block:
        yield block


@dataclass
class _Spread:
    """Bytes of a row group, divided among its rows by weight; all parts together are all bytes."""

    nbytes: int
    rows: int
    weight: float = 0.0
    _before: float = 0.0

    def weigh(self, weights: pa.Array) -> None:
        """Divide by these weights instead of evenly, if all rows have one and any is above 0."""
        self.weight = 0.0 if weights.null_count else float(pc.sum(weights).as_py() or 0)

    def next(self, rows: int, weights: pa.Array | None) -> pa.Array:
        """Return the bytes of the next rows."""
        if weights is None or not self.weight:
            parts, total = np.ones(rows), float(self.rows)
        else:
            parts, total = weights.fill_null(0).to_numpy(zero_copy_only=False).astype(float), self.weight
        ends = self._before + np.cumsum(parts)
        starts = np.concatenate([[self._before], ends[:-1]])
        self._before = float(ends[-1]) if rows else self._before
        return pa.array((_share(self.nbytes, ends, total) - _share(self.nbytes, starts, total)).astype(np.int64))


def _share(nbytes: int, weights: Any, total: float) -> Any:
    return np.floor(nbytes * (weights / total))


def _plain_bytes(group: pq.RowGroupMetaData, name: str) -> int:
    """Bytes of a column in a row group before compression, by the footer of its file."""
    return sum(
        chunk.total_uncompressed_size
        for chunk in map(group.column, range(group.num_columns))
        if _is_of(chunk.path_in_schema, {name})
    )


def _stored_bytes(group: pq.RowGroupMetaData, names: set[str]) -> int:
    return sum(
        chunk.total_compressed_size
        for chunk in map(group.column, range(group.num_columns))
        if _is_of(chunk.path_in_schema, names)
    )


def _is_of(path: str, names: set[str]) -> bool:
    """Whether a path in a schema is that of a column, or of what is nested in it; names may have dots themselves."""
    return path in names or any(path.startswith(f"{name}.") for name in names)

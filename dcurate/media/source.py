"""The base of readers of media: rows that refer to files, in batches of a bounded number of their bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from dcurate.core.batch import FileGroup, FilePart, Rejection
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import fitted, one_chunk
from dcurate.fs.errors import storage_errors
from dcurate.io.files import Format, SourceFile
from dcurate.io.partition import Partitioning
from dcurate.io.source import FileReader
from dcurate.media import tar
from dcurate.media.containers import LostPart
from dcurate.media.faults import FAULT
from dcurate.media.names import compression_of, container_of
from dcurate.media.reference import MEDIA_REF, type_of_values
from dcurate.redaction import without_secrets

#: Bytes of media that the rows of a batch refer to, about, and its rows at most.
BATCH_BYTES, BATCH_ROWS = 2**26, 4096
#: A plain tar archive of more bytes is cut, on the driver, by its headers.
LARGE_TAR = 2**30
#: Rows that are made into a table at once.
_ROWS = 2**14

LOST = pa.schema(
    [
        ("file_name", pa.string()),
        ("media_ref", MEDIA_REF),
        ("container", pa.string()),
        ("url", pa.string()),
        (FAULT, pa.string()),
    ]
)


class SourceRow(NamedTuple):
    """A row, with the bytes of media that it refers to."""

    values: dict[str, Any]
    nbytes: int
    fault: str = ""
    detail: str = ""


class _TablePiece(NamedTuple):
    """Rows of one part that are in one table."""

    table: pa.Table
    sizes: list[int]
    whole: bool


@dataclass
class MediaSource(FileReader):
    """A source of rows that refer to media; see the readers made of it."""

    filters_rows: ClassVar[bool] = False

    def is_fanout_stage(self) -> bool:
        return True

    def splits(self) -> Iterator[FileGroup]:
        """The splits of the input, in path order: small files together, large archives cut between two samples.

        Raises:
            DataError: nothing to read, or it cannot be listed.
        """
        return super().splits()

    def process(self, task: FileGroup) -> Any:
        """The rows of a split, in batches of about 64 MiB of media; None if there are none.

        Raises:
            DataError: a file cannot be read.
        """
        pieces: list[_TablePiece] = []
        lost: list[tuple[LostPart, str]] = []
        faults: list[tuple[SourceRow, pa.Schema]] = []
        left_out = Counter[str]()
        for is_plain, parts in groupby(task.parts, self._is_plain):
            if is_plain:
                pieces.append(self._plain(list(parts)))
                continue
            for part in parts:
                name = self._named(part)
                with storage_errors("read", part.path):
                    for table, rows in self._tables(part, name, lost, left_out):
                        good = [row for row in rows if not row.fault]
                        faults += [(row, table.schema) for row in rows if row.fault]
                        is_packed = bool(compression_of(part.path)) and self._container(part.path) not in ("", "warc")
                        pieces.append(_TablePiece(table, [row.nbytes for row in good], is_packed))
        return self._batches(task, pieces, [*_rejected_rows(self.name, faults), *rejected(self.name, lost)], left_out)

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about members that are left out, or cannot be read as text."""
        return [f"{number:,} {description}" for description, number in found.items()]

    @abstractmethod
    def _items(self, part: FilePart, name: str) -> Iterator[SourceRow | LostPart | str]:
        """The rows of a part, what of it is lost, and words for what is left out."""

    @abstractmethod
    def _schema_of(self, part: FilePart) -> pa.Schema:
        """The columns of the rows of a part."""

    def _tables(
        self, part: FilePart, name: str, lost: list[tuple[LostPart, str]], left_out: Counter[str]
    ) -> Iterator[tuple[pa.Table, list[SourceRow]]]:
        """The rows of a part as tables; what is lost and left out is added to the lists."""
        schema = self._schema_of(part)
        rows: list[SourceRow] = []
        for row in self._counted_items(part, name):
            if isinstance(row, LostPart):
                lost.append((row, name))
            elif isinstance(row, str):
                left_out[row] += 1
            else:
                rows.append(row)
                if len(rows) >= _ROWS:
                    yield _table(rows, schema), rows
                    rows = []
        if rows:
            yield _table(rows, schema), rows

    def _is_plain(self, part: FilePart) -> bool:
        """Whether a part is a file of its own, which is one row and need not be read."""
        return part.rows is None and not self._container(part.path)

    def _plain(self, parts: list[FilePart]) -> _TablePiece:
        """The rows of files of their own as one table."""
        items = (item for part in parts for item in self._items(part, self._named(part)))
        rows = [item for item in items if isinstance(item, SourceRow)]
        return _TablePiece(_table(rows, self._schema_of(parts[0])), [row.nbytes for row in rows], False)

    def _counted_items(self, part: FilePart, name: str) -> Iterator[SourceRow | LostPart | str]:
        items = self._items(part, name)
        return items if part.rows is None else islice(items, *part.rows)

    def _batches(
        self, task: FileGroup, pieces: list[_TablePiece], rejections: list[Rejection], left_out: Counter[str]
    ) -> Any:
        fixed = self._declared()
        shape = self._known()
        for piece in pieces:
            columns = [column for column in piece.table.schema if column.name not in fixed]
            shape = self._joined(shape, columns, str(task.key))
        schema = shape.schema(self.fields)
        batches = []
        for group in _groups(pieces):
            try:
                rows = one_chunk([fitted(table, schema) for table in group])
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise DataError(f"{task.key}: {error}; say the type of the column with schema=") from error
            batches.append(DocumentBatch(data=self._held(rows), key=task.key))
        if not batches and (rejections or left_out):
            batches = [DocumentBatch(data=self._held(schema.empty_table()), key=task.key)]
        if not batches:
            return None
        batches[0].rejections, batches[0].found = tuple(rejections), +left_out
        return batches if len(batches) > 1 else batches[0]

    def _counted(self, part: FilePart) -> list[FilePart]:
        with storage_errors("read", part.path):
            return [replace(part, rows=(0, sum(1 for _ in self._items(part, self._named(part)))))]

    def _cut(self, file: SourceFile, target: int) -> list[int]:
        kind = self._container(file.path)
        if kind == "tar" and not compression_of(file.path):
            target = target if self.blocksize is not None else LARGE_TAR
            return self._cut_tar(file, target) if file.size > target else []
        if (kind == "warc" and not file.path.lower().endswith(".arc")) or (
            kind == "lines" and not compression_of(file.path)
        ):
            parts = -(-file.size // target)
            return [number * file.size // parts for number in range(parts + 1)]
        return []

    def _cut_tar(self, file: SourceFile, target: int) -> list[int]:
        store, path = self._store(file.path)
        with storage_errors("read", file.path), tar.opened(store, path, file.size) as window:
            return tar.bounds(window, file.size, target, self._sample_of)

    def _container(self, path: str) -> str:
        """The kind of container that a file is; empty for a file of its own."""
        return container_of(path)

    def _sample_of(self, name: str) -> str:
        return name

    def _partitioning(self) -> Partitioning:
        blocksize = BATCH_BYTES if self.blocksize is None and self.files_per_partition is None else self.blocksize
        return Partitioning(self.files_per_partition, blocksize, self.large)

    def _head(self, file: SourceFile) -> pa.Schema | None:
        return self._schema_of(FilePart(file.path, size=file.size, version=file.version))

    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        if kwargs:
            raise PipelineError(f"{self.name}: read_kwargs {listed(kwargs)} mean nothing here; leave them out")


@dataclass(frozen=True)
class AnyOf(Format):
    """Files with some endings, or all files."""

    def matches(self, path: str) -> bool:
        return not self.suffixes or path.lower().endswith(self.suffixes)


def _table(rows: Iterable[SourceRow], schema: pa.Schema) -> pa.Table:
    values = [row.values for row in rows if not row.fault]
    place = schema.get_field_index("media_ref")
    kind = type_of_values(value["media_ref"] for value in values)
    if kind != MEDIA_REF and place >= 0:
        schema = schema.set(place, pa.field("media_ref", kind))
    return pa.Table.from_pylist(values, schema)


def _groups(pieces: Sequence[_TablePiece]) -> Iterator[list[pa.Table]]:
    """The rows of pieces in batches; those of a compressed archive, which is read in turn, stay together."""
    group: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        start = 0
        for place, nbytes in enumerate(piece.sizes):
            if rows and not piece.whole and (size + nbytes > BATCH_BYTES or rows >= BATCH_ROWS):
                yield [*group, *([piece.table.slice(start, place - start)] if place > start else [])]
                group, rows, size, start = [], 0, 0, place
            rows, size = rows + 1, size + nbytes
        if start < len(piece.sizes):
            group.append(piece.table.slice(start))
    if rows:
        yield group


def rejected(stage: str, lost: Iterable[tuple[LostPart, str]]) -> list[Rejection]:
    """What is lost, as rows for quarantine, by reason."""
    by_reason: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for part, container in lost:
        row = {
            "file_name": part.name or None,
            "media_ref": {**part.ref.value, "path": without_secrets(part.ref.path)},
            "container": container,
            "url": None if part.url is None else without_secrets(part.url),
            FAULT: part.fault.detail,
        }
        by_reason.setdefault((part.fault.reason, part.is_fault), []).append(row)
    return [
        _rejection(stage, reason, pa.Table.from_pylist(rows, LOST), is_fault)
        for (reason, is_fault), rows in by_reason.items()
    ]


def _rejected_rows(stage: str, faults: Iterable[tuple[SourceRow, pa.Schema]]) -> list[Rejection]:
    """Rows with faults, by reason."""
    by_reason: dict[tuple[str, pa.Schema], list[dict[str, Any]]] = {}
    for row, schema in faults:
        values = {**row.values, FAULT: row.detail}
        by_reason.setdefault((row.fault, schema), []).append(values)
    return [
        _rejection(stage, reason, pa.Table.from_pylist(rows, schema.append(pa.field(FAULT, pa.string()))), True)
        for (reason, schema), rows in by_reason.items()
    ]


def _rejection(stage: str, reason: str, data: pa.Table, is_fault: bool) -> Rejection:
    return Rejection(stage, reason, data.num_rows, data.nbytes, data, fault=is_fault)

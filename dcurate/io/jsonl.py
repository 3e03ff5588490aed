"""JSON Lines: a row a line, each a JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa

from dcurate.core.batch import FileGroup, FilePart, Rejection
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import Shape, TypeConflict, fitted, one_chunk
from dcurate.io import files, stores
from dcurate.io.compression import ending_of, head, unpack
from dcurate.io.json_parse import BadLine, Wanted, parse_clean, parse_lines
from dcurate.io.source import FileReader

_HEAD = 2**18
_LONGEST_HEAD = 2**26
_PIECE = 2**29
_READ_AHEAD = 2**16
_COUNTED = 2**30
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FAULTS = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("byte", pa.int64()), ("error", pa.string()), ("raw", pa.string())]
)


class _Piece(NamedTuple):
    """Whole lines of a file: which one is the first, and where it begins; the number is None where not known."""

    data: bytes
    line: int | None
    start: int


@dataclass
class JsonlReader(FileReader):
    """Read JSON Lines, plain or compressed (``.gz .bz2 .zst .xz``).

    Types are those of the JSON values: text that looks like a date stays text, whole numbers beside
    others become floats, a column that a line lacks is null there. Plain files larger than 128 MiB (or than
    ``blocksize``) are cut at line ends and read in parallel.

    Args:
        file_paths: files, directories (searched to the bottom) and globs, local or URLs.
        files_per_partition: so many files are one split.
        blocksize: split size, as bytes or ``"128MiB"``: larger files are cut, smaller ones packed.
        fields: the only columns to keep, in this order.
        read_kwargs: for pipelines written for pandas: ``lines=True``, ``orient="records"`` and
            ``storage_options`` are taken, all else is refused.
        storage_options: for fsspec.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without lines that cannot be read and
            keep them in quarantine.
        schema: types of columns by name where they are not to be guessed, such as ``{"id": "string"}``.
        limit: read only the first so many splits.

    Raises:
        PipelineError: settings that do not go together.
    """

    on_bad_line: Literal["raise", "quarantine"] = "raise"
    schema: Any = None
    name: str = "jsonl_reader"
    limit: int | None = None

    kind: ClassVar[files.Format] = files.JSONL

    def __post_init__(self) -> None:
        if self.on_bad_line not in ("raise", "quarantine"):
            raise PipelineError(f"{self.name}: on_bad_line={self.on_bad_line!r} must be 'raise' or 'quarantine'")
        super().__post_init__()

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it holds no line at all.

        Raises:
            DataError: a file or line that cannot be read, or types that clash.
        """
        shape, tables, faults = self._known(), [], []
        for part in task.parts:
            name = self._named(part)
            for piece in self._pieces(part, name):
                table, bad = self._rows(piece, shape, name)
                shape = self._joined(shape, table.schema, name)
                tables.append(table)
                faults.extend(_fault(name, piece, line) for line in bad)
        schema = shape.schema(self.fields)
        try:
            rows = one_chunk([fitted(table, schema) for table in [*tables, schema.empty_table()]])
        except pa.ArrowInvalid as error:
            raise DataError(f"{task.key}: {error}; say the type of the column with schema=") from error
        if not rows.num_rows and not faults:
            return None
        batch = DocumentBatch(data=rows, key=task.key)
        if faults:
            data = pa.Table.from_pylist(faults, _FAULTS)
            batch.rejections = (Rejection(self.name, "malformed line", len(faults), data.nbytes, data, fault=True),)
        return batch

    def _rows(self, piece: _Piece, shape: Shape, name: str) -> tuple[pa.Table, list[BadLine]]:
        wanted = Wanted(shape, self._declared(), None if self.fields is None else tuple(self.fields))
        table = parse_clean(piece.data, wanted)
        if table is not None:
            table = table.select([column for column in self.fields or table.column_names if column in table.column_names])
            try:
                shape.joined(table.schema, name)
            except TypeConflict as conflict:
                if self.on_bad_line == "raise":
                    raise self._clash(conflict, name) from conflict
            else:
                return table, []
        table, bad = parse_lines(piece.data, wanted, name)
        if bad and self.on_bad_line == "raise":
            raise DataError(_complaint(name, piece, bad[0]))
        return table, bad

    def _pieces(self, part: FilePart, name: str) -> Iterator[_Piece]:
        store, path = self._store(part.path)
        with stores.told("read", part.path):
            if part.start or part.stop is not None:
                data, start = _lines_of_range(store, path, part)
                line = _lines_before(store, path, start) if start else 0
            else:
                data, start, line = unpack(store.cat_file(path), ending_of(path), name), 0, 0
        if data.startswith(_UTF16):
            raise DataError(f"{name} is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8) and try again")
        if not start:
            data = data.removeprefix(_BOM)
        for piece in _cut_at_lines(data):
            yield _Piece(piece, line, start)
            start += len(piece)
            line = None if line is None else line + piece.count(b"\n")

    def _cut(self, file: files.SourceFile, target: int) -> list[int]:
        if ending_of(file.path):
            return []
        parts = -(-file.size // target)
        return [number * file.size // parts for number in range(parts + 1)]

    def _head(self, file: files.SourceFile) -> pa.Schema | None:
        store, path = self._store(file.path)
        size, data = _HEAD, b""
        while size <= _LONGEST_HEAD:
            with stores.told("read", file.path), store.open(path, "rb", cache_type="readahead") as source:
                data = head(source, ending_of(path), size, file.name)
            if len(data) < size or b"\n" in data:
                break
            size *= 16
        if len(data) == size:
            data = data[: data.rfind(b"\n") + 1]
        wanted = Wanted(Shape(), self._declared())
        data = data.removeprefix(_BOM)
        table = parse_clean(data, wanted)
        table = parse_lines(data, wanted, file.name)[0] if table is None else table
        return table.schema if table.num_rows else None

    def _joined(self, shape: Shape, schema: Any, name: str) -> Shape:
        try:
            return shape.joined(schema, name)
        except TypeConflict as conflict:
            if self.on_bad_line == "raise":
                raise self._clash(conflict, name) from conflict
            return shape.joined([column for column in schema if column.name != conflict.column], name)

    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        taken = {"lines": True, "orient": "records"}
        refused = [name for name, value in kwargs.items() if name not in taken or taken[name] != value]
        if refused:
            raise PipelineError(
                f"{self.name}: read_kwargs {listed(refused)} mean nothing here, as lines are not read by pandas; "
                f"leave them out, and use fields= for columns and schema= for types"
            )


def _fault(name: str, piece: _Piece, bad: BadLine) -> dict[str, Any]:
    line = None if piece.line is None else piece.line + bad.number + 1
    raw = bad.raw.decode(errors="backslashreplace")
    return {"file": name, "line": line, "byte": piece.start + bad.offset, "error": bad.error, "raw": raw}


def _complaint(name: str, piece: _Piece, bad: BadLine) -> str:
    fault = _fault(name, piece, bad)
    where = f"byte {fault['byte']}" if fault["line"] is None else f"line {fault['line']}"
    mend = f"read it as text with schema={{{bad.column!r}: 'string'}}, or " if bad.column else ""
    return f"{name} {where}: {bad.error}; {mend}set on_bad_line='quarantine' to set such lines aside and go on"


def _lines_of_range(store: Any, path: str, part: FilePart) -> tuple[bytes, int]:
    """The lines whose first byte lies in the range, and where the first of them begins."""
    begin = max(part.start - 1, 0)
    stop = part.size if part.stop is None else part.stop
    data: bytes = store.cat_file(path, begin, stop)
    if part.start:
        newline = data.find(b"\n")
        if newline < 0:
            return b"", part.start
        data, begin = data[newline + 1 :], begin + newline + 1
    if not data or data.endswith(b"\n"):
        return data, begin
    tail, ahead = [data], _READ_AHEAD
    while stop < part.size:
        more: bytes = store.cat_file(path, stop, min(stop + ahead, part.size))
        newline = more.find(b"\n")
        tail.append(more if newline < 0 else more[: newline + 1])
        if newline >= 0 or not more:
            break
        stop, ahead = stop + len(more), ahead * 2
    return b"".join(tail), begin


def _lines_before(store: Any, path: str, start: int) -> int | None:
    """How many lines end before a byte of a file; None where it would cost too much to find out."""
    if not isinstance(store, stores.LocalFileSystem) or start > _COUNTED:
        return None
    return int(store.cat_file(path, 0, start).count(b"\n"))


def _cut_at_lines(data: bytes) -> Iterator[bytes]:
    """Pieces of whole lines, small enough to be parsed at once."""
    start = 0
    while len(data) - start > _PIECE:
        stop = data.rfind(b"\n", start, start + _PIECE) + 1
        if stop <= start:
            stop = data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop]
        start = stop
    if start < len(data):
        yield data[start:] if start else data

"""Read JSON Lines: a row a line, each a JSON object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, BinaryIO, ClassVar, Literal, NamedTuple

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from dcurate.core.batch import ERROR, FileGroup, FilePart, Rejection
from dcurate.core.kernels import Kernels
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import ColumnTypes, TypeConflict, fitted, one_chunk, unified
from dcurate.fs.compression import (
    DamagedStream,
    Lost,
    blocks,
    damage_in,
    ending_of,
    head,
    salvage,
    salvaged_blocks,
    unpack,
)
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import open_unchanged, unchanged
from dcurate.io import files, json_columns
from dcurate.io.json_parse import (
    BadLine,
    Wanted,
    lost_lines,
    names_in,
    parse_clean,
    parse_lines,
    remarks_on_rounded,
    rounded,
    rounded_in,
)
from dcurate.io.lines import (
    ByteBlock,
    blocks_of,
    check_lines,
    count_lines,
    count_rows,
    cut_at_lines,
    first_lines,
    in_a_row,
    lines_between,
    read_lines_of_range,
    read_whole,
)
from dcurate.io.source import FileReader
from dcurate.kernels.json_rows import KERNELS
from dcurate.kernels.nesting import KERNELS as NESTING_KERNELS
from dcurate.kernels.nesting import line_ends, line_ends_interpreted
from dcurate.rows.lines import with_lines
from dcurate.rows.origins import Place, lines_in, numbers_of, with_origins

_HEAD = 2**18
_LONGEST_HEAD = 2**26
_COUNTED = 2**30
#: Lines that cannot be read are in quarantine themselves if they have no more bytes than this.
_SHOWN = 2**20
#: Arguments for pandas that hold here in any case.
PANDAS = {"lines": True, "orient": "records"}
READ_KWARGS = tuple(PANDAS)
_BOM = b"\xef\xbb\xbf"
_FAULTS = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("byte", pa.int64()), ("error", pa.string()), ("raw", pa.string())]
)


class _LineBlock(NamedTuple):
    """Whole lines of a part of a file, and the byte of the file at which the first of them begins.

    ``line`` is the number of the first from 0, where it is known without looking. Of a damaged stream of a compressed
    file they are no rows, and ``damage`` says why.
    """

    data: bytes
    part: FilePart
    start: int
    line: int | None = None
    damage: str = ""
    breaks_off: bool = False


@dataclass
class JsonlReader(FileReader):
    """Read JSON Lines, plain or compressed (``.gz .bz2 .zst .xz``).

    Plain files larger than 128 MiB (or than ``blocksize``) are cut at line ends and read in parallel.

    Rows that are written as JSON Lines keep their lines: what no stage changes is written byte for byte as it was read.
    Only the columns that stages name are parsed; all are for a stage of a user, or another format.

    Types are those of the JSON values: text that looks like a date stays text, whole numbers beside floats are floats,
    and a column that is missing in a line is null there. A column whose first values have no common type, such as text
    and lists, is read as text: what is no text as JSON. Whole numbers that 64 bits cannot hold are floats for stages;
    a notice of the run counts those beyond 2**53 by column. A line is bad if its values are nested more than 40 levels
    deep (the row is the first), if a value does not go with the type of its column, or if a number that is parsed is
    too large for a float.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs; ``{a,b}`` is either of both.
        files_per_partition: files of one split: one by default, or up to 16 of 1,000 or more small ones.
        blocksize: split size, as bytes or ``"128MiB"``: larger files are cut, smaller ones packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: for pipelines written for pandas: ``lines=True``, ``orient="records"`` and
            ``storage_options`` are taken, all else is refused.
        storage_options: for fsspec.
        schema: types of columns by name, instead of guessing, such as ``{"id": "string"}``. Columns are in the order
            of the files; declared ones that are not in their first rows come last.
        limit: number of rows to read, at most: the first ones in the order of the files, before `filter`.
        filter: rows to read, as an SQL condition or a `pyarrow.compute.Expression`; others are no input. All files are
            read.
        folder_fields: whether folders named ``column=value`` are columns. A file that has the column itself keeps its
            values; with ``filter`` they must be those of the folder. ``schema`` gives such a column another type.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without lines that cannot be read and
            keep them in quarantine; also without what comes after damage in a compressed file.
        frames: ``"cudf"`` to have the rows on a GPU, in a slot that has one: they are parsed on the CPU, by the same
            rules, and moved once. Untested on a GPU.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> from dcurate import InlineExecutor, Pipeline
        >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        ...     _ = file.write('{"text": "one", "n": 1}')
        ...     file.flush()
        ...     [batch] = Pipeline("read", stages=[JsonlReader(file.name)]).run(InlineExecutor(), observers=[])
        >>> batch.to_pandas().to_dict("records")
        [{'text': 'one', 'n': 1}]
    """

    on_bad_line: Literal["raise", "quarantine"] = "raise"
    name: str = "jsonl_reader"

    kind: ClassVar[files.Format] = files.JSONL
    has_folder_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.on_bad_line not in ("raise", "quarantine"):
            raise PipelineError(f"{self.name}: on_bad_line={self.on_bad_line!r} must be 'raise' or 'quarantine'")
        super().__post_init__()

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it holds no line at all.

        Raises:
            DataError: a file or line that cannot be read, or types that clash.
        """
        shape = self._known()
        tables: list[pa.Table] = []
        faults: dict[str, list[dict[str, Any]]] = {}
        rounded_counts = Counter[str]()
        lines: list[pa.Array] = []
        places: list[Place] = []
        added: set[str] = set()  # columns that have values of folders
        for part in task.parts:
            name, before = self._named(part), part.rows[0] if part.rows else 0
            cut = part.start > 0 or part.stop is not None
            own_name = f"{name}@{task.key.split.rpartition('@')[2]}" if cut and task.key is not None else name
            for piece in self._pieces(part, name):
                table, row_lines, bad = self._rows(piece, shape, name)
                if self._marks_rows:
                    places.append(
                        (own_name, numbers_of(piece.data, len(table), [bad_line.number for bad_line in bad], before))
                    )
                    before += lines_in(piece.data)
                as_read, table = table, self._with_folders(table, name, self._read_names())
                added |= {
                    column
                    for column in self._in_folders(name)
                    if column in table.column_names
                    and (column not in as_read.column_names or not table[column].equals(as_read[column]))
                }
                shape = self._joined(shape, table.schema, name)
                tables.append(table)
                lines.append(row_lines)
                rounded_counts += Counter({rounded_in(name): n for name, n in rounded(piece.data, table, bad).items()})
                for line, fault in zip(bad, self._faults(name, piece, bad), strict=True):
                    faults.setdefault(_reason(line), []).append(fault)
        names = (
            self._read_names()
            if self._read_only is None
            else [column for column in dict.fromkeys([*self._read_only, *self._folder_types]) if column in shape.types]
        )
        schema = shape.schema(names)
        try:
            rows = one_chunk([fitted(table, schema) for table in tables or [schema.empty_table()]])
        except pa.ArrowInvalid as error:
            raise DataError(f"{task.key}: {error}; say the type of the column with schema=") from error
        if self._keeps_lines:
            all_lines = lines[0] if len(lines) == 1 else pa.concat_arrays([pa.array([], pa.large_binary()), *lines])
            rows = with_lines(rows, all_lines, rows.column_names, added)
        if self._marks_rows:
            rows = with_origins(rows, places)
        rows = self._matching(rows, schema.names)
        if not rows.num_rows and not faults:
            return None
        batch = DocumentBatch(data=self._held(rows), key=task.key, found=rounded_counts)
        batch.rejections = tuple(
            Rejection(self.name, reason, data.num_rows, data.nbytes, data, fault=True, column=ERROR)
            for reason, data in ((reason, pa.Table.from_pylist(rows, _FAULTS)) for reason, rows in faults.items())
        )
        return batch

    def _can_keep_lines(self) -> bool:
        return self.fields is None and self.frames == "arrow"

    def kernels(self) -> Sequence[Kernels]:
        return KERNELS if self._keeps_lines else (NESTING_KERNELS,)

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about whole numbers that lost digits."""
        return remarks_on_rounded(found)

    def _rows(self, piece: _LineBlock, shape: ColumnTypes, name: str) -> tuple[pa.Table, pa.Array, list[BadLine]]:
        """The rows of lines, their lines if those are kept, and the lines that cannot be read."""
        none = pa.array([], pa.large_binary())
        if piece.damage:
            return pa.table({}), none, lost_lines(piece.data, piece.damage, piece.breaks_off)
        names = self._read_names()
        wanted = Wanted(shape, self._declared(), None if names is None else tuple(names))
        if self._keeps_lines:
            # A line may have the column of a folder itself.
            read_only = self._read_only
            only = None if read_only is None else tuple(dict.fromkeys([*read_only, *self._folder_types]))
            table, lines, bad = json_columns.parse(piece.data, only, wanted, name)
        else:
            lines = none
            table, bad = self._all_rows(piece, wanted, name)
        if bad and self.on_bad_line == "raise":
            raise DataError(self._complaint(name, piece, bad[0]))
        return table, lines, bad

    def _all_rows(self, piece: _LineBlock, wanted: Wanted, name: str) -> tuple[pa.Table, list[BadLine]]:
        table = parse_clean(piece.data, wanted)
        if table is not None:
            present = set(table.column_names)
            names = wanted.fields
            table = table if names is None else table.select([name for name in names if name in present])
            try:
                wanted.shape.joined(table.schema, name)
            except TypeConflict as conflict:
                if self.on_bad_line == "raise":
                    raise self._clash(conflict, name) from conflict
            else:
                return table, []
        return parse_lines(piece.data, wanted, name)

    def _pieces(self, part: FilePart, name: str) -> Iterator[_LineBlock]:
        store, path = self._store(part.path)
        first = 0
        lost: Lost | None = None
        breaks_off = True
        with storage_errors("read", part.path):
            if part.rows is not None:
                first = part.rows[0]
                data, start, lost, breaks_off = self._part_of_lines(part)
            elif part.start or part.stop is not None:
                with unchanged(store, path, part.version, name):
                    data, start = read_lines_of_range(store, path, part)
            else:
                packed, ending, start = read_whole(store, path, part, name), ending_of(path), 0
                if self.on_bad_line == "raise":
                    data = unpack(packed, ending, name)
                else:
                    data, lost = salvage(packed, ending)
        doubtful = b""
        if lost is not None:
            cut = data.rfind(b"\n") + 1
            data, doubtful = data[:cut], data[cut:] + lost.doubtful
        if not start:
            check_lines(data, name)
            if data.startswith(_BOM):
                data, start = data[len(_BOM) :], len(_BOM)
        line = None if part.start else first
        for piece in cut_at_lines(data):
            yield _LineBlock(piece, part, start, line=line)
            start, line = start + len(piece), None
        if lost is not None:
            damage = f"in the damaged {ending_of(path)} stream at byte {lost.at:,} of the file ({lost.reason})"
            yield _LineBlock(doubtful, part, start, damage=damage, breaks_off=breaks_off)

    def _part_of_lines(self, part: FilePart) -> tuple[bytes, int, Lost | None, bool]:
        """Return the lines of a part's rows, their start, the lost part, and whether the file breaks off there."""
        assert part.rows is not None
        damage = self._damage(part)
        stretches = list(self._lines(part, damage))
        data, start = b"".join(stretch.data for stretch in stretches), stretches[0].start if stretches else part.start
        if damage is None:
            return data, start, None, False
        breaks_off = data.count(b"\n") < part.rows[1] - part.rows[0]
        if not stretches:  # the file breaks off after a line
            start = sum(len(stretch.data) for stretch in self._lines(replace(part, rows=None), damage))
        cut = data.rfind(b"\n", 0, max(damage.whole - start, 0)) + 1
        if cut == len(data) and not breaks_off:
            return data, start, None, False
        return data[:cut], start, Lost(damage.at, damage.reason, data[cut:]), breaks_off

    def _damage(self, part: FilePart) -> DamagedStream | None:
        """Return the damage in a compressed file, if reading continues without the part after it."""
        store, path = self._store(part.path)
        if self.on_bad_line == "raise" or not ending_of(path):
            return None
        with storage_errors("read", part.path), self._opened(store, path, part) as file:
            return damage_in(file, ending_of(path))

    def _lines(self, part: FilePart, damage: DamagedStream | None = None) -> Iterator[ByteBlock]:
        """Yield the lines of a part, or of its rows, in blocks; also those of a damaged stream."""
        store, path = self._store(part.path)
        ending = ending_of(path)
        with storage_errors("read", part.path), self._opened(store, path, part) as file:
            if damage is not None:
                lines = in_a_row(salvaged_blocks(file, ending, damage))
            elif ending:
                lines = in_a_row(blocks(file, ending, self._named(part)))
            else:
                lines = blocks_of(file, part.start, part.stop)
            yield from lines if part.rows is None else lines_between(lines, *part.rows)

    def _opened(self, store: Any, path: str, part: FilePart) -> AbstractContextManager[BinaryIO]:
        return open_unchanged(store, path, part.version, self._named(part), cache_type="readahead")

    def _counted(self, part: FilePart) -> list[FilePart]:
        damage = self._damage(part)
        lines = self._lines(part, damage)
        if damage is not None:  # where the file breaks off is a line of its own, if only in quarantine
            lines = chain(lines, [ByteBlock(0, b"...")])
        return [replace(part, rows=(0, count_lines(lines)))]

    def _first_rows(self, part: FilePart, most: int) -> tuple[tuple[FilePart, ...], int]:
        damage = self._damage(part)
        if damage is not None:
            return super()._first_rows(part, most)
        lines, rows = first_lines(self._lines(part), most)
        return (replace(part, rows=(0, lines)),), rows

    def unread(self, task: FileGroup) -> list[dict[str, Any]]:
        """Return the positions of lines that cannot be read, and their content if short, for quarantine."""
        return [
            self._unread(part) if part.rows is not None else record
            for record, part in zip(super().unread(task), task.parts, strict=True)
        ]

    def _unread(self, part: FilePart) -> dict[str, Any]:
        assert part.rows is not None
        start, size, head = part.start, 0, bytearray()
        damage = self._damage(part)
        for block in self._lines(part, damage):
            start = start if size else block.start
            size += len(block.data)
            head += block.data if size <= _SHOWN else b""
        before = self._lines_before(_LineBlock(b"", part, start, line=None if part.start else part.rows[0]))
        return {
            "file": self._named(part),
            "line": None if before is None else before + 1,
            "byte": start,
            "bytes": size,
            "rows": count_rows(self._lines(part, damage)),
            "raw": head.decode(errors="backslashreplace") if size <= _SHOWN else None,
        }

    def _faults(self, name: str, piece: _LineBlock, bad: list[BadLine]) -> list[dict[str, Any]]:
        """Return the quarantine records of bad lines: whole lines of text, with undecodable bytes escaped."""
        before = self._lines_before(piece) if bad else None
        return [
            {
                "file": name,
                "line": None if before is None else before + line.number + 1,
                "byte": piece.start + line.offset,
                "error": line.error,
                "raw": line.raw.decode(errors="backslashreplace"),
            }
            for line in bad
        ]

    def _complaint(self, name: str, piece: _LineBlock, bad: BadLine) -> str:
        fault = self._faults(name, piece, [bad])[0]
        where = f"byte {fault['byte']}" if fault["line"] is None else f"line {fault['line']}"
        advice = ""
        if bad.column is not None:
            advice = f"read it as text with schema={{{bad.column!r}: 'string'}}, leave it out with fields=, or "
        return f"{name} {where}: {bad.error}; {advice}set on_bad_line='quarantine' to set such lines aside and go on"

    def _lines_before(self, piece: _LineBlock) -> int | None:
        """Count the lines before the piece; None if that would cost too much."""
        if piece.line is not None:
            return piece.line
        store, path = self._store(piece.part.path)
        local = isinstance(store, LocalFileSystem)
        if piece.start and (not local or piece.start > _COUNTED or ending_of(path)):
            return None
        if not piece.start:
            return 0
        with storage_errors("read", piece.part.path), store.open(path, "rb") as file:
            return count_lines(blocks_of(file, 0, piece.start))

    def _cut(self, file: files.SourceFile, target: int) -> list[int]:
        if ending_of(file.path):
            return []
        parts = -(-file.size // target)
        return [number * file.size // parts for number in range(parts + 1)]

    def _head(self, file: files.SourceFile) -> pa.Schema | None:
        store, path = self._store(file.path)
        size, data = _HEAD, b""
        while size <= _LONGEST_HEAD:
            with storage_errors("read", file.path), store.open(path, "rb", cache_type="readahead") as source:
                try:
                    data = head(source, ending_of(path), size, file.name)
                except DataError:
                    if self.on_bad_line == "raise":
                        raise
                    return None  # all of it goes to quarantine
            if len(data) < size or b"\n" in data:
                break
            size *= 16
        if len(data) == size:
            data = data[: data.rfind(b"\n") + 1]
        check_lines(data, file.name)
        wanted = Wanted(ColumnTypes(fixed := self._declared()), fixed)
        data = data.removeprefix(_BOM)
        count = line_ends_interpreted if len(data) <= _HEAD else line_ends
        table = parse_clean(data, wanted, count)
        while table is None:
            table, bad = parse_lines(data, wanted, file.name, count)
            mixed = {line.column for line in bad if line.column is not None and self.on_bad_line == "raise"} - set(
                fixed
            )
            if mixed:  # look at the data again with these as text
                self._mixed = (*self._mixed, *sorted(mixed))
                wanted, table = Wanted(ColumnTypes(fixed := self._declared()), fixed), None
        if not table.num_rows:
            return None
        if not fixed:
            return table.schema
        present = set(table.column_names)
        return pa.schema([table.schema.field(name) for name in names_in(data) if name in present])

    def _joined(self, shape: ColumnTypes, schema: Any, name: str) -> ColumnTypes:
        if self.on_bad_line == "raise":
            return super()._joined(shape, schema, name)
        try:
            return shape.joined(schema, name)
        except TypeConflict:
            same = [column for column in schema if unified(shape.types.get(column.name, pa.null()), column.type)]
            return shape.joined(same, name)

    def _joined_heads(self, shape: ColumnTypes, schema: Sequence[pa.Field], name: str) -> ColumnTypes:
        if self.on_bad_line != "raise":
            return self._joined(shape, schema, name)
        try:
            return shape.joined(schema, name)
        except TypeConflict as conflict:
            self._mixed = (*self._mixed, conflict.column)
            text = ColumnTypes({**shape.types, conflict.column: pa.string()}, shape.origins)
            return self._joined_heads(text, [column for column in schema if column.name != conflict.column], name)

    def _declared(self) -> dict[str, pa.DataType]:
        return {**dict.fromkeys(self._mixed, pa.string()), **super()._declared()}

    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        refuse_others(self.name, "read_kwargs", kwargs, PANDAS, "fields= for columns and schema= for types")


def _reason(bad: BadLine) -> str:
    """Return the reason under which a report counts a bad line."""
    return f"column {bad.column!r} of another type" if bad.column is not None else bad.kind


def refuse_others(stage: str, kind: str, options: dict[str, Any], taken: dict[str, Any], instead: str) -> None:
    """Refuse options for pandas that would change what is read or written.

    Raises:
        PipelineError: there are such options.
    """
    refused = [name for name, value in options.items() if name not in taken or taken[name] != value]
    if refused:
        raise PipelineError(
            f"{stage}: {kind} {listed(refused)} mean nothing here, as pandas is not in use; "
            f"leave them out, and use {instead}"
        )

"""Comma-separated values, and the like with other delimiters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa

from dcurate.core.batch import ERROR, FileGroup, FilePart, Rejection
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import ColumnTypes, fitted, one_chunk
from dcurate.fs.compression import Lost, ending_of, head, salvage, unpack
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import open_unchanged, unchanged
from dcurate.io import files
from dcurate.io.csv_rows import BadRow, CsvRows, Dialect, check_signs, first_record, other_delimiter, parse, records
from dcurate.io.json_parse import remarks_on_rounded, rounded_in
from dcurate.io.lines import check_lines, read_lines_of_range, read_whole
from dcurate.io.source import FileReader

#: Settings for the form of CSV files.
SIGNS = ("delimiter", "quote", "escape", "header")
_BOM = b"\xef\xbb\xbf"
_HEAD, _LONGEST_HEAD = 2**18, 2**26
#: Bytes up to which rows that cannot be read are kept in quarantine.
_SHOWN = 2**20
_FAULTS = pa.schema([("file", pa.string()), ("line", pa.int64()), ("error", pa.string()), ("raw", pa.string())])


class _Body(NamedTuple):
    """What a part holds besides a header: records, the line from 0 of the first, and damaged lines after them."""

    names: list[str]
    data: bytes
    line: int
    bad: list[BadRow]


def divided_otherwise(heads: ColumnTypes | None, kind: files.Format) -> list[str]:
    """Return a notice for each CSV file among the heads whose only column looks like several, divided by another sign.

    Args:
        heads: columns of the heads of files; None if none was looked at.
        kind: the format of CSV.
    """
    origins = {} if heads is None else heads.origins
    alone = Counter(origins.values())
    return [
        f"the rows of {file} have one column, {column!r}, which looks divided by {sign!r}: give delimiter={sign!r}"
        for column, file in origins.items()
        if alone[file] == 1 and kind.matches(file) and (sign := other_delimiter([column])) and sign in column
    ]


@dataclass
class CsvReader(FileReader):
    r"""Read comma-separated values, plain or compressed (``.gz .bz2 .zst .xz``).

    Columns are text unless `schema` says otherwise: a code such as ``007`` keeps its zeros. An empty value is null, a
    quoted one that is empty (``""``) is empty text. A row ends at ``\n``, ``\r\n`` or ``\r``; blank lines are no rows.
    Files are UTF-8; a column that is missing in a file is null there.

    A quoted value may hold line breaks, so a file is read whole, in one slot. With ``newlines_in_values=False`` plain
    files larger than 128 MiB (or than ``blocksize``) are cut at line ends and read in parallel, and a quote must be
    closed in its line. A row is bad if it has more or fewer values than there are columns, is not UTF-8, opens a quote
    that is never closed, or holds a value that is not of the type in `schema`.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs; ``{a,b}`` is either of both.
        files_per_partition: files of one split: one by default, or up to 16 of 1,000 or more small ones.
        blocksize: split size, as bytes or ``"128MiB"``: smaller files are packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: for pipelines written for pandas: ``storage_options`` is taken, all else is refused.
        storage_options: for fsspec.
        schema: types of columns that are not text, by name: ``{"score": "float64", "count": "int64"}``.
        limit: number of rows to read, at most: the first ones in the order of the files, before `filter`.
        filter: rows to read, as an SQL condition or a `pyarrow.compute.Expression`; others are no input. All files are
            read.
        folder_fields: whether folders named ``column=value`` are columns. A file that has the column itself keeps its
            values; with ``filter`` they must be those of the folder. ``schema`` gives such a column another type.
        delimiter: one character between values; by default a tab in files named ``.tsv`` and a comma in others.
        quote: one character around values; a quote within a quoted value is doubled.
        escape: one character that, within a quoted value, makes a quote or itself part of the value, such as the
            backslash in files of Spark; before other characters, and outside quotes, it is text. None if quotes are
            only doubled.
        header: whether the first row holds the names of the columns. A list of names is for files without one;
            with False columns are named ``f0``, ``f1`` and so on.
        newlines_in_values: whether quoted values may hold line breaks.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without rows that cannot be read and keep them in
            quarantine with file and line; also without what comes after damage in a compressed file.
        frames: ``"cudf"`` to have the rows on a GPU, in a slot that has one: they are parsed on the CPU and moved once.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> from dcurate import InlineExecutor, Pipeline
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     _ = file.write('id,text\n007,"one\ntwo"\n')
        ...     file.flush()
        ...     [batch] = Pipeline("read", stages=[CsvReader(file.name)]).run(InlineExecutor(), observers=[])
        >>> batch.to_pandas().to_dict("records")
        [{'id': '007', 'text': 'one\ntwo'}]
    """

    delimiter: str | None = None
    quote: str = '"'
    escape: str | None = field(default=None, kw_only=True)
    header: bool | list[str] = True
    newlines_in_values: bool = True
    on_bad_line: Literal["raise", "quarantine"] = "raise"
    name: str = "csv_reader"

    kind: ClassVar[files.Format] = files.CSV
    has_folder_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_signs(self.name, self.delimiter, self.quote, self.escape)
        if not isinstance(self.header, bool) and not files.is_names(self.header):
            raise PipelineError(f"{self.name}: header={self.header!r} must be True, False or a list of column names")
        if self.on_bad_line not in ("raise", "quarantine"):
            raise PipelineError(f"{self.name}: on_bad_line={self.on_bad_line!r} must be 'raise' or 'quarantine'")
        super().__post_init__()

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it has none.

        Raises:
            DataError: a file or row that cannot be read.
        """
        shape = self._known()
        tables: list[pa.Table] = []
        faults: dict[str, list[dict[str, Any]]] = {}
        rounded_counts = Counter[str]()
        names = self._read_names()
        for part in task.parts:
            name = self._named(part)
            table, bad, large = self._rows(part, name)
            read = large if names is None else large.keys() & names
            rounded_counts += Counter({rounded_in(column): large[column] for column in read})
            if bad and self.on_bad_line == "raise":
                raise DataError(
                    f"{name} {f'line {bad[0].line + 1}' if not part.start else 'in a later part'}: {bad[0].error}; "
                    "set on_bad_line='quarantine' to set such rows aside and go on"
                )
            table = self._with_folders(table, name, names)
            shape = self._joined(shape, table.schema, name)
            tables.append(table)
            for row in bad:
                fault = {"file": name, "line": None if part.start else row.line + 1, "error": row.error}
                raw = row.raw.decode(errors="backslashreplace").rstrip("\r\n")
                faults.setdefault(row.reason, []).append({**fault, "raw": raw})
        schema = shape.schema(names)
        try:
            rows = one_chunk([fitted(table, schema) for table in tables or [schema.empty_table()]])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{task.key}: {error}; use smaller files, or newlines_in_values=False") from error
        rows = self._matching(rows, schema.names)
        if not rows.num_rows and not faults:
            return None
        rejected = ((reason, pa.Table.from_pylist(fault_rows, _FAULTS)) for reason, fault_rows in faults.items())
        rejections = tuple(
            Rejection(self.name, reason, table.num_rows, table.nbytes, table, fault=True, column=ERROR)
            for reason, table in rejected
        )
        return DocumentBatch(data=self._held(rows), key=task.key, rejections=rejections, found=rounded_counts)

    def advice(self, columns: Sequence[str]) -> str:
        sign = other_delimiter(columns)
        return f"; the first row looks divided by {sign!r}: give delimiter={sign!r}" if sign else ""

    def notices(self) -> list[str]:
        """Return notices of files, also of those that look divided by another sign."""
        return [*super().notices(), *divided_otherwise(self._sniffed, self.kind)]

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about whole numbers that lost digits."""
        return remarks_on_rounded(found)

    def unread(self, task: FileGroup) -> list[dict[str, Any]]:
        """Return the positions of rows that cannot be read, and their content if short, for quarantine."""
        positions = super().unread(task)
        for record, part in zip(positions, task.parts, strict=True):
            if part.rows is not None:
                body = self._body(part, self._named(part))
                raw = body.data or b"\n".join(row.raw for row in body.bad)
                record["line"] = None if part.start else (body.line if body.data else body.bad[0].line) + 1
                record["raw"] = raw.decode(errors="backslashreplace") if len(raw) <= _SHOWN else None
        return positions

    def _rows(self, part: FilePart, name: str) -> CsvRows:
        """Return the rows of a part, and those that cannot be read."""
        body = self._body(part, name)
        if not body.names:
            return CsvRows(pa.table({}), body.bad, {})
        try:
            table, bad, large = parse(body.data, body.names, self._declared(), self._dialect(part.path))
        except DataError as error:
            raise DataError(f"{name} has {error}; use smaller files, or newlines_in_values=False") from error
        return CsvRows(table, [*(row._replace(line=row.line + body.line) for row in bad), *body.bad], large)

    def _body(self, part: FilePart, name: str) -> _Body:
        """Return the records of a part, of all or of those that it counts."""
        dialect = self._dialect(part.path)
        data, lost = self._content(part, name) if part.rows is None else self._content_to(part, part.rows[1], name)
        bad: list[BadRow] = []
        line = 0
        if part.start:
            names = self._names(self._beginning(part.path, name), name, dialect)[0]
        else:
            check_lines(data, name)
            data = data.removeprefix(_BOM)
            names, begin = self._names(data, name, dialect)
            line = len(data[:begin].splitlines())
            data = data[begin:]
        if lost is not None:
            last = line + len(data.splitlines())
            damage = f"in the damaged {ending_of(part.path)} stream at byte {lost.at:,} of the file ({lost.reason})"
            lost_lines = lost.doubtful.splitlines() or [b""]
            bad = [BadRow(last + number, "damaged stream", damage, raw) for number, raw in enumerate(lost_lines)]
        if part.rows is None:
            return _Body(names, data, line, bad)
        first, stop = part.rows
        all_records = list(records(data, dialect))
        some = all_records[first:stop]
        bad = bad[max(0, first - len(all_records)) : max(0, stop - len(all_records))]
        if not some:
            return _Body(names, b"", line, bad)
        return _Body(names, data[some[0].start : some[-1].start + len(some[-1].raw)], line + some[0].line, bad)

    def _content(self, part: FilePart, name: str) -> tuple[bytes, Lost | None]:
        """Return the content of a part, unpacked; without what is lost in a damaged stream."""
        store, path = self._store(part.path)
        with storage_errors("read", part.path):
            if part.start or part.stop is not None:
                with unchanged(store, path, part.version, name):
                    return read_lines_of_range(store, path, part)[0], None
            packed = read_whole(store, path, part, name)
            if self.on_bad_line == "raise":
                return unpack(packed, ending_of(path), name), None
            data, lost = salvage(packed, ending_of(path))
            if lost is None:
                return data, None
            cut = data.rfind(b"\n") + 1
            return data[:cut], lost._replace(doubtful=data[cut:] + lost.doubtful)

    def _content_to(self, part: FilePart, last: int, name: str) -> tuple[bytes, Lost | None]:
        """Return the content of a part up to a row and the header, or all of it if that cannot be read alone."""
        if part.start or (ending_of(part.path) and self.on_bad_line != "raise"):
            return self._content(part, name)
        store, path = self._store(part.path)
        dialect, size = self._dialect(part.path), _HEAD
        while part.stop is None or size < part.stop:
            with (
                storage_errors("read", part.path),
                open_unchanged(store, path, part.version, name, cache_type="readahead") as source,
            ):
                data = head(source, ending_of(path), size, name)
            if len(data) < size:
                break
            data = data[: data.rfind(b"\n") + 1]
            # The header is one of them, and the last may go on after the cut, as may one whose quote is not closed.
            some = list(islice(records(data, dialect), last + 3))
            if len(some) == last + 3 and not any(record.is_open for record in some):
                return data, None
            size *= 8
        return self._content(part, name)

    def _dialect(self, path: str) -> Dialect:
        tabs = path.lower().removesuffix(ending_of(path)).endswith(".tsv")
        return Dialect(self.delimiter or ("\t" if tabs else ","), self.quote, self.newlines_in_values, self.escape)

    def _names(self, data: bytes, name: str, dialect: Dialect) -> tuple[list[str], int]:
        """Return the names of the columns, and the byte after the header.

        Raises:
            DataError: the header cannot be read, or names a column twice.
        """
        if isinstance(self.header, list | tuple):
            return list(self.header), 0
        try:
            first, end = first_record(data, dialect)
        except ValueError as error:
            raise DataError(f"{name} line 1: {error}; a CSV file is text in UTF-8 with one row a line") from error
        if not self.header:
            return [f"f{number}" for number in range(len(first))], 0
        twice = [column for column, count in Counter(first).items() if count > 1]
        if twice:
            raise DataError(f"{name} has several columns {listed(twice)}; rename them in its first row")
        return first, end

    def _beginning(self, address: str, name: str) -> bytes:
        """Return the beginning of a file: at least its first record."""
        store, path = self._store(address)
        dialect, size = self._dialect(address), _HEAD
        while True:
            with storage_errors("read", address), store.open(path, "rb", cache_type="readahead") as source:
                data = head(source, ending_of(path), size, name).removeprefix(_BOM)
            if len(data) < size - len(_BOM) or size > _LONGEST_HEAD:
                return data
            cut = data[: data.rfind(b"\n") + 1]
            try:
                if cut and first_record(cut, dialect)[0]:
                    return cut
            except ValueError:
                pass  # the record may end later
            size *= 16

    def _counted(self, part: FilePart) -> list[FilePart]:
        body = self._body(part, self._named(part))
        count = sum(1 for _ in records(body.data, self._dialect(part.path)))
        return [replace(part, rows=(0, count + len(body.bad)))]

    def _first_rows(self, part: FilePart, most: int) -> tuple[tuple[FilePart, ...], int]:
        body = self._body(replace(part, rows=(0, most)), self._named(part))
        count = sum(1 for _ in records(body.data, self._dialect(part.path))) + len(body.bad)
        return (replace(part, rows=(0, count)),), count

    def _cut(self, file: files.SourceFile, target: int) -> list[int]:
        if self.newlines_in_values or ending_of(file.path):
            return []
        parts = -(-file.size // target)
        return [number * file.size // parts for number in range(parts + 1)]

    def _head(self, file: files.SourceFile) -> pa.Schema | None:
        try:
            data = self._beginning(file.path, file.name)
        except DataError:
            if self.on_bad_line == "raise":
                raise
            return None  # all of it goes to quarantine
        check_lines(data, file.name)
        names, _ = self._names(data, file.name, self._dialect(file.path))
        types = self._declared()
        return pa.schema([(name, types.get(name, pa.string())) for name in names]) if names else None

    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        if kwargs:
            raise PipelineError(
                f"{self.name}: read_kwargs {listed(kwargs)} mean nothing here, as pandas is not in use; leave them "
                "out, and use delimiter=, quote=, header=, fields= for columns and schema= for types"
            )

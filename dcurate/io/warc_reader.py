"""Web archives as rows: pages with their bytes from WARC and ARC, text from WET."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Literal

import pyarrow as pa

from dcurate.core.batch import ERROR, FileGroup, FilePart, Rejection
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import fitted, one_chunk
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import open_unchanged
from dcurate.io import files
from dcurate.io.source import FileReader
from dcurate.io.warc import Damage, Record, iterate_records
from dcurate.io.warc_http import Response, header_text, response

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_BLOCK = 2**22
#: The types of records that WARC knows: https://iipc.github.io/warc-specifications
_KINDS = frozenset(("warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation"))
_CHUNK = 2**28
_ORIGIN = [
    ("url", pa.string()),
    ("date", pa.string()),
    ("warc_id", pa.string()),
    ("source_id", pa.string()),
    ("offset", pa.int64()),
    ("content_language", pa.string()),
]
_HEADERS = pa.field("http_headers", pa.string())
_FAULTS = pa.schema([("file", pa.string()), ("byte", pa.int64()), ("url", pa.string()), ("error", pa.string())])


@dataclass
class ArchiveReader(FileReader):
    """The base class of `WarcReader` and `WetReader`."""

    on_bad_record: Literal["quarantine", "raise"] = "quarantine"

    rows_of: ClassVar[pa.Schema]
    large: ClassVar[int] = 2**25

    def __post_init__(self) -> None:
        if self.on_bad_record not in ("quarantine", "raise"):
            raise PipelineError(f"{self.name}: on_bad_record={self.on_bad_record!r} must be 'quarantine' or 'raise'")
        super().__post_init__()

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if there are none.

        Raises:
            DataError: a file cannot be read, or with ``on_bad_record="raise"`` a record.
        """
        columns = self._row_columns()
        taken = _Taken(columns)
        for part in task.parts:
            name = self._named(part)
            with storage_errors("read", part.path):
                for record in self._records(part):
                    row = record if isinstance(record, Damage) else self._row(record, name)
                    if isinstance(row, Damage):
                        self._refuse(row, name)
                        taken.faults.append({"file": name, "byte": row.offset, "url": row.url, "error": row.reason})
                    elif isinstance(row, dict):
                        taken.add(row)
                    elif row:
                        taken.left_out[row] = taken.left_out.get(row, 0) + 1
        fixed = self._declared()  # a reader that has listed no files yet knows no other columns
        shape = self._joined(self._known(), [column for column in columns if column.name not in fixed], self.name)
        schema = shape.schema(self._read_names())
        rows = self._matching(fitted(taken.table(), schema), schema.names)
        rejections = tuple(taken.rejections(self.name))
        if not rows.num_rows and not rejections:
            return None
        return DocumentBatch(data=rows, key=task.key, rejections=rejections)

    @abstractmethod
    def _row(self, record: Record, name: str) -> dict[str, Any] | Damage | str:
        """The row that a record becomes, or why it becomes none: damage, a reason to be counted, or nothing to say."""

    def _records(self, part: FilePart) -> Iterator[Record | Damage]:
        store, path = self._store(part.path)
        how = {"block_size": _BLOCK, "cache_type": "readahead"}
        with open_unchanged(store, path, part.version, self._named(part), **how) as file:
            records = iterate_records(file, part.start, part.stop)
            yield from records if part.rows is None else islice(records, *part.rows)

    def _counted(self, part: FilePart) -> list[FilePart]:
        with storage_errors("read", part.path):
            return [replace(part, rows=(0, sum(1 for _ in self._records(part))))]

    def unread(self, task: FileGroup) -> list[dict[str, Any]]:
        """Return the positions of records that cannot be read, with the URL of the first, for quarantine."""
        return [
            {**record, **self._first(part)} if part.rows is not None else record
            for record, part in zip(super().unread(task), task.parts, strict=True)
        ]

    def _first(self, part: FilePart) -> dict[str, Any]:
        with storage_errors("read", part.path):
            first = next(self._records(part), None)
        return {"byte": first.offset, "url": first.url or None} if first else {}

    def _refuse(self, damage: Damage, name: str) -> None:
        if self.on_bad_record == "raise":
            about = f" ({damage.url})" if damage.url else ""
            raise DataError(
                f"{name} byte {damage.offset}{about}: {damage.reason}; "
                f"set on_bad_record='quarantine' to set such records aside and go on"
            )

    def _cut(self, file: files.SourceFile, target: int) -> list[int]:
        if file.path.lower().endswith(".arc"):
            return []  # where crawlers left out the line ends between records, these are found in turn only
        parts = -(-file.size // target)
        return [number * file.size // parts for number in range(parts + 1)]

    def _head(self, file: files.SourceFile) -> pa.Schema | None:
        return self._row_columns()

    def _row_columns(self) -> pa.Schema:
        """The columns of the rows that are made."""
        return self.rows_of

    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        if kwargs:
            raise PipelineError(f"{self.name}: read_kwargs {listed(kwargs)} mean nothing here; leave them out")


@dataclass
class WarcReader(ArchiveReader):
    """Read pages from WARC and ARC files, plain or compressed (``.gz .zst .bz2 .xz``; ``.lz4`` with extra ``html``).

    A row is a record: ``url``, ``date`` (ISO 8601, UTC), ``warc_id``, ``source_id`` (the file's name), ``offset`` (of
    the record in the file, as an index has it), ``content_language`` (as declared), ``status``, ``mime_type``,
    ``charset`` (as declared), ``truncated`` (why the crawler cut it off) and ``content``: the bytes of the page, with
    chunks and compression of the HTTP transfer undone. ``http_headers``, if ``fields`` names it, is the head of the
    response: its status line and headers as text.

    Damaged records are set aside and counted, with file, byte, URL and reason; reading continues at the next one. Files
    larger than 32 MiB (or than ``blocksize``) are cut where members or records begin and read in parallel; a file that
    was compressed in one piece is read in one piece.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs; ``{a,b}`` is either of both.
        files_per_partition: files of one split: one by default, or up to 16 of 1,000 or more small ones.
        blocksize: split size on disk, as bytes or ``"32MiB"``: larger files are cut, smaller ones packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        storage_options: for fsspec.
        schema: types of columns by name, to override those found.
        limit: number of rows to read, at most: the first ones in the order of the files, before `filter`.
        filter: rows to read, as an SQL condition or a `pyarrow.compute.Expression`; others are no input. All files are
            read.
        on_bad_record: ``"quarantine"``, or ``"raise"`` to end the run at the first damaged record.
        record_types: the types of records that become rows.
        mime_types: MIME types of the pages that become rows, such as ``["text/html"]``; others are counted as rejected.
            None takes all.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> WarcReader("crawl/", mime_types=["text/html"], fields=["url", "content"]).fields
        ['url', 'content']
    """

    record_types: list[str] = field(default_factory=lambda: ["response"])
    mime_types: list[str] | None = None
    name: str = "warc_reader"

    kind: ClassVar[files.Format] = files.Format("WARC", (".warc", ".arc", ".warc.lz4", ".arc.lz4"), compressed=True)
    rows_of: ClassVar[pa.Schema] = pa.schema(
        [
            *_ORIGIN,
            ("status", pa.int32()),
            ("mime_type", pa.string()),
            ("charset", pa.string()),
            ("truncated", pa.string()),
            ("content", pa.large_binary()),
        ]
    )

    def __post_init__(self) -> None:
        for option, value in (("record_types", self.record_types), ("mime_types", self.mime_types)):
            if value is not None and not files.is_names(value):
                raise PipelineError(f"{self.name}: {option}={value!r} must be a list of text")
        super().__post_init__()

    def _row_columns(self) -> pa.Schema:
        return self.rows_of.append(_HEADERS) if self._has_headers else self.rows_of

    @property
    def _has_headers(self) -> bool:
        return _HEADERS.name in (self.fields or ())

    def _row(self, record: Record, name: str) -> dict[str, Any] | Damage | str:
        if record.kind not in self.record_types:
            return _odd(record)
        message = response(record.content) or Response(0, {}, record.content)
        if message.damage:
            return Damage(record.offset, message.damage, record.url)
        declared = message.headers.get("content-type") or ("" if message.status else record.headers.get("content-type"))
        mime = (record.headers.get("warc-identified-payload-type") or declared or "").partition(";")[0].strip().lower()
        if self.mime_types is not None and mime not in self.mime_types:
            return "mime type"
        charset = _CHARSET.search(declared or "")
        return {
            **_origin(record, name),
            "content_language": message.headers.get("content-language") or _language(record),
            "status": message.status or None,
            "mime_type": mime or None,
            "charset": charset[1].lower() if charset else None,
            "truncated": record.headers.get("warc-truncated"),
            "content": message.body,
            **({_HEADERS.name: header_text(record.content)} if self._has_headers else {}),
        }


@dataclass
class WetReader(ArchiveReader):
    """Read the text that Common Crawl made of pages: WET files, plain or compressed.

    A row is a page: ``url``, ``date``, ``warc_id``, ``source_id`` (the file's name), ``offset``, ``content_language``
    (as Common Crawl found it, most of the page first: ``"eng,fra"``) and ``text``. Bytes that are no UTF-8 become
    U+FFFD.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs; ``{a,b}`` is either of both.
        files_per_partition: files of one split: one by default, or up to 16 of 1,000 or more small ones.
        blocksize: split size on disk, as bytes or ``"32MiB"``: larger files are cut, smaller ones packed.
        fields: the columns to keep, in this order; all by default.
        read_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        storage_options: for fsspec.
        schema: types of columns by name, to override those found.
        limit: number of rows to read, at most: the first ones in the order of the files, before `filter`.
        filter: rows to read, as an SQL condition or a `pyarrow.compute.Expression`; others are no input. All files are
            read.
        on_bad_record: ``"quarantine"``, or ``"raise"`` to end the run at the first damaged record.

    Raises:
        PipelineError: incompatible settings.
    """

    name: str = "wet_reader"

    kind: ClassVar[files.Format] = files.Format("WET", (".wet", ".wet.lz4"), compressed=True)
    rows_of: ClassVar[pa.Schema] = pa.schema([*_ORIGIN, ("text", pa.string())])

    def _row(self, record: Record, name: str) -> dict[str, Any] | Damage | str:
        if record.kind != "conversion":
            return _odd(record)
        text = record.content.decode(errors="replace")
        return {**_origin(record, name), "content_language": _language(record), "text": text}


class _Taken:
    """The result of a split: rows, damage, and skipped records by reason."""

    def __init__(self, schema: pa.Schema) -> None:
        self.faults: list[dict[str, Any]] = []
        self.left_out: dict[str, int] = {}
        self._schema = schema
        self._tables: list[pa.Table] = []
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def add(self, row: Mapping[str, Any]) -> None:
        self._rows.append(dict(row))
        self._size += len(row.get("content") or row.get("text") or "") + len(row.get(_HEADERS.name) or "")
        if self._size > _CHUNK:
            self._turn()

    def table(self) -> pa.Table:
        self._turn()
        return one_chunk(self._tables)

    def rejections(self, stage: str) -> Iterator[Rejection]:
        if self.faults:
            data = pa.Table.from_pylist(self.faults, _FAULTS)
            yield Rejection(stage, "damaged record", data.num_rows, data.nbytes, data, fault=True, column=ERROR)
        for reason, count in self.left_out.items():
            yield Rejection(stage, reason, count, 0)

    def _turn(self) -> None:
        self._tables.append(pa.Table.from_pylist(self._rows, self._schema))
        self._rows, self._size = [], 0


def _origin(record: Record, name: str) -> dict[str, Any]:
    return {
        "url": record.url or None,
        "date": record.date or None,
        "warc_id": record.id or None,
        "source_id": name,
        "offset": record.offset,
    }


def _odd(record: Record) -> str:
    """Why a record that no row is made of may be one that was meant to become a row; nothing if it may not."""
    if record.kind not in _KINDS:
        return "unknown record type"
    is_page = record.kind == "resource" and "warc-type" not in record.headers and record.url.startswith("http")
    return "no HTTP response" if is_page else ""  # of ARC, where what a record holds says its type


def _language(record: Record) -> str | None:
    return record.headers.get("warc-identified-content-language")

"""Read downloaded files: records, and the text of each."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

from dcurate.core.batch import FileGroup, FilePart
from dcurate.core.extras import required_by
from dcurate.core.part import check_kind
from dcurate.core.stage import ProcessingStage
from dcurate.download.configured import EqualBySettings
from dcurate.download.downloader import DocumentDownloader, DownloadedFiles
from dcurate.download.extract import (
    OURS,
    DocumentExtractor,
    Losses,
    OnError,
    Skipped,
    check_on_error,
    failure,
    refuse_where_asked,
    row_of,
)
from dcurate.download.transfer import RemoteFile, TransferError
from dcurate.errors import DataError, PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.records import table_of
from dcurate.io.partition import parse_bytes

#: Size of a batch of rows, in bytes.
BATCH_BYTES = 2**26


class DocumentIterator(EqualBySettings, ABC):
    """Read the records of a file.

    Examples:
        >>> class Lines(DocumentIterator):
        ...     def iterate(self, file_path):
        ...         with open(file_path, encoding="utf-8") as lines:
        ...             yield from ({"text": line} for line in lines)
        ...     def output_columns(self):
        ...         return ["text"]
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     _ = file.write("one line")
        ...     file.flush()
        ...     list(Lines().iterate(file.name))
        [{'text': 'one line'}]
    """

    in_recipes: ClassVar[bool] = True

    @abstractmethod
    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped]:
        """Yield the records of a file as dictionaries, and `Skipped` for those without a row."""

    @abstractmethod
    def output_columns(self) -> list[str]:
        """The keys of the records."""


class RangeIterator(DocumentIterator):
    r"""Read the records of a range of a file, so that several workers can read a large file.

    Examples:
        >>> class Lines(RangeIterator):
        ...     def iterate_range(self, file_path, start, stop):
        ...         with open(file_path, "rb") as lines:
        ...             lines.seek(max(0, start - 1))
        ...             _ = lines.readline() if start else b""
        ...             while (stop is None or lines.tell() < stop) and (line := lines.readline()):
        ...                 yield {"text": line.decode().strip()}
        ...     def output_columns(self):
        ...         return ["text"]
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     _ = file.write("one\ntwo\n")
        ...     file.flush()
        ...     [*Lines().iterate_range(file.name, 0, 2)], [*Lines().iterate_range(file.name, 2, None)]
        ([{'text': 'one'}], [{'text': 'two'}])
    """

    @abstractmethod
    def iterate_range(self, file_path: str, start: int, stop: int | None) -> Iterator[dict[str, Any] | Skipped]:
        """Yield the records that begin from byte ``start`` up to ``stop``; adjacent ranges yield every record once."""

    def iterate(self, file_path: str) -> Iterator[dict[str, Any] | Skipped]:
        return self.iterate_range(file_path, 0, None)


@dataclass
class FileCut(ProcessingStage[DownloadedFiles, DownloadedFiles]):
    """Divide downloaded files into ranges that are read independently, each a batch.

    Args:
        blocksize: approximate number of compressed bytes of a range.
    """

    blocksize: int | str
    name: str = "cut_files"

    def __post_init__(self) -> None:
        parse_bytes(self.blocksize)

    def is_fanout_stage(self) -> bool:
        return True

    def process(self, task: DownloadedFiles) -> list[DownloadedFiles]:
        """One batch per range."""
        cut = []
        for part, origin in zip(task.parts, task.origins, strict=True):
            count = max(1, -(-part.size // parse_bytes(self.blocksize)))
            bounds = [number * part.size // count for number in range(count + 1)]
            for start, stop in pairwise(bounds):
                piece = replace(part, start=start, stop=stop if count > 1 else None, range_bytes=stop - start)
                cut.append(DownloadedFiles(parts=(piece,), origins=(origin,), ranges=count))
        return cut


@dataclass
class IterateDocuments(ProcessingStage[FileGroup, DocumentBatch]):
    """Read the records of files and make a row of each.

    A record that cannot be read, or on which the extractor raises, goes to quarantine alone. So does the rest of a file
    whose iterator raises. Records that a rule skips are counted by reason.

    Args:
        iterator: reads the records of a file.
        extractor: makes a row from a record; without it the records are the rows.
        record_limit: maximum number of rows per file.
        add_filename_field: whether to add the name of the file to rows, in ``file_name`` or the column named.
        max_calls_per_worker: accepted for compatibility; processes whose memory grows are restarted anyway.
        on_error: ``"quarantine"``, or ``"raise"`` to end the run at the first record that cannot be read.
        keep_files: whether to keep files after they have been read.
        downloader: downloads a file again that is missing on this host.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> class Lines(DocumentIterator):
        ...     def iterate(self, file_path):
        ...         with open(file_path, encoding="utf-8") as lines:
        ...             yield from ({"text": line} for line in lines)
        ...     def output_columns(self):
        ...         return ["text"]
        >>> IterateDocuments(Lines()).outputs()[1]
        ['text', 'file_name']
    """

    iterator: DocumentIterator
    extractor: DocumentExtractor | None = None
    record_limit: int | None = None
    add_filename_field: bool | str = True
    max_calls_per_worker: int | None = None
    on_error: OnError = "quarantine"
    keep_files: bool = True
    downloader: DocumentDownloader | None = None

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_kind(type(self).__name__, "iterator", self.iterator, DocumentIterator)
        if self.extractor is not None:
            check_kind(type(self).__name__, "extractor", self.extractor, DocumentExtractor)
        if self.record_limit is not None and self.record_limit < 1:
            raise PipelineError(f"record_limit={self.record_limit!r} must be at least 1, or None for all records")
        if not isinstance(self.add_filename_field, bool | str):
            raise PipelineError(
                f"add_filename_field={self.add_filename_field!r} must be True, False or a column's name"
            )
        kinds = [type(part).__name__.lower() for part in (self.iterator, self.extractor) if part is not None]
        self.name = "_".join(["iterate", *(["extract"] if self.extractor else []), *kinds])

    @property
    def filename_col(self) -> str | None:
        """The column that names the file, if there is one."""
        named = self.add_filename_field
        return (named or None) if isinstance(named, str) else ("file_name" if named else None)

    def requires(self) -> dict[str, str]:
        return required_by([self.extractor])

    def outputs(self) -> tuple[list[str], list[str]]:
        columns = (self.extractor or self.iterator).output_columns()
        return [], [*columns, *([self.filename_col] if self.filename_col else [])]

    def settings(self) -> dict[str, Any]:
        """The settings that affect the rows: not file locations, nor whether files are kept."""
        settings = super().settings()
        for name in ("downloader", "keep_files", "max_calls_per_worker", "on_error"):
            settings.pop(name)
        return settings

    def process(self, task: FileGroup) -> list[DocumentBatch]:
        """Yield the rows of the files, in batches of about 64 MiB.

        Raises:
            DataError: a file is not there; or, with ``on_error="raise"``, a record cannot be read.
        """
        rows = _ExtractedRows(self)
        for number, part in enumerate(task.parts):
            origin = task.origins[number] if isinstance(task, DownloadedFiles) else None
            try:
                path = self._path(part, origin)
            except TransferError as error:
                lost = Skipped("not fetched", True, origin.url if origin else "", str(error))
                self._skip(lost, 0, os.path.basename(part.path), rows)
                continue
            self._read(path, part, rows)
            if not self.keep_files and origin is not None:
                _read_up(path, part, task.ranges if isinstance(task, DownloadedFiles) else 1)
        return rows.finished()

    def _path(self, part: FilePart, origin: RemoteFile | None) -> str:
        if os.path.exists(part.path) or "://" in part.path:
            return part.path
        if self.downloader is None or origin is None:
            raise DataError(
                f"stage {self.name!r}: {part.path!r} is not on this host; name a download_dir that all workers see, or "
                "give the stage downloader= so that it fetches the file here"
            )
        path = self.downloader.fetch(origin)
        if path is None:
            raise TransferError(f"cannot fetch {origin.url}: the downloader gave no reason")
        return path

    def _read(self, path: str, part: FilePart, rows: _ExtractedRows) -> None:
        name = os.path.basename(path)
        made = number = 0
        try:
            for number, record in enumerate(self._records(path, part)):
                if self.record_limit and made >= self.record_limit:
                    return
                made += self._take(record, number, name, rows)
        except (*OURS, DataError):
            raise
        except Exception as error:  # the iterator is user code, and records already read are kept
            self._skip(failure("unreadable file", error), number, name, rows)

    def _records(self, path: str, part: FilePart) -> Iterator[dict[str, Any] | Skipped]:
        if isinstance(self.iterator, RangeIterator):
            return self.iterator.iterate_range(path, part.start, part.stop)
        return self.iterator.iterate(path) or iter(())

    def _take(self, record: dict[str, Any] | Skipped, number: int, name: str, rows: _ExtractedRows) -> int:
        """Make a row of a record; returns the number of rows: one or none."""
        if isinstance(record, Skipped):
            self._skip(record, number, name, rows)
            return 0
        if self.filename_col:
            record[self.filename_col] = name
        row = row_of(self.extractor, record, [self.filename_col] if self.filename_col else [])
        if not isinstance(row, Skipped):
            rows.add(row)
            return 1
        self._skip(row, number, name, rows)
        return 0

    def _skip(self, skipped: Skipped, number: int, name: str, rows: _ExtractedRows) -> None:
        refuse_where_asked(skipped, self.on_error, f"{name}, record {skipped.id or number}")
        rows.losses.add(skipped, name, number)


class _ExtractedRows:
    """The rows of a call, and the records without one."""

    def __init__(self, stage: IterateDocuments) -> None:
        self.columns = stage.outputs()[1]
        self.losses = Losses(stage.name)
        self._batches: list[DocumentBatch] = []
        self._rows: list[Mapping[str, Any]] = []
        self._weight = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row."""
        self._rows.append(row)
        self._weight += sum(len(value) for value in row.values() if isinstance(value, str | bytes | list))
        if self._weight >= BATCH_BYTES:
            self._close()

    def finished(self) -> list[DocumentBatch]:
        """The batches; the last one has the counts of skipped records."""
        if self._rows or not self._batches:
            self._close()
        self._batches[-1].rejections = tuple(self.losses.rejections())
        return self._batches

    def _close(self) -> None:
        self._batches.append(DocumentBatch(data=table_of(self._rows, self.columns)))
        self._rows, self._weight = [], 0


def _read_up(path: str, part: FilePart, ranges: int) -> None:
    """Delete a file when all its ranges have been read."""
    marks = f"{path}.read"
    if ranges > 1:
        os.makedirs(marks, exist_ok=True)
        open(os.path.join(marks, str(part.start)), "w").close()
        if len(os.listdir(marks)) < ranges:
            return
        shutil.rmtree(marks, ignore_errors=True)  # another worker may be at it too
    with suppress(FileNotFoundError):
        os.unlink(path)

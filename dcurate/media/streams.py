"""Files of rows, open for reading: large ones are read in ranges, so that a stage never holds one whole."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.isolate.errors import MediaFault
from dcurate.media.members import is_sequential
from dcurate.media.names import container_of
from dcurate.media.ranges import version_of
from dcurate.media.refs import BYTES, HELD, LARGEST_FILE, REF, Ref, fetched, has_media, refs_of

#: Bytes of the largest file that is fetched whole where it could be read in ranges.
_SMALL = 2**22
#: Bytes that a range of a remote file is read by.
_BLOCK = 2**20
#: Bytes that a range is read by from such a block: libsndfile asks for 8 KiB and less.
_BUFFER = 2**17


class OpenFile(NamedTuple):
    """A file, and the rows that refer to it or to segments of it, or else to one of its tracks.

    Args:
        rows: numbers of the rows, in order.
        file: the open file, or why it cannot be read. It is closed after its turn.
        size: size of the file in bytes; 0 where it cannot be read.
    """

    rows: list[int]
    file: BinaryIO | MediaFault
    size: int


def open_files(
    rows: pa.Table, *, limit: int = LARGEST_FILE, storage_options: Mapping[str, Any] | None = None
) -> Iterator[OpenFile]:
    """Yield each file that rows refer to once, open for reading, with the numbers of its rows; once for each track.

    Files above 4 MiB in a folder or a plain tar archive are read in ranges; others are fetched whole, about 64 MiB at a
    time. The order is not that of the rows.

    Args:
        rows: a table as `dcurate.media.refs.fetch` takes it.
        limit: size of the largest file that is fetched whole, in bytes; the fault of a larger one is ``"too large"``.
        storage_options: options of fsspec.

    Raises:
        DataError: as `fetch`; and where a store fails while a file is read.

    Examples:
        >>> import tempfile
        >>> from dcurate.media.refs import ref_array
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"0123456789"), file.flush()
        ...     refs = ref_array([Ref(file.name, start_s=0.0, stop_s=1.0), Ref("/no/such/file"), Ref(file.name)])
        ...     for opened in open_files(pa.table({"media_ref": refs})):
        ...         fault = isinstance(opened.file, MediaFault)
        ...         print(opened.rows, opened.file.reason if fault else opened.file.read())
        [0, 2] b'0123456789'
        [1] missing
    """
    files = _rows_of_files(rows)
    ranged = _ranged(files, storage_options)
    fetchable = {key: numbers for key, numbers in files.items() if key not in ranged}
    firsts = rows.take(pa.array([numbers[0] for numbers in fetchable.values()], pa.int64())) if fetchable else rows[:0]
    remaining = iter(fetchable.values())
    if fetchable or not has_media(rows):
        for _, contents in fetched(firsts, limit=limit, storage_options=storage_options, held=HELD):
            for data in contents:
                if isinstance(data, MediaFault):
                    yield OpenFile(next(remaining), data, 0)
                else:
                    yield OpenFile(next(remaining), io.BytesIO(data), len(data))
    for ref, size in ranged.items():
        with storage_errors("read", ref.path):
            store, path = open_store(ref.path, storage_options)
            source = store.open(path, "rb", block_size=_BLOCK)
        section = Section(source, ref.offset or 0, size)
        with source:
            yield OpenFile(files[ref], io.BufferedReader(section, _BUFFER), size)
        if section.error is not None:
            with storage_errors("read", ref.path):
                raise section.error


def _rows_of_files(rows: pa.Table) -> dict[Ref | int, list[int]]:
    """The rows of each file; a row with bytes of its own, or without a file, is a key by its number."""
    refs = refs_of(rows.select([REF])) if REF in rows.column_names else [None] * rows.num_rows
    here = pc.is_valid(rows[BYTES]).to_pylist() if BYTES in rows.column_names else [False] * rows.num_rows
    files: dict[Ref | int, list[int]] = {}
    for number, (ref, has_bytes) in enumerate(zip(refs, here, strict=True)):
        files.setdefault(number if ref is None or has_bytes else ref.whole, []).append(number)
    return files


def _ranged(files: Mapping[Ref | int, Any], options: Mapping[str, Any] | None) -> dict[Ref, int]:
    """The files that can be read in ranges and are large enough for that, with their sizes in bytes."""
    sizes: dict[Ref, int] = {}
    for ref in files:
        if isinstance(ref, int) or ref.is_named_only or container_of(ref.path) not in ("", "tar"):
            continue
        if (
            (ref.size is not None and ref.size <= _SMALL)
            or (ref.offset or 0) < 0
            or is_sequential(ref.path, ref.member)
        ):
            continue
        try:
            store, path = open_store(ref.path, options)
            with storage_errors("read", ref.path):
                whole = version_of(store, path).size
        except (DataError, FileNotFoundError):
            continue  # `fetch` says why
        size = whole - (ref.offset or 0) if ref.size is None else ref.size
        if size > _SMALL and (ref.offset or 0) + size <= whole:
            sizes[ref] = size
    return sizes


class Section(io.RawIOBase):
    """A range of an open file, as a file of its own.

    An error of the store ends the file, and is kept in `error`: decoders that call back cannot pass it on.
    """

    def __init__(self, source: BinaryIO, offset: int, size: int) -> None:
        self._source, self._offset, self._size, self._at = source, offset, size, 0
        self.error: OSError | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0 or self.error is not None:
            return 0
        try:
            self._source.seek(self._offset + self._at)
            data = self._source.read(wanted)
        except OSError as error:
            self.error = error
            return 0
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

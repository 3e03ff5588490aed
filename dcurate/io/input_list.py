"""The list of the files that a run reads, with their sizes and versions, compressed as it grows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import BytesIO
from typing import NamedTuple

import orjson
import zstandard

from dcurate.errors import DataError


class ListedFile(NamedTuple):
    """A file of the input, as it was listed.

    Args:
        path: full address, without secrets.
        size: in bytes.
        version: what changes when the content does: an etag, or size and modification time; empty if not known.
    """

    path: str
    size: int
    version: str


class InputList:
    """Keeps files in the order in which they are listed: a million of them take some 25 MB of memory and disk.

    Attributes:
        files: number of files; ``nbytes`` is their size.

    Examples:
        >>> listed = InputList()
        >>> for size in (3, 3, 5):
        ...     listed.add(ListedFile(f"/in/{size}.jsonl", size, "v1"))
        >>> listed.files, listed.nbytes, [file.path for file in listed_files(listed.data(), "it")]
        (2, 8, ['/in/3.jsonl', '/in/5.jsonl'])
    """

    def __init__(self) -> None:
        self.files = self.nbytes = 0
        self._digest = hashlib.sha256()
        self._data = BytesIO()
        self._stream = zstandard.ZstdCompressor().stream_writer(self._data, closefd=False)
        self._last = ""

    def add(self, file: ListedFile) -> None:
        """Add a file, unless it is the one that was added last, as a part of a large file is."""
        if file.path == self._last:
            return
        self._last = file.path
        line = orjson.dumps([file.path.encode(errors="backslashreplace").decode(), file.size, file.version]) + b"\n"
        self._digest.update(line)
        self._stream.write(line)
        self.files += 1
        self.nbytes += file.size

    @property
    def digest(self) -> str:
        """SHA-256 of the list, in hexadecimal."""
        return self._digest.hexdigest()

    def data(self) -> bytes:
        """The list as JSON Lines, ``[path, size, version]``, compressed with zstd."""
        self._stream.flush(zstandard.FLUSH_FRAME)
        return self._data.getvalue()


def listed_files(data: bytes, name: str) -> Iterator[ListedFile]:
    """Read what `InputList.data` gave, line by line.

    Args:
        name: the file that it was read from, for errors.

    Raises:
        DataError: it is damaged.
    """
    try:
        with zstandard.ZstdDecompressor().stream_reader(BytesIO(data), read_across_frames=True) as lines:
            rest = b""
            while block := lines.read(2**20):
                *whole, rest = (rest + block).split(b"\n")
                yield from (ListedFile(*orjson.loads(line)) for line in whole)
    except (ValueError, TypeError, zstandard.ZstdError) as error:
        raise DataError(f"{name!r} is damaged ({error}); delete it to see the lineage without its files") from error

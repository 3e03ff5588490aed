"""Stages that add a column made of the file of each row, by a function that may run in a child process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import xxhash

from dcurate.core.stage import WorkerMetadata
from dcurate.images.duplicates.fingerprint import ARROW, FINGERPRINT, read_fingerprint, read_pixel_digest
from dcurate.images.media_stage import PictureStage
from dcurate.media.errors import MediaError, MediaFault
from dcurate.media.image.pixels import MAX_PIXELS
from dcurate.media.refs import LARGEST_FILE
from dcurate.media.sandbox import Sandbox

#: Column of hashes of files, or of their pixels.
DIGEST = "_dcurate_digest"


@dataclass(frozen=True)
class ImageReading:
    """How the files of pictures are read and decoded.

    Args:
        sandbox: decode in a child process with limits of time and memory, so that a decoder that hangs or ends its
            process costs one row.
        max_pixels: most pixels of a picture, as stored.
        max_file_bytes: a larger file goes to quarantine as ``too large``, and is not read.
        timeout_s: seconds of CPU time for a picture in the sandbox, and ten times as many by the clock.
        memory_bytes: memory of the sandbox.
        storage_options: for fsspec.

    Examples:
        >>> ImageReading(sandbox=True, timeout_s=10).max_pixels
        178000000
    """

    sandbox: bool = False
    max_pixels: int = MAX_PIXELS
    max_file_bytes: int = LARGEST_FILE
    timeout_s: float = 60.0
    memory_bytes: int = 2**31
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)


Reader = Callable[[bytes, Mapping[str, Any]], tuple[dict[str, Any], list[bytes]]]


class PictureReader:
    """Calls a function for the bytes of pictures, here or in a child process.

    Args:
        function: function in the form that a `Sandbox` takes: it returns one byte string.
        reading: how.
    """

    def __init__(self, function: Reader, reading: ImageReading) -> None:
        self._function, self._options = function, {"max_pixels": reading.max_pixels}
        self._child: Sandbox | None = None
        if reading.sandbox:
            name = f"{function.__module__}:{function.__name__}"
            self._child = Sandbox(name, self._options, timeout_s=reading.timeout_s, memory_bytes=reading.memory_bytes)

    def read(self, files: Sequence[bytes]) -> list[bytes | MediaFault]:
        """Return what the function says of each file, or what is wrong with it."""
        if self._child is None:
            return [self._here(data) for data in files]
        answers = self._child.map(files)
        return [answer if isinstance(answer, MediaFault) else answer.blobs[0] for answer in answers]

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.close()

    def _here(self, data: bytes) -> bytes | MediaFault:
        try:
            return self._function(data, self._options)[1][0]
        except MediaError as error:
            return error.fault


@dataclass
class _WithReader(PictureStage):
    """A stage with one column of what a function says of each picture; null where there is none.

    A null is not a value, so a row without a picture is kept, and is a duplicate of nothing.
    """

    keeps_rows_without: ClassVar[bool] = True

    reading: ImageReading = field(default_factory=ImageReading)
    prefix: str = ""

    @property
    def function(self) -> Reader:
        """What is called for each picture."""
        return read_fingerprint

    def __post_init__(self) -> None:
        self.max_file_bytes, self.storage_options = self.reading.max_file_bytes, self.reading.storage_options
        self._reader: PictureReader | None = None

    def settings(self) -> dict[str, Any]:
        return {"max_pixels": self.reading.max_pixels}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._reader = PictureReader(self.function, self.reading)

    def teardown(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def look(self, files: Sequence[bytes]) -> Sequence[Sequence[Any] | MediaFault]:
        if self._reader is None:
            self.setup()
        assert self._reader is not None
        return [
            fingerprint if isinstance(fingerprint, MediaFault) else (fingerprint,)
            for fingerprint in self._reader.read(files)
        ]


@dataclass
class FingerprintStage(_WithReader):
    """Adds the column `FINGERPRINT`."""

    name: str = "image_fingerprints"

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {FINGERPRINT: ARROW}


@dataclass
class PixelDigest(_WithReader):
    """Adds the column `DIGEST`: a hash of the pixels of each picture."""

    name: str = "pixel_digests"

    @property
    def function(self) -> Reader:
        return read_pixel_digest

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {DIGEST: pa.binary(16)}


@dataclass
class FileDigest(_WithReader):
    """Adds the column `DIGEST`: a hash of the bytes of each file, which is not decoded."""

    name: str = "file_digests"

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {DIGEST: pa.binary(16)}

    def requires(self) -> dict[str, str]:
        return {}

    def look(self, files: Sequence[bytes]) -> Sequence[Sequence[Any] | MediaFault]:
        return [(xxhash.xxh3_128_digest(data),) for data in files]

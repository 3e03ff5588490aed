"""`FileDigest`: a hash of the bytes of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import xxhash

from dcurate.media.heads import File
from dcurate.media.stage import FileStage

#: Column of hashes of files, or of their decoded content.
DIGEST = "_dcurate_digest"


@dataclass
class FileDigest(FileStage):
    """Adds the column `DIGEST`: a hash of the bytes of each file, which is not decoded."""

    name: str = "file_digests"

    keeps_rows_without: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, pa.DataType]] = {DIGEST: pa.binary(16)}

    def read(self, file: File) -> Sequence[Any]:
        return (xxhash.xxh3_128_digest(file.data),)

"""Stages that add a column made of the image of each row, for the stages that look for duplicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pyarrow as pa

from dcurate.images.duplicates.fingerprint import ARROW, FINGERPRINT
from dcurate.images.reading import LIBRARIES, ImageReading
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.digest import DIGEST
from dcurate.media.stage import FileStage


@dataclass
class ImagePrint(FileStage):
    """A stage with one column of what a function says of each image; null where there is none.

    A null is not a value, so a row without an image is kept, and is a duplicate of nothing.
    """

    reading: ImageReading = field(default_factory=ImageReading)

    takes: ClassVar[type[ImageReading]] = ImageReading
    in_child: ClassVar[Literal["always", "on request"]] = "on request"
    keeps_rows_without: ClassVar[bool] = True

    @property
    def options(self) -> Mapping[str, Any]:
        return {"max_pixels": self.reading.max_pixels}

    def requires(self) -> dict[str, str]:
        return LIBRARIES

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return (answer.blobs[0],)


@dataclass
class FingerprintStage(ImagePrint):
    """Adds the column `FINGERPRINT`."""

    name: str = "image_fingerprints"

    function: ClassVar[str] = "dcurate.images.duplicates.fingerprint:read_fingerprint"
    columns: ClassVar[Mapping[str, pa.DataType]] = {FINGERPRINT: ARROW}


@dataclass
class PixelDigest(ImagePrint):
    """Adds the column `DIGEST`: a hash of the pixels of each image."""

    name: str = "pixel_digests"

    function: ClassVar[str] = "dcurate.images.duplicates.fingerprint:read_pixel_digest"
    columns: ClassVar[Mapping[str, pa.DataType]] = {DIGEST: pa.binary(16)}

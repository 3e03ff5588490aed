"""`ImageInfo`: what the headers of pictures say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.images.properties import count_frames, date_of, jpeg_quality
from dcurate.images.reading import LIBRARIES
from dcurate.isolate.errors import MediaError
from dcurate.media.heads import File
from dcurate.media.image.headers import format_of, read_header
from dcurate.media.stage import FileStage

_COLUMNS: dict[str, pa.DataType] = {
    "format": pa.string(),
    "width": pa.int64(),
    "height": pa.int64(),
    "short_side": pa.int64(),
    "aspect": pa.float64(),
    "mode": pa.string(),
    "bits": pa.int64(),
    "orientation": pa.int64(),
    "taken": pa.string(),
    "icc": pa.bool_(),
    "frames": pa.int64(),
    "quality": pa.int64(),
    "bytes": pa.int64(),
    "bytes_per_pixel": pa.float64(),
}

#: Formats whose properties all come before the pixels.
_HEADED = frozenset(("jpeg", "bmp", "ppm", "qoi"))


@dataclass
class ImageInfo(FileStage):
    """Add what the header of each picture says; nothing is decoded.

    The columns, after ``image_``: ``format`` (``jpeg``, ``png``, ...: by content, not by name), ``width``, ``height``
    and ``short_side`` in pixels as the picture is seen, ``aspect`` (width / height), ``mode`` (Pillow's name for the
    colours), ``bits`` of a channel, ``orientation`` (EXIF, 1 to 8), ``taken`` (EXIF date and time, or null), ``icc``
    (whether there is a colour profile), ``frames``, ``quality`` (of a JPEG, 1 to 100, estimated from its quantisation
    tables, else null), ``bytes``, ``bytes_per_pixel``. Where a picture was taken is not read.

    Of a JPEG, BMP, PPM or QOI file of more than 128 KiB, in a folder or a plain tar archive, the first 64 KiB are
    fetched, and all of it only if the header is longer. Other formats have properties further behind, and are fetched
    whole.

    A row whose file is not a picture goes to quarantine with the reason, such as ``empty``, ``truncated``, ``damaged``
    or ``not a picture: HTML or XML``.

    Args:
        prefix: comes before the name of every column.
        reading: limits; no image is decoded, so that there is no child process.
        name: name of the stage.

    Examples:
        >>> import io
        >>> from PIL import Image
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (300, 200)).save(file, "JPEG", quality=83)
        >>> batch = DocumentBatch(data=pa.table({"bytes": [file.getvalue(), b"<html>"]}))
        >>> found = ImageInfo().process(batch)
        >>> found.to_arrow().select(["image_width", "image_aspect", "image_quality"]).to_pylist()
        [{'image_width': 300, 'image_aspect': 1.5, 'image_quality': 83}]
        >>> found.rejections[0].reason
        'not a picture: HTML or XML'
    """

    prefix: str = "image_"
    name: str = "image_info"

    reads_heads: ClassVar[bool] = True
    limits_heads: ClassVar[bool] = True

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + name: kind for name, kind in _COLUMNS.items()}

    def requires(self) -> dict[str, str]:
        return LIBRARIES

    def is_enough(self, head: bytes) -> bool:
        try:
            return format_of(head) in _HEADED and read_header(head).width > 0
        except MediaError:
            return False

    def read(self, file: File) -> Sequence[Any]:
        header = read_header(file.data)
        width, height = header.upright
        return (
            header.format,
            width,
            height,
            min(width, height),
            width / height,
            header.mode,
            header.bits,
            header.orientation,
            date_of(header.exif),
            header.icc,
            count_frames(file.data, header.format),
            jpeg_quality(header),
            file.size,
            file.size / (width * height),
        )

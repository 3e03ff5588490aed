"""`ImageInfo`: what the headers of pictures say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.images.media_stage import PictureStage
from dcurate.images.properties import count_frames, date_of, jpeg_quality
from dcurate.media.errors import MediaError, MediaFault
from dcurate.media.heads import Head, heads
from dcurate.media.image.headers import format_of, read_header
from dcurate.media.refs import LARGEST_FILE

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
class ImageInfo(PictureStage):
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
        max_file_bytes: a larger file goes to quarantine as ``too large``, and is not read.
        storage_options: for fsspec.
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
    max_file_bytes: int = LARGEST_FILE
    storage_options: Mapping[str, Any] | None = None
    name: str = "image_info"

    columns: ClassVar[Mapping[str, pa.DataType]] = _COLUMNS

    def files(self, rows: pa.Table) -> Iterator[tuple[int, list[Any]]]:
        yield from heads(rows, _says_all, limit=self.max_file_bytes, storage_options=self.storage_options)

    def look(self, files: Sequence[Head]) -> Sequence[Sequence[Any] | MediaFault]:
        return [_info(*head) for head in files]


def _says_all(head: bytes) -> bool:
    """Whether the first bytes of a file hold all of its properties."""
    try:
        return format_of(head) in _HEADED and read_header(head).width > 0
    except MediaError:
        return False


def _info(data: bytes, size: int) -> Sequence[Any] | MediaFault:
    try:
        header = read_header(data)
    except MediaError as error:
        return error.fault
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
        count_frames(data, header.format),
        jpeg_quality(header),
        size,
        size / (width * height),
    )

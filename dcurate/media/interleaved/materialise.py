"""Fetch the bytes of images of interleaved rows, where and while a stage needs them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.image.headers import format_of
from dcurate.media.image.pixels import check_pixels, checked_header
from dcurate.media.interleaved.schema import SourceRef
from dcurate.media.refs import BYTES, LARGEST_FILE, REF, Ref, fetched, ref_array

Ints: TypeAlias = npt.NDArray[np.int64]

_WEB = ("http://", "https://", "ftp://")


def bytes_of(
    table: pa.Table, rows: Ints, *, limit: int = LARGEST_FILE, storage_options: Mapping[str, Any] | None = None
) -> Iterator[tuple[int, bytes | MediaFault]]:
    """Yield the number and the bytes of each of some rows, or why they cannot be had; about 64 MiB are held at a time.

    Args:
        table: interleaved rows.
        rows: the numbers of the rows, in order.
        limit: bytes of an image at most.
        storage_options: for fsspec.

    Raises:
        DataError: a store does not answer.

    Examples:
        >>> table = pa.table({"binary_content": [b"one", None], "source_ref": [None, '{"path": "/no/such.png"}']})
        >>> [data if isinstance(data, bytes) else data.reason for _, data in bytes_of(table, np.arange(2))]
        [b'one', 'missing']
    """
    chosen = table.select([name for name in _READ if name in table.column_names]).take(pa.array(rows))
    here, texts, errors = (
        chosen[name] if name in chosen.column_names else pa.nulls(len(rows), pa.string()) for name in _READ
    )
    refs = [_source(text) if data is None else SourceRef() for data, text in _pairs(here, texts)]
    wanted = pa.table(
        {
            BYTES: pc.cast(here, pa.large_binary()) if here.type != pa.string() else pa.nulls(len(rows), pa.binary()),
            REF: ref_array([_ref(ref) for ref in refs]),
        }
    )
    messages = errors.to_pylist()
    for start, batch in fetched(wanted, limit=limit, storage_options=storage_options):
        for place, data in enumerate(batch, start):
            ref = refs[place]
            if isinstance(ref, MediaFault):
                yield int(rows[place]), ref
            elif isinstance(data, MediaFault):
                yield int(rows[place]), _explained(data, ref, messages[place])
            else:
                page = ref.frame_index
                yield int(rows[place]), data if page is None else page_of(data, page)


_READ = ("binary_content", "source_ref", "materialize_error")


def _pairs(here: Any, texts: Any) -> Iterator[tuple[bool | None, str | None]]:
    present = pc.is_valid(here).to_pylist()
    return zip((True if is_present else None for is_present in present), texts.to_pylist(), strict=True)


def source_of(text: str | None) -> SourceRef:
    """Read a value of the column ``source_ref``.

    Raises:
        MediaError: it is not a reference.
    """
    try:
        return SourceRef.of(text)
    except DataError as error:
        raise MediaError("bad reference", str(error)) from error


def _source(text: str | None) -> SourceRef | MediaFault:
    try:
        return source_of(text)
    except MediaError as error:
        return error.fault


def _ref(ref: SourceRef | MediaFault) -> Ref | None:
    if isinstance(ref, MediaFault) or ref.path is None or ref.path.lower().startswith(_WEB):
        return None
    return Ref(ref.path, ref.member, ref.byte_offset, ref.byte_size)


def _explained(fault: MediaFault, ref: SourceRef, error: str | None) -> MediaFault:
    if fault.reason != "no reference":
        return fault
    if ref.path is not None:
        return MediaFault("not downloaded", f"{ref.path} is an address on the web; download it first")
    return MediaFault("missing", error or f"nothing says where {ref.member or 'the image'} is")


def page_of(data: bytes, page: int) -> bytes | MediaFault:
    """Return a page of a TIFF as a TIFF of one page; any other picture as it is.

    Examples:
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> first, second = Image.new("L", (1, 1)), Image.new("L", (2, 1))
        >>> first.save(file, "TIFF", save_all=True, append_images=[second])
        >>> Image.open(io.BytesIO(page_of(file.getvalue(), 1))).size
        (2, 1)
    """
    try:
        if format_of(data) != "tiff":
            return data
        checked_header(data)
        with needed("PIL.Image", "pages of a TIFF", "images").open(io.BytesIO(data), formats=["TIFF"]) as image:
            image.seek(page)
            check_pixels(image.size, len(data))
            frame = image.copy()
        file = io.BytesIO()
        frame.save(file, "TIFF")
    except MediaError as error:
        return error.fault
    except EOFError:
        return MediaFault("missing", f"the TIFF has no page {page}")
    except Exception as error:  # Pillow raises all kinds for damaged files
        return MediaFault("damaged", str(error))
    return file.getvalue()

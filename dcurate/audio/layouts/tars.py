"""Tar archives of recordings, whose bytes follow from their members alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from dcurate.isolate.errors import MediaFault
from dcurate.media.refs import BYTES, REF, Ref, fetched
from dcurate.media.tar import BLOCK
from dcurate.media.webdataset_writer import header_of

#: Archives end with zeros up to a multiple of this, as other programs write them.
_RECORD = 20 * BLOCK


def write_tar(file: BinaryIO, members: Iterable[tuple[str, bytes]]) -> None:
    """Write an archive of members, each given as its name and content.

    Examples:
        >>> import io, tarfile
        >>> file = io.BytesIO()
        >>> write_tar(file, [("a.wav", b"sound")])
        >>> len(file.getvalue()), tarfile.open(fileobj=io.BytesIO(file.getvalue())).getnames()
        (10240, ['a.wav'])
    """
    at = 0
    for name, data in members:
        header = header_of(name, len(data))
        for piece in (header, data, bytes(-len(data) % BLOCK)):
            file.write(piece)
            at += len(piece)
    file.write(bytes(2 * BLOCK + -(at + 2 * BLOCK) % _RECORD))


def recordings_of(refs: Sequence[Ref | None], has_bytes: Sequence[bool]) -> list[int]:
    """The row at which the recording of each row comes first: rows that are segments of one recording have one.

    Args:
        refs: reference of each row.
        has_bytes: whether a row has bytes of its own.

    Examples:
        >>> recordings_of([Ref("a.wav", start_s=1.0), Ref("b.wav"), Ref("a.wav"), None], [False] * 4)
        [0, 1, 0, 3]
    """
    first: dict[Ref, int] = {}
    return [
        row if ref is None or here else first.setdefault(ref.whole, row)
        for row, (ref, here) in enumerate(zip(refs, has_bytes, strict=True))
    ]


def contents(rows: pa.Table, chosen: Sequence[int], options: Mapping[str, Any] | None) -> Iterator[bytes | MediaFault]:
    """Yield the bytes of the recordings of some rows, or why they cannot be fetched, in order, 64 MiB at a time."""
    media = rows.select([name for name in (REF, BYTES) if name in rows.column_names])
    for _, files in fetched(media.take(pa.array(chosen, pa.int64())), storage_options=options):
        yield from files

"""The files of rows, each fetched once for all of its segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dcurate.isolate.errors import MediaFault
from dcurate.media.refs import BYTES, REF, Ref, fetched


def recordings_of(refs: Sequence[Ref | None], has_bytes: Sequence[bool]) -> list[int]:
    """The row at which the recording of each row comes first: rows that are segments or tracks of one file have one.

    Args:
        refs: reference of each row.
        has_bytes: whether a row has bytes of its own.

    Examples:
        >>> recordings_of([Ref("a.wav", start_s=1.0), Ref("b.wav"), Ref("a.wav"), None], [False] * 4)
        [0, 1, 0, 3]
    """
    first: dict[Ref, int] = {}
    return [
        row if ref is None or here else first.setdefault(ref.file, row)
        for row, (ref, here) in enumerate(zip(refs, has_bytes, strict=True))
    ]


def contents(rows: pa.Table, chosen: Sequence[int], options: Mapping[str, Any] | None) -> Iterator[bytes | MediaFault]:
    """Yield the bytes of the recordings of some rows, or why they cannot be fetched, in order, 64 MiB at a time."""
    media = rows.select([name for name in (REF, BYTES) if name in rows.column_names])
    for _, files in fetched(media.take(pa.array(chosen, pa.int64())), storage_options=options):
        yield from files

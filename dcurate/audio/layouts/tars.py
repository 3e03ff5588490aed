"""Tar archives of recordings, whose bytes follow from their members alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

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

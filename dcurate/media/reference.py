"""A reference to a file of media."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

#: The type of a reference; see `Ref`.
MEDIA_REF = pa.struct(
    [("path", pa.string()), ("member", pa.string()), ("offset", pa.int64()), ("size", pa.int64())],
)


class Ref(NamedTuple):
    """Where the bytes of a file of media lie.

    Args:
        path: path of the file itself, or of the container that it is in, as fsspec opens it.
        member: its name in the container; None for a file of its own.
        offset: offset of the bytes in the file at `path`. They are the file's content where the container stores it as
            it is: a tar. In a zip archive they are its local header and packed content, in a WARC file its record, in
            JSON Lines its line. In a compressed tar or JSON Lines file they are a range of the unpacked content.
        size: size of that range in bytes; None for all of a file, or up to its end.

    A member without both is looked for in its container by its name; a line of JSON Lines has no name, and needs both.

    Examples:
        >>> Ref("shard.tar", "a.jpg", 512, 1000).member
        'a.jpg'
    """

    path: str
    member: str | None = None
    offset: int | None = None
    size: int | None = None

    @property
    def is_named_only(self) -> bool:
        """Whether the member must be looked for, as the reference has no whole range."""
        return self.member is not None and (self.offset is None or self.size is None)

"""A reference to a file of media."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

#: The type of a reference to a file, of one to a segment of it, and of one to a track of it; see `Ref`.
MEDIA_REF = pa.struct(
    [("path", pa.string()), ("member", pa.string()), ("offset", pa.int64()), ("size", pa.int64())],
)
SEGMENT_REF = pa.struct([*MEDIA_REF, ("start_s", pa.float64()), ("stop_s", pa.float64())])
TRACK_REF = pa.struct([*SEGMENT_REF, ("stream", pa.int64())])


class Ref(NamedTuple):
    """Where the bytes of a file of media lie.

    Args:
        path: path of the file itself, or of the container that it is in, as fsspec opens it.
        member: its name in the container; None for a file of its own.
        offset: offset of the bytes in the file at `path`. They are the file's content where the container stores it as
            it is: a tar. In a zip archive they are its local header and packed content, in a WARC file its record, in
            JSON Lines its line. In a compressed tar or JSON Lines file they are a range of the unpacked content.
        size: size of that range in bytes; None for all of a file, or up to its end.
        start_s: where a segment of a recording or film begins, in seconds; None for the start of it. The bytes are
            those of the whole file all the same: a segment is a view, which a stage cuts out as it decodes.
        stop_s: where the segment ends, in seconds; None for the end of the recording.
        stream: number of a track of a film, from 0, as FFmpeg counts them; None for all tracks, of which stages take
            the first that suits them. The bytes are those of the whole file, and the times those of its one clock.

    A member without both is looked for in its container by its name; a line of JSON Lines has no name, and needs both.

    Examples:
        >>> Ref("shard.tar", "a.jpg", 512, 1000).member
        'a.jpg'
        >>> clip = Ref("talk.wav", start_s=1.5, stop_s=4.0)
        >>> clip.is_segment, clip.whole
        (True, Ref(path='talk.wav', member=None, offset=None, size=None, start_s=None, stop_s=None, stream=None))
    """

    path: str
    member: str | None = None
    offset: int | None = None
    size: int | None = None
    start_s: float | None = None
    stop_s: float | None = None
    stream: int | None = None

    @property
    def is_segment(self) -> bool:
        """Whether it means a part of a recording or film."""
        return self.start_s is not None or self.stop_s is not None

    @property
    def whole(self) -> Ref:
        """The reference to all of the recording or film, or of its track."""
        return self._replace(start_s=None, stop_s=None)

    @property
    def file(self) -> Ref:
        """The reference to the file: all of it, with all tracks."""
        return self._replace(start_s=None, stop_s=None, stream=None)

    @property
    def value(self) -> dict[str, Any]:
        """The value in a column; without `stream`, or `start_s` and `stop_s`, too, where they are None."""
        count = 7 if self.stream is not None else 6 if self.is_segment else 4
        return dict(zip(self._fields[:count], self, strict=False))

    @property
    def is_named_only(self) -> bool:
        """Whether the member must be looked for, as the reference has no whole range."""
        return self.member is not None and (self.offset is None or self.size is None)


def type_of_values(values: Iterable[dict[str, Any] | None]) -> pa.StructType:
    """The type of a column of values of references: with fields for segments and tracks where one of them is such.

    Examples:
        >>> type_of_values([Ref("a.wav").value, None]) == MEDIA_REF
        True
    """
    most = max((len(value) for value in values if value is not None), default=0)
    return TRACK_REF if most > 6 else SEGMENT_REF if most > 4 else MEDIA_REF

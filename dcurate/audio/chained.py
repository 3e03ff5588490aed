"""Ogg and MP3 files with several recordings one after the other: they are heard as one.

Ogg files of live streams are such, and MP3 files that were joined byte by byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from dcurate.audio.headers.mpeg import tag_bytes, tagged_bytes
from dcurate.audio.headers.ogg import OggLinks
from dcurate.media.heads import File
from dcurate.media.streams import Section

#: Bytes of the header of a page, and of the largest table of lengths behind it.
_HEADER, _TABLE = 27, 255
#: Bytes of some frames of MP3 in a row, and of a tag of ID3v1; recordings of a file at most.
_FRAMES, _OLD_TAG, _MOST_LINKS = 2**13, 128, 1000


def ogg_starts(source: BinaryIO) -> list[int]:
    """Return the places where the recordings of an Ogg file begin; pages behind damage are of the last one.

    Args:
        source: the open file; it is left where it was.
    """
    before, links, at = source.tell(), OggLinks(), 0
    while True:
        source.seek(at)
        size = links.take(source.read(_HEADER + _TABLE), at)
        if size is None:
            break
        at += size
    source.seek(before)
    return links.starts


def mp3_starts(source: BinaryIO) -> list[int]:
    """Return the places where the recordings of an MP3 file begin, by the sizes that their tags of Xing or VBRI give.

    A recording without such a tag, and bytes that no recording begins with, are of the one before.

    Args:
        source: the open file; it is left where it was.
    """
    before, size = source.tell(), source.seek(0, io.SEEK_END)
    starts, at = list[int](), 0
    while at < size and len(starts) < _MOST_LINKS:
        source.seek(at)
        tags = tag_bytes(source.read(_FRAMES))  # before the first frame, maybe with pictures
        source.seek(at + tags)
        sizes = tagged_bytes(File(source.read(_FRAMES), size - at - tags))
        if sizes is None or (starts and sizes[0]):
            break
        starts.append(at)
        at += tags + sum(sizes)
        source.seek(at)
        at += _OLD_TAG if source.read(3) == b"TAG" else 0
    source.seek(before)
    return starts


class ChainedSound:
    """Recordings one after the other, with those parts of soundfile's interface that `dcurate.audio.decode` uses.

    Args:
        source: the open file.
        starts: places where they begin.
        read: opens a file of one recording.
    """

    subtype = "CHAINED"

    def __init__(self, source: BinaryIO, starts: list[int], read: Callable[[BinaryIO], Any]) -> None:
        self._stops = [*starts[1:], source.seek(0, io.SEEK_END)]
        self._source, self._starts, self._read = source, starts, read
        self._number, self._decoder = 0, self._open(0)
        self.format = self._decoder.format
        self.samplerate, self.channels = self._decoder.samplerate, self._decoder.channels
        #: Not known, or more than any if the rest has another rate or number of channels.
        self.frames = 0

    def read(self, count: int, dtype: str, always_2d: bool) -> npt.NDArray[np.float32]:
        pieces = [self._decoder.read(count, dtype=dtype, always_2d=always_2d)]
        held = len(pieces[0])
        while held < count and self._goes_on():
            pieces.append(self._decoder.read(count - held, dtype=dtype, always_2d=always_2d))
            held += len(pieces[-1])
        return np.concatenate(pieces)

    def _goes_on(self) -> bool:
        """Open the next recording, if there is one of the same kind."""
        if self.frames or self._number + 1 == len(self._starts):
            return False
        decoder = self._open(self._number + 1)
        if (decoder.samplerate, decoder.channels) != (self.samplerate, self.channels):
            self.frames = 2**62
            return False
        self._number, self._decoder = self._number + 1, decoder
        return True

    def _open(self, number: int) -> Any:
        start = self._starts[number]
        return self._read(cast("BinaryIO", Section(self._source, start, self._stops[number] - start)))

"""Ogg files with several recordings one after the other, as those of live streams: they are heard as one."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from dcurate.audio.headers.ogg import OggLinks
from dcurate.media.streams import Section

#: Bytes of the header of a page, and of the largest table of lengths behind it.
_HEADER, _TABLE = 27, 255


def link_starts(source: BinaryIO) -> list[int]:
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


class ChainedSound:
    """Recordings one after the other, with those parts of soundfile's interface that `dcurate.audio.decode` uses.

    Args:
        source: the open file.
        starts: places where they begin.
        read: opens a file of one recording.
    """

    format, subtype = "OGG", "CHAINED"

    def __init__(self, source: BinaryIO, starts: list[int], read: Callable[[BinaryIO], Any]) -> None:
        self._stops = [*starts[1:], source.seek(0, io.SEEK_END)]
        self._source, self._starts, self._read = source, starts, read
        self._number, self._decoder = 0, self._open(0)
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

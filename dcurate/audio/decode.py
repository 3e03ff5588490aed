"""Decode recordings in windows, so that memory does not grow with their length. Nothing else decodes sound."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from dcurate.audio.chained import ChainedSound, mp3_starts, ogg_starts
from dcurate.audio.containers import no_track, open_container
from dcurate.audio.headers.formats import read_header
from dcurate.audio.headers.mpeg import tag_bytes
from dcurate.audio.headers.ogg import LAST, ends_early, is_chained
from dcurate.audio.headers.riff import place_of_no_size
from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError
from dcurate.media.av_containers import is_av_container
from dcurate.media.heads import File

#: Samples of float32 in -1 to 1, one row a frame, one column a channel.
Samples = npt.NDArray[np.float32]

#: Frames of a window, and its samples of all channels, at most.
WINDOW, _SAMPLES = 2**16, 2**20
#: Frames that are read at a time around damage.
_STEP = 2**8
#: Formats of libsndfile in which a seek is exact to the frame.
_SEEKABLE = frozenset({"WAV", "WAVEX", "RF64", "FLAC", "AIFF", "AU", "CAF", "W64"})
#: Subtypes that seek by blocks, and subtypes that hold numbers which may be NaN.
_BLOCKS = frozenset({"MS_ADPCM", "IMA_ADPCM", "GSM610", "G721_32", "G723_24", "G723_40"})
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_WAV = frozenset({"WAV", "WAVEX", "RF64"})
#: A size of sound in a WAV file that reaches to the end of it.
_TO_THE_END = b"\xff" * 4
#: The frames of a file whose header does not say their number, such as FLAC of a live stream, for libsndfile.
_UNKNOWN = 2**63 - 1
#: Bytes of a file in which its header is looked for.
_HEAD = 2**20
#: Blocks that are decoded and dropped rather than skipped by a seek.
_SKIPPED = 4


@dataclass
class Sound:
    """An open recording.

    Args:
        source: the open file.
        stream: number of the track of a film that is heard; None for the first with sound.

    Raises:
        MediaError: not a recording, or a damaged one, or in a format that cannot be decoded.

    Examples:
        >>> import soundfile
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.zeros((20_000, 2)), 8000, format="FLAC")
        >>> sound = Sound(file)
        >>> sound.rate, sound.channels, [len(samples) for samples in sound.windows(0, None)]
        (8000, 2, [20000])
        >>> sum(len(samples) for samples in sound.windows(15_000, 30_000)), sound.truncated
        (5000, False)
    """

    source: BinaryIO
    stream: int | None = None

    #: Whether the file ends, or is damaged, before the end that its header gives; known after it was decoded.
    truncated: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._decoder = self._open()
        self._number, self._block = -1, self._blank()  # the block that was decoded last
        self._end: int | None = None  # the frame where damage begins

    @property
    def rate(self) -> int:
        """Samples of a channel a second."""
        return int(self._decoder.samplerate)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self._decoder.channels)

    @property
    def frames(self) -> int:
        """Samples of a channel, by the header; there may be fewer, or, in some formats, more. 0 if it does not say."""
        frames = int(self._decoder.frames)
        return 0 if frames == _UNKNOWN else frames

    @cached_property
    def window(self) -> int:
        """Frames of a window: 65,536, or less of more than 16 channels."""
        return max(1, min(WINDOW, _SAMPLES // self.channels))

    def windows(self, start: int, stop: int | None) -> Iterator[Samples]:
        """Yield the samples of a segment in windows of `window` frames; the last may be shorter.

        The windows depend on the segment only, not on what was decoded before. Each is valid until the next.

        Args:
            start: first frame.
            stop: frame behind the last; None for the end.

        Raises:
            MediaError: samples that are not numbers, or no sound at all in the file.
        """
        while stop is None or start < stop:
            count = self.window if stop is None else min(self.window, stop - start)
            samples = self._frames(start, count)
            if self._decoder.subtype in _FLOATS and not np.isfinite(samples).all():
                raise MediaError("not a number", f"samples from frame {start} on are NaN or infinite")
            if len(samples):
                yield samples
            if len(samples) < count:
                return
            start += count

    def _frames(self, start: int, count: int) -> Samples:
        """Frames of the recording; fewer at its end."""
        pieces: list[Samples] = []
        held = 0
        while held < count:
            number, skip = divmod(start + held, self.window)
            self._go_to(number)
            if self._number != number:
                break
            pieces.append(self._block[skip : skip + count - held])
            held += len(pieces[-1])
            if len(self._block) < self.window:
                break
        return pieces[0] if len(pieces) == 1 else np.concatenate([self._blank(), *pieces])

    def _go_to(self, number: int) -> None:
        """Decode the block of a number, or the last one that there is."""
        if number < self._number or (self._seeks and number > self._number + _SKIPPED):
            self._number = number - 1
            if not self._sought(number * self.window):
                self._decoder, self._number = self._open(), -1
        while self._number < number:
            at_end = 0 < len(self._block) < self.window and self._number >= 0
            if at_end or not self._read_block():
                return

    def _sought(self, frame: int) -> bool:
        if not self._seeks or self._end is not None or frame >= self.frames:
            return False
        try:
            self._decoder.seek(frame)
        except _error():
            return False
        self._block = self._blank()
        return True

    @cached_property
    def _seeks(self) -> bool:
        return self._decoder.format in _SEEKABLE and self._decoder.subtype not in _BLOCKS

    def _read_block(self) -> bool:
        """Decode the next block, if there is one; it is shorter at the end, or where damage begins."""
        first = (self._number + 1) * self.window
        count = self.window if self._end is None else max(0, min(self.window, self._end - first))
        samples = self._decoded(first, count)
        if len(samples):
            self._number, self._block = self._number + 1, samples
        if len(samples) < self.window:
            end = first + len(samples)
            self.truncated |= end < max(self.frames, self._promised)
            if not end:
                raise MediaError("damaged" if self.truncated else "no sound", "it has no frame that can be decoded")
        return len(samples) > 0

    def _blank(self) -> Samples:
        return np.empty((0, self.channels), np.float32)

    @cached_property
    def _promised(self) -> int:
        """Frames by the header of a WAV file, or more than any if an Ogg file is cut: libsndfile gives those there."""
        if self._decoder.format not in _WAV | {"OGG"}:
            return 0
        place = self.source.tell()
        try:
            if self._decoder.format == "OGG":
                return 2**62 if ends_early(_end(self.source)) else 0
            return read_header(_head(self.source)).frames or 0
        except MediaError as error:
            return 2**62 if error.fault.reason == "truncated" else 0
        finally:
            self.source.seek(place)  # where the decoder goes on

    def _decoded(self, first: int, count: int) -> Samples:
        try:
            return _frames(self._decoder, count)
        except _error():
            self.truncated = True
            self._decoder = self._open()
        pieces: list[Samples] = []
        frame = 0
        try:  # up to the damage, in small steps
            while frame < first:
                frame += len(_frames(self._decoder, min(self.window, first - frame)))
            while frame < first + count:
                pieces.append(_frames(self._decoder, min(_STEP, first + count - frame)))
                frame += len(pieces[-1])
        except _error():
            pass
        self._end = frame
        return np.concatenate([self._blank(), *pieces])

    def _open(self) -> Any:
        library = needed("soundfile", "decoding sound", "audio")
        self.source.seek(0)
        try:
            decoder = _reader()(self.source)
            if self.stream:
                raise MediaError("no sound", no_track(self.stream))
            if not decoder.frames and decoder.format in _WAV:
                place = place_of_no_size(_head(self.source))
                self.source.seek(0)
                if place is not None:
                    self.source = cast("BinaryIO", Overlaid(self.source, place, _TO_THE_END))
                return _reader()(self.source)
            return self._chained(decoder.format) or decoder
        except library.LibsndfileError as error:
            head = _head(self.source)
            self.source.seek(0)
            if is_av_container(head.data[tag_bytes(head.data) :]):
                return open_container(self.source, self.stream)
            read_header(head)  # which may know better what is wrong
            raise MediaError("damaged", str(error).rpartition(": ")[2]) from error

    def _chained(self, kind: str) -> ChainedSound | None:
        """The decoder of several recordings one after the other."""
        place, starts = self.source.tell(), list[int]()
        if kind == "MP3":
            starts = mp3_starts(self.source)
        elif kind == "OGG" and is_chained(_head(self.source).data, _end(self.source)):
            starts = ogg_starts(self.source)
        self.source.seek(place)  # where the decoder goes on
        return ChainedSound(self.source, starts, _reader()) if len(starts) > 1 else None


class Overlaid(io.RawIOBase):
    """A file of which some bytes are read as others.

    Args:
        source: the file.
        place: place of the first of them.
        content: what is read there.

    Examples:
        >>> Overlaid(io.BytesIO(b"abcdef"), 2, b"XY").read(4)
        b'abXY'
    """

    def __init__(self, source: BinaryIO, place: int, content: bytes) -> None:
        self._source, self._place, self._content = source, place, content

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._source.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._source.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        at = self._source.tell()
        data = self._source.read(len(buffer))
        first, last = max(at, self._place), min(at + len(data), self._place + len(self._content))
        if first < last:
            content = self._content[first - self._place : last - self._place]
            data = data[: first - at] + content + data[last - at :]
        buffer[: len(data)] = data
        return len(data)


def _end(source: BinaryIO) -> bytes:
    size = source.seek(0, io.SEEK_END)
    source.seek(max(0, size - LAST))
    return source.read(LAST)


def _head(source: BinaryIO) -> File:
    size = source.seek(0, io.SEEK_END)
    source.seek(0)
    return File(source.read(_HEAD), size)


def _frames(decoder: Any, count: int) -> Samples:
    samples: Samples = decoder.read(count, dtype="float32", always_2d=True)
    return samples


@cache
def _reader() -> Any:
    """Return the class of decoders of libsndfile.

    After each read soundfile seeks to the present position, if the file says that it is seekable, and then frames of
    MP3 lack what earlier frames hold for them. So this class says that files are not seekable; seeking works anyway.
    """
    library = needed("soundfile", "decoding sound", "audio")
    return type("Reader", (library.SoundFile,), {"seekable": lambda _: False})


def _error() -> type[Exception]:
    kind: type[Exception] = needed("soundfile", "decoding sound", "audio").LibsndfileError
    return kind

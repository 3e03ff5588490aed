"""The header of an Ogg file with Vorbis, Opus or FLAC, and its duration from the last page."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import NamedTuple

from dcurate.audio.headers.flac import read_flac
from dcurate.audio.headers.header import AudioHeader, cut_short
from dcurate.isolate.errors import MediaError
from dcurate.media.heads import File

#: Samples a second that positions in Opus count, and the rates to which its decoders decode.
_OPUS_RATE = 48_000
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
_NO_PACKET_ENDS = 2**64 - 1
#: Bytes of the end of a file that have its last page; the flags of the first and the last page of a stream.
LAST, _BEGIN, _END = 2**17, 2, 4


class _OggPage(NamedTuple):
    position: int
    serial: int
    start: int
    stop: int
    is_last: bool  # of its stream, by its flag


def read_ogg(file: File) -> AudioHeader:
    """Read the header of an Ogg file with one recording, and its last page.

    Of a file with several recordings one after the other, the number of frames is not known.

    Raises:
        MediaError: another codec, or a header that is damaged or cut.
    """
    first = _page(file.data, 0)
    if first is None or first.stop > len(file.data):
        raise cut_short()
    header, skipped = _identified(file.data[first.start : first.stop])
    end = file.data[-LAST:] if len(file.data) == file.size else file.tail
    last = _last(end)
    if last is None or last.stop > len(end):
        raise cut_short("it ends within a page")
    if last.serial != first.serial or last.position == _NO_PACKET_ENDS:
        return header
    frames = max(0, last.position - skipped)
    if header.codec == "opus":
        frames = frames * header.sample_rate // _OPUS_RATE
    return replace(header, frames=frames, duration_s=None)


def ends_early(end: bytes) -> bool:
    """Whether an Ogg file ends within a page, or with one that is not flagged as the last of its stream.

    Of several streams, one after the other or interleaved, the last one has the last page of the file. Encoders of live
    streams that were stopped may leave the flag out: such a file ends early, too, as one that was cut between two pages
    is the same.

    Args:
        end: the last `LAST` bytes of the file, or all.
    """
    last = _last(end)
    return last is None or last.stop > len(end) or not last.is_last


def is_chained(head: bytes, end: bytes) -> bool:
    """Whether the last page of an Ogg file is of another stream than the first; these may also be interleaved.

    Args:
        head: the start of the file.
        end: the last `LAST` bytes of the file, or all.
    """
    first, last = _page(head, 0), _last(end)
    return first is not None and last is not None and first.serial != last.serial


class OggLinks:
    """Takes the pages of an Ogg file, and notes where one recording ends and the next begins."""

    def __init__(self) -> None:
        #: Places of the first pages of recordings.
        self.starts = list[int]()
        self._is_within = False

    def take(self, data: bytes, at: int) -> int | None:
        """Take the header of a page, and return the size of the page; None if another thing follows.

        Args:
            data: the page, or its start.
            at: its place in the file.
        """
        page = _page(data, 0)
        if page is None:
            return None
        is_first = bool(data[5] & _BEGIN)  # of a stream; streams that are interleaved begin together
        if is_first and (self._is_within or not self.starts):
            self.starts.append(at)
        self._is_within = not is_first
        return page.stop


def is_identified(head: bytes) -> bool:
    """Whether the start of an Ogg file names the codec; the rest is at the end of the file."""
    page = _page(head, 0)
    return page is not None and page.stop <= len(head)


def _identified(packet: bytes) -> tuple[AudioHeader, int]:
    """The header of the stream, and the frames at its start that are not heard."""
    if packet[:7] == b"\x01vorbis" and len(packet) >= 30:
        channels, rate = struct.unpack_from("<BI", packet, 11)
        return AudioHeader("ogg", "vorbis", rate, channels), 0
    if packet[:8] == b"OpusHead" and len(packet) >= 19:
        channels, skipped, recorded = struct.unpack_from("<BHI", packet, 9)
        rate = recorded if recorded in _OPUS_RATES else _OPUS_RATE
        return AudioHeader("ogg", "opus", rate, channels), skipped
    if packet[:5] == b"\x7fFLAC" and packet[9:13] == b"fLaC":
        header = read_flac(packet[9:], "ogg")
        return AudioHeader("ogg", "flac", header.sample_rate, header.channels, header.bits), 0
    raise MediaError("unsupported codec", "Ogg without Vorbis, Opus or FLAC in its first page")


def _last(data: bytes) -> _OggPage | None:
    """The last page that begins in the end of a file."""
    at = len(data)
    while (at := data.rfind(b"OggS", 0, at)) >= 0:
        page = _page(data, at)
        if page is not None and (page.stop >= len(data) or data[page.stop : page.stop + 4] != b"OggS"):
            return page
    return None


def _page(data: bytes, at: int) -> _OggPage | None:
    """The page at a place; None if its header is not all there."""
    if data[at : at + 5] != b"OggS\0" or at + 27 > len(data):
        return None
    position, serial, lengths = *struct.unpack_from("<QI", data, at + 6), data[at + 26]
    start = at + 27 + lengths
    if start > len(data):
        return None
    return _OggPage(position, serial, start, start + sum(data[at + 27 : start]), bool(data[at + 5] & _END))

"""The header of an MP3 file: its first frame, with the tags of Xing, LAME and VBRI."""

from __future__ import annotations

from typing import NamedTuple

from dcurate.audio.headers.header import AudioHeader, cut_short
from dcurate.isolate.errors import MediaError
from dcurate.media.heads import HEAD, File

#: Bytes before the first frame that are passed over.
_JUNK = 2**16
#: Frames in a row that make a file an MP3 file, unless it ends before.
_IN_A_ROW = 4
_RATES = (44100, 48000, 32000)
#: Bit rates in kbit/s: of MPEG 1 layers 1 to 3, and of MPEG 2 layer 1 and layers 2 and 3.
_BITRATES = {
    (1, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (1, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (1, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


class _MpegFrame(NamedTuple):
    version: int
    layer: int
    rate: int
    channels: int
    size: int

    @property
    def samples(self) -> int:
        if self.layer == 1:
            return 384
        return 576 if self.layer == 3 and self.version == 2 else 1152

    @property
    def kind(self) -> tuple[int, int, int]:
        return self.version, self.layer, self.rate


def tag_bytes(data: bytes) -> int:
    r"""Bytes of the ID3v2 tags that a file begins with; they may be more than are there.

    Examples:
        >>> tag_bytes(b"ID3\4\0\0\0\0\1\0" + bytes(128) + b"fLaC")
        138
    """
    at = 0
    while data[at : at + 3] == b"ID3" and len(data) >= at + 10:
        size, has_footer = data[at + 6 : at + 10], data[at + 5] & 0x10
        if max(size) > 127:
            break
        at += 10 + sum(part << shift for part, shift in zip(size, (21, 14, 7, 0), strict=True))
        at += 10 if has_footer else 0
    return at


def read_mp3(file: File) -> AudioHeader | None:
    """Read the header of an MP3 file; None if there are no MPEG frames.

    Without a tag of Xing or VBRI, the duration follows from the size and the mean size of the frames in the first
    64 KiB.

    Raises:
        MediaError: the file ends before its sound.
    """
    data, start = file.data, tag_bytes(file.data)
    if start >= len(data) and start:
        raise cut_short("it ends before its sound") if start > len(data) else MediaError("no sound", "a tag only")
    at = _first(file, start)
    if at < 0:
        return None
    frame = _frame(data, at)
    assert frame is not None
    codec = f"mp{frame.layer}"
    count, frames, said = _tagged(data[at : at + frame.size], frame)
    if said and said > file.size - at:
        raise cut_short(f"{file.size - at:,} of {said:,} bytes of sound are there")
    duration_s = count * frame.samples / frame.rate if count else _estimate(file, at, frame)
    return AudioHeader(
        "mp3", codec, frame.rate, frame.channels, None, frames, None if frames is not None else duration_s
    )


def tagged_bytes(file: File) -> tuple[int, int] | None:
    """Where the first frame of an MP3 file begins, and the bytes from there on that its tag gives; None without."""
    at = _first(file, tag_bytes(file.data))
    frame = _frame(file.data, at) if at >= 0 else None
    size = 0 if frame is None else _tagged(file.data[at : at + frame.size], frame)[2]
    return (at, size) if size else None


def _estimate(file: File, at: int, frame: _MpegFrame) -> float:
    """The duration, in seconds, if all frames are as large as the first ones: the same from a head as from a file."""
    count = place = 0
    for stop in (HEAD, at + HEAD):  # the second for a file whose tag is longer than a head
        count, place = 0, at
        while place + 4 <= stop and (found := _frame(file.data, place)) is not None:
            count, place = count + 1, place + found.size
        if count > 1:
            break
    return (file.size - at) / max(1, place - at) * count * frame.samples / frame.rate


def _tagged(data: bytes, frame: _MpegFrame) -> tuple[int, int | None, int]:
    """What the tag in the first frame says: MPEG frames, samples if known exactly, bytes; zeros without a tag."""
    side = (32 if frame.channels == 2 else 17) if frame.version == 1 else (17 if frame.channels == 2 else 9)
    tag = data[4 + side :]
    if tag[:4] in (b"Xing", b"Info") and len(tag) >= 16:
        flags, count = tag[7], int.from_bytes(tag[8:12], "big") if tag[7] & 1 else 0
        place = 12 if flags & 1 else 8
        said = int.from_bytes(tag[place : place + 4], "big") if flags & 2 else 0
        if count and flags & 15 == 15 and len(tag) >= 144 and tag[120:124] in (b"LAME", b"Lavf", b"Lavc"):
            padding = int.from_bytes(tag[141:144], "big")
            return count, max(0, count * frame.samples - (padding >> 12) - (padding & 0xFFF)), said
        return count, None, said
    if data[36:40] == b"VBRI" and len(data) >= 54:
        return int.from_bytes(data[50:54], "big"), None, int.from_bytes(data[46:50], "big")
    return 0, None, 0


def _first(file: File, start: int) -> int:
    """Where the first frame begins; -1 if none does."""
    data, at = file.data, start
    while (at := data.find(b"\xff", at, start + _JUNK)) >= 0:
        if _is_row(file, at):
            return at
        at += 1
    return -1


def _is_row(file: File, at: int) -> bool:
    """Whether frames of one kind follow each other from here on."""
    first = _frame(file.data, at)
    if first is None:
        return False
    frame: _MpegFrame | None = first
    for number in range(_IN_A_ROW):
        if at + 4 > len(file.data):  # the end of the file, in or right behind a frame
            return number > 1 or at in (file.size, file.size - 128)
        frame = _frame(file.data, at)
        if frame is None or frame.kind != first.kind:
            return False
        at += frame.size
    return True


def _frame(data: bytes, at: int) -> _MpegFrame | None:
    if at + 4 > len(data):
        return None
    head = int.from_bytes(data[at : at + 4], "big")
    version, layer = head >> 19 & 3, 4 - (head >> 17 & 3)
    bitrate, rate = head >> 12 & 15, head >> 10 & 3
    if head >> 21 != 0x7FF or version == 1 or layer == 4 or bitrate in (0, 15) or rate == 3:
        return None
    family = 1 if version == 3 else 2
    kbits = _BITRATES[family, layer if family == 1 else min(layer, 2)][bitrate]
    hertz = _RATES[rate] // (1 if version == 3 else 2 if version == 2 else 4)
    frame = _MpegFrame(family, layer, hertz, 1 if head >> 6 & 3 == 3 else 2, 0)
    slots = frame.samples * 125 * kbits // hertz if layer > 1 else 12_000 * kbits // hertz
    return frame._replace(size=(slots + (head >> 9 & 1)) * (4 if layer == 1 else 1))

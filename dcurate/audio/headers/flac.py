"""The header of a FLAC stream."""

from __future__ import annotations

from dcurate.audio.headers.header import AudioHeader, cut_short
from dcurate.isolate.errors import MediaError

#: Bytes of STREAMINFO, the first block.
_STREAMINFO = 34


def read_flac(data: bytes, container: str = "flac") -> AudioHeader:
    r"""Read the header of a FLAC stream, which begins with ``fLaC``.

    Raises:
        MediaError: the header is damaged or cut.

    Examples:
        >>> word = (44100 << 44 | 1 << 41 | 15 << 36 | 22050).to_bytes(8, "big")
        >>> header = read_flac(b"fLaC\x80\0\0\x22" + bytes(10) + word + bytes(16))
        >>> header.sample_rate, header.channels, header.bits, header.duration_s
        (44100, 2, 16, 0.5)
    """
    if len(data) < 8 + _STREAMINFO:
        raise cut_short()
    if data[4] & 0x7F or int.from_bytes(data[5:8], "big") != _STREAMINFO:
        raise MediaError("damaged", "the first block is not STREAMINFO")
    word = int.from_bytes(data[18:26], "big")
    frames = word & (2**36 - 1)
    return AudioHeader(container, "flac", word >> 44, (word >> 41 & 7) + 1, (word >> 36 & 31) + 1, frames or None)

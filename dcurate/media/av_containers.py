"""Containers of picture and sound that FFmpeg reads, opened by PyAV."""

from __future__ import annotations

from typing import Any, BinaryIO

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError

#: Demuxers that may read a file: none that follows references to other files or addresses.
DEMUXERS = "mov,matroska,avi,mpegts,aac"


def is_av_container(data: bytes) -> bool:
    """Whether a file, by its first bytes, is MP4, QuickTime, Matroska, WebM, AVI, MPEG-TS or bare AAC.

    Examples:
        >>> is_av_container(b"....ftypM4A "), is_av_container(b"RIFF....WAVE")
        (True, False)
    """
    return (
        data[4:8] in (b"ftyp", b"moov")
        or data[:4] == b"\x1aE\xdf\xa3"
        or (data[:4] == b"RIFF" and data[8:12] == b"AVI ")
        or (data[:1] == b"G" and data[188:189] == b"G")
        or (data[:1] == b"\xff" and len(data) > 1 and data[1] & 0xF6 == 0xF0)
    )


def open_av(source: BinaryIO, purpose: str, demuxers: str = DEMUXERS) -> Any:
    """Open a container; nothing but `source` is read, whatever the file refers to.

    Args:
        source: the open file.
        purpose: what PyAV is needed for, for the message where it is not installed.
        demuxers: FFmpeg's names of the formats that may be read, joined by commas.

    Raises:
        MediaError: it cannot be read.
        ResourceError: PyAV is not installed.
    """
    av = needed("av", purpose, "video")
    options = {"format_whitelist": demuxers, "protocol_whitelist": "none"}
    try:
        return av.open(source, options=options, **_decoding(av.__version__))
    except (av.error.FFmpegError, ValueError) as error:
        raise MediaError("damaged", getattr(error, "strerror", None) or str(error)) from error


def tags(stream: Any) -> dict[str, str]:
    """Return what a container says of a stream, such as ``title``; bytes that are not UTF-8 become U+FFFD."""
    return {_utf8(name): _utf8(value) for name, value in stream.metadata.items()}


def _decoding(version: str) -> dict[str, str]:
    """Arguments for bytes that are not UTF-8: PyAV 19 takes none and decodes them as surrogates, earlier ones raise."""
    return {} if int(version.partition(".")[0]) >= 19 else {"metadata_errors": "replace"}


def _utf8(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

"""Read the header of a recording, in whichever format it is."""

from __future__ import annotations

from dcurate.audio.headers.flac import read_flac
from dcurate.audio.headers.header import AudioHeader, cut_short
from dcurate.audio.headers.mp4 import read_mp4
from dcurate.audio.headers.mpeg import read_mp3, tag_bytes
from dcurate.audio.headers.ogg import is_identified, read_ogg
from dcurate.audio.headers.riff import is_wav, read_wav
from dcurate.isolate.errors import MediaError
from dcurate.media.heads import File
from dcurate.media.names import described

#: The size that a file counts as, while it is not known.
_ANY_SIZE = 2**62
_OTHERS = {b"FORM": "AIFF", b".snd": "AU", b"caff": "CAF", b"riff": "W64", b"Crea": "VOC", b"\x1aE\xdf\xa3": "Matroska"}


def read_header(file: File) -> AudioHeader:
    """Read the header of a recording, by its content, not its name.

    Args:
        file: the file, or its head; of an Ogg file also its end.

    Raises:
        MediaError: not a recording, or damaged, or cut.

    Examples:
        >>> import io, wave
        >>> file = io.BytesIO()
        >>> with wave.open(file, "wb") as sound:
        ...     sound.setparams((1, 2, 8000, 0, "NONE", ""))
        ...     sound.writeframes(bytes(8000))
        >>> read_header(File(file.getvalue(), 8044)).frames
        4000
    """
    data = file.data
    if not data:
        raise MediaError("empty")
    if is_wav(data):
        return read_wav(file)
    if data[:4] == b"OggS":
        return read_ogg(file)
    if data[4:8] in (b"ftyp", b"moov"):
        return read_mp4(file)
    start = tag_bytes(data)
    if data[start : start + 4] == b"fLaC":
        return read_flac(data[start : start + 64])
    if data[:4] in _OTHERS:
        raise MediaError("unsupported format", _OTHERS[data[:4]])
    if len(data) < 12:
        raise cut_short()
    header = read_mp3(file)
    if header is None:
        raise MediaError(f"not a recording: {described(data)}")
    return header


def is_enough(head: bytes) -> bool:
    """Whether the first bytes of a file, and of an Ogg file its last, are all that is needed of it."""
    if needs_tail(head):
        return is_identified(head)
    try:
        read_header(File(head, _ANY_SIZE))
    except MediaError as error:
        return error.fault.reason != "truncated"
    return True


def needs_tail(head: bytes) -> bool:
    """Whether the end of a file is needed, too: of Ogg it has the duration."""
    return head[:4] == b"OggS"

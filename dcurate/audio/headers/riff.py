"""The header of a WAV file: RIFF, RIFX, RF64 and BW64."""

from __future__ import annotations

import struct
from typing import NamedTuple

from dcurate.audio.headers.header import AudioHeader, cut_short
from dcurate.isolate.errors import MediaError
from dcurate.media.heads import File

#: Codecs by their tag, and the largest number of bits that one has.
_CODECS = {1: "pcm", 2: "ms_adpcm", 3: "float", 6: "alaw", 7: "ulaw", 0x11: "ima_adpcm", 0x31: "gsm610", 0x55: "mp3"}
_SAMPLED = {1: range(1, 65), 3: (16, 32, 64), 6: (8,), 7: (8,)}
_EXTENSIBLE = 0xFFFE
#: Sizes of ``data`` that say nothing: of a stream, and of RF64, whose size is in ``ds64``.
_UNKNOWN = (0, 0xFFFFFFFF)


def is_wav(data: bytes) -> bool:
    """Whether a file begins as a WAV file."""
    return data[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and data[8:12] == b"WAVE"


def read_wav(file: File) -> AudioHeader:
    """Read the header of a WAV file.

    Raises:
        MediaError: the header is damaged, or the file ends before its sound does.
    """
    chunks = _chunks(file.data)
    if len(chunks.form) < 16:
        raise MediaError("damaged", "no format before the sound")
    held = _sound_bytes(chunks, file)
    return _header(chunks.form, chunks.order, chunks.fact, held)


def place_of_no_size(file: File) -> int | None:
    """The place of the size of the sound, in 4 bytes, if it is 0 and there is sound; None for all other files.

    Programs that write a stream do not know the size, and some write 0 for it. Decoders find no sound then.
    """
    if not is_wav(file.data):
        return None
    chunks = _chunks(file.data)
    return chunks.at + 4 if chunks.size == 0 and _sound_bytes(chunks, file) else None


class _Chunks(NamedTuple):
    order: str
    form: bytes
    fact: int | None
    wide: int | None
    at: int  # where the chunk of the sound begins
    size: int  # of the sound, by that chunk


def _chunks(data: bytes) -> _Chunks:
    """What comes before the sound."""
    order = ">" if data[:4] == b"RIFX" else "<"
    form, fact, wide, at = b"", None, None, 12
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(order + "4sI", data, at)
        if kind == b"data":
            return _Chunks(order, form, fact, wide, at, size)
        content = data[at + 8 : at + 8 + min(size, 64)]
        if kind == b"fmt ":
            form = content
        elif kind == b"fact" and len(content) >= 4:
            fact = int(struct.unpack_from(order + "I", content)[0])
        elif kind == b"ds64" and len(content) >= 16:
            wide = int(struct.unpack_from("<Q", content, 8)[0])
        at += 8 + size + size % 2
    raise cut_short("it ends before its sound")


def _sound_bytes(chunks: _Chunks, file: File) -> int:
    """Bytes of sound: what the header says, or all that is there where it does not say."""
    size, start = chunks.size, chunks.at + 8
    held = file.size - start
    if size == 0xFFFFFFFF and chunks.wide:
        size = chunks.wide
    if size in _UNKNOWN:
        return 0 if size == 0 and _are_chunks(file.data[start:], held, chunks.order) else held
    if size > held:
        raise cut_short(f"{held:,} of {size:,} bytes of sound are there")
    return size


def _are_chunks(data: bytes, held: int, order: str) -> bool:
    """Whether what follows a chunk of no sound are other chunks, such as tags, up to the end of the file."""
    at = 0
    while at + 8 <= len(data) and data[at : at + 4].isascii() and data[at : at + 4].strip().isalnum():
        at += 8 + int(struct.unpack_from(order + "I", data, at + 4)[0])
        if at == held:
            return True
        at += at % 2
    return at == held


def _header(form: bytes, order: str, fact: int | None, size: int) -> AudioHeader:
    tag, channels, rate, _, block, bits = struct.unpack_from(order + "HHIIHH", form)
    if tag == _EXTENSIBLE and len(form) >= 26:
        tag = struct.unpack_from(order + "H", form, 24)[0]
    codec = _CODECS.get(tag)
    if codec is None:
        raise MediaError("unsupported codec", f"WAV with the format tag {tag:#06x}")
    if tag not in _SAMPLED:
        return AudioHeader("wav", codec, rate, channels, bits or None, _coded_frames(form, order, fact, size))
    if bits not in _SAMPLED[tag] or block != channels * (-(-bits // 8)):
        raise MediaError("damaged", f"{channels} channels of {bits} bits in {block} bytes")
    return AudioHeader("wav", codec, rate, channels, bits, size // block if block else 0)


def _coded_frames(form: bytes, order: str, fact: int | None, size: int) -> int | None:
    """Frames of blocks with many samples each; what ``fact`` says, if the blocks hold as many."""
    block = int(struct.unpack_from(order + "H", form, 12)[0])
    each = int(struct.unpack_from(order + "H", form, 18)[0]) if len(form) >= 20 else 0
    if not (block and each):
        return None
    most = -(-size // block) * each
    return most if not fact else min(fact, most)

"""Newly encoded frames before copied ones: what each codec needs, so that decoders take both for one stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dcurate.video.clips.nal_units import Bits, joined, units
from dcurate.video.clips.output import Muxed
from dcurate.video.clips.parameter_sets import H264Sets, H265Sets, ParameterSets

_SETS: dict[str, type[ParameterSets]] = {"h264": H264Sets, "hevc": H265Sets}
#: Codecs whose key frames carry all that a decoder needs.
_SELF_CONTAINED = ("vp8", "vp9", "av1", "mpeg2video")
_VOP, _GROUP = b"\0\0\1\xb6", b"\0\0\1\xb3"


class CannotStitchError(Exception):
    """Frames of the codec, or of this video, cannot be put before copied ones."""


def stitched(context: Any, head: Sequence[Muxed], tail: Sequence[Muxed]) -> tuple[list[Muxed], bytes | None]:
    """Return encoded packets and copied ones as one stream, and the configuration of its decoder.

    H.264 and H.265 get both sets of parameters under different numbers; MPEG-4 gets the source's before each key frame.

    Args:
        context: codec context of the source.
        head: packets of the encoder, which begin with a key frame.
        tail: packets of the source, which begin with one.

    Raises:
        CannotStitchError: it cannot be done.
    """
    codec, extradata = context.codec.canonical_name, bytes(context.extradata or b"")
    if codec == "av1" and 1 not in obus(bytes(tail[0].data)):
        raise CannotStitchError("the key frame has no sequence header")
    if codec in _SELF_CONTAINED:
        return [*head, *tail], None
    if codec == "mpeg4":
        if context.has_b_frames:
            head = [packet._replace(data=with_delay(bytes(packet.data))) for packet in head]
        if not extradata:
            return [*head, *tail], None
        restored = [
            packet._replace(data=_with_header(bytes(packet.data), extradata)) if packet.is_key else packet
            for packet in tail
        ]
        return [*head, *restored], extradata
    if codec not in _SETS:
        raise CannotStitchError(f"{codec} is not stitched")
    try:
        return _with_sets(_SETS[codec](extradata), head, tail)
    except (ValueError, IndexError) as error:
        raise CannotStitchError(str(error)) from error


def _with_sets(sets: ParameterSets, head: Sequence[Muxed], tail: Sequence[Muxed]) -> tuple[list[Muxed], bytes]:
    if not sets.starts_sequence(bytes(tail[0].data)):
        raise CannotStitchError("the key frame does not begin a sequence")
    ids, merged = sets.fresh(), {kind: list[bytes]() for kind in sets.kinds}
    packets = []
    for packet in head:
        data, found = sets.packet(bytes(packet.data), ids)
        packets.append(packet._replace(data=data))
        for kind, parameters in found.items():
            merged[kind] += [unit for unit in parameters if unit not in merged[kind]]
    packets[-1] = packets[-1]._replace(data=sets.ended(packets[-1].data))
    return [*packets, *tail], sets.joined_with(merged)


def with_delay(data: bytes) -> bytes:
    """Return a packet of MPEG-4 whose header says that frames may be decoded in another order than they are shown in.

    Args:
        data: packet with a video object layer (ISO/IEC 14496-2, 6.2.3).
    """
    at = next((at for at in range(len(data) - 4) if data[at : at + 3] == b"\0\0\1" and data[at + 3] >> 4 == 2), None)
    if at is None:
        return data
    bits = Bits(data[at + 4 : at + 24])
    bits.take(9)
    if bits.take(1):
        bits.take(7)
    if bits.take(4) == 15:
        bits.take(16)
    if not bits.take(1):
        return data
    bits.take(2)
    changed = bytearray(data)
    changed[at + 4 + bits.at // 8] &= ~(128 >> bits.at % 8)
    return bytes(changed)


def _with_header(data: bytes, header: bytes) -> bytes:
    return data if data.startswith(header) else header + data


def configuration(codec: str, first: bytes) -> bytes | None:
    """Return the configuration of a decoder out of the first packet of an encoder; None where it needs none.

    Args:
        codec: name of the codec.
        first: packet.
    """
    if codec in _SETS:
        sets = _SETS[codec](b"")
        parameters = [unit for unit in units(first, None) if unit and sets.kind(unit) in sets.kinds]
        return joined(sorted(parameters, key=sets.kind), None)
    if codec == "mpeg4":
        ends = [at for at in (first.find(_VOP), first.find(_GROUP)) if at >= 0]
        return first[: min(ends)] if ends else None
    if codec == "av1":
        return obus(first).get(1)
    return None


def obus(data: bytes) -> dict[int, bytes]:
    r"""Return the units of AV1 in a packet by their kind; of several of a kind, the first.

    Examples:
        >>> obus(bytes([0x12, 0, 0x0A, 1, 7]))
        {2: b'\x12\x00', 1: b'\n\x01\x07'}
    """
    firsts: dict[int, bytes] = {}
    for kind, unit in _obus(data):
        firsts.setdefault(kind, unit)
    return firsts


def _obus(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        first, begin = data[at], at
        at += 2 if first & 4 else 1
        size, shift = len(data) - at, 0
        if first & 2:
            size = 0
            while at < len(data):
                size |= (data[at] & 127) << shift
                shift += 7
                at += 1
                if not data[at - 1] & 128:
                    break
        at += size
        yield (first >> 3) & 15, data[begin:at]

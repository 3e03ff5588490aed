"""The bits of H.264 and H.265: units of a packet, numbers in Exp-Golomb code and emulation prevention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_START = b"\0\0\1"


class Bits:
    """Reads bits of a payload without emulation prevention.

    Args:
        data: payload.

    Examples:
        >>> bits = Bits(bytes([0b10100100]))
        >>> bits.number(), bits.number(), bits.at
        (0, 1, 4)
    """

    def __init__(self, data: bytes) -> None:
        self.value, self.size, self.at = int.from_bytes(data, "big"), 8 * len(data), 0

    def take(self, count: int) -> int:
        """Return the next bits as a number."""
        self.at += count
        if self.at > self.size:
            raise ValueError("the parameter set ends too early")
        return (self.value >> (self.size - self.at)) & ((1 << count) - 1)

    def number(self) -> int:
        """Return the next number in Exp-Golomb code."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros)


def golomb(number: int) -> tuple[int, int]:
    """Return a number in Exp-Golomb code: bits and how many there are.

    Examples:
        >>> golomb(0), golomb(15)
        ((1, 1), (16, 9))
    """
    return number + 1, 2 * (number + 1).bit_length() - 1


def unescaped(data: bytes) -> bytes:
    r"""Return a unit without its bytes of emulation prevention.

    Examples:
        >>> unescaped(bytes([0, 0, 3, 1]))
        b'\x00\x00\x01'
    """
    made, at = bytearray(), 0
    while (hit := data.find(b"\0\0\3", at)) >= 0:
        made += data[at : hit + 2]
        at = hit + 3
    return bytes(made + data[at:])


def escaped(data: bytes) -> bytes:
    """Return a unit with bytes of emulation prevention.

    Examples:
        >>> escaped(bytes([0, 0, 1])) == bytes([0, 0, 3, 1])
        True
    """
    made, zeros, at = bytearray(), 0, 0
    while at < len(data):
        if zeros >= 2 and data[at] <= 3:
            made.append(3)
            zeros = 0
        made.append(data[at])
        zeros = zeros + 1 if data[at] == 0 else 0
        at += 1
        if zeros == 0 and (following := data.find(b"\0", at)) != at:  # all up to the next zero is as it is
            stop = len(data) if following < 0 else following
            made += data[at:stop]
            at = stop
    return bytes(made)


def units(data: bytes, length: int | None) -> Iterator[bytes]:
    r"""Yield the units of a packet, with their header and emulation prevention.

    Args:
        data: packet.
        length: bytes of the size before each unit; None where start codes part them.

    Examples:
        >>> list(units(b"\0\0\0\2ab\0\0\0\1c", 4)), list(units(b"\0\0\0\1ab\0\0\1c", None))
        ([b'ab', b'c'], [b'ab', b'c'])
    """
    if length is None:
        for unit in data.split(_START)[1:]:
            yield unit.rstrip(b"\0")
        return
    at = 0
    while at + length <= len(data):
        size = int.from_bytes(data[at : at + length], "big")
        yield data[at + length : at + length + size]
        at += length + size


def joined(parts: Sequence[bytes], length: int | None) -> bytes:
    """Return units as a packet; the opposite of `units`."""
    if length is None:
        return b"".join(b"\0" + _START + part for part in parts)
    return b"".join(len(part).to_bytes(length, "big") + part for part in parts)

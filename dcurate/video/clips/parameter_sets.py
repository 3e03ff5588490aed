"""Parameter sets of H.264 and H.265: those of newly encoded frames renumbered, so that they fit beside the source's."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dcurate.video.clips.nal_units import Bits, escaped, golomb, joined, unescaped, units

#: Picture parameter sets get one of these numbers: each is written with 9 bits, and 0 with 1, so that the slices that
#: name one grow by exactly a byte.
_LONG_IDS = range(15, 31)


def _replaced(data: bytes, fields: Sequence[tuple[int, int, int, int]], *, trailing: bool) -> bytes:
    """A payload in which fields are replaced: (first bit, bit behind the last, bits, how many)."""
    value, size = int.from_bytes(data, "big"), 8 * len(data)
    if trailing:  # the last bit that is 1 ends the content; padding is made again
        size -= (value & -value).bit_length() - 1
        value >>= (value & -value).bit_length() - 1
    for first, behind, bits, count in sorted(fields, reverse=True):
        low = size - behind
        value = ((value >> (size - first)) << (count + low)) | (bits << low) | (value & ((1 << low) - 1))
        size += count - (behind - first)
    padding = -size % 8
    return (value << padding).to_bytes((size + padding) // 8, "big")


@dataclass
class ParameterSets:
    """The numbers of parameter sets in use, and the configuration of a track of H.264 or H.265.

    Args:
        extradata: configuration of the track: an ``avcC`` or ``hvcC`` record, or units with start codes.

    Raises:
        ValueError: it cannot be read.
    """

    extradata: bytes
    length: int | None = field(init=False)
    used: dict[int, set[int]] = field(init=False)

    #: Kinds of units: of parameter sets, in order, and of the end of a sequence.
    kinds: ClassVar[tuple[int, ...]]
    end: ClassVar[bytes]
    #: Bytes of the header of a unit.
    header: ClassVar[int]

    def __post_init__(self) -> None:
        self.length = None
        groups = self._groups()
        self.used = {kind: {self._id(unit) for unit in parts} for kind, parts in groups.items()}

    def kind(self, unit: bytes) -> int:
        """Return the kind of a unit."""
        raise NotImplementedError

    def fresh(self) -> dict[int, int]:
        """Return numbers that no set of the source has, by kind.

        Raises:
            ValueError: all are in use.
        """
        ids = {}
        for kind in self.kinds:
            choice = [number for number in self._range(kind) if number not in self.used.get(kind, ())]
            if not choice:
                raise ValueError("the source uses all numbers of parameter sets")
            ids[kind] = choice[0]
        return ids

    def packet(self, data: bytes, ids: dict[int, int]) -> tuple[bytes, dict[int, list[bytes]]]:
        """Return an encoded packet in the form of the source's, and the parameter sets that were in it.

        Args:
            data: packet with start codes, whose parameter sets all have the number 0.
            ids: numbers that they get, by kind.
        """
        kept, sets = [], {kind: list[bytes]() for kind in self.kinds}
        for unit in units(data, None):
            kind = self.kind(unit)
            if kind in self.kinds:
                sets[kind].append(escaped(self._renumbered_set(unescaped(unit), kind, ids)))
            elif self._is_slice(kind):
                kept.append(escaped(self._renumbered_slice(unescaped(unit), kind, ids)))
        return joined(kept, self.length), sets

    def ended(self, data: bytes) -> bytes:
        """Return a packet with the mark that a sequence ends with it."""
        return data + joined([self.end], self.length)

    def starts_sequence(self, data: bytes) -> bool:
        """Whether other parameter sets may be in force from this packet on."""
        return any(self._is_entry(self.kind(unit)) for unit in units(data, self.length) if unit)

    def joined_with(self, sets: dict[int, list[bytes]]) -> bytes:
        """Return the configuration of the source's and these parameter sets."""
        raise NotImplementedError

    def _groups(self) -> dict[int, list[bytes]]:
        """The parameter sets of the configuration, by kind."""
        groups = {kind: list[bytes]() for kind in self.kinds}
        for unit in units(self.extradata, None):
            if unit and self.kind(unit) in groups:
                groups[self.kind(unit)].append(unit)
        return groups

    def _range(self, kind: int) -> range:
        raise NotImplementedError

    def _is_slice(self, kind: int) -> bool:
        raise NotImplementedError

    def _is_entry(self, kind: int) -> bool:
        raise NotImplementedError

    def _id(self, unit: bytes) -> int:
        raise NotImplementedError

    def _renumbered_set(self, data: bytes, kind: int, ids: dict[int, int]) -> bytes:
        raise NotImplementedError

    def _renumbered_slice(self, data: bytes, kind: int, ids: dict[int, int]) -> bytes:
        raise NotImplementedError


class H264Sets(ParameterSets):
    """Parameter sets of H.264 (ISO/IEC 14496-10)."""

    kinds = (7, 8)
    end = b"\x0a"
    header = 1

    def kind(self, unit: bytes) -> int:
        return unit[0] & 31

    def joined_with(self, sets: dict[int, list[bytes]]) -> bytes:
        if self.length is None:
            return self.extradata + joined([unit for kind in self.kinds for unit in sets[kind]], None)
        groups, rest = self._record()
        made = bytearray(self.extradata[:5])
        for kind, mask in ((7, 0xE0), (8, 0)):
            parts = [*groups[kind], *sets[kind]]
            made.append(mask | len(parts))
            made += joined(parts, 2)
        return bytes(made + rest)

    def _groups(self) -> dict[int, list[bytes]]:
        if self.extradata[:1] != b"\1":
            return super()._groups()
        self.length = (self.extradata[4] & 3) + 1
        return self._record()[0]

    def _record(self) -> tuple[dict[int, list[bytes]], bytes]:
        """The parameter sets of an ``avcC`` record, and what follows them."""
        groups: dict[int, list[bytes]] = {}
        at = 5
        for kind, mask in ((7, 31), (8, 255)):
            count = self.extradata[at] & mask
            at += 1
            groups[kind] = []
            for _ in range(count):
                size = struct.unpack_from(">H", self.extradata, at)[0]
                groups[kind].append(self.extradata[at + 2 : at + 2 + size])
                at += 2 + size
        return groups, self.extradata[at:]

    def _range(self, kind: int) -> range:
        return range(1, 32) if kind == 7 else _LONG_IDS

    def _is_slice(self, kind: int) -> bool:
        return kind in (1, 5)

    def _is_entry(self, kind: int) -> bool:
        return kind == 5

    def _id(self, unit: bytes) -> int:
        data = unescaped(unit)
        return Bits(data[4:] if self.kind(unit) == 7 else data[1:]).number()

    def _renumbered_set(self, data: bytes, kind: int, ids: dict[int, int]) -> bytes:
        bits = Bits(data)
        bits.take(8 + (24 if kind == 7 else 0))
        fields = []
        for number in (ids[kind],) if kind == 7 else (ids[8], ids[7]):
            first = bits.at
            bits.number()
            fields.append((first, bits.at, *golomb(number)))
        return _replaced(data, fields, trailing=True)

    def _renumbered_slice(self, data: bytes, kind: int, ids: dict[int, int]) -> bytes:
        bits = Bits(data[:16])
        bits.take(8)
        bits.number()  # first_mb_in_slice
        bits.number()  # slice_type
        return _longer(data, bits, ids[8])


class H265Sets(ParameterSets):
    """Parameter sets of H.265 (ISO/IEC 23008-2)."""

    kinds = (32, 33, 34)
    end = b"\x48\x01"
    header = 2

    def kind(self, unit: bytes) -> int:
        return (unit[0] >> 1) & 63

    def joined_with(self, sets: dict[int, list[bytes]]) -> bytes:
        if self.length is None:
            return self.extradata + joined([unit for kind in self.kinds for unit in sets[kind]], None)
        made, arrays = bytearray(self.extradata[:22]), self._arrays()
        known = {kind for _, kind, _ in arrays}
        arrays += [(kind, kind, []) for kind in self.kinds if kind not in known]
        made.append(len(arrays))
        for head, kind, parts in arrays:
            both = [*parts, *sets.get(kind, ())]
            made += struct.pack(">BH", head, len(both)) + joined(both, 2)
        return bytes(made)

    def _groups(self) -> dict[int, list[bytes]]:
        if self.extradata[:1] != b"\1":
            return super()._groups()
        self.length = (self.extradata[21] & 3) + 1
        groups = {kind: list[bytes]() for kind in self.kinds}
        for _, kind, parts in self._arrays():
            groups.setdefault(kind, []).extend(parts)
        return {kind: groups[kind] for kind in self.kinds}

    def _arrays(self) -> list[tuple[int, int, list[bytes]]]:
        """The arrays of an ``hvcC`` record: first byte, kind and units."""
        arrays, at = [], 23
        for _ in range(self.extradata[22]):
            head, count = struct.unpack_from(">BH", self.extradata, at)
            at += 3
            parts = []
            for _ in range(count):
                size = struct.unpack_from(">H", self.extradata, at)[0]
                parts.append(self.extradata[at + 2 : at + 2 + size])
                at += 2 + size
            arrays.append((head, head & 63, parts))
        return arrays

    def _range(self, kind: int) -> range:
        return range(1, 16) if kind in (32, 33) else _LONG_IDS

    def _is_slice(self, kind: int) -> bool:
        return kind < 32

    def _is_entry(self, kind: int) -> bool:
        return 16 <= kind <= 21

    def _id(self, unit: bytes) -> int:
        bits = Bits(unescaped(unit))
        bits.take(16)
        kind = self.kind(unit)
        if kind == 32:
            return bits.take(4)
        if kind == 33:
            self._to_sps_id(bits)
        return bits.number()

    def _to_sps_id(self, bits: Bits) -> None:
        """Skip what comes before the number of a sequence parameter set (7.3.2.2, 7.3.3)."""
        bits.take(4)
        layers = bits.take(3)
        bits.take(1 + 88 + 8)
        present = [(bits.take(1), bits.take(1)) for _ in range(layers)]
        if layers:
            bits.take(2 * (8 - layers))
        for has_profile, has_level in present:
            bits.take(88 * has_profile + 8 * has_level)

    def _renumbered_set(self, data: bytes, kind: int, ids: dict[int, int]) -> bytes:
        bits = Bits(data)
        bits.take(16)
        if kind == 34:
            fields = []
            for number in (ids[34], ids[33]):
                first = bits.at
                bits.number()
                fields.append((first, bits.at, *golomb(number)))
            return _replaced(data, fields, trailing=True)
        video = (16, 20, ids[32], 4)
        if kind == 32:
            return _replaced(data, [video], trailing=True)
        self._to_sps_id(bits)
        first = bits.at
        bits.number()
        return _replaced(data, [video, (first, bits.at, *golomb(ids[33]))], trailing=True)

    def _renumbered_slice(self, data: bytes, kind: int, ids: dict[int, int]) -> bytes:
        bits = Bits(data[:16])
        bits.take(16)
        bits.take(1)  # first_slice_segment_in_pic_flag
        if 16 <= kind <= 23:
            bits.take(1)  # no_output_of_prior_pics_flag
        return _longer(data, bits, ids[34])


def _longer(data: bytes, bits: Bits, number: int) -> bytes:
    """A slice whose picture parameter set, 0 so far, gets a number of 9 bits: a byte longer, the rest as it was."""
    first = bits.at
    if bits.number() != 0:
        raise ValueError("the encoder numbered its picture parameter sets")
    whole = first // 8 + 1
    head = _replaced(data[:whole], [(first, first + 1, *golomb(number))], trailing=False)
    return head + data[whole:]

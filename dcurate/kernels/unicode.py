"""Character tables of the kernels: code points, whitespace, letters, over UTF-8 bytes."""

from __future__ import annotations

import base64
import zlib
from functools import cache

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import load_eight, load_up_to_eight
from dcurate.kernels.layout import INLINE, Bytes, Scalar, Word

_SIX, _SEVEN, _TOP_BYTE = np.uint64(6), np.uint64(7), np.uint64(56)
_ONES = np.uint64(0x0101010101010101)

#: Whether a byte is ASCII whitespace, as ``str.isspace`` has it.
_SPACES = np.array([byte < 128 and chr(byte).isspace() for byte in range(256)])
#: Whether a byte ends one of the whitespace characters that begin with E2 80.
_ENDS_SPACE = np.array([byte in (*range(0x80, 0x8B), 0xA8, 0xA9, 0xAF) for byte in range(256)])

#: Where the Alphabetic property begins and ends, in turn: differences as 7-bit varints, deflated, base 85.
#: The property of ``[[:alpha:]]`` in the ``regex`` package (Unicode 17); ``unicodedata`` does not have it.
_ALPHABETIC_RUNS = (
    "c-m!DONd-W6y@A|>(%@Bd)+hrx@Y<`pUya+o|%k2naL!QbS6JTge*d0BB&^sfQm-UE*p`cNQ?^?Stv#j5flOu0x`R|5J3q+Br7*j;!4R%T)6U9cO"
    "s~-Uj3_1o%`K0=8Y{QguoPN<2#l(H5R~eG|M0ozynwpMsO4t;C}|pfV?@P=~P!q3wz@t&B$zrO;5oWUpQn!wl#U7HW?^{sZpg;w~?vATKMx}%+`A"
    "X8CXh51wIi~p^vh#8x!C|2qq>a#_(jg@7^LYI#W!m%yKVc1j=r>YuJs6QIb*7dk=Bl&Hz`r=r}<}@R${voCHkF9E;Hv{XNVkic%nBUwggiFi9E$f"
    "3O}pwBe3XjD%x%evSrffDvn|o{q{~Q*I#Zs{-MdDcNDHhn{=Wpr&mFOvdRql?m+j(UFQ|=<HqBTPEv=LNo3tE#MZZKAcsA=Cn@!Gb>?3+r3+|>^O"
    "P+yHJiXbC@GL5{<?q17;MjQYBRb?>%W3%z?0tSc0NOChE%AT0?fz$fGDI;+0jD;P>W9!Y-n8y~<&SBC|j|CrVQFYHp%36<s3oXhy4#;n${Z1M4v?"
    "3we^LUhG*UDCN)VyJ|$R@rGvwk($s5^0_PC>ZSBowJuXU6m+{qRs<IRE)&bR!(0!nAtT2<##0cpfM@cFt=SuLv)8|P1$&q1B5@Yd$g=VIwMPOvO-"
    "BXkC?;#G@jjrd_rT$#nNFJALtH|Zg$C<ES}u6MV^(9zNFq-K^9CFikgCs|8~yajxR90eoA-%coUySnv5ICM`2Ne2zfrkQYqRlLgSXMqaEeay0EBo"
    "t#+X`}P@;6|-2QDBsL3nK6G_V~m=<-!hnc^Oaz{Ec>#xR<>fd?mgPvF8>l9Q&zvf{cY2Q=N={hq|5f(vvj{=9)P#>Jx?onU$Y@7===bPM|_R$z$)"
    "7?r^e&x`5FX<(-Qw=p>@s~oW$7kyQQB^RIg1H&Oug;g3M#qcbz=8=k0wndKmy18G0oI2E&WM;UV@g9ub`6|QS%!9_kpIV-iy~tip##@!G3>=rR|z"
    "(iq>OND)5ZB$SR-5argpm=vvZAbaGcUndjlJ%`)v(9^)W&V4pg4@X^EU0(Rh!-{BeWwp&ZBj6O-)#i_QaATFN6m<d}4MAelC#>LYB?s^S*i5xS2e"
    "$T7$KDvo?$Pn|Khp^AQ|{9Ng(pL_KW+vZ!jv2FQ><c8RGek5;|w`S5FHI=Kp_#^rgb*gs{%ZAPSDnM+5pEf#E&%U0#Z`0mKkI6s}pHqOQW*1GR@A"
    "CQbOD5sKhJv4$j^UtE!XSmkDvQM)4PamUhReaK28%m{x|a5Ts(&qg6RBO>ft&`)HoGQqW-+uGzNS{WdygCU&?4N{(^a4DDyBH!!#CKu&*i3TfneO"
    "3LVuU>;c|}*<B}h&Km6QG1_<szh+JdZApb+u-@LIu8+UKf#K%*3Z;`&-QMxamR4&Ue(f2dvi_N#L)6Elq0~S<>0R"
)


#: More than there are: bytes that are no UTF-8 decode to any number of 21 bits, and must find an entry too.
_POINTS = 1 << 21


@cache
def alphabetic_bits() -> npt.NDArray[np.uint8]:
    """The Alphabetic property of every code point, eight to a byte, the lowest bit first.

    Examples:
        >>> bits = alphabetic_bits()
        >>> [bool(bits[ord(c) >> 3] >> (ord(c) & 7) & 1) for c in "aé中1 "]
        [True, True, True, False, False]
    """
    steps: list[int] = []
    value = shift = 0
    for byte in zlib.decompress(base64.b85decode(_ALPHABETIC_RUNS)):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            steps.append(value)
            value = shift = 0
    edges = np.cumsum(steps)
    marks = np.zeros(_POINTS + 1, np.int8)
    marks[edges[0::2]] = 1
    marks[edges[1::2]] = -1
    bits = np.packbits(np.cumsum(marks[:-1], dtype=np.int8).astype(np.uint8), bitorder="little")
    bits.flags.writeable = False
    return bits


@njit(**INLINE)
def space_width(data: Bytes, at: int, stop: int) -> Scalar:
    """Bytes of the whitespace character at ``at``, or 0 if there is none: where ``str.split`` splits."""
    byte = data[at]
    if byte < 0x80:
        return 1 if _SPACES[byte] else 0
    if byte == 0xC2 and at + 1 < stop:
        return 2 if data[at + 1] == 0x85 or data[at + 1] == 0xA0 else 0
    if byte < 0xE1 or byte > 0xE3 or at + 2 >= stop:
        return 0
    second, third = data[at + 1], data[at + 2]
    if byte == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if byte == 0xE3:
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x80:
        return 3 if _ENDS_SPACE[third] else 0
    return 3 if second == 0x81 and third == 0x9F else 0


@njit(**INLINE)
def space_width_before(data: Bytes, start: int, at: int) -> Scalar:
    """Bytes of the whitespace character that ends at ``at``, or 0 if there is none."""
    byte = data[at - 1]
    if byte < 0x80:
        return 1 if _SPACES[byte] else 0
    if at - 2 >= start and data[at - 2] == 0xC2:
        return space_width(data, at - 2, at)
    if at - 3 >= start and 0xE1 <= data[at - 3] <= 0xE3:
        return space_width(data, at - 3, at)
    return 0


@njit(**INLINE)
def continuations(word: Word) -> Scalar:
    """Count the continuation bytes of UTF-8 among eight packed bytes."""
    return np.int64((((word >> _SEVEN) & ~(word >> _SIX) & _ONES) * _ONES) >> _TOP_BYTE)


@njit(**INLINE)
def count_characters(data: Bytes, start: int, stop: int) -> Scalar:
    """Code points in a stretch of bytes; eight at a time, as a loop over bytes takes twenty times as long."""
    count: Scalar = stop - start
    at = start
    while at + 8 <= stop:
        count -= continuations(load_eight(data, at))
        at += 8
    if at < stop:
        count -= continuations(load_up_to_eight(data, at, stop))
    return count


@njit(**INLINE)
def has_letter(data: Bytes, start: int, stop: int, alphabetic: Bytes) -> Scalar:
    """Whether a stretch of bytes holds a character with the Alphabetic property beyond ASCII."""
    at = start
    while at < stop:
        lead = np.int64(data[at])
        if lead < 0xC0:
            at += 1
            continue
        width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if at + width > stop:
            return False
        point = lead & (0x7F >> width)
        for step in range(1, width):
            point = (point << 6) | (np.int64(data[at + step]) & 0x3F)
        if alphabetic[point >> 3] >> (point & 7) & 1:
            return True
        at += width
    return False

"""XXH3 with 128 bits and without a seed, of stretches of bytes.

Written from its specification (Collet: xxHash fast digest algorithm, doc/xxhash_spec.md of github.com/Cyan4973/xxHash).
Numbers are read with the lowest byte first, and sums wrap around.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import load_eight
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Word, Words, frozen

Sums = tuple[Word, Word, Word, Word, Word, Word, Word, Word]

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
#: The eight bytes of the secret from each place on.
_KEYS = np.array([int.from_bytes(_SECRET[at : at + 8], "little") for at in range(len(_SECRET) - 7)], np.uint64)
#: The secret as words, and those that the last stripe is held against.
_WORDS, _LAST_WORDS = _KEYS[::8].copy(), _KEYS[121:178:8].copy()

_A1, _A2, _A3 = np.uint64(0x9E3779B1), np.uint64(0x85EBCA77), np.uint64(0xC2B2AE3D)
_P1, _P2, _P3 = (np.uint64(prime) for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_MIX_ONE, _MIX_TWO = np.uint64(0x165667919E3779F9), np.uint64(0x9FB21C651E98DF25)
#: What the secret is to texts of few bytes.
_OF_NONE = _KEYS[64] ^ _KEYS[72], _KEYS[80] ^ _KEYS[88]
_OF_THREE = (
    (_KEYS[0] ^ (_KEYS[0] >> np.uint64(32))) & np.uint64(0xFFFFFFFF),
    (_KEYS[8] ^ (_KEYS[8] >> np.uint64(32))) & np.uint64(0xFFFFFFFF),
)
_OF_EIGHT = _KEYS[16] ^ _KEYS[24]
_OF_SIXTEEN = _KEYS[32] ^ _KEYS[40], _KEYS[48] ^ _KEYS[56]

_ZERO, _LOW, _HALF = np.uint64(0), np.uint64(0xFFFFFFFF), np.uint64(32)
_BYTES, _PAIRS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
#: Bytes of a stripe, and of a block of stripes.
_STRIPE, _BLOCK = 64, 1024


@njit(**INLINE)
def _four(data: Bytes, at: int) -> Word:
    word = _ZERO
    for step in range(4):
        word |= np.uint64(data[np.uint64(at) + np.uint64(step)]) << np.uint64(8 * step)
    return word


@njit(**INLINE)
def _reversed(value: Word) -> Word:
    """The number with its eight bytes the other way round."""
    value = ((value >> np.uint64(8)) & _BYTES) | ((value & _BYTES) << np.uint64(8))
    value = ((value >> np.uint64(16)) & _PAIRS) | ((value & _PAIRS) << np.uint64(16))
    return (value >> _HALF) | (value << _HALF)


@njit(**INLINE)
def _high(left: Word, right: Word) -> Word:
    """The upper 64 bits of a product."""
    low, high = left & _LOW, left >> _HALF
    other_low, other_high = right & _LOW, right >> _HALF
    middle, across = high * other_low, low * other_high
    carried = ((low * other_low) >> _HALF) + (middle & _LOW) + across
    return high * other_high + (middle >> _HALF) + (carried >> _HALF)


@njit(**INLINE)
def _folded(left: Word, right: Word) -> Word:
    """The two halves of a product of 128 bits, one upon the other."""
    return (left * right) ^ _high(left, right)


@njit(**INLINE)
def _avalanche(value: Word) -> Word:
    value = (value ^ (value >> np.uint64(37))) * _MIX_ONE
    return value ^ (value >> _HALF)


@njit(**INLINE)
def _avalanche_of_few(value: Word) -> Word:
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> _HALF)


@njit(**INLINE)
def _of_three(data: Bytes, start: int, size: int) -> tuple[Word, Word]:
    """The two halves of the hash of one to three bytes, the lower first, as all that follow."""
    first, last = np.uint64(data[start]), np.uint64(data[start + size - 1])
    middle = np.uint64(data[start + (size >> 1)])
    value = last | (np.uint64(size) << np.uint64(8)) | (first << np.uint64(16)) | (middle << np.uint64(24))
    turned = _reversed(value) >> _HALF
    turned = ((turned << np.uint64(13)) | (turned >> np.uint64(19))) & _LOW
    return _avalanche_of_few(_OF_THREE[0] ^ value), _avalanche_of_few(_OF_THREE[1] ^ turned)


@njit(**INLINE)
def _of_eight(data: Bytes, start: int, size: int) -> tuple[Word, Word]:
    """That of four to eight bytes."""
    value = _OF_EIGHT ^ (_four(data, start) | (_four(data, start + size - 4) << _HALF))
    factor = _P1 + (np.uint64(size) << np.uint64(2))
    low, high = value * factor, _high(value, factor)
    high += low << np.uint64(1)
    low ^= high >> np.uint64(3)
    low = (low ^ (low >> np.uint64(35))) * _MIX_TWO
    return low ^ (low >> np.uint64(28)), _avalanche(high)


@njit(**INLINE)
def _of_sixteen(data: Bytes, start: int, size: int) -> tuple[Word, Word]:
    """That of nine to sixteen bytes."""
    first, last = load_eight(data, start), load_eight(data, start + size - 8)
    first_word, last_word = _OF_SIXTEEN[0] ^ first ^ last, _OF_SIXTEEN[1] ^ last
    low = first_word * _P1 + (np.uint64(size - 1) << np.uint64(54))
    high = _high(first_word, _P1) + last_word + (last_word & _LOW) * (_A2 - np.uint64(1))
    low ^= _reversed(high)
    return _avalanche(low * _P2), _avalanche(_high(low, _P2) + high * _P2)


@njit(**INLINE)
def _mixed(sums: tuple[Word, Word], data: Bytes, places: tuple[int, int], key: int) -> tuple[Word, Word]:
    """Add two chunks of sixteen bytes to the two sums."""
    one, two = load_eight(data, places[0]), load_eight(data, places[0] + 8)
    three, four = load_eight(data, places[1]), load_eight(data, places[1] + 8)
    low = sums[0] + _folded(one ^ _KEYS[key], two ^ _KEYS[key + 8])
    high = sums[1] + _folded(three ^ _KEYS[key + 16], four ^ _KEYS[key + 24])
    return low ^ (three + four), high ^ (one + two)


@njit(**OPTIONS)
def _of_medium(data: Bytes, start: int, size: int) -> tuple[Word, Word]:
    """That of 17 to 240 bytes."""
    sums = np.uint64(size) * _P1, _ZERO
    if size <= 128:
        for chunk in range((size - 1) // 32, -1, -1):
            places = start + 16 * chunk, start + size - 16 * chunk - 16
            sums = _mixed(sums, data, places, 32 * chunk)
    else:
        for chunk in range(4):
            at = start + 32 * chunk
            sums = _mixed(sums, data, (at, at + 16), 32 * chunk)
        sums = _avalanche(sums[0]), _avalanche(sums[1])
        for chunk in range(4, size // 32):
            at = start + 32 * chunk
            sums = _mixed(sums, data, (at, at + 16), 32 * (chunk - 4) + 3)
        sums = _mixed(sums, data, (start + size - 16, start + size - 32), 103)
    high = sums[0] * _P1 + sums[1] * _P4 + np.uint64(size) * _P2
    return _avalanche(sums[0] + sums[1]), _ZERO - _avalanche(high)


@njit(**INLINE)
def _lane(total: Word, word: Word, beside: Word, key: Word) -> Word:
    value = word ^ key
    return total + beside + (value & _LOW) * (value >> _HALF)


@njit(**INLINE)
def _with_stripe(sums: Sums, data: Bytes, at: int, keys: Words, key: int) -> Sums:
    """The eight sums with those of a stripe, which is held against eight words of the secret.

    All in one expression, with words that lie side by side: so LLVM does four of them at a time.
    """
    a, b, c, d, e, f, g, h = sums
    i, j, k, m = load_eight(data, at), load_eight(data, at + 8), load_eight(data, at + 16), load_eight(data, at + 24)
    at += 32
    n, p, q, r = load_eight(data, at), load_eight(data, at + 8), load_eight(data, at + 16), load_eight(data, at + 24)
    return (
        _lane(a, i, j, keys[key]),
        _lane(b, j, i, keys[key + 1]),
        _lane(c, k, m, keys[key + 2]),
        _lane(d, m, k, keys[key + 3]),
        _lane(e, n, p, keys[key + 4]),
        _lane(f, p, n, keys[key + 5]),
        _lane(g, q, r, keys[key + 6]),
        _lane(h, r, q, keys[key + 7]),
    )


@njit(**INLINE)
def _scrambled(value: Word, key: int) -> Word:
    """A sum at the end of a block."""
    return (value ^ (value >> np.uint64(47)) ^ _WORDS[key]) * _A1


@njit(**INLINE)
def _merged(sums: Sums, value: Word, key: int) -> Word:
    """One number of the eight sums."""
    value += _folded(sums[0] ^ _KEYS[key], sums[1] ^ _KEYS[key + 8])
    value += _folded(sums[2] ^ _KEYS[key + 16], sums[3] ^ _KEYS[key + 24])
    value += _folded(sums[4] ^ _KEYS[key + 32], sums[5] ^ _KEYS[key + 40])
    value += _folded(sums[6] ^ _KEYS[key + 48], sums[7] ^ _KEYS[key + 56])
    return _avalanche(value)


@njit(**OPTIONS)
def _of_many(data: Bytes, start: int, size: int) -> tuple[Word, Word]:
    """That of more than 240 bytes."""
    sums = _A3, _P1, _P2, _P3, _P4, _A2, _P5, _A1
    at = start
    for _ in range((size - 1) // _BLOCK):
        for stripe in range(16):
            sums = _with_stripe(sums, data, at + _STRIPE * stripe, _WORDS, stripe)
        a, b, c, d, e, f, g, h = sums
        a, b, c, d = _scrambled(a, 16), _scrambled(b, 17), _scrambled(c, 18), _scrambled(d, 19)
        e, f, g, h = _scrambled(e, 20), _scrambled(f, 21), _scrambled(g, 22), _scrambled(h, 23)
        sums = a, b, c, d, e, f, g, h
        at += _BLOCK
    for stripe in range((start + size - at - 1) // _STRIPE):
        sums = _with_stripe(sums, data, at + _STRIPE * stripe, _WORDS, stripe)
    sums = _with_stripe(sums, data, start + size - _STRIPE, _LAST_WORDS, 0)
    length = np.uint64(size)
    return _merged(sums, length * _P1, 11), _merged(sums, ~(length * _P2), 117)


@njit(**INLINE)
def xxh3_128(data: Bytes, start: int, stop: int) -> tuple[Word, Word]:
    """The lower and the higher 64 bits of the hash of the bytes from ``start`` to ``stop``."""
    size = stop - start
    if size > 240:
        low, high = _of_many(data, start, size)
    elif size > 16:
        low, high = _of_medium(data, start, size)
    elif size > 8:
        low, high = _of_sixteen(data, start, size)
    elif size > 3:
        low, high = _of_eight(data, start, size)
    elif size > 0:
        low, high = _of_three(data, start, size)
    else:
        low, high = _avalanche_of_few(_OF_NONE[0]), _avalanche_of_few(_OF_NONE[1])
    return low, high


@njit(**INLINE)
def digest_text(data: Bytes, span: tuple[int, int], out: Words) -> None:
    """Write the hash of a text as its sixteen bytes in the order of digests, the highest first."""
    low, high = xxh3_128(data, span[0], span[1])
    out[0], out[1] = _reversed(high), _reversed(low)


@njit(**OPTIONS)
def _digests(offsets: Offsets, data: Bytes, out: npt.NDArray[np.uint64]) -> None:
    for row in range(offsets.size - 1):
        digest_text(data, (offsets[row], offsets[row + 1]), out[row])


def text_digests(offsets: Offsets, data: Bytes) -> npt.NDArray[np.uint64]:
    """The 128-bit hashes of texts, of shape (texts, 2): a row has the bytes of the digest as they are written.

    Examples:
        >>> text_digests(np.array([0, 3]), np.frombuffer(b"one", np.uint8)).tobytes().hex()
        '0a1c6d4cf41eb499911faba7321fe1a0'
    """
    out = np.empty((len(offsets) - 1, 2), np.uint64)
    _digests(frozen(offsets, np.int64), frozen(data, np.uint8), out)
    return out

"""Context of a number: the words before it."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import Bytes, Scalar
from dcurate.kernels.pii.alphabet import CLASS, DIGIT, INNER, LETTER, two_byte_letter

#: What a word announces, as bits. After `CALL` a telephone number must be longer than after `PHONE`.
PHONE, CALL, VERSION, CODE, SOCIAL, HOST = (np.int64(1 << bit) for bit in range(6))

_WORDS = {
    PHONE: "tel tél phone phones telephone téléphone ph fax mobile cell cellphone cellular whatsapp viber hotline "
    "landline helpline telefon telefono teléfono telefone telefoon telefax handy mobil móvil celular tlf tfno tfn gsm "
    "rufnummer puhelin тел телефон факс моб 话 話",
    CALL: "call calls calling dial text sms contact appelez llame ligue anrufen 机 機 线 線",
    VERSION: "version versions ver v release releases section sections sec firmware build builds rev revision chapter "
    "kernel driver update patch oid oids clause rule article paragraph para appendix figure fig table step",
    CODE: "isbn issn doi arxiv pmid pmc oclc order orders invoice item items sku model part serial patent id ids ref "
    "reference case ean upc asin tracking zip account acct policy claim ticket docket lot batch catalog catalogue bug "
    "commit hash route grant award gene chromosome tariff code codes ssn iban bic vat page pages",
    SOCIAL: "ssn security social",
    HOST: "ip ips ipv host server servers address addresses dns ping from client login",
}
_BACK, _MOST = 40, 4
_BITS = 10
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - _BITS)
_EIGHT = np.uint64(8)
_TO_LOWER = np.uint64(0x20)


def _table() -> tuple[np.ndarray, np.ndarray]:
    """The last eight bytes of each context word, and its meaning as bits, by hash."""
    bits_of: dict[int, int] = {}
    for meaning, words in _WORDS.items():
        for word in words.split():
            packed = int.from_bytes(word.encode()[-8:], "big")
            bits_of[packed] = bits_of.get(packed, 0) | int(meaning)
    keys, meanings = np.zeros(1 << _BITS, np.uint64), np.zeros(1 << _BITS, np.uint8)
    for packed, bits in bits_of.items():
        slot = packed * int(_FACTOR) % 2**64 >> int(_SHIFT)
        while keys[slot]:
            slot = (slot + 1) % len(keys)
        keys[slot], meanings[slot] = packed, bits
    return keys, meanings


_KEYS, _MEANINGS = _table()


@njit(**INNER)
def _letters_before(data: Bytes, start: int, at: int) -> Scalar:
    """Bytes of the letter that ends at ``at``; 0 if there is none."""
    if at <= start:
        return 0
    if CLASS[data[at - 1]] & LETTER:
        return 1
    if at - 2 >= start and 0x80 <= data[at - 1] < 0xC0 and two_byte_letter(data, at - 2, at):
        return 2
    if at - 3 >= start and data[at - 3] == 0xE1 and 0xB8 <= data[at - 2] <= 0xBB and data[at - 1] >= 0x80:
        return 3  # Latin with more marks, as in Vietnamese
    return 0


@njit(**INNER)
def announced(data: Bytes, begin: int, at: int) -> Scalar:
    """The meaning of the nearest known word among the last four before ``at``, as bits; 0 if there is none.

    Words are searched in the 40 bytes before; a Chinese character is a word.
    """
    keys = _KEYS  # once: a CUDA kernel holds a copy of the table for each mention of its name
    limit = max(begin, at - _BACK)
    end = at
    words = 0
    while end > limit and words < _MOST:
        width = _letters_before(data, limit, end)
        single = width == 0 and end - 3 >= limit and 0xE4 <= data[end - 3] <= 0xE9 and data[end - 1] >= 0x80
        if width == 0 and not single:
            end -= 1
            continue
        packed = np.uint64(0)
        taken = np.uint64(0)
        width = 3 if single else width
        while width:
            for step in range(width):
                byte = np.uint64(data[end - 1 - step])
                if byte < 0x80:
                    byte |= _TO_LOWER
                if taken < 8:
                    packed |= byte << (_EIGHT * taken)
                taken += np.uint64(1)
            end -= width
            width = 0 if single else _letters_before(data, limit, end)
        words += 1
        slot = np.int64((packed * _FACTOR) >> _SHIFT)
        while keys[slot] != 0:
            if keys[slot] == packed:
                return np.int64(_MEANINGS[slot])
            slot = (slot + 1) & (keys.size - 1)
    return 0


@njit(**INNER)
def announced_at_once(data: Bytes, begin: int, at: int) -> Scalar:
    """The same for the last word only, if no other number is in between."""
    end = at
    while end > max(begin, at - _BACK) and CLASS[data[end - 1]] & (LETTER | DIGIT) == 0:
        end -= 1
    if end == begin or CLASS[data[end - 1]] & DIGIT:
        return 0
    start = end
    while start > begin and CLASS[data[start - 1]] & LETTER:
        start -= 1
    return announced(data, start, end)

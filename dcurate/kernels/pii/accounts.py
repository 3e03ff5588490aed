"""Card, bank account and social security numbers, each with its check."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import Bytes, Scalar
from dcurate.kernels.pii.alphabet import (
    ALNUM,
    CLASS,
    DIGIT,
    DOT,
    HASH,
    HYPHEN,
    INNER,
    LETTER,
    LOWER,
    PLUS,
    SLASH,
    SPACE,
    UPPER,
    WORD,
    ZERO,
    ends_number,
    in_class,
    is_byte,
)
from dcurate.kernels.pii.context import CODE, SOCIAL, announced
from dcurate.kernels.pii.groups import BLANK, DASH, POINT, DigitGroups

#: Issuers: first and last prefix of six digits, and their lengths as bits (ISO/IEC 7812 ranges as issuers give them).
_ISSUERS = np.array(
    [
        (first, last, sum(1 << length for length in lengths))
        for first, last, lengths in [
            (400000, 499999, (13, 16, 19)),  # Visa
            (510000, 559999, (16,)),  # Mastercard
            (222100, 272099, (16,)),
            (340000, 349999, (15,)),  # American Express
            (370000, 379999, (15,)),
            (300000, 305999, range(14, 20)),  # Diners Club
            (309500, 309599, range(14, 20)),
            (360000, 369999, range(14, 20)),
            (380000, 399999, range(14, 20)),
            (601100, 601199, range(16, 20)),  # Discover
            (644000, 659999, range(16, 20)),
            (352800, 358999, range(16, 20)),  # JCB
            (620000, 629999, range(16, 20)),  # UnionPay
            (220000, 220499, range(16, 20)),  # Mir
            (500000, 509999, range(16, 20)),  # Maestro
            (501800, 501899, range(13, 20)),
            (502000, 502099, range(13, 20)),
            (503800, 503899, range(13, 20)),
            (589300, 589399, range(13, 20)),
            (630400, 630499, range(13, 20)),
            (675900, 675999, range(13, 20)),
            (676100, 676399, range(13, 20)),
        ]
    ],
    np.int64,
)
#: Length of the account numbers of each country (SWIFT's IBAN registry, release 101).
_IBANS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
    "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
    "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
    "YE30"
)
_ONE = np.int64(1)
_IBAN_LENGTH = np.zeros(26 * 26, np.uint8)
for _entry in _IBANS.split():
    _IBAN_LENGTH[(ord(_entry[0]) - 65) * 26 + ord(_entry[1]) - 65] = int(_entry[2:])


@njit(**INNER)
def _is_card(groups: DigitGroups, count: int) -> Scalar:
    """Whether the digits of the first groups have an issuer, its length, and a valid Luhn check digit."""
    length = groups.totals[count - 1]
    prefix = np.int64(0)
    for number in range(6):
        prefix = prefix * 10 + groups.digits[number]
    known = False
    for issuer in range(_ISSUERS.shape[0]):
        if _ISSUERS[issuer, 0] <= prefix <= _ISSUERS[issuer, 1] and (_ISSUERS[issuer, 2] >> length) & 1:
            known = True
    if not known:
        return False
    total = np.int64(0)
    for number in range(length):
        value = groups.digits[length - 1 - number]
        if number & 1:
            value = 2 * value - 9 if value > 4 else 2 * value
        total += value
    return total % 10 == 0


@njit(**INNER)
def may_be_account(groups: DigitGroups, count: int) -> Scalar:
    """Whether groups may be those of a card or social security number, by how many digits they have."""
    first = groups.sizes[0]
    if first == 9 or (groups.totals[count - 1] >= 13 and (first == 4 or first >= 13)):
        return True
    return count > 2 and first == 3 and groups.sizes[1] == 2 and groups.sizes[2] == 4


@njit(**INNER)
def card_end(data: Bytes, begin: int, stop: int, groups: DigitGroups, count: int) -> Scalar:
    """End offset of a card number starting at the first group, or its start offset if there is none.

    It is one run of digits not announced as something else, or groups as printed on a card, separated by blanks or
    hyphens, or by dots between groups of four.
    """
    start = groups.starts[0]
    first = groups.sizes[0]
    if first < 13 and first != 4:
        return start
    for mark in (HYPHEN, DOT, SLASH, HASH, PLUS):
        if is_byte(data, begin, start - 1, stop, mark):
            return start
    if first >= 13:
        solid = first <= 19 and ends_number(data, groups.stops[0], stop) and _is_card(groups, _ONE)
        return groups.stops[0] if solid and not announced(data, begin, start) & CODE else start
    gap = groups.gaps[0]
    row = is_byte(data, begin, start - 1, stop, SPACE) and in_class(data, begin, start - 2, stop, DIGIT)
    if gap not in (BLANK, DASH, POINT) or (row and gap == BLANK):
        return start
    for used in (5, 4, 3):
        if count < used:
            continue
        alike = True
        for number in range(1, used - 1):
            alike &= groups.gaps[number] == gap
        if count > used and groups.gaps[used - 1] == gap and 2 < groups.sizes[used] < 5:
            continue  # a row of numbers
        fours = used > 3
        for number in range(1, min(used, 4)):
            fours &= groups.sizes[number] == 4
        if used == 5:
            fours &= groups.sizes[4] == 3
        sixes = used == 3 and gap != POINT and groups.sizes[1] == 6 and 4 <= groups.sizes[2] <= 5
        if alike and (fours or sixes) and ends_number(data, groups.stops[used - 1], stop) and _is_card(groups, used):
            return groups.stops[used - 1]
    return start


@njit(**INNER)
def social_security_end(data: Bytes, begin: int, stop: int, groups: DigitGroups, count: int) -> Scalar:
    """End offset of a US SSN starting at the first digit group, or its start offset if there is none.

    With hyphens it needs no context; with blanks or no separators it must be announced. Areas and groups that were
    never issued do not match, nor do two numbers that were published as examples.
    """
    start = groups.starts[0]
    solid = groups.sizes[0] == 9
    used = 1 if solid else 3
    if not solid and (count < 3 or groups.sizes[0] != 3 or groups.sizes[1] != 2 or groups.sizes[2] != 4):
        return start
    dashes = not solid and groups.gaps[0] == DASH and groups.gaps[1] == DASH
    blanks = solid or (groups.gaps[0] == BLANK and groups.gaps[1] == BLANK)
    if not dashes and not (blanks and announced(data, begin, start) & SOCIAL):
        return start
    for mark in (HYPHEN, DOT, SLASH, HASH):
        if is_byte(data, begin, start - 1, stop, mark):
            return start
    value = np.int64(0)
    for number in range(9):
        value = value * 10 + groups.digits[number]
    area, group, serial = value // 1000000, value // 10000 % 100, value % 10000
    issued = 0 < area < 900 and area != 666 and group > 0 and serial > 0
    example = value in (78051120, 219099999)
    end = groups.stops[used - 1]
    return end if issued and not example and ends_number(data, end, stop) else start


@njit(**INNER)
def may_be_iban(data: Bytes, begin: int, at: int, stop: int) -> Scalar:
    """Whether the digit at ``at`` may be the first check digit of an IBAN: another follows, and two letters precede."""
    letters = in_class(data, begin, at - 2, stop, LETTER) and in_class(data, begin, at - 1, stop, LETTER)
    return letters and not in_class(data, begin, at - 3, stop, WORD) and in_class(data, begin, at + 1, stop, DIGIT)


@njit(**INNER)
def iban_end(data: Bytes, begin: int, at: int, stop: int) -> Scalar:
    """End offset of the IBAN with check digits at ``at``, after its country; ``at`` if there is none.

    It is written in one or in groups of four, in capitals or in small letters, and its remainder by 97 is 1
    (ISO 13616).
    """
    start = at - 2
    case = LOWER if in_class(data, begin, start, stop, LOWER) else UPPER
    country = in_class(data, begin, start, stop, case) and in_class(data, begin, at - 1, stop, case)
    if not country or in_class(data, begin, start - 1, stop, WORD) or not in_class(data, begin, at + 1, stop, DIGIT):
        return at
    letter = np.int64(65 if case == UPPER else 97)
    length = np.int64(_IBAN_LENGTH[(np.int64(data[start]) - letter) * 26 + np.int64(data[start + 1]) - letter])
    place, taken = start, 0
    grouped = is_byte(data, begin, at + 2, stop, SPACE) or is_byte(data, begin, at + 2, stop, HYPHEN)
    remainder = head = np.int64(0)
    while taken < length:
        if grouped and taken > 0 and taken % 4 == 0:
            if not is_byte(data, begin, place, stop, np.int64(data[at + 2])):
                return at
            place += 1
        if not in_class(data, begin, place, stop, DIGIT | case):
            return at
        value = np.int64(data[place]) - (ZERO if CLASS[data[place]] & DIGIT else letter - 10)
        if taken < 4:
            head = head * (10 if value < 10 else 100) + value
        else:
            remainder = (remainder * (10 if value < 10 else 100) + value) % 97
        place += 1
        taken += 1
    ends = not in_class(data, begin, place, stop, ALNUM | LOWER)
    return place if length and ends and (remainder * 1000000 + head) % 97 == 1 else at

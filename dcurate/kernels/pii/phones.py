"""Telephone numbers: international ones by country code and length, national ones by their format."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import Bytes, Scalar
from dcurate.kernels.pii.alphabet import COMMA, DIGIT, INNER, OPEN, PLUS, SPACE, WORD, ends_number, in_class, is_byte
from dcurate.kernels.pii.context import CALL, CODE, PHONE, SOCIAL, VERSION, announced
from dcurate.kernels.pii.groups import BLANK, CLOSES, DASH, OPENS, POINT, STROKE, DigitGroups

#: Digits that may follow each country code (ITU-T E.164 as of libphonenumber 9.0); no number has fewer than 8 in all.
_LENGTHS = (
    "1:10 7:10,14 20:8-10 27:6-10 30:10-12 31:6-11 32:8-9 33:9 34:9 36:8-9 39:6-12 40:6,9 41:9,12 43:6-13 44:7,9-10 "
    "45:8 46:6-10,12 47:8 48:6-10 49:6-13 51:8-9 52:10 53:6-8,10 54:10-11 55:8-11 56:9-11 57:8,10-11 58:10 60:8-10 "
    "61:6-10,12 62:7-13 63:6,8-13 64:6-10 65:8,10-11 66:8-10,13 81:8-13 82:6,8-13 84:7-10 86:7-12 90:7,10,12-13 "
    "91:8-13 92:8-12 93:9 94:9 95:6-10 98:6-7,10 211:9 212:9 213:8-9 216:8 218:9 220:7,9 221:9 222:8 223:8 224:8-9 "
    "225:10 226:8 227:8 228:8 229:10 230:7-8,10 231:7-9 232:8 233:8-9 234:10-12 235:8 236:8 237:8-9 238:7 239:7 240:9 "
    "241:7-8 242:9 243:7-10 244:9 245:7,9 246:7 247:5-6 248:7 249:9 250:8-9 251:9 252:6-9 253:8 254:7-10 255:9 256:9 "
    "257:8 258:8-9 260:9 261:9 262:9 263:7,9-10 264:8-9 265:7,9 266:8 267:7-8,10 268:8-9 269:7 290:5 291:7 297:7 "
    "298:6 299:6 350:8 351:9 352:5-11 353:7-10 354:7,9 355:6-9 356:8 357:8 358:5-12 359:6-9,12 370:8 371:8 372:7-8,10 "
    "373:8 374:8 375:6-11 376:6,8-9 377:8-9 378:8,10 380:9-10 381:6-12 382:8-9 383:8-12 385:7-9 386:5-8 387:8-9 389:8 "
    "420:9-12 421:6-7,9 423:7,9 500:5 501:7,11 502:8,11 503:7-8,11 504:8,11 505:8 506:8,10 507:7-8,10-11 508:6,9 "
    "509:8 590:9 591:8-9 592:7 593:8-11 594:9 595:6-11 596:9 597:6-7 598:5-12 599:7-8 670:7-8 672:6 673:7 674:7 "
    "675:7-8 676:5,7 677:5,7 678:5,7 679:7,11 680:7 681:6,9 682:5 683:7 685:5-7,10 686:5,8 687:6 688:5-7 689:6,8-9 "
    "690:5-7 691:7 692:7 800:8 808:8 850:8,10 852:5-9,11 853:7-8 855:8-10 856:8-10 870:9,12 878:12 880:6-10 881:9-10 "
    "882:7-12 883:8-12 886:7-11 888:11 960:7,10 961:7-8 962:8-9 963:8-9 964:8-10 965:7-8 966:9-10 967:7-9 968:7-9 "
    "970:8-10 971:5-12 972:7-12 973:8 974:7-9,11 975:7-8 976:8-10 977:8,10-11 979:9 992:9 993:8 994:9 995:9 996:9-10 "
    "998:9"
)
_FEWEST, _MOST = 8, 15
# Numbers of numba's own type: a function would be compiled once for each plain one that it is given.
_NONE, _TWO_ZEROS, _FIRST, _SECOND = (np.int64(number) for number in (0, 2, 0, 1))
#: The bytes of a section sign.
_SECTION = np.int64(0xC2), np.int64(0xA7)
#: Marks before which no number begins, unless it has a plus sign: ``-./#%$\\*^``.
_BEFORE = np.array(list(b"-./#%$\\*^"), np.int64)


def _lengths() -> np.ndarray:
    """For each country code the lengths of national numbers, as bits."""
    table = np.zeros(1000, np.uint16)
    for entry in _LENGTHS.split():
        code, _, spans = entry.partition(":")
        for span in spans.split(","):
            first, _, last = span.partition("-")
            for length in range(int(first), int(last or first) + 1):
                table[int(code)] |= 1 << length
    return table


_NATIONAL = _lengths()


@njit(**INNER)
def _evenly(groups: DigitGroups, count: int) -> Scalar:
    """Whether groups are not separated by both dots and blanks, as in tables of decimal numbers."""
    kinds = 0
    for number in range(count - 1):
        kinds |= groups.gaps[number]
    return kinds & POINT == 0 or kinds & BLANK == 0


@njit(**INNER)
def _international(groups: DigitGroups, count: int, skipped: int) -> Scalar:
    """Number of groups of an international number: its code comes after ``skipped`` digits; 0 if there is none."""
    lengths = _NATIONAL  # once: a CUDA kernel holds a copy of the table for each mention of its name
    code = np.int64(0)
    width = 0
    while width < 3 and lengths[code] == 0:
        place = skipped + width
        if place >= groups.totals[count - 1] or (width == 0 and groups.digits[place] == 0):
            return 0
        code = code * 10 + groups.digits[place]
        width += 1
    if lengths[code] == 0:
        return 0
    for used in range(count, 0, -1):
        national = groups.totals[used - 1] - skipped - width
        for number in range(1, used):
            alone = groups.sizes[number] == 1 and groups.gaps[number - 1] & OPENS and groups.gaps[number] & CLOSES
            if alone and groups.starts[number] < groups.stops[used - 1]:
                national -= 1  # +44 (0)20: a trunk prefix that is not dialled from abroad
        fits = 0 < national <= _MOST and (np.int64(lengths[code]) >> national) & 1 and _evenly(groups, used)
        short = national + width < (_FEWEST if used > 1 else 9) or (used > 1 and groups.sizes[used - 1] < 2)
        if fits and not short and national + width <= _MOST:
            return used
    return 0


@njit(**INNER)
def _american(groups: DigitGroups, count: int, bracket: bool, announced: bool) -> Scalar:
    """Number of groups of a North American number, 3-3-4 digits with an optional 1; 0 if there is none.

    After a bracket around the area the rest may be written in one, as in ``(212)5550142``.

    Neither area nor exchange begins with 0 or 1 or is a service code (911). With nothing but blanks between the groups
    it must have a 1 before it, a bracket around the area, or be announced.
    """
    first = 1 if count > 3 and groups.sizes[0] == 1 and groups.digits[0] == 1 else 0
    joined = bracket and count > 1 and groups.gaps[0] & CLOSES != 0 and groups.sizes[0] == 3 and groups.sizes[1] == 7
    if not joined and count < first + 3:
        return 0
    split = groups.sizes[first] == 3 and groups.sizes[first + 1] == 3 and groups.sizes[first + 2] == 4
    if not joined and not split:
        return 0
    for place in (first, first + 3):
        second, third = groups.digits[place + 1], groups.digits[place + 2]
        service = second == 1 and third == 1
        if groups.digits[place] < 2 or service or (place == first and second == 9):
            return 0
    if joined:
        return 2
    blanks = groups.gaps[first] == BLANK and groups.gaps[first + 1] == BLANK
    return 0 if blanks and first == 0 and not announced else first + 3


@njit(**INNER)
def _with_trunk_prefix(groups: DigitGroups, count: int, bracket: bool) -> Scalar:
    """Number of groups of a national number with a leading 0, as in most of the world; 0 if there is none."""
    if groups.sizes[0] < 2 or groups.digits[0] != 0 or groups.digits[1] == 0:
        return 0
    for used in range(min(count, 6), 1, -1):
        total = groups.totals[used - 1]
        if not 9 <= total <= 12:
            continue
        alike, smallest, largest = True, groups.sizes[1], groups.sizes[1]
        for number in range(1, used):
            alike &= number == used - 1 or groups.gaps[number] == groups.gaps[1]
            smallest, largest = min(smallest, groups.sizes[number]), max(largest, groups.sizes[number])
        head, gap = groups.sizes[0], groups.gaps[0]
        same = alike and (used == 2 or groups.gaps[1] == gap)
        if not alike or smallest < 2 or largest > 8 or head > 6:
            continue
        spaced = gap in (BLANK, DASH)
        twos = used == 5 and head == 2 and largest == 2 and same
        if twos and _counts(groups):
            continue
        pairs = twos and (spaced or gap == POINT)
        fours = used == 3 and head == 2 and largest == 4 and same and spaced and not _years(groups, _SECOND)
        long = head >= 3 and smallest >= 3 and 10 <= total <= 11 and same and spaced
        many = used >= 4 and head >= 2 and largest <= 4 and same and gap == BLANK and total <= 11
        stroke = head >= 3 and gap & STROKE and gap & (POINT | DASH) == 0
        closed = bracket and gap & CLOSES != 0
        if pairs or fours or long or many or stroke or closed:
            return used
    return 0


@njit(**INNER)
def _with_area(groups: DigitGroups, count: int, bracket: bool) -> Scalar:
    """Number of groups of a national number by its format: ``(11) 2345-6789``, ``612 34 56 78``; 0 if there is none."""
    if bracket and count > 2 and groups.gaps[0] & CLOSES and groups.gaps[1] == DASH:
        shape = 2 <= groups.sizes[0] <= 4 and 3 <= groups.sizes[1] <= 5 and groups.sizes[2] == 4
        return 3 if shape else 0
    if count > 3 and groups.sizes[0] == 3 and groups.digits[0] >= 6:
        for number in range(1, 4):
            if groups.sizes[number] != 2 or groups.gaps[number - 1] != BLANK:
                return 0
        return 4
    return 0


@njit(**INNER)
def _counts(groups: DigitGroups) -> Scalar:
    """Whether five pairs of digits are consecutive, as in ``01-02-03-04-05``."""
    for number in range(2, 10, 2):
        step = 10 * (groups.digits[number] - groups.digits[number - 2])
        if step + groups.digits[number + 1] - groups.digits[number - 1] != 1:
            return False
    return True


@njit(**INNER)
def _years(groups: DigitGroups, first: int) -> Scalar:
    """Whether the group and the next both look like years."""
    for number in (first, first + 1):
        at = groups.totals[number] - groups.sizes[number]
        head = 10 * groups.digits[at] + groups.digits[at + 1]
        if groups.sizes[number] != 4 or head not in (19, 20):
            return False
    return True


@njit(**INNER)
def _announced_number(groups: DigitGroups, count: int, fewest: int) -> Scalar:
    """Number of groups of an announced number of any format; 0 for a date, years or an amount."""
    if count >= 3 and groups.totals[2] <= 8:
        first, second, third = groups.sizes[0], groups.sizes[1], groups.sizes[2]
        if (first == 4 and second <= 2 and third <= 2) or (third == 4 and first <= 2 and second <= 2):
            return 0
    if count >= 2 and _years(groups, _FIRST):
        return 0
    thousands = count >= 3 and groups.sizes[0] < 3 and groups.sizes[1] == 3 and groups.sizes[2] == 3
    if thousands and groups.gaps[0] == POINT:
        return 0
    for used in range(min(count, 6), 0, -1):
        total = groups.totals[used - 1]
        decimal = used == 2 and groups.gaps[0] == POINT
        long_enough = used == 1 or groups.sizes[used - 1] >= 2
        if fewest <= total <= _MOST and long_enough and not decimal and _evenly(groups, used):
            return used
    return 0


@njit(**INNER)
def _is_part(data: Bytes, begin: int, at: int, stop: int) -> Scalar:
    """Whether the text at ``at`` is part of a longer number or a path, an amount, a formula or a paragraph."""
    for mark in _BEFORE:
        if is_byte(data, begin, at - 1, stop, mark):
            return True
    if is_byte(data, begin, at - 1, stop, COMMA) and in_class(data, begin, at - 2, stop, DIGIT):
        return True
    while is_byte(data, begin, at - 1, stop, SPACE):
        at -= 1
    return is_byte(data, begin, at - 1, stop, _SECTION[1]) and is_byte(data, begin, at - 2, stop, _SECTION[0])


@njit(**INNER)
def _national(groups: DigitGroups, count: int, bracket: bool, meanings: int) -> Scalar:
    """Number of groups of an announced number without a plus sign; 0 if there is none."""
    if meanings & CODE or meanings & VERSION or meanings & SOCIAL:
        return 0
    announced = meanings & PHONE != 0
    used = 0
    if groups.sizes[0] > 1 and groups.digits[0] == 0 and groups.digits[1] == 0:
        used = _international(groups, count, _TWO_ZEROS) if announced or (count > 2 and groups.sizes[0] <= 5) else 0
    if used == 0:
        used = _american(groups, count, bracket, announced)
    if used == 0:
        used = _with_trunk_prefix(groups, count, bracket)
    if used == 0:
        used = _with_area(groups, count, bracket)
    if used == 0 and (announced or meanings & CALL):
        used = _announced_number(groups, count, 7 if announced else 8 if count > 1 else 9)
    return used


@njit(**INNER)
def phone_at(data: Bytes, begin: int, stop: int, groups: DigitGroups, count: int) -> tuple[Scalar, Scalar]:
    """Start and end of the telephone number whose first digits are the first group; equal if there is none."""
    start = groups.starts[0]
    plus = is_byte(data, begin, start - 1, stop, PLUS)
    first = start - 1 if plus else start
    bracket = is_byte(data, begin, first - 1, stop, OPEN)
    outer = first - 1 if bracket else first
    if in_class(data, begin, outer - 1, stop, WORD) or is_byte(data, begin, outer - 1, stop, PLUS):
        return start, start
    if count == 1 and groups.sizes[0] < 7:
        return start, start
    if plus:
        used = _international(groups, count, _NONE)
    elif _is_part(data, begin, outer, stop):
        return start, start
    else:
        used = _national(groups, count, bracket, announced(data, begin, outer))
    if used == 0 or groups.totals[used - 1] > _MOST + 3 or not ends_number(data, groups.stops[used - 1], stop):
        return start, start
    closes = False
    for number in range(used - 1):
        closes |= groups.gaps[number] & CLOSES != 0 and groups.gaps[number] & OPENS == 0
    return (outer if bracket and closes else first), groups.stops[used - 1]

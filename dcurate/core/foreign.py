"""Parse numbers that others wrote: in headers of servers and of archives. None of them raises for any text."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

#: Largest number that is taken: it and a small multiple of it fit 64 bits.
LARGEST = 2**62
#: Digits of the longest number that is read, leading zeros included, and characters of the longest date.
_DIGITS, _DATE = 40, 100


def whole_number(text: str | bytes | None, largest: int = LARGEST) -> int | None:
    """A whole number in ASCII digits; None for any other text, and for a number above `largest`.

    ``str.isdigit`` is true for text that `int` refuses, such as ``"²"``, and `int` refuses more than 4,300 digits.

    Examples:
        >>> [whole_number(text) for text in ("12", b"007", "-1", "1_0", "²", "9" * 5000, None)]
        [12, 7, None, None, None, None, None]
    """
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        return None
    number = int(text)
    return number if number <= largest else None


def retry_after_s(text: str | None) -> float | None:
    """The seconds that a ``Retry-After`` header asks to wait, as a number or a date; None if it cannot be read.

    A number of any length counts; the caller must bound the wait.

    Examples:
        >>> [retry_after_s(text) for text in ("120", "Thu, 01 Jan 1970 00:00:00 GMT", "soon", None)]
        [120.0, 0.0, None, None]
    """
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        number = whole_number(text)
        return float(LARGEST if number is None else number)
    if not text or len(text) > _DATE:
        return None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError, OSError, TypeError, IndexError):  # years and zones that no calendar has
        return None

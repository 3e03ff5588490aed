"""Lists of contents: dots that lead to a page number, and the number, say nothing in a text without pages."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dcurate.core.foreign import whole_number
from dcurate.kernels.pdf.lines import GAP, TO

_LEADER = re.compile(r"(?:(?<!\s)\s+)?(?:(?:\.\s?){4,}|…{2,}|(?:·\s?){4,}|_{6,})\s*")
_NUMBER = re.compile(r"(?<!\s)\s+(\d{1,4}|[ivxlc]{1,7})$")
#: Lines with leaders and rising numbers that make a list of contents.
_LINES = 3
#: A gap in sizes of the font that keeps a line from joining the next.
APART = 1e6


def has_leaders(text: str) -> bool:
    """Whether a page may have a list of contents."""
    return ". . . ." in text or "....." in text or "……" in text or "····" in text


def clean_contents(lines: list[str], table: npt.NDArray[np.float32]) -> None:
    """Take leaders and page numbers out of lists of contents, in place.

    Numbers go only where they rise from line to line and stand at one edge: those of a price list stay.

    Args:
        lines: text of each line.
        table: table of the lines; see `dcurate.kernels.pdf.lines`.
    """
    entries: list[tuple[int, str, str]] = []
    for number, line in enumerate(lines):
        parts = _LEADER.split(line)
        if len(parts) == 2 and parts[0]:
            table[number, GAP] = APART
            entries.append((number, parts[0], parts[1]))
    values = [value for _, _, tail in entries if (value := whole_number(tail)) is not None]
    rising = sum(after >= before for before, after in pairwise(values))
    is_contents = len(values) >= _LINES and rising >= 0.9 * (len(values) - 1)
    for number, head, tail in entries:
        lines[number] = head if is_contents and _NUMBER.fullmatch(f" {tail}") else f"{head} {tail}".strip()
    if not is_contents:
        return
    edge = float(np.median([table[number, TO] for number, _, _ in entries]))
    led = {number for number, _, _ in entries}
    for number, line in enumerate(lines):
        if number not in led and table[number, GAP] >= 1.0 and abs(float(table[number, TO]) - edge) < 3:
            lines[number] = _NUMBER.sub("", line)

"""Scores of extracted text against the text that a document is known to have.

- Tokens: runs of letters, digits and underscores of the text in NFKC; Han, kana and Hangul characters one by one.
- Word F1: of the counts of tokens.
- Order: F1 of the counts of pairs of neighbouring tokens.
- Tau: Kendall's, of the places at which the document's blocks begin in the text; blocks with the same beginning do not
  count.
- Headers and footers: precision and recall of the lines that were left out, over all files.
- Cells: F1 over all tables of ``(row, column, text)`` of cells with text, each table with the table found on its page
  that agrees best.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

_ONE = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]"
_TOKEN = re.compile(rf"{_ONE}|(?:(?!{_ONE})\w)+")
_BEGINNING = 6


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(unicodedata.normalize("NFKC", text))


def _f1(truth: Counter[Any], found: Counter[Any]) -> float:
    total = truth.total() + found.total()
    return 2 * (truth & found).total() / total if total else 1.0


def word_f1(truth: Sequence[str], found: Sequence[str]) -> float:
    return _f1(Counter(truth), Counter(found))


def order(truth: Sequence[str], found: Sequence[str]) -> float:
    return _f1(Counter(pairwise(truth)), Counter(pairwise(found)))


def tau(blocks: Sequence[str], found: Sequence[str]) -> float | None:
    """Kendall's tau of blocks in the text; None if fewer than two are found."""
    beginnings = [tuple(tokens(block)[:_BEGINNING]) for block in blocks]
    counts = Counter(beginnings)
    places: dict[tuple[str, ...], list[int]] = {}
    for at in range(len(found) - _BEGINNING + 1):
        places.setdefault(tuple(found[at : at + _BEGINNING]), []).append(at)
    once = [places[key][0] for key in beginnings if counts[key] == 1 and len(places.get(key, ())) == 1]
    pairs = len(once) * (len(once) - 1) // 2
    if not pairs:
        return None
    right = sum(once[a] < once[b] for a in range(len(once)) for b in range(a + 1, len(once)))
    return 2 * right / pairs - 1


def auc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """The share of pairs in which the page that needs OCR has the higher need; ties count half.

    Examples:
        >>> auc([0.9, 0.5], [0.1, 0.5])
        0.875
    """
    pairs = [(one > other) + 0.5 * (one == other) for one in positive for other in negative]
    return sum(pairs) / len(pairs) if pairs else None


def lines_left_out(truth: Sequence[str], found: Sequence[str]) -> tuple[int, int, int]:
    """Lines in both, in the truth, and found; by their text without regard to spaces."""
    wanted, given = (Counter(" ".join(line.split()) for line in lines) for lines in (truth, found))
    return (wanted & given).total(), wanted.total(), given.total()


def cells(truth: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[int, int, int]:
    """Cells in both, in the truth, and found, over the pages of a document."""
    both = wanted = given = 0
    for number, page in enumerate(truth["pages"]):
        tables = found["pages"][number].get("tables", ()) if number < len(found["pages"]) else ()
        left = [_cells(table["cells"]) for table in tables]
        given += sum(map(len, left))
        for table in page.get("tables", ()):
            mine = _cells(table["cells"])
            wanted += len(mine)
            if left:
                best = max(left, key=lambda one: len(one & mine))
                both += len(best & mine)
                left.remove(best)
    return both, wanted, given


def _cells(rows: Sequence[Sequence[str]]) -> set[tuple[int, int, str]]:
    return {
        (row, column, " ".join(text.split()))
        for row, line in enumerate(rows)
        for column, text in enumerate(line)
        if text and text.strip()
    }

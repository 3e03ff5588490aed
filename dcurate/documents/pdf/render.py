"""Pages of lines to text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dcurate.documents.pdf.page import Page
from dcurate.kernels.pdf.lines import DIRECT, HYPHEN, NEW_LINE, PARAGRAPH, SPACED, find_joints

_COMPOUND = re.compile(r"\w+(?:-\w+)+")
_LAST = re.compile(r"\w+$")
_FIRST = re.compile(r"^\w+")

_JOINED = {SPACED: " ", DIRECT: "", NEW_LINE: "\n", PARAGRAPH: "\n\n"}


class Compounds:
    """Words with hyphens inside that a document has within its lines; collected when the first is asked for."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages = pages
        self._words: set[str] | None = None

    def __contains__(self, word: str) -> bool:
        if self._words is None:
            self._words = set()
            for page in self._pages:
                for line in page.lines:
                    if "-" in line:
                        self._words.update(found.lower() for found in _COMPOUND.findall(line))
        return word.lower() in self._words


def page_text(page: Page, compounds: Compounds, join_hyphens: bool = True) -> str:
    """The text of a page: paragraphs parted by an empty line, each on one line where it can be known."""
    if not page.lines:
        return ""
    joints = find_joints(page.letters, page.places, page.table, page.dropped).tolist()
    dropped = page.dropped.tolist()
    parts: list[str] = []
    after_table = False
    for number, (line, joint, gone) in enumerate(zip(page.lines, joints, dropped, strict=True)):
        if number in page.tables:
            parts.extend(["\n\n"] if parts else [])
            parts.append("\n".join("\t".join(row) for row in page.tables[number].cells))
            after_table = True
        if gone or not line:
            continue
        if after_table:
            parts.append("\n\n")
        elif joint == HYPHEN and parts:
            before, after = _LAST.search(parts[-1][:-1]), _FIRST.search(line)
            if not join_hyphens:
                parts.append("\n")
            elif not (before and after and f"{before[0]}-{after[0]}" in compounds):
                parts[-1] = parts[-1][:-1]
        elif parts:
            parts.append(_JOINED[joint])
        parts.append(line)
        after_table = False
    return "".join(parts)

"""Pages of lines to text and to Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dcurate.documents.pdf.page import PdfPage
from dcurate.documents.pdf.tables import PdfTable
from dcurate.kernels.pdf.lines import (
    BOLD,
    DIRECT,
    FROM,
    HYPHEN,
    LEAF,
    MONO,
    NEW_LINE,
    PARAGRAPH,
    SIZE,
    SPACED,
    find_joints,
)

_COMPOUND = re.compile(r"(?<!\w)\w++(?:-\w++)+")  # begins where a word does: linear in long words
_LAST = re.compile(r"(?<!\w)\w++$")
_FIRST = re.compile(r"^\w+")
_BULLET = re.compile(r"^[•‣⁃●○■□▪▫◦·–—*-]\s+")
_MARKS = re.compile(r"([\\`*_\[\]<>#|])")

_JOINED = {SPACED: " ", DIRECT: "", NEW_LINE: "\n", PARAGRAPH: "\n\n"}

#: How much larger than the text a heading is, and how many levels there are.
_LARGER, _LEVELS = 1.12, 4
_LONGEST_HEADING = 200
#: Share of a line's characters that make it code, or bold.
_MOST = 0.7
#: Width of a character of one width, in sizes of its font.
_EM = 0.6


class Compounds:
    """Words with hyphens inside that a document has within its lines; collected when the first is asked for."""

    def __init__(self, pages: Sequence[PdfPage]) -> None:
        self._pages = pages
        self._words: set[str] | None = None

    def __contains__(self, word: str) -> bool:
        if self._words is None:
            self._words = set()
            for page in self._pages:
                for line in page.lines[: page.upright]:
                    if "-" in line:
                        for part in line.lower().split():
                            if "-" in part:
                                self._words.update(_COMPOUND.findall(part))
        return word.lower() in self._words


class Block(NamedTuple):
    """Lines of a page that belong together, or a table.

    Args:
        lines: their numbers.
        parts: their texts, with what joins them before each but the first.
        table: None for text.
    """

    lines: list[int]
    parts: list[str]
    table: PdfTable | None = None

    @property
    def text(self) -> str:
        """The text of the lines."""
        if self.table:
            return "\n".join("\t".join(row) for row in self.table.cells)
        return "".join(self.parts)


def blocks_of(page: PdfPage, compounds: Compounds, join_hyphens: bool = True) -> Iterator[Block]:
    """The paragraphs, headings, lists and tables of a page; without what is dropped."""
    if not page.lines:
        return
    joints = find_joints(page.letters, page.places, page.table, page.dropped).tolist()
    indents = _indents(page)
    block: Block | None = None
    for number, (line, joint, gone) in enumerate(zip(page.lines, joints, page.dropped.tolist(), strict=True)):
        if number in page.tables:
            if block:
                yield block
            block = None
            yield Block([number], [], page.tables[number])
        if gone or not line:
            continue
        text = indents[number] + line if number in indents else line
        if block is None or joint == PARAGRAPH:
            if block:
                yield block
            block = Block([number], [text])
            continue
        if joint == HYPHEN:
            _join(block.parts, line, compounds, join_hyphens)
        else:
            block.parts.append(_JOINED.get(joint, " "))
        block.parts.append(text if joint == NEW_LINE else line)
        block.lines.append(number)
    if block:
        yield block


def _join(parts: list[str], line: str, compounds: Compounds, join_hyphens: bool) -> None:
    """Make the end of the last part ready for a line that goes on its last word."""
    before, after = _LAST.search(parts[-1][:-1]), _FIRST.search(line)
    if not join_hyphens:
        parts.append("\n")
    elif not (before and after and f"{before[0]}-{after[0]}" in compounds):
        parts[-1] = parts[-1][:-1]


def _indents(page: PdfPage) -> dict[int, str]:
    """Spaces before lines of code, by line."""
    chosen = np.flatnonzero(page.table[:, MONO] > _MOST)
    if not len(chosen):
        return {}
    table = page.table[chosen]
    least: dict[float, float] = {}
    for leaf, begin in zip(table[:, LEAF].tolist(), table[:, FROM].tolist(), strict=True):
        least[leaf] = min(begin, least.get(leaf, begin))
    indents = {}
    for line, leaf, begin, size in zip(chosen.tolist(), *table[:, [LEAF, FROM, SIZE]].T.tolist(), strict=True):
        spaces = round((begin - least[leaf]) / (_EM * max(size, 1.0)))
        if 0 < spaces <= 80:
            indents[line] = " " * spaces
    return indents


def page_text(blocks: Sequence[Block]) -> str:
    """The text of a page: blocks parted by an empty line."""
    return "\n\n".join(block.text for block in blocks)


class Sizes:
    """Sizes of fonts in a document: of its text, and of each level of headings."""

    def __init__(self, pages: Sequence[PdfPage]) -> None:
        counts: Counter[float] = Counter()
        for page in pages:
            count = page.upright
            if count:
                lengths = page.places[:count, 1] - page.places[:count, 0]
                for size, length in zip(_rounded(page.table[:count, SIZE]), lengths.tolist(), strict=True):
                    counts[size] += length
        self.body = max(counts, key=lambda size: counts[size]) if counts else 0.0
        larger = sorted((size for size in counts if size >= _LARGER * self.body), reverse=True)
        self._levels: dict[float, int] = {}
        level, before = 0, 0.0
        for size in larger:
            if not before or size < 0.94 * before:
                level += 1
                before = size
            self._levels[size] = min(level, _LEVELS)

    def level(self, page: PdfPage, block: Block) -> int:
        """The level of a heading, from 1; 0 for other blocks."""
        first = block.lines[0]
        text = block.text
        if (
            first >= page.upright
            or len(text) > _LONGEST_HEADING
            or not any(map(str.isalpha, text))
            or page.table[first, MONO] > _MOST
        ):
            return 0
        size = _rounded(page.table[first : first + 1, SIZE])[0]
        if size in self._levels:
            return self._levels[size]
        bold = all(page.table[line, BOLD] > _MOST for line in block.lines)
        if bold and size >= 0.95 * self.body and len(block.lines) <= 2 and not text.endswith((".", ":", ",", ";")):
            return min(max(self._levels.values(), default=0) + 1, _LEVELS + 1)
        return 0


def _rounded(sizes: np.ndarray) -> list[float]:
    return [round(2 * size) / 2 for size in sizes.tolist()]


def page_markdown(page: PdfPage, blocks: Sequence[Block], sizes: Sizes) -> str:
    """A page as Markdown: headings, lists, code, tables."""
    rendered: list[str] = []
    code: list[str] = []
    for block in blocks:
        if not block.table and all(page.table[line, MONO] > _MOST for line in block.lines):
            code.append(block.text)
            continue
        if code:
            rendered.append(_fenced(code))
            code = []
        if block.table:
            rendered.append(_piped(block.table))
        elif level := sizes.level(page, block):
            rendered.append(f"{'#' * level} {' '.join(block.text.split())}")
        else:
            rendered.append("\n".join(map(_listed, block.text.split("\n"))))
    if code:
        rendered.append(_fenced(code))
    return "\n\n".join(rendered)


def _listed(line: str) -> str:
    if bullet := _BULLET.match(line):
        return f"- {line[bullet.end() :]}"
    if line.startswith("#"):
        return f"\\{line}"
    return line


def _fenced(parts: Sequence[str]) -> str:
    text = "\n\n".join(parts)
    fence = "`" * max(3, max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    return f"{fence}\n{text}\n{fence}"


def _piped(table: PdfTable) -> str:
    rows = [[cell.replace("\n", " ").replace("|", "\\|") for cell in row] for row in table.cells]
    rule = ["---"] * len(rows[0])
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]])

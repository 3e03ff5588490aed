"""Tables of a page: tell tables of data from layouts, and write them as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dcurate.text.extract.blocks import CODE, FORMULA, HEADING, HtmlBlock, ListItem

_DATA = re.compile(
    r"(?<![a-z])(?:wikitable|docutils|tableblock|dataframe|data-?table|table(?:-(?:striped|bordered|hover|sm))?)(?![\w-])"
)
_LAYOUT_ROLES = ("presentation", "none")
#: Average characters of a cell above which a table is not a table of data, without and with a head; and places of its
#: grid, for each cell and besides, above which spans make it too large.
_LONG_CELL, _LONG_CELL_OF_DATA = 200, 1_000
_PLACES_A_CELL, _PLACES = 4, 10_000
_LARGEST_SPAN = 1_000


@dataclass
class HtmlCell:
    """A cell of a table: its blocks, and what it spans."""

    first: int
    end: int
    head: bool
    across: int
    down: int


class HtmlTable:
    """A table while it is read.

    Args:
        node: number of its element.
        first: number of its first block.
        attributes: attributes of its element.
        item: list item around it; None outside of lists.
    """

    def __init__(self, node: int, first: int, attributes: Mapping[str, str], item: ListItem | None) -> None:
        self.node, self.first, self.item = node, first, item
        self.caption = ""
        self.holds_table = False
        self._layout = attributes.get("role", "") in _LAYOUT_ROLES
        self._data = bool(_DATA.search(attributes.get("class", "").lower())) or attributes.get("role") in (
            "table",
            "grid",
        )
        self._rows: list[list[HtmlCell]] = []

    def start_row(self) -> None:
        self._rows.append([])

    def start_cell(self, tag: str, attributes: Mapping[str, str], first: int) -> HtmlCell:
        if not self._rows:
            self._rows.append([])
        cell = HtmlCell(first, first, tag == "th", _span(attributes, "colspan"), _span(attributes, "rowspan"))
        self._rows[-1].append(cell)
        return cell

    @property
    def says_data(self) -> bool:
        """Whether its markup says that it is one of data: by its class or role, a caption, or cells that are heads."""
        return self._data or bool(self.caption) or any(cell.head for row in self._rows for cell in row)

    def rows_of_data(self, blocks: Sequence[HtmlBlock]) -> str | None:
        """Return the table as Markdown; None if it lays out the page, or holds blocks that do not fit in a cell."""
        rows = [row for row in self._rows if row]
        cells = [cell for row in rows for cell in row]
        if self._layout or self.holds_table or len(rows) < 2 or max(map(len, rows)) < 2:
            return None
        inner = blocks[self.first :]
        data = self.says_data
        if any((block.kind == CODE and "\n" in block.text) or (block.kind == HEADING and not data) for block in inner):
            return None
        if sum(block.size for block in inner) > (_LONG_CELL_OF_DATA if data else _LONG_CELL) * len(cells):
            return None
        if not data and (len({sum(cell.across for cell in row) for row in rows}) > 1 or _is_layout(rows, inner)):
            return None
        grid = _grid(rows, blocks)
        return None if grid is None else in_markdown(grid)


def _is_layout(rows: Sequence[Sequence[HtmlCell]], inner: Sequence[HtmlBlock]) -> bool:
    """Return whether a table without heads is a layout: it has empty cells, mostly links, or many blocks a cell."""
    cells = sum(map(len, rows))
    linked = sum(block.linked for block in inner)
    return len(inner) > 2 * cells or linked * 2 > sum(block.size for block in inner) or len(inner) * 2 < cells


def _grid(rows: Sequence[Sequence[HtmlCell]], blocks: Sequence[HtmlBlock]) -> list[list[str]] | None:
    """Return the texts by row and column, a span at its first place; None if spans make the grid too large."""
    most = _PLACES + _PLACES_A_CELL * sum(map(len, rows))
    grid: list[list[str]] = []
    below: dict[int, int] = {}  # for a column, how many more rows are taken from above
    places = 0
    for row in rows:
        line: list[str] = []
        taken, below = below, {column: left - 1 for column, left in below.items() if left > 1}
        for cell in row:
            while len(line) in taken:
                line.append("")
            places += cell.across
            if places + len(line) > most:
                return None
            if cell.down > 1:
                below.update(dict.fromkeys(range(len(line), len(line) + cell.across), cell.down - 1))
            line += [_text(blocks[cell.first : cell.end]), *[""] * (cell.across - 1)]
        while len(line) in taken:
            line.append("")
        places += len(line)
        grid.append(line)
    width = max(map(len, grid))
    if width * len(grid) > most:
        return None
    return [[*line, *[""] * (width - len(line))] for line in grid]


def _text(blocks: Sequence[HtmlBlock]) -> str:
    return " ".join(f"${block.text}$" if block.kind == FORMULA else block.text.replace("\n", " ") for block in blocks)


def in_markdown(grid: Sequence[Sequence[str]]) -> str:
    r"""Return a table as Markdown, whose first row is its head.

    Examples:
        >>> print(in_markdown([["a", "b|c"], ["1", ""]]))
        | a | b\|c |
        | --- | --- |
        | 1 |  |
    """
    lines = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in grid]
    return "\n".join([lines[0], "|" + " --- |" * len(grid[0]), *lines[1:]])


def _span(attributes: Mapping[str, str], name: str) -> int:
    text = attributes.get(name, "1").strip()
    return max(1, min(int(text), _LARGEST_SPAN)) if text.isascii() and text.isdigit() and len(text) < 10 else 1

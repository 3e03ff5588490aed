"""Tables: grids of rules, and text in columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.documents.pdf.contents import APART
from dcurate.documents.pdf.native import Characters
from dcurate.kernels.pdf.characters import BREAK_BEFORE, MADE_SPACE_BEFORE, SPACE_BEFORE
from dcurate.kernels.pdf.grids import assign_cells, find_grids, keep_words, make_grid
from dcurate.kernels.pdf.lines import BASE, GAP, LEAF, SEGMENTS, SIZE

#: Points within which places are the same.
_NEAR = 3.0
_MOST_CELLS = 20_000
#: Rows of a table without rules.
_ROWS = 3
#: Lines that a table without rules has at most.
_MOST_LINES = 500
#: Lines of a page that are looked at more than once. Of any after them, only some are taken for the first of a table.
_AGAIN = 5_000
#: Sizes of the font between two columns of a table without rules.
_COLUMN_GAP = 0.8

_BREAKS = SPACE_BEFORE | MADE_SPACE_BEFORE | BREAK_BEFORE

_MARKER = re.compile(r"[\W_]|\(?\w{1,3}[.)]?")


@dataclass(slots=True)
class PdfTable:
    """A table of a page.

    Args:
        box: from and to across, from and to downwards, in the page's frame.
        cells: text of each cell, by rows.
        header: whether the first row names the columns.
    """

    box: tuple[float, float, float, float]
    cells: list[list[str]]
    header: bool = True


@dataclass(slots=True)
class Grid:
    """A grid of rules.

    Args:
        across: places of the lines down, from the left.
        down: places of the lines across, from the top.
        roots: for each field of the grid the number of the cell that it belongs to, by rows; merged cells have one.
    """

    across: npt.NDArray[np.float64]
    down: npt.NDArray[np.float64]
    roots: npt.NDArray[np.int64]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """From and to across, from and to downwards."""
        return float(self.across[0]), float(self.across[-1]), float(self.down[0]), float(self.down[-1])


def ruled(rules: npt.NDArray[np.float64]) -> list[Grid]:
    """Find grids of at least two rows and two columns among the rules of a page."""
    if len(rules) < 5:
        return []
    across, down, groups = find_grids(rules)
    of_across, of_down = groups[: len(across)], groups[len(across) :]
    grids = []
    for group in set(of_down.tolist()):
        horizontals, verticals = across[of_across == group], down[of_down == group]
        if len(horizontals) < 2 or len(horizontals) + 2 * len(verticals) < 4:
            continue
        if len(horizontals) * len(verticals) > _MOST_CELLS:
            continue
        grid = Grid(*make_grid(horizontals, verticals, _NEAR))
        rows, columns = grid.roots.shape
        if rows >= 2 and columns >= 2 and rows * columns <= _MOST_CELLS:
            grids.append(grid)
    grids.sort(key=lambda grid: (grid.down[0], grid.across[0]))
    return [grid for grid in grids if not _inside_another(grid, grids)]


def _inside_another(grid: Grid, grids: list[Grid]) -> bool:
    a, b, c, d = grid.box
    return any(
        candidate is not grid and o[0] - 1 <= a and b <= o[1] + 1 and o[2] - 1 <= c and d <= o[3] + 1
        for candidate in grids
        if (o := candidate.box)
    )


def cells_of(characters: Characters, visible: npt.NDArray[np.uint8], grids: list[Grid]) -> npt.NDArray[np.int32]:
    """The cell of each character, over all grids of a page, from 1; 0 outside. A word is where it begins."""
    cells = np.zeros(len(characters.places), np.int32)
    begin = 1
    for grid in grids:
        assign_cells(characters.places, visible, grid.across, grid.down, grid.roots, begin, cells)
        begin += grid.roots.size
    keep_words(characters.places, characters.flags, _BREAKS, cells)
    return cells


def filled(grids: list[Grid], texts: dict[int, str]) -> list[PdfTable | None]:
    """Tables of grids, from the text of each cell by its number; None for a grid that is no table."""
    tables: list[PdfTable | None] = []
    begin = 1
    for grid in grids:
        cells = [
            [
                texts.get(begin + root, "") if root == row * len(line) + column else ""
                for column, root in enumerate(line)
            ]
            for row, line in enumerate(grid.roots.tolist())
        ]
        begin += grid.roots.size
        rows = [row for row in cells if any(row)]
        columns = [column for column in range(len(cells[0])) if any(row[column] for row in rows)]
        if len(rows) >= 2 and len(columns) >= 2:
            tables.append(PdfTable(grid.box, [[row[column] for column in columns] for row in rows]))
        else:
            tables.append(None)
    return tables


def aligned(
    lines: list[str],
    table: npt.NDArray[np.float32],
    parts: npt.NDArray[np.float32],
    texts: list[str],
) -> list[tuple[int, int, PdfTable]]:
    """Find tables without rules among the lines of a page.

    Args:
        lines: text of each line.
        table: table of the lines; see `dcurate.kernels.pdf.lines`.
        parts: for each segment in the order of the lines: its line, from and to across.
        texts: text of each segment.

    Returns:
        First and last line, and the table.
    """
    if (table[:, SEGMENTS] > 1).sum() < _ROWS - 1:
        return []
    of_line: dict[int, list[int]] = {}
    for at, line in enumerate(parts[:, 0].astype(np.int64).tolist()):
        of_line.setdefault(line, []).append(at)
    rows: list[Any] = table[:, [SEGMENTS, LEAF, GAP, BASE, SIZE]].tolist()
    tables = []
    line = looked_at = 0
    while line < len(rows):
        if rows[line][0] < 2 or not _COLUMN_GAP <= rows[line][2] < APART:
            line += 1
            continue
        stop = _run(rows, lines, parts, of_line, line)
        made = _table(range(line, stop + 1), parts, of_line, texts, table) if stop - line + 1 >= _ROWS else None
        if made:
            tables.append((line, stop, made))
            line = stop + 1
        else:
            looked_at += stop - line + 1
            line += 1 if looked_at < _AGAIN else max(1, (stop - line) // 4)
    return tables


def _columns(spans: list[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Places that spans cover, where they are apart by a gap."""
    columns: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        if columns and start < columns[-1][1] + gap:
            columns[-1] = columns[-1][0], max(columns[-1][1], stop)
        else:
            columns.append((start, stop))
    return columns


def _run(rows: list[Any], lines: list[str], parts: Any, of_line: dict[int, list[int]], first: int) -> int:
    """The last line down to which the columns of the first stay apart."""
    size = rows[first][4]
    spans: list[tuple[float, float]] = []
    last, line = first, first
    columns = 0
    while line < min(len(rows), first + _MOST_LINES):
        count, leaf, _, base, _ = rows[line]
        if leaf != rows[first][1] or rows[line][2] == APART:
            break
        if line > first and base - rows[line - 1][3] > 3.2 * size:
            break
        mine = [(float(parts[at, 1]), float(parts[at, 2])) for at in of_line.get(line, ())]
        now = _columns([*spans, *mine], _COLUMN_GAP * size)
        if len(now) < max(2, columns) or (count > 1 and _crowded(mine, now)):
            break
        spans, columns = now, max(columns, len(now)) if line - first < 2 else columns
        if count > 1:
            last = line
        elif line - last >= 2:
            break
        line += 1
    # A line of one cell may end the table, but only one at the usual distance in a column of it.
    return last


def _crowded(mine: list[tuple[float, float]], columns: list[tuple[float, float]]) -> bool:
    """Whether most parts of a line share a column."""
    used = {
        next(at for at, column in enumerate(columns) if column[0] - 0.1 <= start <= column[1] + 0.1)
        for start, _ in mine
    }
    return len(used) < 2


def _table(
    lines: range, parts: Any, of_line: dict[int, list[int]], texts: list[str], table: npt.NDArray[np.float32]
) -> PdfTable | None:
    size = float(np.median(table[lines.start : lines.stop, SIZE]))
    mine = [at for line in lines for at in of_line.get(line, ())]
    columns = _columns([(float(parts[at, 1]), float(parts[at, 2])) for at in mine], _COLUMN_GAP * size)
    cells = []
    for line in lines:
        row = [""] * len(columns)
        for at in of_line.get(line, ()):
            start = float(parts[at, 1])
            column = next(number for number, span in enumerate(columns) if span[0] - 0.1 <= start <= span[1] + 0.1)
            row[column] = f"{row[column]} {texts[at]}".strip()
        cells.append(row)
    several = sum(sum(map(bool, row)) > 1 for row in cells)
    if several < max(_ROWS - 1, 0.6 * len(cells)) or all(_MARKER.fullmatch(row[0]) for row in cells if row[0]):
        return None
    bases = table[lines.start : lines.stop, BASE]
    box = columns[0][0], columns[-1][1], float(bases[0]) - size, float(bases[-1]) + 0.3 * size
    return PdfTable(box, cells)

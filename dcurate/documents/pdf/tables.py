"""Tables: grids of rules, and text in columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.documents.pdf.native import Characters
from dcurate.kernels.pdf.characters import BREAK_BEFORE, MADE_SPACE_BEFORE, SPACE_BEFORE
from dcurate.kernels.pdf.grids import find_grids
from dcurate.kernels.pdf.lines import BASE, GAP, LEAF, SEGMENTS, SIZE

#: Points within which places are the same.
_NEAR = 3.0
_MOST_CELLS = 20_000
#: Rows of a table without rules.
_ROWS = 3
#: Sizes of the font between two columns of a table without rules.
_COLUMN_GAP = 0.8

_BREAKS = SPACE_BEFORE | MADE_SPACE_BEFORE | BREAK_BEFORE

_MARKER = re.compile(r"[\W_]|\(?\w{1,3}[.)]?")
_LEADER = re.compile(r"(?:\. ?){4,}|…{2,}|·{4,}")


@dataclass(slots=True)
class Table:
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
    grids = []
    of_across, of_down = groups[: len(across)], groups[len(across) :]
    for group in np.unique(of_down):
        mine, others = across[of_across == group], down[of_down == group]
        if len(mine) < 2 or len(others) < 1:
            continue
        xs = _places(np.concatenate([others[:, 2], mine[:, 0], mine[:, 1]]))
        ys = _places(np.concatenate([mine[:, 2], others[:, 0], others[:, 1]]))
        rows, columns = len(ys) - 1, len(xs) - 1
        if rows < 2 or columns < 2 or rows * columns > _MOST_CELLS:
            continue
        grids.append(Grid(xs, ys, _roots(xs, ys, mine, others)))
    return [grid for grid in grids if len(np.unique(grid.roots)) >= 4 and not _inside_another(grid, grids)]


def _places(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values without those that are nearly the same."""
    ordered = np.sort(values)
    apart: npt.NDArray[np.float64] = ordered[np.concatenate([[True], np.diff(ordered) > _NEAR])]
    return apart


def _inside_another(grid: Grid, grids: list[Grid]) -> bool:
    a, b, c, d = grid.box
    return any(
        other is not grid and o[0] - 1 <= a and b <= o[1] + 1 and o[2] - 1 <= c and d <= o[3] + 1
        for other in grids
        if (o := other.box)
    )


def _roots(
    xs: npt.NDArray[np.float64],
    ys: npt.NDArray[np.float64],
    across: npt.NDArray[np.float64],
    down: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """Join fields that no rule parts."""
    rows, columns = len(ys) - 1, len(xs) - 1
    middle_x, middle_y = (xs[:-1] + xs[1:]) / 2, (ys[:-1] + ys[1:]) / 2
    below = np.zeros((rows + 1, columns), np.bool_)
    beside = np.zeros((rows, columns + 1), np.bool_)
    for start, stop, place in across.tolist():
        below[np.abs(ys - place).argmin(), (middle_x > start) & (middle_x < stop)] = True
    for start, stop, place in down.tolist():
        beside[(middle_y > start) & (middle_y < stop), np.abs(xs - place).argmin()] = True
    roots = np.arange(rows * columns).reshape(rows, columns)
    for row in range(rows):
        for column in range(columns):
            if column and not beside[row, column]:
                roots[row, column] = roots[row, column - 1]
            elif row and not below[row, column]:
                roots[row, column] = roots[row - 1, column]
    return roots


def cells_of(characters: Characters, visible: npt.NDArray[np.uint8], grids: list[Grid]) -> npt.NDArray[np.int32]:
    """The cell of each character, over all grids of a page, from 1; 0 outside. A word is where it begins."""
    places = characters.places
    found = np.zeros(len(places), np.int32)
    middle = (places[:, 0] + places[:, 1]) / 2
    height = places[:, 2] - 0.3 * places[:, 3]
    begin = 1
    for grid in grids:
        left, right, top, bottom = grid.box
        inside = np.flatnonzero((middle > left) & (middle < right) & (height > top) & (height < bottom) & (visible > 0))
        row = np.searchsorted(grid.down, height[inside]) - 1
        column = np.searchsorted(grid.across, middle[inside]) - 1
        found[inside] = begin + grid.roots[row, column]
        begin += grid.roots.size
    if len(found):
        goes_on = (characters.flags[1:] & _BREAKS == 0) & (np.abs(np.diff(places[:, 2])) < 0.1 * places[1:, 3])
        goes_on &= np.abs(places[1:, 0] - places[:-1, 1]) < 0.3 * places[1:, 3]
        goes_on &= (found[1:] > 0) & (found[:-1] > 0)
        starts = np.maximum.accumulate(np.where(np.concatenate([[True], ~goes_on]), np.arange(len(found)), 0))
        found = found[starts]
    return found


def filled(grids: list[Grid], texts: dict[int, str]) -> list[Table | None]:
    """Tables of grids, from the text of each cell by its number; None for a grid that is no table."""
    tables: list[Table | None] = []
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
            tables.append(Table(grid.box, [[row[column] for column in columns] for row in rows]))
        else:
            tables.append(None)
    return tables


def aligned(
    lines: list[str],
    table: npt.NDArray[np.float32],
    parts: npt.NDArray[np.float32],
    texts: list[str],
) -> list[tuple[int, int, Table]]:
    """Find tables without rules among the lines of a page.

    Args:
        lines: text of each line.
        table: of the lines; see `dcurate.kernels.pdf.lines`.
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
    found = []
    line = 0
    while line < len(rows):
        if rows[line][0] < 2 or rows[line][2] < _COLUMN_GAP or _LEADER.search(lines[line]):
            line += 1
            continue
        stop = _run(rows, lines, parts, of_line, line)
        made = _table(range(line, stop + 1), parts, of_line, texts, table) if stop - line + 1 >= _ROWS else None
        if made:
            found.append((line, stop, made))
            line = stop + 1
        else:
            line += 1
    return found


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
    while line < len(rows):
        count, leaf, _, base, _ = rows[line]
        if leaf != rows[first][1] or _LEADER.search(lines[line]):
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
) -> Table | None:
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
    return Table(box, cells)

"""One page: its characters read, turned upright, and put into lines in the order of reading."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pypdfium2 import raw

from dcurate.documents.pdf.contents import clean_contents, has_leaders
from dcurate.documents.pdf.forms import notes_of, with_notes
from dcurate.documents.pdf.links import links_of
from dcurate.documents.pdf.native import (
    Characters,
    Drawings,
    PageFrame,
    fonts_of,
    image_share,
    read_characters,
    read_drawings,
    seen,
)
from dcurate.documents.pdf.options import PdfOptions
from dcurate.documents.pdf.runs import TextRun, main_turn, runs_of
from dcurate.documents.pdf.tables import PdfTable, aligned, cells_of, filled, ruled
from dcurate.kernels.pdf import characters as of_characters
from dcurate.kernels.pdf import visible as of_visible
from dcurate.kernels.pdf.columns import find_order, order_cells
from dcurate.kernels.pdf.grids import frame as framed
from dcurate.kernels.pdf.lines import BASE, DIRECT, HYPHEN, LEAF, SEGMENTS, find_joints, make_lines
from dcurate.kernels.pdf.segments import find_line_numbers, find_segments

_NOTHING = np.zeros((0, 4), np.float64)
#: Points from which a line across parts what is above it from what is below, and how many of them count.
_LONG, _MOST_RULES = 60.0, 200
#: Points of the shorter side of a figure, and how many areas of a page are looked at.
_FIGURE, _MOST_FIGURES = 24.0, 1_000
#: What pdfium writes a box into.
_EDGES = [ctypes.c_float() for _ in range(4)]
_NO_CELLS = np.zeros(0, np.int32)


@dataclass(slots=True)
class PdfPage:
    """A page as lines.

    Args:
        number: from 0.
        width: width of the page as it is shown, in points.
        height: the same.
        rotate: degrees by which viewers turn it with the clock.
        frame: how it was turned so that most of its text is upright.
        signals: what the router asks for.
        lines: text of each line, in the order of reading.
        letters: code points of all lines.
        places: where each line begins and ends in ``letters``.
        table: table of the lines; see `dcurate.kernels.pdf.lines`.
        tables: by the line in whose place they stand.
        links: addresses that the page links to, with the box of each in points from the top left.
        figures: boxes of pictures, the same.
        dropped: for each line whether it is left out.
        sideways: the last of the lines, which run at right angles to the others or against them.
    """

    number: int
    width: float
    height: float
    rotate: int
    frame: PageFrame
    signals: dict[str, Any]
    lines: list[str]
    letters: npt.NDArray[np.uint32]
    places: npt.NDArray[np.int32]
    table: npt.NDArray[np.float32]
    tables: dict[int, PdfTable]
    links: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    dropped: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    sideways: list[SidewaysLines] = field(default_factory=list)

    @property
    def upright(self) -> int:
        """How many lines, from the first, run as most of the text."""
        return self.sideways[0].first if self.sideways else len(self.lines)


class SidewaysLines(NamedTuple):
    """Lines of a page that run at right angles to most of its text, or against it.

    Args:
        first: the first of them.
        stop: the line after the last.
        turn: quarter turns against the clock that they have on the page.
        top: the edge of the page above them, as it is for one who reads them; in the heights of the table of lines.
        bottom: the edge below them.
    """

    first: int
    stop: int
    turn: int
    top: float
    bottom: float


def read_page(document: Any, number: int, options: PdfOptions, form: Any = None) -> PdfPage:
    """Read a page of an open document.

    Args:
        document: pdfium's handle.
        number: from 0.
        options: options of the extraction.
        form: pdfium's handle of the document's forms; None if it has none.
    """
    page = raw.FPDF_LoadPage(document, number)
    if not page:
        return _unread(number)
    textpage = None
    try:
        textpage = raw.FPDFText_LoadPage(page)
        drawings = read_drawings(page, options.max_objects_per_page)
        if not textpage:
            return _unread(number)
        characters = read_characters(textpage, options.max_chars_per_page)
        notes, beyond = notes_of(page, form) if options.forms else ([], 0)
        if notes:
            characters = with_notes(characters, notes, main_turn(characters, raw.FPDFPage_GetRotation(page)))
        laid = lay_out(page, number, characters, drawings, options)
        laid.signals["fields_left_out"] = beyond
        if options.links:
            laid.links = links_of(document, page, _box(page, options.crop).edges)
        return laid
    finally:
        if textpage:
            raw.FPDFText_ClosePage(textpage)
        raw.FPDF_ClosePage(page)


def lay_out(page: Any, number: int, characters: Characters, drawings: Drawings, options: PdfOptions) -> PdfPage:
    """Put the characters of a page of pdfium into lines; they may come from elsewhere, such as OCR."""
    box = _box(page, options.crop)
    fonts, styles = fonts_of(characters)
    runs = runs_of(characters, box.edges)
    view = _view(runs[0].characters, drawings, box, runs[0].turn, styles)
    sideways: list[SidewaysLines] = []
    for run in runs[1:]:
        run_view = _view(run.characters, drawings, box, run.turn, styles)
        if run.sideways:
            view, lines = _with_sideways(view, run_view)
            sideways.extend(lines)
        else:
            view = _with_lines(view, run_view)
    made = PdfPage(
        number,
        float(raw.FPDF_GetPageWidthF(page)),
        float(raw.FPDF_GetPageHeightF(page)),
        90 * raw.FPDFPage_GetRotation(page),
        view.frame,
        {**_signals(characters, drawings, view, runs), "fonts": fonts},
        *view.layout,
    )
    made.figures = [] if made.signals["scanned"] else _figures(drawings, box.edges, number)
    made.signals["figures_left_out"] = max(0, int((drawings.areas[:, 5] == -1).sum()) - _MOST_FIGURES)
    made.dropped = np.zeros(len(made.lines), np.uint8)
    made.sideways = sideways
    return made


class OrderedLines(NamedTuple):
    """Lines in the order of reading; see `PdfPage`."""

    lines: list[str]
    letters: npt.NDArray[np.uint32]
    places: npt.NDArray[np.int32]
    table: npt.NDArray[np.float32]
    tables: dict[int, PdfTable]


class View(NamedTuple):
    """The text of a page that runs one way, its frame, the areas drawn in it, and what `seen` counts."""

    frame: PageFrame
    areas: npt.NDArray[np.float64]
    figures: npt.NDArray[np.int64]
    layout: OrderedLines


class PageBox(NamedTuple):
    """The part of a page that is read.

    Args:
        edges: left, bottom, right and top.
        cut: whether it is smaller than the page of the file.
    """

    edges: list[float]
    cut: bool = False


def _view(characters: Characters, drawings: Drawings, box: PageBox, turn: int, styles: npt.NDArray[np.uint8]) -> View:
    if turn == of_characters.UPRIGHT:  # lines of it run downwards, from the right, as those of text that is turned
        objects, turn = characters.objects.copy(), 3
        objects[objects[:, of_characters.TURN] == of_characters.UPRIGHT, of_characters.TURN] = turn
        characters = characters._replace(objects=objects)
    frame = PageFrame(turn, tuple(framed(np.array([box.edges]), turn)[0].tolist()), box.cut)
    areas = framed(drawings.areas, turn) if len(drawings.areas) else _NOTHING
    rules = framed(drawings.rules, turn) if len(drawings.rules) else _NOTHING
    visible, figures = seen(characters, drawings, frame, areas)
    return View(frame, areas, figures, _layout(characters, visible, rules, styles))


def _with_lines(view: View, added: View) -> View:
    """A view with the lines of another one after its own, as far from its ends as they are from those of theirs."""
    layout, more, table = view.layout, added.layout, added.layout.table.copy()
    if not len(table):
        return view
    (top, bottom), (low, high) = view.frame.box[2:], added.frame.box[2:]
    table[:, BASE] = top + (table[:, BASE] - low) * ((bottom - top) / max(high - low, 1.0))
    return view._replace(figures=view.figures + added.figures, layout=_joined(layout, more, table))


def _with_sideways(view: View, added: View) -> tuple[View, list[SidewaysLines]]:
    """A view with the lines of another one, which runs another way, after its own; and which they are.

    They are below all others, so that no word goes on from one way to the other. The figures stay: what is asked for
    by a router is that of most of the text.
    """
    layout, more, table = view.layout, added.layout, added.layout.table.copy()
    if not len(table):
        return view, []
    down = float(layout.table[:, BASE].max(initial=0) - min(0, table[:, BASE].min()))
    table[:, BASE] += down
    top, bottom = added.frame.box[2:]
    first, turn = len(layout.lines), added.frame.turn
    lines = SidewaysLines(first, first + len(more.lines), turn, top + down, bottom + down)
    return view._replace(layout=_joined(layout, more, table)), [lines]


def _joined(layout: OrderedLines, more: OrderedLines, table: npt.NDArray[np.float32]) -> OrderedLines:
    """Lines with further lines after them, whose table is given, in columns of their own."""
    table[:, LEAF] += layout.table[:, LEAF].max(initial=-1) + 1
    return OrderedLines(
        layout.lines + more.lines,
        np.concatenate([layout.letters, more.letters]),
        np.concatenate([layout.places, more.places + len(layout.letters)]),
        np.concatenate([layout.table, table]),
        layout.tables | {line + len(layout.lines): pdf_table for line, pdf_table in more.tables.items()},
    )


def _figures(drawings: Drawings, box: list[float], number: int) -> list[dict[str, Any]]:
    """Pictures that are no dots, lines or backgrounds."""
    left, bottom, right, top = box
    figures = []
    pictures = drawings.areas[drawings.areas[:, 5] == -1]
    for x0, y0, x1, y1, _, _ in pictures[:_MOST_FIGURES].tolist():
        wide, high = min(x1, right) - max(x0, left), min(y1, top) - max(y0, bottom)
        if min(wide, high) >= _FIGURE:
            figures.append(
                {"page": number + 1, "bbox": [round(v, 2) for v in (x0 - left, top - y1, x1 - left, top - y0)]}
            )
    return figures


def _layout(
    characters: Characters,
    visible: npt.NDArray[np.uint8],
    rules: npt.NDArray[np.float64],
    styles: npt.NDArray[np.uint8],
) -> OrderedLines:
    grids = ruled(rules)
    cells = cells_of(characters, visible, grids) if grids else _NO_CELLS
    codes = characters.codes
    kept, words, spans, boxes, rtl = find_segments(codes, characters.places, characters.flags, visible, cells)
    numbers = find_line_numbers(codes, kept, spans, boxes)
    if numbers.any():
        spans, boxes, rtl = spans[numbers == 0], boxes[numbers == 0], rtl[numbers == 0]
    sizes = spans[:, 1] - spans[:, 0]
    mirrored = bool(rtl.any()) and float((rtl * sizes).sum()) > 0.5 * float(sizes.sum())
    grid_tables: list[PdfTable | None] = []
    if grids:
        owner = cells[kept[spans[:, 0]]]
        inside = owner > 0
        within = spans[inside], boxes[inside], rtl[inside], owner[inside], mirrored, styles
        texts = _cell_texts(codes, kept, words, *within)
        grid_tables = filled(grids, texts)
        # What is inside a grid that is no table is text as any other.
        begin = 1
        for grid, table in zip(grids, grid_tables, strict=True):
            if table is None:
                inside &= (owner < begin) | (owner >= begin + grid.roots.size)
            begin += grid.roots.size
        spans, boxes, rtl = spans[~inside], boxes[~inside], rtl[~inside]
    placed = [table for table in grid_tables if table]
    count = len(spans)
    more = [[table.box[0], table.box[1], table.box[2] + 1, 10.0] for table in placed]
    if len(rules):
        more.extend(_long(rules, placed))
    if more:
        boxes = np.concatenate([boxes, np.array(more, np.float32)])
        spans = np.concatenate([spans, np.zeros((len(more), 2), np.int32)])
        rtl = np.concatenate([rtl, np.zeros(len(more), np.float32)])
    order, line_of, leaves = find_order(boxes, rtl, mirrored)
    letters, places, table, parts = make_lines(order, line_of, leaves, spans, kept, words, codes, boxes, rtl, styles)
    text = letters.tobytes().decode("utf-32-le", "replace")
    lines = [text[start:stop] for start, stop in places.tolist()]
    tables = {int(line_of[np.flatnonzero(order == count + at)[0]]): pdf_table for at, pdf_table in enumerate(placed)}
    if has_leaders(text):
        clean_contents(lines, table)
    several = table[:, SEGMENTS] > 1
    if (several[1:] & several[:-1]).any():
        extents = np.stack([line_of, boxes[order, 0], boxes[order, 1]], axis=1)[parts[:, 1] > parts[:, 0]]
        words_of = [text[start:stop] for start, stop in parts.tolist() if stop > start]
        for first, last, pdf_table in aligned(lines, table, extents, words_of):
            tables[first] = pdf_table
            for line in range(first, last + 1):
                lines[line] = ""
                places[line, 1] = places[line, 0]
    return OrderedLines(lines, letters, places, table, tables)


def _long(rules: npt.NDArray[np.float64], tables: list[PdfTable]) -> list[list[float]]:
    """Rules across that part what is above from what is below, as segments; none of tables."""
    chosen = (rules[:, 2] == rules[:, 3]) & (rules[:, 1] - rules[:, 0] >= _LONG)
    if not chosen.any():
        return []
    for table in tables:
        left, right, top, bottom = table.box
        chosen &= (
            (rules[:, 0] < left - 3) | (rules[:, 0] > right + 3) | (rules[:, 2] < top - 3) | (rules[:, 2] > bottom + 3)
        )
    return [[left, right, top, 10.0] for left, right, top, _ in rules[chosen][:_MOST_RULES].tolist()]


def _cell_texts(codes: Any, kept: Any, words: Any, *segments: Any) -> dict[int, str]:
    """The text of each cell by its number."""
    spans, boxes, rtl, owner, mirrored, styles = segments
    if not len(spans):
        return {}
    order, line_of, leaves = order_cells(boxes, owner, mirrored)
    letters, places, table, _ = make_lines(order, line_of, leaves, spans, kept, words, codes, boxes, rtl, styles)
    joints = find_joints(letters, places, table, np.zeros(len(places), np.uint8)).tolist()
    text = letters.tobytes().decode("utf-32-le", "replace")
    cell_of = dict(zip(line_of.tolist(), owner[order].tolist(), strict=True))
    cell_parts: dict[int, list[str]] = {}
    for line, (start, stop) in enumerate(places.tolist()):
        parts = cell_parts.setdefault(cell_of[line], [])
        if parts and joints[line] == HYPHEN:
            parts[-1] = parts[-1][:-1]
        elif parts and joints[line] != DIRECT:
            parts.append(" ")
        parts.append(text[start:stop])
    return {cell: "".join(parts) for cell, parts in cell_parts.items()}


def _box(page: Any, crop: bool) -> PageBox:
    """The part of a page that is read; a usual page where the file has no box."""
    media_box = _edges(raw.FPDFPage_GetMediaBox, page)
    crop_box = _edges(raw.FPDFPage_GetCropBox, page) if crop else None
    if media_box is None:
        size = [0.0, 0.0, float(raw.FPDF_GetPageWidthF(page)), float(raw.FPDF_GetPageHeightF(page))]
        return PageBox(crop_box or size, crop_box is not None)
    if crop_box is None:
        return PageBox(media_box)
    x0, y0, x1, y1 = (
        max(crop_box[0], media_box[0]),
        max(crop_box[1], media_box[1]),
        min(crop_box[2], media_box[2]),
        min(crop_box[3], media_box[3]),
    )
    shown = [x0, y0, x1, y1] if x0 < x1 and y0 < y1 else media_box
    return PageBox(shown, shown != media_box)


def _edges(read: Any, page: Any) -> list[float] | None:
    if not read(page, *_EDGES):
        return None
    x0, y0, x1, y1 = (edge.value for edge in _EDGES)
    return [min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)]


def _signals(
    characters: Characters,
    drawings: Drawings,
    view: View,
    runs: Sequence[TextRun],
) -> dict[str, Any]:
    """What a router asks for; shares are of the characters, or of the page's area."""
    figures = view.figures
    count = int(figures[of_visible.VISIBLE])
    everything = max(1, len(characters.codes))
    share = image_share(view.frame, view.areas, drawings.areas[:, 4:6])
    over = float(figures[of_visible.OVER_IMAGE]) / everything
    invisible = float(figures[of_visible.MODE_3]) / everything
    return {
        "characters": count,
        "characters_left_out": characters.left_out,
        "characters_turned": len(characters.codes) - sum(run.total for run in runs if not run.sideways),
        "characters_hidden": int(figures[of_visible.INVISIBLE]),
        "turned_left_out": len(characters.codes) - sum(run.total for run in runs),
        "drawings_left_out": int(drawings.left_out),
        "image_share": round(share, 4),
        "text_over_image": round(over, 4),
        "broken_share": round(float(figures[of_visible.BROKEN]) / everything, 4),
        "invisible_share": round(invisible, 4),
        "scanned": share >= 0.6 and (count < 100 or (over > 0.8 and invisible > 0.5)),
        **({"skew_degrees": runs[0].skew_degrees} if runs[0].skew_degrees else {}),
    }


def _unread(number: int) -> PdfPage:
    """A page that cannot be loaded."""
    signals = {
        "unread": True,
        "characters": 0,
        "characters_left_out": 0,
        "characters_turned": 0,
        "characters_hidden": 0,
        "drawings_left_out": 0,
        "image_share": 0.0,
        "text_over_image": 0.0,
        "broken_share": 0.0,
        "invisible_share": 0.0,
        "scanned": False,
        "fonts": [],
    }
    nothing = OrderedLines([], np.zeros(0, np.uint32), np.zeros((0, 2), np.int32), np.zeros((0, 10), np.float32), {})
    return PdfPage(number, 0.0, 0.0, 0, PageFrame(0, (0.0, 0.0, 0.0, 0.0)), signals, *nothing)

"""Lineage as a picture and a page, each one file without network access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from markupsafe import Markup

from dcurate.runs.lineages.result import DrawnNode, Lineage
from dcurate.ui.templating import render

#: Sizes in pixels: of a box, and of what is between boxes and between rows.
_WIDTH, _HEIGHT, _GAP, _BETWEEN = 262, 62, 18, 46
#: Boxes side by side, letters of a line, and nodes that are drawn at most.
_ROW, _LETTERS, _MOST = 4, 33, 200
_STYLE = """<style>
.lineage text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #606973; }
.lineage text.title { font-weight: 600; font-size: 12px; fill: #20262d; }
.lineage rect { fill: #ffffff; stroke: #c9c6bf; } .lineage rect.run { fill: #e6f2f0; stroke: #2f8f97; }
.lineage rect.source { stroke: #e07a3f; } .lineage rect.beside { stroke-dasharray: 4 3; }
.lineage path { fill: none; stroke: #84919e; stroke-width: 1.4; } .lineage marker path { fill: #84919e; stroke: none; }
@media (prefers-color-scheme: dark) {
.lineage text { fill: #9aa5af; } .lineage text.title { fill: #e3e6e9; }
.lineage rect { fill: #1c2024; stroke: #4a535b; } .lineage rect.run { fill: #1b3234; stroke: #7cc4c9; }
.lineage rect.source { stroke: #f2a67e; }
}
</style>"""


def lineage_svg(lineage: Lineage) -> Markup:
    """Draw the runs and what they read and wrote, sources at the top; colours follow the theme of the viewer.

    Of more than 200 runs and inputs those nearest to the output are drawn.
    """
    nodes = dict(list(lineage.nodes().items())[:_MOST])
    edges = [(start, end) for start, end in lineage.edges() if start in nodes and end in nodes]
    rows = list(_rows(_depths(lineage.output, list(nodes), edges)))
    width = max(map(len, rows)) * (_WIDTH + _GAP) + _GAP
    height = len(rows) * (_HEIGHT + _BETWEEN) - _BETWEEN + 2 * _GAP
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for place, name in enumerate(row):
            places[name] = (left + place * (_WIDTH + _GAP), _GAP + number * (_HEIGHT + _BETWEEN))
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    lines = [_edge(places[start], places[end]) for start, end in edges]
    boxes = [_box(nodes[name], places[name]) for name in nodes]
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg class="lineage" xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="lineage">'
    return Markup("".join([head, _STYLE, arrow, *lines, *boxes, "</svg>"]))


def lineage_page(lineage: Lineage) -> str:
    """Write the lineage as a self-contained HTML page."""
    return render("lineage.html", lineage=lineage, picture=lineage_svg(lineage), most=_MOST)


def _depths(output: str, names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How far each node is from the output, by the longest way; of a cycle the edge that closes it does not count."""
    before: dict[str, list[str]] = {}
    for start, end in edges:
        before.setdefault(end, []).append(start)
    order: list[str] = []  # each node before those that lead to it, once reversed
    state: dict[str, bool] = {}  # False while its own are visited
    ways: list[tuple[str, str]] = []
    stack: list[tuple[str, Iterator[str]]] = [(output, iter(before.get(output, ())))]
    state[output] = False
    while stack:
        name, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            state[name] = True
            order.append(name)
            stack.pop()
        elif state.get(following) is not False:
            ways.append((name, following))
            if following not in state:
                state[following] = False
                stack.append((following, iter(before.get(following, ()))))
    depths = dict.fromkeys(names, 0)
    by_end: dict[str, list[str]] = {}
    for end, start in ways:
        by_end.setdefault(end, []).append(start)
    for name in reversed(order):
        for start in by_end.get(name, ()):
            depths[start] = max(depths[start], depths[name] + 1)
    return depths


def _rows(depths: Mapping[str, int]) -> Iterator[list[str]]:
    """Names from the deepest on; long rows are cut."""
    for depth in range(max(depths.values()), -1, -1):
        row = [name for name, of_name in depths.items() if of_name == depth]
        for start in range(0, len(row), _ROW):
            yield row[start : start + _ROW]


def _box(node: DrawnNode, place: tuple[float, float]) -> str:
    x, y = place
    kind = node.kind if node.kind in ("run", "made", "source") else "beside"
    texts = [f'<text class="title" x="{x + 12:g}" y="{y + 21:g}">{escape(_end_of(node.title))}</text>']
    for number, line in enumerate((node.kind, *node.lines) if kind == "beside" else node.lines):
        texts.append(f'<text x="{x + 12:g}" y="{y + 37 + 15 * number:g}">{escape(_end_of(line, _LETTERS + 4))}</text>')
    corner = 12 if kind == "run" else 3
    rectangle = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="{corner}"/>'
    return f"<g><title>{escape(node.title)}</title>{rectangle}{''.join(texts)}</g>"


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1, x2, y2 = start[0] + _WIDTH / 2, start[1] + _HEIGHT, end[0] + _WIDTH / 2, end[1]
    bend = _BETWEEN / 2 if y2 > y1 else _BETWEEN
    return (
        f'<path d="M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}" marker-end="url(#arrow)"/>'
    )


def _end_of(text: str, most: int = _LETTERS) -> str:
    """A text, without its beginning where it is too long: the end of a path says what it is.

    Examples:
        >>> _end_of("s3://bucket/corpora/2026/web", 14)
        '…pora/2026/web'
    """
    return text if len(text) <= most else f"…{text[1 - most :]}"

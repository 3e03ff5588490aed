"""PPTX to blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from dcurate.documents.office.blocks import Blocks, check_grid, document
from dcurate.documents.office.package import (
    Package,
    Relations,
    attribute,
    attribute_of_relation,
    core_properties,
    linked_xml,
    local,
    main_part,
    relationships,
    seen,
)
from dcurate.isolate.errors import MediaError

_TITLES = {"title", "ctrTitle"}
#: Placeholders that repeat on every slide.
_MARGINS = {"ftr", "hdr", "sldNum", "dt"}
_LISTS = {"body", "obj", ""}


def extract_pptx(package: Package, max_characters: int = 100_000_000, notes: bool = True) -> dict[str, Any]:
    """The text of a PPTX, slide by slide: titles, lists, tables, diagrams and speaker notes.

    Hidden slides are left out. Footers, dates and slide numbers are listed by themselves. Shapes are read in the order
    of the file, which screen readers use, too, but the title comes first.

    Args:
        package: the file.
        max_characters: the file is refused when its text is longer.
        notes: whether to add the speaker notes of each slide.

    Raises:
        MediaError: "damaged", "too much text".
    """
    main = main_part(package, "ppt/presentation.xml")
    parts = relationships(package, main)
    root = package.xml(main)
    blocks = Blocks(max_characters)
    margins: dict[str, None] = {}
    slides = [attribute_of_relation(element) for element in root.iter() if local(element) == "sldId"]
    if not slides and not parts:
        raise MediaError("damaged", f"{main} names no slides")
    first = None
    for relation in slides:
        slide = package.part("slides", partial(linked_xml, package, main, parts, relation))
        if slide is not None and slide.get("show") not in ("0", "false"):
            target = parts[relation][1]
            blocks.page()
            title = _slide(package, target, slide, blocks, margins)
            first = first or title
            if notes:
                _speaker_notes(package, target, blocks)
    properties = core_properties(package)
    if properties.get("title") in (None, "PowerPoint Presentation"):
        properties["title"] = first or ""
    return document("pptx", blocks, headers_footers=list(margins), **properties)


def _slide(package: Package, part: str, slide: Any, blocks: Blocks, margins: dict[str, None]) -> str:
    links = relationships(package, part)
    shapes = list(_shapes(slide))
    titles = [shape for shape in shapes if _placeholder(shape) in _TITLES]
    title = ""
    for shape in titles:
        text, markdown = _lines(shape, links, blocks)
        title = title or text
        blocks.heading(2 if blocks.begun else 1, text, markdown)
    for shape in shapes:
        kind = _placeholder(shape)
        if kind in _MARGINS:
            text = " ".join(_lines(shape, links, blocks)[0].split())
            if text and not text.isdigit():
                margins.setdefault(text)
        elif kind not in _TITLES:
            _shape(package, part, shape, links, blocks)
    return title


def _speaker_notes(package: Package, part: str, blocks: Blocks) -> None:
    links = relationships(package, part)
    for relation, (kind, *_) in links.items():
        if kind != "notesSlide":
            continue
        root = package.part("parts", partial(linked_xml, package, part, links, relation))
        for shape in _shapes(root) if root is not None else ():
            if _placeholder(shape) == "body":
                blocks.paragraph(_lines(shape, {}, blocks)[0])


def _shapes(root: Any) -> Iterator[Any]:
    """Text shapes and frames of a slide, also within groups."""
    stack = [root]
    while stack:
        element = stack.pop()
        if local(element) in ("sp", "graphicFrame"):
            yield element
        elif local(element) not in ("Fallback", "extLst"):
            stack.extend(reversed(element))


def _placeholder(shape: Any) -> str | None:
    """The kind of placeholder that a shape is; None if it is none."""
    for element in shape.iter():
        if local(element) == "ph":
            return attribute(element, "type") or ""
        if local(element) in ("txBody", "tbl"):
            return None
    return None


def _shape(package: Package, part: str, shape: Any, links: Relations, blocks: Blocks) -> None:
    table = next((element for element in seen(shape) if local(element) == "tbl"), None)
    if table is not None:
        rows = []
        for row in table:
            if local(row) == "tr":
                cells = [cell for cell in row if local(cell) == "tc"]
                rows.append(
                    [" ".join(_paragraph(paragraph, {}, None)[0] for paragraph in _paragraphs(cell)) for cell in cells]
                )
        blocks.table(rows)
        return
    for element in seen(shape):
        if is_drawing(element):
            add_drawing(package, part, element, links, blocks)
            return
    kind = _placeholder(shape)
    for paragraph in _paragraphs(shape):
        text, markdown = _paragraph(paragraph, links, blocks)
        properties = next((child for child in paragraph if local(child) == "pPr"), None)
        level, bullet = _bullet(properties)
        if bullet or (bullet is None and kind in _LISTS):
            blocks.item(text, markdown, level)
        else:
            blocks.paragraph(text, markdown)


def _bullet(properties: Any) -> tuple[int, bool | None]:
    """The level of a paragraph, and whether it has a bullet; None if the layout decides."""
    if properties is None:
        return 0, None
    level = properties.get("lvl", "0")
    names = {local(child) for child in properties}
    bullet = False if "buNone" in names else True if names & {"buChar", "buAutoNum", "buBlip"} else None
    return (int(level) if level.isascii() and level.isdigit() and len(level) < 3 else 0), bullet


def is_drawing(element: Any) -> bool:
    """Whether an element names a diagram (SmartArt) or a chart, whose text is in a part of its own."""
    return local(element) == "relIds" or (local(element) == "chart" and len(element) == 0)


def add_drawing(package: Package, part: str, element: Any, links: Relations, blocks: Blocks) -> None:
    """Add the texts of a diagram as a list, or the numbers of a chart as a table; see `is_drawing`.

    Args:
        package: the file.
        part: the one that has the element.
        element: names the drawing.
        links: relationships of the part.
        blocks: to add to.
    """
    diagram = local(element) == "relIds"
    relation = attribute(element, "dm") or "" if diagram else attribute_of_relation(element)
    root = package.part("parts", partial(linked_xml, package, part, links, relation))
    if diagram:
        _diagram(root, blocks)
    else:
        _chart(root, blocks)


def _diagram(root: Any | None, blocks: Blocks) -> None:
    for point in (element for element in root.iter() if local(element) == "pt") if root is not None else ():
        blocks.item(" ".join(_paragraph(paragraph, {}, None)[0] for paragraph in _paragraphs(point)))


def shape_text(shape: Any) -> str:
    """The text of a shape of DrawingML, a line for each paragraph."""
    return _lines(shape, {}, None)[0]


def _chart(root: Any | None, blocks: Blocks) -> None:
    """The numbers of a chart as a table: categories down, series across."""
    if root is None:
        return
    for title in (element for element in root.iter() if local(element) == "title"):
        blocks.paragraph(" ".join(_paragraph(paragraph, {}, None)[0] for paragraph in _paragraphs(title)))
        break
    columns: list[tuple[str, dict[int, str]]] = []
    names: dict[int, str] = {}
    for series in (element for element in root.iter() if local(element) == "ser"):
        parts = {local(child): _points(child) for child in series}
        names.update(parts.get("cat", {}))
        columns.append((" ".join(parts.get("tx", {}).values()), parts.get("val", {})))
    if columns:
        places = sorted({place for _, values in columns for place in values} | set(names))
        check_grid(len(places), len(columns), sum(len(values) for _, values in columns))
        rows = [["", *(name for name, _ in columns)]]
        rows += [[names.get(place, ""), *(values.get(place, "") for _, values in columns)] for place in places]
        blocks.table(rows)


def _points(parent: Any) -> dict[int, str]:
    values = {}
    for point in (element for element in parent.iter() if local(element) == "pt"):
        value = next((child.text for child in point if local(child) == "v"), None)
        place = point.get("idx", "")
        if value and place.isascii() and place.isdigit() and len(place) < 9:
            values[int(place)] = value
    return values


def _paragraphs(shape: Any) -> Iterator[Any]:
    return (element for element in seen(shape) if local(element) == "p")


def _lines(shape: Any, links: Relations, blocks: Blocks | None) -> tuple[str, str]:
    lines = [_paragraph(paragraph, links, blocks) for paragraph in _paragraphs(shape)]
    return "\n".join(text for text, _ in lines).strip(), "\n".join(markdown for _, markdown in lines).strip()


def _paragraph(paragraph: Any, links: Relations, blocks: Blocks | None) -> tuple[str, str]:
    text, markdown = [], []
    for run in paragraph:
        name = local(run)
        if name == "br":
            piece = "\n"
        elif name in ("r", "fld"):
            piece = "".join(element.text or "" for element in run if local(element) == "t")
        else:  # formulas
            piece = "".join(element.text or "" for element in seen(run) if local(element) == "t")
        link = next((element for element in run.iter() if local(element) == "hlinkClick"), None)
        target = links.get(attribute_of_relation(link), ("", "", False)) if link is not None else ("", "", False)
        text.append(piece)
        if target[2] and piece.strip():
            markdown.append(f"[{piece.strip()}]({target[1]})")
            if blocks is not None:
                blocks.links.append({"text": piece.strip(), "target": target[1]})
        else:
            markdown.append(piece)
    return "".join(text), "".join(markdown)

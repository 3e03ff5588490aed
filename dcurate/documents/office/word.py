"""DOCX to blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from dcurate.core.foreign import whole_number
from dcurate.documents.office.blocks import Blocks, document
from dcurate.documents.office.package import (
    Package,
    attribute,
    core_properties,
    linked_xml,
    local,
    main_part,
    relationships,
    seen,
)
from dcurate.documents.office.slides import add_drawing, is_drawing
from dcurate.documents.office.symbols import symbol_of
from dcurate.isolate.errors import MediaError

_HEADING = re.compile(r"(?:heading|überschrift|titre|título|заголовок)\s*([1-9])", re.IGNORECASE)
_BULLETS = {"bullet", "none"}
#: Elements whose content is not part of the text: what was deleted, field codes, properties.
_SKIPPED = {
    "del",
    "moveFrom",
    "instrText",
    "delText",
    "delInstrText",
    "rPr",
    "pPr",
    "sdtPr",
    "Fallback",
    "fldData",
    "rt",
}
_BLOCKS = {"p", "tbl"}
#: Tables in tables and boxes in boxes that are followed.
_MAX_DEPTH = 20


def extract_docx(package: Package, max_characters: int = 100_000_000) -> dict[str, Any]:
    """The text of a DOCX: paragraphs, headings, lists, tables, links, footnotes, text boxes.

    Inserted text of tracked changes is kept, deleted and hidden text is not. Headers and footers are listed by
    themselves. Macros do not run: only XML is read.

    Raises:
        MediaError: "damaged", "too much text".
    """
    return _Word(package, main_part(package, "word/document.xml"), max_characters).extract()


class _Word:
    def __init__(self, package: Package, main: str, max_characters: int) -> None:
        self._package = package
        self._main = main
        self._blocks = Blocks(max_characters)
        self._max_characters = max_characters
        self._links = relationships(package, main)
        self._headings, self._style_lists, self._hidden = self._styles()
        self._numbered = self._numbering()
        self._counters: dict[tuple[str, int], int] = {}

    def extract(self) -> dict[str, Any]:
        root = self._package.xml(self._main)
        body = next((child for child in root if local(child) == "body"), None)
        if body is None:
            raise MediaError("damaged", f"{self._main} has no body")
        for element in _content(body):
            self._block(element)
        self._package.losses.add("embedded documents", sum(1 for _ in body.iter("{*}altChunk", "{*}subDoc")))
        self._notes()
        properties = core_properties(self._package)
        title = properties.pop("title", None) or self._first_title(body)
        return document("docx", self._blocks, title=title, headers_footers=self._margins(), **properties)

    def _block(self, element: Any, depth: int = 0) -> None:
        if local(element) == "tbl":
            self._table(element, depth)
            return
        text, markdown, boxes = self._inline(element)
        level = self._heading_level(element)
        place = self._list_place(element)
        if level:
            self._blocks.heading(level, text, markdown)
        elif place is not None and text.strip():
            list_id, depth_in_list = place
            number = self._next_number(list_id, depth_in_list)
            self._blocks.item(text, markdown, depth_in_list, number)
        else:
            self._blocks.paragraph(text, markdown)
        for box in boxes:
            if is_drawing(box):
                add_drawing(self._package, self._main, box, self._links, self._blocks)
                continue
            for inner in _content(box):
                if depth < _MAX_DEPTH:
                    self._block(inner, depth + 1)
                else:
                    for paragraph in _deep(inner, "p"):
                        self._blocks.paragraph(*self._inline(paragraph)[:2])

    def _table(self, table: Any, depth: int) -> None:
        rows = []
        for row in _named(table, "tr"):
            cells: list[str] = []
            for cell in _named(row, "tc"):
                properties = next((child for child in cell if local(child) == "tcPr"), None)
                span, merged = _span(properties)
                cells.append("" if merged else self._cell_text(cell))
                cells.extend([""] * (span - 1))
            rows.append(cells)
        filled = [cell for row in rows for cell in row if cell]
        if len(rows) > 1 or len(filled) != 1:
            self._blocks.table(rows)
        elif depth >= _MAX_DEPTH:
            self._blocks.paragraph(filled[0])
        else:  # a frame, not a table
            for element in _content(table):
                self._block(element, depth + 1)

    def _cell_text(self, cell: Any) -> str:
        """All text of a cell on one line, with the text of tables, boxes and drawings in it."""
        texts = []
        for paragraph in _deep(cell, "p"):
            text, _, boxes = self._inline(paragraph)
            texts.append(text.strip())
            for box in filter(is_drawing, boxes):
                inner = Blocks(self._max_characters)
                add_drawing(self._package, self._main, box, self._links, inner)
                texts.append(" ".join(inner.text().split()))
        return " ".join(filter(None, texts))

    def _inline(self, paragraph: Any) -> tuple[str, str, list[Any]]:
        """Text, Markdown and text boxes of a paragraph; without recursion, as elements may nest deeply."""
        text: list[str] = []
        markdown: list[str] = []
        boxes: list[Any] = []
        stack: list[Any] = list(reversed(paragraph))
        while stack:
            element = stack.pop()
            if isinstance(element, tuple):  # the end of a link
                at, at_markdown, target = element
                words = "".join(text[at:]).strip()
                if words and target:
                    shown = "".join(markdown[at_markdown:]).strip()
                    del markdown[at_markdown:]
                    markdown.append(f"[{shown}]({target})")
                    self._blocks.links.append({"text": words, "target": target})
                continue
            name = local(element)
            if name in _SKIPPED:
                continue
            if name == "txbxContent" or is_drawing(element):
                boxes.append(element)
            elif name == "hyperlink":
                stack.append((len(text), len(markdown), self._target(element)))
                stack.extend(reversed(element))
            elif name == "r" and self._is_hidden(element):
                continue
            elif name in ("t", "tab", "br", "cr", "noBreakHyphen", "sym", "footnoteReference", "endnoteReference"):
                piece, marked = self._piece(name, element)
                text.append(piece)
                markdown.append(marked)
            else:
                stack.extend(reversed(element))
        return "".join(text), "".join(markdown), boxes

    def _piece(self, name: str, element: Any) -> tuple[str, str]:
        if name.endswith("Reference"):
            number = attribute(element, "id") or ""
            kind = "" if name.startswith("foot") else "e"
            return "", f"[^{kind}{number}]"
        if name == "sym":
            symbol = symbol_of(attribute(element, "font") or "", attribute(element, "char") or "")
            return symbol, symbol
        fixed = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
        piece = fixed.get(name) or element.text or ""
        return piece, piece

    def _target(self, link: Any) -> str:
        kind, target, outside = self._links.get(attribute(link, "id") or "", ("", "", False))
        return target if outside and kind == "hyperlink" else ""

    def _is_hidden(self, run: Any) -> bool:
        properties = next((child for child in run if local(child) == "rPr"), None)
        for child in properties if properties is not None else ():
            if local(child) == "vanish":
                return attribute(child, "val") not in ("0", "false")
            if local(child) == "rStyle" and attribute(child, "val") in self._hidden:
                return True
        return False

    def _heading_level(self, paragraph: Any) -> int:
        for child in _properties(paragraph):
            level = whole_number(attribute(child, "val") or "9") if local(child) == "outlineLvl" else None
            if level is not None:
                return level + 1 if level < 9 else 0
        return self._headings.get(_style(paragraph), 0)

    def _list_place(self, paragraph: Any) -> tuple[str, int] | None:
        place = self._style_lists.get(_style(paragraph))
        for child in _properties(paragraph):
            if local(child) == "numPr":
                values = {local(setting): attribute(setting, "val") or "0" for setting in child}
                place = values.get("numId", place[0] if place else "0"), _whole(values.get("ilvl", "0"))
        return None if place is None or place[0] == "0" else place

    def _next_number(self, list_id: str, level: int) -> int | None:
        if not self._numbered.get((list_id, level), False):
            return None
        self._counters[list_id, level] = self._counters.get((list_id, level), 0) + 1
        for deeper in range(level + 1, 9):
            self._counters.pop((list_id, deeper), None)
        return self._counters[list_id, level]

    def _styles(self) -> tuple[dict[str, int], dict[str, tuple[str, int]], set[str]]:
        """Styles that are headings, with their level; of lists, with their place; and of hidden text."""
        headings: dict[str, int] = {}
        lists: dict[str, tuple[str, int]] = {}
        hidden: set[str] = set()
        based: dict[str, str] = {}
        root = self._package.optional_xml(self._part("styles", "word/styles.xml"))
        for style in root if root is not None else ():
            name = attribute(style, "styleId") or ""
            values = {local(element): attribute(element, "val") or "" for element in style.iter()}
            called = values.get("name", "")
            level = _named_level(called) or (_whole(values.get("outlineLvl", "9")) + 1) % 10
            if level:
                headings[name] = level
            if re.match(r"list (bullet|number)", called, re.IGNORECASE):
                lists[name] = (called.lower().split()[1], 0)
            if values.get("numId", "0") != "0":
                lists[name] = (values["numId"], 0)
            if "vanish" in values and values["vanish"] not in ("0", "false"):
                hidden.add(name)
            if "basedOn" in values:
                based[name] = values["basedOn"]
        for name in based:
            chain = _chain(based, name)
            headings.setdefault(name, next((headings[ancestor] for ancestor in chain if ancestor in headings), 0))
            place = next((lists[ancestor] for ancestor in chain if ancestor in lists), None)
            if place:
                lists.setdefault(name, place)
        return headings, lists, hidden

    def _numbering(self) -> dict[tuple[str, int], bool]:
        root = self._package.optional_xml(self._part("numbering", "word/numbering.xml"))
        kinds: dict[str, dict[int, bool]] = {}
        numbered = {("number", level): True for level in range(9)}
        for element in root if root is not None else ():
            if local(element) == "abstractNum":
                levels = kinds.setdefault(attribute(element, "abstractNumId") or "", {})
                for level in element:
                    if local(level) == "lvl":
                        form = next((attribute(child, "val") for child in level if local(child) == "numFmt"), "bullet")
                        levels[_whole(attribute(level, "ilvl") or "0")] = form not in _BULLETS
            elif local(element) == "num":
                abstract = next((attribute(child, "val") for child in element if local(child) == "abstractNumId"), "")
                for level, is_number in kinds.get(abstract or "", {}).items():
                    numbered[attribute(element, "numId") or "", level] = is_number
        return numbered

    def _part(self, kind: str, default: str) -> str:
        return next((target for name, target, _ in self._links.values() if name == kind), default)

    def _notes(self) -> None:
        for kind, mark in (("footnote", ""), ("endnote", "e")):
            part = self._part(f"{kind}s", "")
            if part:
                root = self._package.part("parts", partial(self._package.xml, part))
            else:
                root = self._package.optional_xml(f"word/{kind}s.xml")
            for note in root if root is not None else ():
                if local(note) == kind and attribute(note, "type") in (None, "normal"):
                    text = " ".join(self._inline(paragraph)[0] for paragraph in _deep(note, "p"))
                    self._blocks.note(mark + (attribute(note, "id") or ""), text)

    def _margins(self) -> list[str]:
        texts: list[str] = []
        for relation, (kind, *_) in self._links.items():
            if kind not in ("header", "footer"):
                continue
            root = self._package.part("parts", partial(linked_xml, self._package, self._main, self._links, relation))
            if root is not None:
                texts.extend(" ".join(self._inline(paragraph)[0].split()) for paragraph in _deep(root, "p"))
        return list(dict.fromkeys(text for text in texts if text))

    def _first_title(self, body: Any) -> str | None:
        for element in _content(body):
            if local(element) == "p" and self._headings.get(_style(element)) == 1:
                return " ".join(self._inline(element)[0].split()) or None
        return None


def _named_level(style: str) -> int:
    """The level of a heading by the name of its style; 0 for other styles."""
    match = _HEADING.match(style)
    return int(match[1]) if match else {"title": 1, "subtitle": 2}.get(style.lower(), 0)


def _chain(based: dict[str, str], name: str) -> list[str]:
    """The styles that a style is based on, nearest first."""
    chain: list[str] = []
    while name in based and len(chain) < 20:
        name = based[name]
        chain.append(name)
    return chain


def _content(parent: Any) -> Iterator[Any]:
    """Paragraphs and tables right below `parent`, also within content controls, insertions and custom XML."""
    stack = list(reversed(parent))
    while stack:
        element = stack.pop()
        name = local(element)
        if name in _BLOCKS:
            yield element
        elif name not in _SKIPPED and name not in ("tcPr", "sectPr"):
            stack.extend(reversed(element))


def _named(parent: Any, name: str) -> Iterator[Any]:
    """Elements of a name below `parent`, through content controls and insertions, not within each other."""
    stack = list(reversed(parent))
    while stack:
        element = stack.pop()
        if local(element) == name:
            yield element
        elif local(element) in ("sdt", "sdtContent", "ins", "customXml", "moveTo"):
            stack.extend(reversed(element))


def _deep(parent: Any, name: str) -> Iterator[Any]:
    return (element for element in seen(parent) if local(element) == name)


def _properties(paragraph: Any) -> Any:
    return next((child for child in paragraph if local(child) == "pPr"), ())


def _style(paragraph: Any) -> str:
    return next((attribute(child, "val") or "" for child in _properties(paragraph) if local(child) == "pStyle"), "")


def _span(properties: Any) -> tuple[int, bool]:
    span, merged = 1, False
    for child in properties if properties is not None else ():
        if local(child) == "gridSpan":
            span = min(max(_whole(attribute(child, "val") or "1"), 1), 100)
        elif local(child) == "vMerge":
            merged = attribute(child, "val") in (None, "continue")
    return span, merged


def _whole(value: str) -> int:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0

"""ODT, ODS and ODP to blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dcurate.core.foreign import whole_number
from dcurate.documents.losses import DocumentLosses
from dcurate.documents.office.blocks import Blocks, document
from dcurate.documents.office.package import Package, attribute, local
from dcurate.isolate.errors import MediaError

_SKIPPED = {
    "tracked-changes",
    "annotation",
    "annotation-end",
    "sequence-decls",
    "forms",
    "variable-decls",
    "index-source",
    "table-of-content-source",
    "ruby-text",
    "settings",
    "dde-connection-decls",
    "shapes",
    "title",
    "desc",
}
_SPACE = {"s": " ", "tab": "\t", "line-break": "\n"}
_MAX_DEPTH = 100
#: Rows and cells that a file repeats are written as often, at most.
_MAX_REPEATS = 1000


def extract_opendocument(package: Package, kind: str, max_characters: int = 100_000_000) -> dict[str, Any]:
    """The text of an OpenDocument file.

    Args:
        package: the file.
        kind: "odt", "ods" or "odp".
        max_characters: the file is refused when its text is longer.

    Raises:
        MediaError: "encrypted", "damaged", "external entities", "too much text".
    """
    manifest = package.optional_xml("META-INF/manifest.xml")
    if manifest is not None and any(local(element) == "encryption-data" for element in manifest.iter()):
        raise MediaError("encrypted", "the file needs a password")
    root = package.xml("content.xml")
    body = next((element for element in root.iter() if local(element) == "body"), None)
    if body is None or len(body) == 0:
        raise MediaError("damaged", "content.xml has no body")
    reader = _OpenDocument(Blocks(max_characters), _lists(root), package.losses)
    reader.walk(body[0])
    fields: dict[str, str] = {}
    meta = package.optional_xml("meta.xml")
    names = {"title": "title", "initial-creator": "author", "creator": "author", "language": "language"}
    for element in meta.iter() if meta is not None else ():
        if local(element) in names and (element.text or "").strip():
            fields.setdefault(names[local(element)], element.text.strip())
    fields["title"] = fields.get("title") or reader.title
    return document(kind, reader.blocks, headers_footers=_margins(package), **fields)


class _OpenDocument:
    def __init__(self, blocks: Blocks, numbered: set[tuple[str, int]], losses: DocumentLosses) -> None:
        self.blocks = blocks
        self._losses = losses
        self.title = ""
        self._numbered = numbered
        self._notes = 0

    def _paragraphs(self, parent: Any) -> None:
        """Add what is nested too deeply for its structure to be followed."""
        stack = [parent]
        while stack:
            element = stack.pop()
            if local(element) in ("p", "h"):
                self.blocks.paragraph(*self._inline(element))
            elif local(element) not in _SKIPPED:
                stack.extend(reversed(element))

    def walk(self, parent: Any, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            self._paragraphs(parent)
            return
        for element in parent:
            name = local(element)
            if name in _SKIPPED:
                continue
            if name == "h":
                text, markdown = self._inline(element)
                self.title = self.title or text.strip()
                self.blocks.heading(_level(element, "outline-level"), text, markdown)
            elif name == "p":
                self.blocks.paragraph(*self._inline(element))
            elif name == "list":
                self._list(element, 0, attribute(element, "style-name") or "", depth)
            elif name == "table":
                self._table(element, depth)
            elif name == "page" and local(parent) == "presentation":
                self.blocks.page()
                self._slide(element, depth)
            elif name == "notes":
                for box in _boxes(element):
                    self.walk(box, depth + 1)
            else:
                self.walk(element, depth + 1)

    def _slide(self, page: Any, depth: int) -> None:
        def is_title(frame: Any) -> bool:
            return local(frame) == "frame" and attribute(frame, "class") == "title"

        for frame in page:
            if is_title(frame):
                text, markdown = self._inline(frame)
                self.title = self.title or text.strip()
                self.blocks.heading(2, text, markdown)
        for frame in [element for element in page if not is_title(element)]:
            self.walk([frame] if local(frame) == "notes" else frame, depth + 1)

    def _list(self, element: Any, level: int, style: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            self._paragraphs(element)
            return
        number = 0
        for item in element:
            if local(item) not in ("list-item", "list-header"):
                continue
            for position, child in enumerate(item):
                name = local(child)
                if name == "list":
                    self._list(child, level + 1, attribute(child, "style-name") or style, depth + 1)
                elif name in ("p", "h") and position == 0:
                    text, markdown = self._inline(child)
                    if name == "h":
                        self.blocks.heading(_level(child, "outline-level"), text, markdown)
                    elif text.strip():
                        number += 1
                        place = number if (style, level + 1) in self._numbered else None
                        self.blocks.item(text, markdown, level, place)
                elif name == "p":
                    self.blocks.paragraph(*self._inline(child))

    def _table(self, table: Any, depth: int) -> None:
        if attribute(table, "display") == "false":
            return
        if depth <= 1 and local(table.getparent()) == "spreadsheet":
            self.blocks.page()
            self.blocks.heading(2, attribute(table, "name") or "")
        rows: list[list[str]] = []
        cells = 0
        for row in table.iter():
            if local(row) != "table-row" or _table_of(row) is not table:
                continue
            values: list[str] = []
            for cell in row:
                if local(cell) not in ("table-cell", "covered-table-cell"):
                    continue
                text = " ".join(
                    " ".join(self._inline(child)[0].split()) for child in cell if local(child) not in _SKIPPED
                )
                times, more = _repeats(cell, "number-columns-repeated", bool(text.strip()))
                self._losses.add("repeated cells", more, attribute(table, "name") or "")
                values.extend([text.strip()] * times)
            while values and not values[-1]:
                values.pop()
            if values:
                times, more = _repeats(row, "number-rows-repeated", True)
                self._losses.add("repeated rows", more, attribute(table, "name") or "")
                cells += times * len(values)
                if cells > 5_000_000:
                    raise MediaError("too many cells", "more than 5000000")
                rows.extend([values] * times)
        self.blocks.table(rows)
        for shapes in table:
            if local(shapes) == "shapes":  # text boxes outside of cells
                self.walk(shapes, depth + 1)

    def _inline(self, paragraph: Any) -> tuple[str, str]:
        text: list[str] = []
        markdown: list[str] = []
        stack: list[Any] = [paragraph]
        while stack:
            element = stack.pop()
            if isinstance(element, str):
                text.append(element)
                markdown.append(element)
                continue
            if isinstance(element, tuple):
                at, at_markdown, target = element
                words = "".join(text[at:]).strip()
                if words and target.startswith(("http://", "https://", "mailto:")):
                    shown = "".join(markdown[at_markdown:]).strip()
                    del markdown[at_markdown:]
                    markdown.append(f"[{shown}]({target})")
                    self.blocks.links.append({"text": words, "target": target})
                continue
            name = local(element)
            if element is not paragraph and element.tail:
                stack.append(element.tail)
            if name in _SKIPPED:
                continue
            if name == "note":
                self._note(element, markdown)
                continue
            if name in _SPACE:
                count = whole_number(attribute(element, "c"), 99_999)
                stack.append(_SPACE[name] * (1 if count is None else min(count, 100)))
                continue
            if name == "a":
                stack.append((len(text), len(markdown), attribute(element, "href") or ""))
            if name in ("p", "h") and element is not paragraph and text:
                text.append("\n")
                markdown.append("\n")
            stack.extend(reversed(element))
            if element.text:
                stack.append(element.text)
        return "".join(text), "".join(markdown)

    def _note(self, note: Any, markdown: list[str]) -> None:
        self._notes += 1
        body = next((child for child in note if local(child) == "note-body"), None)
        if body is not None:
            markdown.append(f"[^{self._notes}]")
            mark = str(self._notes)
            self.blocks.note(mark, " ".join(text for text in body.itertext()))


def _boxes(parent: Any) -> Iterator[Any]:
    """Text boxes below `parent`, not those within each other."""
    stack = list(reversed(parent))
    while stack:
        element = stack.pop()
        if local(element) == "text-box":
            yield element
        else:
            stack.extend(reversed(element))


def _table_of(row: Any) -> Any:
    parent = row.getparent()
    while parent is not None and local(parent) != "table":
        parent = parent.getparent()
    return parent


def _repeats(element: Any, name: str, filled: bool) -> tuple[int, int]:
    """How often a row or cell is written, and how many more times the file repeats it."""
    value = attribute(element, name) or "1"
    count = int(value) if value.isascii() and value.isdigit() and len(value) < 16 else 1
    if not filled:
        return min(count, 20_000), 0
    return min(count, _MAX_REPEATS), max(0, count - _MAX_REPEATS)


def _lists(root: Any) -> set[tuple[str, int]]:
    """Styles and levels of lists that are numbered."""
    numbered = set()
    for style in root.iter():
        if local(style) == "list-style":
            for level in style:
                if local(level) == "list-level-style-number" and attribute(level, "num-format"):
                    numbered.add((attribute(style, "name") or "", _level(level, "level")))
    return numbered


def _margins(package: Package) -> list[str]:
    root = package.optional_xml("styles.xml")
    margins: dict[str, None] = {}
    for element in root.iter() if root is not None else ():
        if local(element) in ("header", "footer", "header-left", "footer-left", "header-first", "footer-first"):
            text = " ".join(" ".join(element.itertext()).split())
            if text:
                margins.setdefault(text)
    return list(margins)


def _level(element: Any, name: str) -> int:
    """The level in an attribute; 1 if it is missing, or not a number of up to two digits."""
    level = whole_number(attribute(element, name), 99)
    return 1 if level is None else level

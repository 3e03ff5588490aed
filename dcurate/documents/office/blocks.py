"""Collect the blocks of a document, and write them as text and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from dcurate.isolate.errors import MediaError

_SPACES = re.compile(r"[^\S\n]+")
#: Cells of a table that may be empty, and how many more for each that is not.
_MOST_EMPTY, _EMPTY_A_CELL = 1_000_000, 50
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


class Blocks:
    r"""The blocks of a document in reading order, as text and as Markdown at once.

    Text parts blocks by an empty line, items of a list by a line break, cells of a table by a tab. Markdown has the
    same blocks with headings, lists, pipe tables and links.

    Args:
        max_characters: the document is refused when its text is longer.

    Examples:
        >>> blocks = Blocks()
        >>> blocks.heading(1, "Fish")
        >>> blocks.item("Cod")
        >>> blocks.item("Eel")
        >>> blocks.table([["Name", "kg"], ["Cod", "2"]])
        >>> blocks.text()
        'Fish\n\nCod\nEel\n\nName\tkg\nCod\t2'
        >>> print(blocks.markdown())
        # Fish
        <BLANKLINE>
        - Cod
        - Eel
        <BLANKLINE>
        | Name | kg |
        | --- | --- |
        | Cod | 2 |
    """

    def __init__(self, max_characters: int = 100_000_000) -> None:
        self._max_characters = max_characters
        self._characters = 0
        self._kinds: list[str] = []
        self._texts: list[str] = []
        self._markdowns: list[str] = []
        self._pages: list[int] = []
        self.links: list[dict[str, Any]] = []
        self.notes: list[tuple[str, str]] = []

    def page(self) -> None:
        """Begin the next page, slide, sheet or chapter."""
        self._pages.append(len(self._texts))

    @property
    def begun(self) -> bool:
        """Whether the first page has text."""
        return bool(self._texts) and (len(self._pages) < 2 or self._pages[1] > 0)

    def paragraph(self, text: str, markdown: str | None = None) -> None:
        """Add a paragraph; `markdown` is the same with links, and `text` if left out."""
        text = clean(text)
        if text:
            self._add("paragraph", text, text if markdown is None else clean(markdown))

    def heading(self, level: int, text: str, markdown: str | None = None) -> None:
        """Add a heading of `level` 1 to 6, on one line."""
        text = " ".join(clean(text).split())
        if text:
            line = text if markdown is None else " ".join(clean(markdown).split())
            self._add("heading", text, "#" * min(max(level, 1), 6) + " " + line)

    def item(self, text: str, markdown: str | None = None, level: int = 0, number: int | None = None) -> None:
        """Add an item of a list at the depth `level` from 0; with `number` it is numbered."""
        text = clean(text)
        if text:
            line = text if markdown is None else clean(markdown)
            mark = "- " if number is None else f"{number}. "
            indent = "  " * min(level, 8)
            self._add("item", text, indent + mark + line.replace("\n", "\n" + indent + " " * len(mark)))

    def code(self, text: str) -> None:
        """Add lines whose spaces matter."""
        text = _CONTROL.sub("", text).strip("\n")
        if text.strip():
            fence = "```" if "```" not in text else "~~~~"
            self._add("code", text, f"{fence}\n{text}\n{fence}")

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Add a table; its first row is the head. Empty rows and columns are left out.

        Raises:
            MediaError: "too many cells", see `check_grid`.
        """
        cells = [row for row in ([" ".join(clean(cell).split()) for cell in row] for row in rows) if any(row)]
        filled = sorted({column for row in cells for column, cell in enumerate(row) if cell})
        check_grid(len(cells), len(filled), sum(map(bool, chain.from_iterable(cells))))
        cells = [[row[column] if column < len(row) else "" for column in filled] for row in cells]
        if not cells:
            return
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
        lines.insert(1, "|" + " --- |" * len(filled))
        self._add("table", "\n".join("\t".join(row).rstrip("\t") for row in cells), "\n".join(lines))

    def note(self, mark: str, text: str) -> None:
        """Keep a footnote, which `end` puts last; text refers to it by `[^mark]`."""
        if clean(text):
            self.notes.append((mark, clean(text)))

    def end(self) -> None:
        """Add the footnotes that were kept."""
        for mark, text in self.notes:
            self._add("note", f"{mark} {text}", f"[^{mark}]: {text}")
        self.notes = []

    def text(self) -> str:
        """The text of all blocks."""
        return _joined(self._kinds, self._texts)

    def markdown(self) -> str:
        """All blocks as Markdown."""
        return _joined(self._kinds, self._markdowns)

    def page_spans(self) -> list[list[int]]:
        """Where each page lies in `text`: [start, stop] in UTF-8 bytes. A document without pages has one."""
        starts = self._pages or [0]
        if starts[0]:
            starts = [0, *starts]
        begins, at = [], 0
        for number, text in enumerate(self._texts):
            at += len(_separator(self._kinds, number))
            begins.append(at)
            at += len(text.encode())
        stops = [begin + len(text.encode()) for begin, text in zip(begins, self._texts, strict=True)]
        spans = []
        for first, last in zip(starts, [*starts[1:], len(self._texts)], strict=True):
            empty = stops[first - 1] if first else 0
            spans.append([begins[first], stops[last - 1]] if last > first else [empty, empty])
        return spans

    def _add(self, kind: str, text: str, markdown: str) -> None:
        self._characters += len(text)
        if self._characters > self._max_characters:
            raise MediaError("too much text", f"more than {self._max_characters} characters")
        self._kinds.append(kind)
        self._texts.append(text)
        self._markdowns.append(markdown)


def check_grid(rows: int, columns: int, filled: int) -> None:
    """Refuse a table of many cells of which nearly all are empty: to write it takes rows times columns.

    Raises:
        MediaError: "too many cells".
    """
    if rows * columns > _MOST_EMPTY + _EMPTY_A_CELL * filled:
        raise MediaError("too many cells", f"{rows:,} rows of {columns:,} columns, of which {filled:,} are not empty")


def _separator(kinds: Sequence[str], number: int) -> str:
    if not number:
        return ""
    return "\n" if kinds[number] in ("item", "note") and kinds[number - 1] == kinds[number] else "\n\n"


def _joined(kinds: Sequence[str], blocks: Sequence[str]) -> str:
    return "".join(_separator(kinds, number) + block for number, block in enumerate(blocks))


def clean(text: str) -> str:
    r"""Drop control characters, and the spaces around each line.

    Examples:
        >>> clean(" a\x00 \t b \n c ")
        'a b\nc'
    """
    text = _CONTROL.sub("", text).replace("\xa0", " ")
    return "\n".join(_SPACES.sub(" ", line).strip() for line in text.split("\n")).strip()


def document(kind: str, blocks: Blocks, **fields: Any) -> dict[str, Any]:
    """The dict that every extractor of this package returns."""
    blocks.end()
    spans = blocks.page_spans()
    return {
        "kind": kind,
        "text": blocks.text(),
        "markdown": blocks.markdown(),
        "page_spans": spans,
        "n_pages": len(spans),
        "title": None,
        "author": None,
        "language": None,
        "headers_footers": [],
        "links": blocks.links,
        **{name: value for name, value in fields.items() if value},
    }

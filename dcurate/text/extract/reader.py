"""Read a page into blocks of text, in one pass over the events of the parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from dcurate.text.extract import blocks as kinds
from dcurate.text.extract.blocks import HtmlBlock, HtmlPage, ListItem
from dcurate.text.extract.code_reader import CodeReader, code_language
from dcurate.text.extract.elements import HEADINGS, Start, starts_of
from dcurate.text.extract.footnotes import Footnotes, is_back_link, without_marks
from dcurate.text.extract.formulas import FormulaReader, of_image, undelimited
from dcurate.text.extract.hints import CODED, HIDDEN, MATH, OUT, TAGS, hints_of
from dcurate.text.extract.nesting import DEEPEST, TooDeepError
from dcurate.text.extract.tables import HtmlCell, HtmlTable
from dcurate.text.extract.writer import address_in_link, fence, shown_in_link

_BREAK = "\0"
_UNSEEN, _MARKED = OUT | HIDDEN, MATH | CODED
#: Characters of spaces and line breaks of LaTeX.
_BLANK = "\\ \t\r\n"
#: Actions at the end of an element, the last first. None is bound to a reader, so that no cycle keeps it and its page
#: until the garbage collector comes.
_Action = Callable[[Any], None]
_Actions = _Action | tuple[_Action, "_Actions"]


class _ElementReader(Protocol):
    """Reads an element with all that is in it, in place of the page reader."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None: ...

    def end(self, tag: str) -> None: ...

    def data(self, text: str) -> None: ...


class _NothingReader:
    """Reads an element that is left out."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        pass

    def end(self, tag: str) -> None:
        pass

    def data(self, text: str) -> None:
        pass


class _RawReader(_NothingReader):
    """Reads all text as it is."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def data(self, text: str) -> None:
        self.parts.append(text)

    @property
    def text(self) -> str:
        return "".join(self.parts)


_NOTHING = _NothingReader()


class PageReader:
    """Target of an lxml parser, which calls it for each start, end and text in order; makes the blocks of a page.

    Args:
        markdown: whether inline code is marked, as in Markdown.
        links: whether the addresses of links are kept, as in Markdown.
        images: whether alternative texts of images are kept.
    """

    __slots__ = (
        *("page", "_blocks", "_parents", "_node_hints", "_firsts", "_ends", "_markdown", "_links", "_images", "_parts"),
        *("_node", "_actions", "_within", "_within_depth", "_kind", "_level", "_link_from", "_linked", "_item"),
        *("_numbers", "_quotes", "_in_code", "_in_math", "_tables", "_code_languages", "_last_formula", "_footnotes"),
        *("_note", "_starts"),
    )

    _starts_of_class: ClassVar[dict[str, Start]]

    def __init__(self, markdown: bool = False, links: bool = False, images: bool = False) -> None:
        self._write_to(HtmlPage())
        self._markdown, self._links, self._images = markdown, links, images
        self._parts: list[str] = []
        self._node = -1
        #: Actions at the end of the open elements.
        self._actions: list[_Actions | None] = []
        #: Reader of the open element, if that has one of its own, and number of elements that are open in it.
        self._within: _ElementReader | None = None
        self._within_depth = 0
        self._kind, self._level = kinds.PARAGRAPH, 0
        self._link_from, self._linked = -1, 0
        self._item: ListItem | None = None
        self._numbers: list[int] = []
        self._quotes = 0
        self._in_code = self._in_math = False
        self._tables: list[HtmlTable] = []
        self._code_languages: list[str] = []
        self._last_formula = ""
        self._footnotes, self._note = Footnotes(), 0
        self._starts = self._starts_of_class

    def __init_subclass__(cls) -> None:
        cls._starts_of_class = starts_of(cls)

    def _write_to(self, page: HtmlPage) -> None:
        self.page = page
        self._blocks, self._parents, self._node_hints = page.blocks, page.parents, page.hints
        self._firsts, self._ends = page.firsts, page.ends

    def take_page(self) -> HtmlPage:
        """Return the page and drop the reference to it: its blocks need not wait for the garbage collector."""
        page = self.page
        self._write_to(HtmlPage())
        return page

    # Calls of the parser

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._within is not None:
            self._within_depth += 1
            if self._within_depth > DEEPEST:
                raise TooDeepError
            self._within.start(tag, attributes)
            return
        actions = self._actions
        actions.append(None)
        if len(actions) > DEEPEST:
            raise TooDeepError
        try:
            begin = self._starts[tag]
        except KeyError:
            begin = PageReader._start_inline
        begin(self, tag, attributes)

    def end(self, tag: str) -> None:
        if self._within is not None:
            if self._within_depth:
                self._within_depth -= 1
                self._within.end(tag)
                return
            self._within = None
        action = self._actions.pop()
        if action is None:
            return
        while isinstance(action, tuple):
            action[0](self)
            action = action[1]
        action(self)

    def data(self, text: str) -> None:
        if self._within is not None:
            self._within.data(text)
        elif self._parts or not text.isspace():
            self._parts.append(text)

    def close(self) -> HtmlPage:
        self._flush()
        self._footnotes.finish(self.page)
        return self.page

    @property
    def is_too_deep(self) -> bool:
        """Whether elements are nested deeper than `DEEPEST`."""
        return len(self._actions) > DEEPEST or self._within_depth > DEEPEST

    def _at_end(self, action: _Action) -> None:
        before = self._actions[-1]
        self._actions[-1] = action if before is None else (action, before)

    def _leave_to(self, reader: _ElementReader) -> None:
        self._within, self._within_depth = reader, 0

    def _start_left_out(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._leave_to(_NOTHING)

    def _start_empty(self, tag: str, attributes: Mapping[str, str]) -> None:
        pass

    def _start_meta(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = attributes.get("property", "")
        if name == "og:type":
            self.page.is_article |= attributes.get("content", "").lower() == "article"

    def _start_script(self, tag: str, attributes: Mapping[str, str]) -> None:
        kind = attributes.get("type", "").lower()
        if not kind.startswith("math/tex"):
            self._leave_to(_NOTHING)
            return
        reader = _RawReader()
        self._leave_to(reader)
        self._at_end(lambda page_reader: page_reader._formula(reader.text, "display" in kind))

    # Elements that are shown as blocks

    def _open(self, tag: str, attributes: Mapping[str, str]) -> bool:
        """Begin an element with a number; False if it is left out."""
        if self._parts:
            self._flush()
        hints = hints_of(tag, attributes) if type(attributes) is dict else TAGS.get(tag, 0)
        if hints & _UNSEEN:
            self._leave_to(_NOTHING)
            return False
        parents = self._parents
        self._node_hints.append(hints)
        self._firsts.append(len(self._blocks))
        self._ends.append(0)
        parents.append(self._node)
        self._node = len(parents) - 1
        self._actions[-1] = _CLOSE
        if self._markdown or hints & _MARKED:
            self._open_marked(hints, attributes)
        return True

    def _open_marked(self, hints: int, attributes: Mapping[str, str]) -> None:
        """Prepare the end of an element that may hold a formula, a footnote or code."""
        if hints & MATH:
            self._at_end(PageReader._end_math)
        if self._markdown and not self._note and "id" in attributes:
            self._note = self._footnotes.define(attributes["id"])
            if self._note:
                self._at_end(PageReader._end_note)
        if hints & CODED:
            self._code_languages.append(code_language(attributes, strict=True))
            self._at_end(PageReader._drop_code_language)

    def _close(self) -> None:
        if self._parts:
            self._flush()
        self._ends[self._node] = len(self._blocks)
        self._node = self._parents[self._node]

    def _end_note(self) -> None:
        if self._parts:
            self._flush()
        self._note = 0

    def _drop_code_language(self) -> None:
        self._code_languages.pop()

    def _flush(self) -> None:
        """End the block whose text was read."""
        parts = self._parts
        text = parts[0] if len(parts) == 1 else "".join(parts)
        line = on_line(text)
        if not line:
            parts.clear()
            self._link_from = min(self._link_from, 0)
            return
        if self._link_from >= 0:
            self._linked += size_of(on_line("".join(parts[self._link_from :])))
            self._link_from = 0
        parts.clear()
        if _BREAK in text:
            lines = [" ".join(line.split()) for line in text.split(_BREAK)]
            text = "\n".join(line for line, before in zip(lines, ["", *lines], strict=False) if line or before).strip(
                "\n"
            )
        else:
            text = line
        linked, self._linked = self._linked, 0
        if text:
            self._add(self._kind, text, linked)

    def _add(self, kind: int, text: str, linked: int = 0) -> HtmlBlock:
        size = len(text) if text.isascii() else size_of(text)
        block = HtmlBlock(kind, text, self._node, size, item := None if self._note else self._item)
        if item is not None and not item.begun:
            block.begins = item.begun = True
        if linked:
            block.linked = linked
        if self._level:
            block.level = self._level
        if self._note:
            block.note = self._note
        if self._quotes:
            block.quotes = self._quotes
        self._blocks.append(block)
        return block

    def _start_heading(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes):
            self._kind, self._level = kinds.HEADING, HEADINGS[tag]
            self._at_end(PageReader._end_kind)

    def _start_kind(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes):
            self._kind = {"dt": kinds.TERM, "dd": kinds.MEANING, "summary": kinds.SUMMARY}[tag]
            self._at_end(PageReader._end_kind)

    def _end_kind(self) -> None:
        if self._parts:
            self._flush()
        self._kind, self._level = kinds.PARAGRAPH, 0

    def _start_quote(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes):
            self._quotes += 1
            self._at_end(PageReader._end_quote)

    def _end_quote(self) -> None:
        if self._parts:
            self._flush()
        self._quotes -= 1

    def _start_rule(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._parts:
            self._flush()

    # Lists

    def _start_list(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes):
            self._numbers.append(_number(attributes.get("start", ""), 1) if tag == "ol" else -1)
            self._at_end(PageReader._end_list)

    def _end_list(self) -> None:
        if self._parts:
            self._flush()
        self._numbers.pop()

    def _start_item(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._open(tag, attributes):
            return
        mark = "-"
        if self._numbers and self._numbers[-1] >= 0:
            number = _number(attributes.get("value", ""), self._numbers[-1])
            self._numbers[-1] = number + 1
            mark = f"{number}."
        self._item = ListItem(self._item, mark)
        actions = self._actions
        action = actions[-1]
        actions[-1] = _CLOSE_ITEM if action is _CLOSE else (_END_ITEM, action or _CLOSE)

    def _end_item(self) -> None:
        if self._parts:
            self._flush()
        if self._item is not None:
            self._item = self._item.outer

    def _close_item(self) -> None:
        self._end_item()
        self._ends[self._node] = len(self._blocks)
        self._node = self._parents[self._node]

    # Tables

    def _start_table(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes):
            if self._tables:
                self._tables[-1].holds_table = True
            self._tables.append(HtmlTable(self._node, len(self.page.blocks), attributes, self._item))
            self._item = None
            self._at_end(type(self)._end_table)

    def _end_table(self) -> None:
        if self._parts:
            self._flush()
        table = self._tables.pop()
        self._item = table.item
        page = self.page
        rows = table.rows_of_data(page.blocks)
        if rows is None:
            return
        linked = sum(block.linked for block in page.blocks[table.first :])
        del page.blocks[table.first :]
        for column in (page.parents, page.hints, page.firsts, page.ends):
            del column[table.node + 1 :]
        self._node = table.node
        if table.caption:
            self._add(kinds.PARAGRAPH, table.caption)
        self._add(kinds.TABLE, rows, linked)

    def _start_rows(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._parts:
            self._flush()

    def _start_row(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._parts:
            self._flush()
        if self._tables:
            self._tables[-1].start_row()
        self._at_end(PageReader._end_row)

    def _end_row(self) -> None:
        if self._parts:
            self._flush()

    def _start_cell(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes) and self._tables:
            table = self._tables[-1]
            cell = table.start_cell(tag, attributes, len(self.page.blocks))
            item, self._item = self._item, None
            self._at_end(lambda reader: reader._end_cell(cell, item))

    def _end_cell(self, cell: HtmlCell, item: ListItem | None) -> None:
        if self._parts:
            self._flush()
        self._item = item
        cell.end = len(self.page.blocks)

    def _start_caption(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes) and self._tables:
            table, first = self._tables[-1], len(self.page.blocks)
            self._at_end(lambda reader: reader._end_caption(table, first))

    def _end_caption(self, table: HtmlTable, first: int) -> None:
        if self._parts:
            self._flush()
        if not table.holds_table:
            table.caption = table.caption or " ".join(block.text for block in self.page.blocks[first:])

    # Within a line

    def _start_inline(self, tag: str, attributes: Mapping[str, str]) -> None:
        hints = hints_of(tag, attributes) if type(attributes) is dict else 0
        if not hints:
            return
        if hints & OUT or (hints & HIDDEN and not hints & MATH and "math" not in attributes.get("class", "")):
            self._leave_to(_NOTHING)
        elif hints & MATH and not self._in_math:
            self._in_math = True
            first = len(self._parts)
            self._at_end(lambda reader: reader._end_inline_math(first))

    def _start_break(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._parts.append(_BREAK)

    def _start_link(self, tag: str, attributes: Mapping[str, str]) -> None:
        hints = hints_of(tag, attributes)
        if hints & _UNSEEN:
            self._leave_to(_NOTHING)
        elif self._link_from < 0 and "href" in attributes:
            self._link_from = len(self._parts)
            if self._markdown and attributes["href"].startswith("#"):
                self._at_end(lambda reader: reader._end_anchor(attributes))
            elif self._links:
                self._at_end(lambda reader: reader._end_link(attributes["href"]))
            else:
                self._actions[-1] = _END_LINK

    def _end_anchor(self, attributes: Mapping[str, str]) -> None:
        """End a link within the page: a reference to a footnote, a link back from one, or another."""
        first = self._link_from
        shown = " ".join("".join(self._parts[first:]).split())
        mark = "" if self._note else self._footnotes.reference(attributes, shown)
        if mark or (self._note and is_back_link(attributes, shown)):
            self._parts[first:] = [mark] if mark else []
            self._link_from = -1
        else:
            self._end_link(attributes["href"] if self._links else "")

    def _end_link(self, address: str = "") -> None:
        first, self._link_from = self._link_from, -1
        parts = self._parts
        if len(parts) == first:
            return
        text = parts[first] if len(parts) == first + 1 else "".join(parts[first:])
        shown = on_line(text)
        self._linked += size_of(shown)
        address = address and address_in_link(address)
        if address and shown and _BREAK not in text:
            before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
            parts[first:] = [f"{before}[{shown_in_link(shown)}]({address}){after}"]

    def _start_inline_code(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._markdown and tag == "code" and not self._in_code:
            self._in_code = True
            first = len(self._parts)
            self._at_end(lambda reader: reader._end_inline_code(first))

    def _end_inline_code(self, first: int) -> None:
        self._in_code = False
        text, marks = without_marks("".join(self._parts[first:]))
        if text.strip() and _BREAK not in text:
            self._parts[first:] = [marked_code(text) + marks]

    def _start_image(self, tag: str, attributes: Mapping[str, str]) -> None:
        formula = of_image(attributes)
        if formula:
            if formula != self._last_formula:
                self._formula(formula, False)
        elif self._images and attributes.get("alt", "").strip():
            alternative = " ".join(attributes["alt"].split())
            self._parts.append(
                f"![{shown_in_link(alternative)}]({address_in_link(attributes.get('src', ''))})"
                if self._markdown
                else alternative
            )

    # Code and formulas

    def _start_code(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._open(tag, attributes):
            return
        reader = CodeReader(code_language(attributes) or "")
        self._leave_to(reader)
        self._at_end(lambda page_reader: page_reader._end_code(reader))

    def _end_code(self, reader: CodeReader) -> None:
        text = reader.text
        if text.strip():
            around = self._code_languages[-1] if self._code_languages else ""
            self._add(kinds.CODE, text).language = reader.language or around

    def _start_formula(self, tag: str, attributes: Mapping[str, str]) -> None:
        reader = FormulaReader(attributes)
        self._leave_to(reader)
        self._at_end(lambda page_reader: page_reader._formula(reader.latex, reader.display))

    def _end_inline_math(self, first: int) -> None:
        self._in_math = False
        self._end_math(first)

    def _end_math(self, first: int = 0) -> None:
        """Take a formula out of its delimiters."""
        formula = undelimited("".join(self._parts[first:]))
        if formula is not None:
            del self._parts[first:]
            self._formula(formula.latex, formula.display)

    def _formula(self, latex: str, display: bool) -> None:
        latex = latex.strip().rstrip(_BLANK)  # a space or line break at the end is nothing, and its backslash no end
        if not latex:
            return
        self._last_formula = latex
        if display:
            if self._parts:
                self._flush()
            self._add(kinds.FORMULA, latex)
        else:
            self._parts.append(f"${latex}$")


PageReader._starts_of_class = starts_of(PageReader)
_CLOSE, _END_LINK, _END_ITEM, _CLOSE_ITEM = (
    PageReader._close,
    PageReader._end_link,
    PageReader._end_item,
    PageReader._close_item,
)


def on_line(text: str) -> str:
    """Return a text with one space between its words."""
    return text.strip() if text.isprintable() and "  " not in text else " ".join(text.split())


def size_of(text: str) -> int:
    """Return the number of UTF-8 bytes of a text: a Chinese character counts for three letters."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def marked_code(text: str) -> str:
    """Return inline code between backticks, more of them than it has in a row.

    Examples:
        >>> marked_code("x"), marked_code("a`b"), marked_code("a``b")
        ('`x`', '`` a`b ``', '``` a``b ```')
    """
    text = " ".join(text.split())
    row = fence(text, 1)
    return f"{row} {text} {row}" if "`" in text else f"`{text}`"


def _number(text: str, otherwise: int) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise

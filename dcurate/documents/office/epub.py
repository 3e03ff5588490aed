"""EPUB to blocks."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from lxml import etree, html

from dcurate.documents.office.blocks import Blocks, document
from dcurate.documents.office.package import Package, attribute, local, member_path
from dcurate.isolate.errors import MediaError

_PAGES = {"application/xhtml+xml", "text/html", "application/x-dtbook+xml", ""}
_SKIPPED = {
    "script",
    "style",
    "head",
    "nav",
    "template",
    "svg",
    "audio",
    "video",
    "iframe",
    "object",
    "rt",
    "rp",
    "noscript",
}
_PARAGRAPHS = {
    "p",
    "div",
    "section",
    "article",
    "blockquote",
    "figure",
    "figcaption",
    "dt",
    "dd",
    "address",
    "body",
    "html",
    "center",
    "main",
    "header",
    "footer",
    "aside",
    "dl",
    "hr",
    "form",
    "fieldset",
    "details",
    "summary",
    "caption",
}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
#: Elements within each other whose structure is followed; of deeper ones there is the text alone.
_MAX_DEPTH = 200
_DECLARED = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']([A-Za-z][\w.-]*)["']""", re.ASCII)


def extract_epub(package: Package, max_characters: int = 100_000_000) -> dict[str, Any]:
    """The text of an EPUB in the order of its spine; a chapter is a page.

    Chapters that are not linear, such as covers and tables of contents, come as well; navigation does not.

    Raises:
        MediaError: "encrypted" (rights management), "damaged", "too much text".
    """
    _refuse_encrypted(package)
    container = package.xml("META-INF/container.xml")
    path = next(
        (attribute(rootfile, "full-path") or "" for rootfile in container.iter() if local(rootfile) == "rootfile"), ""
    )
    root = package.xml(member_path("", path))
    folder = posixpath.dirname(path)
    items: dict[str, tuple[str, str, str]] = {}
    fields: dict[str, str] = {}
    names = {"title": "title", "creator": "author", "language": "language"}
    for element in root.iter():
        name = local(element)
        if name == "item":
            kind, properties = attribute(element, "media-type") or "", attribute(element, "properties") or ""
            items[attribute(element, "id") or ""] = (
                member_path(folder, attribute(element, "href") or ""),
                kind,
                properties,
            )
        elif name in names and (element.text or "").strip():
            fields.setdefault(names[name], " ".join(element.text.split()))
    blocks = Blocks(max_characters)
    spine = dict.fromkeys(attribute(element, "idref") or "" for element in root.iter() if local(element) == "itemref")
    if not any(reference in items for reference in spine):
        raise MediaError("damaged", "the spine names no chapter that is there")
    for reference in spine:
        member, kind, properties = items.get(reference, ("", "", ""))
        if kind not in _PAGES or not member:
            package.losses.add("chapters", where=f"{member or reference}: {kind or 'not in the manifest'}")
        elif "nav" not in properties.split():
            blocks.page()
            package.part("chapters", partial(_add_chapter, blocks, package, member))
    return document("epub", blocks, **fields)


def _add_chapter(blocks: Blocks, package: Package, member: str) -> None:
    try:
        add_html(blocks, package.read(member))
    except MediaError as error:
        if error.fault.reason != "damaged":
            raise
        raise MediaError("damaged", f"{member}: {error.fault.detail}"[:200]) from None


def _refuse_encrypted(package: Package) -> None:
    root = package.optional_xml("META-INF/encryption.xml")
    for data in root.iter() if root is not None else ():
        if local(data) == "EncryptedData":
            method = next((attribute(child, "Algorithm") for child in data if local(child) == "EncryptionMethod"), None)
            if method not in _FONT_OBFUSCATION:
                raise MediaError("encrypted", "chapters are under rights management (DRM)")


def add_html(blocks: Blocks, data: bytes) -> None:
    r"""Add all text of a page of XHTML or HTML.

    Examples:
        >>> blocks = Blocks()
        >>> add_html(blocks, b"<h1>Fish</h1><p>A <a href='https://x.org'>cod</a>.</p><ol><li>One<li>Two</ol>")
        >>> print(blocks.markdown())
        # Fish
        <BLANKLINE>
        A [cod](https://x.org).
        <BLANKLINE>
        1. One
        2. Two

    Raises:
        MediaError: "damaged" if elements are nested too deeply to be parsed.
    """
    if not data.strip():
        return
    data, encoding = _recoded(data)
    parser = html.HTMLParser(encoding=encoding, remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    root = None
    with suppress(etree.ParserError, etree.XMLSyntaxError, ValueError, LookupError):
        root = html.document_fromstring(data, parser=parser)
    limits = [
        error.message for error in parser.error_log.filter_from_fatals() if error.type_name == "ERR_RESOURCE_LIMIT"
    ]
    if limits:
        raise MediaError("damaged", f"a chapter cannot be parsed: {limits[0]}"[:200])
    if root is None:
        return
    _Html(blocks).walk(root, 0)


def _recoded(data: bytes) -> tuple[bytes, str | None]:
    """A page, in UTF-8 where that can be known, and its encoding; None if the parser of HTML finds it in a tag."""
    wide = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(data[:2])
    if wide:
        return data.decode(wide, "replace").encode(), "utf-8"
    declared = _DECLARED.match(data)
    if declared and not declared[1].lower().startswith((b"utf", b"ucs", b"iso-10646")):
        with suppress(LookupError, UnicodeError):
            return data.decode(declared[1].decode()).encode(), "utf-8"
    return data, None if b"charset" in data[:1024].lower() else "utf-8"


class _Html:
    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._text: list[str] = []
        self._markdown: list[str] = []

    def walk(self, element: Any, depth: int) -> None:
        """Add an element that holds blocks, or text, or both."""
        self._inside(element, depth)
        self._flush()

    def _inside(self, element: Any, depth: int) -> None:
        self._put(element.text)
        for child in element:
            if depth < _MAX_DEPTH:
                self._child(child, local(child).lower(), depth + 1)
            else:
                self._put(_all_text(child))
            self._put(child.tail)

    def _child(self, child: Any, name: str, depth: int) -> None:
        if name in _SKIPPED or not name:
            return
        if name in _HEADINGS:
            self._flush()
            text, markdown = self._apart(child, depth)
            self._blocks.heading(_HEADINGS[name], text, markdown)
        elif name in ("ul", "ol"):
            self._flush()
            self._list(child, name == "ol", 0, depth)
        elif name == "table":
            self._flush()
            self._table(child, depth)
        elif name == "pre":
            self._flush()
            self._blocks.code("".join(child.itertext()))
        elif name in _PARAGRAPHS:
            self._flush()
            self._inside(child, depth)
            self._flush()
        elif name == "br":
            self._text.append("\n")
            self._markdown.append("\n")
        elif name == "a":
            self._link(child, depth)
        else:
            self._inside(child, depth)

    def _link(self, element: Any, depth: int) -> None:
        at, at_markdown = len(self._text), len(self._markdown)
        self._inside(element, depth)
        target = element.get("href") or ""
        words = "".join(self._text[at:]).strip()
        if words and target.startswith(("http://", "https://", "mailto:")):
            shown = "".join(self._markdown[at_markdown:]).strip()
            del self._markdown[at_markdown:]
            self._markdown.append(f"[{shown}]({target})")
            self._blocks.links.append({"text": words, "target": target})

    def _list(self, element: Any, ordered: bool, level: int, depth: int) -> None:
        number = 0
        for item in element:
            if local(item).lower() in ("ul", "ol"):
                self._inner_list(item, level, depth)
                continue
            inner = [sublist for sublist in item if local(sublist).lower() in ("ul", "ol")]
            for sublist in inner:
                sublist.getparent().remove(sublist)
            text, markdown = self._apart(item, depth)
            number += bool(text.strip())
            self._blocks.item(text, markdown, level, number if ordered else None)
            for sublist in inner:
                self._inner_list(sublist, level, depth)

    def _inner_list(self, element: Any, level: int, depth: int) -> None:
        if depth < _MAX_DEPTH:
            self._list(element, local(element).lower() == "ol", level + 1, depth + 1)
        else:
            self._blocks.paragraph(" ".join(_all_text(element).split()))

    def _table(self, table: Any, depth: int) -> None:
        rows = []
        for row in _rows(table):
            cells = [cell for cell in row if local(cell).lower() in ("td", "th")]
            rows.append([self._apart(cell, depth)[0] for cell in cells])
        if max(map(len, rows), default=0) > 1:
            self._blocks.table(rows)
        else:
            for row in rows:
                self._blocks.paragraph("\n".join(row))

    def _apart(self, element: Any, depth: int) -> tuple[str, str]:
        """The text of an element by itself, its blocks parted by spaces."""
        flat = _Flat(self._blocks)
        flat._inside(element, depth)
        return "".join(flat._text), "".join(flat._markdown)

    def _put(self, text: str | None) -> None:
        if text:
            words = " ".join(text.split())
            spaced = (" " if text[0].isspace() else "") + words + (" " if text[-1].isspace() and words else "")
            self._text.append(spaced)
            self._markdown.append(spaced)

    def _flush(self) -> None:
        if self._text:
            self._blocks.paragraph("".join(self._text), "".join(self._markdown))
            self._text, self._markdown = [], []


def _all_text(element: Any) -> str:
    """The text of an element that is nested too deeply for its structure to be followed."""
    if local(element).lower() in _SKIPPED:
        return ""
    etree.strip_elements(element, *_SKIPPED, with_tail=False)
    return "".join(element.itertext())


def _rows(table: Any) -> Iterator[Any]:
    """The rows of a table, not those of tables within it."""
    stack = list(reversed(table))
    while stack:
        element = stack.pop()
        name = local(element).lower()
        if name == "tr":
            yield element
        elif name in ("thead", "tbody", "tfoot"):
            stack.extend(reversed(element))


class _Flat(_Html):
    """Text without blocks, for cells, items and headings."""

    def _child(self, child: Any, name: str, depth: int) -> None:
        if name in _SKIPPED or not name:
            return
        if name == "a":
            self._link(child, depth)
        elif name == "br":
            self._put(" ")
        else:
            self._inside(child, depth)
            if name in _PARAGRAPHS or name in ("td", "th", "tr", "li", "table", "ul", "ol"):
                self._put(" ")

"""dcurate's own extractor: the main content, with its code, tables and formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeVar

from dcurate.core.extras import needed
from dcurate.text.extract.algorithms import HTMLExtractorAlgorithm, PageParts, PagePiece, ThreadTurn
from dcurate.text.extract.blocks import HtmlBlock, HtmlPage
from dcurate.text.extract.footnotes import with_notes
from dcurate.text.extract.main_content import main_content
from dcurate.text.extract.nesting import TooDeepError, flattened
from dcurate.text.extract.page_facts import LinkedData, joined
from dcurate.text.extract.page_images import ImageReader, pieces_of
from dcurate.text.extract.page_kind import FORUM, kind_of
from dcurate.text.extract.page_parts import comments_of, signals_of
from dcurate.text.extract.reader import PageReader
from dcurate.text.extract.structure_reader import StructureReader
from dcurate.text.extract.tags import scan_tags
from dcurate.text.extract.threads import posts_of, turns_in
from dcurate.text.extract.writer import written

_Reader = TypeVar("_Reader", bound=PageReader)
#: Characters or bytes that the parser gets at once.
_PIECE = 1 << 16


@dataclass
class DcurateExtractor(HTMLExtractorAlgorithm):
    r"""dcurate's own: the main content by rules in one pass, with code, tables and formulas kept; needs no stop words.

    lxml's parser reports elements as they come, and no tree is built, so that time and memory are linear in the size of
    the page, however deep its elements are nested; beyond 512 in each other, as in browsers, they are siblings. Each
    piece of text that a browser shows as a block is one. An element is worth its long texts outside of links. Elements
    named like something around the content and lists of links are left out; the content is the innermost element that
    holds nearly all the rest.

    Code is kept byte for byte, apart from line numbers and buttons. Tables of data become rows between ``|``, other
    tables text. Formulas are LaTeX between ``$`` or ``$$``: from the annotation of MathML, from its elements where
    there is none, from scripts and delimiters of MathJax and KaTeX, and from alternative texts of images of formulas.
    The heading of the first level before the text is left out: it is the title.

    Args:
        markdown: whether headings, lists, quotes, definitions, footnotes and code are marked as in Markdown, with the
            language of code that the page names.
        main_content: whether what is around the content, such as navigation and comments, is left out.
        links: whether addresses of links are kept, as in Markdown.
        alt_texts: whether alternative texts of images are kept.

    Examples:
        >>> page = "<article><p>Say <code>hi</code>:</p><pre><code class='language-py'>a\nb</code></pre></article>"
        >>> print(DcurateExtractor(markdown=True).extract_text(page, frozenset(), "ENGLISH")[0])
        Say `hi`:
        <BLANKLINE>
        ```py
        a
        b
        ```
    """

    markdown: bool = False
    main_content: bool = True
    links: bool = False
    alt_texts: bool = False

    has_parts: ClassVar[bool] = True
    takes_utf8: ClassVar[bool] = True

    def requires(self) -> dict[str, str]:
        return {"lxml": "html"}

    def load(self) -> None:
        self._library = needed("lxml.etree", type(self).__name__, "html")

    @property
    def uses_stop_words(self) -> bool:
        return False

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        return [written(self._blocks(self.read(html)), self.markdown)]

    def extract_parts(self, html: str | bytes, stop_words: frozenset[str], language: str) -> PageParts:
        page = self.read(html)
        blocks = self._blocks(page)
        comments = written(comments_of(page, blocks), self.markdown)
        return PageParts(written(blocks, self.markdown), comments, signals_of(page, blocks))

    def extract_with_structure(self, html: str | bytes, stop_words: frozenset[str], language: str) -> PageParts:
        parts = self.extract_parts(html, stop_words, language)
        assert parts.signals is not None
        page = self.read_by(partial(StructureReader, self.markdown, self.links), html).structure
        tags = scan_tags(_text(html))
        posts = posts_of(page)
        turns = [ThreadTurn(post.author, post.date, written(post.blocks, self.markdown)) for post in posts]
        by_data = turns_in(LinkedData.of(tags.json_ld), self._shown)
        kind = kind_of(page, tags, posts, parts.signals)
        turns = by_data if len(by_data) > len(turns) else turns
        return parts._replace(turns=turns if kind == FORUM else (), kind=kind)

    def extract_pieces(self, html: str | bytes, url: str) -> list[PagePiece]:
        reader = self.read_by(partial(ImageReader, self.markdown, self.links, self.alt_texts), html)
        base = scan_tags(_text(html)).base
        main = self._blocks(reader.page)
        return pieces_of(reader.page, main, reader.images_read, joined(url, base) if base else url, self.markdown)

    def _shown(self, html: str) -> str:
        """Return the text of a piece of a page; one without tags as it is."""
        return written(self.read(html).blocks, self.markdown) if "<" in html else html

    def _blocks(self, page: HtmlPage) -> list[HtmlBlock]:
        return with_notes(page, main_content(page)) if self.main_content else page.blocks

    def read(self, html: str | bytes) -> HtmlPage:
        """Return the blocks of a page, those of its main content and those around it."""
        return self.read_by(partial(PageReader, self.markdown, self.links, self.alt_texts), html).take_page()

    def read_by(self, new_reader: Callable[[], _Reader], html: str | bytes) -> _Reader:
        """Have a reader read a page; one that is nested so deeply that libxml2 would take long, without some tags."""
        try:
            return self._fed(new_reader(), html)
        except TooDeepError:
            return self._fed(new_reader(), flattened(_text(html)))

    def _fed(self, reader: _Reader, html: str | bytes) -> _Reader:
        etree = self._loaded()
        etree.parse(_PageFile(html, reader), etree.HTMLParser(target=reader, huge_tree=True, encoding="utf-8"))
        return reader


class _PageFile:
    """A page as a file in UTF-8, which ends early where its reader has given up: libxml2 would go on to the end.

    Args:
        page: the page; bytes are UTF-8.
        reader: what reads it.
    """

    def __init__(self, page: str | bytes, reader: PageReader) -> None:
        self._page, self._reader, self._at = page, reader, 0

    def read(self, size: int) -> bytes:
        """Return the next piece of any size: lxml keeps what it does not need yet."""
        if self._reader.is_too_deep:
            return b""
        first, self._at = self._at, self._at + _PIECE
        piece = self._page[first : self._at]
        return piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")


def _text(html: str | bytes) -> str:
    return html if isinstance(html, str) else html.decode()

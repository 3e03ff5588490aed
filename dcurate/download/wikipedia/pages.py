"""The articles in a dump, page by page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from dcurate.download.extract import Skipped
from dcurate.download.iterate import RangeIterator
from dcurate.download.markup import XML_ERRORS, RefusedError, parser
from dcurate.download.wikipedia.streams import ContentSpan, stretches

_ROOT = b"<mediawiki>"
_FIELDS = {("page", "title"), ("page", "ns"), ("page", "id"), ("revision", "text"), ("namespaces", "namespace")}
#: Namespaces of files that a page may show, and of categories, by number.
MEDIA, CATEGORY = ("-2", "6"), ("14",)


class Article(dict[str, Any]):
    """A record of a dump.

    Attributes:
        namespaces: the dump's names of namespaces, by number.
    """

    namespaces: dict[str, str]


class WikipediaIterator(RangeIterator):
    """Read the articles of a dump: pages of namespace 0 that are not redirects.

    A damaged stream of a multistream dump is counted, and costs only the (at most 100) pages in it. Memory holds one
    stream. Document type declarations are refused, and with them entities that would grow without bound.

    Args:
        language: language of the Wikipedia, for the address of an article.
        log_frequency: accepted for compatibility; the run reports progress.

    Examples:
        >>> WikipediaIterator("de").output_columns()
        ['title', 'id', 'url', 'language', 'source_id', 'raw_content']
    """

    def __init__(self, language: str = "en", log_frequency: int = 1000) -> None:
        self.language = language

    def output_columns(self) -> list[str]:
        return ["title", "id", "url", "language", "source_id", "raw_content"]

    def iterate_range(self, file_path: str, start: int, stop: int | None) -> Iterator[dict[str, Any] | Skipped]:
        """Yield the articles of the streams that begin from byte ``start`` up to ``stop``."""
        name = os.path.basename(file_path)
        with open(file_path, "rb") as file:
            pages = _Pages()
            if start:
                pages.namespaces = _namespaces(next(stretches(file), None))
                pages.feed(_ROOT)
            for stretch in stretches(file, start, stop):
                if stretch.fault:
                    yield _damaged(stretch, stretch.fault)
                    if stretch.cut:
                        pages = pages.afresh()
                    continue
                try:
                    pages.feed(stretch.data)
                except (XML_ERRORS, RefusedError) as error:
                    yield from self._articles(pages, name)
                    yield _damaged(stretch, f"it is not XML of a dump ({error})")
                    pages = pages.afresh()
                    continue
                yield from self._articles(pages, name)
            if pages.within_page:
                yield Skipped("damaged", True, detail="the dump ends within a page")

    def _articles(self, pages: _Pages, name: str) -> Iterator[dict[str, Any] | Skipped]:
        for page in pages.taken():
            title = page.get("title", "")
            reason = _reason(page)
            if reason:
                yield Skipped(reason, id=title)
                continue
            article = Article(
                title=title,
                id=page["id"],
                url=f"https://{self.language}.wikipedia.org/wiki/{quote(title)}",
                language=self.language,
                source_id=name,
                raw_content=page["text"],
            )
            article.namespaces = pages.namespaces
            yield article


def _reason(page: dict[str, str]) -> str:
    """The reason why a page is not an article, empty if it is one."""
    if not (page.get("title") and page.get("ns") and page.get("id")):
        return "page without title or id"
    if page["ns"] != "0":
        return "other namespace"
    if "redirect" in page:
        return "redirect"
    return "" if page.get("text", "").strip() else "empty page"


def _damaged(stretch: ContentSpan, why: str) -> Skipped:
    return Skipped("damaged", True, f"byte {stretch.offset}", why)


def _namespaces(head: ContentSpan | None) -> dict[str, str]:
    """The dump's names of namespaces, from its first stream."""
    pages = _Pages()
    with suppress(XML_ERRORS, RefusedError):  # whoever reads the first range says so
        pages.feed(head.data if head else b"")
    return pages.namespaces


class _Pages:
    """Parse pages from chunks of XML.

    Attributes:
        namespaces: the dump's names of namespaces, by number.
        within_page: whether a page has begun and not ended.
    """

    def __init__(self) -> None:
        self.namespaces: dict[str, str] = {}
        self.within_page = False
        self._done: list[dict[str, str]] = []
        self._page: dict[str, str] = {}
        self._path: list[str] = []
        self._text: list[str] | None = None
        self._key = ""
        self._parser = parser()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def feed(self, data: bytes) -> None:
        """Feed more XML."""
        self._parser.Parse(data, False)

    def taken(self) -> list[dict[str, str]]:
        """The pages completed since the last call."""
        done, self._done = self._done, []
        return done

    def afresh(self) -> _Pages:
        """A new parser, to continue after damage."""
        pages = _Pages()
        pages.namespaces = self.namespaces
        pages.feed(_ROOT)
        return pages

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._path[-1] if self._path else ""
        self._path.append(name)
        if name == "page":
            self._page, self.within_page = {}, True
        elif name == "redirect" and parent == "page":
            self._page["redirect"] = attributes.get("title", "")
        elif (parent, name) in _FIELDS:
            self._text, self._key = [], attributes.get("key", "")

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, name: str) -> None:
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if name == "page":
            self._done.append(self._page)
            self.within_page = False
        elif self._text is not None and (parent, name) in _FIELDS:
            if name == "namespace":
                self.namespaces[self._key] = "".join(self._text)
            else:
                self._page.setdefault(name, "".join(self._text))
            self._text = None

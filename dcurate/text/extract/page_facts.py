"""What a page says about itself: who wrote it, when, where it belongs, and under which licence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin

import orjson

from dcurate.text.extract.tags import PageTags, line

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NUMBERS = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})(?!\d)")
_DAY_FIRST = re.compile(r"(?:[A-Za-z]{3,9},? )?(\d{1,2})(?:st|nd|rd|th)?\.? ([A-Za-z]{3,9})\.?,? (\d{4})(?!\d)")
_BY = re.compile(r"\A\s*by\s+", re.IGNORECASE)
#: Longest text that is taken for a date or an author.
_LONGEST = 200
#: Ends of the types of JSON-LD that are a text of its own.
_WORKS = ("Article", "Posting", "Report", "Recipe", "Book", "Review", "Answer", "Thesis", "CreativeWork")
#: Names of dates of publication in ``<meta>``, in the order in which they count.
_PUBLISHED = (
    *("article:published_time", "datepublished", "citation_publication_date", "citation_date", "dcterms.issued"),
    *("dc.date.issued", "dcterms.created", "dcterms.date", "dc.date", "parsely-pub-date", "sailthru.date", "pubdate"),
    *("publishdate", "publish-date", "publish_date", "publication_date", "date"),
)
_MODIFIED = (
    *("article:modified_time", "og:updated_time", "datemodified", "dcterms.modified", "dc.date.modified"),
    *("last-modified", "lastmod"),
)
_AUTHORS = (
    *("citation_author", "author", "article:author", "parsely-author", "sailthru.author", "dc.creator"),
    *("dcterms.creator", "byl"),
)


class PageFacts(NamedTuple):
    """What a page says about itself; empty where it says nothing.

    Args:
        title: its headline, as it is shared.
        authors: names of its authors.
        published: date of its publication in ISO 8601, with time and offset if it has them.
        modified: date of its last change, likewise.
        site: name of the site.
        language: language tag that it declares, such as ``pt-BR``.
        canonical_url: its own address.
        description: its description.
        types: types by JSON-LD, else by OpenGraph, such as ``NewsArticle``.
        licenses: addresses of its licences.
    """

    title: str
    authors: list[str]
    published: str
    modified: str
    site: str
    language: str
    canonical_url: str
    description: str
    types: list[str]
    licenses: list[str]


def facts_of(tags: PageTags, url: str = "") -> PageFacts:
    """Return what a page says: JSON-LD counts before OpenGraph, and that before other names of ``<meta>``.

    Args:
        tags: tags of the page.
        url: its address, which relative addresses are resolved against.

    Examples:
        >>> from dcurate.text.extract.tags import scan_tags
        >>> page = '<script type="application/ld+json">{"@type": "Article", "author": {"name": "A"}}</script>'
        >>> facts_of(scan_tags(page)).authors
        ['A']
    """
    data = LinkedData.of(tags.json_ld)
    base = joined(url, tags.base)
    licenses = [*data.addresses("license"), *tags.links.get("license", ())]
    authors = _names([*data.names("author"), *data.names("creator")]) or _names(_first_values(tags, _AUTHORS))
    types = [name for node in data.nodes for name in _types(node)] or tags.metas.get("og:type", [])
    canonical = [*tags.links.get("canonical", ()), *tags.metas.get("og:url", ())][:1]
    return PageFacts(
        title=next(data.texts("headline"), "")
        or tags.meta("og:title", "citation_title", "twitter:title")
        or tags.title,
        authors=authors,
        published=_first_date([*data.texts("datePublished"), *_values(tags, _PUBLISHED)]),
        modified=_first_date([*data.texts("dateModified"), *_values(tags, _MODIFIED)]),
        site=tags.meta("og:site_name") or next(data.site_names(), "") or tags.meta("application-name"),
        language=_language(tags.language or tags.meta("content-language", "og:locale", "dc.language"))
        or _language(next(data.texts("inLanguage"), "")),
        canonical_url=next((joined(base, address) for address in canonical), ""),
        description=tags.meta("og:description", "description", "twitter:description"),
        types=list(dict.fromkeys(types)),
        licenses=list(dict.fromkeys(joined(base, address) for address in licenses)),
    )


class LinkedData(NamedTuple):
    """The nodes of a page's JSON-LD: those that are a text of its own first.

    Args:
        nodes: outermost nodes, and those of graphs.
        by_id: nodes by their ``@id``, which others refer to.
    """

    nodes: list[Mapping[str, Any]]
    by_id: dict[str, Mapping[str, Any]]

    @classmethod
    def of(cls, scripts: Iterable[str]) -> LinkedData:
        """Read scripts; those that are no JSON are left out, as search engines do."""
        nodes = [node for script in scripts for node in _nodes(_read(script))]
        by_id = {node["@id"]: node for node in reversed(nodes) if isinstance(node.get("@id"), str) and len(node) > 1}
        return cls(sorted(nodes, key=lambda node: not _is_work(node)), by_id)

    def values(self, name: str) -> Iterator[Any]:
        """The values of a property, of all nodes, with references resolved."""
        for node in self.nodes:
            value = node.get(name)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Mapping) and len(item) == 1 and isinstance(item.get("@id"), str):
                    yield self.by_id.get(item["@id"], item)
                elif item is not None:
                    yield item

    def texts(self, name: str) -> Iterator[str]:
        """The values of a property that are texts."""
        return (line(value) for value in self.values(name) if isinstance(value, str) and value.strip())

    def names(self, name: str) -> Iterator[str]:
        """The names of the persons and organisations that are the values of a property."""
        for value in self.values(name):
            names = value.get("name") if isinstance(value, Mapping) else value
            for text in names if isinstance(names, list) else [names]:
                if isinstance(text, str):
                    yield line(text)

    def addresses(self, name: str) -> Iterator[str]:
        """The addresses that are the values of a property."""
        for value in self.values(name):
            address = (value.get("url") or value.get("@id")) if isinstance(value, Mapping) else value
            if isinstance(address, str) and address.strip():
                yield line(address)

    def site_names(self) -> Iterator[str]:
        """Names of the site: of the publisher, or of the site itself."""
        yield from self.names("publisher")
        for node in self.nodes:
            if "WebSite" in _types(node) and isinstance(node.get("name"), str):
                yield line(node["name"])


def _read(script: str) -> Any:
    script = script.strip().removeprefix("<!--").removesuffix("-->").strip()
    script = script.removeprefix("//").removeprefix("<![CDATA[").removesuffix("]]>").removesuffix("//").strip()
    try:
        return orjson.loads(script.encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return None


def _nodes(data: Any) -> Iterator[Mapping[str, Any]]:
    """The outermost nodes of a document of JSON-LD and those of its graph."""
    for node in data if isinstance(data, list) else [data]:
        if isinstance(node, Mapping):
            graph = node.get("@graph")
            if isinstance(graph, list):
                yield from (inner for inner in graph if isinstance(inner, Mapping))
            else:
                yield node


def _types(node: Mapping[str, Any]) -> list[str]:
    types = node.get("@type")
    return [line(name) for name in (types if isinstance(types, list) else [types]) if isinstance(name, str)]


def _is_work(node: Mapping[str, Any]) -> bool:
    return any(name.endswith(_WORKS) for name in _types(node))


def _values(tags: PageTags, names: Iterable[str]) -> Iterator[str]:
    return (value for name in names for value in tags.metas.get(name, ()))


def _first_values(tags: PageTags, names: Iterable[str]) -> list[str]:
    return next((tags.metas[name] for name in names if name in tags.metas), [])


def _names(names: Iterable[str]) -> list[str]:
    """Names of persons: without ``by``, no addresses, each once.

    Examples:
        >>> _names(["By A. Bee", "https://example.org/bee", "A. Bee"])
        ['A. Bee']
    """
    persons = (_BY.sub("", name) for name in names if "://" not in name and len(name) <= _LONGEST)
    return list(dict.fromkeys(filter(None, persons)))


def _first_date(texts: Iterable[str]) -> str:
    return next((day for text in texts if (day := iso_date(text))), "")


def iso_date(text: str) -> str:
    """Return a date in ISO 8601, with its time and offset if it has them; empty if it is none.

    Numbers that leave open which is the month, such as 3/4/2024, are none.

    Examples:
        >>> [iso_date(text) for text in ("2024-05-01T10:00:00Z", "May 1st, 2024", "Wed, 01 May 2024 10:00:00 GMT")]
        ['2024-05-01T10:00:00+00:00', '2024-05-01', '2024-05-01T10:00:00+00:00']
        >>> [iso_date(text) for text in ("2024/5/1", "3/4/2024", "2024-13-01", "soon")]
        ['2024-05-01', '', '', '']
    """
    text = text.strip()[:_LONGEST]
    if not text.isascii():
        return ""
    try:
        moment = datetime.fromisoformat(text)
        return moment.date().isoformat() if len(text) <= len("2024-05-01") else moment.isoformat()
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, OverflowError):
        pass
    if match := _NUMBERS.match(text):
        return _day(match[1], int(match[2]), match[3])
    if match := _MONTH_FIRST.match(text):
        return _day(match[3], _month(match[1]), match[2])
    if match := _DAY_FIRST.match(text):
        return _day(match[3], _month(match[2]), match[1])
    return ""


def _day(year: str, month: int, day: str) -> str:
    try:
        return date(int(year), month, int(day)).isoformat()
    except ValueError:
        return ""


def _month(name: str) -> int:
    beginning = name[:3].lower()
    return _MONTHS.index(beginning) + 1 if beginning in _MONTHS else 0


def _language(tag: str) -> str:
    """The first language tag of a text; empty if it is none.

    Examples:
        >>> [_language(tag) for tag in ("en_US", "de, en", "deutsch!", "")]
        ['en-US', 'de', '', '']
    """
    first = tag.partition(",")[0].strip().replace("_", "-")
    return first if _LANGUAGE.fullmatch(first) else ""


_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,4}")


def joined(base: str, address: str) -> str:
    """An address resolved against another; as it is where that cannot be."""
    try:
        return urljoin(base, address)
    except ValueError:
        return address

"""Scan a page for what it says about itself: the few tags that count, without parsing the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dcurate.text.extract.language import unescaped

#: A comment, or a tag that counts; of these, the contents of the first four are no markup.
_MARK = re.compile(r"<(?:!--|(script|style|textarea|title|html|base|meta|link|time|a)(?=[\s/>]))", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""[\s/]*([^\s/>=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]*)))?""",
)
#: The ends of elements whose contents are no markup.
ENDS = {name: re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE) for name in ("script", "style", "textarea", "title")}
#: Names of the attribute that names a ``meta``; one has several at times.
_NAMES = ("name", "property", "itemprop", "http-equiv")


@dataclass
class PageTags:
    """What the tags of a page say about it, in the order of the page.

    Args:
        title: contents of ``<title>``.
        language: ``lang`` of ``<html>``.
        base: address that others are relative to.
        metas: contents of ``<meta>`` and of ``<time>`` with ``itemprop``, by name in small letters.
        links: addresses of ``<link>`` and ``<a>``, by each word of their ``rel`` in small letters.
        json_ld: contents of scripts of type ``application/ld+json``.
        licences: media types and addresses of ``<link>`` and ``<a>`` with ``rel="license"``.
        rsl: contents of scripts of type ``application/rsl+xml``.
    """

    title: str = ""
    language: str = ""
    base: str = ""
    metas: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, list[str]] = field(default_factory=dict)
    json_ld: list[str] = field(default_factory=list)
    licences: list[tuple[str, str]] = field(default_factory=list)
    rsl: list[str] = field(default_factory=list)

    def meta(self, *names: str) -> str:
        """Return the first value of the first of these names that has one; empty if none has."""
        return next((value for name in names for value in self.metas.get(name, ())), "")


def scan_tags(page: str) -> PageTags:
    r"""Read the tags of a page that say something about it; time and memory are linear in its size.

    Comments are skipped, and scripts, styles and text areas are no markup, as in a browser.

    Examples:
        >>> page = '<html lang=en><!-- <base href=x> --><meta name="Author" content="A &amp; B"><a rel=license href=/l>'
        >>> tags = scan_tags(page)
        >>> tags.language, tags.base, tags.metas, tags.links
        ('en', '', {'author': ['A & B']}, {'license': ['/l']})
    """
    tags, at = PageTags(), 0
    while mark := _MARK.search(page, at):
        if mark[1] is None:
            closing = page.find("-->", mark.end() - 2)
            if closing < 0:
                break
            at = closing + 3
            continue
        name = mark[1].lower()
        if name == "a":
            at = _add_anchor(tags, page, mark.end())
        else:
            attributes, at = attributes_at(page, mark.end())
            if name in ENDS:
                end = ENDS[name].search(page, at)
                if end is None:
                    break
                add_contents(tags, name, attributes, page[at : end.start()])
                at = end.end()
            else:
                add_tag(tags, name, attributes)
    return tags


def attributes_at(page: str, at: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, the first of each name, and the place after the tag."""
    attributes: dict[str, str] = {}
    while match := _ATTRIBUTE.match(page, at):
        attributes.setdefault(match[1].lower(), match[2] or match[3] or match[4] or "")
        at = match.end()
    end = page.find(">", at)
    return attributes, end + 1 if end >= 0 else len(page)


def _add_anchor(tags: PageTags, page: str, at: int) -> int:
    end = page.find(">", at)
    if end < 0:
        return len(page)
    if page.find("rel", at, end) >= 0 or page.find("REL", at, end) >= 0:
        attributes, end = attributes_at(page, at)
        add_tag(tags, "a", attributes)
        return end
    return end + 1


def add_contents(tags: PageTags, name: str, attributes: dict[str, str], contents: str) -> None:
    """Add an element whose contents are no markup, such as a script."""
    if name == "title":
        tags.title = tags.title or line(contents)
    elif name == "script" and attributes.get("type"):
        scripts = {"application/ld+json": tags.json_ld, "application/rsl+xml": tags.rsl}
        scripts.get(media_type(attributes["type"]), []).append(contents)


def add_tag(tags: PageTags, name: str, attributes: dict[str, str]) -> None:
    """Add a tag without contents."""
    if name in ("meta", "time"):
        value = attributes.get("content") or attributes.get("datetime") or ""
        names = {attributes[key].strip().lower() for key in _NAMES if attributes.get(key)}
        if name == "time" and "pubdate" in attributes:
            names.add("pubdate")
        if value := line(value):
            for key in sorted(names):
                tags.metas.setdefault(key, []).append(value)
    elif name in ("link", "a"):
        if address := line(attributes.get("href", "")):
            for word in dict.fromkeys(attributes.get("rel", "").lower().split()):
                tags.links.setdefault(word, []).append(address)
                if word == "license":
                    tags.licences.append((media_type(attributes.get("type", "")), address))
    elif name == "html":
        tags.language = tags.language or line(attributes.get("lang") or attributes.get("xml:lang") or "")
    elif name == "base":
        tags.base = tags.base or line(attributes.get("href", ""))


def media_type(text: str) -> str:
    """Return a media type in small letters, without parameters."""
    return text.strip().lower().partition(";")[0]


def line(text: str) -> str:
    """Return a text of a page on one line, without entities."""
    return " ".join((unescaped(text) if "&" in text else text).split())

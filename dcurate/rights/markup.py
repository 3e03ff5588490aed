"""The tags of a page that say something about rights, in a fraction of the time that all of its tags take."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from dcurate.rights.crawlers import CRAWLERS
from dcurate.text.extract.charset import decoded, markup
from dcurate.text.extract.tags import ENDS, PageTags, add_contents, add_tag, attributes_at

#: A comment, an element whose contents are not markup, or a tag that may say something about rights. That the first
#: letter is looked at alone, and no letter of most tags, makes it fast; other tags with such letters are passed over.
_TAGS = r"((?-i:[sStTbBmM])(?:cript|tyle|extarea|itle|ase|eta))(?=[\s/>])"
#: Of ``<a>`` only those with the word "license" in their tag.
_WORD = r"[^<>i]*+(?:i(?!cense)[^<>i]*+)*+i"
_MARK = re.compile(rf"<(?:!--|{_TAGS}|((?-i:[lL])ink(?=[\s/>])|(?-i:[aA](?=[\s/])(?={_WORD}))))", re.IGNORECASE)
#: What the contents of ``<meta>`` that count hold, in small letters: also names of crawlers without "bot".
_NAMES = sorted(name.lower() for names in CRAWLERS.values() for name in names)
_META = ("bot", "tdm-", "rights", "license", *(name for name in _NAMES if "bot" not in name))
_LINK = ("license",)
#: Beginnings of pages whose bytes are not those of ASCII.
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_UTF8 = b"\xef\xbb\xbf"
_SHORT = 400
_OTHERS = frozenset(("base", "meta", "link", "a"))


def rights_tags(page: bytes | str, charset: str | None = None, agent: str = "") -> PageTags:
    """Read the tags of a page that say something about rights, as `scan_tags` does; it leaves out the others.

    Time and memory are linear in the size of the page.

    Args:
        page: the page.
        charset: the charset that the server declared.
        agent: name of a crawler that ``<meta>`` may address.

    Examples:
        >>> tags = rights_tags('<meta name=Robots content="noai"><meta name=a content=b><a rel="license" href=l>')
        >>> tags.metas, tags.licences
        ({'robots': ['noai']}, [('', 'l')])
    """
    words = (*_META, agent.lower()) if agent else _META
    if isinstance(page, bytes) and not page.startswith(_WIDE):
        text = page.removeprefix(_UTF8).replace(b"\0", b"").decode("latin-1")
        return _scan(text, words, partial(_decoded, charset=charset))
    return _scan(decoded(page, charset) if isinstance(page, bytes) else markup(page), words, str)


def _scan(page: str, words: tuple[str, ...], read: Callable[[str], str]) -> PageTags:
    """Read the tags of a text.

    Args:
        page: the text; its characters may be bytes.
        words: what a ``<meta>`` that counts holds one of.
        read: makes text of the characters of a value.
    """
    tags, at = PageTags(), 0
    while mark := _MARK.search(page, at):
        at = mark.end()
        kind = mark.lastindex
        if kind is None:
            closing = page.find("-->", at - 2)
            if closing < 0:
                break
            at = closing + 3
            continue
        name = mark[kind].lower()
        if name in ENDS:
            end = ENDS[name].search(page, at)
            if end is None:
                break
            if name == "script" and _is_data(page[at : at + _SHORT].lower()):
                attributes, begin = attributes_at(page, at)
                add_contents(tags, name, attributes, read(page[begin : end.start()]))
            at = end.end()
        elif name in _OTHERS and (name == "base" or _may_count(page, at, words if name == "meta" else _LINK)):
            attributes, at = attributes_at(page, at)
            add_tag(tags, name, {key: read(value) for key, value in attributes.items()})
    return tags


def _may_count(page: str, at: int, words: tuple[str, ...]) -> bool:
    """Whether the tag at a place holds one of some words, goes on after a ``>`` in quotes, or does not end."""
    end = page.find(">", at)
    if end < 0:
        return True
    tag = page[at:end].lower()
    return any(map(tag.__contains__, words)) or tag.count('"') % 2 == 1 or tag.count("'") % 2 == 1


def _is_data(head: str) -> bool:
    """Whether a script may be RSL or JSON-LD, by the beginning of its tag in small letters."""
    return "rsl+xml" in head or "ld+json" in head or ">" not in head


def _decoded(text: str, *, charset: str | None) -> str:
    """Decode a text whose characters are bytes: as UTF-8, or else in the charset that was declared."""
    if text.isascii():
        return text
    data = text.encode("latin-1")
    for encoding in ("utf-8", charset or "cp1252"):
        try:
            return data.decode(encoding)
        except (ValueError, LookupError):
            continue
    return text

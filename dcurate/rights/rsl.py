"""What a licence document of Really Simple Licensing 1.0 permits and prohibits (https://rslstandard.org/rsl)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from dcurate.rights.fields import USES, Statement, Use
from dcurate.rights.robots import encoded, matches
from dcurate.rights.xml import XmlError, read_xml

_NAMESPACE = "https://rslstandard.org/rsl"
#: Characters of a document that are read; those of sites have a few thousand.
LARGEST_RSL = 2**20
#: The words for uses that cover each use; "train-ai" and "train-genai" are those of the drafts of 2025.
_COVERS: Mapping[Use, frozenset[str]] = {
    "train": frozenset(("ai-train", "ai-all", "all", "train-ai", "train-genai")),
    "search": frozenset(("search", "all")),
}
#: Words for uses that are neither training nor search.
_OTHERS = frozenset(("ai-input", "ai-index"))
_KNOWN = _OTHERS.union(*_COVERS.values())
#: Payments that ask for no agreement before the use.
_WITHOUT_AGREEMENT = ("free", "attribution", "")


@dataclass
class _License:
    """Terms: words by the kind of ``<permits>`` and ``<prohibits>``, the payment, and whether a report is asked for."""

    permits: dict[str, set[str]] = field(default_factory=dict)
    prohibits: dict[str, set[str]] = field(default_factory=dict)
    payment: str = ""
    reporting: bool = False


@dataclass
class _Content:
    """The files that licences are for, by a pattern of RFC 9309."""

    url: str
    server: bool
    licenses: list[_License] = field(default_factory=list)


class _Verdict(NamedTuple):
    """Whether a use is licensed, whether the terms name it, and what else they ask for."""

    allowed: bool
    named: bool
    terms: str = ""


def rsl_statements(text: str, url: str, *, embedded: bool = False) -> list[Statement]:
    """Return what a document of RSL says about the uses of a file: whether they are licensed without an agreement.

    The narrowest pattern that matches and names a use decides; prohibition counts before permission. If uses are
    permitted by name, others are not. Uses that ask for a payment other than attribution, for a licence from a server,
    for a report, or that are for some users or countries only, are not licensed; nor are those beside a prohibition
    that is not understood.

    Args:
        text: the document.
        url: address of the file.
        embedded: whether the document is in the file, where an empty address means the file.

    Raises:
        XmlError: it is not a document of RSL, or has a document type declaration.

    Examples:
        >>> rsl = "<rsl xmlns='https://rslstandard.org/rsl'><content url='/'><license>"
        >>> rsl += "<prohibits type='usage'>ai-all</prohibits></license></content></rsl>"
        >>> [(said.text, said.allowed) for said in rsl_statements(rsl, "https://example.org/a")]
        [('prohibits train', False), ('permits search', True)]
    """
    contents = [content for content in _parsed(text) if content.licenses and _is_for(content.url, url, embedded)]
    contents.sort(key=lambda content: -len(_pattern(content.url)))
    return [said for use in USES if (said := _said(contents, use)) is not None]


def _said(contents: list[_Content], use: Use) -> Statement | None:
    """What contents, the narrowest first, say about a use; None if there are none."""
    verdicts = [(len(_pattern(content.url)), _verdict(content, use)) for content in contents]
    if not verdicts:
        return None
    decisive = next((length for length, verdict in verdicts if verdict.named), verdicts[0][0])
    equal = [verdict for length, verdict in verdicts if length == decisive]
    named = [verdict for verdict in equal if verdict.named] or equal
    verdict = next((verdict for verdict in named if not verdict.allowed), named[0])
    terms = f" ({verdict.terms})" if verdict.terms else ""
    return Statement(f"{'permits' if verdict.allowed or terms else 'prohibits'} {use}{terms}", use, verdict.allowed)


def _verdict(content: _Content, use: Use) -> _Verdict:
    words = _COVERS[use]
    verdicts = []
    for terms in content.licenses:
        permitted = terms.permits.get("usage")
        if words & terms.prohibits.get("usage", set()):
            return _Verdict(allowed=False, named=True)
        if permitted is not None and not words & permitted:
            verdicts.append(_Verdict(allowed=False, named=True))
        else:
            asked = _asked(terms, content)
            verdicts.append(_Verdict(not asked, permitted is not None, asked))
    return max(verdicts, key=lambda verdict: (verdict.allowed, bool(verdict.terms), verdict.named))


def _asked(terms: _License, content: _Content) -> str:
    """What terms ask for before a use; empty if nothing."""
    for kind in ("user", "geo"):
        if kind in terms.permits or kind in terms.prohibits:
            return f"for some by {kind}"
    if terms.prohibits.get("usage", set()) - _KNOWN:
        return "prohibits what is not understood"
    if terms.payment not in _WITHOUT_AGREEMENT:
        return f"payment {terms.payment}"
    return "licence of a server" if content.server else "report" if terms.reporting else ""


def _is_for(pattern: str, url: str, embedded: bool) -> bool:
    if not pattern:
        return embedded
    try:
        asked, parts = urlsplit(pattern), urlsplit(url)
        same_host = not asked.netloc or asked.netloc.lower() == parts.netloc.lower()
    except ValueError:
        return False
    path = parts.path or "/"
    return same_host and matches(_pattern(pattern), encoded(f"{path}?{parts.query}" if parts.query else path))


def _pattern(url: str) -> str:
    """The pattern of paths in an address."""
    if url.startswith("/") or "://" not in url:
        return encoded(url)
    return encoded("/" + url.partition("://")[2].partition("/")[2])


def _parsed(text: str) -> list[_Content]:
    if len(text) > LARGEST_RSL:
        raise XmlError(f"it has more than {LARGEST_RSL:,} characters")
    reader = _Reader()
    read_xml(text.strip().encode("utf-8", "replace"), reader)
    if not reader.is_rsl:
        raise XmlError(f"its first element is not rsl of {_NAMESPACE}")
    return reader.contents


class _Reader:
    """Collects contents from the events of a parser; elements of other namespaces are passed over."""

    def __init__(self) -> None:
        self.is_rsl = False
        self.contents: list[_Content] = []
        self._depth = 0
        self._words: list[str] | None = None
        self._kind = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        namespace, _, name = tag.rpartition(" ")
        self._depth += 1
        if self._depth == 1:
            self.is_rsl = name == "rsl" and namespace == _NAMESPACE
        if namespace != _NAMESPACE:
            return
        if name == "content":
            self.contents.append(_Content(attributes.get("url", "").strip(), bool(attributes.get("server"))))
        elif name == "license" and self.contents:
            self.contents[-1].licenses.append(_License())
        elif (terms := self._terms()) is not None:
            if name in ("permits", "prohibits"):
                self._words, self._kind = [], attributes.get("type", "").strip()
            elif name == "payment":
                terms.payment = attributes.get("type", "").strip()
            elif name == "reporting":
                terms.reporting = True

    def data(self, text: str) -> None:
        if self._words is not None:
            self._words.append(text)

    def end(self, tag: str) -> None:
        self._depth -= 1
        name = tag.rpartition(" ")[2]
        terms = self._terms()
        if self._words is None or terms is None or name not in ("permits", "prohibits"):
            return
        words = "".join(self._words).replace(",", " ").split()  # RSL 0.9 had commas
        (terms.permits if name == "permits" else terms.prohibits).setdefault(self._kind, set()).update(words)
        self._words = None

    def _terms(self) -> _License | None:
        return self.contents[-1].licenses[-1] if self.contents and self.contents[-1].licenses else None

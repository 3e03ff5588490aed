"""What the owners of a web site say about the use of its files: robots.txt, X-Robots-Tag, TDMRep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
from urllib3.util import parse_url

#: Characters that addresses hold unencoded, besides letters and digits; and the pattern of an encoded byte.
_SAFE, _ESCAPE = "!$&'()*+,;=:@/?%-._~", re.compile(r"%[0-9a-fA-F]{2}")
#: Bytes of robots.txt that are read, as https://www.rfc-editor.org/rfc/rfc9309 asks for at least.
LARGEST_ROBOTS = 500 * 2**10


class _Rule(NamedTuple):
    pattern: str
    allows: bool


class Robots(NamedTuple):
    r"""The rules of a robots.txt for one agent, as RFC 9309 has them.

    Examples:
        >>> robots = Robots.of("User-agent: *\nDisallow: /private/\nAllow: /private/open/*.png$", "dcurate")
        >>> [robots.allows(path) for path in ("/a.png", "/private/a.png", "/private/open/a.png")]
        [True, False, True]
    """

    rules: tuple[_Rule, ...]

    @classmethod
    def of(cls, text: str, agent: str) -> Robots:
        """Read the rules for an agent; those for all agents if none are for it."""
        own_rules: list[_Rule] = []
        other_rules: list[_Rule] = []
        agent = agent.lower()
        is_own = is_other = in_rules = has_own = False
        for line in text.lstrip("\ufeff").splitlines():
            field, colon, value = line.partition("#")[0].partition(":")
            field, value = field.strip().lower(), value.strip()
            if not colon:
                continue
            if field == "user-agent":
                if in_rules:
                    is_own = is_other = in_rules = False
                name = value.partition("/")[0].strip().lower()
                is_own, is_other = is_own or name == agent, is_other or name == "*"
                has_own = has_own or is_own
            elif field in ("allow", "disallow"):
                in_rules = True
                rule = _Rule(_encoded(value), field == "allow")
                if is_own and value:
                    own_rules.append(rule)
                if is_other and value:
                    other_rules.append(rule)
        return cls(tuple(own_rules if has_own else other_rules))

    def allows(self, path: str) -> bool:
        """Whether a path, with its query, may be fetched: the longest rule that matches says so."""
        matches = [rule for rule in self.rules if _matches(rule.pattern, path)]
        return max(matches, key=lambda rule: (len(rule.pattern), rule.allows)).allows if matches else True


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern with ``*`` for any text and ``$`` for the end matches the beginning of a path.

    Examples:
        >>> [_matches("/a/*.png$", path) for path in ("/a/b.png", "/a/b.png?x", "/b.png")]
        [True, False, False]
    """
    ends = pattern.endswith("$")
    first, *pieces = (pattern[:-1] if ends else pattern).split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    if not pieces:
        return not ends or at == len(path)
    *inner, last = pieces
    for part in inner:
        at = path.find(part, at)
        if at < 0:
            return False
        at += len(part)
    if ends:
        return path.endswith(last) and len(path) - len(last) >= at
    return path.find(last, at) >= 0


def path_of(url: str) -> str:
    r"""The path of an address with its query, as a request has it.

    Examples:
        >>> path_of("http://host/a/../caf\xe9?b#c"), path_of("http://host")
        ('/caf%C3%A9?b', '/')
    """
    return parse_url(url).request_uri


def _encoded(pattern: str) -> str:
    """A pattern in the form of `path_of`, as RFC 9309 asks for, so that ``/café`` matches ``/caf%C3%A9``."""
    return _ESCAPE.sub(lambda match: match[0].upper(), quote(pattern, safe=_SAFE))


def robots_tags(headers: Iterable[tuple[str, str]], agent: str) -> list[str]:
    """The directives of ``X-Robots-Tag`` for an agent, in lower case.

    Examples:
        >>> robots_tags([("X-Robots-Tag", "noai, NoImageAI"), ("x-robots-tag", "otherbot: noindex")], "dcurate")
        ['noai', 'noimageai']
    """
    tags: list[str] = []
    for name, value in headers:
        if name.lower() != "x-robots-tag":
            continue
        before, colon, after = value.partition(":")
        is_named = bool(colon) and "," not in before
        if is_named and before.strip().lower() not in (agent.lower(), "*"):
            continue
        tags += [tag.strip().lower() for tag in (after if is_named else value).split(",") if tag.strip()]
    return list(dict.fromkeys(tags))


def tdm_reservation(headers: Iterable[tuple[str, str]]) -> bool | None:
    """Whether the header of TDMRep reserves the rights of text and data mining; None if there is no such header.

    Examples:
        >>> tdm_reservation([("tdm-reservation", "1")]), tdm_reservation([])
        (True, None)
    """
    values = [value.strip() for name, value in headers if name.lower() == "tdm-reservation"]
    return None if not values else values[0] == "1"


def tdm_rules(data: bytes) -> list[tuple[str, bool]]:
    """The rules of a site's ``/.well-known/tdmrep.json``: a pattern of paths, and whether rights are reserved.

    Examples:
        >>> tdm_rules(b'[{"location": "/photos/", "tdm-reservation": 1}]')
        [('/photos/', True)]
        >>> tdm_rules(b"<html>")
        []
    """
    try:
        rules: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        return []
    return [
        (_encoded(rule["location"]), rule.get("tdm-reservation") == 1)
        for rule in (rules if isinstance(rules, list) else [])
        if isinstance(rule, dict) and isinstance(rule.get("location"), str)
    ]


def is_reserved(rules: Sequence[tuple[str, bool]], path: str) -> bool | None:
    """Whether the first rule that matches a path reserves rights; None if none matches."""
    return next((reserved for location, reserved in rules if _matches(location, path)), None)

"""HTTP headers and tags that say how a file may be used: X-Robots-Tag, TDMRep, links to licences."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from dcurate.rights.robots import encoded, matches

#: The headers that say something about rights.
_NAMES = "content-usage|x-robots-tag|tdm-reservation|tdm-policy|link"
_LINE = re.compile(rf"^({_NAMES})[ \t]*:([^\n]*)$", re.IGNORECASE | re.MULTILINE)
_FOLDED = re.compile(r"\r?\n[ \t]+")
_LINK = re.compile(r'[\s,]*<([^>]*)>((?:[^",<]|"[^"]*+"?)*+)')
_PARAMETER = re.compile(r';\s*+([\w*-]++)\s*+=\s*+(?:"([^"]*+)"|([^\s;,"]*+))')
#: Directives of robots that have a value after a colon.
_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
RSL_TYPE = "application/rsl+xml"


def header_values(text: str) -> list[tuple[str, str]]:
    r"""Return the headers that say something about rights, with their names in small letters, in their order.

    Args:
        text: header lines of a response, as `WarcReader` gives them in ``http_headers``.

    Examples:
        >>> header_values("HTTP/1.1 200 OK\r\nContent-Usage: train-ai=n,\r\n search=y\r\nServer: a\r\n")
        [('content-usage', 'train-ai=n, search=y')]
    """
    if "\n " in text or "\n\t" in text:
        text = _FOLDED.sub(" ", text)
    return [(match[1].lower(), match[2].strip()) for match in _LINE.finditer(text)]


def robots_tags(headers: Iterable[tuple[str, str]], agent: str) -> list[str]:
    """The directives of ``X-Robots-Tag`` for an agent, in lower case.

    Examples:
        >>> robots_tags([("X-Robots-Tag", "noai, NoImageAI"), ("x-robots-tag", "otherbot: noindex")], "dcurate")
        ['noai', 'noimageai']
    """
    tags: list[str] = []
    for name, value in headers:
        if name.lower() == "x-robots-tag":
            named, directives = agent_and_tags(value)
            if named in ("", "*", agent.lower()):
                tags += directives
    return list(dict.fromkeys(tags))


def agent_and_tags(value: str) -> tuple[str, list[str]]:
    """Return the agent that a value of ``X-Robots-Tag`` names, empty for all, and its directives, in lower case.

    Examples:
        >>> agent_and_tags("GPTBot: noindex, nofollow"), agent_and_tags("max-snippet: 10, noai")
        (('gptbot', ['noindex', 'nofollow']), ('', ['max-snippet: 10', 'noai']))
    """
    before, colon, after = value.partition(":")
    agent = before.strip().lower()
    is_named = bool(colon) and "," not in before and agent not in _VALUED
    tags = [tag.strip().lower() for tag in (after if is_named else value).split(",")]
    return agent if is_named else "", [tag for tag in tags if tag]


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

    A rule whose ``tdm-reservation`` is neither 0 nor 1, as a number or text, is left out, as it says neither.

    Examples:
        >>> tdm_rules(b'[{"location": "/photos/", "tdm-reservation": 1}]')
        [('/photos/', True)]
        >>> tdm_rules(b"<html>")
        []
    """
    try:
        rules: Any = orjson.loads(data.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError:
        return []
    return [
        (encoded(rule["location"]), rule["tdm-reservation"] in (1, "1"))
        for rule in (rules if isinstance(rules, list) else [])
        if isinstance(rule, dict) and isinstance(rule.get("location"), str)
        if rule.get("tdm-reservation") in (0, 1, "0", "1")
    ]


def is_reserved(rules: Sequence[tuple[str, bool]], path: str) -> bool | None:
    """Whether the first rule that matches a path reserves rights; None if none matches."""
    return next((reserved for location, reserved in rules if matches(location, path)), None)


def licence_links(value: str) -> list[tuple[str, bool]]:
    """Return the licences that a header ``Link`` names, and whether each is a document of RSL.

    Examples:
        >>> licence_links('<https://a.org/l.xml>; rel="license"; type="application/rsl+xml", </next>; rel=next')
        [('https://a.org/l.xml', True)]
    """
    links = []
    at = 0
    while link := _LINK.match(value, at):
        at = link.end()
        parameters = {match[1].lower(): match[2] or match[3] or "" for match in _PARAMETER.finditer(link[2])}
        if "license" in parameters.get("rel", "").lower().split():
            links.append((link[1].strip(), is_rsl(parameters.get("type", ""))))
    return links


def is_rsl(media_type: str) -> bool:
    """Whether a media type is that of RSL."""
    return media_type.partition(";")[0].strip().lower() == RSL_TYPE

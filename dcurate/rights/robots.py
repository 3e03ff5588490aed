"""robots.txt: rules by agent (RFC 9309), statements of use (AIPREF, Content Signals) and licences (RSL)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from string import ascii_letters, digits
from typing import NamedTuple
from urllib.parse import quote

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

#: Characters that addresses hold unencoded, besides letters and digits; and the pattern of an encoded byte.
_SAFE, _ESCAPE = "!$&'()*+,;=:@/?%-._~", re.compile(r"%[0-9a-fA-F]{2}")
_UNRESERVED = frozenset(f"{ascii_letters}{digits}-._~")
#: Bytes of robots.txt that are read, as https://www.rfc-editor.org/rfc/rfc9309 asks for at least.
LARGEST_ROBOTS = 500 * 2**10
#: Characters of a path that rules are compared with; browsers refuse addresses that are much longer.
_LONGEST_PATH = 2**14
_PATH_THEN_VALUE = re.compile(r"(/[^ \t]*)?[ \t]*(.*)", re.DOTALL)


class RuleAnswer(NamedTuple):
    """What a rule says that matches a path: the length of its pattern, and whether it allows; the larger one counts."""

    length: int
    allows: bool


class PathRules:
    """Rules of a group, in an order in which a path is compared with few of them.

    Plain patterns are looked up by the beginnings of the path that are as long as one of them. Those with ``*`` and
    ``$`` are tried from the longest on. As agents share groups, the answer for the last path is kept.
    """

    def __init__(self) -> None:
        self._plain: dict[int, dict[str, bool]] = {}
        self._wild: dict[str, bool] = {}
        self._sorted: tuple[list[int], list[tuple[str, bool]]] | None = None
        self._last: tuple[str, RuleAnswer | None] | None = None

    def __bool__(self) -> bool:
        return bool(self._plain or self._wild)

    def add(self, pattern: str, *, allows: bool) -> None:
        """Add a rule; of two with the same pattern the one that allows counts."""
        is_plain = "*" not in pattern and not pattern.endswith("$")
        rules = self._plain.setdefault(len(pattern), {}) if is_plain else self._wild
        rules[pattern] = allows or rules.get(pattern, False)
        self._sorted = self._last = None

    def answer(self, path: str) -> RuleAnswer | None:
        """Return what the longest rule says that matches a path; None if none does."""
        last = self._last  # threads share the rules
        if last is None or last[0] != path:
            self._last = last = path, self._answer(path)
        return last[1]

    def _answer(self, path: str) -> RuleAnswer | None:
        if self._sorted is None:
            wild = sorted(self._wild.items(), key=lambda rule: (len(rule[0]), rule[1]), reverse=True)
            self._sorted = sorted(self._plain, reverse=True), wild
        lengths, wild = self._sorted
        allowed = ((length, self._plain[length].get(path[:length])) for length in lengths if length <= len(path))
        best = next((RuleAnswer(length, allows) for length, allows in allowed if allows is not None), None)
        for pattern, allows in wild:
            answer = RuleAnswer(len(pattern), allows)
            if best is not None and answer <= best:
                break
            if matches(pattern, path):
                return answer
        return best


class UsageLine(NamedTuple):
    """A statement of use: its field in small letters, the paths that it is for (empty: all), and its value."""

    field: str
    pattern: str
    value: str


class Group(NamedTuple):
    """The lines of a robots.txt that are for some agents.

    Args:
        agents: names of the agents in small letters.
        rules: what they may fetch.
        usages: lines ``Content-Usage`` and ``Content-Signal``.
        licences: addresses of RSL licences.
    """

    agents: list[str]
    rules: PathRules
    usages: list[UsageLine]
    licences: list[str]


class Robots(NamedTuple):
    r"""What a robots.txt says to one agent.

    Args:
        rules: what it may fetch, by group.
        usages: how it may use what it fetched.
        licences: addresses of RSL licences: of its group, or else those outside of groups.

    Examples:
        >>> robots = Robots.of("User-agent: *\nDisallow: /private/\nAllow: /private/open/*.png$", "dcurate")
        >>> [robots.allows(path) for path in ("/a.png", "/private/a.png", "/private/open/a.png")]
        [True, False, True]
    """

    rules: tuple[PathRules, ...] = ()
    usages: tuple[UsageLine, ...] = ()
    licences: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, agent: str) -> Robots:
        """Read what is for an agent; what is for all agents if nothing is for it."""
        return RobotsFile.of(text).robots(agent)

    def allows(self, path: str) -> bool:
        """Whether a path, with its query, may be fetched: the longest rule that matches says so."""
        path = path[:_LONGEST_PATH]
        answers = [answer for rules in self.rules if (answer := rules.answer(path)) is not None]
        return max(answers).allows if answers else True

    def usages_of(self, path: str) -> list[UsageLine]:
        r"""Return the statements for a path: of each field those of the longest pattern; none if it is disallowed.

        Examples:
            >>> text = "User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /ok/ train-ai=y"
            >>> [usage.value for usage in Robots.of(text, "dcurate").usages_of("/ok/test")]
            ['train-ai=y']
        """
        if not self.usages or not self.allows(path):
            return []
        path = path[:_LONGEST_PATH]
        matching = [usage for usage in self.usages if matches(usage.pattern, path)]
        longest: dict[str, int] = {}
        for usage in matching:
            longest[usage.field] = max(longest.get(usage.field, 0), len(usage.pattern))
        return [usage for usage in matching if len(usage.pattern) == longest[usage.field]]


class RobotsFile(NamedTuple):
    """A robots.txt, read once for all agents.

    Args:
        groups: its groups of lines in their order.
        licences: addresses of RSL licences outside of groups.
    """

    groups: tuple[Group, ...] = ()
    licences: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> RobotsFile:
        r"""Read a robots.txt; lines that are not understood are left out, as RFC 9309 asks for.

        Examples:
            >>> RobotsFile.of("License: https://example.org/l.xml\nUser-agent: GPTBot\nDisallow: /").licences
            ('https://example.org/l.xml',)
        """
        groups: list[Group] = []
        licences: list[str] = []
        in_rules = True
        for line in text[:LARGEST_ROBOTS].lstrip("\ufeff").splitlines():
            field, colon, value = line.partition("#")[0].partition(":")
            field, value = field.strip().lower(), value.strip()
            if not colon:
                continue
            if field == "user-agent":
                if in_rules:
                    groups.append(Group([], PathRules(), [], []))
                in_rules = False
                groups[-1].agents.append(value.partition("/")[0].strip().lower())
            elif field == "license":
                # A licence does not end the names of a group, as readers that do not know it pass over it.
                (groups[-1].licences if groups else licences).append(value)
            elif groups and field in ("allow", "disallow", "content-usage", "content-signal"):
                in_rules = True
                _add(groups[-1], field, value)
        return cls(tuple(groups), tuple(licences))

    def robots(self, agent: str) -> Robots:
        """Return what the file says to an agent: in its groups, or else in those of all agents."""
        named = [group for group in self.groups if agent.lower() in group.agents]
        robots = _joined(named or [group for group in self.groups if "*" in group.agents])
        return robots if robots.licences else robots._replace(licences=self.licences)


def _add(group: Group, field: str, value: str) -> None:
    if field in ("allow", "disallow"):
        if value:
            group.rules.add(encoded(value), allows=field == "allow")
        return
    match = _PATH_THEN_VALUE.fullmatch(value)
    assert match is not None, "the pattern matches any text"
    group.usages.append(UsageLine(field, encoded(match[1] or ""), match[2]))


def _joined(groups: Iterable[Group]) -> Robots:
    groups = list(groups)
    return Robots(
        tuple(group.rules for group in groups if group.rules),
        tuple(usage for group in groups for usage in group.usages),
        tuple(licence for group in groups for licence in group.licences),
    )


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern with ``*`` for any text and ``$`` for the end matches the beginning of a path.

    Examples:
        >>> [matches("/a/*.png$", path) for path in ("/a/b.png", "/a/b.png?x", "/b.png")]
        [True, False, False]
    """
    ends = pattern.endswith("$")
    if not ends and "*" not in pattern:
        return path.startswith(pattern)
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
    r"""The path of an address with its query, as a request has it, but for escapes that are not needed.

    Examples:
        >>> path_of("http://host/a/../caf\xe9?b#c"), path_of("http://host")
        ('/caf%C3%A9?b', '/')
    """
    return _plain(parse_url(url).request_uri)


def host_and_path(url: str) -> tuple[str, str]:
    """Return the host of an address, with a port that is not the usual one, and its path; empty if it has none.

    Examples:
        >>> host_and_path("https://Example.org:443/a"), host_and_path("https://example.org:8080"), host_and_path("x:y")
        (('example.org', '/a'), ('example.org:8080', '/'), ('', '/'))
    """
    try:
        parts = parse_url(url[:_LONGEST_PATH])
    except (LocationParseError, UnicodeError):
        return "", "/"
    if not parts.host or parts.scheme not in ("http", "https"):
        return "", "/"
    usual = {"http": 80, "https": 443}[parts.scheme]
    host = parts.host.lower()
    return (host if parts.port in (None, usual) else f"{host}:{parts.port}"), _plain(parts.request_uri)


def encoded(pattern: str) -> str:
    """A pattern in the form of `path_of`, as RFC 9309 asks for, so that ``/café`` matches ``/caf%C3%A9``."""
    return _plain(quote(pattern, safe=_SAFE, errors="replace"))


def _plain(path: str) -> str:
    """A path without escapes of characters that need none (RFC 3986); the other escapes in capital letters."""
    return _ESCAPE.sub(_unescaped, path) if "%" in path else path


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if character in _UNRESERVED else escape[0].upper()


class Refusal(NamedTuple):
    """Rules that a file has for some agents, ``*`` for those that it does not name."""

    agents: tuple[str, ...]
    robots: Robots


def refusals(file: RobotsFile, agents: Sequence[str]) -> list[Refusal]:
    r"""Return the rules of a file for agents: agents of the same groups together, those without rules left out.

    Examples:
        >>> file = RobotsFile.of("User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /\nUser-agent: *\nDisallow: /x")
        >>> [refusal.agents for refusal in refusals(file, ["CCBot", "ClaudeBot", "GPTBot"])]
        [('CCBot', 'GPTBot'), ('*',)]
    """
    of_name: dict[str, list[int]] = {}
    for number, group in enumerate(file.groups):
        for name in group.agents:
            of_name.setdefault(name, []).append(number)
    of_groups: dict[tuple[int, ...], list[str]] = {}
    for agent in agents:
        named = agent.lower() in of_name
        names = of_groups.setdefault(tuple(of_name.get(agent.lower() if named else "*", ())), [])
        if named or "*" not in names:
            names.append(agent if named else "*")
    joined = ((names, _joined(file.groups[number] for number in numbers)) for numbers, names in of_groups.items())
    return [Refusal(tuple(names), robots) for names, robots in joined if robots.rules]

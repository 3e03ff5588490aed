"""What headers, markup and robots.txt say about the rights to a file, each as a signal, and what they say together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urljoin

from dcurate.rights.crawlers import CRAWLERS
from dcurate.rights.fields import USES, Statement, Use, content_signal, content_usage
from dcurate.rights.headers import (
    RSL_TYPE,
    agent_and_tags,
    header_values,
    is_reserved,
    licence_links,
    tdm_rules,
)
from dcurate.rights.licences import spdx_licence
from dcurate.rights.robots import LARGEST_ROBOTS, Refusal, Robots, RobotsFile, refusals
from dcurate.rights.rsl import rsl_statements
from dcurate.rights.xml import XmlError
from dcurate.text.extract.page_facts import LinkedData
from dcurate.text.extract.tags import PageTags

#: Where signals come from: what reports count by.
PLACES = (
    *("header Content-Usage", "header X-Robots-Tag", "header TDMRep", "header Link"),
    *("html robots", "html TDMRep", "html licence", "html RSL"),
    *("robots.txt Content-Usage", "robots.txt Content-Signal", "robots.txt Disallow", "robots.txt License"),
    *("tdmrep.json", "RSL", "file XMP", "file EXIF", "file IPTC", "file C2PA", "file text", "row licence"),
)
#: Directives of robots that say something about rights, without an effect on a use here.
_NOTED = frozenset(("noimageai", "nosnippet", "noarchive", "nocache", "notranslate"))
#: Directives of robots that say how pages are shown or visited.
_NEUTRAL = frozenset(
    (
        "all",
        "index",
        "follow",
        "nofollow",
        "noimageindex",
        "imageindex",
        "indexifembedded",
        "noodp",
        "noydir",
        "archive",
    )
)
_NO_INDEX = frozenset(("noindex", "none"))
_META_LICENCES = (
    *("dcterms.license", "dcterms.rights", "dcterms.rights.license", "dc.rights", "dc.rights.license", "dc.license"),
    *("dc.terms.license", "license", "rights"),
)
_SEARCHERS = frozenset(name.lower() for name in CRAWLERS["search"])
_TRAINERS = frozenset(name.lower() for name in CRAWLERS["train"])
_CRAWLERS = _SEARCHERS | _TRAINERS
#: Characters of a signal or of an address of a licence that are kept, and how many of either a row has.
LONGEST, LONGEST_ADDRESS, MOST = 200, 1000, 32
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\s]+")
UNKNOWN = " (not understood)"


class RightsSignal(NamedTuple):
    """One thing that is said about the rights to a file.

    Args:
        place: where it is said, of `PLACES`.
        text: what is said.
        use: the use that it is about; None if it has no effect on one.
        allowed: whether the use is allowed.
    """

    place: str
    text: str
    use: Use | None = None
    allowed: bool | None = None

    def __str__(self) -> str:
        """The signal on one line; its effect on a use comes last."""
        text = _CONTROLS.sub(" ", self.text[: 2 * LONGEST]).strip()
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
        effect = f" -> {self.use}={'yes' if self.allowed else 'no'}" if self.use else ""
        return f"{self.place}: {text}{effect}"


class RightsSignals(NamedTuple):
    """Signals, and licences as SPDX identifiers or addresses."""

    signals: list[RightsSignal]
    licences: list[str]


class RightsVerdict(NamedTuple):
    """What signals say together.

    Args:
        train: whether the file may be used to train models; None if nothing is said.
        search: whether it may be used for search; likewise.
        conflict: whether signals contradict each other; the stricter ones count.
    """

    train: bool | None
    search: bool | None
    conflict: bool


def verdict_of(signals: Iterable[RightsSignal]) -> RightsVerdict:
    """Return what signals say together, in any order: the strictest counts.

    Examples:
        >>> yes, no = (RightsSignal("RSL", "", "train", allowed) for allowed in (True, False))
        >>> verdict_of([yes, no]), verdict_of([yes]).train, verdict_of([]).train
        (RightsVerdict(train=False, search=None, conflict=True), True, None)
    """
    said: dict[Use, set[bool]] = {use: set() for use in USES}
    for signal in signals:
        if signal.use is not None and signal.allowed is not None:
            said[signal.use].add(signal.allowed)
    train, search = (min(said[use]) if said[use] else None for use in USES)
    return RightsVerdict(train, search, any(len(answers) > 1 for answers in said.values()))


def of_headers(text: str, url: str, agent: str, train_tags: frozenset[str]) -> RightsSignals:
    """Return what the headers of a response say.

    Args:
        text: header lines.
        url: address of the page.
        agent: name of the crawler.
        train_tags: directives of robots that forbid training.
    """
    signals: list[RightsSignal] = []
    licences: list[str] = []
    headers = header_values(text)
    usages = [value for name, value in headers if name == "content-usage"]
    if usages:
        signals += _stated("header Content-Usage", content_usage(", ".join(usages)))
    for name, value in headers:
        if name == "x-robots-tag":
            named, tags = agent_and_tags(value)
            signals += _tagged("header X-Robots-Tag", named, tags, agent, train_tags)
        elif name == "tdm-reservation":
            signals.append(reserved("header TDMRep", value))
        elif name == "tdm-policy":
            signals.append(RightsSignal("header TDMRep", f"tdm-policy {value}"))
        elif name == "link":
            for address, is_rsl in licence_links(value):
                if is_rsl:
                    signals.append(RightsSignal("header Link", f"{address} (not read)"))
                else:
                    licences.append(licence_of(address, url))
    return RightsSignals(signals, licences)


def of_page(tags: PageTags, url: str, agent: str, train_tags: frozenset[str]) -> RightsSignals:
    """Return what the tags of a page say; arguments as for `of_headers`."""
    signals: list[RightsSignal] = []
    base = _joined(url, tags.base)
    named = [name for name in tags.metas if name == agent.lower() or name in _CRAWLERS]
    for name in ("robots", *sorted(named)):
        for value in tags.metas.get(name, ()):
            words = [word.strip().lower() for word in value.split(",")]
            signals += _tagged("html robots", "" if name == "robots" else name, words, agent, train_tags)
    signals += [reserved("html TDMRep", value) for value in tags.metas.get("tdm-reservation", ())]
    signals += [RightsSignal("html TDMRep", f"tdm-policy {value}") for value in tags.metas.get("tdm-policy", ())]
    for script in tags.rsl:
        signals += _licensed("html RSL", script, url, embedded=True)
    licences = []
    for media_type, address in tags.licences:
        if media_type == RSL_TYPE:
            signals.append(RightsSignal("html RSL", f"{_joined(base, address)} (not read)"))
        else:
            licences.append(licence_of(address, base))
    if any("license" in script for script in tags.json_ld):
        licences += [licence_of(address, base) for address in LinkedData.of(tags.json_ld).addresses("license")]
    for name in _META_LICENCES:
        for value in tags.metas.get(name, ()):
            if licence := spdx_licence(value) or (value if value.startswith(("http://", "https://")) else ""):
                licences.append(licence[:LONGEST_ADDRESS])
            else:
                signals.append(RightsSignal("html licence", f"{value}{UNKNOWN}"))
    return RightsSignals(signals, licences)


def of_robots(text: str, path: str, agent: str) -> list[RightsSignal]:
    """Return what a robots.txt says about a path: to an agent, and to the crawlers of `CRAWLERS`."""
    robots, crawlers = _read_robots(text[:LARGEST_ROBOTS], agent)
    signals: list[RightsSignal] = []
    for usage in robots.usages_of(path):
        if usage.field == "content-usage":
            signals += _stated("robots.txt Content-Usage", content_usage(usage.value))
        else:
            signals += _stated("robots.txt Content-Signal", content_signal(usage.value))
    signals += [RightsSignal("robots.txt License", f"{address} (not read)") for address in robots.licences]
    for use, refused in crawlers:
        names = [name for refusal in refused if not refusal.robots.allows(path) for name in refusal.agents]
        if names:
            text = ", ".join(sorted(names, key=str.lower))
            signals.append(RightsSignal("robots.txt Disallow", text, use, allowed=False))
    return signals


@lru_cache(maxsize=16)
def _read_robots(text: str, agent: str) -> tuple[Robots, list[tuple[Use, list[Refusal]]]]:
    """Read a robots.txt; the last ones are kept, as pages of a host come one after the other."""
    file = RobotsFile.of(text)
    return file.robots(agent), [(use, refusals(file, CRAWLERS[use])) for use in USES]


def of_site(tdmrep: str, rsl: str, url: str, path: str) -> list[RightsSignal]:
    """Return what the documents of a site say: ``/.well-known/tdmrep.json`` and one of RSL; empty ones say nothing."""
    signals = []
    rules = tdm_rules(tdmrep.encode("utf-8", "replace"))
    reservation = is_reserved(rules, path)
    if reservation is not None:
        signals.append(reserved("tdmrep.json", str(int(reservation))))
    elif not rules and tdmrep.strip() not in ("", "[]"):
        signals.append(RightsSignal("tdmrep.json", f"{tdmrep[:LONGEST]}{UNKNOWN}"))
    return signals + (_licensed("RSL", rsl, url) if rsl else [])


def _stated(place: str, statements: Sequence[Statement]) -> list[RightsSignal]:
    return [
        RightsSignal(place, said.text if said.use else f"{said.text[:LONGEST]}{UNKNOWN}", said.use, said.allowed)
        for said in statements
    ]


def _tagged(place: str, named: str, tags: Sequence[str], agent: str, train_tags: frozenset[str]) -> list[RightsSignal]:
    """Return what directives say, if they are for all, for the agent, or for a crawler that is known."""
    is_own = named in ("", "*", agent.lower())
    if not is_own and named not in _CRAWLERS:
        return []
    signals = []
    for tag in tags:
        text = f"{named}: {tag}" if named else tag
        if tag in train_tags:
            signals.append(RightsSignal(place, text, "train", allowed=False))
        elif tag in _NO_INDEX and named not in _TRAINERS:
            signals.append(RightsSignal(place, text, "search", allowed=False))
        elif tag in _NOTED or tag in _NO_INDEX:
            signals.append(RightsSignal(place, text))
        elif tag and tag not in _NEUTRAL and not tag.startswith(("max-", "unavailable_after")):
            signals.append(RightsSignal(place, f"{text[:LONGEST]}{UNKNOWN}"))
    return signals


def reserved(place: str, value: str) -> RightsSignal:
    """Return what a value of TDMRep says."""
    value = value.strip()
    if value not in ("0", "1"):
        return RightsSignal(place, f"tdm-reservation {value[:LONGEST]}{UNKNOWN}")
    return RightsSignal(place, f"tdm-reservation {value}", "train", value == "0")


def _licensed(place: str, text: str, url: str, *, embedded: bool = False) -> list[RightsSignal]:
    try:
        return _stated(place, rsl_statements(text, url, embedded=embedded))
    except XmlError as error:
        return [RightsSignal(place, f"{error}{UNKNOWN}")]


def licence_of(address: str, base: str) -> str:
    """Return a licence by its address, which may be relative to another."""
    return spdx_licence(address) or _joined(base, address)[:LONGEST_ADDRESS]


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address

"""Licences as identifiers of SPDX: from addresses and short names; and groups of them for policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set

#: Identifiers of https://spdx.org/licenses that texts, data and documentation have, in the group that each is in first.
_FIRST_GROUPS: Mapping[str, str] = {
    "public-domain": "CC0-1.0 CC-PDM-1.0 CC-PDDC PDDL-1.0 Unlicense 0BSD WTFPL MIT-0",
    "permissive": (
        "Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 ISC MIT Zlib ODC-By-1.0 OGL-UK-1.0 OGL-UK-2.0 OGL-UK-3.0 "
        "OGL-Canada-2.0 etalab-2.0 DL-DE-BY-2.0 DL-DE-ZERO-2.0 NLOD-1.0 NLOD-2.0 CDLA-Permissive-1.0 "
        "CDLA-Permissive-2.0 Artistic-2.0 PostgreSQL Python-2.0"
    ),
    "open": (
        "GPL-2.0 GPL-2.0-only GPL-2.0-or-later GPL-3.0 GPL-3.0-only GPL-3.0-or-later LGPL-2.1 LGPL-2.1-only "
        "LGPL-2.1-or-later LGPL-3.0 LGPL-3.0-only LGPL-3.0-or-later AGPL-3.0 AGPL-3.0-only AGPL-3.0-or-later MPL-2.0 "
        "EPL-1.0 EPL-2.0 EUPL-1.1 EUPL-1.2 CDDL-1.0 GFDL-1.1 GFDL-1.2 GFDL-1.3 GFDL-1.3-only GFDL-1.3-or-later "
        "ODbL-1.0 LAL-1.3 CDLA-Sharing-1.0"
    ),
}
#: Groups of licences, each with all that are in those before it.
GROUPS = ("public-domain", "permissive", "open", "non-commercial")
_FIRST = {name: group for group, names in _FIRST_GROUPS.items() for name in names.split()}
_BY_LOWER = {name.lower(): name for name in _FIRST}
#: Licences of Creative Commons by what they ask for, and the first group of each: none without derivatives.
_CREATIVE_COMMONS = {
    "by": "permissive",
    "by-sa": "open",
    "by-nc": "non-commercial",
    "by-nc-sa": "non-commercial",
    "by-nd": "",
    "by-nc-nd": "",
}
_KINDS = {**{kind: kind for kind in _CREATIVE_COMMONS}, "by-nd-nc": "by-nc-nd"}
#: Licences of Creative Commons for a country that SPDX knows.
_PORTED = frozenset(
    (
        *("CC-BY-2.5-AU", "CC-BY-3.0-AT", "CC-BY-3.0-AU", "CC-BY-3.0-DE", "CC-BY-3.0-IGO", "CC-BY-3.0-NL"),
        *("CC-BY-3.0-US", "CC-BY-NC-3.0-DE", "CC-BY-NC-ND-3.0-DE", "CC-BY-NC-ND-3.0-IGO", "CC-BY-NC-SA-2.0-DE"),
        *("CC-BY-NC-SA-2.0-FR", "CC-BY-NC-SA-2.0-UK", "CC-BY-NC-SA-3.0-DE", "CC-BY-NC-SA-3.0-IGO"),
        *("CC-BY-ND-3.0-DE", "CC-BY-SA-2.0-UK", "CC-BY-SA-2.1-JP", "CC-BY-SA-3.0-AT", "CC-BY-SA-3.0-DE"),
        "CC-BY-SA-3.0-IGO",
    )
)
_VERSIONS = frozenset(("1.0", "2.0", "2.1", "2.5", "3.0", "4.0"))
_LONGEST = 300
_DEED = re.compile(r"(?:www\.)?creativecommons\.org/licen[sc]es/([a-z-]{2,8})/(\d\.\d)(?:/([a-z]{2,4}))?(?=/|\Z)")
_DOMAIN = re.compile(r"(?:www\.)?creativecommons\.org/(publicdomain/(?:zero|mark)/1\.0|licenses/publicdomain)(?=/|\Z)")
_DOMAINS = {
    "publicdomain/zero/1.0": "CC0-1.0",
    "publicdomain/mark/1.0": "CC-PDM-1.0",
    "licenses/publicdomain": "CC-PDDC",
}
_LISTED = re.compile(
    r"(?:www\.)?(?:opensource\.org/licen[sc]es?|spdx\.org/licenses|choosealicense\.com/licenses)/([^/]+)"
)
_GNU = re.compile(r"(?:www\.)?gnu\.org/(?:copyleft|licenses|licenses/old-licenses)/([al]?gpl|fdl)-(\d\.\d)")
#: Other addresses, without scheme, ``www.`` and what follows a dot or slash at the end.
_ADDRESSES = {
    "apache.org/licenses/license-2.0": "Apache-2.0",
    "mozilla.org/mpl/2.0": "MPL-2.0",
    "mozilla.org/en-us/mpl/2.0": "MPL-2.0",
    "opendatacommons.org/licenses/by/1-0": "ODC-By-1.0",
    "opendatacommons.org/licenses/odbl/1-0": "ODbL-1.0",
    "opendatacommons.org/licenses/pddl/1-0": "PDDL-1.0",
    "nationalarchives.gov.uk/doc/open-government-licence/version/1": "OGL-UK-1.0",
    "nationalarchives.gov.uk/doc/open-government-licence/version/2": "OGL-UK-2.0",
    "nationalarchives.gov.uk/doc/open-government-licence/version/3": "OGL-UK-3.0",
    "govdata.de/dl-de/by-2-0": "DL-DE-BY-2.0",
    "govdata.de/dl-de/zero-2-0": "DL-DE-ZERO-2.0",
    "data.norge.no/nlod/no/2.0": "NLOD-2.0",
    "data.norge.no/nlod/no/1.0": "NLOD-1.0",
    "unlicense.org": "Unlicense",
    "wtfpl.net": "WTFPL",
    "artlibre.org/licence/lal": "LAL-1.3",
}
_END = re.compile(r"(?:\.html?|\.txt|\.php|/|/deed\.[a-z_-]{2,8}|/legalcode(?:\.[a-z_-]{2,8})?)\Z")
_NAME = re.compile(
    r"(?:creative commons|cc)[ -]?(?:attribution[ -]?)?(by(?:-n[cd]|-sa)*)[ -](\d\.\d)"
    r"(?: (?:international|unported|intl\.?))?"
)
_SPACES, _BRACKETS = re.compile(r"[\s_]+"), re.compile(r"[()]")


def spdx_licence(text: str) -> str:
    """Return the SPDX identifier of a licence by its address or short name; empty if it is not known.

    A licence of Creative Commons for a country that SPDX has no identifier for begins with ``LicenseRef-``.

    Examples:
        >>> [spdx_licence(text) for text in ("http://creativecommons.org/licenses/by-sa/4.0/", "CC BY 4.0", "mit")]
        ['CC-BY-SA-4.0', 'CC-BY-4.0', 'MIT']
        >>> spdx_licence("https://creativecommons.org/licenses/by/3.0/fr/"), spdx_licence("all rights reserved")
        ('LicenseRef-CC-BY-3.0-FR', '')
    """
    if len(text) > _LONGEST:
        return ""
    low = _SPACES.sub(" ", text.strip().lower())
    scheme, separator, rest = low.partition("//")
    if separator and scheme in ("", "http:", "https:"):
        return _of_address(rest.partition("#")[0].partition("?")[0])
    if low.startswith(("creativecommons.org/", "www.creativecommons.org/")):
        return _of_address(low)
    if match := _NAME.fullmatch(low):
        return _creative_commons(match[1], match[2], "")
    return _BY_LOWER.get(low) or _BY_LOWER.get(low.replace(" ", "-")) or _listed(low)


def _of_address(address: str) -> str:
    if match := _DEED.match(address):
        country = match[3] or ""
        return _creative_commons(match[1], match[2], "" if country == "deed" else country)
    if match := _DOMAIN.match(address):
        return _DOMAINS[match[1]]
    if match := _GNU.match(address):
        return _BY_LOWER.get(f"{'g' if match[1] == 'fdl' else ''}{match[1]}-{match[2]}", "")
    plain = _END.sub("", _END.sub("", address.removeprefix("www.")))
    if match := _LISTED.fullmatch(plain):
        return _BY_LOWER.get(match[1]) or _listed(match[1])
    return _ADDRESSES.get(plain, "")


def _listed(name: str) -> str:
    """The identifier of Creative Commons that a name in small letters is, as SPDX writes it."""
    if name in ("cc0", "cc0-1.0", "cc 0 1.0"):
        return "CC0-1.0"
    match = re.fullmatch(r"cc-(by(?:-[a-z]{2}){0,2})-(\d\.\d)(?:-([a-z]{2,3}))?", name)
    return _creative_commons(match[1], match[2], match[3] or "") if match else ""


def _creative_commons(kind: str, version: str, country: str) -> str:
    kind = _KINDS.get(kind, "")
    if not kind or version not in _VERSIONS:
        return ""
    name = f"CC-{kind.upper()}-{version}" + (f"-{country.upper()}" if country else "")
    return name if not country or name in _PORTED else f"LicenseRef-{name}"


def group_of(licence: str) -> str:
    """Return the first of `GROUPS` that a licence is in; empty if it is in none.

    Examples:
        >>> [group_of(name) for name in ("CC0-1.0", "CC-BY-3.0-AT", "GFDL-1.3", "CC-BY-NC-4.0", "CC-BY-ND-4.0")]
        ['public-domain', 'permissive', 'open', 'non-commercial', '']
    """
    match = re.match(r"(?:LicenseRef-)?CC-(BY(?:-[A-Z]{2})*?)-\d\.\d", licence)
    return _CREATIVE_COMMONS.get(match[1].lower(), "") if match else _FIRST.get(licence, "")


def is_allowed(licence: str, allowed: Iterable[str]) -> bool:
    """Whether a licence is one of some identifiers and addresses, or in one of some groups.

    Of an expression of SPDX, one of the licences with ``OR`` between them must be allowed, and all with ``AND``; of one
    with brackets all must be. An exception (``WITH``) permits more than its licence, which is the one that counts.

    Examples:
        >>> is_allowed("CC-BY-4.0", ["open"]), is_allowed("CC-BY-NC-4.0", ["open", "CC-BY-4.0"])
        (True, False)
        >>> is_allowed("CC-BY-4.0", ["http://creativecommons.org/licenses/by/4.0/"])
        True
        >>> [is_allowed(text, ["permissive"]) for text in ("MIT OR GPL-2.0-only", "MIT AND GPL-2.0-only")]
        [True, False]
    """
    names = {spdx_licence(name) or name for name in allowed}
    if licence in names:
        return True
    bracketed = "(" in licence
    choices = [_BRACKETS.sub("", licence).replace(" OR ", " AND ")] if bracketed else licence.split(" OR ")
    return any(
        all(_is_allowed(name.partition(" WITH ")[0], names) for name in choice.split(" AND ")) for choice in choices
    )


def _is_allowed(licence: str, allowed: Set[str]) -> bool:
    group = group_of(licence)
    wider = GROUPS[GROUPS.index(group) :] if group else ()
    return licence in allowed or not allowed.isdisjoint(wider)


def is_known(licence: str) -> bool:
    """Whether a text is an identifier that `spdx_licence` gives."""
    return licence in _FIRST or licence.removeprefix("LicenseRef-").startswith("CC-BY")

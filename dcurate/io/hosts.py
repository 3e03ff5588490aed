"""Registered domains of URLs, by the public suffix list."""

from __future__ import annotations

import ipaddress
import re
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

from dcurate.core.extras import needed

#: The part of a URL between its scheme and its path, for RE2.
AUTHORITY = r"^\s*(?i:https?|ftp)://(?P<authority>[^/?#\\\s]+)(?:[/?#\\]|\s*$)"
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_PORT = re.compile(r"\d{0,5}")
_LONGEST, _LONGEST_LABEL = 253, 63
#: Characters of a host beyond which it is not looked at: encoding takes time that grows faster.
_LOOKED_AT = 1000


class Site(NamedTuple):
    """The part of a URL that says whose it is.

    Attributes:
        kind: ``"domain"``, a registered domain; ``"host"``, a host that has none, such as an IP address, ``localhost``
            or a public suffix; ``"invalid"``.
        name: the domain or host in lower case, with labels of other scripts in Punycode; empty if it is invalid.
    """

    kind: Literal["domain", "host", "invalid"]
    name: str


_INVALID = Site("invalid", "")


@cache
def _suffix_list(private: bool) -> Any:
    library = needed("publicsuffixlist", "the domains of URLs", "summary")
    return library.PublicSuffixList(only_icann=not private)


class Domains:
    """Registered domains by the copy of the public suffix list that ``publicsuffixlist`` bundles.

    Args:
        private: whether a suffix of the list's private section, such as ``github.io``, counts as one under which names
            are registered.

    Raises:
        ResourceError: ``publicsuffixlist`` is not installed.

    Examples:
        >>> domains = Domains()
        >>> [domains.site(host).name for host in ("Www.Example.CO.UK:8080", "me:pw@bücher.de", "a.b.github.io")]
        ['example.co.uk', 'xn--bcher-kva.de', 'github.io']
        >>> [domains.site(host).kind for host in ("10.0.0.1", "[::1]:80", "co.uk", "a..b", "a b")]
        ['host', 'host', 'host', 'invalid', 'invalid']
        >>> Domains(private=True).site("a.b.github.io").name
        'b.github.io'
    """

    def __init__(self, *, private: bool = False) -> None:
        self._list = _suffix_list(private)
        #: The version of the library, which ends with the date of its list.
        self.version = version("publicsuffixlist")
        self.site = lru_cache(2**16)(self._site)

    def _site(self, authority: str) -> Site:
        host = authority.rpartition("@")[2]
        if host.startswith("["):
            inner, closed, port = host[1:].partition("]")
            return _address(inner) if closed and _PORT.fullmatch(port.removeprefix(":")) else _INVALID
        host, _, port = host.partition(":")
        if not _PORT.fullmatch(port) or len(host) > _LOOKED_AT:
            return _INVALID
        try:
            name = host.lower().encode("idna").decode().lower().removesuffix(".")
        except UnicodeError:
            return _INVALID
        labels = name.split(".")
        if len(name) > _LONGEST or any(len(label) > _LONGEST_LABEL or not _LABEL.fullmatch(label) for label in labels):
            return _INVALID
        if _NUMBER.fullmatch(labels[-1]):  # no top-level domain is a number
            return _address(name)
        domain = self._list.privatesuffix(name)
        return Site("host", name) if domain is None else Site("domain", domain)


def _address(text: str) -> Site:
    """The site of an IP address."""
    try:
        return Site("host", str(ipaddress.ip_address(text)))
    except ValueError:
        return _INVALID

"""Decide for addresses from outside which host they name, and whether it is public."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from socket import SOCK_STREAM, getaddrinfo
from urllib.parse import urlsplit

from urllib3.util import parse_url

from dcurate.download.transfer import BadAddressError, Interrupted, PrivateAddressError

#: Seconds for which the result of a look-up of a host is kept, also a failure.
_RESOLVED_S = 60.0
_CONTROL = re.compile(r"[\0-\x1f\x7f]")
_NAME = re.compile(r"(?=.{1,254}\Z)(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")

#: The network of all public IPv6 hosts, and the networks in it for special use; some of these lead to an IPv4 host that
#: is part of the address (6to4, Teredo).
_UNICAST = IPv6Network("2000::/3")
_SPECIAL = tuple(map(ip_network, ("192.88.99.0/24", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
#: IPv6 addresses that mean the IPv4 address in their last 32 bits: IPv4-mapped and NAT64. Resolvers of networks without
#: IPv4 return NAT64 addresses (RFC 6147).
_OF_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))


def is_public(address: str) -> bool:
    """Whether an IP address belongs to a host of the public internet.

    Multicast counts as private, and so do IPv6 addresses that lead through a relay to an IPv4 host (6to4, Teredo,
    IPv4-compatible, local NAT64). For IPv4-mapped and NAT64 addresses, the IPv4 address in them decides.

    Examples:
        >>> [is_public(address) for address in ("93.184.216.34", "10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::")]
        [True, False, False, False]
    """
    try:
        number = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(number, IPv6Address):
        if any(number in network for network in _OF_IPV4):
            number = IPv4Address(int(number) & 0xFFFFFFFF)
        elif number not in _UNICAST:
            return False
    return number.is_global and not number.is_multicast and not any(number in network for network in _SPECIAL)


def host_of(url: str) -> str:
    """The host of an ``http://`` or ``https://`` address as a request names it: in lower case, IDNA, no brackets.

    Two libraries parse an address, and one of them connects. An address that they parse differently is refused, so
    that requests only reach the host that was checked.

    Raises:
        BadAddressError: the address is not valid.

    Examples:
        >>> host_of("http://Host.org:80/a"), host_of("http://[::1]/")
        ('host.org', '::1')
        >>> host_of("http://a..b/")
        Traceback (most recent call last):
        dcurate.download.transfer.BadAddressError: cannot fetch 'http://a..b/': 'a..b' is not the name of a host; ...
    """
    try:
        parts, request = urlsplit(url), parse_url(url)
        named, port = parts.hostname or "", parts.port
        if parts.scheme not in ("http", "https") or not named:
            raise BadAddressError(url, "it does not begin with http:// or https:// and a host")
        host = _bare(request.host or "")
        expected = _bare(named).lower() if named.isascii() else parse_url(f"http://{named}/").host
    except BadAddressError:
        raise
    except ValueError as error:
        raise BadAddressError(url, str(error)) from error
    if _CONTROL.search(url):
        raise BadAddressError(url, "it holds control characters")
    if "\\" in re.split("[/?#]", url, maxsplit=3)[2]:
        raise BadAddressError(url, "a backslash is in it before the path")
    if (request.scheme, host, request.port) != (parts.scheme, expected, port):
        raise BadAddressError(url, f"it can be read as one of the host {named!r} or of {host!r}")
    if not _NAME.fullmatch(host) and not _is_ipv6(host):
        raise BadAddressError(url, f"{host!r} is not the name of a host")
    return host


def check_public(url: str) -> None:
    """Refuse an address in a private network, such as that of the machine or of its cloud's credentials.

    Raises:
        Interrupted: its host is not known.
        BadAddressError: it is not valid.
        PrivateAddressError: it is in a private network.

    Examples:
        >>> check_public("http://10.0.0.1/")
        Traceback (most recent call last):
        dcurate.download.transfer.PrivateAddressError: cannot fetch http://10.0.0.1/: its server is in a private network
    """
    host = host_of(url)
    addresses, problem = _resolved(host, int(time.monotonic() // _RESOLVED_S))
    if problem:
        raise Interrupted(f"the host {host!r} is not known ({problem})")
    if not all(map(is_public, addresses)):
        raise PrivateAddressError(f"cannot fetch {url}: its server is in a private network")


@lru_cache(maxsize=4096)
def _resolved(host: str, _time: int) -> tuple[tuple[str, ...], str]:
    """The addresses of a host, or why there are none; looked up again from time to time."""
    try:
        return tuple(str(info[4][0]) for info in getaddrinfo(host, None, type=SOCK_STREAM)), ""
    except (OSError, ValueError) as error:  # ValueError: raised by the codec for names
        return (), str(error)


def _bare(host: str) -> str:
    """A host without the brackets and the zone of IPv6."""
    return host.strip("[]").partition("%")[0] if ":" in host else host


def _is_ipv6(host: str) -> bool:
    try:
        return isinstance(ip_address(host), IPv6Address)
    except ValueError:
        return False

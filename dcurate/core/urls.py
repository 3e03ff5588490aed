"""Compare URLs and domains."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

_PORTS = {"http": 80, "https": 443, "ftp": 21}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
#: Characters of a URL that stay as they are.
_KEPT = "!#$%&'()*+,/:;=?@[]~"
#: Characters of the longest name in the DNS, and of the longest label.
_LONGEST_HOST, _LONGEST_LABEL = 253, 63


def normal_url(url: str) -> str:
    """Return the form of a URL that is the same for URLs which differ only in how they are written.

    Scheme and host are in lower case, and a host that is not ASCII is in Punycode. ``http`` and ``https`` count as one,
    as does a URL without a scheme. Default ports, the fragment, dots at the end of the host and slashes at the end of
    the path are left out. Escapes of unreserved characters are resolved; other characters that are not ASCII are
    escaped. The query and the case of the path stay.

    Examples:
        >>> normal_url("HTTPS://Example.COM:443/a%7Eb/?q=1#top")
        'http://example.com/a~b?q=1'
        >>> normal_url("http://bücher.example") == normal_url("xn--bcher-kva.example/")
        True
    """
    text = _with_scheme(url)
    try:
        parts = urlsplit(text)
        host, port = normal_host(parts.hostname or ""), parts.port
    except ValueError:  # such as a port that is not a number
        return text
    scheme = "http" if parts.scheme == "https" else parts.scheme
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    place = f"[{host}]" if ":" in host else host
    number = "" if port is None or port == _PORTS.get(parts.scheme) else f":{port}"
    query = f"?{_escaped(parts.query)}" if parts.query else ""
    return f"{scheme}://{user}{place}{number}{_escaped(parts.path).rstrip('/')}{query}"


def host_of(url: str) -> str:
    """Return the host of a URL as `normal_host` gives it; empty if it has none.

    Examples:
        >>> host_of("https://user@News.Example.com:8080/a"), host_of("example.com/a"), host_of("http://[")
        ('news.example.com', 'example.com', '')
    """
    try:
        return normal_host(urlsplit(_with_scheme(url)).hostname or "")
    except ValueError:
        return ""


def normal_host(host: str) -> str:
    """Return a host in lower case and Punycode, without a dot at the end.

    Examples:
        >>> normal_host("BÜCHER.example."), normal_host("xn--bcher-kva.example")
        ('xn--bcher-kva.example', 'xn--bcher-kva.example')
    """
    host = host.lower().rstrip(".")
    if host.isascii() or len(host) > _LONGEST_HOST:
        return host
    return ".".join(map(_punycode, re.split("[.\u3002\uff0e\uff61]", host)))


def domains_of(host: str) -> list[str]:
    """Return the domains that a host is in: itself and all above it; of an address in numbers only itself.

    Examples:
        >>> domains_of("a.b.example"), domains_of("10.0.0.1"), domains_of("")
        (['a.b.example', 'b.example', 'example'], ['10.0.0.1'], [])
    """
    labels = host.split(".")
    if not host or ":" in host or labels[-1].isdecimal() or len(host) > _LONGEST_HOST:
        return [host] if host else []
    return [".".join(labels[start:]) for start in range(len(labels))]


def _with_scheme(url: str) -> str:
    text = url.strip()
    return text if _SCHEME.match(text) else f"http://{text.removeprefix('//')}"


def _punycode(label: str) -> str:
    if label.isascii() or len(label) > _LONGEST_LABEL:
        return label
    try:
        return label.encode("idna").decode()
    except UnicodeError:
        return label


def _escaped(text: str) -> str:
    """The part of a URL with escapes in one form."""

    def escape(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        return character if character in _UNRESERVED else match[0].upper()

    return quote(_ESCAPE.sub(escape, text), safe=_KEPT, errors="surrogatepass")

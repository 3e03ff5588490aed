"""An aiohttp client that sends no secrets to another host after a redirect.

aiohttp keeps back ``Authorization`` from another host, but no other header, nor the login and cookies of a session.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

#: Headers that say nothing about who asks.
HARMLESS = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "user-agent", "range", "if-range", "content-type"),
        *("content-length", "if-match", "if-none-match", "if-modified-since", "host", "connection"),
    )
)


def opened_session(**settings: Any) -> Any:
    """Open an ``aiohttp.ClientSession`` that sends its headers, login and cookies only to the requested host."""
    aiohttp = importlib.import_module("aiohttp")
    headers = dict(settings.pop("headers", None) or {})
    if (auth := settings.pop("auth", None)) is not None:
        headers["Authorization"] = auth.encode()
    if cookies := settings.pop("cookies", None):
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in dict(cookies).items())
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_keep_back)
    traces = [*(settings.pop("trace_configs", None) or ()), trace]
    return aiohttp.ClientSession(headers=headers, trace_configs=traces, **settings)


async def session(**settings: Any) -> Any:
    """An `opened_session`, as fsspec asks for one."""
    return opened_session(**settings)


async def _keep_back(_session: Any, _context: Any, redirect: Any) -> None:
    """Remove secret headers from the next request, which goes to another host."""
    asked, location = redirect.response.url, redirect.response.headers.get("Location", "")
    try:
        here = asked.origin() == asked.join(type(asked)(location)).origin()
    except ValueError:
        here = False
    if not here:
        for name in [name for name in redirect.headers if name.lower() not in HARMLESS]:
            redirect.headers.popall(name, None)


def guarded(url: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return fsspec options for `url` with which HTTP sends no secrets to another host.

    Examples:
        >>> guarded("s3://b/a", {"key": "x"}), guarded("https://host/a", {})["get_client"].__name__
        ({'key': 'x'}, 'session')
        >>> list(guarded("zip://a::http://host/b.zip", None))
        ['http']
    """
    safe_options = dict(options or {})
    for place, link in enumerate(url.split("::")):
        protocol = link.partition("://")[0]
        if protocol not in ("http", "https"):
            continue
        if place:
            safe_options[protocol] = {"get_client": session, **(safe_options.get(protocol) or {})}
        else:
            safe_options.setdefault("get_client", session)
    return safe_options

"""Connections to HTTP servers on which every wait ends, and which need not lead into private networks.

The timeout of a socket restarts with each byte, so a server that sends one now and then, as part of a header, of the
length of a chunk, or of one "100 Continue" after another, could hold a client for ever. A `Deadline` ends the wait.
"""

from __future__ import annotations

import io
import math
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from dcurate.download.addresses import is_public

#: Connections to a host that are kept for the next request.
_KEPT = 16
_thread = threading.local()


class Deadline:
    """Limits the wait for each piece of content, and the time of a whole answer.

    Args:
        wait_s: seconds to wait for a piece of content.
        most_s: seconds to wait in all.

    Examples:
        >>> 9 < Deadline(10.0).remaining() <= 10
        True
        >>> Deadline(10.0, most_s=0.0).remaining()
        0.0
    """

    def __init__(self, wait_s: float, most_s: float = math.inf) -> None:
        self._wait_s, self._end = wait_s, time.monotonic() + most_s
        self.renew()

    def renew(self) -> None:
        """Begin to wait for the next piece of content."""
        self._until = min(self._end, time.monotonic() + self._wait_s)

    def remaining(self) -> float:
        """Seconds until the wait ends."""
        return max(0.0, self._until - time.monotonic())


@contextmanager
def ends_at(deadline: Deadline) -> Iterator[None]:
    """Let the responses to this thread's requests within the ``with`` statement be awaited until a deadline."""
    _thread.deadline = deadline
    try:
        yield
    finally:
        _thread.deadline = None


class PrivatePeerError(Exception):
    """A connection leads into a private network; no `OSError`, which urllib3 would take for a lost connection."""


def pool_for(url: str, *, public_only: bool) -> urllib3.PoolManager:
    """Connections of this process, through the proxy that the environment names for the URL, if any.

    Args:
        public_only: whether connections that lead into a private network are refused: the address of a host may have
            changed since it was looked up. A proxy may be in one.
    """
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    proxy = "" if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme, "")
    return _pool(os.getpid(), proxy, public_only)


@lru_cache(maxsize=8)
def _pool(_process: int, proxy: str, public_only: bool) -> urllib3.PoolManager:
    if proxy:
        parts = urlsplit(proxy)
        login = unquote(parts.netloc.rpartition("@")[0])
        headers = urllib3.make_headers(proxy_basic_auth=login) if login else None
        address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        pool: Any = urllib3.ProxyManager(address, _KEPT, proxy_headers=headers)
    else:
        pool = urllib3.PoolManager(maxsize=_KEPT)
    checked = public_only and not proxy
    pool.pool_classes_by_scheme = {
        "http": type("Http", (urllib3.HTTPConnectionPool,), {"ConnectionCls": _PublicHttp if checked else _Http}),
        "https": type("Https", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": _PublicHttps if checked else _Https}),
    }
    return pool  # type: ignore[no-any-return]


class _Http(HTTPConnection):
    """A connection whose responses keep to the deadline of the thread that requests them."""

    sock: Any

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _Https(HTTPSConnection):
    sock: Any

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _PublicHttp(_Http):
    def _new_conn(self) -> Any:
        return _checked(super()._new_conn())


class _PublicHttps(_Https):
    def _new_conn(self) -> Any:
        return _checked(super()._new_conn())


def _checked(connected: Any) -> Any:
    address = connected.getpeername()[0]
    if not is_public(address):
        connected.close()
        raise PrivatePeerError(address)
    return connected


class _Socket:
    """A socket whose files end when the deadline does."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def makefile(self, *arguments: Any, **settings: Any) -> Any:
        deadline = getattr(_thread, "deadline", None)
        if deadline is None:
            return self._inner.makefile(*arguments, **settings)
        return io.BufferedReader(_Timed(self._inner, deadline))


class _Timed(io.RawIOBase):
    """What a socket receives, until a deadline."""

    def __init__(self, connected: Any, deadline: Deadline) -> None:
        self._socket, self._deadline = connected, deadline
        self._file: Any = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        remaining = self._deadline.remaining()
        if not remaining:
            raise TimeoutError("the answer takes too long")
        self._socket.settimeout(remaining)
        count: int | None = self._file.readinto(buffer)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()

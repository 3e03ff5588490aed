"""POST what happens to an HTTP server, in a thread: a server that fails or hangs neither ends nor delays a run."""

from __future__ import annotations

import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from dcurate.errors import PipelineError
from dcurate.redaction import remember

#: Longest duration of a POST in seconds, number of tries, and seconds before the second one.
POST_S, TRIES, RETRY_S = 5.0, 3, 0.5
#: A path or a query of an address with at least this many characters is hidden wherever it occurs alone.
LONG = 16

_log = logging.getLogger("dcurate")


class Poster(threading.Thread):
    """Sends JSON to an address, one content after the other, each up to three times; redirects are not followed.

    Args:
        url: the address, which is shown nowhere.
        failure: how the warning begins if one is not taken, such as ``"the webhook did not receive a new state"``.
        headers: further headers.
    """

    def __init__(self, url: str, failure: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(name="dcurate-poster", daemon=True)
        self.url, self.failure = url, failure
        self.headers = {"Content-Type": "application/json", "User-Agent": "dcurate", **(headers or {})}
        self._contents: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._failed = False

    def put(self, content: bytes) -> None:
        """Send some JSON as soon as what came before is sent or given up."""
        self._contents.put(content)

    def end(self) -> None:
        """Accept no more; what is on its way is still sent, without waiting before it is tried again."""
        self._over.set()
        self._contents.put(None)

    def run(self) -> None:
        """Send until the end (called by the thread)."""
        while (content := self._contents.get()) is not None:
            for attempt in range(TRIES):
                why, again = self._post(content)
                if not why:
                    self._failed = False
                    break
                if not again or attempt == TRIES - 1:
                    self._warn(f"{self.failure}: {why}; the run goes on")
                    break
                self._over.wait(RETRY_S * 2**attempt)

    def _post(self, content: bytes) -> tuple[str, bool]:
        """Send some JSON; return what went wrong, without the address, and whether to try again."""
        request = urllib.request.Request(self.url, content, self.headers, method="POST")
        try:
            with _OPENER.open(request, timeout=POST_S):
                return "", False
        except urllib.error.HTTPError as error:
            error.close()
            return f"it answered {error.code}", error.code >= 500 or error.code in (408, 429)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            return getattr(reason, "strerror", None) or type(reason).__name__, True

    def _warn(self, sentence: str) -> None:
        if not self._failed:
            _log.warning(sentence)
        self._failed = True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: the address and what is sent are for the one host that was named."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def checked_address(url: str, named: str) -> str:
    """Return an HTTP address, and hide it in all texts from now on.

    Args:
        named: what it is, for the error.

    Raises:
        PipelineError: it is not an HTTP address.
    """
    remember([url])
    with suppress(ValueError):
        parts = urlsplit(url)
        printable = url.isascii() and url.isprintable() and " " not in url
        if parts.scheme in ("http", "https") and parts.hostname and printable and parts.port != 0:
            remember([word for word in (parts.path, parts.query) if len(word) >= LONG])
            return url
    raise PipelineError(f"{named} is not an HTTP address; give one such as https://host/path")

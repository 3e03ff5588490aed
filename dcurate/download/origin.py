"""Download sources: HTTP servers, and all fsspec stores."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

import urllib3

from dcurate.core.foreign import retry_after_s, whole_number
from dcurate.core.redirects import HARMLESS
from dcurate.download.addresses import check_public, host_of
from dcurate.download.connections import Deadline, PrivatePeerError, ends_at, pool_for
from dcurate.download.transfer import (
    BadAddressError,
    Interrupted,
    PrivateAddressError,
    RedirectedError,
    Transfer,
    TransferError,
)
from dcurate.errors import DataError, ResourceError
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import Entry, file_entry
from dcurate.fs.locks import lock, try_lock
from dcurate.fs.paths import open_store
from dcurate.fs.temporary import own_folder

CHUNK = 2**20
_RANGE = 2**24
_AGAIN = (408, 425, 429)
#: What remote stores raise where no attempt and no other file would fare better.
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")
#: Redirects that are followed for one file.
MAX_REDIRECTS = 5
_ONCE = urllib3.Retry(total=None, connect=0, read=0, status=0, other=0, redirect=0)
_AGENT = "dcurate/0.1 (+https://dcurate.readthedocs.io)"


@dataclass(frozen=True)
class RangeResponse:
    """A file from some byte on.

    Args:
        start: the byte at which the chunks begin; zero if a server does not support ranges.
        size: bytes of the whole file, None if that is not said.
        validator: changes when the content does; empty if nothing of that kind is said.
        chunks: the content.
        headers: headers of an HTTP server, by name and in order; a name may occur several times.
    """

    start: int
    size: int | None
    validator: str
    chunks: Iterator[bytes]
    headers: Sequence[tuple[str, str]] = ()


@contextmanager
def asked(
    url: str,
    transfer: Transfer,
    start: int = 0,
    validator: str = "",
    stop: int | None = None,
    *,
    most_s: float = math.inf,
) -> Iterator[RangeResponse]:
    """Request a file from a byte on.

    Args:
        start: the first byte wanted.
        validator: the validator of an earlier response: if the file has changed since, it is sent from its beginning.
        stop: one past the last byte wanted; a server may give more.
        most_s: seconds that an HTTP server may take.

    Raises:
        Interrupted: this attempt failed, another may not.
        TransferError: no attempt would do.
        DataError: no file of the store would fare better: credentials are missing.
    """
    is_http = url.partition("://")[0].lower() in ("http", "https")
    if is_http:
        host_of(url)
    ask = _http if is_http else _stored
    with within_rate_limit(url, transfer), ask(url, transfer, (start, stop), validator, most_s) as answer:
        yield answer


@contextmanager
def _http(
    url: str, transfer: Transfer, wanted: tuple[int, int | None], validator: str, most_s: float
) -> Iterator[RangeResponse]:
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity", **transfer.headers}
    start, stop = wanted
    if start or stop is not None:
        headers["Range"] = f"bytes={start}-" if stop is None else f"bytes={start}-{stop - 1}"
        if validator:
            headers["If-Range"] = validator
    deadline = Deadline(transfer.timeout_s, most_s)
    try:
        response = _last_response(url, transfer, headers, deadline)
        try:
            yield _answer(url, response, start, deadline)
        finally:
            response.close()
    except PrivatePeerError as error:
        raise PrivateAddressError(f"cannot fetch {url}: its server is in a private network") from error
    except (urllib3.exceptions.LocationValueError, urllib3.exceptions.MaxRetryError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, urllib3.exceptions.LocationValueError):
            raise TransferError(f"cannot fetch {url}: {reason}; check the address") from error
        raise Interrupted(str(reason)) from error
    except urllib3.exceptions.HTTPError as error:
        raise Interrupted(f"the connection was lost ({error})") from error


def _last_response(url: str, transfer: Transfer, headers: dict[str, str], deadline: Deadline) -> Any:
    """The response of the server that a URL redirects to; another host does not receive secret headers."""
    target = url
    for _ in range(MAX_REDIRECTS + 1):
        if transfer.public_only:
            check_public(target)
        deadline.renew()
        with ends_at(deadline):
            response: Any = pool_for(target, public_only=transfer.public_only).request(
                "GET",
                target,
                headers=headers,
                preload_content=False,
                retries=_ONCE,
                redirect=False,
                timeout=urllib3.Timeout(connect=transfer.timeout_s, read=transfer.timeout_s),
            )
        location = response.get_redirect_location()
        if not location:
            return response
        response.close()  # without its content, which may be endless
        try:
            location = urljoin(target, location)
            host_of(location)
        except (ValueError, BadAddressError) as error:
            raise BadAddressError(url, f"it redirects to {location!r}, which is not a valid address") from error
        if not transfer.follow_redirects:
            raise RedirectedError(
                f"cannot fetch {url}: {response.status}, it redirects to {location}", response.status, location
            )
        if origin_of(target) != origin_of(location):
            headers = harmless(headers)
        target = location
    raise TransferError(f"cannot fetch {url}: it redirects more than {MAX_REDIRECTS} times; check the address")


def origin_of(url: str) -> str:
    """The scheme, host and port of an address; empty if it is not valid.

    Examples:
        >>> origin_of("https://host:8443/a?b"), origin_of("http://[bad")
        ('https://host:8443', '')
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}"


def harmless(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that another host may receive.

    Examples:
        >>> harmless({"User-Agent": "us/1", "Authorization": "x"})
        {'User-Agent': 'us/1'}
    """
    return {name: value for name, value in headers.items() if name.lower() in HARMLESS}


def _answer(url: str, response: Any, start: int, deadline: Deadline) -> RangeResponse:
    status, headers = response.status, response.headers
    etag = headers.get("ETag", "")
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
    if not validator.isprintable():  # a request cannot send it back
        validator = ""
    if status == 200:
        size = whole_number(headers.get("Content-Length"))
        return RangeResponse(0, size, validator, _body(response, deadline), tuple(headers.items()))
    begin, size = _content_range(headers.get("Content-Range", ""))
    if status == 206 and begin == start:
        return RangeResponse(start, size, validator, _body(response, deadline))
    if status == 416 and size == start:
        return RangeResponse(start, size, validator, iter(()))
    if status in _AGAIN or status >= 500 or status in (206, 416):
        raise Interrupted(
            f"the server answered {status} {response.reason or ''}".rstrip(),
            retry_after_s(headers.get("Retry-After")),
            status,
        )
    hint = {
        401: "; give credentials in Transfer(headers=...)",
        403: "; the server refuses",
        404: "; no such file",
    }
    raise TransferError(f"cannot fetch {url}: {status} {response.reason or ''}{hint.get(status, '')}", status)


def _body(response: Any, deadline: Deadline) -> Iterator[bytes]:
    """The content as it arrives, so that bytes before an interruption are kept."""
    deadline.renew()
    while data := response.read1(CHUNK, decode_content=False):
        yield data
        deadline.renew()


def _content_range(header: str) -> tuple[int | None, int | None]:
    """The first byte and the total size.

    Examples:
        >>> _content_range("bytes 5-9/10"), _content_range("bytes */10"), _content_range("")
        ((5, 10), (None, 10), (None, None))
    """
    match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", header.strip())
    return (whole_number(match[1]), whole_number(match[2])) if match else (None, None)


@contextmanager
def _stored(
    url: str, transfer: Transfer, wanted: tuple[int, int | None], validator: str, _most_s: float
) -> Iterator[RangeResponse]:
    start, stop = wanted
    with _storage_errors(url):
        store, path = open_store(url, transfer.storage_options)
        store.invalidate_cache()
        entry = file_entry(store, path)
    begin = start if start <= entry.size and validator in ("", entry.version) else 0
    end = entry.size if stop is None else min(stop, entry.size)
    yield RangeResponse(begin, entry.size, entry.version, _ranges(url, store, entry, (begin, end)))


def _ranges(url: str, store: Any, entry: Entry, wanted: tuple[int, int]) -> Iterator[bytes]:
    start, stop = wanted
    while start < stop:
        with _storage_errors(url):
            data: bytes = store.cat_file(entry.path, start=start, end=min(start + _RANGE, stop))
        if not data:
            raise Interrupted("it became shorter during the download")
        yield data
        start += len(data)
    with _storage_errors(url):
        store.invalidate_cache()
        if file_entry(store, entry.path).version != entry.version:
            raise Interrupted("it changed during the download")


@contextmanager
def _storage_errors(url: str) -> Iterator[None]:
    try:
        with storage_errors("fetch", url):
            yield
    except DataError as error:
        cause = error.__cause__
        if type(cause).__name__ in _NO_CREDENTIALS:
            raise DataError(f"cannot fetch {url}: {cause}; give credentials in storage_options") from cause
        if isinstance(cause, FileNotFoundError | PermissionError | ValueError):  # ValueError: an unknown protocol
            raise TransferError(str(error)) from cause
        raise Interrupted(str(error)) from error.__cause__
    except ResourceError:
        raise
    except Exception as error:  # stores of fsspec raise various errors for addresses that they refuse
        raise BadAddressError(url, f"{type(error).__name__}: {error}") from error


_POLL_S = 0.05
#: Characters of a host that name its locks; no host has more.
_LONGEST_HOST = 200


@contextmanager
def within_rate_limit(url: str, transfer: Transfer) -> Iterator[None]:
    """Wait for a free connection and request slot of a URL's server, and hold them."""
    netloc = re.split("[/?#]", url, maxsplit=3)[2] if "://" in url else ""
    host = re.sub(r"[^A-Za-z0-9.-]", "_", netloc.rpartition("@")[2])[:_LONGEST_HOST]
    with ExitStack() as stack:
        if transfer.connections_per_host:
            stack.enter_context(_one_of(host, transfer.connections_per_host))
        if transfer.requests_per_second:
            _wait_for_turn(host, 1 / transfer.requests_per_second)
        yield


@contextmanager
def _one_of(host: str, connections: int) -> Iterator[None]:
    """Hold one of a number of connections, shared with other processes by locks."""
    while True:
        for number in range(connections):
            with _opened(f"{host}.{number}") as file:
                if not try_lock(file):
                    continue
                yield
                return
        time.sleep(_POLL_S)


def _wait_for_turn(host: str, interval: float) -> None:
    with _opened(f"{host}.next") as file:
        lock(file)
        text = file.read()
        now = time.time()
        mine = max(now, min(float(text), now + 1000 * interval) if text else now)
        file.seek(0)
        file.truncate()
        file.write(repr(mine + interval))
        file.flush()
    time.sleep(max(0.0, mine - time.time()))


def _opened(name: str) -> IO[str]:
    path = own_folder("servers") / name
    return open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="ascii")

"""`FetchMedia`: the files of a list of URLs, and what their owners say about their use."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from dcurate.core.resources import Resources
from dcurate.core.stage import ProcessingStage
from dcurate.download.addresses import check_public, host_of
from dcurate.download.fetch import read_limited
from dcurate.download.origin import MAX_REDIRECTS, harmless, origin_of
from dcurate.download.transfer import (
    BadAddressError,
    Interrupted,
    PrivateAddressError,
    RedirectedError,
    Transfer,
    TransferError,
)
from dcurate.download.urls import WAITING
from dcurate.errors import PipelineError, ResourceError, listed
from dcurate.frames.columns import values
from dcurate.frames.document import DocumentBatch
from dcurate.io.warc_http import response
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.names import kind_of
from dcurate.media.refs import BYTES, LARGEST_FILE, with_columns
from dcurate.rights.headers import is_reserved, robots_tags, tdm_reservation, tdm_rules
from dcurate.rights.robots import LARGEST_ROBOTS, Robots, path_of

#: Seconds for which the rules of a site are kept, and how many sites.
_FRESH_S, _SITES = 3600.0, 4096
#: A failure to fetch the rules of a site is kept for at least these seconds, and for this many times the seconds that
#: the attempt took: a site that does not answer takes at most a tenth of a run's time, for any number of its URLs.
_FAILED_S, _FAILED_TIMES = 60.0, 10
_TDM_BYTES = 2**20
#: Seconds that an attempt to fetch the rules of a site may take.
_RULES_S = 30.0


class _Site(NamedTuple):
    """The rules of a site for the use of its files.

    Args:
        robots: rules of robots.txt; None if it cannot be fetched.
        tdm: patterns of paths, and whether rights are reserved.
        until: time of the next request for the rules, by `time.monotonic`.
        run: run of the stage that asked, if robots.txt cannot be fetched: another run asks again.
    """

    robots: Robots | None
    tdm: list[tuple[str, bool]]
    until: float = 0.0
    run: str = ""


class _Got(NamedTuple):
    """The result for a URL."""

    data: bytes | None = None
    fault: MediaFault | None = None
    mime: str | None = None
    robots: str | None = None
    tags: str | None = None
    tdm: bool | None = None
    opted_out: str | None = None


@dataclass
class FetchMedia(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Fetch the files of a column of URLs into the column ``bytes``.

    Rows also get ``file_name`` (a digest of the URL, with the ending of the file), ``mime_type``, and what the owners
    say: ``rights_robots`` (``"allowed"`` or ``"disallowed"`` by robots.txt), ``rights_x_robots_tag`` (the directives),
    ``rights_tdm`` (whether TDMRep reserves the rights of text and data mining, by header or by
    ``/.well-known/tdmrep.json``), and ``opted_out``: which of them objects, null if none does. A file that robots.txt
    disallows is not fetched, nor is one that redirects to such a file; another host receives no secret headers.

    A URL that fails goes to quarantine with its reason: ``"HTTP 404"``, ``"no answer"``, ``"too large"``,
    ``"robots.txt cannot be had"``; a site is asked for robots.txt again after a minute, or later if it was slow. To try
    the failed ones again, alone, read the quarantine of the run as input of the next: `JsonlReader` with
    ``"shards.dcurate/quarantine"``, this stage, and a writer to another directory.

    The files of a batch are in memory at once: read lists of URLs with a small ``blocksize``, such as ``"64KiB"``.
    Addresses that are not ``http://`` or ``https://``, and those of private networks, are refused, as a list may come
    from anywhere.

    Args:
        url_field: the column of URLs.
        on_opt_out: ``"drop"`` rows whose owners object, or ``"flag"`` to keep them, with the reason in ``opted_out``.
        opt_out_tags: the directives of ``X-Robots-Tag`` that count as an objection.
        robots: whether to ask for robots.txt and TDMRep's file; leave them out for servers of your own only.
        private: whether servers in private networks may be asked; they are refused otherwise, also after a redirect.
        transfer: retries, timeouts, and limits for each host.
        limit: bytes of the largest file.
        file_timeout_s: seconds that an attempt at a file may take; and that a server may ask to wait for it by
            ``Retry-After``, in all: one that asks for more is not asked again.
        at_a_time: files that a slot fetches at the same time.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> FetchMedia("image_url", on_opt_out="flag").inputs()
        ([], ['image_url'])
    """

    url_field: str = "url"
    on_opt_out: Literal["drop", "flag"] = "drop"
    opt_out_tags: Sequence[str] = ("noai", "noimageai")
    robots: bool = True
    private: bool = False
    transfer: Transfer = field(default_factory=lambda: Transfer(attempts=3, timeout_s=10.0, connections_per_host=4))
    limit: int = LARGEST_FILE
    file_timeout_s: float = 120.0
    at_a_time: int = 32
    name: str = "fetch_media"
    resources: Resources = WAITING

    def __post_init__(self) -> None:
        if self.on_opt_out not in ("drop", "flag"):
            raise PipelineError(f"{self.name}: on_opt_out={self.on_opt_out!r} must be 'drop' or 'flag'")
        if isinstance(self.opt_out_tags, str):
            raise PipelineError(f"{self.name}: opt_out_tags must be a list: {listed([self.opt_out_tags])} in brackets")
        for name in ("at_a_time", "limit", "file_timeout_s"):
            if not getattr(self, name) > 0:
                raise PipelineError(f"{self.name}: {name}={getattr(self, name)!r} must be above zero")
        self._run = uuid.uuid4().hex

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows."""
        settings = super().settings()
        return {
            name: value
            for name, value in settings.items()
            if name not in ("transfer", "at_a_time", "file_timeout_s", "resources", "_run")
        }

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], [self.url_field]

    def outputs(self) -> tuple[list[str], list[str]]:
        rights = ["rights_robots", "rights_x_robots_tag", "rights_tdm", "opted_out"]
        return [], [BYTES, "file_name", "mime_type", *rights]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows whose files were fetched.

        Raises:
            DataError: the column does not exist.
        """
        table = task.to_arrow()
        transfer = replace(self.transfer, public_only=not self.private, follow_redirects=False)
        urls = values(table, self.url_field)
        with ThreadPoolExecutor(min(self.at_a_time, max(1, len(urls)))) as threads:
            results = list(threads.map(lambda url: self._tried(url, transfer), urls))
        columns: dict[str, tuple[str, list[Any]]] = {
            BYTES: ("large_binary", [got.data for got in results]),
            "file_name": ("string", [_file_name(url, got.mime) for url, got in zip(urls, results, strict=True)]),
            "mime_type": ("string", [got.mime for got in results]),
            "rights_robots": ("string", [got.robots for got in results]),
            "rights_x_robots_tag": ("string", [got.tags for got in results]),
            "rights_tdm": ("bool", [got.tdm for got in results]),
            "opted_out": ("string", [got.opted_out for got in results]),
        }
        table = with_columns(table, columns)
        return self._sorted_out(task.with_data(table), results)

    def _sorted_out(self, batch: DocumentBatch, results: list[_Got]) -> DocumentBatch:
        """Take out failed rows, and those of owners who object."""
        faults = {row: got.fault for row, got in enumerate(results) if got.fault is not None}
        rejections = list(quarantined(batch, faults, self.name).rejections)
        good = np.array([got.fault is None for got in results], np.bool_)
        if self.on_opt_out == "drop":
            for reason in sorted({got.opted_out for got in results if got.opted_out and got.fault is None}):
                allowed = np.array([got.opted_out != reason or got.fault is not None for got in results], np.bool_)
                rejections += batch.keep(allowed, self.name, f"opted out: {reason}").rejections
                good &= allowed
        return replace(batch.keep(good, self.name, ""), rejections=tuple(rejections))

    def _tried(self, url: str | None, transfer: Transfer) -> _Got:
        """Fetch a file, or say why not; each address that it is redirected to is asked for its rules first."""
        target, says = url or "", _Got()
        for _ in range(MAX_REDIRECTS + 1):
            says = self._ruled(target, transfer, says)
            if says.fault or says.opted_out == "robots.txt":
                return says
            try:
                data, headers = read_limited(target, transfer, self.limit, self.file_timeout_s)
                return self._found(data, headers, says, transfer)
            except RedirectedError as error:
                if origin_of(target) != origin_of(error.location):
                    transfer = replace(transfer, headers=harmless(transfer.headers))
                target = error.location
            except TransferError as error:
                return says._replace(fault=_fault(error))
        return says._replace(fault=MediaFault("no answer", f"more than {MAX_REDIRECTS} redirects"))

    def _ruled(self, url: str, transfer: Transfer, before: _Got) -> _Got:
        """What the site of an address says of it, added to what those before it say."""
        try:
            host = host_of(url)
            if transfer.public_only:
                check_public(url)
        except TransferError as error:
            return before._replace(fault=_fault(error))
        except Interrupted as error:
            return before._replace(fault=MediaFault("no answer", str(error)))
        if not self.robots:
            return before
        site = _site(origin_of(url), transfer, self._run)
        if site.robots is None:
            return before._replace(fault=MediaFault("robots.txt cannot be had", f"of {host}"))
        reserved = is_reserved(site.tdm, path_of(url))
        says = before._replace(robots="allowed", tdm=reserved if before.tdm is None else before.tdm or reserved)
        return says if site.robots.allows(path_of(url)) else says._replace(robots="disallowed", opted_out="robots.txt")

    def _found(self, data: bytes, headers: Sequence[tuple[str, str]], says: _Got, transfer: Transfer) -> _Got:
        """The result for a file that was fetched."""
        tags = robots_tags(headers, _agent(transfer))
        reserved = tdm_reservation(headers)
        tdm = says.tdm if reserved is None else reserved
        objections = [f"X-Robots-Tag {tag}" for tag in tags if tag in self.opt_out_tags]
        opted_out = objections[0] if objections else "TDMRep" if tdm else None
        content, fault = self._checked(data, dict(headers))
        if opted_out and self.on_opt_out == "drop":
            content = None
        return _Got(content, fault, _mime(dict(headers)), says.robots, ", ".join(tags) or None, tdm, opted_out)

    def _checked(self, data: bytes, headers: dict[str, str]) -> tuple[bytes | None, MediaFault | None]:
        """The file without the compression of its transfer."""
        lower = {name.lower(): value for name, value in headers.items()}
        coding = lower.get("content-encoding", "").strip().lower()
        if coding and coding != "identity":
            head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n\r\n".encode()
            try:
                message = response(head + data, self.limit + 1)
            except ResourceError as error:  # the server used a compression that was not requested
                return None, MediaFault("unknown compression", str(error))
            if message is None or (message.damage and len(message.body) <= self.limit):
                return None, MediaFault("damaged", message.damage if message else "")
            data = message.body
        if len(data) > self.limit:
            return None, MediaFault("too large", f"more than the limit of {self.limit:,} bytes")
        return (data, None) if data else (None, MediaFault("empty", "the server gave no bytes"))


def _fault(error: TransferError) -> MediaFault:
    if isinstance(error, PrivateAddressError):
        return MediaFault("private network", str(error))
    if isinstance(error, BadAddressError):
        return MediaFault("bad address", str(error))
    return MediaFault("no answer" if error.status is None else f"HTTP {error.status}", str(error))


_sites: OrderedDict[tuple[int, str], _Site] = OrderedDict()
_locks: OrderedDict[str, threading.Lock] = OrderedDict()
_lock = threading.Lock()


def _site(address: str, transfer: Transfer, run: str) -> _Site:
    """The rules of a site; fetched once an hour in each process, or sooner after a failure."""
    key = os.getpid(), address
    with _lock:
        site_lock = _locks.setdefault(address, threading.Lock())
        while len(_locks) > _SITES:
            _locks.popitem(last=False)
    with site_lock:
        with _lock:
            known = _sites.get(key)
        begin = time.monotonic()
        if known is not None and begin < known.until and (known.robots is not None or known.run == run):
            return known
        site = _asked(address, transfer)
        end = time.monotonic()
        kept_s = _FRESH_S if site.robots is not None else min(_FRESH_S, max(_FAILED_S, _FAILED_TIMES * (end - begin)))
        site = site._replace(until=end + kept_s, run=run)
        with _lock:
            _sites[key] = site
            while len(_sites) > _SITES:
                _sites.popitem(last=False)
        return site


def _asked(address: str, transfer: Transfer) -> _Site:
    transfer = replace(transfer, follow_redirects=True)
    try:
        data, _ = read_limited(f"{address}/robots.txt", transfer, LARGEST_ROBOTS, _RULES_S)
        robots = Robots.of(data[:LARGEST_ROBOTS].decode("utf-8", "replace"), _agent(transfer))
    except TransferError as error:
        if error.status is None or not 400 <= error.status < 500:  # RFC 9309: then nothing may be fetched
            return _Site(None, [])
        robots = Robots()
    try:
        data, _ = read_limited(
            f"{address}/.well-known/tdmrep.json", replace(transfer, attempts=1), _TDM_BYTES, _RULES_S
        )
        tdm = tdm_rules(data)
    except TransferError:
        tdm = []
    return _Site(robots, tdm)


def _agent(transfer: Transfer) -> str:
    agent = {name.lower(): value for name, value in transfer.headers.items()}.get("user-agent", "dcurate")
    return agent.partition("/")[0].strip()


def _mime(headers: dict[str, str]) -> str | None:
    lower = {name.lower(): value for name, value in headers.items()}
    return lower.get("content-type", "").partition(";")[0].strip().lower() or None


def _file_name(url: str | None, mime: str | None) -> str | None:
    """A name that follows from the address, with the ending of its path, or else of the media type.

    Examples:
        >>> _file_name("https://host/a.PNG?x=1", None), _file_name("https://host/get", "image/jpeg")[16:]
        ('55b9d8d2e5132834.png', '.jpg')
    """
    if url is None:
        return None
    try:
        ending = os.path.splitext(urlsplit(url).path)[1].lower()
    except ValueError:
        ending = ""
    if not kind_of(f"a{ending}"):
        ending = mimetypes.guess_extension(mime or "") or ""
    return hashlib.blake2b(url.encode(errors="surrogatepass"), digest_size=8).hexdigest() + ending

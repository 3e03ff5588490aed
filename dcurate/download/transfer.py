"""Transfer settings: known properties of a file, and retries, timeouts and rate limits."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dcurate.core.batch import FilePart
from dcurate.core.secrets import HidesSecrets
from dcurate.errors import DataError, PipelineError

#: Seconds that servers may ask to wait for one file, in all; one that asks for more is not asked again.
LONGEST_WAIT_S = 3600.0
_LONGEST_BACKOFF_S = 60.0


class TransferError(DataError):
    """A failed download; the message names its URL and the reason.

    Attributes:
        status: that an HTTP server answered; None if there is none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class PrivateAddressError(TransferError):
    """A server in a private network that must not be asked."""


class BadAddressError(TransferError):
    """An address that is not valid, or that can be read in two ways."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot fetch {url!r}: {reason}; check the address")


class RedirectedError(TransferError):
    """A server sends to another address, and redirects are not followed.

    Attributes:
        location: the other address.
    """

    def __init__(self, message: str, status: int, location: str) -> None:
        super().__init__(message, status)
        self.location = location


class Interrupted(Exception):  # noqa: N818 - no error yet
    """A failed attempt that may be retried: the reason, the delay requested by the server, and its HTTP status."""

    def __init__(self, reason: str, wait_s: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.wait_s, self.status = wait_s, status


@dataclass(frozen=True)
class RemoteFile(HidesSecrets):
    """A file to download.

    Args:
        url: its address.
        size: its bytes, where the publisher says so.
        digest: its checksum as ``"sha1:<hex>"``, with any name that `hashlib` knows; empty where none is published.

    Examples:
        >>> file = RemoteFile("https://host/a.gz", 10, "md5:900150983cd24fb0d6963f7d28e17f72")
        >>> RemoteFile.of(file.part) == file
        True
    """

    url: str
    size: int | None = None
    digest: str = ""

    @property
    def part(self) -> FilePart:
        """The file as a part of a split."""
        return FilePart(self.url, size=self.size or 0, version=self.digest or str(self.size or ""))

    @classmethod
    def of(cls, part: FilePart) -> RemoteFile:
        """The inverse of `part`; the text after a semicolon in its version is not the publisher's."""
        version = part.version.partition(";")[0]
        return cls(part.path, part.size or None, version if ":" in version else "")


@dataclass(frozen=True)
class Transfer:
    """Settings for downloads: retries, timeouts and rate limits.

    Args:
        attempts: number of failed attempts in a row after which the file counts as failed; an attempt that receives
            a megabyte or more resets the count.
        backoff_s: seconds before the second attempt, doubled for each further one up to a minute, less up to half at
            random. A longer ``Retry-After`` of the server takes precedence; a file for which a server asks to wait for
            more than an hour in all counts as failed.
        timeout_s: seconds to wait for a connection, for the head of an answer, and for each piece of its content.
        connections_per_host: concurrent downloads from one server to one machine, over all its processes; None for no
            limit.
        requests_per_second: requests to one server from one machine; None for no limit.
        headers: sent with every HTTP request; not printed, as they may hold secrets.
        storage_options: fsspec's, for addresses that are neither ``http://`` nor ``https://``; not printed either.
        public_only: whether servers in private networks are refused, also where a server redirects to one: for URLs
            that come from others.
        follow_redirects: whether to follow up to five redirects; a file that redirects counts as failed otherwise.

    Raises:
        PipelineError: a value out of range.

    Examples:
        >>> Transfer(connections_per_host=2).attempts
        5
    """

    attempts: int = 5
    backoff_s: float = 1.0
    timeout_s: float = 60.0
    connections_per_host: int | None = None
    requests_per_second: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    public_only: bool = False
    follow_redirects: bool = True

    def __post_init__(self) -> None:
        for name in ("attempts", "connections_per_host"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise PipelineError(f"{name}={number!r} must be a whole number of at least 1")
        for name in ("timeout_s", "requests_per_second"):
            amount = getattr(self, name)
            if amount is not None and not amount > 0:
                raise PipelineError(f"{name}={amount!r} must be above zero")
        if self.backoff_s < 0:
            raise PipelineError(f"backoff_s={self.backoff_s!r} must be zero or more")

    def wait_s(self, failures: int, asked: float | None = None) -> float:
        """Seconds to wait after a number of consecutive failures; ``asked`` is the server's requested delay."""
        backoff: float = min(_LONGEST_BACKOFF_S, self.backoff_s * 2 ** (failures - 1)) * random.uniform(0.5, 1.0)
        return max(backoff, asked or 0.0)

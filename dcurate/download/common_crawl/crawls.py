"""List crawls, and the archives of those between two snapshots."""

from __future__ import annotations

import re
import zlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from dcurate.download.fetch import LARGEST_LISTING, read
from dcurate.download.transfer import Transfer, TransferError
from dcurate.download.urls import URLGenerator
from dcurate.errors import DataError, PipelineError, listed

#: Common Crawl slows down whoever asks for more at a time.
POLITE = Transfer(connections_per_host=8)

_CRAWL = re.compile(r"CC-MAIN-(\d{4})-(\d{2})")
_SNAPSHOT = re.compile(r"(\d{4})-(\d{1,2})")
_FIRST_MAIN, _FIRST_NEWS = (2013, 1), (2016, 8)


@dataclass
class BaseCommonCrawlUrlGenerator(URLGenerator):
    """List archives of Common Crawl, the newest crawl first; see its subclasses.

    Args:
        start_snapshot_str: the first crawl that is wanted.
        end_snapshot_str: the last.
        data_prefix: address of the archives or of a copy: ``https://``, ``s3://``, a directory.
        limit: maximum number of archives.
        transfer: retries, timeouts and rate limits.

    Raises:
        PipelineError: a snapshot that cannot be one, or the first after the last.
    """

    start_snapshot_str: str
    end_snapshot_str: str
    data_prefix: str = "https://data.commoncrawl.org"
    limit: int | None = None
    transfer: Transfer = POLITE

    def __post_init__(self) -> None:
        if self._parsed(self.start_snapshot_str) > self._parsed(self.end_snapshot_str):
            raise PipelineError(
                f"start_snapshot={self.start_snapshot_str!r} is after end_snapshot={self.end_snapshot_str!r}; swap them"
            )

    @abstractmethod
    def generate_path_urls(self) -> list[str]:
        """The URLs of the lists of archives, one per crawl.

        Raises:
            DataError: there is no crawl between the two.
        """

    def generate_urls(self) -> list[str]:
        return self.generate_data_urls(self.generate_path_urls())

    def generate_data_urls(self, path_urls: str | Sequence[str] | None = None) -> list[str]:
        """Return the URLs of the archives in the lists; by default of all crawls between the two snapshots.

        Raises:
            DataError: a list cannot be fetched or read.
        """
        lists = [path_urls] if isinstance(path_urls, str) else path_urls
        lists = self.generate_path_urls() if lists is None else lists
        urls: list[str] = []
        for address in lists:
            if self.limit is not None and len(urls) >= self.limit:
                break
            urls += [f"{self.data_prefix.rstrip('/')}/{path}" for path in self._paths(address)]
        return urls[: self.limit]

    def _paths(self, address: str) -> list[str]:
        try:
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
            text = unpacker.decompress(read(address, self.transfer), LARGEST_LISTING).decode()
            if not unpacker.eof:
                raise zlib.error("it is cut, or too large")
        except TransferError as error:
            raise DataError(f"{error}; without the list of its archives a crawl cannot be read") from error
        except (zlib.error, UnicodeDecodeError) as error:
            raise DataError(f"{address} is not a compressed list of archives ({error}); check data_prefix") from error
        return [line.strip() for line in text.splitlines() if line.strip()]

    @abstractmethod
    def _parsed(self, snapshot: str) -> tuple[int, int]:
        """Year and week or month of a snapshot."""

    def _numbers(self, snapshot: str, last: int, form: str) -> tuple[int, int]:
        match = _SNAPSHOT.fullmatch(str(snapshot))
        if not match or not 1 <= int(match[2]) <= last:
            raise PipelineError(f"snapshot {snapshot!r} must be {form}")
        return int(match[1]), int(match[2])


@dataclass
class MainCommonCrawlUrlGenerator(BaseCommonCrawlUrlGenerator):
    """List the archives of the main crawls, which are named by year and week (``"2020-50"``).

    Args:
        start_snapshot_str: the first week; the crawls from it on are taken.
        end_snapshot_str: the last week.
        data_prefix: address of the archives or of a copy.
        limit: maximum number of archives.
        transfer: retries, timeouts and rate limits.
        index_prefix: URL prefix of ``collinfo.json``, the list of crawls.

    Examples:
        >>> MainCommonCrawlUrlGenerator("2020-50", "2021-04", limit=10).limit
        10
        >>> MainCommonCrawlUrlGenerator("2021-04", "2020-50")
        Traceback (most recent call last):
            ...
        dcurate.errors.PipelineError: start_snapshot='2021-04' is after end_snapshot='2020-50'; swap them
    """

    index_prefix: str = "https://index.commoncrawl.org"

    def generate_path_urls(self) -> list[str]:
        """The lists of archives of the crawls between the two weeks, from 2013.

        Raises:
            DataError: there is no crawl between them, or ``collinfo.json`` cannot be read.
        """
        crawls = self._crawls()
        start = max(self._parsed(self.start_snapshot_str), _FIRST_MAIN)
        wanted = [crawl for crawl in crawls if start <= crawl <= self._parsed(self.end_snapshot_str)]
        if not wanted:
            near = [
                *sorted(crawl for crawl in crawls if crawl < start)[-1:],
                *sorted(c for c in crawls if c > start)[:1],
            ]
            raise DataError(
                f"no crawl between {self.start_snapshot_str!r} and {self.end_snapshot_str!r}; the nearest are "
                f"{listed(_named(crawl) for crawl in near)}"
            )
        prefix = self.data_prefix.rstrip("/")
        return [f"{prefix}/crawl-data/CC-MAIN-{_named(crawl)}/warc.paths.gz" for crawl in wanted]

    def _crawls(self) -> list[tuple[int, int]]:
        """All crawls in the order of the list: the newest first."""
        address = f"{self.index_prefix.rstrip('/')}/collinfo.json"
        try:
            names = [str(crawl["id"]) for crawl in orjson.loads(read(address, self.transfer))]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{address} lists no crawls ({error!r}); check index_prefix") from error
        return [(int(match[1]), int(match[2])) for match in map(_CRAWL.fullmatch, names) if match]

    def _parsed(self, snapshot: str) -> tuple[int, int]:
        return self._numbers(snapshot, 53, "year and week, such as '2020-50'")


@dataclass
class NewsCommonCrawlUrlGenerator(BaseCommonCrawlUrlGenerator):
    """List the archives of the news crawls, which are named by year and month (``"2020-08"``), from August 2016.

    Args:
        start_snapshot_str: the first month.
        end_snapshot_str: the last month; one that is to come counts as this month.
        data_prefix: address of the archives or of a copy.
        limit: maximum number of archives.
        transfer: retries, timeouts and rate limits.

    Examples:
        >>> NewsCommonCrawlUrlGenerator("2020-08", "2020-09", limit=10).limit
        10
    """

    def generate_path_urls(self) -> list[str]:
        """The lists of archives of the months, the newest first.

        Raises:
            DataError: no month is left of those wanted.
        """
        today = datetime.now(tz=UTC)
        first = max(self._parsed(self.start_snapshot_str), _FIRST_NEWS)
        last = min(self._parsed(self.end_snapshot_str), (today.year, today.month))
        months = [divmod(month, 12) for month in range(_months(first), _months(last) + 1)]
        if not months:
            raise DataError(
                f"no news between {self.start_snapshot_str!r} and {self.end_snapshot_str!r}; they begin with '2016-08'"
            )
        prefix = self.data_prefix.rstrip("/")
        return [f"{prefix}/crawl-data/CC-NEWS/{year}/{month + 1:02d}/warc.paths.gz" for year, month in reversed(months)]

    def _parsed(self, snapshot: str) -> tuple[int, int]:
        return self._numbers(snapshot, 12, "year and month, such as '2020-08'")


def _named(crawl: tuple[int, int]) -> str:
    return f"{crawl[0]}-{crawl[1]:02d}"


def _months(month: tuple[int, int]) -> int:
    return 12 * month[0] + month[1] - 1

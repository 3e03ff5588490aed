"""The robots.txt of hosts: from the archives of a crawl to a table, and from the table to a look-up."""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError
from dcurate.frames.columns import optional_values, values
from dcurate.frames.document import DocumentBatch
from dcurate.io.parquet_reader import ParquetReader
from dcurate.media.refs import with_columns
from dcurate.rights.robots import LARGEST_ROBOTS, host_and_path

#: Bytes that a process holds, for some seven million hosts; and those of Python's objects for each.
LARGEST_TABLE, _PER_HOST = 2**32, 256
NO_ROBOTS, NO_HOST = "no robots.txt", "no host"
_FOUND, _PATH = range(200, 300), "/robots.txt"
#: The table that the process holds, by the version of its files.
_tables: dict[str, RobotsTable] = {}
_lock = threading.Lock()


@dataclass
class RobotsFiles(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add host and text of each robots.txt, for `FindRights`, in the archives in which a crawl kept these files.

    Common Crawl keeps them as ``crawl-data/CC-MAIN-.../segments/.../robotstxt/``. The host has its port, if that is not
    the usual one; the text is UTF-8, cut after 500 KiB, as RFC 9309 allows. Answers that are not files (a status other
    than 2xx, a page of HTML) are dropped as ``no robots.txt``: they say nothing. So are files at another address than
    ``/robots.txt``, to which a redirect may lead: anyone may have put them there.

    Args:
        url_field: the column with the address.
        content_field: the column with the bytes; rows lose it.
        host_field: the column for the host. `FindRights` reads ``host``, ``robots`` and ``date`` of the files.
        robots_field: the column for the text.
        name: name of the stage.

    Examples:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"url": ["https://example.org/robots.txt"], "content": [b"User-agent: *"]})
        >>> RobotsFiles().process(DocumentBatch(data=rows)).to_arrow().to_pylist()
        [{'url': 'https://example.org/robots.txt', 'host': 'example.org', 'robots': 'User-agent: *'}]
    """

    url_field: str = "url"
    content_field: str = "content"
    host_field: str = "host"
    robots_field: str = "robots"
    name: str = "robots_files"

    def inputs(self) -> Spec:
        return ["data"], [self.url_field, self.content_field]

    def optional_inputs(self) -> Sequence[str]:
        return ["status", "mime_type"]

    def outputs(self) -> Spec:
        return ["data"], [self.host_field, self.robots_field]

    def dropped_columns(self) -> list[str]:
        return [self.content_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        batch = DocumentBatch.given(task)
        table = batch.to_arrow()
        statuses = optional_values(table, "status"), optional_values(table, "mime_type")
        urls = [host_and_path(url or "") for url in values(table, self.url_field)]
        is_file = [
            _is_file(*answer) and (path.partition("?")[0] == _PATH or not host)
            for (host, path), *answer in zip(urls, *statuses, strict=True)
        ]
        files = batch.keep(np.array(is_file, np.bool_), self.name, NO_ROBOTS)
        table = files.to_arrow()
        hosts = [host for (host, _), kept in zip(urls, is_file, strict=True) if kept]
        named = files.with_data(table).keep(np.array([bool(host) for host in hosts], np.bool_), self.name, NO_HOST)
        table = named.to_arrow()
        texts = [
            (content or b"")[:LARGEST_ROBOTS].decode("utf-8", "replace")
            for content in values(table, self.content_field)
        ]
        columns = {self.host_field: ("string", list(filter(None, hosts))), self.robots_field: ("string", texts)}
        table = with_columns(table.drop_columns([self.content_field]), columns)
        return replace(named, data=table, rejections=(*files.rejections, *named.rejections))


def _is_file(status: int | None, mime_type: str | None) -> bool:
    return (status is None or status in _FOUND) and mime_type != "text/html"


class RobotsTable:
    """The robots.txt of hosts in memory, compressed; of a host with several the newest."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, bytes]] = {}
        self.nbytes = 0

    def add(self, host: str, robots: str, date: str) -> None:
        packed = zlib.compress(robots[:LARGEST_ROBOTS].encode("utf-8", "replace"), 1) if robots else b""
        before = self._files.get(host)
        if before is not None:
            if (date, packed) <= before:
                return
            self.nbytes -= len(before[1]) + len(host) + _PER_HOST
        self._files[host] = date, packed
        self.nbytes += len(packed) + len(host) + _PER_HOST

    def get(self, host: str) -> str:
        """The file of a host; empty if there is none."""
        known = self._files.get(host)
        return zlib.decompress(known[1]).decode() if known is not None and known[1] else ""


def robots_table(path: str | list[str], storage_options: dict[str, Any] | None) -> RobotsTable:
    """Read the Parquet files that hold what `RobotsFiles` makes; kept in the process for the next call.

    Raises:
        DataError: they cannot be read, lack a column, or are too large for memory.
    """
    key = robots_version(path, storage_options)
    with _lock:
        if key not in _tables:
            _tables.clear()
            _tables[key] = _read(path, storage_options)
        return _tables[key]


def robots_version(path: str | list[str], storage_options: dict[str, Any] | None) -> str:
    """Return a text that changes when the files do, so that a run does not resume with others."""
    splits = _reader(path, storage_options).splits()
    parts = [(part.path, part.version, part.start) for split in splits for part in split.parts]
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _reader(path: str | list[str], storage_options: dict[str, Any] | None) -> ParquetReader:
    return ParquetReader(path, fields=["host", "robots", "date"], storage_options=storage_options)


def _read(path: str | list[str], storage_options: dict[str, Any] | None) -> RobotsTable:
    reader, table = _reader(path, storage_options), RobotsTable()
    for split in reader.splits():
        batch = reader.process(split)
        if batch is None:
            continue
        rows = batch.to_arrow()
        for host, robots, date in zip(*(values(rows, name) for name in ("host", "robots", "date")), strict=True):
            if host and robots is not None:
                table.add(host, robots, date or "")
        if table.nbytes > LARGEST_TABLE:
            raise DataError(
                f"robots_path: the robots.txt of {path} take more than {LARGEST_TABLE >> 30} GiB of memory; read the "
                "pages of a part of the hosts at a time, with the robots.txt of that part"
            )
    return table

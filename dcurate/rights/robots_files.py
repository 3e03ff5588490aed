"""The robots.txt of hosts: from the archives of a crawl to a table, and from the table to a look-up."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError
from dcurate.frames.columns import nulls, optional_values, values
from dcurate.frames.document import DocumentBatch
from dcurate.io.parquet import ParquetReader
from dcurate.media.refs import with_columns
from dcurate.rights.robots import LARGEST_ROBOTS, host_and_path

#: Bytes of compressed files and names of hosts that a process holds, for some ten million hosts.
LARGEST_TABLE = 2**32
NO_ROBOTS, NO_HOST = "no robots.txt", "no host"
_FOUND = range(200, 300)
#: The table that the process holds, by what it was read from.
_tables: dict[str, RobotsTable] = {}
_lock = threading.Lock()


@dataclass
class RobotsFiles(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make rows of hosts and their robots.txt, for `FindRights`, of the archives in which a crawl kept these files.

    Common Crawl keeps them as ``crawl-data/CC-MAIN-.../segments/.../robotstxt/``. The columns are ``host`` (with a port
    that is not the usual one), ``robots`` (UTF-8, cut after 500 KiB, as RFC 9309 allows) and ``date``. Answers that
    are no file (a status that is not 2xx, a page of HTML) are dropped as ``no robots.txt``: nothing is said then.

    Args:
        url_field: the column with the address.
        content_field: the column with the bytes.
        name: name of the stage.

    Examples:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"url": ["https://example.org/robots.txt"], "content": [b"User-agent: *"]})
        >>> RobotsFiles().process(DocumentBatch(data=rows)).to_arrow().to_pylist()
        [{'host': 'example.org', 'robots': 'User-agent: *', 'date': None}]
    """

    url_field: str = "url"
    content_field: str = "content"
    name: str = "robots_files"

    def inputs(self) -> Spec:
        return ["data"], [self.url_field, self.content_field]

    def optional_inputs(self) -> Sequence[str]:
        return ["status", "mime_type", "date"]

    def outputs(self) -> Spec:
        return ["data"], ["host", "robots", "date"]

    def dropped_columns(self) -> list[str]:
        return [self.url_field, self.content_field, "status", "mime_type"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        hosts, texts = [], []
        for url, content in zip(values(table, self.url_field), values(table, self.content_field), strict=True):
            hosts.append(host_and_path(url or "")[0])
            texts.append((content or b"")[:LARGEST_ROBOTS].decode("utf-8", "replace"))
        answers = zip(optional_values(table, "status"), optional_values(table, "mime_type"), strict=True)
        is_file = np.array(
            [(status is None or status in _FOUND) and mime != "text/html" for status, mime in answers], np.bool_
        )
        columns = {"host": hosts, "robots": texts, "date": optional_values(table, "date")}
        made = with_columns(nulls(table.num_rows), {name: ("string", column) for name, column in columns.items()})
        batch = task.with_data(made.select(list(columns)))
        files = batch.keep(is_file, self.name, NO_ROBOTS)
        named = files.with_data(files.to_arrow())
        named = named.keep(
            np.array([bool(host) for host in values(named.to_arrow(), "host")], np.bool_), self.name, NO_HOST
        )
        named.rejections = (*files.rejections, *named.rejections)
        return named


class RobotsTable:
    """The robots.txt of hosts in memory, compressed; of a host with several the newest."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, bytes]] = {}
        self.nbytes = 0

    def add(self, host: str, robots: str, date: str) -> None:
        packed = zlib.compress(robots[:LARGEST_ROBOTS].encode("utf-8", "replace"), 1)
        before = self._files.get(host)
        if before is not None:
            if (date, packed) <= before:
                return
            self.nbytes -= len(before[1]) + len(host)
        self._files[host] = date, packed
        self.nbytes += len(packed) + len(host)

    def get(self, host: str) -> str:
        """The file of a host; empty if there is none."""
        known = self._files.get(host)
        return "" if known is None else zlib.decompress(known[1]).decode()


def robots_table(path: str | list[str], storage_options: dict[str, Any] | None) -> RobotsTable:
    """Read the Parquet files that hold what `RobotsFiles` makes; kept in the process for the next call.

    Raises:
        DataError: they cannot be read, lack a column, or are too large for memory.
    """
    key = repr((path, storage_options))
    with _lock:
        if key not in _tables:
            _tables.clear()
            _tables[key] = _read(path, storage_options)
        return _tables[key]


def _read(path: str | list[str], storage_options: dict[str, Any] | None) -> RobotsTable:
    reader = ParquetReader(path, fields=["host", "robots", "date"], storage_options=storage_options)
    table = RobotsTable()
    for split in reader.splits():
        batch = reader.process(split)
        if batch is None:
            continue
        rows = batch.to_arrow()
        for host, robots, date in zip(*(values(rows, name) for name in ("host", "robots", "date")), strict=True):
            if host and robots:
                table.add(host, robots, date or "")
        if table.nbytes > LARGEST_TABLE:
            raise DataError(
                f"robots_path: the robots.txt of {path} take more than {LARGEST_TABLE >> 30} GiB of memory; read the "
                "pages of a part of the hosts at a time, with the robots.txt of that part"
            )
    return table

"""Download single pages of Common Crawl by their locations in its index, without their archives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np

from dcurate.core.batch import Rejection
from dcurate.core.foreign import LARGEST
from dcurate.core.resources import Resources
from dcurate.core.stage import ProcessingStage
from dcurate.download.fetch import read_range
from dcurate.download.transfer import Transfer, TransferError
from dcurate.download.urls import WAITING
from dcurate.errors import PipelineError
from dcurate.frames.columns import rows_at, values, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.records import with_bytes
from dcurate.io.warc import LARGEST_RECORD, Damage, iterate_records
from dcurate.io.warc_http import response

_ORDINARY = Transfer()


@dataclass
class CommonCrawlWARCReader(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Download the page of each row from its location in an archive.

    Args:
        warc_filename_field: the column with the archive's path.
        warc_record_offset_field: the column with the byte at which the record begins.
        warc_record_length_field: the column with the bytes that it has, packed.
        binary_content_field: the column for the page's bytes.
        drop_failed: whether rows whose page cannot be downloaded go to quarantine, with the reason; else they are null.
        max_workers: how many pages are fetched at a time.
        timeout_s: seconds to wait for a connection, and for the next byte.
        max_retries: how often a page is asked for again.
        use_s3: fetch from the bucket (needs the ``s3`` extra and credentials) instead of over HTTPS; None asks the
            environment, ``CC_USE_S3``.
        s3_bucket: name of the bucket; by default ``CC_S3_BUCKET`` of the environment, else ``"commoncrawl"``.
        s3_key_prefix: prefix removed from paths there; by default ``CC_S3_KEY_PREFIX``.
        data_prefix: address of the archives or of a copy, where ``use_s3`` is not asked for.
        transfer: retries, rate limits and credentials; ``timeout_s`` and ``max_retries`` take precedence.

    Raises:
        PipelineError: ``max_workers`` below one, or a timeout or number of retries out of range.

    Examples:
        >>> CommonCrawlWARCReader(max_workers=4).inputs()[1]
        ['warc_filename', 'warc_record_offset', 'warc_record_length']
    """

    warc_filename_field: str = "warc_filename"
    warc_record_offset_field: str = "warc_record_offset"
    warc_record_length_field: str = "warc_record_length"
    binary_content_field: str = "binary_content"
    drop_failed: bool = True
    max_workers: int = 16
    timeout_s: float = 30
    max_retries: int = 3
    use_s3: bool | None = None
    s3_bucket: str | None = None
    s3_key_prefix: str | None = None
    data_prefix: str = "https://data.commoncrawl.org"
    transfer: Transfer = _ORDINARY
    name: str = "common_crawl_warc_reader"
    resources: Resources = WAITING

    def __post_init__(self) -> None:
        if self.max_workers < 1:
            raise PipelineError(f"max_workers={self.max_workers!r} must be at least 1")
        self.transfer = replace(self.transfer, timeout_s=self.timeout_s, attempts=self.max_retries + 1)
        if self.use_s3 is None:
            self.use_s3 = os.environ.get("CC_USE_S3", "").lower() in ("1", "true", "yes")
        self.s3_bucket = self.s3_bucket or os.environ.get("CC_S3_BUCKET", "commoncrawl")
        if self.s3_key_prefix is None:
            self.s3_key_prefix = os.environ.get("CC_S3_KEY_PREFIX", "")

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], [self.warc_filename_field, self.warc_record_offset_field, self.warc_record_length_field]

    def outputs(self) -> tuple[list[str], list[str]]:
        return [], [self.binary_content_field]

    def settings(self) -> dict[str, Any]:
        """The settings that affect the rows: not from where and how pages are downloaded."""
        names = ("warc_filename_field", "warc_record_offset_field", "warc_record_length_field", "binary_content_field")
        return {name: getattr(self, name) for name in (*names, "drop_failed")}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows with their pages."""
        table = task.to_arrow()
        places = zip(*(values(table, name) for name in self.inputs()[1]), strict=True)
        with ThreadPoolExecutor(self.max_workers) as threads:
            pages = list(threads.map(self._page, places))
        rows = with_bytes(table, self.binary_content_field, [page for page, _ in pages])
        failed = np.array([bool(error) for _, error in pages], dtype=bool)
        if not (self.drop_failed and failed.any()):
            return task.with_data(rows)
        lost = with_column(rows_at(table, np.flatnonzero(failed)), "error", [error for _, error in pages if error])
        rejection = Rejection(self.name, "not fetched", lost.num_rows, lost.nbytes, lost, fault=True)
        return replace(task, data=rows_at(rows, np.flatnonzero(~failed)), rejections=(rejection,))

    def _page(self, place: Sequence[Any]) -> tuple[bytes | None, str]:
        """Return the bytes of a page, or the reason for their absence."""
        path, offset, length = place
        if not path or offset is None or not length:
            return None, "the row names no place in an archive"
        try:
            start, size = int(offset), int(length)
        except (ValueError, OverflowError):
            start, size = -1, 0
        if not (0 <= start <= LARGEST and 0 < size <= LARGEST_RECORD):
            return None, f"the row names no place in an archive: offset {offset!r:.40}, length {length!r:.40}"
        try:
            data = read_range(self._address(path), self.transfer, start, size)
        except TransferError as error:
            return None, str(error)
        reason = "no record at this place"
        for record in iterate_records(BytesIO(data)):
            if isinstance(record, Damage):
                reason = record.reason
                continue
            message = response(record.content)
            return (record.content, "") if message is None else (message.body, "")
        return None, reason

    def _address(self, path: str) -> str:
        if not self.use_s3:
            return f"{self.data_prefix.rstrip('/')}/{path.lstrip('/')}"
        return f"s3://{self.s3_bucket}/{path.removeprefix(self.s3_key_prefix or '').lstrip('/')}"

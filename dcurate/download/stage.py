"""Listing, downloading, reading and extracting as one stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dcurate.core.batch import Batch
from dcurate.core.stage import CompositeStage, ProcessingStage
from dcurate.download.downloader import DocumentDownloader, DownloadFiles
from dcurate.download.extract import DocumentExtractor, OnError
from dcurate.download.iterate import (
    DocumentIterator,
    FileCut,
    IterateDocuments,
    RangeIterator,
)
from dcurate.download.urls import WAITING, GenerateUrls, URLGenerator
from dcurate.frames.document import DocumentBatch


@dataclass
class DownloadAndExtract(CompositeStage[Batch, DocumentBatch]):
    """List files, download them, read their records, and make a row from each.

    Args:
        url_generator: lists the files.
        downloader: downloads them.
        iterator: reads the records of a file.
        extractor: makes a row from a record; without it the records are the rows.
        url_limit: maximum number of files.
        record_limit: maximum number of rows per file.
        add_filename_field: whether to add the name of the file to rows, in ``file_name`` or the column named.
        extractor_max_calls_per_worker: accepted for compatibility; processes whose memory grows are restarted
            anyway.
        on_error: ``"quarantine"`` sets aside files that cannot be downloaded and records that cannot be read, and
            continues; ``"raise"`` ends the run at the first.
        keep_files: whether to keep files after they have been read.
        blocksize: files that can be read from the middle are cut into ranges of about this many (compressed) bytes,
            which several workers read; None leaves files whole, and so does a ``record_limit``.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> from dcurate.download import (
        ...     WikipediaDownloader,
        ...     WikipediaExtractor,
        ...     WikipediaIterator,
        ...     WikipediaUrlGenerator,
        ... )
        >>> stage = DownloadAndExtract(
        ...     WikipediaUrlGenerator("de"),
        ...     WikipediaDownloader("dumps"),
        ...     WikipediaIterator("de"),
        ...     WikipediaExtractor("de"),
        ... )
        >>> len(stage.decompose())
        3
    """

    url_generator: URLGenerator
    downloader: DocumentDownloader
    iterator: DocumentIterator
    extractor: DocumentExtractor | None = None
    url_limit: int | None = None
    record_limit: int | None = None
    add_filename_field: bool | str = True
    extractor_max_calls_per_worker: int | None = None
    on_error: OnError = "quarantine"
    keep_files: bool = True
    blocksize: int | str | None = None

    def __post_init__(self) -> None:
        kinds = [type(part).__name__.lower() for part in (self.url_generator, self.downloader)]
        self.name = f"document_download_extract_{'_'.join(kinds)}_composite"
        self.decompose()

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        """The stages: listing, downloading, optional division into ranges, and reading with extraction."""
        cut: list[ProcessingStage[Any, Any]] = []
        if self.blocksize is not None and not self.record_limit and isinstance(self.iterator, RangeIterator):
            cut = [FileCut(self.blocksize).with_(resources=WAITING)]
        return [
            GenerateUrls(self.url_generator, self.url_limit, self.downloader),
            DownloadFiles(self.downloader, self.on_error),
            *cut,
            IterateDocuments(
                iterator=self.iterator,
                extractor=self.extractor,
                record_limit=self.record_limit,
                add_filename_field=self.add_filename_field,
                max_calls_per_worker=self.extractor_max_calls_per_worker,
                on_error=self.on_error,
                keep_files=self.keep_files,
                downloader=self.downloader,
            ),
        ]

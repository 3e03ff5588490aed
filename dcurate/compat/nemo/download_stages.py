"""Stages that download, in NeMo Curator's form; dcurate's own stages take their places in a pipeline.

These are of `builtin`, as workers install the alias for them, which a person's generators and extractors import.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from dcurate.compat.nemo import builtin
from dcurate.compat.nemo.builtin import CommonCrawlHTMLExtractor
from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.files import resolve_filename_column
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Resources, Spec
from dcurate.compat.nemo.tasks import DocumentBatch, EmptyTask, FileGroupTask
from dcurate.download import downloader, iterate, urls
from dcurate.download.arxiv import stage as arxiv
from dcurate.download.common_crawl import pages
from dcurate.download.common_crawl import stage as common_crawl
from dcurate.download.extract import DocumentExtractor, Skipped
from dcurate.download.transfer import RemoteFile, TransferError
from dcurate.download.wikipedia import stage as wikipedia
from dcurate.text.extract.algorithms import HTMLExtractorAlgorithm

_log = logging.getLogger("dcurate.compat.nemo")

#: Compressed bytes of a range of a file; see `dcurate.WikipediaDownloadExtractStage`.
_BLOCKSIZE = "32MiB"

#: What a slot that lists or downloads takes of a core; half of one with NeMo Curator.
_WAITING = Resources(cpus=urls.WAITING.cpus)


class DocumentDownloader(downloader.DocumentDownloader):
    """Downloads files to a directory; subclass it and write ``_get_output_filename`` and ``_download_to_path``.

    Args:
        download_dir: is made if it is not there.
        verbose: whether each file is logged.
    """

    def __init__(self, download_dir: str, verbose: bool = False) -> None:
        super().__init__(download_dir, verbose)
        os.makedirs(download_dir, exist_ok=True)

    def download(self, url: str) -> str | None:
        """Download the file of a URL, unless it exists; return its path, or None if it cannot be fetched."""
        try:
            return super().download(url)
        except TransferError as error:
            _log.error("Failed to download to %s: %s", self.target(url), error)
            return None

    def fetch(self, file: RemoteFile) -> str | None:
        """The same for dcurate's stage, which keeps the reason of a failure."""
        if type(self).download is DocumentDownloader.download:
            return super().download(file.url)
        return self.download(file.url)


DocumentDownloader.register(downloader.FileDownloader)


@dataclass
class URLGenerationStage(ProcessingStage[EmptyTask, FileGroupTask]):
    """Makes a task of each URL.

    Args:
        url_generator: lists them.
        limit: maximum number of URLs.
    """

    url_generator: urls.URLGenerator
    limit: int | None = None
    resources = _WAITING

    def __post_init__(self) -> None:
        self.name = f"url_generation_{type(self.url_generator).__name__.lower()}"

    def outputs(self) -> Spec:
        return ["data"], []

    def num_workers(self) -> int | None:
        return 1

    def process(self, task: EmptyTask) -> list[FileGroupTask]:
        """Return a task for each URL."""
        found = self.url_generator.generate_urls()[: self.limit]
        return [
            FileGroupTask(dataset_name=task.dataset_name, data=[url], _metadata={"source_url": url}) for url in found
        ]

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's stage, if this one is the first."""
        if before or is_last or self.limit == 0 or type(self) is not URLGenerationStage:
            return None
        return builtin.URLGenerationStage(self.url_generator, self.limit, resources=urls.WAITING)


@dataclass
class DocumentDownloadStage(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Downloads the files of URLs.

    Args:
        downloader: downloads them.
    """

    downloader: downloader.DocumentDownloader
    resources = _WAITING

    def __post_init__(self) -> None:
        self.name = f"download_{type(self.downloader).__name__.lower()}"

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Return the paths of the files that could be downloaded."""
        paths = [path for path in map(self._path, task.data) if path]
        return FileGroupTask(
            dataset_name=task.dataset_name,
            data=paths,
            _metadata={**task._metadata, "source_files": paths},
            _stage_perf=task._stage_perf,
        )

    def _path(self, url: str) -> str | None:
        try:
            return self.downloader.download(url)
        except TransferError as error:
            _log.error("%s", error)
            return None

    def xenna_stage_spec(self) -> dict[str, Any]:
        return {"num_workers_per_node": self.downloader.num_workers_per_node()}

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's stage, if its source is before this one."""
        if is_last or not before or not isinstance(before[-1], urls.URLGenerationStage):
            return None
        before[-1].downloader = self.downloader
        return builtin.DocumentDownloadStage(self.downloader)


@dataclass
class DocumentIterateExtractStage(ProcessingStage[FileGroupTask, DocumentBatch]):
    """Reads the records of files, and makes a row of each.

    Args:
        iterator: reads the records of a file.
        extractor: makes a row of a record; without it the records are the rows.
        record_limit: maximum number of rows per file.
        add_filename_column: whether to add the name of the file to rows, in ``file_name`` or the column named.
        max_calls_per_worker: for Ray; processes whose memory grows are restarted anyway.
    """

    iterator: iterate.DocumentIterator
    extractor: DocumentExtractor | None = None
    record_limit: int | None = None
    add_filename_column: bool | str = True
    max_calls_per_worker: int | None = None

    def __post_init__(self) -> None:
        self.filename_col = resolve_filename_column(self.add_filename_column)
        kinds = [type(part).__name__.lower() for part in (self.iterator, self.extractor) if part is not None]
        self.name = "_".join(["iterate", *(["extract"] if self.extractor else []), *kinds])

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        columns = (self.extractor or self.iterator).output_columns()
        return ["data"], [*columns, *([self.filename_col] if self.filename_col else [])]

    def ray_stage_spec(self) -> dict[str, Any]:
        return {} if self.max_calls_per_worker is None else {"max_calls_per_worker": self.max_calls_per_worker}

    def process(self, task: FileGroupTask) -> DocumentBatch:
        """Return the rows; of a file that cannot be read, those before the error."""
        rows: list[Any] = []
        for path in task.data:
            try:
                for number, row in enumerate(self._rows(path), 1):
                    rows.append(row)
                    if number == self.record_limit:
                        break
            except Exception as error:  # of a person's code
                _log.error("Error iterating %s: %s", path, error)
        return DocumentBatch(
            dataset_name=task.dataset_name,
            data=pd.DataFrame(rows),
            _metadata=dict(task._metadata),
            _stage_perf=task._stage_perf,
        )

    def _rows(self, path: str) -> Iterator[Mapping[str, Any]]:
        for record in self.iterator.iterate(path) or ():
            if isinstance(record, Skipped):
                continue
            name = {self.filename_col: os.path.basename(path)} if self.filename_col else {}
            row = self.extractor.extract({**record, **name}) if self.extractor else record
            if row is not None and not isinstance(row, Skipped):
                yield {**row, **name}

    def engine_form(self, before: list[Any], is_last: bool) -> Any:
        """Return dcurate's stage, if its downloads are before this one.

        A file that can be read from the middle is cut into ranges. Pages of the web are extracted in a stage of its
        own, so that one that crashes the process can be isolated.
        """
        if not before or not isinstance(before[-1], downloader.DocumentDownloadStage) or self.record_limit == 0:
            return None
        apart = isinstance(self.extractor, pages.CommonCrawlHTMLExtractor) and self.record_limit is None
        reading = builtin.DocumentIterateExtractStage(
            self.iterator,
            None if apart else self.extractor,
            self.record_limit,
            self.add_filename_column,
            downloader=before[-1].downloader,
        )
        if self.record_limit is None and isinstance(self.iterator, iterate.RangeIterator):
            before.append(iterate.FileCutStage(_BLOCKSIZE).with_(resources=urls.WAITING))
        if not apart:
            return reading
        before.append(reading)
        assert self.extractor is not None
        return builtin.DocumentExtractStage(self.extractor, [self.filename_col] if self.filename_col else [])


@dataclass
class DocumentDownloadExtractStage(CompositeStage[EmptyTask, DocumentBatch]):
    """Lists files, downloads them, reads their records, and makes a row of each.

    Args:
        url_generator: lists the files.
        downloader: downloads them.
        iterator: reads the records of a file.
        extractor: makes a row of a record; without it the records are the rows.
        url_limit: maximum number of files.
        record_limit: maximum number of rows per file.
        add_filename_column: whether to add the name of the file to rows, in ``file_name`` or the column named.
        extractor_max_calls_per_worker: for Ray; processes whose memory grows are restarted anyway.
    """

    url_generator: urls.URLGenerator
    downloader: downloader.DocumentDownloader
    iterator: iterate.DocumentIterator
    extractor: DocumentExtractor | None = None
    url_limit: int | None = None
    record_limit: int | None = None
    add_filename_column: bool | str = True
    extractor_max_calls_per_worker: int | None = None

    def __post_init__(self) -> None:
        self.stages: list[Any] = [
            URLGenerationStage(self.url_generator, self.url_limit),
            DocumentDownloadStage(self.downloader),
            DocumentIterateExtractStage(
                self.iterator,
                self.extractor,
                self.record_limit,
                self.add_filename_column,
                self.extractor_max_calls_per_worker,
            ),
        ]
        kinds = [type(part).__name__.lower() for part in (self.url_generator, self.downloader)]
        self.name = f"document_download_extract_{'_'.join(kinds)}_composite"

    def decompose(self) -> list[Any]:
        return self.stages

    def get_description(self) -> str:
        names = [type(part).__name__ for part in (self.url_generator, self.downloader)]
        return f"URL-Download-Iterate-Extract pipeline using {' and '.join(names)}"

    def _begin(self, kind: type[Any], named: Mapping[str, Any], extractor: Any = None) -> None:
        """Take the parts of a composite of dcurate's."""
        with as_nemo_raises():
            own = kind(**named)
        limits = ("url_limit", "record_limit", "add_filename_column")
        DocumentDownloadExtractStage.__init__(
            self,
            own.url_generator,
            own.downloader,
            own.iterator,
            extractor or own.extractor,
            extractor_max_calls_per_worker=named.get("extractor_max_calls_per_worker"),
            **{name: named[name] for name in limits},
        )
        self.name = own.name


class CommonCrawlDownloadExtractStage(DocumentDownloadExtractStage):
    """Lists, downloads and reads archives of Common Crawl; see `dcurate.CommonCrawlDownloadExtractStage`."""

    def __init__(  # noqa: PLR0913, PLR0917 - the order of NeMo Curator
        self,
        start_snapshot: str,
        end_snapshot: str,
        download_dir: str,
        crawl_type: Literal["main", "news"] = "main",
        html_extraction: HTMLExtractorAlgorithm | str | None = None,
        html_extraction_kwargs: Mapping[str, Any] | None = None,
        stop_lists: Mapping[str, frozenset[str]] | None = None,
        use_aws_to_download: bool = False,
        verbose: bool = False,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        extractor_max_calls_per_worker: int | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self.crawl_type, self.start_snapshot, self.end_snapshot = crawl_type, start_snapshot, end_snapshot
        extractor = CommonCrawlHTMLExtractor(html_extraction, html_extraction_kwargs, stop_lists)
        self._begin(common_crawl.CommonCrawlDownloadExtractStage, given, extractor)

    def get_description(self) -> str:
        return f"Common Crawl {self.crawl_type} pipeline: {self.start_snapshot} to {self.end_snapshot}"


class WikipediaDownloadExtractStage(DocumentDownloadExtractStage):
    """Lists, downloads and reads the dump of a Wikipedia; see `dcurate.WikipediaDownloadExtractStage`."""

    def __init__(  # noqa: PLR0913, PLR0917 - the order of NeMo Curator
        self,
        language: str = "en",
        download_dir: str = "./wikipedia_downloads",
        dump_date: str | None = None,
        wikidumps_index_prefix: str = "https://dumps.wikimedia.org",
        verbose: bool = False,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        log_frequency: int = 1000,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self.language, self.download_dir, self.dump_date = language, download_dir, dump_date
        self.wikidumps_index_prefix, self.verbose, self.log_frequency = wikidumps_index_prefix, verbose, log_frequency
        self._begin(wikipedia.WikipediaDownloadExtractStage, given)

    def get_description(self) -> str:
        return f"Wikipedia {self.language} pipeline for dump {self.dump_date or 'latest'}"


class ArxivDownloadExtractStage(DocumentDownloadExtractStage):
    """Lists, downloads and reads arXiv's archives of LaTeX sources; see `dcurate.ArxivDownloadExtractStage`."""

    def __init__(  # noqa: PLR0917 - the order of NeMo Curator
        self,
        download_dir: str = "./arxiv_downloads",
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_column: bool | str = True,
        log_frequency: int = 1000,
        verbose: bool = False,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._begin(arxiv.ArxivDownloadExtractStage, given)

    def get_description(self) -> str:
        return "Arxiv pipeline"

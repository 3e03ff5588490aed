"""Common Crawl as one stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from dcurate.core.stage import ProcessingStage
from dcurate.download.common_crawl.crawls import (
    POLITE,
    BaseCommonCrawlUrlGenerator,
    MainCommonCrawlUrlGenerator,
    NewsCommonCrawlUrlGenerator,
)
from dcurate.download.common_crawl.pages import CommonCrawlHTMLExtractor, CommonCrawlWarcIterator
from dcurate.download.downloader import FileDownloader
from dcurate.download.extract import ExtractDocuments, OnError
from dcurate.download.iterate import IterateDocuments
from dcurate.download.stage import DownloadAndExtract
from dcurate.download.transfer import RemoteFile, Transfer
from dcurate.errors import PipelineError
from dcurate.text.extract.algorithms import HTMLExtractorAlgorithm

#: Common Crawl's bucket.
BUCKET = "s3://commoncrawl"


class CommonCrawlWARCDownloader(FileDownloader):
    """Download archives of Common Crawl.

    Args:
        download_dir: target folder.
        use_aws_to_download: fetch from the bucket (``s3://commoncrawl``) instead of over HTTPS; this needs the ``s3``
            extra and credentials of AWS.
        verbose: whether each file is logged.
        transfer: retries, rate limits, and credentials in ``storage_options``.

    Examples:
        >>> CommonCrawlWARCDownloader("archives", transfer=Transfer(attempts=2)).transfer.attempts
        2
    """

    def __init__(
        self,
        download_dir: str,
        use_aws_to_download: bool = False,
        verbose: bool = False,
        transfer: Transfer = POLITE,
    ) -> None:
        super().__init__(download_dir, verbose, transfer)
        self.use_aws_to_download = use_aws_to_download

    def _get_output_filename(self, url: str) -> str:
        return urlsplit(url).path.strip("/").replace("/", "-")

    def fetch(self, file: RemoteFile) -> str:
        if not self.use_aws_to_download or file.url.startswith(f"{BUCKET}/"):
            return super().fetch(file)
        return super().fetch(replace(file, url=f"{BUCKET}/{urlsplit(file.url).path.lstrip('/')}"))


class DownloadCommonCrawl(DownloadAndExtract):
    """List, download and read archives of Common Crawl, and extract the text of their pages.

    Columns: ``url``, ``warc_id``, ``source_id`` (the archive), ``language`` (English name in capitals), ``text`` and
    the column of ``add_filename_field``. A page that cannot be read, on which the library fails, or that crashes the
    process, is lost alone.

    Args:
        start_snapshot: the first crawl: year and week (``"2020-50"``), of news year and month (``"2020-08"``).
        end_snapshot: the last.
        download_dir: target folder of the archives.
        crawl_type: ``"main"`` or ``"news"``.
        html_extraction: ``"justext"``, ``"resiliparse"``, ``"trafilatura"``, or an extractor; jusText if None.
        html_extraction_kwargs: settings for the one that is named.
        stop_lists: stop words by the English name of their language in capitals, instead of jusText's.
        use_aws_to_download: fetch from the bucket instead of over HTTPS.
        verbose: whether to log each downloaded file.
        url_limit: maximum number of archives.
        record_limit: maximum number of pages per archive.
        add_filename_field: whether to add the name of the archive to rows, in ``file_name`` or the column named.
        extractor_max_calls_per_worker: accepted for compatibility; processes whose memory grows are restarted
            anyway.
        data_prefix: address of the archives or of a copy: ``https://``, ``s3://``, a directory.
        index_prefix: URL prefix of ``collinfo.json``, the list of crawls.
        on_error: see `DownloadAndExtract`.
        keep_files: whether to keep archives after they have been read.
        blocksize: archives are divided into ranges of about this many compressed bytes, shared by workers; None for no.
        transfer: retries, timeouts and rate limits.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> crawl = DownloadCommonCrawl("2020-50", "2020-50", "archives", url_limit=2)
        >>> crawl.decompose()[0].limit
        2
    """

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
        add_filename_field: bool | str = True,
        extractor_max_calls_per_worker: int | None = None,
        *,
        data_prefix: str = "https://data.commoncrawl.org",
        index_prefix: str = "https://index.commoncrawl.org",
        on_error: OnError = "quarantine",
        keep_files: bool = True,
        blocksize: int | str | None = "32MiB",
        transfer: Transfer = POLITE,
    ) -> None:
        asked = (start_snapshot, end_snapshot, data_prefix, url_limit, transfer)
        if crawl_type not in ("main", "news"):
            raise PipelineError(f"crawl_type={crawl_type!r} must be 'main' or 'news'")
        generator: BaseCommonCrawlUrlGenerator
        if crawl_type == "main":
            generator = MainCommonCrawlUrlGenerator(*asked, index_prefix=index_prefix)
        else:
            generator = NewsCommonCrawlUrlGenerator(*asked)
        super().__init__(
            url_generator=generator,
            downloader=CommonCrawlWARCDownloader(download_dir, use_aws_to_download, verbose, transfer),
            iterator=CommonCrawlWarcIterator(),
            extractor=CommonCrawlHTMLExtractor(html_extraction, html_extraction_kwargs, stop_lists),
            url_limit=url_limit,
            record_limit=record_limit,
            add_filename_field=add_filename_field,
            extractor_max_calls_per_worker=extractor_max_calls_per_worker,
            on_error=on_error,
            keep_files=keep_files,
            blocksize=blocksize,
        )
        self.name = f"common_crawl_{crawl_type}_pipeline"

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        """The stages; extraction is separate, so that a page that crashes the process can be isolated.

        With a ``record_limit``, which counts pages that have text, it is one with reading.
        """
        stages = super().decompose()
        if self.record_limit or self.extractor is None:
            return stages
        reading = cast(IterateDocuments, stages[-1])
        kept = [reading.filename_col] if reading.filename_col else []
        return [
            *stages[:-1],
            replace(reading, extractor=None),
            ExtractDocuments(self.extractor, kept, self.on_error),
        ]

"""arXiv as one stage."""

from __future__ import annotations

from urllib.parse import urlsplit

from dcurate.download.arxiv.latex import ArxivExtractor
from dcurate.download.arxiv.listing import REQUESTER_PAYS, ArxivUrlGenerator
from dcurate.download.arxiv.papers import ArxivIterator
from dcurate.download.downloader import FileDownloader
from dcurate.download.extract import OnError
from dcurate.download.stage import DownloadAndExtract
from dcurate.download.transfer import Transfer


class ArxivDownloader(FileDownloader):
    """Download source archives from arXiv's bucket, or from a mirror.

    Args:
        download_dir: target folder.
        verbose: whether each file is logged.
        transfer: retries, rate limits, and credentials in ``storage_options``.

    Examples:
        >>> ArxivDownloader("downloads")._get_output_filename("s3://arxiv/src/arXiv_src_0001_001.tar")
        'arXiv_src_0001_001.tar'
    """

    def __init__(self, download_dir: str, verbose: bool = False, transfer: Transfer = REQUESTER_PAYS) -> None:
        super().__init__(download_dir, verbose, transfer)

    def _get_output_filename(self, url: str) -> str:
        return urlsplit(url).path.rpartition("/")[2]


class DownloadArxiv(DownloadAndExtract):
    """List, download and read arXiv's archives of LaTeX sources, and extract the text of the papers.

    Columns: ``text``, ``id`` (as in ``hep-th/0001001`` or ``2101.00001``), ``source_id`` (the archive) and the column
    of ``add_filename_field``. The bucket is requester-pays, so it needs AWS credentials.

    Args:
        download_dir: target folder of the archives.
        url_limit: maximum number of archives.
        record_limit: maximum number of papers per archive.
        add_filename_field: whether to add the name of the archive to rows, in ``file_name`` or the column named.
        log_frequency: accepted for compatibility; the run reports progress.
        verbose: whether to log each downloaded file.
        arxiv_prefix: address of the bucket or of a copy: ``s3://``, ``https://``, a directory.
        on_error: see `DownloadAndExtract`.
        keep_files: whether to keep archives after they have been read.
        transfer: retries, rate limits, and credentials in ``storage_options``.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> [stage.name for stage in DownloadArxiv("archives", url_limit=1).decompose()][:2]
        ['url_generation_arxivurlgenerator', 'download_arxivdownloader']
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the order of NeMo Curator
        self,
        download_dir: str = "./arxiv_downloads",
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_field: bool | str = True,
        log_frequency: int = 1000,
        verbose: bool = False,
        *,
        arxiv_prefix: str = "s3://arxiv",
        on_error: OnError = "quarantine",
        keep_files: bool = True,
        transfer: Transfer = REQUESTER_PAYS,
    ) -> None:
        super().__init__(
            url_generator=ArxivUrlGenerator(arxiv_prefix, transfer),
            downloader=ArxivDownloader(download_dir, verbose, transfer),
            iterator=ArxivIterator(log_frequency),
            extractor=ArxivExtractor(),
            url_limit=url_limit,
            record_limit=record_limit,
            add_filename_field=add_filename_field,
            on_error=on_error,
            keep_files=keep_files,
        )
        self.name = "arxiv_pipeline"

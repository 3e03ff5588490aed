"""Wikipedia as one stage."""

from __future__ import annotations

from urllib.parse import urlsplit

from dcurate.download.downloader import FileDownloader
from dcurate.download.extract import OnError
from dcurate.download.stage import DownloadAndExtract
from dcurate.download.transfer import Transfer
from dcurate.download.wikipedia.dumps import POLITE, WikipediaUrlGenerator
from dcurate.download.wikipedia.pages import WikipediaIterator
from dcurate.download.wikipedia.text import WikipediaExtractor


class WikipediaDownloader(FileDownloader):
    """Download dumps, with two connections per machine, as Wikimedia requires.

    Args:
        download_dir: target folder.
        verbose: whether each file is logged.
        transfer: retries, timeouts and rate limits.

    Examples:
        >>> WikipediaDownloader("dumps").transfer.connections_per_host
        2
    """

    def __init__(self, download_dir: str, verbose: bool = False, transfer: Transfer = POLITE) -> None:
        super().__init__(download_dir, verbose, transfer)

    def num_workers_per_node(self) -> int | None:
        """One slot per host: it keeps two connections busy, and other slots would be idle."""
        return 1

    def _get_output_filename(self, url: str) -> str:
        return urlsplit(url).path.strip("/").replace("/", "-")


class DownloadWikipedia(DownloadAndExtract):
    """List, download and read the dump of a Wikipedia, and extract plain text from its articles.

    Columns: ``text``, ``title``, ``id``, ``url``, ``language``, ``source_id`` (the dump's file) and the column of
    ``add_filename_field``.

    Args:
        language: language of the Wikipedia, as in its address.
        download_dir: target folder of the dump.
        dump_date: ``"YYYYMMDD"``, or None for the newest dump whose articles are complete.
        wikidumps_index_prefix: address of the server or of a mirror.
        verbose: whether to log each downloaded file.
        url_limit: maximum number of files.
        record_limit: maximum number of articles per file.
        add_filename_field: whether to add the name of the file to rows, in ``file_name`` or the column named.
        log_frequency: accepted for compatibility; the run reports progress.
        on_error: see `DownloadAndExtract`.
        keep_files: whether to keep files after they have been read.
        blocksize: files are divided into ranges of about this many compressed bytes, shared by workers; None for no.
        transfer: retries, timeouts and rate limits.

    Raises:
        PipelineError: a setting out of range.

    Examples:
        >>> [stage.name for stage in DownloadWikipedia("de").decompose()][0]
        'url_generation_wikipediaurlgenerator'
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the order of NeMo Curator
        self,
        language: str = "en",
        download_dir: str = "./wikipedia_downloads",
        dump_date: str | None = None,
        wikidumps_index_prefix: str = "https://dumps.wikimedia.org",
        verbose: bool = False,
        url_limit: int | None = None,
        record_limit: int | None = None,
        add_filename_field: bool | str = True,
        log_frequency: int = 1000,
        *,
        on_error: OnError = "quarantine",
        keep_files: bool = True,
        blocksize: int | str | None = "32MiB",
        transfer: Transfer = POLITE,
    ) -> None:
        super().__init__(
            url_generator=WikipediaUrlGenerator(language, dump_date, wikidumps_index_prefix, transfer),
            downloader=WikipediaDownloader(download_dir, verbose, transfer),
            iterator=WikipediaIterator(language, log_frequency),
            extractor=WikipediaExtractor(language),
            url_limit=url_limit,
            record_limit=record_limit,
            add_filename_field=add_filename_field,
            on_error=on_error,
            keep_files=keep_files,
            blocksize=blocksize,
        )
        self.name = f"wikipedia_{language}_pipeline"

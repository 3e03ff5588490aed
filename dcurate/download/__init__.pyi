"""Public names of `dcurate.download` and the modules that define them; `__init__.py` reads this file."""

from .arxiv.latex import ArxivExtractor as ArxivExtractor
from .arxiv.listing import ArxivUrlGenerator as ArxivUrlGenerator
from .arxiv.papers import ArxivIterator as ArxivIterator
from .arxiv.stage import ArxivDownloader as ArxivDownloader
from .arxiv.stage import DownloadArxiv as DownloadArxiv
from .common_crawl.crawls import MainCommonCrawlUrlGenerator as MainCommonCrawlUrlGenerator
from .common_crawl.crawls import NewsCommonCrawlUrlGenerator as NewsCommonCrawlUrlGenerator
from .common_crawl.pages import CommonCrawlHTMLExtractor as CommonCrawlHTMLExtractor
from .common_crawl.pages import CommonCrawlWarcIterator as CommonCrawlWarcIterator
from .common_crawl.records import CommonCrawlWARCReader as CommonCrawlWARCReader
from .common_crawl.stage import CommonCrawlWARCDownloader as CommonCrawlWARCDownloader
from .common_crawl.stage import DownloadCommonCrawl as DownloadCommonCrawl
from .downloader import DocumentDownloader as DocumentDownloader
from .downloader import DownloadFiles as DownloadFiles
from .downloader import FileDownloader as FileDownloader
from .extract import DocumentExtractor as DocumentExtractor
from .extract import ExtractDocuments as ExtractDocuments
from .extract import Skipped as Skipped
from .iterate import DocumentIterator as DocumentIterator
from .iterate import IterateDocuments as IterateDocuments
from .iterate import RangeIterator as RangeIterator
from .media import FetchMedia as FetchMedia
from .stage import DownloadAndExtract as DownloadAndExtract
from .transfer import RemoteFile as RemoteFile
from .transfer import Transfer as Transfer
from .urls import GenerateUrls as GenerateUrls
from .urls import URLGenerator as URLGenerator
from .wikipedia.dumps import WikipediaUrlGenerator as WikipediaUrlGenerator
from .wikipedia.pages import WikipediaIterator as WikipediaIterator
from .wikipedia.stage import DownloadWikipedia as DownloadWikipedia
from .wikipedia.stage import WikipediaDownloader as WikipediaDownloader
from .wikipedia.text import WikipediaExtractor as WikipediaExtractor

__all__: list[str]

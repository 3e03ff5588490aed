"""The pages in a Common Crawl archive, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from dcurate.core.extras import needed
from dcurate.download.extract import DocumentExtractor, Skipped
from dcurate.download.iterate import RangeIterator
from dcurate.errors import PipelineError, nearest
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.io.warc import Damage, Record, iterate_records
from dcurate.io.warc_http import response
from dcurate.text.extract.algorithms import (
    HTMLExtractorAlgorithm,
    JusTextExtractor,
    ResiliparseExtractor,
    TrafilaturaExtractor,
)
from dcurate.text.extract.charset import decoded
from dcurate.text.extract.stage import HtmlExtractor
from dcurate.text.extract.stop_words import StopLists

#: What is taken for a page that has text, as the archive or its server has it; the empty one says nothing.
HTML = ("", "text/html", "application/xhtml+xml")

_ALGORITHMS: dict[str, type[HTMLExtractorAlgorithm]] = {
    "justext": JusTextExtractor,
    "resiliparse": ResiliparseExtractor,
    "trafilatura": TrafilaturaExtractor,
}
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


class CommonCrawlWarcIterator(RangeIterator):
    """Read the pages of an archive (WARC or ARC, compressed or plain): the responses of servers.

    Damaged records are counted, with URL and reason, and reading continues at the next one.

    Args:
        storage_options: fsspec's, for archives that are read where they lie.
        mime_types: types of the pages that are taken, as the archive identified or the server declared them; None takes
            all.

    Examples:
        >>> CommonCrawlWarcIterator().output_columns()
        ['url', 'warc_id', 'source_id', 'charset', 'content']
    """

    def __init__(
        self, storage_options: Mapping[str, Any] | None = None, mime_types: tuple[str, ...] | None = HTML
    ) -> None:
        self.storage_options = dict(storage_options or {})
        self.mime_types = mime_types

    def output_columns(self) -> list[str]:
        return ["url", "warc_id", "source_id", "charset", "content"]

    def iterate_range(self, file_path: str, start: int, stop: int | None) -> Iterator[dict[str, Any] | Skipped]:
        """The pages whose records begin from byte ``start`` up to ``stop``."""
        name = str(file_path).rpartition("/")[2]
        store, path = open_store(str(file_path), self.storage_options)
        with storage_errors("read", str(file_path)), store.open(path, "rb") as file:
            for record in iterate_records(file, start, stop):
                if isinstance(record, Damage):
                    yield Skipped("damaged record", True, record.url, f"byte {record.offset}: {record.reason}")
                elif record.kind == "response":
                    yield self._page(record, name)

    def _page(self, record: Record, name: str) -> dict[str, Any] | Skipped:
        message = response(record.content)
        if message is None or message.damage:
            why = message.damage if message else "it holds no HTTP"
            return Skipped("damaged record", True, record.url, f"byte {record.offset}: {why}")
        declared = message.headers.get("content-type", "")
        kind = (record.headers.get("warc-identified-payload-type") or declared).partition(";")[0].strip().lower()
        if self.mime_types is not None and kind not in self.mime_types:
            return Skipped("mime type", id=record.url, detail=kind)
        charset = _CHARSET.search(declared)
        return {
            "url": record.url,
            "warc_id": record.id,
            "source_id": name,
            "charset": charset[1].lower() if charset else None,
            "content": message.body,
        }


class CommonCrawlHTMLExtractor(DocumentExtractor):
    """Extract the text of a page: decode its bytes, identify its language, extract its main text.

    Pages in a language that has no stop words are left out where the algorithm needs these, unless it is written
    without spaces between words.

    Args:
        algorithm: ``"justext"``, ``"resiliparse"``, ``"trafilatura"``, or an extractor; jusText if None. By their names
            they have NeMo Curator's settings.
        algorithm_kwargs: other settings for the algorithm that is named.
        stop_lists: stop words by the English name of their language in capitals, instead of jusText's.

    Raises:
        PipelineError: an unknown algorithm or setting.

    Examples:
        >>> CommonCrawlHTMLExtractor("resiliparse").output_columns()
        ['url', 'warc_id', 'source_id', 'language', 'text']
    """

    def __init__(
        self,
        algorithm: HTMLExtractorAlgorithm | str | None = None,
        algorithm_kwargs: Mapping[str, Any] | None = None,
        stop_lists: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self.algorithm = _algorithm(algorithm, algorithm_kwargs)
        self.stop_lists = stop_lists
        self._pages: HtmlExtractor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pages": None}

    def extract(self, record: dict[str, Any]) -> dict[str, Any] | Skipped | None:
        """The page with ``language`` and ``text`` in place of its bytes."""
        if not record.get("content"):
            return None
        pages = self._ready()
        if len(record["content"]) > pages.largest_page:
            return Skipped("page cannot be extracted", True, detail=pages.extract(record["content"]).error)
        page = decoded(record["content"], record.get("charset"))
        code, language = _language(page)
        if self.algorithm.uses_stop_words and not self._has_stop_words(code):
            return Skipped("language without stop words", detail=language)
        extracted = pages.extract(page, None, code)
        if extracted.error:
            return Skipped("page cannot be extracted", True, detail=extracted.error)
        if not extracted.text:
            return None
        kept = {name: record[name] for name in ("url", "warc_id", "source_id")}
        return {**kept, "language": language, "text": extracted.text}

    def input_columns(self) -> list[str]:
        return ["url", "warc_id", "source_id", "content"]

    def output_columns(self) -> list[str]:
        return ["url", "warc_id", "source_id", "language", "text"]

    def _has_stop_words(self, code: str) -> bool:
        """Whether a language has stop words, or is written without spaces and needs none."""
        stop_list = self._stop_lists.of(code)
        return bool(stop_list.words) or stop_list.language in HTMLExtractorAlgorithm.NON_SPACED_LANGUAGES

    def _ready(self) -> HtmlExtractor:
        """The extractor, set up at the first page."""
        if self._pages is None:
            self._pages = HtmlExtractor(self.algorithm, stop_lists=self.stop_lists)
            self._pages.setup()
            self._stop_lists = StopLists(self.stop_lists)
        return self._pages


def _algorithm(
    algorithm: HTMLExtractorAlgorithm | str | None, settings: Mapping[str, Any] | None
) -> HTMLExtractorAlgorithm:
    if isinstance(algorithm, HTMLExtractorAlgorithm):
        if settings:
            raise PipelineError("html_extraction_kwargs need an extractor by name; pass them to the extractor itself")
        return algorithm
    name = algorithm or "justext"
    if name not in _ALGORITHMS:
        raise PipelineError(f"unknown html_extraction {algorithm!r}{nearest(str(algorithm), _ALGORITHMS)}")
    try:
        return _ALGORITHMS[name](**(settings or {}))
    except TypeError as error:
        raise PipelineError(f"html_extraction={name!r}: {error}; see {_ALGORITHMS[name].__name__}") from error


def _language(page: str) -> tuple[str, str]:
    """The code of a page's language, and its English name in capitals, as found by CLD2 in the markup."""
    library = needed("pycld2", "identifying the languages of pages", "lang")
    data = page.encode(errors="replace")
    try:
        details = library.detect(data)[2]
    except library.error:  # it refuses control characters and unassigned code points
        details = library.detect(_CONTROL.sub(" ", page).encode(errors="replace"))[2]
    return cast(str, details[0][1]), cast(str, details[0][0]).upper()

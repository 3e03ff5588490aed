"""The stage that extracts text from pages."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dcurate.core.batch import Rejection
from dcurate.core.spec import StageSpec
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DcurateError, PipelineError
from dcurate.frames.columns import (
    optional_values,
    rows_at,
    values,
    with_column,
    with_records,
    with_text,
    with_texts_each,
)
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import encodable
from dcurate.redaction import text_of
from dcurate.text.extract.algorithms import HTMLExtractorAlgorithm, PagePiece, PageSignals, ThreadTurn
from dcurate.text.extract.charset import decoded, in_utf8, markup
from dcurate.text.extract.language import unescaped
from dcurate.text.extract.named import extractor
from dcurate.text.extract.stop_words import ENGLISH, StopLists, StopWords

_TITLE = re.compile(r"<title\b[^>]{0,1000}>", re.IGNORECASE)
_END_OF_TITLE = re.compile(r"</title", re.IGNORECASE)
#: How many characters are searched for the title; and bytes, of which most pages have it in the first few.
_HEAD = 2**17
_BYTES_OF_HEAD = (2**14, 4 * _HEAD)
_GRAPHIC = re.compile(rb"\s*[!-~]")

_NO_STOP_WORDS = StopWords(frozenset(), ENGLISH)

#: Columns of texts and images in order, as in `PagePiece`.
_LISTS = ("texts", "images", "alts")

#: Reasons to drop a page, and to put it into quarantine.
EMPTY = "no text"
FAILED = "page cannot be extracted"


class Extracted(NamedTuple):
    """The extracted text of a page.

    Args:
        text: its main text; empty if it has none.
        title: title of the page, empty if it has none.
        error: why the text could not be taken out; empty if it could.
        comments: comments of readers; empty if there are none, or the extractor does not say.
        signals: what the page consists of; None if the extractor does not say.
        turns: posts of a thread; empty if it is not one, or was not asked for.
        kind: kind of the page; empty if it was not asked for.
        pieces: its texts and images; empty if they were not asked for.
    """

    text: str = ""
    title: str = ""
    error: str = ""
    comments: str = ""
    signals: PageSignals | None = None
    turns: Sequence[ThreadTurn] = ()
    kind: str = ""
    pieces: Sequence[PagePiece] = ()


@dataclass
class HtmlExtractor(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Extract the main text of pages.

    A page without text is dropped as rejected (``"no text"``). A page on which the library fails, or that is too
    large, goes to quarantine with its row, its address among it, and what was wrong; the others go on. A page that ends
    the process (a crash in native code) is found by the engine and goes to quarantine too; ``with_(timeout_s=...)``
    does the same for one that takes forever.

    Args:
        algorithm: ``"trafilatura"``, ``"dcurate"``, ``"resiliparse"``, ``"justext"``, or an extractor. A name selects
            settings that score well on two public benchmarks; the classes of libraries have NeMo Curator's.
        algorithm_kwargs: other settings for the extractor that is named.
        stop_lists: stop words by the English name of their language in capitals, instead of jusText's; pages are
            taken to be in one of these languages or in none.
        html_field: the column with the pages, as bytes or text.
        text_field: the column for the text.
        title_field: the column for the page's title; None for none.
        charset_field: the column with the charset that the server declared; used if it is there.
        comments_field: a column for the comments of readers, null where there are none; only ``"dcurate"`` makes it.
        signals_prefix: adds columns, with this before their names, for what a page consists of: ``link_ratio`` and
            ``boilerplate_ratio`` of all text that it shows, ``code_ratio``, ``table_ratio`` and ``formula_ratio`` of
            its main text, each 0 to 1; only ``"dcurate"`` makes them. Filter by them with `NumberRangeFilter`.
        kind_field: a column for the kind of the page: ``"article"``, ``"forum"``, ``"product"``, ``"listing"``,
            ``"documentation"`` or ``"other"``; by its types of schema.org and OpenGraph and by the program that made
            it, else by its structure; only ``"dcurate"`` makes it.
        turns_field: a column for the posts of a thread: a list of structures with ``author``, ``date`` (both as the
            page has them) and ``text``, null where the page is not a thread; only ``"dcurate"`` makes it.
        interleaved_prefix: adds columns, with this before their names, for the main content as texts and images in
            order: the lists ``texts``, ``images`` (addresses) and ``alts``, each null where another has the value.
            `dcurate.images.ToInterleaved` makes interleaved rows of them; only ``"dcurate"`` makes them.
        url_field: the column with the address of the page, which those of images are resolved against; used if it is
            there.
        language_field: a column with the page's language (ISO 639 code or English name), for extractors that use stop
            words. Without it, or where it is null, the language is guessed from the stop words in the page's
            text; if that fails, no stop words are used.
        keep_html: whether the pages are kept beside their text.
        largest_page: pages with more bytes (or characters) go to quarantine.

    Raises:
        PipelineError: an unknown name or setting.

    Examples:
        >>> import pandas as pd
        >>> page = b"<title>A day</title><nav>Home News</nav><article><p>It was a bright cold day.</p></article>"
        >>> stage = HtmlExtractor("resiliparse")
        >>> stage.setup()
        >>> stage.process(DocumentBatch(data=pd.DataFrame({"content": [page]}))).to_pandas().to_dict("records")
        [{'text': 'It was a bright cold day.', 'title': 'A day'}]
    """

    algorithm: str | HTMLExtractorAlgorithm = "trafilatura"
    algorithm_kwargs: dict[str, Any] | None = None
    stop_lists: Mapping[str, frozenset[str]] | None = None
    html_field: str = "content"
    text_field: str = "text"
    title_field: str | None = "title"
    charset_field: str = "charset"
    comments_field: str | None = None
    signals_prefix: str | None = None
    kind_field: str | None = None
    turns_field: str | None = None
    interleaved_prefix: str | None = None
    url_field: str = "url"
    language_field: str | None = None
    keep_html: bool = False
    largest_page: int = 20_000_000
    name: str = "html_extractor"

    spec = StageSpec(ignore_failures=True)

    def __post_init__(self) -> None:
        algorithm = extractor(self.algorithm, self.algorithm_kwargs)
        parts = {
            "comments_field": self.comments_field,
            "signals_prefix": self.signals_prefix,
            "kind_field": self.kind_field,
            "turns_field": self.turns_field,
            "interleaved_prefix": self.interleaved_prefix,
        }
        for setting, value in parts.items():
            if value is not None and not algorithm.has_parts:
                raise PipelineError(
                    f'{self.name}: {setting}={value!r} has no effect with {type(algorithm).__name__}; use "dcurate"'
                )
        if self.largest_page < 1:
            raise PipelineError(f"{self.name}: largest_page={self.largest_page!r} must be at least 1")

    def requires(self) -> dict[str, str]:
        return extractor(self.algorithm, self.algorithm_kwargs).requires()

    def inputs(self) -> Spec:
        return ["data"], [self.html_field, *([self.language_field] if self.language_field else [])]

    def optional_inputs(self) -> Sequence[str]:
        return [self.charset_field, *([self.url_field] if self.interleaved_prefix is not None else [])]

    def outputs(self) -> Spec:
        texts = (self.text_field, self.title_field, self.comments_field, self.kind_field)
        names = [name for name in texts if name]
        turns = [self.turns_field] if self.turns_field else []
        return ["data"], [*names, *self._signals(), *turns, *self._interleaved()]

    def dropped_columns(self) -> Sequence[str]:
        return [] if self.keep_html or self.html_field in self.outputs()[1] else [self.html_field]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._extractor = copy.deepcopy(extractor(self.algorithm, self.algorithm_kwargs))
        self._extractor.load()
        self._stop_lists = StopLists(self.stop_lists)

    def _signals(self) -> list[str]:
        return [] if self.signals_prefix is None else [self.signals_prefix + name for name in PageSignals._fields]

    def _interleaved(self) -> list[str]:
        return [] if self.interleaved_prefix is None else [self.interleaved_prefix + name for name in _LISTS]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        pages = values(table, self.html_field)
        charsets = optional_values(table, self.charset_field)
        languages = optional_values(table, self.language_field)
        urls = optional_values(table, self.url_field)
        extractions = [self.extract(*page) for page in zip(pages, charsets, languages, urls, strict=True)]
        rows = with_text(table, self.text_field, [extraction.text for extraction in extractions])
        if self.title_field:
            rows = with_text(rows, self.title_field, [extraction.title or None for extraction in extractions])
        if self.comments_field:
            rows = with_text(rows, self.comments_field, [extraction.comments or None for extraction in extractions])
        if self.kind_field:
            rows = with_text(rows, self.kind_field, [extraction.kind or None for extraction in extractions])
        for number, name in enumerate(self._signals()):
            numbers = [extraction.signals[number] if extraction.signals else np.nan for extraction in extractions]
            rows = with_column(rows, name, np.array(numbers, np.float64))
        if self.turns_field:
            rows = with_records(
                rows, self.turns_field, ThreadTurn._fields, [extraction.turns for extraction in extractions]
            )
        for number, name in enumerate(self._interleaved()):
            rows = with_texts_each(
                rows, name, [[piece[number] for piece in extraction.pieces] for extraction in extractions]
            )
        if not self.keep_html and self.html_field not in self.outputs()[1]:
            rows = rows.drop_columns([self.html_field])
        rows = rows_at(rows, np.flatnonzero([bool(extraction.text) for extraction in extractions]))
        return replace(task, data=rows, rejections=tuple(self._rejections(table, extractions)))

    def extract(
        self,
        page: bytes | str | None,
        charset: str | None = None,
        language: str | None = None,
        url: str | None = None,
    ) -> Extracted:
        """Extract one page; never raises because of the page's contents.

        Raises:
            ResourceError: a library is missing.
        """
        if page is None:
            return Extracted()
        if len(page) > self.largest_page:
            return Extracted(error=f"the page has {len(page)} bytes, more than largest_page={self.largest_page}")
        try:
            source = self._source(page, charset)
            if _is_blank(source):
                return Extracted()
            words = _NO_STOP_WORDS
            if isinstance(source, str) and self._extractor.uses_stop_words:
                words = self._stop_words(source, language)
            structured = self.kind_field or self.turns_field
            extract = self._extractor.extract_with_structure if structured else self._extractor.extract_parts
            parts = extract(source, *words)
            asked = self.interleaved_prefix is not None
            pieces = self._extractor.extract_pieces(source, url or "") if asked else ()
        except DcurateError:
            raise
        except Exception as error:  # libraries raise undocumented errors on unusual pages
            return Extracted(error=f"{type(error).__name__}: {text_of(error, 400)}")
        return Extracted(
            encodable(parts.text.strip()),
            encodable(_title_of(source)),
            comments=encodable(parts.comments.strip()),
            signals=parts.signals,
            turns=[ThreadTurn(*(encodable(part.strip()) for part in turn)) for turn in parts.turns],
            kind=parts.kind,
            pieces=[PagePiece(*(part and encodable(part) for part in piece)) for piece in pieces],
        )

    def _source(self, page: bytes | str, charset: str | None) -> str | bytes:
        """Return the text of a page; in UTF-8 if that is what the extractor takes."""
        if isinstance(page, str):
            return markup(page)
        return in_utf8(page, charset) if self._extractor.takes_utf8 else decoded(page, charset)

    def _stop_words(self, page: str, language: str | None) -> StopWords:
        return self._stop_lists.of(language) if language else self._stop_lists.of_page(page)

    def _rejections(self, table: Any, extractions: Sequence[Extracted]) -> Iterator[Rejection]:
        empty = np.flatnonzero([not extraction.text and not extraction.error for extraction in extractions])
        if len(empty):
            rows = rows_at(table, empty)
            yield Rejection(self.name, EMPTY, rows.num_rows, rows.nbytes, rows)
        failed = np.flatnonzero([bool(extraction.error) for extraction in extractions])
        if len(failed):
            rows = with_column(
                rows_at(table, failed), "error", [extraction.error for extraction in extractions if extraction.error]
            )
            yield Rejection(self.name, FAILED, rows.num_rows, rows.nbytes, rows, fault=True)


def _is_blank(page: str | bytes) -> bool:
    r"""Return whether a page, as text or in UTF-8, has spaces only; those of Unicode count.

    Examples:
        >>> _is_blank(" \u3000"), _is_blank(" \u3000".encode()), _is_blank("<p>")
        (True, True, False)
    """
    if isinstance(page, bytes):
        if _GRAPHIC.match(page):
            return False
        page = page.decode()
    return not page or page.isspace()


def _title_of(page: str | bytes) -> str:
    """Return the title of a page, as text or in UTF-8; as much of it is decoded as must be."""
    if isinstance(page, str):
        return _title(page)
    for most in _BYTES_OF_HEAD:
        title = _title(page[:most].decode(errors="ignore"))
        if title or most >= len(page):
            break
    return title


def _title(page: str) -> str:
    r"""The title of a page, on one line; empty if there is none near its head.

    Examples:
        >>> _title("<head><TITLE>Fish &amp;\n chips</TITLE>")
        'Fish & chips'
    """
    begin = _TITLE.search(page, 0, _HEAD)
    end = begin and _END_OF_TITLE.search(page, begin.end(), _HEAD)
    return " ".join(unescaped(page[begin.end() : end.start()]).split()) if begin and end else ""

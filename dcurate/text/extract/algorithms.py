"""Text extractors: jusText, Resiliparse and Trafilatura, through their libraries."""

from __future__ import annotations

import copy
import inspect
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dcurate.core.extras import needed
from dcurate.core.part import Part
from dcurate.errors import PipelineError, listed
from dcurate.text.extract.joining import JOINED, joined, joined_at_most
from dcurate.text.extract.justext_context import judge_by_neighbours
from dcurate.text.extract.nesting import TooDeepError, nested_too_deeply

_EXTRA = "html"
_BEGINNING = 50
#: What jusText leaves out of a page, whole or the tags alone, in a time that grows with the square of their number.
_KILLED = ("applet", "button", "input", "script", "select", "style", "textarea")
_UNWRAPPED = ("embed", "form", "iframe", "layer", "object", "param")
_BLOCK = re.compile(r"<(?:article|body|div|h1|main|p|section|table)\b", re.IGNORECASE)


class PageSignals(NamedTuple):
    """What a page consists of; ratios are of bytes of the text that it shows, 0 to 1.

    Args:
        link_ratio: part of all text that is in links.
        boilerplate_ratio: part of all text that is not main text.
        code_ratio: part of the main text that is code.
        table_ratio: part of the main text that is in tables of data.
        formula_ratio: part of the main text that is formulas that stand by themselves.
    """

    link_ratio: float
    boilerplate_ratio: float
    code_ratio: float
    table_ratio: float
    formula_ratio: float


class ThreadTurn(NamedTuple):
    """A post of a thread.

    Args:
        author: who wrote it, as the page has it; empty if it does not say.
        date: when, as the page has it; empty if it does not say.
        text: what.
    """

    author: str
    date: str
    text: str


class PagePiece(NamedTuple):
    """A text or an image of a page.

    Args:
        text: the text; None for an image.
        image: address of the image; None for a text.
        alternative: alternative text of the image; None if it has none.
    """

    text: str | None
    image: str | None
    alternative: str | None


class PageParts(NamedTuple):
    """What an extractor takes out of a page.

    Args:
        text: its main text; empty if it has none.
        comments: comments of readers, with an empty line between them; empty if there are none.
        signals: what it consists of; None if the extractor does not say.
        turns: posts of a thread; empty if it is not one.
        kind: kind of the page, such as ``"forum"``; empty if the extractor does not say.
    """

    text: str = ""
    comments: str = ""
    signals: PageSignals | None = None
    turns: Sequence[ThreadTurn] = ()
    kind: str = ""


class HTMLExtractorAlgorithm(Part, ABC):
    """Extract the main text of a page. Subclass it for your own extractor.

    Examples:
        >>> class Everything(HTMLExtractorAlgorithm):
        ...     def extract_text(self, html, stop_words, language):
        ...         return [html]
        >>> Everything().extract_text("<p>hi</p>", frozenset(), "ENGLISH")
        ['<p>hi</p>']
    """

    held_by = "HtmlExtractor"
    #: Whether `extract_parts` gives comments and signals, too.
    has_parts: ClassVar[bool] = False
    #: Whether `extract_parts` and what is like it take a page as bytes in UTF-8, too, so that it need not be decoded,
    #: and do without stop words.
    takes_utf8: ClassVar[bool] = False
    NON_SPACED_LANGUAGES: ClassVar[frozenset[str]] = frozenset(["THAI", "CHINESE", "JAPANESE", "KOREAN"])

    _library: Any = None

    def load(self) -> None:
        """Load the library; called before the first page, in the process that reads it.

        Raises:
            ResourceError: it is not installed.
        """

    def _loaded(self) -> Any:
        """The library loaded by `load`; loaded on first use."""
        if self._library is None:
            self.load()
        return self._library

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_library"}

    @property
    def uses_stop_words(self) -> bool:
        """Whether stop words are needed."""
        return True

    @abstractmethod
    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        """Return the paragraphs of a page's text, or None or nothing if it has none.

        Args:
            html: the page.
            stop_words: words of the page's language that any text has, in lower case.
            language: English name of the page's language in capitals, such as ``"ENGLISH"``.
        """

    def extract_parts(self, html: str | bytes, stop_words: frozenset[str], language: str) -> PageParts:
        """Return the main text of a page, and what else an extractor takes out that has `has_parts`."""
        page = html if isinstance(html, str) else html.decode()
        return PageParts("\n\n".join(self.extract_text(page, stop_words, language) or ()))

    def extract_with_structure(self, html: str | bytes, stop_words: frozenset[str], language: str) -> PageParts:
        """Return the parts of a page with its turns and kind, if an extractor `has_parts`."""
        return self.extract_parts(html, stop_words, language)

    def extract_pieces(self, html: str | bytes, url: str) -> Sequence[PagePiece]:
        """Return the texts and images of a page in order, if an extractor `has_parts`.

        Args:
            html: the page.
            url: its address, which those of images are resolved against; empty if it is not known.
        """
        return ()


@dataclass
class JusTextExtractor(HTMLExtractorAlgorithm):
    """jusText: classifies paragraphs by their length, stop words and links, and by their neighbours.

    The defaults are NeMo Curator's; selected by name, ``"justext"``, it has those of the public benchmark.

    Args:
        length_low: shorter paragraphs are short, and take after their neighbours.
        length_high: longer ones are long, and good if stop words are many.
        stopwords_low: the least share of stop words of a paragraph that may be good.
        stopwords_high: the least share of one that is good.
        max_link_density: a larger share of characters in links is boilerplate.
        max_heading_distance: keep a heading if text follows within this many characters.
        no_headings: do not treat headings apart.
        is_boilerplate: whether what is judged boilerplate is left out; None: but for languages written without spaces.

    Without stop words (a language that has no list) a paragraph's length and links alone decide.

    Examples:
        >>> from dcurate.text import HtmlExtractor
        >>> HtmlExtractor(JusTextExtractor(length_low=50)).algorithm.length_low
        50
    """

    length_low: int = 70
    length_high: int = 200
    stopwords_low: float = 0.30
    stopwords_high: float = 0.32
    max_link_density: float = 0.2
    max_heading_distance: int = 200
    no_headings: bool = False
    is_boilerplate: bool | None = None

    def requires(self) -> dict[str, str]:
        return {"justext": _EXTRA, "lxml": _EXTRA}

    def load(self) -> None:
        self._library = (
            needed("justext.core", type(self).__name__, _EXTRA),
            needed("lxml.etree", type(self).__name__, _EXTRA),
        )

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        core, etree = self._loaded()
        page = core.html_to_dom(html)
        etree.strip_elements(page, *_KILLED, with_tail=False)
        etree.strip_tags(page, *_UNWRAPPED, etree.Comment)
        paragraphs = core.ParagraphMaker.make_paragraphs(core.preprocessor(page))
        core.classify_paragraphs(
            paragraphs,
            stop_words,
            self.length_low,
            self.length_high,
            self.stopwords_low if stop_words else 0.0,
            self.stopwords_high if stop_words else 0.0,
            self.max_link_density,
            self.no_headings,
        )
        judge_by_neighbours(paragraphs, self.max_heading_distance)
        without = language not in self.NON_SPACED_LANGUAGES if self.is_boilerplate is None else self.is_boilerplate
        return [paragraph.text for paragraph in paragraphs if not (without and paragraph.is_boilerplate)]


@dataclass
class ResiliparseExtractor(HTMLExtractorAlgorithm):
    """Resiliparse: all visible text, or the main content by simple rules; ten times as fast as the others.

    The defaults are NeMo Curator's; by its name, ``"resiliparse"``, it has no stop word rule.

    Args:
        required_stopword_density: paragraphs with a smaller share of stop words are left out. The rule is NeMo
            Curator's; 0 keeps the text as the library gives it.
        main_content: leave out navigation, comments and the like.
        alt_texts: keep alternative texts of images.

    Examples:
        >>> extractor = ResiliparseExtractor(required_stopword_density=0)
        >>> extractor.extract_text("<article><p>A tale of two cities.</p></article>", frozenset(), "ENGLISH")
        ['A tale of two cities.']
    """

    required_stopword_density: float = 0.32
    main_content: bool = True
    alt_texts: bool = False

    def requires(self) -> dict[str, str]:
        return {"resiliparse": _EXTRA}

    def load(self) -> None:
        self._library = needed("resiliparse.extract.html2text", type(self).__name__, _EXTRA).extract_plain_text

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        if nested_too_deeply(html):
            raise TooDeepError
        text = self._loaded()(html, main_content=self.main_content, alt_texts=self.alt_texts)
        return _dense(text, self.required_stopword_density, stop_words, language)

    @property
    def uses_stop_words(self) -> bool:
        return self.required_stopword_density > 0


@dataclass(init=False)
class TrafilaturaExtractor(HTMLExtractorAlgorithm):
    """Trafilatura: the main text by rules on the page's structure, with fallback methods where these find little.

    The defaults are NeMo Curator's; by its name, ``"trafilatura"``, it has the library's own, without comments, and
    finds more. ``fast=True`` leaves the other methods out, for nearly twice the speed.

    Args:
        required_stopword_density: paragraphs with a smaller share of stop words are left out. The rule is NeMo
            Curator's; 0 keeps the text as the library gives it.
        min_extracted_size: with fewer characters the other methods are tried.
        min_extracted_comm_size: the same for comments.
        min_output_size: fewer characters are no text.
        min_output_comm_size: the same for comments.
        max_tree_size: pages of more elements are left out.
        min_duplcheck_size: characters from which paragraphs that come again are left out, with ``deduplicate``.
        max_repetitions: so often may they come.
        extract_kwargs: for `trafilatura.extract`, such as ``include_comments=False``. ``deduplicate`` is True unless
            given. It remembers paragraphs across pages, so with it a text depends on the pages before it.

    Examples:
        >>> extractor = TrafilaturaExtractor(required_stopword_density=0, include_comments=False)
        >>> extractor.extract_text("<article><p>A tale of two cities.</p></article>", frozenset(), "ENGLISH")
        ['A tale of two cities.']
    """

    required_stopword_density: float
    sizes: Mapping[str, int | None]
    extract_kwargs: Mapping[str, Any]

    def __init__(  # noqa: PLR0913, PLR0917 - the arguments of NeMo Curator's
        self,
        required_stopword_density: float = 0.32,
        min_extracted_size: int = 250,
        min_extracted_comm_size: int = 1,
        min_output_size: int = 1,
        min_output_comm_size: int = 1,
        max_tree_size: int | None = None,
        min_duplcheck_size: int = 100,
        max_repetitions: int = 2,
        **extract_kwargs: Any,
    ) -> None:
        self.required_stopword_density = required_stopword_density
        self.sizes = {
            "min_extracted_size": min_extracted_size,
            "min_extracted_comm_size": min_extracted_comm_size,
            "min_output_size": min_output_size,
            "min_output_comm_size": min_output_comm_size,
            "max_tree_size": max_tree_size,
            "min_duplcheck_size": min_duplcheck_size,
            "max_repetitions": max_repetitions,
        }
        self.extract_kwargs = {"deduplicate": True, **extract_kwargs}

    def requires(self) -> dict[str, str]:
        return {"trafilatura": _EXTRA, "lxml": _EXTRA}

    def load(self) -> None:
        extract = needed("trafilatura", type(self).__name__, _EXTRA).extract
        logging.getLogger("trafilatura").setLevel(
            logging.CRITICAL
        )  # pages without text are counted, not logged one by one
        unknown = [name for name in self.extract_kwargs if name not in inspect.signature(extract).parameters]
        if unknown:
            raise PipelineError(f"{type(self).__name__}: trafilatura.extract has no argument {listed(unknown)}")
        library = needed("trafilatura.settings", type(self).__name__, _EXTRA)
        settings = copy.deepcopy(library.DEFAULT_CONFIG)
        for name, size in self.sizes.items():
            settings["DEFAULT"][name.upper()] = "" if size is None else str(size)
        utils = needed("trafilatura.utils", type(self).__name__, _EXTRA)
        self._library = extract, settings, utils, tuple(library.MANUALLY_CLEANED)

    @property
    def uses_stop_words(self) -> bool:
        return self.required_stopword_density > 0

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        if "html" not in html[:_BEGINNING].lower() and _BLOCK.search(html):
            html = f"<html>{html}</html>"  # a document with a single element is otherwise refused as no HTML
        extract, settings, utils, cleaned = self._loaded()
        page: Any = html
        if joined_at_most(html, cleaned) > JOINED:
            page = utils.load_html(html)
            if page is None:
                return []
            if joined(page, cleaned) > JOINED:
                needed("lxml.etree", type(self).__name__, _EXTRA).strip_elements(page, *cleaned, with_tail=False)
        text = extract(page, config=settings, **self.extract_kwargs) or ""
        return _dense(text, self.required_stopword_density, stop_words, language)


def _dense(text: str, density: float, stop_words: frozenset[str], language: str) -> list[str]:
    r"""Keep the paragraphs of a text (its lines) with a share of stop words; all if the language is unknown.

    Examples:
        >>> _dense("of the people\nHome News Sport", 0.3, frozenset({"of", "the"}), "ENGLISH")
        ['of the people']
    """
    if density <= 0:
        return [text] if text.strip() else []
    paragraphs = [paragraph for paragraph in text.split("\n") if paragraph]
    if language in HTMLExtractorAlgorithm.NON_SPACED_LANGUAGES or not stop_words:
        return paragraphs
    split = ((paragraph, paragraph.split()) for paragraph in paragraphs)
    return [text for text, words in split if words and sum(map(stop_words.__contains__, words)) / len(words) >= density]

"""The signals of a column of texts, each group computed once, on first use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels import cuda_measures, cuda_pii, cuda_signals  # noqa: F401 - register their CUDA builds
from dcurate.kernels.characters import CharacterSignals, character_signals
from dcurate.kernels.cuda import BUILDS, CudaColumn
from dcurate.kernels.lines import LineSignals, ParagraphSignals, line_signals, paragraph_signals
from dcurate.kernels.ngrams import NgramSignals, ngram_signals
from dcurate.kernels.urls import UrlSignals, url_signals
from dcurate.kernels.words import WordSignals, word_signals
from dcurate.text.boilerplate import BoilerplateSignals, boilerplate_signals
from dcurate.text.segmentation import needs_splitting, spaced

Found = TypeVar("Found")

#: Groups of signals by name: `Signals` has an attribute for each.
GROUPS = frozenset({"characters", "words", "lines", "paragraphs", "ngrams", "urls", "boilerplate"})


@dataclass(frozen=True)
class Needs:
    """The signals that a filter reads: groups by name, and n-grams by size.

    Args:
        groups: of ``characters``, ``words``, ``lines``, ``paragraphs``, ``urls``, ``boilerplate``; ``ngrams`` follows
            from the sizes.
        removed: n-gram sizes for the most frequent n-gram.
        repeated: n-gram sizes for all repeated n-grams.

    Examples:
        >>> both = Needs.of("words") | Needs.of("characters", removed=2)
        >>> sorted(both.groups), set(both.removed)
        (['characters', 'ngrams', 'words'], {2})
    """

    groups: frozenset[str] = frozenset()
    removed: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()

    @classmethod
    def of(cls, *groups: str, removed: int = 0, repeated: int = 0) -> Needs:
        """Make the needs of ``groups``, and of one n-gram size each where it is not 0."""
        ngrams = {"ngrams"} if removed or repeated else set()
        return cls(
            frozenset(groups) | ngrams,
            frozenset({removed} if removed else ()),
            frozenset({repeated} if repeated else ()),
        )

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.groups | other.groups, self.removed | other.removed, self.repeated | other.repeated)


class Signals:
    """Signals of some of the texts of a column; every array has one value for each of these texts, in order.

    Args:
        column: the texts.
        needs: the signals that will be read; n-grams of all its sizes are found in one pass.
        rows: numbers of the texts that are looked at; all of them by default.
        card: the same texts on a GPU; signals with a CUDA build (`BUILDS`) are then computed there.
    """

    def __init__(
        self,
        column: TextColumn,
        needs: Needs,
        rows: npt.NDArray[np.int64] | None = None,
        card: CudaColumn | None = None,
    ) -> None:
        self.column = column
        self.needs = needs
        self.card = card
        self.rows = np.arange(len(column), dtype=np.int64) if rows is None else rows
        self._found: dict[tuple[Callable[..., Any], tuple[Hashable, ...]], Any] = {}
        self._spaced: dict[str, Signals] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def characters(self) -> CharacterSignals:
        """Counts of characters by class."""
        return self._measured(character_signals)

    @cached_property
    def words(self) -> WordSignals:
        """Word statistics."""
        return self._measured(word_signals)

    @cached_property
    def lines(self) -> LineSignals:
        """Line statistics."""
        return self._measured(line_signals)

    @cached_property
    def paragraphs(self) -> ParagraphSignals:
        """Paragraph statistics."""
        return self._measured(paragraph_signals)

    @cached_property
    def ngrams(self) -> NgramSignals:
        """Repeated word n-grams, of the sizes in ``needs``."""
        return self._measured(ngram_signals, self.needs.removed, self.needs.repeated)

    @cached_property
    def urls(self) -> UrlSignals:
        """URL statistics."""
        return self._measured(url_signals)

    @cached_property
    def boilerplate(self) -> BoilerplateSignals:
        """Counts of boilerplate paragraphs."""
        return self._measured(boilerplate_signals)

    def _measured(self, kernel: Callable[..., Found], *options: Any) -> Found:
        """The output of a kernel: computed on the GPU, if the texts are there and it has a CUDA build."""
        if self.card is not None and kernel in BUILDS:
            return cast(Found, BUILDS[kernel](self.card, self.rows, *options))
        return kernel(*self.column, self.rows, *options)

    def of(self, kernel: Callable[..., Found], *options: Hashable) -> Found:
        """The output of a kernel without a group, computed once for all filters that use it.

        Args:
            kernel: a function of (offsets, data, rows, *options) that answers an array with one value for each row,
                or a named tuple of such arrays.
            options: further arguments; another option is another computation.
        """
        key = (kernel, options)
        if key not in self._found:
            self._found[key] = self._measured(kernel, *options)
        return cast(Found, self._found[key])

    def in_language(self, lang: str) -> Signals:
        """The same texts for `words` and `ngrams`: with a space between words.

        For languages that a library splits into words, these are texts made of the words, once for all filters that
        ask for them; only signals of words mean anything in them. For all other languages these signals themselves.

        Args:
            lang: an ISO 639-1 code in any case.
        """
        if not needs_splitting(lang):
            return self
        code = lang.lower()
        if code not in self._spaced:
            self._spaced[code] = Signals(spaced(self.texts(), code), self.needs)
        return self._spaced[code]

    def encoded(self) -> Iterator[bytes]:
        """The texts as UTF-8, for rules without a kernel."""
        offsets, data = self.column
        for row in self.rows:
            yield data[offsets[row] : offsets[row + 1]].tobytes()

    def texts(self) -> Iterator[str]:
        """The texts as strings."""
        return (text.decode(errors="surrogatepass") for text in self.encoded())

    def narrowed(self, mask: npt.NDArray[np.bool_]) -> Signals:
        """The signals of the texts where ``mask`` is true; computed signals are kept."""
        narrow = Signals(self.column, self.needs, self.rows[mask], self.card)
        for name in GROUPS & vars(self).keys():
            vars(narrow)[name] = _narrowed(vars(self)[name], mask)
        narrow._found = {key: _narrowed(found, mask) for key, found in self._found.items()}
        narrow._spaced = {lang: signals.narrowed(mask) for lang, signals in self._spaced.items()}
        return narrow


def _narrowed(group: Any, mask: npt.NDArray[np.bool_]) -> Any:
    if isinstance(group, NgramSignals):
        return NgramSignals(*({size: values[mask] for size, values in kind.items()} for kind in group))
    if isinstance(group, np.ndarray):
        return group[mask]
    return type(group)(*(values[mask] for values in group))


def text_as_column(text: str) -> TextColumn:
    """A column of one text.

    Examples:
        >>> len(text_as_column("é").data)
        2
    """
    return column_of([text.encode(errors="surrogatepass")])

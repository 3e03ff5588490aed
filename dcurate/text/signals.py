"""The signals of a column of texts, each group computed once, on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dcurate.core.kernels import Kernels
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels.characters import CharacterSignals, character_signals
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.kept import Kept
from dcurate.kernels.layout import Bytes, Offsets, Rows
from dcurate.kernels.lines import LineSignals, ParagraphSignals, line_signals, paragraph_signals
from dcurate.kernels.ngrams import NgramSignals, ngram_signals
from dcurate.kernels.signal import Signal
from dcurate.kernels.urls import UrlSignals, url_signals
from dcurate.kernels.words import WordSignals, word_signals
from dcurate.text.boilerplate import BoilerplateSignals, boilerplate_signals
from dcurate.text.segmentation import needs_splitting, spaced

P = ParamSpec("P")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Needs:
    """The sizes of n-grams that a filter reads, so that one pass finds those of all filters.

    Args:
        groups: attributes of `Signals` that it reads; not required, since signals are computed on first use.
        removed: n-gram sizes for the most frequent n-gram.
        repeated: n-gram sizes for all repeated n-grams.
        pays_on_gpu: whether a GPU may be faster although the text must be copied there; see `SignalFilter`.

    Examples:
        >>> both = Needs.of("words") | Needs.of("characters", removed=2)
        >>> sorted(both.groups), set(both.removed)
        (['characters', 'ngrams', 'words'], {2})
    """

    groups: frozenset[str] = frozenset()
    removed: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()
    pays_on_gpu: bool = False

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
        return Needs(
            self.groups | other.groups,
            self.removed | other.removed,
            self.repeated | other.repeated,
            self.pays_on_gpu or other.pays_on_gpu,
        )


class Signals:
    """Signals of some of the texts of a column; every array has one value for each of these texts, in order.

    Args:
        column: the texts; or a function that gives them, called when a signal is computed on the CPU.
        needs: the signals that will be read; n-grams of all its sizes are found in one pass.
        rows: numbers of the texts to measure; all by default.
        gpu_texts: the same texts on a GPU; signals are then computed there, except plain functions.
    """

    def __init__(
        self,
        column: TextColumn | Callable[[], TextColumn],
        needs: Needs,
        rows: npt.NDArray[np.int64] | None = None,
        gpu_texts: CudaColumn | None = None,
    ) -> None:
        self._column = column
        self.needs = needs
        self.gpu_texts = gpu_texts
        self.rows = np.arange(len(self.column), dtype=np.int64) if rows is None else rows
        self._found: dict[Hashable, Any] = {}
        self._spaced: dict[str, Signals] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def column(self) -> TextColumn:
        """The texts, on the host."""
        if callable(self._column):
            self._column = self._column()
        return self._column

    def of(
        self, signal: Callable[Concatenate[Offsets, Bytes, Rows, P], Found], *args: P.args, **kwargs: P.kwargs
    ) -> Found:
        """Return a signal, computed once for all filters that use it; on the GPU, if the texts are there and it can be.

        Args:
            signal: one of `dcurate.kernels`, or any function of (offsets, data, rows, *options) that returns an
                array with one value for each row, or a named tuple of such arrays.
            args: hashable options; other options are another computation.
        """
        key = (signal, args, tuple(kwargs.items()))
        if key not in self._found:
            if self.gpu_texts is not None and isinstance(signal, Signal):
                self._found[key] = signal.gpu(self.gpu_texts, self.rows, *args, **kwargs)
            else:
                self._found[key] = signal(*self.column, self.rows, *args, **kwargs)
        return cast(Found, self._found[key])

    @property
    def characters(self) -> CharacterSignals:
        """Counts of characters by class."""
        return self.of(character_signals)

    @property
    def words(self) -> WordSignals:
        """Word statistics."""
        return self.of(word_signals)

    @property
    def lines(self) -> LineSignals:
        """Line statistics."""
        return self.of(line_signals)

    @property
    def paragraphs(self) -> ParagraphSignals:
        """Paragraph statistics."""
        return self.of(paragraph_signals)

    @property
    def ngrams(self) -> NgramSignals:
        """Repeated word n-grams, of the sizes in ``needs``."""
        return self.of(ngram_signals, self.needs.removed, self.needs.repeated)

    @property
    def urls(self) -> UrlSignals:
        """URL statistics."""
        return self.of(url_signals)

    @property
    def boilerplate(self) -> BoilerplateSignals:
        """Counts of boilerplate paragraphs."""
        return self.of(boilerplate_signals)

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
        narrow = Signals(self._column, self.needs, self.rows[mask], self.gpu_texts)
        narrow._found = {key: _narrowed(signal, mask) for key, signal in self._found.items()}
        narrow._spaced = {lang: signals.narrowed(mask) for lang, signals in self._spaced.items()}
        return narrow


class UsedSignals(Signals):
    """Finds out which signals rules use: none is computed, each is that of a text in which nothing was found."""

    def of(
        self, signal: Callable[Concatenate[Offsets, Bytes, Rows, P], Found], *args: P.args, **kwargs: P.kwargs
    ) -> Found:
        """Return the signal of such texts.

        Raises:
            LookupError: it is not known without computing it.
        """
        if not isinstance(signal, Signal) or signal.blank is None:
            raise LookupError(signal)
        return cast(
            Found,
            self._found.setdefault((signal, args, tuple(kwargs.items())), signal.blank(len(self), *args, **kwargs)),
        )

    def in_language(self, lang: str) -> Signals:
        """The same.

        Raises:
            LookupError: a library would split the texts.
        """
        if needs_splitting(lang):
            raise LookupError(lang)
        return self

    def kernels(self) -> Iterator[Kernels]:
        """The kernels of the signals that were used."""
        used: list[Any] = list(self._found)
        for signal, args, kwargs in used:
            known = vars(sys.modules[signal.__module__]).get(signal.__name__)
            if known is not None and known is signal:
                load = partial(_measure, signal.__module__, signal.__name__, args, dict(kwargs))
                here = Kept(partial(_alone, signal.__module__, signal.__name__))
                yield Kernels(f"{signal.__module__}.{signal.__name__}", load, here, _SECONDS)


#: How long the kernel of a signal takes to compile, roughly.
_SECONDS = 1.5


def _alone(module: str, name: str) -> list[Any]:
    return [getattr(import_module(module), name).loop()]


def _measure(module: str, signal: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Compute a signal of one text, in a process that may not have imported it."""
    getattr(importlib.import_module(module), signal)(*text_as_column("one two"), np.arange(1), *args, **kwargs)


def _narrowed(signal: Any, mask: npt.NDArray[np.bool_]) -> Any:
    if isinstance(signal, dict):
        return {key: _narrowed(values, mask) for key, values in signal.items()}
    return type(signal)(*(_narrowed(values, mask) for values in signal)) if isinstance(signal, tuple) else signal[mask]


def text_as_column(text: str) -> TextColumn:
    """A column of one text.

    Examples:
        >>> len(text_as_column("é").data)
        2
    """
    return column_of([text.encode(errors="surrogatepass")])

"""Signals for the rules of Gopher and its successors, each computed once for all filters of a pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.kernels import cuda_measures, cuda_words, segments
from dcurate.kernels.cuda import CudaColumn, build_of
from dcurate.kernels.layout import Bytes, Offsets, Rows
from dcurate.kernels.occurrences import occurrences as count_in_texts
from dcurate.kernels.repeats import Counting, RepeatSignals, repeat_signals
from dcurate.kernels.segments import Cut, Marks, SegmentSignals, segment_signals
from dcurate.kernels.traits import SoughtSignals, TraitSignals, sought_signals, trait_signals
from dcurate.text.filter import SignalFilter
from dcurate.text.lexicon import Words, words_of
from dcurate.text.signals import Needs, Signals


class MeasureFilter(SignalFilter):
    """A rule whose signals are computed when its scores are requested, and kept for the other rules of the pass."""

    @property
    def needs(self) -> Needs:
        return Needs()


class Lines(NamedTuple):
    """How a text is split into lines or paragraphs, and what to match in them.

    Args:
        cut: where they end and which count.
        begins: prefixes to match.
        ends: suffixes to match.
        loose: whether to ignore surrounding whitespace when matching.
        short: maximum number of characters of a short line.
    """

    cut: Cut
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    loose: bool = False
    short: int = -1


class Grams(NamedTuple):
    """How n-grams are counted.

    Args:
        words: the splitter of the words.
        how: which copies count.
        tops: n-gram sizes for the most frequent n-gram.
        duplicates: n-gram sizes for all repeated n-grams.
    """

    words: str
    how: Counting
    tops: tuple[int, ...] = (2, 3, 4)
    duplicates: tuple[int, ...] = (5, 6, 7, 8, 9, 10)


def words(signals: Signals, splitter: str) -> Words:
    """The words of the texts."""
    return signals.of(words_of, splitter).words


def word_traits(signals: Signals, splitter: str) -> TraitSignals:
    """Word statistics."""
    return signals.of(traits_of, words(signals, splitter))


def words_sought(signals: Signals, splitter: str, sought: tuple[str, ...], ignore_case: bool) -> SoughtSignals:
    """Counts of the words that are in a list."""
    return signals.of(sought_of, words(signals, splitter), (sought, ignore_case))


def repeats(signals: Signals, grams: Grams) -> RepeatSignals:
    """Repeated word n-grams."""
    return signals.of(repeats_of, words(signals, grams.words), grams)


def lines(signals: Signals, how: Lines) -> SegmentSignals:
    """Statistics of lines or paragraphs."""
    return signals.of(lines_of, how)


def characters(signals: Signals) -> npt.NDArray[np.int64]:
    """Characters of each text."""
    return signals.characters.total


def occurrences(signals: Signals, mark: str) -> npt.NDArray[np.int64]:
    """Number of non-overlapping occurrences of a string."""
    return signals.of(count_in_texts, mark)


def traits_of(offsets: Offsets, data: Bytes, rows: Rows, found: Words) -> TraitSignals:
    """Statistics of the word ids of the texts numbered ``rows``."""
    return trait_signals(found.found, found.known.characters, found.known.traits, rows)


@build_of(traits_of)
def _traits_on_gpu(column: CudaColumn, rows: Rows, found: Words) -> TraitSignals:
    return cuda_words.trait_signals(found.found, (found.known.characters, found.known.traits), rows)


def sought_of(
    offsets: Offsets, data: Bytes, rows: Rows, found: Words, sought: tuple[tuple[str, ...], bool]
) -> SoughtSignals:
    """Counts of the word ids of the texts numbered ``rows`` that are in a list."""
    return sought_signals(found.found, found.numbered(*sought), rows)


@build_of(sought_of)
def _sought_on_gpu(column: CudaColumn, rows: Rows, found: Words, sought: tuple[tuple[str, ...], bool]) -> SoughtSignals:
    return cuda_words.sought_signals(found.found, found.numbered(*sought), rows)


def repeats_of(offsets: Offsets, data: Bytes, rows: Rows, found: Words, grams: Grams) -> RepeatSignals:
    """Repeated n-grams of word ids in the texts numbered ``rows``."""
    known = found.known.characters, found.known.hashes, found.known.powers
    return repeat_signals(found.found, known, rows, (grams.tops, grams.duplicates), grams.how)


@build_of(repeats_of)
def _repeats_on_gpu(column: CudaColumn, rows: Rows, found: Words, grams: Grams) -> RepeatSignals:
    known = found.known.characters, found.known.hashes, found.known.powers
    return cuda_words.repeat_signals(found.found, known, rows, (grams.tops, grams.duplicates), grams.how)


def lines_of(offsets: Offsets, data: Bytes, rows: Rows, how: Lines) -> SegmentSignals:
    """Statistics of the lines or paragraphs of the texts numbered ``rows``."""
    return segment_signals(offsets, data, rows, how.cut, _marks(how))


@build_of(lines_of)
def _lines_on_gpu(column: CudaColumn, rows: Rows, how: Lines) -> SegmentSignals:
    return cuda_measures.segment_signals(column, rows, how.cut, _marks(how))


def _marks(how: Lines) -> Marks:
    return segments.marks(how.begins, how.ends, how.loose, how.short)

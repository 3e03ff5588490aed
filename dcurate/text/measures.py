"""What the rules of Gopher and those after it look at, each computed once for all filters of a pass."""

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
    """A rule whose measures are taken when it is asked for its scores, and kept for the other rules of the pass."""

    @property
    def needs(self) -> Needs:
        return Needs()


class Lines(NamedTuple):
    """How a text is cut into lines or paragraphs, and what is looked for in them.

    Args:
        cut: where they end and which count.
        begins: strings of which a line begins with one.
        ends: strings of which a line ends with one.
        loose: whether whitespace before and after a line is overlooked when these are sought.
        short: lines of at most so many characters are short.
    """

    cut: Cut
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    loose: bool = False
    short: int = -1


class Grams(NamedTuple):
    """How n-grams are counted.

    Args:
        words: how texts are split into words.
        how: what counts.
        tops: sizes of n-grams of which the most frequent is sought.
        duplicates: sizes of n-grams of which all that repeat are sought.
    """

    words: str
    how: Counting
    tops: tuple[int, ...] = (2, 3, 4)
    duplicates: tuple[int, ...] = (5, 6, 7, 8, 9, 10)


def words(signals: Signals, splitter: str) -> Words:
    """The words of the texts."""
    return signals.of(words_of, splitter).words


def word_traits(signals: Signals, splitter: str) -> TraitSignals:
    """What the words are like."""
    return signals.of(traits_of, words(signals, splitter))


def words_sought(signals: Signals, splitter: str, sought: tuple[str, ...], ignore_case: bool) -> SoughtSignals:
    """How many of the words are among those sought."""
    return signals.of(sought_of, words(signals, splitter), (sought, ignore_case))


def repeats(signals: Signals, grams: Grams) -> RepeatSignals:
    """What n-grams of words repeat."""
    return signals.of(repeats_of, words(signals, grams.words), grams)


def lines(signals: Signals, how: Lines) -> SegmentSignals:
    """What the lines or paragraphs are like."""
    return signals.of(lines_of, how)


def characters(signals: Signals) -> npt.NDArray[np.int64]:
    """Characters of each text."""
    return signals.characters.total


def occurrences(signals: Signals, mark: str) -> npt.NDArray[np.int64]:
    """How often a string occurs, no two overlapping."""
    return signals.of(count_in_texts, mark)


def traits_of(offsets: Offsets, data: Bytes, rows: Rows, found: Words) -> TraitSignals:
    """What the numbered words of the texts numbered ``rows`` are like."""
    return trait_signals(found.found, found.known.characters, found.known.traits, rows)


@build_of(traits_of)
def _traits_on_card(column: CudaColumn, rows: Rows, found: Words) -> TraitSignals:
    return cuda_words.trait_signals(found.found, (found.known.characters, found.known.traits), rows)


def sought_of(
    offsets: Offsets, data: Bytes, rows: Rows, found: Words, sought: tuple[tuple[str, ...], bool]
) -> SoughtSignals:
    """How many of the numbered words of the texts numbered ``rows`` are among those sought."""
    return sought_signals(found.found, found.numbered(*sought), rows)


@build_of(sought_of)
def _sought_on_card(
    column: CudaColumn, rows: Rows, found: Words, sought: tuple[tuple[str, ...], bool]
) -> SoughtSignals:
    return cuda_words.sought_signals(found.found, found.numbered(*sought), rows)


def repeats_of(offsets: Offsets, data: Bytes, rows: Rows, found: Words, grams: Grams) -> RepeatSignals:
    """What n-grams of numbered words repeat in the texts numbered ``rows``."""
    known = found.known.characters, found.known.hashes, found.known.powers
    return repeat_signals(found.found, known, rows, (grams.tops, grams.duplicates), grams.how)


@build_of(repeats_of)
def _repeats_on_card(column: CudaColumn, rows: Rows, found: Words, grams: Grams) -> RepeatSignals:
    known = found.known.characters, found.known.hashes, found.known.powers
    return cuda_words.repeat_signals(found.found, known, rows, (grams.tops, grams.duplicates), grams.how)


def lines_of(offsets: Offsets, data: Bytes, rows: Rows, how: Lines) -> SegmentSignals:
    """What the lines or paragraphs of the texts numbered ``rows`` are like."""
    return segment_signals(offsets, data, rows, how.cut, _marks(how))


@build_of(lines_of)
def _lines_on_card(column: CudaColumn, rows: Rows, how: Lines) -> SegmentSignals:
    return cuda_measures.segment_signals(column, rows, how.cut, _marks(how))


def _marks(how: Lines) -> Marks:
    return segments.marks(how.begins, how.ends, how.loose, how.short)

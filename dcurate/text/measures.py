"""What the rules of Gopher and those after it look at, each computed once for all filters of a pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.kernels import segments
from dcurate.kernels.layout import Bytes, Offsets, Rows
from dcurate.kernels.repeats import Counting, RepeatSignals, repeat_signals
from dcurate.kernels.segments import Cut, SegmentSignals, segment_signals
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
    return signals.of(_traits, words(signals, splitter))


def words_sought(signals: Signals, splitter: str, sought: tuple[str, ...], ignore_case: bool) -> SoughtSignals:
    """How many of the words are among those sought."""
    return signals.of(_sought, words(signals, splitter), (sought, ignore_case))


def repeats(signals: Signals, grams: Grams) -> RepeatSignals:
    """What n-grams of words repeat."""
    return signals.of(_repeats, words(signals, grams.words), grams)


def lines(signals: Signals, how: Lines) -> SegmentSignals:
    """What the lines or paragraphs are like."""
    return signals.of(_lines, how)


def characters(signals: Signals) -> npt.NDArray[np.int64]:
    """Characters of each text."""
    return signals.characters.total


def occurrences(signals: Signals, mark: str) -> npt.NDArray[np.int64]:
    """How often a string occurs, no two overlapping."""
    return signals.of(_occurrences, mark.encode())


def _traits(offsets: Offsets, data: Bytes, rows: Rows, found: Words) -> TraitSignals:
    return trait_signals(found.found, found.known.characters, found.known.traits, rows)


def _sought(
    offsets: Offsets, data: Bytes, rows: Rows, found: Words, sought: tuple[tuple[str, ...], bool]
) -> SoughtSignals:
    return sought_signals(found.found, found.numbered(*sought), rows)


def _repeats(offsets: Offsets, data: Bytes, rows: Rows, found: Words, grams: Grams) -> RepeatSignals:
    known = found.known.characters, found.known.hashes, found.known.powers
    return repeat_signals(found.found, known, rows, (grams.tops, grams.duplicates), grams.how)


def _lines(offsets: Offsets, data: Bytes, rows: Rows, how: Lines) -> SegmentSignals:
    sought = segments.marks(how.begins, how.ends, how.loose, how.short)
    return segment_signals(offsets, data, rows, how.cut, sought)


def _occurrences(offsets: Offsets, data: Bytes, rows: Rows, mark: bytes) -> npt.NDArray[np.int64]:
    texts = (data[offsets[row] : offsets[row + 1]].tobytes() for row in rows)
    return np.array([text.count(mark) for text in texts], np.int64)

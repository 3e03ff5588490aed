"""Signals for the rules of Gopher and its successors: of lines as each rule defines them, and of word ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from dcurate.kernels import segments
from dcurate.kernels.cuda import CudaColumn, copied
from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import Bytes, Offsets, Rows
from dcurate.kernels.repeats import Counting, RepeatSignals, repeat_signals
from dcurate.kernels.segments import Cut, Marks, SegmentSignals, measure_segments, new_segment_scratch
from dcurate.kernels.signal import Signal, columns, signal
from dcurate.kernels.traits import SoughtSignals, TraitSignals, sought_signals, trait_signals
from dcurate.text.lexicon import Words, words_of
from dcurate.text.signals import Signals

P = ParamSpec("P")
T = TypeVar("T")


class Lines(NamedTuple):
    """How to split a text into lines or paragraphs, and what to match in them.

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
        how: the copies that count.
        tops: n-gram sizes for the most frequent n-gram.
        duplicates: n-gram sizes for all repeated n-grams.
    """

    words: str
    how: Counting
    tops: tuple[int, ...] = (2, 3, 4)
    duplicates: tuple[int, ...] = (5, 6, 7, 8, 9, 10)


def _of_words(
    signal: Signal[..., T],
) -> Callable[[Callable[Concatenate[Words, P], tuple[Any, ...]]], Signal[Concatenate[Words, P], T]]:
    """Make a signal of texts from a signal of word ids; the decorated function makes the options of that one."""

    def declared(options: Callable[Concatenate[Words, P], tuple[Any, ...]]) -> Signal[Concatenate[Words, P], T]:
        def cpu(offsets: Offsets, data: Bytes, rows: Rows, words: Words, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return signal(*words.column(rows), *options(words, *args, **kwargs))

        def gpu(column: CudaColumn, rows: Rows, words: Words, /, *args: P.args, **kwargs: P.kwargs) -> T:
            offsets, ids, places = words.column(rows)
            ids_on_gpu = CudaColumn(offsets, copied(offsets), copied(ids), ids)
            return signal.gpu(ids_on_gpu, places, *options(words, *args, **kwargs))

        made = Signal(cpu, gpu)
        update_wrapper(made, options)
        return made

    return declared


@_of_words(trait_signals)
def traits_of(words: Words) -> tuple[Any, ...]:
    """Count words by their features."""
    return words.known.characters, words.known.traits


@_of_words(sought_signals)
def sought_of(words: Words, sought: tuple[str, ...], ignore_case: bool) -> tuple[Any, ...]:
    """Count the words that are in a list."""
    return (words.numbered(sought, ignore_case),)


@_of_words(repeat_signals)
def repeats_of(words: Words, grams: Grams) -> tuple[Any, ...]:
    """Find repeated word n-grams."""
    known = words.known.characters, words.known.hashes, words.known.powers
    return known, (grams.tops, grams.duplicates), grams.how


@signal(measure_segments, columns(SegmentSignals), scratch=Scratch(new_segment_scratch))
def segments_of(how: Lines) -> tuple[Cut, Marks]:
    """Measure lines or paragraphs, split and matched as ``how`` says."""
    return how.cut, segments.marks(how.begins, how.ends, how.loose, how.short)


def words(signals: Signals, splitter: str) -> Words:
    """The words of the texts."""
    return signals.of(words_of, splitter).words


def word_traits(signals: Signals, splitter: str) -> TraitSignals:
    """Word statistics."""
    return signals.of(traits_of, words(signals, splitter))


def words_sought(signals: Signals, splitter: str, sought: tuple[str, ...], ignore_case: bool) -> SoughtSignals:
    """Counts of the words that are in a list."""
    return signals.of(sought_of, words(signals, splitter), sought, ignore_case)


def repeats(signals: Signals, grams: Grams) -> RepeatSignals:
    """Repeated word n-grams."""
    return signals.of(repeats_of, words(signals, grams.words), grams)

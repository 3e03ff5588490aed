"""Every signal of texts, with its options, to compare GPU and CPU."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pkgutil import walk_packages
from typing import Any, NamedTuple

from dcurate import kernels, text
from dcurate.kernels import (
    comments,
    longest_lines,
    members,
    ngrams,
    occurrences,
    phrases,
    segments,
    source,
)
from dcurate.kernels.cleaning import LineRules
from dcurate.kernels.pii.scan import pii_counts
from dcurate.kernels.repeats import COVERED, EVERY, SKIPPING, Counting
from dcurate.kernels.segments import LINES, NEWLINE, TWO_OR_MORE, Cut
from dcurate.kernels.signal import Signal
from dcurate.text import c4, measures
from dcurate.text.lexicon import words_of

Measure = tuple[str, Signal[..., Any], tuple[Any, ...]]


class SplitBy(NamedTuple):
    """A placeholder for the words of the texts, by splitter."""

    splitter: str


def given(options: tuple[Any, ...], layout: tuple[Any, Any, Any]) -> tuple[Any, ...]:
    """Return the options of a signal, for texts as offsets, data and rows."""
    return tuple(words_of(*layout, one.splitter).words if isinstance(one, SplitBy) else one for one in options)


_CUTS = (
    Cut(LINES, trimmed=False, stripped=True, blank=True),
    Cut(NEWLINE, trimmed=True, stripped=False, blank=False),
    Cut(TWO_OR_MORE, trimmed=False, stripped=False, blank=True),
)
_LINES = [measures.Lines(cut, ("•", "-"), ("…", "..."), loose, 9) for cut in _CUTS for loose in (True, False)]
_FAMILIES = (comments.C, comments.GO, comments.SHELL, comments.RUBY, comments.MARKUP)

_WORDS = SplitBy("whitespace"), SplitBy("normalized")
_GRAMS = [
    measures.Grams("", Counting(joined, duplicates, longest=joined, spaced=True, singles=joined), (2,), (3, 4))
    for joined, duplicates in ((True, SKIPPING), (False, EVERY), (False, COVERED))
]


def all_signals() -> set[Signal[..., Any]]:
    """Return the signals of all modules of kernels and texts."""
    modules = [
        import_module(name)
        for package in (kernels, text)
        for _, name, is_package in walk_packages(package.__path__, package.__name__ + ".")
        if not is_package
    ]
    return {value for module in modules for value in vars(module).values() if isinstance(value, Signal)}


def _without_options() -> list[Measure]:
    """The signals of a text that take no options, in order of their names."""
    plain = {made.__name__: made for made in all_signals() if made.blank is not None and not signature(made).parameters}
    return [(name.removesuffix("_signals").replace("_", " "), plain[name], ()) for name in sorted(plain)]


#: The name, the signal and its options: all signals of texts, which a GPU computes to the last bit as a CPU does. Those
#: that take options are written down with some.
MEASURES: list[Measure] = [
    *_without_options(),
    ("n-grams", ngrams.ngram_signals, ((2, 3), (3, 5))),
    ("phrases", phrases.paragraphs_with, (phrases.phrases([["the", "k"]]),)),
    *((f"longest lines {number}", longest_lines.longest_lines, (number,)) for number in (1, 3)),
    ("alphabet", members.alphabet_signals, ("aé中 x",)),
    ("opens with", source.opens_with, ("<?xml", 9)),
    *((f"comments {family}", comments.comment_signals, (family,)) for family in _FAMILIES),
    *((f"cut {number}", measures.segments_of, (how,)) for number, how in enumerate(_LINES)),
    ("segments", segments.segment_signals, (_CUTS[0], segments.marks(("a",), short=2))),
    ("C4", c4.c4_signals, (LineRules(min_words=1),)),
    ("C4, few rules", c4.c4_signals, (LineRules(0, 4, "", True, filler=False, curly=False),)),
    *((f"traits, {split.splitter}", measures.traits_of, (split,)) for split in _WORDS),
    ("words sought", measures.sought_of, (_WORDS[0], ("a", "the"), True)),
    *((f"n-grams {number}", measures.repeats_of, (_WORDS[0], how)) for number, how in enumerate(_GRAMS)),
    ("personal data", pii_counts, (127, True)),
    ("addresses", pii_counts, (5, False)),
    *((f"occurrences of {mark!r}", occurrences.occurrences, (mark,)) for mark in ("\n", "...", "é", "")),
]

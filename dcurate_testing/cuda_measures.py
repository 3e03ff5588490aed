"""Every signal of `dcurate.text.registry` with options, to compare GPU and CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

from dcurate.kernels import (
    characters,
    comments,
    lines,
    longest_lines,
    members,
    ngrams,
    occurrences,
    phrases,
    scripts,
    segments,
    source,
    urls,
    words,
)
from dcurate.kernels.cleaning import LineRules
from dcurate.kernels.pii.scan import pii_counts
from dcurate.kernels.repeats import COVERED, EVERY, SKIPPING, Counting
from dcurate.kernels.segments import LINES, NEWLINE, TWO_OR_MORE, Cut
from dcurate.kernels.signal import Signal
from dcurate.text import boilerplate, c4, measures
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

#: The name, the signal and its options: all signals of texts, which a GPU computes to the last bit as a CPU does.
MEASURES: list[Measure] = [
    ("characters", characters.character_signals, ()),
    ("words", words.word_signals, ()),
    ("lines", lines.line_signals, ()),
    ("paragraphs", lines.paragraph_signals, ()),
    ("n-grams", ngrams.ngram_signals, ((2, 3), (3, 5))),
    ("urls", urls.url_signals, ()),
    ("boilerplate", boilerplate.boilerplate_signals, ()),
    ("phrases", phrases.paragraphs_with, (phrases.phrases([["the", "k"]]),)),
    *((f"longest lines {number}", longest_lines.longest_lines, (number,)) for number in (1, 3)),
    ("alphabetic", members.alphabetic_signals, ()),
    ("letters", members.letter_signals, ()),
    ("alphabet", members.alphabet_signals, ("aé中 x",)),
    ("scripts", scripts.script_signals, ()),
    ("line counts", source.line_counts, ()),
    ("source", source.source_signals, ()),
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

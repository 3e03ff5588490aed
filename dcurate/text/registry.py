"""All signals of texts, by name: each runs on the CPU and on a GPU, and tests hold one against the other."""

from __future__ import annotations

from typing import Any

from dcurate.kernels.characters import character_signals
from dcurate.kernels.comments import comment_signals
from dcurate.kernels.lines import line_signals, paragraph_signals
from dcurate.kernels.longest_lines import longest_lines
from dcurate.kernels.members import alphabet_signals, alphabetic_signals, letter_signals
from dcurate.kernels.ngrams import ngram_signals
from dcurate.kernels.occurrences import occurrences
from dcurate.kernels.phrases import paragraphs_with
from dcurate.kernels.pii.scan import pii_counts
from dcurate.kernels.scripts import script_signals
from dcurate.kernels.segments import segment_signals
from dcurate.kernels.signal import Signal
from dcurate.kernels.source import line_counts, opens_with, source_signals
from dcurate.kernels.urls import url_signals
from dcurate.kernels.words import word_signals
from dcurate.text.boilerplate import boilerplate_signals
from dcurate.text.c4 import c4_signals
from dcurate.text.measures import repeats_of, segments_of, sought_of, traits_of

SIGNALS: dict[str, Signal[..., Any]] = {
    "alphabet": alphabet_signals,
    "alphabetic": alphabetic_signals,
    "boilerplate": boilerplate_signals,
    "c4": c4_signals,
    "characters": character_signals,
    "comments": comment_signals,
    "letters": letter_signals,
    "line_counts": line_counts,
    "lines": line_signals,
    "longest_lines": longest_lines,
    "ngrams": ngram_signals,
    "occurrences": occurrences,
    "opens_with": opens_with,
    "paragraphs": paragraph_signals,
    "paragraphs_with": paragraphs_with,
    "pii": pii_counts,
    "repeats": repeats_of,
    "scripts": script_signals,
    "segments": segments_of,
    "segments_with": segment_signals,
    "source": source_signals,
    "urls": url_signals,
    "word_traits": traits_of,
    "words": word_signals,
    "words_sought": sought_of,
}

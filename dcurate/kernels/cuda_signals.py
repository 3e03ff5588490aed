"""Signals of texts on a GPU: the functions of `characters`, `words`, `lines` and `ngrams`, one text per thread.

The same bits as on the CPU, as far as numba's simulator of CUDA can tell; untested on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels import characters, lines, ngrams, words
from dcurate.kernels.characters import CharacterSignals, measure_characters
from dcurate.kernels.cuda import CudaColumn, build_of, carried, constant_on_gpu, launch, no_room
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows
from dcurate.kernels.lines import (
    LineRoom,
    LineSignals,
    ParagraphSignals,
    measure_lines,
    measure_paragraphs,
    new_line_room,
)
from dcurate.kernels.ngrams import GramRoom, NgramSignals, Sought, measure_ngrams, new_gram_room
from dcurate.kernels.unicode import alphabetic_bits
from dcurate.kernels.words import WordSignals, measure_words, new_bounds

Span = tuple[int, int]
#: What texts are held against, scratch arrays of all threads, and which of these are the thread's own.
Task = tuple[Any, Any, int]


@njit(**INLINE)
def _characters(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    measure_characters(data, span, out)


@njit(**INLINE)
def _words(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    alphabetic, rooms, place = task
    measure_words(data, span, alphabetic, rooms[0][place], out)


@njit(**INLINE)
def _lines(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    _, rooms, place = task
    measure_lines(data, span, LineRoom(rooms[0][place], rooms[1][place], rooms[2][place]), out)


@njit(**INLINE)
def _paragraphs(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    _, rooms, place = task
    measure_paragraphs(data, span, LineRoom(rooms[0][place], rooms[1][place], rooms[2][place]), out)


@njit(**INLINE)
def _ngrams(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    sought, rooms, place = task
    bounds, hashes, grams, leaders, counts, chosen, table = rooms
    scratch = GramRoom(
        bounds[place], hashes[place], grams[place], leaders[place], counts[place], chosen[place], table[place]
    )
    measure_ngrams(data, span, sought, scratch, out)


def _word_room(most: int) -> tuple[npt.NDArray[Any], ...]:
    return (new_bounds(most),)


@build_of(characters.character_signals)
def character_signals(column: CudaColumn, rows: Rows) -> CharacterSignals:
    """CUDA build of `dcurate.kernels.characters.character_signals`."""
    out = np.empty((len(rows), 5), np.int64)
    launch(_characters, column, rows, 0, room=no_room, out=out)
    return CharacterSignals(*out.T)


@build_of(words.word_signals)
def word_signals(column: CudaColumn, rows: Rows) -> WordSignals:
    """CUDA build of `dcurate.kernels.words.word_signals`."""
    out = np.empty((len(rows), 6), np.int64)
    launch(_words, column, rows, constant_on_gpu(alphabetic_bits), room=_word_room, out=out)
    return WordSignals(*out.T)


@build_of(lines.line_signals)
def line_signals(column: CudaColumn, rows: Rows) -> LineSignals:
    """CUDA build of `dcurate.kernels.lines.line_signals`."""
    out = np.empty((len(rows), 7), np.int64)
    launch(_lines, column, rows, 0, room=new_line_room, out=out)
    return LineSignals(*out.T)


@build_of(lines.paragraph_signals)
def paragraph_signals(column: CudaColumn, rows: Rows) -> ParagraphSignals:
    """CUDA build of `dcurate.kernels.lines.paragraph_signals`."""
    out = np.empty((len(rows), 5), np.int64)
    launch(_paragraphs, column, rows, 0, room=new_line_room, out=out)
    return ParagraphSignals(*out.T)


@build_of(ngrams.ngram_signals)
def ngram_signals(
    column: CudaColumn, rows: Rows, removed: Iterable[int] = (), repeated: Iterable[int] = ()
) -> NgramSignals:
    """CUDA build of `dcurate.kernels.ngrams.ngram_signals`."""
    sought = Sought.of(removed, repeated)
    out = np.empty((len(rows), 2, len(sought.sizes)), np.int64)
    launch(_ngrams, column, rows, carried(sought), room=new_gram_room, out=out)
    return sought.signals(np.moveaxis(out, 0, 2))

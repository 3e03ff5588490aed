"""Signals for web text and source code on a GPU: one text per thread.

The functions of `urls`, `phrases`, `longest_lines`, `members`, `scripts`, `source`, `comments`, `segments` and
`occurrences`, as they are on the CPU. Untested on a GPU, as all of `dcurate.kernels.cuda`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels import comments, longest_lines, members, occurrences, phrases, scripts, segments, source, urls
from dcurate.kernels.cuda import CudaColumn, Room, build_of, carried, constant_on_gpu, copied, launch, no_room
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows
from dcurate.kernels.unicode import alphabetic_bits

Span = tuple[int, int]
#: What texts are held against, scratch arrays of all threads, and which of these are the thread's own.
Task = tuple[Any, Any, int]


@njit(**INLINE)
def _urls(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    urls.measure_urls(data, span, out)


@njit(**INLINE)
def _paragraphs_with(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    sought, rooms, place = task
    phrases.find_paragraphs(data, span, sought, rooms[0][place], out)


@njit(**INLINE)
def _longest_lines(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    _, rooms, place = task
    longest_lines.measure_longest(data, span, rooms[0][place], out)


@njit(**INLINE)
def _members(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    members.measure_members(data, span, task[0], out)


@njit(**INLINE)
def _scripts(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    numbers, rooms, place = task
    scripts.measure_scripts(data, span, numbers, rooms[0][place], out)


@njit(**INLINE)
def _line_counts(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    source.count_lines(data, span, out)


@njit(**INLINE)
def _source(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    source.measure_source(data, span, out)


@njit(**INLINE)
def _opens_with(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    source.find_opening(data, span, task[0], out)


@njit(**INLINE)
def _comments(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    comments.measure_comments(data, span, task[0], out)


@njit(**INLINE)
def _segments(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    sought, rooms, place = task
    hashes, lengths, counts, table = rooms
    room = segments.SegmentRoom(hashes[place], lengths[place], counts[place], table[place])
    segments.measure_segments(data, span, sought, room, out)


@njit(**INLINE)
def _occurrences(data: Bytes, span: Span, task: Task, out: Ints) -> None:
    occurrences.count_occurrences(data, span, task[0], out)


def _measured(
    body: Any, column: CudaColumn, rows: Rows, count: int, *, known: Any = 0, room: Room = no_room
) -> npt.NDArray[np.int64]:
    """The results of ``body``, a fixed number per text; of shape (count, rows)."""
    out = np.empty((len(rows), count), np.int64)
    launch(body, column, rows, known, room=room, out=out)
    return out.T


def _one_array(make: Any, most: int) -> tuple[npt.NDArray[Any], ...]:
    return (make(most),)


def _ranks(number: int, most: int) -> tuple[npt.NDArray[Any], ...]:
    return (np.empty(number, np.int64),)


def _script_room(most: int) -> tuple[npt.NDArray[Any], ...]:
    return (scripts.new_script_counts(),)


@build_of(urls.url_signals)
def url_signals(column: CudaColumn, rows: Rows) -> urls.UrlSignals:
    """CUDA build of `dcurate.kernels.urls.url_signals`."""
    return urls.UrlSignals(*_measured(_urls, column, rows, 3))


@build_of(phrases.paragraphs_with)
def paragraphs_with(column: CudaColumn, rows: Rows, sought: phrases.Phrases) -> npt.NDArray[np.int64]:
    """CUDA build of `dcurate.kernels.phrases.paragraphs_with`."""
    room = partial(_one_array, phrases.new_spare)
    return _measured(_paragraphs_with, column, rows, 1 + phrases.group_count(sought), known=carried(sought), room=room)


@build_of(longest_lines.longest_lines)
def so_many_longest(column: CudaColumn, rows: Rows, number: int) -> npt.NDArray[np.int64]:
    """CUDA build of `dcurate.kernels.longest_lines.longest_lines`."""
    return _measured(_longest_lines, column, rows, 1, room=partial(_ranks, number)).ravel()


@build_of(members.alphabetic_signals)
def alphabetic_signals(column: CudaColumn, rows: Rows) -> members.MemberSignals:
    """CUDA build of `dcurate.kernels.members.alphabetic_signals`."""
    return members.MemberSignals(*_measured(_members, column, rows, 2, known=(constant_on_gpu(alphabetic_bits), False)))


@build_of(members.letter_signals)
def letter_signals(column: CudaColumn, rows: Rows) -> members.MemberSignals:
    """CUDA build of `dcurate.kernels.members.letter_signals`."""
    return members.MemberSignals(
        *_measured(_members, column, rows, 2, known=(constant_on_gpu(members.letter_bits), False))
    )


@build_of(members.alphabet_signals)
def alphabet_signals(column: CudaColumn, rows: Rows, alphabet: str) -> members.MemberSignals:
    """CUDA build of `dcurate.kernels.members.alphabet_signals`."""
    known = constant_on_gpu(members.bits_of, alphabet), True
    return members.MemberSignals(*_measured(_members, column, rows, 2, known=known))


@build_of(scripts.script_signals)
def script_signals(column: CudaColumn, rows: Rows) -> scripts.ScriptSignals:
    """CUDA build of `dcurate.kernels.scripts.script_signals`."""
    numbers = constant_on_gpu(scripts.script_numbers)
    return scripts.ScriptSignals(*_measured(_scripts, column, rows, 3, known=numbers, room=_script_room))


@build_of(source.line_counts)
def line_counts(column: CudaColumn, rows: Rows) -> npt.NDArray[np.int64]:
    """CUDA build of `dcurate.kernels.source.line_counts`."""
    return _measured(_line_counts, column, rows, 1).ravel()


@build_of(source.source_signals)
def source_signals(column: CudaColumn, rows: Rows) -> source.SourceSignals:
    """CUDA build of `dcurate.kernels.source.source_signals`."""
    return source.SourceSignals(*_measured(_source, column, rows, 3))


@build_of(source.opens_with)
def opens_with(column: CudaColumn, rows: Rows, phrase: str, characters: int) -> npt.NDArray[np.int64]:
    """CUDA build of `dcurate.kernels.source.opens_with`."""
    return _measured(_opens_with, column, rows, 1, known=carried(source.opening(phrase, characters))).ravel()


@build_of(comments.comment_signals)
def comment_signals(column: CudaColumn, rows: Rows, family: int) -> comments.CommentSignals:
    """CUDA build of `dcurate.kernels.comments.comment_signals`."""
    return comments.CommentSignals(*_measured(_comments, column, rows, 3, known=family))


@build_of(segments.segment_signals)
def segment_signals(
    column: CudaColumn, rows: Rows, cut: segments.Cut, sought: segments.Marks
) -> segments.SegmentSignals:
    """CUDA build of `dcurate.kernels.segments.segment_signals`."""
    known = cut, carried(sought)
    return segments.SegmentSignals(*_measured(_segments, column, rows, 9, known=known, room=segments.new_segment_room))


@build_of(occurrences.occurrences)
def count_in_texts(column: CudaColumn, rows: Rows, mark: str) -> npt.NDArray[np.int64]:
    """CUDA build of `dcurate.kernels.occurrences.occurrences`."""
    return _measured(_occurrences, column, rows, 1, known=copied(occurrences.as_bytes(mark))).ravel()

"""Substrings that occur in a dataset more than once, at any position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DocumentBatch, InlineExecutor, Pipeline, PipelineError, SubstringDuplicates
from dcurate.dedup.substrings import AnchorFinder
from dcurate.frames.text import column_of
from dcurate.kernels.stretches import CHARACTERS, WORDS, stretches_of
from dcurate.kernels.units import Spans
from tests.dedup.test_spans import left, run

GRAM, WINDOW = 17, 8
#: The arguments that give `SubstringDuplicates` this gram and window.
SMALL: dict[str, Any] = {"min_bytes": GRAM + 2 * WINDOW - 1, "window": WINDOW}
FINDER = AnchorFinder(GRAM, WINDOW, "characters")

prose = st.text("abcdefghij \n", max_size=80)
varied = st.lists(st.integers(0, 2**16), min_size=10, max_size=25).map(lambda many: " ".join(map(str, many)))


def read(texts: Sequence[str]) -> Spans:
    return FINDER.spans(column_of(text.encode() for text in texts))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.one_of(prose, varied, st.text(max_size=60)), max_size=5))
def test_stretches_between_anchors_are_equal_where_their_bytes_are_and_cover_each_text(texts: list[str]) -> None:
    column = column_of(text.encode() for text in texts)
    spans = FINDER.spans(column)
    known: dict[bytes, tuple[int, int]] = {}
    for row, text in enumerate(texts):
        own = slice(spans.bounds[row], spans.bounds[row + 1])
        size = len(text.encode())
        if size > GRAM:
            assert spans.starts[own][0] == column.offsets[row]
            assert spans.stops[own][-1] == column.offsets[row + 1]
            assert (spans.starts[own][1:] > spans.starts[own][:-1]).all()
            assert (spans.stops[own][:-1] >= spans.starts[own][1:]).all()
        else:
            assert not len(spans.starts[own])
        assert ((spans.stops[own] - spans.starts[own] > GRAM) & (spans.stops[own] - spans.starts[own] <= 25)).all()
    for start, stop, key, check in zip(*spans[1:], strict=True):
        assert known.setdefault(column.data[start:stop].tobytes(), (key, check)) == (key, check)
    assert len(set(known.values())) == len(known)


@settings(deadline=None, max_examples=150)
@given(st.tuples(prose, prose, prose, prose), varied)
def test_what_two_texts_share_is_found_but_for_less_than_a_window_at_each_end(
    around: tuple[str, str, str, str], shared: str
) -> None:
    if len(shared) < GRAM + 2 * WINDOW - 1:
        return
    texts = [around[0] + shared + around[1], around[2] + shared + around[3]]
    spans = read(texts)
    first, second = (slice(spans.bounds[row], spans.bounds[row + 1]) for row in range(2))
    again = np.isin(spans.keys[second], spans.keys[first])
    found = {
        place
        for start, stop in zip(spans.starts[second][again], spans.stops[second][again], strict=True)
        for place in range(start, stop)
    }
    begin = len(texts[0].encode()) + len(around[2])
    assert found >= set(range(begin + WINDOW - 1, begin + len(shared) - WINDOW + 1))


pieces = st.sampled_from([" ".join(f"{word}{number}" for word in ("alpha", "beta", "gamma")) for number in range(6)])
documents = st.lists(st.one_of(pieces, prose), max_size=5).map(" ".join)


@settings(deadline=None, max_examples=12)
@given(st.lists(st.lists(documents, max_size=4), min_size=1, max_size=3), st.integers(1, 2))
def test_what_is_cut_stood_before_and_is_the_same_however_batches_are_cut(
    batches: list[list[str]], max_copies: int
) -> None:
    texts = [text for batch in batches for text in batch]
    stage = SubstringDuplicates(**SMALL, max_copies=max_copies, whole="characters")
    result = left(run(batches, stage))
    assert result == left(run([texts], stage))
    column = column_of(text.encode() for text in texts)
    spans = FINDER.spans(column)
    seen: dict[bytes, int] = {}
    gone = np.zeros(len(spans.keys), np.bool_)
    for number, (start, stop) in enumerate(zip(spans.starts, spans.stops, strict=True)):
        says = column.data[start:stop].tobytes()
        seen[says] = seen.get(says, 0) + 1
        gone[number] = seen[says] > max_copies
    cut = np.zeros(len(column.data), np.bool_)
    for start, stop in zip(spans.starts[gone], spans.stops[gone], strict=True):
        cut[start:stop] = True
    for row, text in enumerate(texts):
        own = slice(column.offsets[row], column.offsets[row + 1])
        after = column.data[own][~cut[own]].tobytes().decode()
        assert result.get(row) == (after if after.strip() or not cut[own].any() else None), text


words = st.text("ab é中 \n", max_size=40)


@settings(deadline=None, max_examples=150)
@given(words, st.integers(0, 60), st.integers(0, 60), st.sampled_from([CHARACTERS, WORDS]))
def test_no_character_is_cut_in_two_and_no_word_where_words_are_whole(
    text: str, start: int, stop: int, fit: int
) -> None:
    column = column_of([text.encode()])
    start, stop = sorted(min(place, len(column.data)) for place in (start, stop))
    if start == stop:
        return
    hashes = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
    spans = Spans(np.array([0, 1]), np.array([start]), np.array([stop]), *hashes)
    cut = stretches_of(*column, spans, np.ones(1, np.bool_), fit)
    for first, last in zip(cut.starts, cut.stops, strict=True):
        assert start <= first < last <= stop
        before, after = column.data[:first].tobytes().decode(), column.data[last:].tobytes().decode()
        if fit == WORDS and any(character.isspace() for character in text[len(before) : len(text) - len(after)]):
            kept = before.split() + after.split()
            assert (before + after).split() == kept
            assert set(kept) <= set(text.split())


def test_a_licence_in_every_file_stays_in_the_first() -> None:
    licence = " ".join(f"clause {number} of the licence says something" for number in range(20))
    result = left(run([[f"start {licence} end"], [f"other {licence} words", licence]], SubstringDuplicates()))
    assert result[0] == f"start {licence} end"
    assert (result[1] or "").startswith("other clause 0")
    assert (result[1] or "").endswith("something words")
    assert len(result[1] or "") < len("other  words") + 2 * (50 + 10)
    assert len(result[2] or "") < 2 * (50 + 10)


def test_a_line_or_text_that_is_repeated_whole_goes_whole() -> None:
    line = "A line of a hundred and one bytes or more is found from its first letter to its last one: " + "o" * 20
    result = left(run([[f"x\n{line}\ny", f"yy\n{line}\nzz", line + "."]], SubstringDuplicates()))
    assert result == {0: f"x\n{line}\ny", 1: "yy\n\nzz", 2: line + "."}


def test_empty_null_short_and_odd_texts_stay_to_the_byte() -> None:
    texts = ["", None, " \r\n\t", "short", "short", "\u0301é中" * 5]
    assert left(run([texts, texts], SubstringDuplicates())) == dict(enumerate([*texts, *texts]))


def test_a_million_equal_characters_and_a_million_copies_are_no_trouble() -> None:
    boilerplate = "".join(f"part {number} of a notice; " for number in range(12))
    batch = pa.table({"n": range(100_001), "text": ["x" * 1_000_000, *[boilerplate] * 100_000]})
    tasks = [DocumentBatch(data=batch)]
    result = left(Pipeline("test", stages=[SubstringDuplicates()]).run(InlineExecutor(), initial_tasks=tasks))
    assert result.keys() == {0, 1}
    assert len(result[0] or "") < 200
    assert result[1] == boilerplate


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_bytes": 20}, "substring_duplicates: min_bytes=20 must be a whole number of at least 32"),
        (
            {"min_bytes": 100, "window": 60},
            "substring_duplicates: window=60 is too wide for min_bytes=100; at most 42 will do",
        ),
        ({"whole": "word"}, "substring_duplicates: no whole 'word'; did you mean 'words'?"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as error:
        SubstringDuplicates(**settings)
    assert str(error.value) == message

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels import words
from dcurate.kernels.characters import character_signals
from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import find_leader, hash_bytes, table_bits
from dcurate.kernels.lines import line_signals, paragraph_signals
from dcurate.kernels.ngrams import ngram_signals
from dcurate.kernels.signal import loop_over
from dcurate.kernels.words import word_signals

KERNELS = (character_signals, word_signals, line_signals, paragraph_signals)


def layout(*texts: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parts = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, parts)])
    return offsets, np.frombuffer(b"".join(parts), np.uint8), np.arange(len(parts))


def test_texts_are_measured_for_the_rows_asked_for_in_that_order() -> None:
    offsets, data, _ = layout("a", "b c", "d e f")
    assert word_signals(offsets, data, np.array([2, 0])).total.tolist() == [3, 1]


def test_what_stands_around_a_text_in_the_buffer_does_not_matter() -> None:
    inner = "so it goes\n\nso it goes 中 "
    alone, (offsets, data, rows) = layout(inner), layout("before", inner, "\u3000after")
    for kernel in KERNELS:
        assert [count[1] for count in kernel(offsets, data, rows)] == [count[0] for count in kernel(*alone)]
    in_between, by_itself = ngram_signals(offsets, data, rows, [2], [3]), ngram_signals(*alone, [2], [3])
    assert in_between.removed[2][1] == by_itself.removed[2][0]
    assert in_between.repeated[3][1] == by_itself.repeated[3][0]


def test_each_kernel_compiles_once_whatever_arrays_it_is_given() -> None:
    offsets, data, rows = layout("a b")
    given_offsets: Any
    for given_offsets in (offsets, offsets.astype(np.int32), np.repeat(offsets, 2)[::2]):
        word_signals(given_offsets, data.copy(), rows.astype(np.int32))
    assert len(loop_over(words.measure_words, Scratch(words.new_bounds)).signatures) == 1


def test_ngrams_of_several_sizes_together_are_those_of_each_size_alone() -> None:
    texts = layout("a b a b c a b c d a b c d e", "x " * 30, "one two three four", "é è é è é")
    sizes = (1, 2, 3, 4, 6)
    together = ngram_signals(*texts, sizes, sizes)
    for size in sizes:
        assert together.removed[size].tolist() == ngram_signals(*texts, [size]).removed[size].tolist()
        assert together.repeated[size].tolist() == ngram_signals(*texts, (), [size]).repeated[size].tolist()


def test_a_text_of_too_few_words_has_no_ngrams() -> None:
    signals = ngram_signals(*layout("one two", ""), [3], [3])
    assert signals.removed[3].tolist() == signals.repeated[3].tolist() == [-1, -1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=30))
def test_equal_bytes_hash_alike_and_others_do_not(parts: list[bytes]) -> None:
    hashes: dict[bytes, set[int]] = {}
    for padding in (b"", b"\xff" * 16):
        for part in parts:
            data = np.frombuffer(part + padding, np.uint8)
            hashes.setdefault(part, set()).add(int(hash_bytes(data, 0, len(part))))
    assert all(len(seen) == 1 for seen in hashes.values())
    assert len(set().union(*hashes.values())) == len(hashes)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5) | st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_the_leader_is_the_first_of_its_kind(numbers: list[int]) -> None:
    bits = table_bits(len(numbers))
    table, hashes = np.zeros(1 << bits, np.int32), np.array(numbers, np.uint64)
    leaders = [find_leader(table, bits, hashes, at) for at in range(len(numbers))]
    assert leaders == [numbers.index(number) for number in numbers]


@given(st.lists(st.text(st.sampled_from("a(⟨⟩⟪é\u27ff"), max_size=40), min_size=1, max_size=3))
def test_brackets_are_counted_wherever_they_are(texts: list[str]) -> None:
    found = character_signals(*layout(*texts)).brackets.tolist()
    assert found == [sum(text.count(mark) for mark in "(⟨⟩") for text in texts]

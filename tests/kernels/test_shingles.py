"""Texts are cut into shingles as plain Python cuts them."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels.sets import shingle_sets
from dcurate.kernels.shingles import Rule, word_letters
from tests.kernels.shingle_oracle import layout, shingle_hashes, words

PIECES = st.sampled_from(
    [
        *("a", "B", "of", "The", "x_y", "_", "7", "don't", "Straße", "ẞ", "É", "e\u0301", "İ", "aİb", "ΟΔΟΣ", "ς"),
        *("\u212a", "k", "中", "文中", "カ", "ไทย", "한국", "٣", "²", "½", "x" * 8, "X" * 9, "é" * 5, "abcdefgé", "Ⱥ"),
        *(" ", "  ", "\n", ", ", " — ", "\u3000", "\u00a0", "\x00", "\x1c", "’", "😀", "\U000e0100"),
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=30)


def found(text: str, size: int, unit: str, seed: int = 42) -> list[int]:
    rule = Rule(size, unit == "words", np.uint64(seed))
    return list(shingle_sets(*layout(text), rule, None).values.tolist())


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(1, 6), st.sampled_from(["words", "characters"]), st.integers(0, 2**64 - 1))
def test_shingles_are_those_that_plain_python_hashes(text: str, size: int, unit: str, seed: int) -> None:
    assert found(text, size, unit, seed) == sorted(
        {value & 0xFFFFFFFF for value in shingle_hashes(text, size, unit, seed)}
    )


@settings(max_examples=30, deadline=None)
@given(TEXTS, st.integers(2030, 2060), st.sampled_from(["words", "characters"]))
def test_where_blocks_of_a_text_end_does_not_matter(text: str, place: int, unit: str) -> None:
    for filler in ("a ", "a", "é"):
        whole = (filler * place)[:place] + text + "tail of words"
        assert found(whole, 3, unit) == sorted({value & 0xFFFFFFFF for value in shingle_hashes(whole, 3, unit, 42)})


def test_a_word_may_be_longer_than_a_block() -> None:
    word = "aé" * 5000
    assert found(f"one {word} two", 2, "words") == found(f"One, {word.upper()}: two", 2, "words")
    assert len(found(f"one {word} two", 2, "words")) == 2


@pytest.mark.parametrize(
    ("text", "size", "count"), [("", 5, 0), (" ?! ", 5, 0), ("one", 5, 1), ("a b c d", 5, 1), ("a b c d e f", 5, 2)]
)
def test_a_text_shorter_than_a_shingle_is_one_and_a_text_without_words_has_none(
    text: str, size: int, count: int
) -> None:
    assert len(found(text, size, "words")) == count


def test_of_characters_a_text_of_blanks_has_shingles() -> None:
    assert len(found("   ", 5, "characters")) == 1
    assert found("", 5, "characters") == []


def test_every_character_is_in_words_in_lower_case_where_python_has_it_in_words() -> None:
    table = word_letters()
    for point in (*range(0xD800), *range(0xE000, 0x110000)):
        character = chr(point)
        entry = int(table[point]) if point < len(table) else 0
        lower = character.lower()
        assert (entry > 0) == bool(re.match(r"\w", character))
        if entry and character not in "İς":
            assert entry & 0x1FFFFF == ord(lower)


def test_the_only_letters_whose_lower_case_is_not_pythons_are_the_sigmas() -> None:
    odd = [chr(point) for point in range(0x110000) if len(chr(point).lower()) > 1]
    assert odd == ["İ"]
    assert words("Σ ς σ") == ["σ"] * 3


def test_scripts_without_spaces_are_words_letter_by_letter() -> None:
    assert words("中文 ab中cd ไทย") == ["中", "文", "ab", "中", "cd", "ไ", "ท", "ย"]
    assert unicodedata.category("\u0e31") == "Mn"
    assert len(found("東京都は日本の首都", 5, "words")) == 5


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=12), min_size=1, max_size=5))
def test_bytes_that_are_no_text_are_read_all_the_same(parts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, parts)])
    data = np.frombuffer(b"".join(parts), np.uint8)
    for rule in (Rule(2, True, np.uint64(0)), Rule(2, False, np.uint64(0))):
        assert len(shingle_sets(offsets, data, np.arange(len(parts)), rule, None)) == len(parts)

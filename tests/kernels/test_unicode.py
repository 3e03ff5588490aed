from __future__ import annotations

import sys
import unicodedata

import numpy as np
import regex
from hypothesis import given
from hypothesis import strategies as st

from dcurate.kernels.unicode import alphabetic_bits, count_characters, has_letter, space_width, space_width_before

POINTS = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]


def alphabetic() -> np.ndarray:
    return np.unpackbits(alphabetic_bits(), bitorder="little").astype(bool)


def test_every_letter_and_letter_number_is_alphabetic_and_no_digit_or_mark_of_punctuation_is() -> None:
    table = alphabetic()
    kinds = {point: unicodedata.category(chr(point)) for point in POINTS}
    assert all(table[point] for point, kind in kinds.items() if kind[0] == "L" or kind == "Nl")
    assert not any(table[point] for point, kind in kinds.items() if kind[0] in "PZ" or kind in ("Nd", "No", "Cc", "Sc"))


def test_the_table_is_what_the_regex_package_means_by_alpha() -> None:
    assert regex.match(r"[[:alpha:]]", chr(0x1E6C0)), (
        "this version of regex knows an older Unicode; install a newer one"
    )
    alpha = regex.compile("[[:alpha:]]")
    table = alphabetic()
    assert [point for point in POINTS if bool(alpha.match(chr(point))) != table[point]] == []


def test_whitespace_is_what_python_splits_at() -> None:
    for point in POINTS:
        character = chr(point)
        data = np.frombuffer(character.encode(), np.uint8)
        expected = len(data) if character.isspace() else 0
        if expected or point < 0x3100:
            assert space_width(data, 0, len(data)) == expected, hex(point)
            assert space_width_before(data, 0, len(data)) == expected, hex(point)


def test_a_character_cut_short_by_the_end_of_the_text_is_no_whitespace() -> None:
    data = np.frombuffer("\u3000".encode(), np.uint8)
    assert space_width(data, 0, 2) == 0


def test_characters_are_code_points() -> None:
    data = np.frombuffer("aé中😀".encode(), np.uint8)
    assert count_characters(data, 0, len(data)) == 4


def test_bytes_that_are_no_utf8_are_no_letters_and_do_no_harm() -> None:
    for broken in (b"\xff\xff\xff\xff", b"\xf8\xbf\xbf\xbf", b"1\xe4\xb8", b"\x80\x80", b"\xc3"):
        assert not has_letter(np.frombuffer(broken, np.uint8), 0, len(broken), alphabetic_bits())


@given(st.text(st.sampled_from("aé⟨中🦊"), max_size=40), st.integers(0, 9), st.integers(0, 9))
def test_characters_are_counted_in_any_stretch_of_bytes(text: str, before: int, after: int) -> None:
    encoded = text.encode()
    data = np.frombuffer(b"\x80" * before + encoded + b"\x80" * after, np.uint8)
    assert count_characters(data, before, before + len(encoded)) == len(text)

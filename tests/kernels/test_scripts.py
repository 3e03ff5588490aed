from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.frames.text import column_of
from dcurate.kernels.scripts import SCRIPTS, script_numbers, script_of, script_signals

characters = st.one_of(st.sampled_from("aZé ßяΩ中かカ한ไއא१ 7.ー़́𝓐😀𠀀ꆈ"), st.characters(exclude_categories=["Cs"]))
texts = st.text(characters, max_size=60)


def dominant(text: str) -> tuple[str, int, int]:
    """The first in the alphabet of the scripts with most characters."""
    counts = Counter(script for script in map(script_of, text) if script != "Zyyy")
    if not counts:
        return "Zyyy", 0, 0
    most = max(counts.values())
    return min(script for script, count in counts.items() if count == most), most, counts.total()


def test_the_table_is_the_script_property_that_the_regex_package_knows() -> None:
    points = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    everything = "".join(map(chr, points))
    numbers = script_numbers()
    found = np.zeros(len(numbers), np.uint8)
    for number, code in enumerate(SCRIPTS[1:], 1):
        for run in regex.finditer(rf"\p{{sc={code}}}+", everything):
            found[[ord(character) for character in run.group()]] = number
    assert np.flatnonzero(found != numbers).tolist() == []
    assert regex.fullmatch(r"[\p{sc=Zyyy}\p{sc=Zinh}\p{sc=Zzzz}]+", "".join(chr(p) for p in points if not found[p]))


@given(st.lists(texts, min_size=1, max_size=5))
@example(["aя"])
@example(["яa"])
@settings(max_examples=150, deadline=None)
def test_the_script_of_a_text_is_that_of_most_of_its_characters(documents: list[str]) -> None:
    column = column_of(text.encode() for text in documents)
    found = script_signals(*column, np.arange(len(documents)))
    shown = [(SCRIPTS[script], *counts) for script, *counts in zip(*map(np.ndarray.tolist, found), strict=True)]
    assert shown == [dominant(text) for text in documents]


@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_do_no_harm(data: bytes) -> None:
    found = script_signals(np.array([0, len(data)]), np.frombuffer(data, np.uint8), np.array([0]))
    assert 0 <= found.characters[0] <= found.total[0] <= len(data)

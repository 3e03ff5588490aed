from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels.segments import LINES, NEWLINE, NEWLINES, TWO, TWO_OR_MORE, Cut, marks, segment_signals
from tests.text.strategies import texts

SPLITS = {
    NEWLINE: lambda text: text.split("\n"),
    NEWLINES: lambda text: re.split("\n+", text),
    TWO: lambda text: text.split("\n\n"),
    TWO_OR_MORE: lambda text: re.split("\n{2,}", text),
    LINES: str.splitlines,
}
BEGINS, ENDS = ("-", "•", "the"), ("...", "…", ".", "中文")
DOCUMENTS = texts | st.lists(
    st.sampled_from(["- a", "the end...", "•", " ", "\n", "\n\n", "\r\n", "\x0b", "\x85", "\u2028", "so…  ", "中文"])
).map("".join)


def measured(text: str, cut: Cut, loose: bool, short: int) -> list[int]:
    parts = SPLITS[cut.at](text.strip() if cut.trimmed else text)
    parts = [part for part in parts if cut.blank or part.strip()]
    if cut.stripped:
        parts = [part.strip() for part in parts]
    counts = Counter(parts)
    seen: set[str] = set()
    again = [part for part in parts if part in seen or seen.add(part)]
    copies = [part for part in parts if counts[part] > 1]
    looked = [part.strip() if loose else part for part in parts]
    return [
        *(len(parts), sum(map(len, parts)), len(again), sum(map(len, again)), len(copies), sum(map(len, copies))),
        *(sum(part.startswith(BEGINS) for part in looked), sum(part.endswith(ENDS) for part in looked)),
        sum(len(part) <= short for part in parts),
    ]


@pytest.mark.parametrize("at", SPLITS)
@settings(max_examples=60, deadline=None)
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=4), loose=st.booleans())
def test_segments_are_cut_and_counted_as_their_options_say(at, documents, loose):
    encoded = [text.encode() for text in documents]
    offsets, data = np.cumsum([0, *map(len, encoded)]), np.frombuffer(b"".join(encoded), np.uint8)
    rows = np.arange(len(documents))
    for trimmed, stripped, blank in itertools.product([False, True], repeat=3):
        cut = Cut(at, trimmed, stripped, blank)
        found = segment_signals(offsets, data, rows, cut, marks(BEGINS, ENDS, loose, 3))
        assert np.array(found).T.tolist() == [measured(text, cut, loose, 3) for text in documents], cut

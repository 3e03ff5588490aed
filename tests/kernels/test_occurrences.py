from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.kernels.occurrences import occurrences
from tests.kernels.shingle_oracle import layout

PIECES = st.sampled_from(["...", ".", "..", "…", "a", "é", "\n", "x" * 9]) | st.text(max_size=3)
TEXTS = st.lists(PIECES, max_size=20).map("".join)


@settings(deadline=None)  # the first compiles the kernel
@given(texts=st.lists(TEXTS.map(lambda text: text.encode(errors="replace").decode()), max_size=4))
@example(texts=["", ".", "..", "...", "....", "......", "a.......b" * 3])
@pytest.mark.parametrize("mark", ["\n", "...", "…", "aa", ""])
def test_a_string_is_counted_as_python_counts_it(mark: str, texts: list[str]) -> None:
    offsets, data, rows = layout(*texts)
    expected = [text.encode().count(mark.encode()) for text in texts]
    assert occurrences(offsets, data, rows, mark).tolist() == expected

"""Laws of layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.tokens import layout as layouts
from dcurate.tokens.layout import layout_of

lengths_of = st.lists(st.integers(1, 40), max_size=60)


@given(lengths_of, st.sampled_from(["none", "concat", "best_fit"]), st.integers(1, 20), st.sampled_from([1, 30, 10**6]))
def test_every_token_has_one_place_and_places_do_not_overlap(
    lengths: list[int], packing: str, window: int, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "_BLOCK_TOKENS", block)
        patch.setattr(layouts, "_BLOCK_WINDOWS", 1)
        made = layout_of(np.array(lengths, np.int64), packing, None if packing == "none" else window)
    tokens = [
        (document, token)
        for document, start, length in zip(made.document, made.start, made.length, strict=True)
        for token in range(start, start + length)
    ]
    assert sorted(tokens) == [(document, token) for document, length in enumerate(lengths) for token in range(length)]
    places = [place for at, length in zip(made.position, made.length, strict=True) for place in range(at, at + length)]
    assert places == sorted(set(places))
    assert made.padding == made.tokens - sum(lengths) >= 0
    assert not places or places[-1] < made.tokens
    if packing != "none":
        assert set(made.sequences.tolist()) <= {window}
    for first, last in zip(made.blocks[:-1].tolist(), made.blocks[1:].tolist(), strict=True):
        own = (made.document >= first) & (made.document < last)
        assert (np.diff(np.flatnonzero(own)) == 1).all()
    assert made.blocks[0] == 0
    assert made.blocks[-1] == len(lengths)


@given(lengths_of, st.integers(1, 20))
def test_best_fit_cuts_no_document_that_fits_and_wastes_less_than_half(lengths: list[int], window: int) -> None:
    made = layout_of(np.array(lengths, np.int64), "best_fit", window)
    pieces = np.bincount(made.document, minlength=len(lengths))
    assert pieces.tolist() == [-(-length // window) for length in lengths]
    assert ((made.position % window) + made.length <= window).all()
    used = np.bincount(made.position // window, made.length, len(made.sequences))
    halves = np.sort(used)[:2]
    assert len(used) < 2 or halves.sum() > window  # two windows that fit in one would be one


@given(lengths_of, st.integers(1, 20))
def test_concat_pads_the_last_window_alone(lengths: list[int], window: int) -> None:
    made = layout_of(np.array(lengths, np.int64), "concat", window)
    assert made.padding < window
    assert (made.position == np.cumsum(lengths) - lengths).all()


def test_best_fit_prefers_the_window_with_the_least_space() -> None:
    made = layout_of(np.array([7, 5, 3, 4, 1]), "best_fit", 10)
    windows: dict[int, list[int]] = {}
    for document, position in zip(made.document.tolist(), made.position.tolist(), strict=True):
        windows.setdefault(position // 10, []).append(document)
    assert windows == {0: [0, 2], 1: [1, 3, 4]}

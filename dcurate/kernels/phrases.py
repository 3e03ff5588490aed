"""Which of some phrases stand in a text, all looked for at once (Aho and Corasick, 1975)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Places, Rows, Scalar, frozen

_NEWLINE = 10
_LETTERS = range(ord("a"), ord("z") + 1)


class Phrases(NamedTuple):
    """An automaton that reads a byte at a time and knows which phrases end there, in any case of letters.

    ``kind`` gives the class of each byte, ``step[state * classes + class]`` the next state, ``found`` the bits of the
    groups of which a phrase ends in a state.
    """

    kind: Places
    step: Places
    found: Places
    classes: int


def phrases(groups: Sequence[Sequence[str]]) -> Phrases:
    """The automaton for groups of phrases, of lower-case ASCII; bit ``n`` stands for group ``n``.

    Examples:
        >>> automaton = phrases([["he", "she"], ["his"]])
        >>> automaton.classes, len(automaton.found)
        (5, 8)
    """
    alphabet = sorted({byte for group in groups for phrase in group for byte in phrase.encode("ascii")})
    kind = np.zeros(256, np.int32)
    for number, byte in enumerate(alphabet, 1):
        kind[byte] = number
        if byte in _LETTERS:
            kind[byte - 32] = number
    classes = len(alphabet) + 1
    tree: list[dict[int, int]] = [{}]
    found = [0]
    for bit, group in enumerate(groups):
        for phrase in group:
            state = 0
            for byte in phrase.encode("ascii"):
                state = tree[state].setdefault(int(kind[byte]), len(tree))
                if state == len(tree):
                    tree.append({})
                    found.append(0)
            found[state] |= 1 << bit
    step = np.zeros((len(tree), classes), np.int32)
    fallback = [0] * len(tree)
    queue = deque([0])
    while queue:
        state = queue.popleft()
        back = fallback[state]
        found[state] |= found[back]
        for number in range(1, classes):
            child = tree[state].get(number)
            below = int(step[back, number]) if state else 0
            step[state, number] = below if child is None else child
            if child is not None:
                fallback[child] = below
                queue.append(child)
    # States are kept as places in the table, so that a step costs one addition.
    return Phrases(kind, (step * classes).ravel(), np.array(found, np.int32), classes)


@njit(**INLINE)
def _next(automaton: Phrases, state: int, data: Bytes, at: int, stop: int) -> tuple[Scalar, Scalar]:
    """The state after the character at ``at``, and where the next one is. The Kelvin sign is a k."""
    byte = data[at]
    if byte == 0xE2 and at + 2 < stop and data[at + 1] == 0x84 and data[at + 2] == 0xAA:
        return automaton.step[state + automaton.kind[0x6B]], at + 3
    return automaton.step[state + automaton.kind[byte]], at + 1


@njit(**OPTIONS)
def _paragraphs_with(automaton: Phrases, offsets: Offsets, data: Bytes, rows: Rows, out: Ints) -> None:
    for place in range(rows.size):
        at, stop = offsets[rows[place]], offsets[rows[place] + 1]
        out[0, place] = 1
        state = found = 0
        while at < stop:
            if data[at] == _NEWLINE and at + 1 < stop and data[at + 1] == _NEWLINE:
                for group in range(out.shape[0] - 1):
                    out[1 + group, place] += (found >> group) & 1
                out[0, place] += 1
                state = found = 0
                at += 2
                continue
            state, at = _next(automaton, state, data, at, stop)
            found |= automaton.found[state // automaton.classes]
        for group in range(out.shape[0] - 1):
            out[1 + group, place] += (found >> group) & 1


def paragraphs_with(automaton: Phrases, groups: int, offsets: Offsets, data: Bytes, rows: Rows) -> Ints:
    r"""Count the paragraphs of the texts numbered ``rows``, and those in which a phrase of each group stands.

    A paragraph is what stands between two newlines in a row.

    Returns:
        int64 of shape (1 + groups, rows).

    Examples:
        >>> text = b"Use Cookies!\n\nuse\n\nwe use cookies"
        >>> offsets, data = np.array([0, len(text)]), np.frombuffer(text, np.uint8)
        >>> paragraphs_with(phrases([["use cookies"]]), 1, offsets, data, np.array([0])).tolist()
        [[3], [2]]
    """
    out = np.zeros((1 + groups, rows.size), np.int64)
    _paragraphs_with(automaton, frozen(offsets, np.int64), frozen(data, np.uint8), frozen(rows, np.int64), out)
    return out

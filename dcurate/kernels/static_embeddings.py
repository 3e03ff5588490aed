"""The mean of the vectors of a text's tokens, for models with one vector a token (Tulkens and van Dongen, 2024)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.interning import Numbered
from dcurate.kernels.layout import OPTIONS, Bytes, Ints, Offsets, Places, Scalar, frozen

Floats = npt.NDArray[np.float32]

_MARK, _CAPITAL, _JOIN = 1, 2, 3
_SPACE = np.uint8(32)
#: What an ASCII byte is: punctuation, a capital, or whitespace for ``str.split`` that tokenizers drop, so that what is
#: beside it is one word there.
_KINDS = np.zeros(256, np.uint8)
_KINDS[[byte for byte in range(33, 127) if not chr(byte).isalnum()]] = _MARK
_KINDS[ord("A") : ord("Z") + 1] = _CAPITAL
_KINDS[[0x0B, 0x0C, 0x1C, 0x1D, 0x1E, 0x1F]] = _JOIN


class TokenVectors(NamedTuple):
    """The vectors of tokens.

    Attributes:
        rows: the vectors, of shape (vectors, numbers).
        mapping: the vector of each token; empty where token ``i`` has vector ``i``.
        weights: the weight of each token; empty where all are 1.
        unknown: the token that does not count, or -1.
        most: tokens of a text at most, unknown ones included.
    """

    rows: Floats
    mapping: Ints
    weights: Floats
    unknown: int
    most: int


@njit(**OPTIONS)
def _cut(
    layout: tuple[Offsets, Bytes], most: int, ways: tuple[Scalar, Scalar], out: tuple[Ints, Bytes, Bytes]
) -> Scalar:
    offsets, data = layout
    ends, copy, joins = out
    apart, lower = ways
    taken = 0
    for text in range(offsets.size - 1):
        left = most
        before = np.uint8(0)
        for at in range(offsets[text], offsets[text + 1]):
            byte = data[at]
            if (byte & 0xC0) != 0x80:
                if left == 0:
                    break
                left -= 1
            kind = _KINDS[byte]
            if kind == _JOIN or (byte == 0x85 and before == 0xC2):
                joins[text] = 1
            before = byte
            if apart and kind == _MARK:
                copy[taken], copy[taken + 1], copy[taken + 2] = _SPACE, byte, _SPACE
                taken += 3
                continue
            copy[taken] = byte | 0x20 if lower and kind == _CAPITAL else byte
            taken += 1
        ends[text + 1] = taken
    return taken


class FirstCharacters(NamedTuple):
    """The first characters of texts in the Arrow layout.

    ``joins`` says of each text whether ``str.split`` cuts it where tokenizers do not.
    """

    offsets: Offsets
    data: Bytes
    joins: npt.NDArray[np.bool_]


def first_characters(offsets: Offsets, data: Bytes, most: int, apart: bool, lower: bool) -> FirstCharacters:
    """The first characters of each text.

    Args:
        most: characters of a text at most.
        apart: whether ASCII punctuation gets a space on both sides.
        lower: whether ASCII letters become small.

    Examples:
        >>> text = np.frombuffer("Süße, Äpfel".encode(), np.uint8)
        >>> cut = first_characters(np.array([0, text.size]), text, 5, True, True)
        >>> cut.data.tobytes().decode(), cut.joins.tolist()
        ('süße , ', [False])
    """
    offsets, data = frozen(offsets, np.int64), frozen(data, np.uint8)
    room = int(np.minimum(np.diff(offsets), 4 * most).sum()) * (3 if apart else 1)
    ends, copy, joins = np.zeros(len(offsets), np.int64), np.empty(room, np.uint8), np.zeros(len(offsets) - 1, np.uint8)
    taken = _cut((offsets, data), most, (apart, lower), (ends, copy, joins))
    return FirstCharacters(ends, copy[:taken], joins.astype(np.bool_))


@njit(**OPTIONS)
def _mean(words: Numbered, firsts: Ints, tokens: Places, vectors: TokenVectors, out: Floats) -> None:
    numbers = out.shape[1]
    for text in range(out.shape[0]):
        seen, counted = np.int64(0), np.int64(0)
        out[text, :] = np.float32(0)
        for at in range(words.begins[text], words.begins[text] + words.counts[text]):
            if seen >= vectors.most:
                break
            word = words.numbers[at]
            for place in range(firsts[word], min(firsts[word + 1], firsts[word] + vectors.most - seen)):
                token = np.int64(tokens[place])
                seen += 1
                if token == vectors.unknown:
                    continue
                row = vectors.mapping[token] if vectors.mapping.size > 0 else token
                counted += 1
                if vectors.weights.size > 0:
                    weight = vectors.weights[token]
                    for number in range(numbers):
                        out[text, number] += vectors.rows[row, number] * weight
                else:
                    for number in range(numbers):
                        out[text, number] += vectors.rows[row, number]
        if counted > 0:
            for number in range(numbers):
                out[text, number] /= np.float32(counted)


def mean_vectors(words: Numbered, firsts: Ints, tokens: Places, vectors: TokenVectors) -> Floats:
    """The mean of the vectors of each text's tokens, of shape (texts, numbers); zeros for a text without any.

    Numbers are added in the order of the tokens, in 32 bits.

    Args:
        words: the words of the texts.
        firsts, tokens: word ``w`` has the tokens ``tokens[firsts[w]:firsts[w + 1]]``.

    Examples:
        >>> words = Numbered(np.array([0, 1], np.int32), np.array([0]), np.array([2]))
        >>> vectors = TokenVectors(np.eye(2, dtype=np.float32), np.empty(0, np.int64), np.empty(0, np.float32), -1, 9)
        >>> mean_vectors(words, np.array([0, 1, 2]), np.array([0, 1], np.int32), vectors).tolist()
        [[0.5, 0.5]]
    """
    out = np.empty((len(words.begins), vectors.rows.shape[1]), np.float32)
    frozen_vectors = vectors._replace(
        rows=frozen(vectors.rows, np.float32),
        mapping=frozen(vectors.mapping, np.int64),
        weights=frozen(vectors.weights, np.float32),
    )
    frozen_words = Numbered(
        frozen(words.numbers, np.int32), frozen(words.begins, np.int64), frozen(words.counts, np.int64)
    )
    _mean(frozen_words, frozen(firsts, np.int64), frozen(tokens, np.int32), frozen_vectors, out)
    return out

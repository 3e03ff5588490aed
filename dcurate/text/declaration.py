"""Identify languages by n-gram profiles of the Universal Declaration of Human Rights."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.kernels.layout import frozen
from dcurate.kernels.profiles import Table, add_up, fill_slots

PROFILES = Path(__file__).parents[1] / "bundled" / "languages.npz"

#: The longest sequence of characters that is looked up.
LONGEST = 4
#: Log probability of a sequence that is in no profile, by its length.
FLOOR = -11.5

#: What separates words: ASCII but for letters, apostrophes of all kinds, signs, general and CJK punctuation.
_BETWEEN = re.compile("[\x00-@\\[-`{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\u02b9-\u02c8\u2000-\u206f\u3000-\u303f]+")
#: An odd 64-bit multiplier for hashing sequences.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Closest(NamedTuple):
    """The language of the profile that is closest to a text.

    Attributes:
        language: its code.
        likeness: likeness of the text to the profile, where 1 is that of the declaration itself and 0 that of nothing.
        lead: by which share of that the profile of the next language is behind.
    """

    language: str
    likeness: float
    lead: float


class Declaration:
    """Naive Bayes over character n-grams (n = 1 to 4), trained on translations of the declaration.

    Cavnar and Trenkle (1994) showed that so short a text is enough to identify a language; this uses logarithms of
    frequencies instead of ranks. The profiles are made by `benchmarks.make_languages`.

    Args:
        profiles: the file with them.

    Examples:
        >>> Declaration().closest("todos los seres humanos nacen libres e iguales").language
        'es'
        >>> Declaration().closest("12:30") is None
        True
    """

    def __init__(self, profiles: Path = PROFILES) -> None:
        with np.load(profiles) as file:
            keys = sequence_keys(file["sequences"].tobytes().decode().split("\n"))
            bounds = np.append(0, np.cumsum(file["sizes"], dtype=np.int64))
            self._codes = file["languages"].tobytes().decode().split()
            self._usual = file["usual"].astype(np.float64)
            entries = frozen(file["profile"], np.uint16), frozen(file["weight"], np.uint8)
        slots = np.zeros(1 << (2 * len(keys)).bit_length(), np.int32)
        fill_slots(frozen(keys, np.uint64), slots)
        self._table = Table(frozen(keys, np.uint64), frozen(slots, np.int32), frozen(bounds, np.int64), *entries)
        number = {code: place for place, code in enumerate(dict.fromkeys(self._codes))}
        self._language = np.array([number[code] for code in self._codes])
        self.scores("a")  # compiles the kernel, where that was not done before

    @property
    def languages(self) -> frozenset[str]:
        """Codes of the languages that have a profile."""
        return frozenset(self._codes)

    def closest(self, text: str) -> Closest | None:
        """The closest profile to a text; None if it has no letters, or is like none."""
        scores = self.scores(text)
        best = int(scores.argmax())
        if scores[best] <= 0 or spelt(text).isspace():
            return None
        behind = scores[self._language != self._language[best]].max(initial=0.0)
        likeness = scores[best] / self._usual[best]
        return Closest(self._codes[best], float(likeness), float(1 - behind / scores[best]))

    def scores(self, text: str) -> npt.NDArray[np.float64]:
        """For each profile the mean log likelihood ratio of the text's sequences against an unknown language."""
        keys = keys_of(spelt(text))
        sums = np.zeros(len(self._codes), np.int64)
        add_up(frozen(keys, np.uint64), self._table, sums)
        return sums / len(keys)


def spelt(text: str) -> str:
    """Normalise a text for lookup: lower case, and one space around and between words."""
    return f" {_BETWEEN.sub(' ', unicodedata.normalize('NFC', text.lower())).strip()} "


def keys_of(text: str) -> npt.NDArray[np.uint64]:
    """Key of every sequence of one to four characters in a non-empty text."""
    points = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
    padded = np.concatenate([points, np.zeros(LONGEST, np.uint32)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, LONGEST)
    parts = []
    for length in range(1, min(LONGEST, len(points)) + 1):
        part = windows[: len(points) - length + 1].astype(np.uint64)
        part[:, length:] = 0
        parts.append(_mixed(part))
    return np.concatenate(parts)


def sequence_keys(sequences: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Key of each sequence of one to four characters."""
    points: npt.NDArray[Any] = np.array(sequences, f"<U{LONGEST}").view(np.uint32).reshape(-1, LONGEST)
    return _mixed(points.astype(np.uint64))


def _mixed(points: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    keys = points[:, 0]
    for place in range(1, LONGEST):
        keys = keys * _FACTOR + points[:, place]
    return keys

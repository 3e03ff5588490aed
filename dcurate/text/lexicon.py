"""Word ids of a column under one splitter, with the features of each distinct word.

A word is looked at once, however often it occurs: texts become sequences of numbers, and what a rule asks of a word
(its length, whether it has a letter) is an array with an entry for each number.
"""

from __future__ import annotations

import string
import threading
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, nearest
from dcurate.kernels.english import cut_english
from dcurate.kernels.interning import Numbered, WordTable, expanded
from dcurate.kernels.layout import Bytes, Ints, Offsets, Rows
from dcurate.kernels.runs import POINTS
from dcurate.kernels.word_features import Kinds, word_facts
from dcurate.text import libraries
from dcurate.text.english import short_way, split_english
from dcurate.text.splitters import SENTENCE_ENDS, SYMBOLS, split_fasttext, split_normalized, split_pairs, split_unicode

#: Maximum number of distinct strings before a process clears its vocabulary: about 200 MB.
_MOST = 1 << 21

_LETTERED, _ASCII_LETTERED, _WORDED, _MARKED, _ENDING, _PUNCTUAL = (1 << bit for bit in range(6))
#: The traits of a word, in the order of their bits.
TRAITS = ("lettered", "ascii_lettered", "worded", "marked", "ending", "punctual")
_DOLMA_SYMBOLS = ("#", "…")


def _nothing_short(offsets: Offsets, data: Bytes) -> tuple[Ints, Bytes]:
    return np.zeros(len(offsets) - 1, np.int64), np.empty(0, np.uint8)


def _short_english(offsets: Offsets, data: Bytes) -> tuple[Ints, Bytes]:
    return cut_english(offsets, data, short_way())


class Splitter(NamedTuple):
    """A splitter of strings without whitespace into words.

    Args:
        text: the words of a string; None if every string is a word.
        short: for many strings in the Arrow layout the number of words of each, 0 to use ``text``, and the words.
    """

    text: Callable[[str], list[str]] | None
    short: Callable[[Offsets, Bytes], tuple[Ints, Bytes]] = _nothing_short

    def words(self, run: str) -> list[str]:
        """The words of a string."""
        return [run] if self.text is None else self.text(run)


SPLITTERS: dict[str, Splitter] = {
    "whitespace": Splitter(None),
    "english": Splitter(split_english, _short_english),
    "unicode": Splitter(split_unicode),
    "wordpunct": Splitter(split_pairs),
    "normalized": Splitter(split_normalized),
    "fasttext": Splitter(split_fasttext),
}


def check_splitter(name: str) -> None:
    """Refuse an unknown splitter.

    Raises:
        PipelineError: it is neither in `SPLITTERS`, nor a library with a language as in `dcurate.text.libraries`.
    """
    if name not in SPLITTERS and not libraries.is_known(name):
        raise PipelineError(f"unknown word splitter {name!r}{nearest(name, SPLITTERS)}")


def _splitter(name: str) -> Splitter:
    """The splitter of that name."""
    return SPLITTERS[name] if name in SPLITTERS else Splitter(libraries.tokenizer(name))


class Known(NamedTuple):
    """Features of each distinct word, by its id.

    ``characters`` is its length, ``traits`` its `TRAITS` as bits, ``hashes`` the hash of its bytes, and ``powers`` the
    number that a hash before it is multiplied with when the two are joined.
    """

    characters: npt.NDArray[np.int32]
    traits: npt.NDArray[np.uint8]
    hashes: npt.NDArray[np.uint64]
    powers: npt.NDArray[np.uint64]


class WhitespaceTokens(NamedTuple):
    """The distinct strings between whitespace, and the words of string ``r``: ``parts[firsts[r]:firsts[r + 1]]``."""

    found: Numbered
    firsts: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int32]


class WordRule(Protocol):
    """Maps words, as UTF-8, to numbers from 0 to 255; equal rules give equal results."""

    def __call__(self, words: list[bytes]) -> list[int]: ...

    def __hash__(self) -> int: ...


class Words:
    """The words of the texts of a column: ``found`` by row number, ``known`` by word number.

    It stays as it is when rows are left out, so that what is computed from it is computed once.
    """

    def __init__(self, found: Numbered, known: Known, runs: WhitespaceTokens, lexicon: _Lexicon) -> None:
        self.found = found
        self.known = known
        self.runs = runs
        self._lexicon = lexicon

    def __getitem__(self, mask: object) -> Words:
        return self

    def column(self, rows: Rows) -> tuple[Offsets, Any, Rows]:
        """The word ids of the texts numbered ``rows`` in the Arrow layout: offsets, ids and the numbers of the texts.

        Words of other texts may be between; they belong to texts that are not in the result.
        """
        begins, counts = self.found.begins[rows], self.found.counts[rows]
        bounds = np.stack([begins, begins + counts], axis=1).ravel()
        return np.append(bounds, bounds[-1:]), self.found.numbers, 2 * np.arange(len(rows))

    def numbered(self, sought: Iterable[str], ignore_case: bool) -> npt.NDArray[np.int32]:
        """For each word id 1 plus the index of that word in ``sought``, or 0 if it is not in it."""
        places = np.zeros(len(self.known.characters), np.int32)
        forms = [
            (form, place) for place, word in enumerate(sought, 1) for form in (_cases(word) if ignore_case else [word])
        ]
        text = np.frombuffer("\n".join(form for form, _ in forms).encode(errors="surrogatepass"), np.uint8)
        numbers = self._lexicon.table.number(np.array([0, len(text)]), text, np.zeros(1, np.int64)).numbers
        in_lexicon = numbers < len(places)
        places[numbers[in_lexicon]] = np.array([place for _, place in forms], np.int32)[in_lexicon]
        return places

    def marked(self, rule: WordRule) -> npt.NDArray[np.uint8]:
        """The result of a rule for each word, by id; it is evaluated once per word, however many columns have it."""
        return self._lexicon.marked(rule)[: len(self.known.characters)]


class Split(NamedTuple):
    """The result of `words_of`, in the form in which signals are kept."""

    words: Words


def _cases(word: str) -> list[str]:
    """The word in every mixture of upper and lower case.

    Examples:
        >>> _cases("of")
        ['of', 'oF', 'Of', 'OF']
    """
    forms = [""]
    for letter in word:
        forms = [form + case for form in forms for case in dict.fromkeys((letter.lower(), letter.upper()))]
    return forms


class _Growing:
    """A growable array."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._values: npt.NDArray[Any] = np.zeros(1024, dtype)
        self._size = 0

    def extend(self, values: npt.ArrayLike) -> None:
        added = np.asarray(values, self._values.dtype)
        if self._size + len(added) > len(self._values):
            longer = np.zeros(2 * (self._size + len(added)), self._values.dtype)
            longer[: self._size] = self._values[: self._size]
            self._values = longer
        self._values[self._size : self._size + len(added)] = added
        self._size += len(added)

    @property
    def values(self) -> npt.NDArray[Any]:
        """A view of the values; later ones are not in it."""
        return self._values[: self._size]


class _Lexicon:
    """The words found so far by one splitter, and the strings they were found in."""

    def __init__(self, splitter: Splitter, runs: WordTable) -> None:
        self._split = splitter
        self._runs = runs
        self._seen = 0
        self.table = runs if splitter.text is None else WordTable()
        self._marked: dict[WordRule, _Growing] = {}
        self._firsts, self._parts = _Growing(np.int64), _Growing(np.int32)
        self._firsts.extend(np.zeros(1, np.int64))
        self._known = (_Growing(np.int32), _Growing(np.uint8), _Growing(np.uint64), _Growing(np.uint64))

    def words(self, numbered: Numbered) -> Words:
        """The words of texts whose strings have ids."""
        if self._split.text is not None:
            self._learn()
            runs = WhitespaceTokens(numbered, self._firsts.values, self._parts.values)
            numbered = expanded(*runs)
        else:
            runs = WhitespaceTokens(numbered, self._firsts.values, self._parts.values)
        before = len(self._known[0].values)
        if before < len(self.table):
            new = _known(*self.table.layout(before, len(self.table)))
            for kept, name in zip(self._known, new._fields, strict=True):
                kept.extend(getattr(new, name))
        return Words(numbered, Known(*(values.values for values in self._known)), runs, self)

    def marked(self, rule: WordRule) -> npt.NDArray[np.uint8]:
        """The result of a rule for each word so far."""
        marks = self._marked.setdefault(rule, _Growing(np.uint8))
        before = len(marks.values)
        if before < len(self.table):
            marks.extend(rule(self.table.words(before, len(self.table))))
        return marks.values

    def _learn(self) -> None:
        """Split the new strings."""
        if self._seen == len(self._runs):
            return
        layout = self._runs.layout(self._seen, len(self._runs))
        counts, short = self._split.short(*layout)
        unsplit = np.flatnonzero(counts == 0)
        text = layout[1].tobytes()
        split: list[str] = []
        for place, start, stop in zip(
            unsplit.tolist(), layout[0][unsplit].tolist(), layout[0][unsplit + 1].tolist(), strict=True
        ):
            words = self._split.words(text[start:stop].decode(errors="surrogatepass"))
            counts[place] = len(words)
            split += words
        by_hand = np.frombuffer("\n".join(split).encode(errors="surrogatepass"), np.uint8)
        is_by_hand = np.zeros(len(counts), np.bool_)
        is_by_hand[unsplit] = True
        parts = np.empty(int(counts.sum()), np.int32)
        places = np.repeat(is_by_hand, counts)
        parts[~places], parts[places] = (self._numbers(words) for words in (short, by_hand))
        self._parts.extend(parts)
        self._firsts.extend(self._firsts.values[-1] + np.cumsum(counts))
        self._seen = len(self._runs)

    def _numbers(self, words: Bytes) -> npt.NDArray[np.int32]:
        """The ids of words separated by newlines."""
        return self.table.number(np.array([0, len(words)]), words, np.zeros(1, np.int64)).numbers


@cache
def _kinds() -> Kinds:
    """The features that characters give to their words."""
    some, every, alone = (np.zeros(POINTS, np.uint8) for _ in range(3))
    some[:] = _WORDED
    for point in range(POINTS):
        character = chr(point)
        if character.isalpha():
            some[point] |= _LETTERED | _ASCII_LETTERED * (point < 128)
        elif unicodedata.category(character)[0] == "P":
            every[point] = _PUNCTUAL
    some[[ord(character) for character in SYMBOLS]] &= ~np.uint8(_WORDED)
    some[[ord(character) for character in _DOLMA_SYMBOLS]] |= _MARKED
    alone[[ord(character) for character in SENTENCE_ENDS]] = _ENDING
    return Kinds(some, every, alone)


def _known(offsets: Offsets, data: Bytes) -> Known:
    """The features of words."""
    facts = word_facts(offsets, data, _kinds())
    text = data.tobytes()
    for place in np.flatnonzero(facts.bits == 0):
        facts.bits[place] = _traits(text[offsets[place] : offsets[place + 1]].decode(errors="surrogatepass"))
    return Known(*facts)


def _traits(word: str) -> int:
    return (
        _LETTERED * any(map(str.isalpha, word))
        | _ASCII_LETTERED * any(character in string.ascii_letters for character in word)
        | _WORDED * (not SYMBOLS.issuperset(word))
        | _MARKED * any(symbol in word for symbol in _DOLMA_SYMBOLS)
        | _ENDING * (word in SENTENCE_ENDS)
        | _PUNCTUAL * all(unicodedata.category(character)[0] == "P" for character in word)
    )


class _Store(threading.local):
    """The vocabulary of a thread, for all columns that it reads."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Clear the vocabulary."""
        self.table = WordTable()
        self.lexicons: dict[str, _Lexicon] = {}


_STORE = _Store()


def words_of(offsets: Offsets, data: Bytes, rows: Rows, splitter: str) -> Split:
    """The words of the texts numbered ``rows``, split by a splitter of `SPLITTERS`.

    Examples:
        >>> text = b"don't do it"
        >>> words = words_of(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), "english").words
        >>> words.known.characters[words.found.numbers].tolist()
        [2, 3, 2, 2]
    """
    if len(_STORE.table) > _MOST:
        _STORE.forget()
    runs = _STORE.table.number(offsets, data, rows)
    if splitter not in _STORE.lexicons:
        _STORE.lexicons[splitter] = _Lexicon(_splitter(splitter), _STORE.table)
    words = _STORE.lexicons[splitter].words(runs)
    begins, counts = np.zeros(len(offsets) - 1, np.int64), np.zeros(len(offsets) - 1, np.int64)
    begins[rows], counts[rows] = words.found.begins, words.found.counts
    words.found = Numbered(words.found.numbers, begins, counts)
    return Split(words)

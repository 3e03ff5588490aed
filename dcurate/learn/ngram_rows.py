"""Rows of n-grams between the rounds of `TrainNgrams`, and its formulas (Chen and Goodman, 1998)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError
from dcurate.frames.columns import byte_rows, matrix_of, table_of
from dcurate.fs.stores import Directory
from dcurate.kernels.ngram_counts import (
    BEGIN,
    END,
    UNKNOWN,
    Ngrams,
    different_words,
    find_places,
    keys_of_rows,
    number_rows,
    slots_of,
    take_spans,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Columns of the rows: the key that they are shuffled by, the hashes of the words of an n-gram, how often it occurs,
#: and whether it is kept.
KEY, NGRAM, COUNT, KEPT = "key", "ngram", "count", "kept"
#: The discounted part of a probability, NaN in the row of a context; and the backoff of the context.
PART, BACKOFF = "part", "backoff"
#: Probability of an n-gram.
CHANCE = "chance"
#: Columns of words: hash, and text.
HASH, WORD = "hash", "word"
#: The discounts where counts of counts do not allow to estimate them, as in lmplz.
_VOCABULARY = "vocabulary.npz"
FALLBACK = 0.5, 1.0, 1.5


class Discounts(NamedTuple):
    """What is subtracted from the counts 1, 2, and 3 and more of n-grams of one length.

    Attributes:
        amounts: for counts 0 to 3.
        fallback: whether counts of counts do not allow to estimate them.
    """

    amounts: tuple[float, float, float, float]
    fallback: bool

    @classmethod
    def of(cls, counts_of_counts: Sequence[int]) -> Discounts:
        """Estimate the discounts.

        Args:
            counts_of_counts: number of n-grams that occur 1, 2, 3 and 4 times.

        Examples:
            >>> Discounts.of([40, 20, 10, 5]).amounts
            (0.0, 0.5, 1.25, 2.0)
        """
        once, twice, thrice, _ = counts_of_counts
        if min(once, twice, thrice) > 0:
            share = once / (once + 2 * twice)
            pairs = zip(count(1), counts_of_counts, counts_of_counts[1:], strict=False)
            amounts = [times - (times + 1) * share * more / less for times, less, more in pairs]
            if all(0 <= amount <= times for times, amount in enumerate(amounts, 1)):
                return cls((0.0, amounts[0], amounts[1], amounts[2]), False)
        return cls((0.0, *FALLBACK), True)


def ngram_table(words: Ngrams, keys: npt.NDArray[np.uint64], **columns: npt.NDArray[Any]) -> Any:
    """Return rows of n-grams as a table."""
    return table_of({KEY: keys, NGRAM: byte_rows(words), **columns})


def ngrams_of(table: Any) -> Ngrams:
    """Return the n-grams of a table that `ngram_table` made."""
    return matrix_of(table, NGRAM, np.uint64)


def suffix_keys(words: Ngrams) -> npt.NDArray[np.uint64]:
    """Return keys that n-grams share whose last two words are the same."""
    return keys_of_rows(words[:, -2:])


def sums(values: Ints, groups: Ints, size: int) -> Ints:
    """Return the sum of the values of each group."""
    out = np.zeros(size, np.int64)
    np.add.at(out, groups, values)
    return out


def lengths_of(words: Ngrams) -> Ints:
    """Return the number of words of each n-gram."""
    return np.asarray((words != 0).sum(axis=1), np.int64)


def adjusted(words: Ngrams, counts: Ints) -> list[tuple[Ngrams, Ints, Ints]]:
    """Return the n-grams of each length from the longest to 1: different ones, adjusted counts, and counts.

    The adjusted count of a shorter n-gram is how many different words are before it; one that begins a sentence has its
    count.

    Args:
        words: the longest n-grams that end with each word, all whose last two words are the same.
        counts: how often each occurs; one may be there several times.
    """
    order = words.shape[1]
    groups, firsts = number_rows(words, 0, order)
    counts, words = sums(counts, groups, len(firsts)), words[firsts]
    lengths = lengths_of(words)
    longest = lengths == order
    levels = [(words[longest], counts[longest], counts[longest])]
    for length in range(order - 1, 0, -1):
        longer, _, times = levels[-1]
        groups, firsts = number_rows(longer, order - length, order)
        shorter = longer[firsts]
        shorter[:, order - length - 1] = 0
        befores = np.bincount(groups, minlength=len(firsts))
        begins = (lengths == length) & (length > 1)
        levels.append(
            (
                np.concatenate([shorter, words[begins]]),
                np.concatenate([befores, counts[begins]]),
                np.concatenate([sums(times, groups, len(firsts)), counts[begins]]),
            )
        )
    return levels


class Normalized(NamedTuple):
    """N-grams that are kept with the discounted parts of their probabilities; contexts, and all backoffs."""

    words: Ngrams
    parts: Floats
    backoffs: Floats
    contexts: Ngrams
    context_backoffs: Floats


def normalized(words: Ngrams, counts: Ints, kept: Mask, amounts: Floats) -> Normalized:
    """Divide the counts of n-grams by those of their contexts.

    Args:
        words: n-grams of two and more words, all that have a context.
        counts: their adjusted counts.
        kept: whether each is kept; the counts of others are left to shorter n-grams.
        amounts: for each length from 0 the discounts of counts 0 to 3.
    """
    groups, firsts = number_rows(words, 0, words.shape[1] - 1)
    size = len(firsts)
    lengths, levels = lengths_of(words), np.minimum(counts, 3)
    totals = sums(counts, groups, size)
    left = sums(np.where(kept, 0, counts), groups, size).astype(np.float64)
    for level in (1, 2, 3):
        left += amounts[lengths[firsts], level] * sums(((levels == level) & kept).astype(np.int64), groups, size)
    backoffs = left / totals
    parts = ((counts - amounts[lengths, levels]) / totals[groups])[kept]
    contexts = np.zeros((size, words.shape[1]), np.uint64)
    contexts[:, 1:] = words[firsts, :-1]
    return Normalized(words[kept], parts, backoffs[groups[kept]], contexts, backoffs)


class Vocabulary(NamedTuple):
    """All words with the probabilities of 1-grams.

    Attributes:
        hashes: of each word, ascending.
        chances: probability of each word.
        offsets: bounds of the words in ``data``.
        data: the words.
        amounts: the discounts of 1-grams for counts 0 to 3.
        fallback: 1 if counts of counts did not allow to estimate them.
        slots: table of the hashes.
    """

    hashes: npt.NDArray[np.uint64]
    chances: Floats
    offsets: Ints
    data: npt.NDArray[np.uint8]
    amounts: Floats
    fallback: Ints
    slots: npt.NDArray[np.int32]

    def places(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """Return the numbers of words."""
        return find_places(self.hashes, self.slots, hashes)


@dataclass(frozen=True)
class VocabularyFile:
    """The file of the vocabulary, which is read once in each process.

    Args:
        folder: its folder.
        version: changes when the file does.
    """

    folder: Directory
    version: str = ""

    @classmethod
    def written(cls, folder: Directory) -> VocabularyFile:
        """Return the file that is in a folder."""
        return cls(folder, folder.files()[_VOCABULARY].version)

    def save(self, vocabulary: Vocabulary) -> None:
        """Write it."""
        buffer = io.BytesIO()
        np.savez(buffer, **{name: array for name, array in vocabulary._asdict().items() if name != "slots"})
        self.folder.write(_VOCABULARY, buffer.getvalue())

    def load(self) -> Vocabulary:
        """Read it.

        Raises:
            DataError: it is lost.
        """
        key = self.folder.url, self.version
        if (vocabulary := _held.get(key)) is not None:
            return vocabulary
        data = self.folder.read(_VOCABULARY)
        if data is None:
            raise DataError(f"{self.folder.url!r} has lost the file {_VOCABULARY!r}; run again without resume")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            vocabulary = Vocabulary(**arrays, slots=slots_of(arrays["hashes"]))
        _held.clear()
        _held[key] = vocabulary
        return vocabulary


#: The vocabulary that was read last, by address and version of its file.
_held: dict[tuple[str, str], Vocabulary] = {}


class NgramWords(NamedTuple):
    """Different words: hashes, ascending, and bounds and bytes of the words."""

    hashes: npt.NDArray[np.uint64]
    offsets: Ints
    data: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, hashes: npt.NDArray[np.uint64], offsets: Ints, data: npt.NDArray[np.uint8]) -> NgramWords:
        """Return the different ones of words.

        Raises:
            DataError: two of them have the same hash.
        """
        rows, other = different_words(hashes, offsets, data)
        if other >= 0:
            first = int(rows[-1])
            names = [data[offsets[row] : offsets[row + 1]].tobytes().decode() for row in (first, other)]
            raise DataError(f"the words {names[0]!r} and {names[1]!r} have the same hash; leave one of them out")
        return cls(hashes[rows], *take_spans(data, offsets[rows], offsets[rows + 1]))

    @classmethod
    def joined(cls, parts: Sequence[NgramWords]) -> NgramWords:
        """Return the different words of several parts."""
        sizes = np.cumsum([0, *(len(part.data) for part in parts)]).tolist()
        offsets = [part.offsets[:-1] + size for part, size in zip(parts, sizes, strict=False)]
        bounds = np.concatenate([*offsets, np.array(sizes[-1:])])
        data = np.concatenate([part.data for part in parts])
        return cls.of(np.concatenate([part.hashes for part in parts]), bounds, data)


def vocabulary_of(words: Sequence[NgramWords], counts: Iterable[tuple[npt.NDArray[np.uint64], Ints]]) -> Vocabulary:
    """Return the 1-grams with their probabilities; a share of these goes to unknown words.

    Args:
        words: the words, in parts.
        counts: hashes of words and `END`, and how many different words are before each, in parts, which are added up.

    Raises:
        DataError: two words have the same hash.
    """
    marks = NgramWords(
        np.array([BEGIN, END, UNKNOWN]), np.array([0, 3, 7, 12]), np.frombuffer(b"<s></s><unk>", np.uint8)
    )
    everyone, offsets, data = NgramWords.joined([*words, marks])
    slots = slots_of(everyone)
    befores = np.zeros(len(everyone), np.int64)
    for hashes, part in counts:
        np.add.at(befores, find_places(everyone, slots, hashes), part)
    discounts = Discounts.of([int((befores == times).sum()) for times in (1, 2, 3, 4)])
    amounts, levels = np.array(discounts.amounts), np.minimum(befores, 3)
    total = int(befores.sum())
    left = sum(amounts[level] * int((levels == level).sum()) for level in (1, 2, 3)) / total
    chances = (befores - amounts[levels]) / total + left / (len(everyone) - 1)  # <s> is never predicted
    chances[np.searchsorted(everyone, BEGIN)] = 1.0
    return Vocabulary(everyone, chances, offsets, data, amounts, np.array([int(discounts.fallback)]), slots)


def interpolated(
    words: Ngrams, parts: Floats, backoffs: Floats, vocabulary: Vocabulary
) -> tuple[Ngrams, Floats, Floats]:
    """Return n-grams, their probabilities, and the backoffs after them.

    Args:
        words: n-grams and contexts, all whose last two words are the same.
        parts: the discounted parts of probabilities; NaN for contexts, which all words are.
        backoffs: backoffs of the contexts of n-grams, and of contexts.
        vocabulary: the words with the probabilities of 1-grams.
    """
    order = words.shape[1]
    groups, firsts = number_rows(words, 0, order)
    contexts = np.isnan(parts)
    after = np.ones(len(firsts))
    after[groups[contexts]] = backoffs[contexts]
    rows = np.flatnonzero(~contexts | (lengths_of(words) == 1))
    words, chances, backoffs, after = words[rows], parts[rows], backoffs[rows], after[groups[rows]]
    lengths = lengths_of(words)
    shorter = np.flatnonzero(lengths == 1)
    chances[shorter] = vocabulary.chances[vocabulary.places(words[shorter, -1])]
    for length in range(2, order + 1):
        here = np.flatnonzero(lengths == length)
        if length == 2:
            lower = vocabulary.chances[vocabulary.places(words[here, -1])]
        else:  # the shorter ones are all different, and come first
            pairs, _ = number_rows(np.concatenate([words[shorter], words[here]]), order - length + 1, order)
            lower = chances[shorter[pairs[len(shorter) :]]]
        chances[here] += backoffs[here] * lower
        shorter = here
    return words, chances, after

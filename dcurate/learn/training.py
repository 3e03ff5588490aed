"""Train a network on examples, in one order, so that it is the same to the bit in each run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, listed
from dcurate.frames.text import TextColumn
from dcurate.kernels.fasttext import SOFTMAX, Network
from dcurate.kernels.fasttext_damped import DAMPED
from dcurate.kernels.fasttext_training import Examples, Heads, WordCounts, ask, count_words, list_texts, no_words, train
from dcurate.kernels.layout import frozen
from dcurate.text.fasttext import new_network

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]
#: Features that are numbered at a time.
_BLOCK = 2**22

Schedule = Literal["linear", "cosine", "constant"]
Weighting = Literal["count", "sublinear"]


@dataclass(frozen=True)
class TextFeatures:
    """The features of a text, as fastText has them: words, n-grams of words and n-grams of characters of words.

    Args:
        word_ngrams: number of words of the longest n-gram of words; 1 has words alone.
        min_chars: number of characters of the shortest n-gram of characters.
        max_chars: number of characters of the longest one; 0 has none.
        buckets: number of buckets into which n-grams are hashed.
        min_count: minimum number of occurrences of a word in the training split.
        weighting: what a feature counts that is ``n`` times in a text: ``"count"`` is ``n``, as in fastText, whose
            ``.bin`` has no other; ``"sublinear"`` is ``1 + log(n)``, with ``n`` at most 1,023, which ranks long texts
            better, and takes several times as long to score.

    Raises:
        PipelineError: numbers out of range.

    Examples:
        >>> TextFeatures(word_ngrams=1, max_chars=0).buckets
        2000000
    """

    word_ngrams: int = 2
    min_chars: int = 3
    max_chars: int = 5
    buckets: int = 2_000_000
    min_count: int = 1
    weighting: Weighting = "count"

    def __post_init__(self) -> None:
        if self.weighting not in get_args(Weighting):
            raise PipelineError(f"weighting={self.weighting!r} is not one of {listed(get_args(Weighting))}")
        for name, least, most in (
            ("word_ngrams", 1, 16),
            ("min_chars", 0, 32),
            ("max_chars", 0, 32),
            ("buckets", 1, 2**30),
            ("min_count", 1, 2**31),
        ):
            check_whole(name, getattr(self, name), least, most)
        if self.max_chars and not 1 <= self.min_chars <= self.max_chars:
            raise PipelineError(f"min_chars={self.min_chars} must be from 1 to max_chars={self.max_chars}")


@dataclass(frozen=True)
class Training:
    """How a network is trained: by stochastic gradient descent, one example after the other.

    Args:
        epochs: number of passes over the training split, at most.
        learning_rate: the learning rate at the start.
        schedule: ``"linear"`` lets the rate fall to 0, as fastText does; ``"cosine"`` as well, slower at first;
            ``"constant"`` keeps it.
        class_weights: ``"balanced"`` weights each class by the inverse of its frequency; a mapping gives the weight of
            classes by name, 1 for others; None weights all alike.
        patience: number of epochs without a lower loss on the validation split after which training ends; the network
            of the epoch with the lowest loss is kept. None runs all epochs and keeps the last network.
        seed: seed of the order of examples.

    Raises:
        PipelineError: numbers out of range, or an unknown name.

    Examples:
        >>> Training(patience=None).rates(0, 4).round(3).tolist()
        [2.0, 1.95, 1.9, 1.85]
    """

    epochs: int = 10
    learning_rate: float = 2.0
    schedule: Schedule = "linear"
    class_weights: Literal["balanced"] | dict[str, float] | None = None
    patience: int | None = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("epochs", self.epochs, 1, 10_000)
        check_whole("seed", self.seed, 0, 2**64 - 1)
        if self.patience is not None:
            check_whole("patience", self.patience, 1, 10_000)
        if isinstance(self.learning_rate, bool) or not 0 < self.learning_rate <= 100:
            raise PipelineError(f"learning_rate={self.learning_rate!r} must be above 0 and at most 100")
        if self.schedule not in get_args(Schedule):
            raise PipelineError(f"schedule={self.schedule!r} is not one of {listed(get_args(Schedule))}")
        if isinstance(self.class_weights, dict):
            wrong = {name: weight for name, weight in self.class_weights.items() if not 0 < weight < math.inf}
            if wrong:
                raise PipelineError(f"class_weights={wrong!r}: a weight must be a number above 0")
        elif self.class_weights not in (None, "balanced"):
            raise PipelineError(
                f'class_weights={self.class_weights!r} must be "balanced", or weights by class such as {{"good": 2.0}}'
            )

    def rates(self, epoch: int, turns: int) -> npt.NDArray[np.float64]:
        """Return the learning rate of each turn of an epoch."""
        progress = (epoch + np.arange(turns) / max(turns, 1)) / self.epochs
        if self.schedule == "linear":
            return self.learning_rate * (1 - progress)
        if self.schedule == "cosine":
            return self.learning_rate * (1 + np.cos(np.pi * progress)) / 2
        return np.full(turns, self.learning_rate)

    def best(
        self, texts: Ints, run_epoch: Callable[[Ints, npt.NDArray[np.float64]], Epoch], rows: Floats
    ) -> tuple[Floats, list[Epoch], int]:
        """Run epochs until the loss on the validation split no longer falls.

        Args:
            texts: the numbers of the texts that are trained on.
            run_epoch: changes ``rows`` by a pass over texts in an order, at the learning rate of each turn.
            rows: what is trained.

        Returns:
            the rows that are kept, the losses of each epoch, and the number of the epoch that is kept.
        """
        history: list[Epoch] = []
        best, at, kept = math.inf, 0, rows
        for epoch in range(self.epochs):
            order = np.random.default_rng([self.seed, epoch]).permutation(texts)
            history.append(run_epoch(order, self.rates(epoch, len(order))))
            checked = history[-1].validation
            if checked is None:
                at = epoch
            elif checked < best:
                best, at, kept = checked, epoch, rows.copy()
            elif self.patience is not None and epoch - at >= self.patience:
                break
        return kept, history, at


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Refuse what is not a whole number of a range.

    Raises:
        PipelineError: it is none.

    Examples:
        >>> check_whole("epochs", 64, 1, 4096)
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PipelineError(f"{name}={value!r} must be a whole number from {least} to {most}")


class ExampleSplit(NamedTuple):
    """The rows of each part of the examples, in the order of their keys."""

    train: Ints
    validation: Ints
    held: Ints


class Epoch(NamedTuple):
    """The mean loss of an epoch on the training split, before each step, and after it on the validation split."""

    train: float
    validation: float | None


class Trained(NamedTuple):
    """A trained network.

    Attributes:
        network: with the vectors of the words and of the buckets of the training split, and one of zeros for others.
        counts: number of occurrences of each word in the training split.
        history: losses of each epoch.
        kept: number of the epoch whose network it is.
        held: answers to the held examples, of shape (examples, outputs).
    """

    network: Network
    counts: Ints
    history: list[Epoch]
    kept: int
    held: Floats


#: Gives the texts, as often as it is called: columns one after the other.
Texts: TypeAlias = Callable[[], Iterable[TextColumn]]


@dataclass
class Fit:
    """Examples as features.

    Args:
        texts: the texts.
        count: number of texts.
        split: part, training or validation, of each of them.
        features: the features.
        folder: a folder of this host for the lists of features, until the end.
    """

    texts: Texts
    count: int
    split: ExampleSplit
    features: TextFeatures
    folder: str
    network: Network = field(init=False)
    counts: Ints = field(init=False)
    lists: tuple[Ints, npt.NDArray[np.int32], Floats] = field(init=False)
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        self.is_training = np.zeros(self.count, np.bool_)
        self.is_training[self.split.train] = True
        words = no_words()
        for column, numbers in self._columns():
            rows = np.flatnonzero(self.is_training[numbers])
            words = count_words(*column, rows, words)
        names, counts = _in_order(words, self.features.min_count)
        sizes = [len(names), 0, self.features.buckets, self.features.min_chars, self.features.max_chars]
        sizes += [self.features.word_ngrams, SOFTMAX]
        nothing = np.zeros((0, 0), np.float32)
        self.network = new_network(names, np.empty(0), nothing, nothing, sizes)
        self.counts = counts
        self._list(len(names))

    def _columns(self) -> Iterator[tuple[TextColumn, Ints]]:
        """The columns of texts, and the number of each of their texts."""
        first = 0
        for column in self.texts():
            yield column, np.arange(first, first + len(column))
            first += len(column)

    def _list(self, words: int) -> None:
        """List the features of all texts in files, and number the buckets of the training split."""
        used = np.zeros(self.features.buckets, np.bool_)
        bounds = [np.zeros(1, np.int64)]
        paths = [os.path.join(self.folder, name) for name in ("features", "times")]
        with open(paths[0], "wb") as features_file, open(paths[1], "wb") as times_file:
            for column, numbers in self._columns():
                ends, features, times = list_texts(*column, np.arange(len(column)), self.network)
                chosen = np.repeat(self.is_training[numbers], np.diff(ends))
                used[features[chosen & (features >= 0)]] = True
                features_file.write(features.data)
                times_file.write(self._weights(times).data)
                bounds.append(ends[1:] + bounds[-1][-1])
        kept = np.flatnonzero(used)
        rows = np.full(self.features.buckets, len(kept), np.int32)
        rows[kept] = np.arange(len(kept))
        features = np.memmap(paths[0], np.int32, "r+")
        times = np.memmap(paths[1], np.float32, "r+")
        for first in range(0, len(features), _BLOCK):
            part = features[first : first + _BLOCK]
            part[:] = np.where(part >= 0, words + rows[np.maximum(part, 0)], -1 - part)
        self.network = self.network._replace(pruned=frozen(rows, np.int32))
        self.lists = np.concatenate(bounds), features, times
        self.rows = words + len(kept) + 1

    def _weights(self, times: npt.NDArray[np.int32]) -> Floats:
        """Return the weights of features by their counts in a text."""
        if self.features.weighting == "count":
            return np.asarray(times, np.float32)
        return DAMPED[np.minimum(times, len(DAMPED) - 1)]

    def run(self, heads: Heads, targets: Floats, weights: Floats, training: Training) -> Trained:
        """Train a network.

        Args:
            heads: what it is to answer.
            targets: answer of each text and head, or NaN.
            weights: weight of each text and head.
        """
        examples = Examples(*self.lists, targets, weights)
        rows, outputs = np.zeros((self.rows, int(heads.columns[-1])), np.float32), output_weights(heads)
        matrices = rows, outputs, self._scales()
        validation = self.split.validation

        def run_epoch(order: Ints, rates: npt.NDArray[np.float64]) -> Epoch:
            lost = train(examples, order, heads, matrices, rates)
            checked = None
            if len(validation) and training.patience is not None:
                checked = ask(examples, validation, heads, (rows, outputs))[1] / len(validation)
            return Epoch(lost / max(len(order), 1), checked)

        kept, history, at = training.best(self.split.train, run_epoch, rows)
        held = ask(examples, self.split.held, heads, (kept, outputs))[0]
        sizes = self.network.sizes.copy()
        sizes[1] = len(outputs)
        network = self.network._replace(
            rows=frozen(kept, np.float32), weights=frozen(outputs, np.float32), sizes=frozen(sizes, np.int64)
        )
        return Trained(network, self.counts, history, at, held)

    def _scales(self) -> Floats:
        """The factor of the steps of each row.

        It is the square of the inverse document frequency, as if features were weighted by it as in TF-IDF, by the
        mean squared length of the vectors of texts, so that a learning rate means the same for any texts.
        """
        _, features, times = self.lists
        frequencies = np.zeros(self.rows, np.int64)
        for first, last in self._blocks():
            frequencies[features[first:last]] += 1  # each is once in a text
        scales = np.square(np.log((1 + len(self.split.train)) / (1 + frequencies)) + 1)
        squares = 0.0
        for first, last in self._blocks():
            part = times[first:last].astype(np.float64)
            squares += float(np.square(part / max(part.sum(), 1.0)) @ scales[features[first:last]])
        return np.asarray(scales * max(len(self.split.train), 1) / squares, np.float32)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Where the features of each text of the training split begin and end, in the order of the split."""
        bounds = self.lists[0]
        return ((int(bounds[text]), int(bounds[text + 1])) for text in self.split.train)


def output_weights(heads: Heads) -> Floats:
    """The weights of the outputs of a linear model: a column is the logit of a class, or a number.

    The two classes of a head share a column, the difference of their logits.
    """
    weights = np.zeros((int(heads.starts[-1]), int(heads.columns[-1])), np.float32)
    for head in range(len(heads.kinds)):
        first, last = heads.starts[head : head + 2]
        column, end = heads.columns[head : head + 2]
        weights[first:last, column:end] = [[-0.5], [0.5]] if last - first == 2 else np.eye(last - first)
    return weights


def _in_order(words: WordCounts, least: int) -> tuple[list[bytes], Ints]:
    """The words that occur often enough, the most frequent first and then by their bytes, and their counts."""
    used = int(words.used[0])
    letters, ends = words.letters[: words.ends[used]].tobytes(), words.ends[: used + 1].tolist()
    counts = words.counts[:used]
    names = [letters[ends[number] : ends[number + 1]] for number in range(used)]
    order = sorted(np.flatnonzero(counts >= least).tolist(), key=lambda number: (-counts[number], names[number]))
    return [names[number] for number in order], counts[order]

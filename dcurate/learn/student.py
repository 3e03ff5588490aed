"""A student: a linear model on fastText's features with several heads, its folder, and fastText's own files."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.text import TextColumn
from dcurate.fs.stores import Directory
from dcurate.kernels.fasttext import SOFTMAX, Network
from dcurate.kernels.fasttext_scoring import WordSums, score_texts, sum_words
from dcurate.kernels.fasttext_training import CLASSES, NUMBER, Heads
from dcurate.text.fasttext import FastTextModel, new_network, write_model

FORMAT, VERSION = "dcurate student", 1
#: Beside the arrays: what it is; its figures on held examples; the page that is drawn of these.
CARD, FIGURES, PAGE = "card.json", "figures.json", "report.html"
_ARRAYS = ("letters", "ends", "counts", "pruned", "rows", "weights", "sizes")
_PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".npz")
_LABEL = "__label__"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StudentHead:
    """One question that a student answers.

    Args:
        name: the column of its labels.
        kind: ``"classes"``, ``"flag"`` for true and false, or ``"number"``.
        labels: the classes in order; ``("false", "true")`` of a flag, none of a number.
        mean, deviation: mean and standard deviation of the numbers that it learned.
        least, most: smallest and largest of them.
        positive: of two classes the one whose probability is the score; ``"true"`` of a flag.
        thresholds: by group, ``""`` for all others, the lowest score of the positive class.
        calibration: scores and the share of the positive class at each, in ascending order; between them is a line.

    Examples:
        >>> head = StudentHead("quality", "classes", ("bad", "good"), positive="good", thresholds={"": 0.6, "de": 0.5})
        >>> head.answers(np.array([[0.45, 0.55], [0.45, 0.55]], np.float32), ["de", "en"])
        ['good', 'bad']
    """

    name: str
    kind: Literal["classes", "flag", "number"]
    labels: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    least: float = 0.0
    most: float = 0.0
    positive: str = ""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    calibration: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    @property
    def outputs(self) -> int:
        """Number of outputs of the network."""
        return max(len(self.labels), 1)

    def scores(self, answers: Floats) -> npt.NDArray[np.float64]:
        """Return the scores of texts: the probability of `positive`, else of the likeliest class, or the number.

        Args:
            answers: the outputs of this head, of shape (texts, outputs).
        """
        if self.kind == "number":
            return np.asarray(self.mean + self.deviation * answers[:, 0].astype(np.float64))
        if not self.positive:
            return np.asarray(answers.max(axis=1), np.float64)
        return answers[:, self.labels.index(self.positive)].astype(np.float64)

    def calibrated(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the scores as shares of the positive class; as they are without `calibration`."""
        if self.calibration is None:
            return scores
        return np.where(np.isnan(scores), np.nan, np.interp(scores, *self.calibration))

    def answers(self, outputs: Floats, groups: Sequence[str | None] | None = None) -> list[Any]:
        """Return the class, flag or number of each text; None for a text without words."""
        scores = self.scores(outputs)
        blank = np.isnan(scores)
        if self.kind == "number":
            numbers = np.clip(scores, self.least, self.most).tolist()
            return [None if no else number for no, number in zip(blank, numbers, strict=True)]
        chosen = np.where(blank, 0, np.argmax(np.nan_to_num(outputs), axis=1))
        if self.thresholds and self.positive:
            limits = self.limits(len(outputs), groups)
            positive = self.labels.index(self.positive)
            chosen = np.where(scores >= limits, positive, 1 - positive)
        names: list[Any] = [False, True] if self.kind == "flag" else list(self.labels)
        return [None if no else names[number] for no, number in zip(blank, chosen.tolist(), strict=True)]

    def limits(self, rows: int, groups: Sequence[str | None] | None) -> npt.NDArray[np.float64]:
        """Return the threshold of each text; a group without one has that of all others, 0.5 if there is none."""
        other = self.thresholds.get("", 0.5)
        if groups is None:
            return np.full(rows, other)
        return np.array([self.thresholds.get(group or "", other) for group in groups], np.float64)


@dataclass(frozen=True, eq=False)
class Student:
    """A small model that judges texts, with one head or several.

    Its folder holds ``card.json``, which says what it was trained on and how good it is, and arrays of NumPy; nothing
    in it is unpickled.

    Args:
        heads: what it answers.
        network: dictionary and vectors.
        counts: number of occurrences of each word where it was trained; zeros if unknown.
        card: further entries of its card.

    Examples:
        >>> import json, tempfile
        >>> from dcurate import DocumentReader, Pipeline
        >>> from pathlib import Path
        >>> folder = tempfile.TemporaryDirectory()
        >>> rows = [{"text": f"{word} number {n}", "label": word} for n in range(40) for word in ("good", "bad")]
        >>> lines = "".join(json.dumps(row) + chr(10) for row in rows)
        >>> _ = Path(folder.name, "labels.jsonl").write_text(lines)
        >>> from dcurate import InlineExecutor
        >>> from dcurate.learn import HeldBack, Learn
        >>> learn = Learn(f"{folder.name}/model", held_back=HeldBack(near_duplicates=False))
        >>> stages = [DocumentReader(f"{folder.name}/labels.jsonl"), learn]
        >>> _ = Pipeline("learn", stages=stages).run(InlineExecutor(), observers=[])
        >>> student = Student.load(f"{folder.name}/model")
        >>> [head.name for head in student.heads], student.predict(["a good number", "a bad number"])["label"]
        (['label'], ['good', 'bad'])
        >>> folder.cleanup()
    """

    heads: tuple[StudentHead, ...]
    network: Network
    counts: Ints
    card: Mapping[str, Any] = field(default_factory=dict)

    def head(self, name: str) -> StudentHead:
        """Return a head by its name.

        Raises:
            PipelineError: there is none.
        """
        for head in self.heads:
            if head.name == name:
                return head
        raise PipelineError(f"the model has no head {name!r}; it has {listed(head.name for head in self.heads)}")

    def score(self, offsets: Ints, data: npt.NDArray[np.uint8], rows: Ints) -> Floats:
        """Return the answers of all heads in one pass, of shape (texts, outputs); NaN for texts without words.

        Args:
            offsets, data: the texts, as in `TextColumn`.
            rows: their numbers.
        """
        return score_texts((offsets, data), rows, self.network, self._sums, layout_of(self.heads, self.network))

    @cached_property
    def _sums(self) -> WordSums:
        return sum_words(self.network)

    def outputs_of(self, name: str) -> slice:
        """The outputs of a head, among those of all."""
        first = 0
        for head in self.heads:
            if head.name == name:
                return slice(first, first + head.outputs)
            first += head.outputs
        raise PipelineError(f"the model has no head {name!r}; it has {listed(head.name for head in self.heads)}")

    def answers(self, texts: Sequence[str]) -> Floats:
        """Return the answers of all heads to each text, of shape (texts, outputs)."""
        encoded = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        column = TextColumn(offsets, np.frombuffer(b"".join(encoded), np.uint8))
        return self.score(*column, np.arange(len(texts)))

    def predict(self, texts: Sequence[str]) -> dict[str, list[Any]]:
        """Return the answer of each head to each text, by the name of the head."""
        answers = self.answers(texts)
        return {head.name: head.answers(answers[:, self.outputs_of(head.name)]) for head in self.heads}

    def count_scores(self, texts: TextColumn, edges: Mapping[str, Sequence[float]]) -> dict[str, Ints]:
        """Return for heads the number of texts in each bin of scores; those beyond the ends are in the last ones.

        Args:
            texts: the texts; those without words do not count.
            edges: by head the edges of its bins, in ascending order.
        """
        answers, counts = self.score(*texts, np.arange(len(texts))), {}
        for name, ends in edges.items():
            scores = self.head(name).scores(answers[:, self.outputs_of(name)])
            counts[name] = np.histogram(np.clip(scores[~np.isnan(scores)], ends[0], ends[-1]), ends)[0]
        return counts

    def save(self, path: str, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write the folder of the model; the card comes last, so that a folder with a card is whole.

        Raises:
            DataError: it cannot be written.
        """
        folder = Directory(str(path), dict(storage_options or {}))
        network = self.network
        arrays: list[npt.NDArray[Any]] = [network.letters, network.names, self.counts, network.pruned]
        arrays += [network.rows, network.weights, network.sizes]
        for name, array in zip(_ARRAYS, arrays, strict=True):
            with folder.writing(f"{name}.npy") as file:
                np.save(file, array, allow_pickle=False)
        card = {
            "format": FORMAT,
            "version": VERSION,
            "heads": [asdict(head) for head in self.heads],
            **self.card,
        }
        folder.write(CARD, json.dumps(card, indent=1, ensure_ascii=False, sort_keys=True).encode() + b"\n")

    @classmethod
    def load(cls, path: str, storage_options: Mapping[str, Any] | None = None) -> Student:
        """Read the folder of a model.

        Raises:
            DataError: there is none, it is of another version, or a file is damaged or a pickle.
        """
        folder = Directory(str(path), dict(storage_options or {}))
        card = _card(folder, str(path))
        try:
            arrays = {name: _array(folder, name) for name in _ARRAYS}
            heads = tuple(_head(entry) for entry in card.pop("heads"))
            return cls(heads, _checked(arrays, heads), arrays["counts"], card)
        except (ValueError, KeyError, TypeError, EOFError, OSError) as error:
            raise DataError(f"the model in {str(path)!r} is damaged ({error}); train or copy it again") from error

    @classmethod
    def from_fasttext(cls, path: str, name: str = "label") -> Student:
        """Read a ``.bin`` or ``.ftz`` of fastText that was trained with the loss softmax.

        Args:
            path: the file.
            name: the name of its head.

        Raises:
            DataError: it is another kind of file.
        """
        model = FastTextModel.load(path)
        network = model.network
        if network.sizes[6] != SOFTMAX:
            raise DataError(f"{path!r} was not trained with the loss softmax; use it with FastTextClassifier")
        words = int(network.sizes[0])
        labels = tuple(label.removeprefix(_LABEL) for label in model.labels)
        names = [network.letters[start:stop].tobytes() for start, stop in _spans(network.names[: words + 1])]
        parts = network.pruned, network.rows, network.weights[: len(labels)]
        plain = new_network(names, *parts, network.sizes)
        return cls((StudentHead(name, "classes", labels),), plain, np.zeros(words, np.int64))

    def to_fasttext(self, path: str, name: str | None = None) -> None:
        """Write a head as a ``.bin`` that fastText reads.

        Args:
            path: the file to write.
            name: name of the head; the only one by default.

        Raises:
            PipelineError: an unknown head, or one that answers with numbers.
        """
        if name is None and len(self.heads) > 1:
            raise PipelineError(f"name the head to write; there are {listed(head.name for head in self.heads)}")
        head = self.head(self.heads[0].name if name is None else name)
        if head.kind == "number":
            raise PipelineError(
                f"head {head.name!r} answers with numbers, and fastText has classes only; choose another"
            )
        network = self.network
        if (network.pruned < 0).any():
            raise PipelineError("the model was made from a pruned .ftz, which has no .bin; use the .ftz itself")
        outputs = self.outputs_of(head.name)
        columns = np.flatnonzero(network.weights[outputs].any(axis=0))
        part = network._replace(rows=network.rows[:, columns], weights=network.weights[outputs][:, columns])
        write_model(path, part, [_LABEL + label for label in head.labels], self.counts)


def layout_of(heads: Sequence[StudentHead], network: Network | None = None) -> Heads:
    """Return where the outputs and columns of heads are; two classes share a column.

    Args:
        network: one whose heads read all columns, as that of fastText does, is taken as it is.
    """
    starts = np.cumsum([0, *(head.outputs for head in heads)], dtype=np.int64)
    columns = np.cumsum([0, *(1 if head.outputs == 2 else head.outputs for head in heads)], dtype=np.int64)
    if network is not None and len(heads) == 1:
        columns = np.array([0, network.rows.shape[1]], np.int64)
    kinds = np.array([NUMBER if head.kind == "number" else CLASSES for head in heads], np.int64)
    return Heads(starts, columns, kinds)


@lru_cache(maxsize=4)
def loaded(path: str, stamp: str) -> Student:
    """Return the student of a folder, read once by each process; `stamp` changes when the folder does."""
    return Student.load(path)


def stamp_of(path: str) -> str:
    """Return what changes when a model's card does.

    Raises:
        DataError: the model is missing.
    """
    entry = Directory(str(path)).files().get(CARD)
    if entry is None:
        raise DataError(f"no model in {str(path)!r}; train one with Learn or `dcurate learn`")
    return f"{entry.size} {entry.version}"


def _card(folder: Directory, path: str) -> dict[str, Any]:
    data = folder.read(CARD)
    if data is None:
        raise DataError(f"no model in {path!r}; train one with Learn or `dcurate learn`")
    pickles = sorted(name for name in folder.files() if name.endswith(_PICKLES))
    if pickles:
        raise DataError(f"the model in {path!r} holds {listed(pickles)}, which may run code; remove it or train again")
    try:
        card = json.loads(data)
    except ValueError as error:
        raise DataError(f"{CARD} of the model in {path!r} is not JSON ({error}); train or copy it again") from error
    if not isinstance(card, dict) or card.pop("format", None) != FORMAT:
        raise DataError(f"{path!r} is not a model of dcurate.learn; train one with Learn or `dcurate learn`")
    version = card.pop("version", None)
    if version != VERSION:
        raise DataError(
            f"the model in {path!r} has version {version!r}, and this dcurate reads {VERSION}; train it again"
        )
    return card


def _array(folder: Directory, name: str) -> npt.NDArray[Any]:
    if folder.local:
        return np.asarray(np.load(folder.path(f"{name}.npy"), mmap_mode="r", allow_pickle=False))
    data = folder.read(f"{name}.npy")
    if data is None:
        raise ValueError(f"it has no {name}.npy")
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


def _head(entry: dict[str, Any]) -> StudentHead:
    calibration = entry.pop("calibration")
    labels = tuple(entry.pop("labels"))
    pair = None if calibration is None else (tuple(calibration[0]), tuple(calibration[1]))
    return StudentHead(**entry, labels=labels, calibration=pair)


def _checked(arrays: Mapping[str, npt.NDArray[Any]], heads: Sequence[StudentHead]) -> Network:
    """The network of arrays whose sizes agree, so that no kernel reads beyond them."""
    letters, ends, _, pruned, rows, weights, sizes = (arrays[name] for name in _ARRAYS)
    outputs = sum(head.outputs for head in heads)
    if sizes.shape != (7,) or rows.ndim != 2 or weights.shape != (outputs, rows.shape[1]) or not heads:
        raise ValueError("its parts are inconsistent")
    words, buckets = int(sizes[0]), int(sizes[2])
    if len(heads) > 1 and layout_of(heads).columns[-1] != rows.shape[1]:
        raise ValueError("its heads do not fit its vectors")
    if not (
        len(ends) == words + 1
        and len(arrays["counts"]) == words
        and ends[0] == 0
        and (np.diff(ends) >= 0).all()
        and ends[-1] == len(letters)
        and len(pruned) in (0, buckets)
        and words + (int(pruned.max(initial=-1)) + 1 if len(pruned) else buckets) <= len(rows)
        and int(pruned.min(initial=0)) >= -1
        and 0 <= sizes[3] <= 32
        and 0 <= sizes[4] <= 32
        and 1 <= sizes[5] <= 16
        and (buckets > 0 or (sizes[4] == 0 and sizes[5] == 1))
    ):
        raise ValueError("its parts are inconsistent")
    names = [letters[start:stop].tobytes() for start, stop in _spans(ends)]
    return new_network(names, pruned, rows, weights, sizes)


def _spans(ends: npt.NDArray[Any]) -> list[list[int]]:
    return np.column_stack([ends[:-1], ends[1:]]).tolist()  # type: ignore[no-any-return]

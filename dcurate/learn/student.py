"""A student: a linear model on fastText's features with several heads, its folder, and fastText's own files."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.text import TextColumn, text_column
from dcurate.fs.stores import Directory
from dcurate.kernels.fasttext import SOFTMAX, Network
from dcurate.kernels.fasttext_damped import WordFeatures, score_damped_texts, word_features
from dcurate.kernels.fasttext_scoring import WordSums, score_texts, sum_words
from dcurate.learn.head import Answering, StudentHead, heads_of, layout_of
from dcurate.learn.training import Weighting
from dcurate.text.fasttext import FastTextModel, new_network, write_model

FORMAT, COLUMNS_FORMAT = "dcurate student", "dcurate student of columns"
#: Of the folders of each format.
VERSIONS = {FORMAT: 2, COLUMNS_FORMAT: 1}
#: Beside the arrays: what it is; its figures on held examples; the page that is drawn of these.
CARD, FIGURES, PAGE = "card.json", "figures.json", "report.html"
_ARRAYS = ("letters", "ends", "counts", "pruned", "rows", "weights", "sizes")
_PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".npz")
_LABEL = "__label__"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Student(Answering):
    """A small model that judges texts, with one head or several.

    Its folder holds ``card.json``, which says what it was trained on and how good it is, and arrays of NumPy; nothing
    in it is unpickled.

    Args:
        heads: what it answers.
        network: dictionary and vectors.
        counts: number of occurrences of each word where it was trained; zeros if unknown.
        card: further entries of its card.
        weighting: how often features count, as in `TextFeatures`.

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
    weighting: Weighting = "count"

    def score(self, offsets: Ints, data: npt.NDArray[np.uint8], rows: Ints) -> Floats:
        """Return the answers of all heads in one pass, of shape (texts, outputs); NaN for texts without words.

        Args:
            offsets, data: the texts, as in `TextColumn`.
            rows: their numbers.
        """
        heads = layout_of(self.heads, self.network)
        if self.weighting == "sublinear":
            return score_damped_texts((offsets, data), rows, self.network, self._features, heads)
        return score_texts((offsets, data), rows, self.network, self._sums, heads)

    def answers_of(self, table: Any, columns: Sequence[str]) -> Floats:
        """Return the answers of all heads to the texts of a table, in the first of the columns."""
        texts = text_column(table, columns[0])
        return self.score(*texts, np.arange(len(texts)))

    @cached_property
    def _features(self) -> WordFeatures:
        return word_features(self.network)

    @cached_property
    def _sums(self) -> WordSums:
        return sum_words(self.network)

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

    def save(self, path: str, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write the folder of the model; the card comes last, so that a folder with a card is whole.

        Raises:
            DataError: it cannot be written.
        """
        folder = Directory(str(path), dict(storage_options or {}))
        network = self.network
        arrays: list[npt.NDArray[Any]] = [network.letters, network.names, self.counts, network.pruned]
        arrays += [network.rows, network.weights, network.sizes]
        card = {**self.card, "weighting": self.weighting}
        write_model_folder(folder, dict(zip(_ARRAYS, arrays, strict=True)), FORMAT, self.heads, card)

    @classmethod
    def load(cls, path: str, storage_options: Mapping[str, Any] | None = None) -> Student:
        """Read the folder of a model.

        Raises:
            DataError: there is none, it is of another version, or a file is damaged or a pickle.
        """
        folder = Directory(str(path), dict(storage_options or {}))
        card = read_card(folder, str(path))
        try:
            arrays = {name: read_array(folder, name) for name in _ARRAYS}
            heads, weighting = heads_of(card), card.pop("weighting")
            network = _checked(arrays, heads)
            if weighting not in get_args(Weighting):
                raise ValueError(f"it cannot have the weighting {weighting!r}")
            if weighting == "sublinear" and (not len(network.pruned) or int(network.pruned.min()) < 0):
                raise ValueError("its parts are inconsistent")
            return cls(heads, network, arrays["counts"], card, weighting)
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
            PipelineError: an unknown head, one that answers with numbers, or a model with sublinear weights.
        """
        if self.weighting != "count":
            raise PipelineError(
                f"the model has the weighting {self.weighting!r}, which fastText does not have; for a .bin train it "
                "with TextFeatures(weighting='count')"
            )
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


def write_model_folder(
    folder: Directory,
    arrays: Mapping[str, npt.NDArray[Any]],
    kind: str,
    heads: Sequence[StudentHead],
    card: Mapping[str, Any],
) -> None:
    """Write arrays, and then the card, so that a folder with a card is whole."""
    for name, array in arrays.items():
        with folder.writing(f"{name}.npy") as file:
            np.save(file, array, allow_pickle=False)
    card = {"format": kind, "version": VERSIONS[kind], "heads": [asdict(head) for head in heads], **card}
    folder.write(CARD, json.dumps(card, indent=1, ensure_ascii=False, sort_keys=True).encode() + b"\n")


def stamp_of(path: str) -> str:
    """Return what changes when a model's card does.

    Raises:
        DataError: the model is missing.
    """
    entry = Directory(str(path)).files().get(CARD)
    if entry is None:
        raise DataError(f"no model in {str(path)!r}; train one with Learn or `dcurate learn`")
    return f"{entry.size} {entry.version}"


def read_card(folder: Directory, path: str, kind: str = FORMAT) -> dict[str, Any]:
    """Read the card of a model.

    Raises:
        DataError: there is none, it is damaged or of another kind or version, or a pickle is beside it.
    """
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
    other = card.pop("format", None) if isinstance(card, dict) else None
    if other == COLUMNS_FORMAT and kind == FORMAT:
        raise DataError(f"the model in {path!r} reads columns, not texts; use it in ScoreLabels with feature_fields")
    if other != kind:
        raise DataError(f"{path!r} is not a model of dcurate.learn; train one with Learn or `dcurate learn`")
    version = card.pop("version", None)
    if version != VERSIONS[kind]:
        raise DataError(
            f"the model in {path!r} has version {version!r}, and this dcurate reads {VERSIONS[kind]}; train it again"
        )
    return dict(card)


def read_array(folder: Directory, name: str) -> npt.NDArray[Any]:
    """Read an array; one on a disk is mapped.

    Raises:
        ValueError: it is missing.
    """
    if folder.local:
        return np.asarray(np.load(folder.path(f"{name}.npy"), mmap_mode="r", allow_pickle=False))
    data = folder.read(f"{name}.npy")
    if data is None:
        raise ValueError(f"it has no {name}.npy")
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


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

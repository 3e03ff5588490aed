"""Importance weights of documents by hashed n-grams: how much more likely a text is in a target than in all data."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FileGroup
from dcurate.core.stage import NodeInfo, ProcessingStage, SourceStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import column_of, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.io.document_reader import DocumentReader

BUCKETS = 10_000
_WORD = re.compile(r"\w+|[^\w\s]")
_MIX = np.uint64(0x9E3779B97F4A7C15)
_KEY = "log_ratios"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def ngram_buckets(text: str, buckets: int = BUCKETS) -> Ints:
    """Return the bucket of each word, and of each two consecutive words, of a text in lower case.

    Examples:
        >>> ngram_buckets("The cat, the cat", 100).tolist()
        [78, 32, 78, 78, 32, 0, 14, 70, 0]
    """
    words = np.array([zlib.crc32(word.encode()) for word in _WORD.findall(text.lower())], np.uint64)
    pairs = (words[:-1] * _MIX + words[1:]) >> np.uint64(20)
    return (np.concatenate([words, pairs]) % np.uint64(buckets)).astype(np.int64)


def fit_importance(
    target: Any, data: Any, path: str, *, documents: int = 50_000, text_field: str = "text", buckets: int = BUCKETS
) -> None:
    """Write a model of importance weights, for `ImportanceWeights`.

    It compares how often the n-grams of DSIR (Xie et al. 2023, "Data Selection for Language Models via Importance
    Resampling"), words and pairs of words in hashed buckets, are in the target and in the data.

    Args:
        target: a reader, or the files, directories and globs, of documents as they are wanted.
        data: the same of the data to choose from.
        path: the file to write, local or a URL.
        documents: maximum number of documents that are read of each, the first ones.
        text_field: the column of texts.
        buckets: number of buckets.

    Raises:
        DataError: one of them has no words.
        PipelineError: numbers that cannot be.

    Examples:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> folder = tempfile.TemporaryDirectory()
        >>> for name, text in (("target", "a proof of a theorem"), ("data", "a sale of shoes")):
        ...     _ = Path(folder.name, f"{name}.jsonl").write_text(json.dumps({"text": text}))
        >>> fit_importance(f"{folder.name}/target.jsonl", f"{folder.name}/data.jsonl", f"{folder.name}/model.npz")
        >>> stage = ImportanceWeights(f"{folder.name}/model.npz")
        >>> stage.setup()
        >>> import pandas as pd
        >>> made = stage.process(DocumentBatch(data=pd.DataFrame({"text": ["a theorem", "shoes"]})))
        >>> (made.to_pandas().log_weight > 0).tolist()
        [True, False]
        >>> folder.cleanup()
    """
    for name, number in (("documents", documents), ("buckets", buckets)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise PipelineError(f"fit_importance: {name}={number!r} must be a whole number of at least 1")
    counts = []
    for name, source in (("target", target), ("data", data)):
        frequencies = np.zeros(buckets, np.int64)
        for text in _texts(source, documents, text_field):
            frequencies += np.bincount(ngram_buckets(text, buckets), minlength=buckets)
        if not frequencies.sum():
            raise DataError(f"fit_importance: {name}={source!r} has no words in column {text_field!r}")
        counts.append((frequencies + 1) / (frequencies.sum() + buckets))
    file = io.BytesIO()
    np.savez(file, **{_KEY: np.log(counts[0] / counts[1])})
    folder, _, name = str(path).rpartition("/")
    Directory(folder or ".").write(name, file.getvalue())


def _texts(source: Any, most: int, column: str) -> Iterator[str]:
    reader: SourceStage[FileGroup, DocumentBatch] = (
        source if isinstance(source, SourceStage) else DocumentReader(source)
    )
    for split in reader.splits():
        batch = reader.process(split)
        if isinstance(batch, DocumentBatch):
            texts = column_of(batch.to_arrow(), column, text=True).fill_null("").to_pylist()[:most]
            yield from texts
            most -= len(texts)
        if most <= 0:
            return


@dataclass
class ImportanceWeights(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add the logarithm of each document's importance weight, for `Source(log_weights_field=...)` of a `Mixture`.

    It is the sum over the n-grams of the text of how much more frequent they are in the target than in the data.

    Args:
        model: the file that `fit_importance` wrote.
        text_field: the column of texts.
        output_field: the column to add.
        name: name of the stage.

    Raises:
        DataError: the model cannot be read.

    Examples:
        >>> ImportanceWeights("model.npz").outputs()
        ([], ['log_weight'])
    """

    model: str
    text_field: str = "text"
    output_field: str = "log_weight"
    name: str = "importance_weights"

    _ratios: Floats | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_ratios": None}

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def outputs(self) -> Spec:
        return [], [self.output_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Read the model, so that a missing one is known at once."""
        self._read()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Read the model."""
        self._ratios = self._read()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Return the documents with their weights."""
        assert self._ratios is not None
        table = task.to_arrow()
        texts = column_of(table, self.text_field, text=True).fill_null("").to_pylist()
        ratios = self._ratios
        weights = np.array([ratios[ngram_buckets(text, len(ratios))].sum() for text in texts], np.float64)
        return task.with_data(with_column(table, self.output_field, weights))

    def _read(self) -> Floats:
        folder, _, name = str(self.model).rpartition("/")
        data = Directory(folder or ".").read(name)
        if data is None:
            raise DataError(f"{self.name}: no model at {self.model!r}; make one with fit_importance()")
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                return np.asarray(arrays[_KEY], np.float64)
        except (ValueError, OSError, KeyError) as error:
            raise DataError(f"{self.name}: {self.model!r} is not a model of fit_importance() ({error})") from error

"""Stages that keep benchmarks out of training data."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import Rejection
from dcurate.core.stage import BarrierStage, ProcessingStage, Spec, Stage, WorkerMetadata
from dcurate.dedup.benchmarks import IndexSource, NgramIndex, NgramSize, Tasks
from dcurate.dedup.span_removal import SpanRemoval, stretches_of
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import rows_at, with_column, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_column, with_shorter_texts
from dcurate.fs.stores import Directory
from dcurate.kernels.overlap import Matches
from dcurate.shuffle.spill import SpilledRows, SpillWriter

Action = Literal["drop", "flag"]

_COUNTS = "_dcurate/matches"
_IGNORED = "_dcurate/ignored.npy"
REASON = "contaminated"
#: Columns that documents which `TaskDecontamination` drops get, and what those of an n-gram say in sentences.
_COLUMNS = ("contamination_benchmark", "contamination_example", "contamination_ngram")
_EVIDENCE = ("benchmark", "example", "words")


@dataclass
class Decontaminate(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Drop or flag the documents that contain an n-gram of a benchmark.

    Args:
        tasks: the benchmarks, or the path of an index of them.
        text_field: the column to look at.
        action: ``"drop"``, or ``"flag"`` to keep all documents and say which would go.
        ngram_size: how many words an n-gram has, or ``"auto"``; see `NgramIndex.build`. Of an index the index decides.
        min_ngram_size: an example shorter than ``ngram_size`` is one n-gram if it has at least this many words.
        min_matches: number of distinct n-grams of benchmarks from which a document is dropped.
        prefix: prefix of the columns with findings: ``matches`` (distinct n-grams), and ``benchmark``, ``example`` and
            ``ngram`` of the first. Rejected rows have them, too.
        storage_options: storage options of fsspec, for the benchmarks.
        name: name of the stage.

    Case and punctuation do not count; n-grams are compared word for word. The reason for a drop names the benchmark, so
    the report counts by benchmark.

    Examples:
        >>> from dcurate.dedup.benchmarks import Benchmark
        >>> Decontaminate(Benchmark("gsm8k.jsonl", "question"), action="flag").outputs()[1]
        ['contamination_matches', 'contamination_benchmark', 'contamination_example', 'contamination_ngram']
    """

    tasks: Tasks
    text_field: str = "text"
    action: Action = "drop"
    ngram_size: NgramSize = 13
    min_ngram_size: int = 8
    min_matches: int = 1
    prefix: str = "contamination_"
    storage_options: Mapping[str, Any] | None = None
    name: str = "decontaminate"
    _index: NgramIndex | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._source()
        if self.action not in get_args(Action):
            raise PipelineError(f"{self.name}: no action {self.action!r}{nearest(str(self.action), get_args(Action))}")
        if self.min_matches < 1:
            raise PipelineError(f"{self.name}: min_matches={self.min_matches} must be at least 1")

    def _source(self) -> IndexSource:
        return IndexSource(self.tasks, self.ngram_size, self.min_ngram_size, self.storage_options)

    def settings(self) -> dict[str, Any]:
        return _without(super().settings(), "_index", "storage_options")

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], self._columns if self.action == "flag" else []

    @property
    def _columns(self) -> list[str]:
        return [f"{self.prefix}{suffix}" for suffix in ("matches", "benchmark", "example", "ngram")]

    def evidence_columns(self) -> dict[str, str]:
        return dict(zip(self._columns[1:], _EVIDENCE, strict=True))

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._index = self._source().load()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        index = self._index or self._source().load()
        table = task.to_arrow()
        matches = index.find(text_column(table, self.text_field))
        counts, firsts = _different(matches), _firsts(matches)
        sources = [index.found_in(gram)[0] if gram >= 0 else (None, None) for gram in firsts]
        flagged = with_column(table, self._columns[0], counts)
        flagged = _with_evidence(flagged, index, firsts, self._columns[1:])
        if self.action == "flag":
            return task.with_data(flagged)
        dropped = counts >= self.min_matches
        reasons = [f"{REASON}: {name}" if drop else "" for (name, _), drop in zip(sources, dropped, strict=True)]
        return _without_rows(task, table, flagged, reasons, self.name)


@dataclass
class TaskDecontamination(BarrierStage[DocumentBatch]):
    """Cut benchmarks out of documents by the rules of GPT-3 (Brown et al., 2020, appendix C).

    Each n-gram of a benchmark is removed with ``remove_char_each_side`` characters on either side and the rest of the
    sentences there; the document is split there. Pieces that are too short, and documents that are split too often, are
    dropped. An n-gram that the whole data set holds more than ``max_matches`` times is
    too common to be evidence and stays. To count, all documents are spilled to disk beside the output, as in
    `ExactDuplicates`.

    Args:
        tasks: the benchmarks, or the path of an index of them.
        text_field: the column to look at.
        max_ngram_size: how many words an n-gram has, or ``"auto"``; see `NgramIndex.build`.
        max_matches: n-grams found more often in all documents are ignored.
        min_document_length: drop pieces with fewer characters. A document that is not split is kept at any length.
        remove_char_each_side: characters to remove on either side of an n-gram, and then the rest of the sentence.
        max_splits: drop documents that are split into more pieces.
        min_ngram_size: an example shorter than ``max_ngram_size`` is one n-gram if it has at least this many words.
        report_path: a file for what was found: a line of JSON for each n-gram with ``ngram``, ``count``, ``ignored``
            (too common) and ``examples``, the most frequent first.
        storage_options: storage options of fsspec, for the benchmarks and the report.
        name: name of the stage.

    Pieces repeat the other columns of their document.

    Examples:
        >>> from dcurate.dedup.benchmarks import Benchmark
        >>> TaskDecontamination(Benchmark("gsm8k.jsonl", "question")).inputs()
        ([], ['text'])
    """

    tasks: Tasks
    text_field: str = "text"
    max_ngram_size: NgramSize = 13
    max_matches: int = 10
    min_document_length: int = 200
    remove_char_each_side: int = 200
    max_splits: int = 10
    min_ngram_size: int = 8
    report_path: str | None = None
    storage_options: Mapping[str, Any] | None = None
    name: str = "task_decontamination"

    def __post_init__(self) -> None:
        self._source()
        for setting in ("max_matches", "min_document_length", "remove_char_each_side", "max_splits"):
            if getattr(self, setting) < 0:
                raise PipelineError(f"{self.name}: {setting}={getattr(self, setting)} must not be negative")

    def evidence_columns(self) -> dict[str, str]:
        return dict(zip(_COLUMNS, _EVIDENCE, strict=True))

    def _source(self) -> IndexSource:
        return IndexSource(self.tasks, self.max_ngram_size, self.min_ngram_size, self.storage_options)

    def settings(self) -> dict[str, Any]:
        return _without(super().settings(), "storage_options", "report_path")

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        count = CountMatches(self._source(), url, dict(options), self.text_field, name=f"{self.name}_count")
        return [
            count,
            SpillWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk"),
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        counts: dict[int, int] = {}
        for name in sorted(folder.files(_COUNTS)):
            for gram, times in _read(folder, name).reshape(-1, 2).tolist():
                counts[gram] = counts.get(gram, 0) + times
        ignored = sorted(gram for gram, times in counts.items() if times > self.max_matches)
        _write(folder, _IGNORED, np.array(ignored, np.int64))
        if self.report_path is not None:
            self._report(self.report_path, counts)
        reader = SpilledRows.written(folder, splits).reader(f"{self.name}_from_disk", numbered=False)
        cut = SpanRemoval(self.min_document_length, self.remove_char_each_side, self.max_splits)
        return [reader, RemoveMatches(self._source(), url, dict(options), self.text_field, cut, name=self.name)]

    def _report(self, path: str, counts: Mapping[int, int]) -> None:
        index = self._source().load()
        lines = [
            json.dumps(
                {
                    "ngram": index.text_of(gram),
                    "count": times,
                    "ignored": times > self.max_matches,
                    "examples": [{"benchmark": benchmark, "id": id_} for benchmark, id_ in index.found_in(gram)],
                },
                ensure_ascii=False,
            )
            for gram, times in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ]
        folder, _, name = path.rpartition("/")
        Directory(folder or ".", self.storage_options or {}).write(
            name, "".join(f"{line}\n" for line in lines).encode()
        )


@dataclass
class CountMatches(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Counts each n-gram of the benchmarks in a batch; passes all rows on."""

    source: IndexSource
    url: str
    options: dict[str, Any] = field(default_factory=dict)
    text_field: str = "text"
    name: str = "count_matches"
    _index: NgramIndex | None = field(default=None, init=False, repr=False, compare=False)

    def settings(self) -> dict[str, Any]:
        return {"source": replace(self.source, storage_options=None), "text_field": self.text_field}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._index = self.source.load()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        index = self._index or self.source.load()
        matches = index.find(text_column(task.to_arrow(), self.text_field))
        assert task.key is not None
        grams, times = np.unique(matches.grams, return_counts=True)
        _write(Directory(self.url, self.options), f"{_COUNTS}/{task.key.digest}.npy", np.stack([grams, times], axis=1))
        return task.with_data(task.data)


@dataclass
class RemoveMatches(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Cut n-grams and their surroundings out of documents."""

    source: IndexSource
    url: str
    options: dict[str, Any]
    text_field: str
    cut: SpanRemoval
    name: str = "remove_matches"
    _index: NgramIndex | None = field(default=None, init=False, repr=False, compare=False)
    _ignored: npt.NDArray[np.int64] | None = field(default=None, init=False, repr=False, compare=False)

    def settings(self) -> dict[str, Any]:
        source = replace(self.source, storage_options=None)
        return {"source": source, "text_field": self.text_field, "cut": self.cut}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._index = self.source.load()
        self._ignored = _read(Directory(self.url, self.options), _IGNORED)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self._index is None or self._ignored is None:
            self.setup()
        assert self._index is not None
        assert self._ignored is not None
        table = task.to_arrow()
        column = text_column(table, self.text_field)
        matches = self._index.find(column)
        matters = ~np.isin(matches.grams, self._ignored)
        firsts = np.full(len(column), -1)
        reasons, parents, spans = [""] * len(column), [], []
        for row in range(len(column)):
            first, last = matches.bounds[row], matches.bounds[row + 1]
            hits = np.flatnonzero(matters[first:last]) + first
            begin, end = int(column.offsets[row]), int(column.offsets[row + 1])
            pieces = [(begin, end)]
            if len(hits):
                stretches = np.stack([matches.starts[hits], matches.stops[hits]], axis=1) - begin
                kept = self.cut.pieces(column.data[begin:end].tobytes(), stretches)
                pieces = [(begin + start, begin + stop) for start, stop in kept]
            if not pieces or len(pieces) > self.cut.most:
                firsts[row] = matches.grams[hits[0]] if len(hits) else -1
                reasons[row] = f"split into more than {self.cut.most}" if pieces else "nothing left"
                continue
            parents.extend([row] * len(pieces))
            spans.extend(pieces)
        if not matters.any():
            return task.with_data(task.data)
        named = _with_evidence(table, self._index, firsts, _COLUMNS)
        remaining = _without_rows(task, table, named, reasons, self.name)
        source_rows = rows_at(table, np.array(parents, np.int64))
        texts = stretches_of(text_column(source_rows, self.text_field), column, parents, spans)
        return replace(remaining, data=with_shorter_texts(source_rows, self.text_field, texts))


def _with_evidence(
    table: Any, index: NgramIndex, grams: Sequence[int] | npt.NDArray[np.int64], columns: Sequence[str]
) -> Any:
    """Add columns with the benchmark, the example and the words of an n-gram of each row; null where it is -1."""
    sources = [index.found_in(gram)[0] if gram >= 0 else (None, None) for gram in grams]
    words = [index.text_of(gram) if gram >= 0 else None for gram in grams]
    for column, values in zip(columns, (*zip(*sources, strict=True), words) if sources else ([], [], []), strict=True):
        table = with_text(table, column, list(values))
    return table


def _firsts(matches: Matches) -> npt.NDArray[np.int64]:
    """Return the first n-gram found in each text; -1 if there is none."""
    firsts = np.full(len(matches.bounds) - 1, -1)
    has_match = np.diff(matches.bounds) > 0
    firsts[has_match] = matches.grams[matches.bounds[:-1][has_match]]
    return firsts


def _different(matches: Matches) -> npt.NDArray[np.int64]:
    """Return the number of distinct n-grams found in each text."""
    texts = np.repeat(np.arange(len(matches.bounds) - 1), np.diff(matches.bounds))
    pairs = np.unique(np.stack([texts, matches.grams]), axis=1)
    return np.bincount(pairs[0], minlength=len(matches.bounds) - 1)


def _without_rows(task: DocumentBatch, table: Any, flagged: Any, reasons: Sequence[str], stage: str) -> DocumentBatch:
    """Keep the rows without a reason; reject the others as they are in `flagged`, by reason."""
    rejections = []
    for reason in sorted(set(reasons) - {""}):
        dropped = rows_at(flagged, np.flatnonzero([row_reason == reason for row_reason in reasons]))
        rejections.append(Rejection(stage, reason, dropped.num_rows, dropped.nbytes, dropped))
    remaining = table if not rejections else rows_at(table, np.flatnonzero([not row_reason for row_reason in reasons]))
    return replace(task, data=remaining, rejections=tuple(rejections))


def _without(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def _write(folder: Directory, name: str, array: npt.NDArray[np.int64]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    folder.write(name, buffer.getvalue())


def _read(folder: Directory, name: str) -> npt.NDArray[np.int64]:
    data = folder.read(name)
    assert data is not None, f"{name} is not there"
    array: npt.NDArray[np.int64] = np.load(io.BytesIO(data), allow_pickle=False)
    return array

"""Find parts of documents that occur more than once in a dataset, and cut them out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FilePart, Rejection
from dcurate.core.stage import BarrierStage, NodeInfo, ProcessingStage, Spec, Stage, WorkerMetadata
from dcurate.dedup.spans_report import SpanReport, write_tops
from dcurate.dedup.text_writer import TextWriter
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import numbers, rows_at, table_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, column_of, text_column, with_shorter_texts
from dcurate.fs.stores import Directory
from dcurate.io.parquet_writer import ParquetWriter
from dcurate.kernels.characters import character_signals
from dcurate.kernels.cuda import CudaColumn, on_gpu, usable
from dcurate.kernels.splice import spliced
from dcurate.kernels.stretches import Copies, Stretches, blank, stretches_of, surplus
from dcurate.kernels.units import Spans
from dcurate.kernels.words import word_signals
from dcurate.shuffle.keys import scale_keys
from dcurate.shuffle.ranges import FILE, ShuffleIndex, ShufflePartitions
from dcurate.shuffle.spill import DOC_ID, SpilledRows, read_row_offsets
from dcurate.shuffle.writer import ShuffleWriter

#: Which copies stay: the first ones in the order of the source, or none.
Kept = Literal["first", "none"]

NOTHING, SHORT = "nothing left", "too short"

#: Folder of the hashes of spans, below that of the round.
SPANS = "spans/"
_SPAN, _CHECK, _COUNT, _ROW, _ALLOWED, _KEY = "span", "check", "count", "row", "allowed", "_dcurate_key"
#: Target bytes of hashes in one partition.
_BLOCK = 2**26
_EMPTY = np.zeros(2, np.int64), np.zeros(0, np.uint8)


class SpanFinder(ABC):
    """Defines the spans of a text that are searched for in others."""

    @property
    @abstractmethod
    def fit(self) -> int:
        """How cuts are aligned with the text; see `dcurate.kernels.stretches.stretches_of`."""

    @abstractmethod
    def spans(self, column: TextColumn | CudaColumn) -> Spans:
        """The spans of all texts of a column; they follow from each text alone, wherever they are found.

        Places of spans of texts on a GPU are those in the bytes there.
        """


@dataclass(kw_only=True)
class SpanShuffle(BarrierStage[DocumentBatch]):
    """Cuts spans out of documents that occur elsewhere in the dataset too; see its subclasses."""

    rounds: ClassVar[int] = 2

    text_field: str = "text"
    max_copies: int = 1
    keep: Kept = "first"
    min_document_words: int = 0
    min_document_chars: int = 0
    report_path: str | None = None
    name: str = "span_shuffle"

    def __post_init__(self) -> None:
        at_least(self.name, "max_copies", self.max_copies, 1)
        at_least(self.name, "min_document_words", self.min_document_words, 0)
        at_least(self.name, "min_document_chars", self.min_document_chars, 0)
        one_of(self.name, "keep", self.keep, get_args(Kept))

    @abstractmethod
    def finder(self) -> SpanFinder:
        """The finder of the spans."""

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "report_path"}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = SpanWriter(url, mode="overwrite", storage_options=dict(options), **self._found("to_disk"))
        return [writer.with_(resources=self.resources) if self.resources.requires_gpu else writer]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        spilled = SpilledRows.written(folder, splits)
        hashes = ShuffleIndex.of(folder, spilled.sibling_files(SPANS))
        reported = self.report_path is not None
        decide = FindCopies(url, dict(options), self.max_copies, self.keep, reported, name=f"{self.name}_copies")
        return [
            hashes.reader(hashes.partitions_for(_BLOCK), _SPAN, f"{self.name}_hashes"),
            decide,
            MarkSpans(spilled, self, name=f"{self.name}_marks"),
        ]

    def _found(self, step: str) -> dict[str, Any]:
        return {"finder": self.finder(), "text_field": self.text_field, "name": f"{self.name}_{step}"}


def at_least(stage: str, setting: str, value: object, least: int) -> None:
    """Refuse a setting that is not a whole number of at least `least`.

    Raises:
        PipelineError: it is not valid.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PipelineError(f"{stage}: {setting}={value!r} must be a whole number of at least {least}")


def one_of(stage: str, setting: str, value: object, among: Sequence[str]) -> None:
    """Refuse a setting that is not `among` a few words.

    Raises:
        PipelineError: it is not valid.
    """
    if value not in among:
        raise PipelineError(f"{stage}: no {setting} {value!r}{nearest(str(value), among)}")


@dataclass
class SpanWriter(TextWriter):
    """Writes rows, and beside them the different spans in them: hash, how often they are there, and the first row."""

    finder: SpanFinder = field(kw_only=True)
    name: str = "span_writer"

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self.finder.spans(column_of([b"One line."]))
        self.setup(worker_metadata)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if (
            self.resources.requires_gpu and usable()
        ):  # compiles kernels before the time of a batch is measured and limited
            self.finder.spans(on_gpu(*column_of([b"One line."])))

    @property
    def cheap_setup(self) -> bool:
        return True

    def _write(self, table: Any, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield self.rows(table, key)
        spans = self.finder.spans(self.texts(table))
        yield self.ranges(counted(spans), key, _SPAN, SPANS)


def counted(spans: Spans) -> Any:
    """A table of the different spans: hash, how often they are there, and the first text they are in."""
    texts = np.repeat(np.arange(len(spans.bounds) - 1, dtype=np.int32), np.diff(spans.bounds))
    order = np.argsort(spans.keys)
    keys, checks = spans.keys[order], spans.checks[order]
    differs = _changes(keys, checks)
    if ((np.diff(keys) == 0) & differs[1:]).any():
        order = np.lexsort((spans.checks, spans.keys))
        keys, checks = spans.keys[order], spans.checks[order]
        differs = _changes(keys, checks)
    starts = np.flatnonzero(differs)
    firsts = np.minimum.reduceat(texts[order], starts) if len(starts) else texts
    counts = np.diff(np.append(starts, len(keys))).astype(np.int32)
    return table_of({_SPAN: keys[starts], _CHECK: checks[starts], _COUNT: counts, _ROW: firsts})


def _changes(keys: npt.NDArray[np.uint64], checks: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Whether each span is another than the one before it."""
    changes = np.ones(len(keys), np.bool_)
    changes[1:] = (keys[1:] != keys[:-1]) | (checks[1:] != checks[:-1])
    return changes


@dataclass
class FindCopies(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Find the spans with too many copies among the hashes of one range.

    Args:
        url: the folder of the round in which hashes were written.
        max_copies, keep: how many copies stay of a span.
        tops: whether to write down the spans of which most go.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    max_copies: int = 1
    keep: Kept = "first"
    tops: bool = False
    name: str = "find_copies"

    def settings(self) -> dict[str, Any]:
        return {"max_copies": self.max_copies, "keep": self.keep, "tops": self.tops}

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        table = task.to_arrow()
        spans, checks, counts = numbers(table, _SPAN), numbers(table, _CHECK), numbers(table, _COUNT).astype(np.int64)
        order = np.arange(len(spans))
        differs = _changes(spans, checks)
        if ((np.diff(spans) == 0) & differs[1:]).any():
            order = np.lexsort((checks, spans))
            differs = _changes(spans[order], checks[order])
        starts = np.flatnonzero(differs)
        sizes = np.diff(np.append(starts, len(order)))
        totals = np.add.reduceat(counts[order], starts)
        many = totals > self.max_copies
        if not many.any():
            return None
        order, totals, sizes = order[np.repeat(many, sizes)], totals[many], sizes[many]
        row_offsets = read_row_offsets(self.url, self.options)
        documents = row_offsets[numbers(table, FILE)[order]] + numbers(table, _ROW)[order]
        counts, firsts = counts[order], np.cumsum(sizes) - sizes
        allowed = np.zeros(len(order), np.int64)
        if self.keep == "first":
            before = np.cumsum(counts) - counts
            allowed = np.clip(self.max_copies - (before - np.repeat(before[firsts], sizes)), 0, counts)
        if self.tops:
            dropped = totals - (self.max_copies if self.keep == "first" else 0)
            tops = np.stack([dropped, totals, documents[firsts]], axis=1)
            write_tops(Directory(self.url, self.options), task.key, tops, spans[order][firsts])
        goes = allowed < counts
        marks = {
            _KEY: scale_keys(documents[goes], int(row_offsets[-1])),
            DOC_ID: documents[goes],
            _SPAN: spans[order][goes],
            _CHECK: checks[order][goes],
            _ALLOWED: allowed[goes],
        }
        return task.with_data(table_of(marks))


@dataclass
class MarkSpans(BarrierStage[DocumentBatch]):
    """The last round: shuffles the copies that `FindCopies` found to the splits of their documents."""

    spilled: SpilledRows
    wanted: SpanShuffle
    name: str

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        name = f"{self.name}_to_disk"
        report = self.wanted.report_path
        return [
            SpanMarkWriter(url, mode="overwrite", storage_options=dict(options), by=_KEY, report_path=report, name=name)
        ]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        wanted, folder = self.wanted, self.spilled.folder
        marks = ShuffleIndex.written(Directory(url, options), splits).partitions(self.spilled.edges(), _KEY, self.name)
        report = None
        if wanted.report_path is not None:
            report = SpanReport(Directory(wanted.report_path, options).address, dict(options), folder.url)
            report.choose()
        cut = CutSpans(
            marks,
            self.spilled.documents,
            wanted.finder(),
            wanted.text_field,
            (wanted.min_document_words, wanted.min_document_chars),
            report,
            name=wanted.name,
        )
        return [self.spilled.reader(f"{wanted.name}_from_disk"), cut]


@dataclass
class SpanMarkWriter(ShuffleWriter):
    """Write marks for the shuffle, and prepare the folder of the report if one is wanted."""

    report_path: str | None = None
    name: str = "mark_writer"

    def prepare(self, resume: bool) -> None:
        super().prepare(resume)
        if self.report_path is not None:
            ParquetWriter(self.report_path, mode="overwrite", storage_options=self.storage_options).prepare(resume)

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "report_path"}


@dataclass
class CutSpans(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Cut surplus copies out of documents, and drop documents that become too short.

    Args:
        marks: copies that go, by document.
        documents: how many there are in the whole dataset.
        finder: finds the spans once more.
        least: words and characters that a document needs from which something was cut.
        report: report of the most frequent spans.
    """

    marks: ShufflePartitions
    documents: int
    finder: SpanFinder
    text_field: str = "text"
    least: tuple[int, int] = (0, 0)
    report: SpanReport | None = None
    name: str = "cut_spans"

    def settings(self) -> dict[str, Any]:
        return {"finder": self.finder, "text_field": self.text_field, "least": self.least}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self.finder.spans(column_of([b"One line."]))

    def process(self, task: DocumentBatch) -> DocumentBatch:
        rows = task.to_arrow()
        table = rows.drop_columns([DOC_ID])
        if not table.num_rows:
            return task.with_data(table)
        doc_ids = numbers(rows, DOC_ID)
        marks = self.marks.read(self.marks.partition_with(int(scale_keys(doc_ids[:1], self.documents)[0])))
        if not marks.num_rows and self.report is None:
            return task.with_data(table)
        column = text_column(table, self.text_field)
        spans = self.finder.spans(column)
        if self.report is not None:
            assert task.key is not None
            self.report.write(task.key, column, doc_ids, spans)
        if not marks.num_rows:
            return task.with_data(table)
        keys, first = np.unique(numbers(marks, _SPAN), return_index=True)
        checks, texts, allowed = (numbers(marks, name)[first] for name in (_CHECK, DOC_ID, _ALLOWED))
        surplus_spans = surplus(spans, Copies(keys, checks, texts - doc_ids[0], allowed))
        cut = stretches_of(*column, spans, surplus_spans, self.finder.fit)
        remaining = self._left(task, table, column, cut)
        return replace(
            remaining, found={"copies": int(surplus_spans.sum()), "bytes cut": int((cut.stops - cut.starts).sum())}
        )

    def _left(self, task: DocumentBatch, table: Any, column: TextColumn, cut: Stretches) -> DocumentBatch:
        """Return the rows without the cut spans."""
        chosen = np.zeros(len(cut.starts), np.int64)
        texts = TextColumn(*spliced(column, cut.bounds, (cut.starts, cut.stops), _EMPTY, chosen))
        after = with_shorter_texts(table, self.text_field, texts)
        changed = np.flatnonzero(np.diff(cut.bounds))
        nothing = blank(*texts, changed)
        short = ~nothing & self._short(texts, changed)
        rejections = []
        for reason, goes in ((NOTHING, changed[nothing]), (SHORT, changed[short])):
            if len(goes):
                rows = rows_at(table, goes)
                rejections.append(Rejection(self.name, reason, rows.num_rows, rows.nbytes, rows))
        if rejections:
            stays = np.ones(table.num_rows, np.bool_)
            stays[changed[nothing | short]] = False
            after = rows_at(after, np.flatnonzero(stays))
        return replace(task.with_data(after), rejections=tuple(rejections))

    def _short(self, texts: TextColumn, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which texts are too short to keep."""
        short = np.zeros(len(rows), np.bool_)
        words, characters = self.least
        if words:
            short |= word_signals(*texts, rows).total < words
        if characters:
            short |= character_signals(*texts, rows).total < characters
        return short

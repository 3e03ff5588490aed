"""Text stages on the texts of interleaved documents, with a verdict for each row or for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import Scored
from dcurate.core.extras import required_by
from dcurate.core.stage import CompositeStage, NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.images.interleaved.stage import InterleavedStage
from dcurate.isolate.errors import MediaFault
from dcurate.media.interleaved.materialise import Ints
from dcurate.media.interleaved.schema import REQUIRED, TEXT
from dcurate.media.interleaved.verdicts import Verdicts

#: The column of texts that inner stages see.
_TEXT = "text"
_NUMBER = "__number"
_BETWEEN = "\n\n"


@dataclass
class OnTexts(InterleavedStage):
    """Run text stages on the texts of interleaved documents: filters, scores, annotations, modifiers.

    The inner stages see a column ``text``. Rows that they drop are dropped, with their reason. Columns that they add
    are added, null for rows that they did not see. What is left of a sample is numbered again from 0, and its metadata
    goes when nothing else is left.

    Args:
        stages: a stage that works on one batch at a time, or a list of these.
        by: ``"row"``: each text is judged by itself, and modified; ``"sample"``: all texts of a sample are judged as
            one, with an empty line between them, and the sample is dropped with its images. New columns are then on all
            of its rows, and texts stay as they are. A sample without text is not judged.

    Raises:
        PipelineError: a stage that is none of these.

    Examples:
        >>> from dcurate import ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> texts = ["A long enough text.", "short", None]
        >>> table = pa.table({"sample_id": ["a"] * 3, "position": [0, 1, 2], "modality": ["text", "text", "image"],
        ...                   "text_content": texts})
        >>> few = ScoreFilter(WordCountFilter(min_words=3))
        >>> OnTexts(few).process(DocumentBatch(data=table)).to_arrow()["text_content"].to_pylist()
        ['A long enough text.', None]
        >>> OnTexts(few, by="sample").process(DocumentBatch(data=table)).num_items
        3
    """

    stages: ProcessingStage[Any, Any] | Sequence[ProcessingStage[Any, Any]]
    by: Literal["row", "sample"] = "row"
    name: str = "on_texts"

    def __post_init__(self) -> None:
        if self.by not in ("row", "sample"):
            raise PipelineError(f"{self.name}: by={self.by!r} must be 'row' or 'sample'")
        for stage in self._given:
            if not isinstance(stage, ProcessingStage):
                raise PipelineError(
                    f"{self.name}: {stage!r} is not a stage that works on single batches; wrap filters in ScoreFilter"
                )
        if not self._given:
            raise PipelineError(f"{self.name}: stages is empty; give at least one")

    @property
    def _given(self) -> list[Any]:
        return list(self.stages) if isinstance(self.stages, Sequence) else [self.stages]

    @property
    def _inner(self) -> list[ProcessingStage[Any, Any]]:
        parts: list[Any] = []
        for stage in self._given:
            parts += stage.decompose_and_apply_with() if isinstance(stage, CompositeStage) else [stage]
        return parts

    @property
    def cheap_setup(self) -> bool:
        return all(stage.cheap_setup for stage in self._inner)

    def requires(self) -> dict[str, str]:
        return required_by(self._inner)

    def inputs(self) -> Spec:
        return ["data"], [*REQUIRED, "text_content"]

    def outputs(self) -> Spec:
        return ["data"], [name for stage in self._inner for name in stage.outputs()[1] if name != _TEXT]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Set up the inner stages on the host."""
        for stage in self._inner:
            stage.setup_on_node(node_info, worker_metadata)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Set up the inner stages."""
        self.stages = self._inner
        for stage in self.stages:
            stage.setup(worker_metadata)

    def teardown(self) -> None:
        """Tear down the inner stages."""
        for stage in self._inner:
            stage.teardown()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        verdicts = Verdicts(DocumentBatch.given(task), self.name)
        rows = verdicts.rows(TEXT)
        units, numbers = self._units(verdicts, rows)
        seen = DocumentBatch(data=units, key=task.key, dataset_name=task.dataset_name)
        scored: list[Scored] = []
        counts: dict[str, int] = {}
        for stage in self._inner:
            made: Any = stage.process(seen) if seen.num_items else seen
            if made is not None and not isinstance(made, DocumentBatch):
                raise PipelineError(f"{self.name}: stage {stage.name!r} made no batch of texts; run it by itself")
            for gone in () if made is None else made.rejections:
                self._drop(verdicts, gone, numbers)
            remaining = units.slice(0, 0) if made is None else self._table(stage, made)
            self._drop_rest(verdicts, seen, remaining, stage.name, numbers)
            if made is not None:
                scored += made.scored
                counts |= {name: counts.get(name, 0) + count for name, count in made.found.items()}
            seen = seen.with_data(remaining)
        result = verdicts.result(self._added(verdicts, seen.to_arrow(), units, numbers))
        return replace(result, scored=tuple(scored), found=counts)

    def _units(self, verdicts: Verdicts, rows: Ints) -> tuple[pa.Table, list[Ints]]:
        """What the stages are shown, and the rows that each unit is about: a text, or the texts of a sample."""
        table = verdicts.table
        texts = table["text_content"].take(pa.array(rows)) if len(rows) else pa.array([], pa.string())
        if self.by == "row":
            column_names = [
                name for name in table.column_names if name not in (_TEXT, "text_content", "binary_content")
            ]
            shown = table.select(column_names).take(pa.array(rows))
            shown = shown.append_column(_TEXT, texts)
            return shown.append_column(_NUMBER, pa.array(np.arange(len(rows)))), [np.array([row]) for row in rows]
        joined: dict[int, list[str]] = {}
        for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True):
            joined.setdefault(int(verdicts.sample[row]), []).append(text or "")
        names = table["sample_id"]
        numbers = [np.flatnonzero(verdicts.sample == sample) for sample in joined]
        columns = {
            "sample_id": names.take(pa.array([int(sample_rows[0]) for sample_rows in numbers], pa.int64())),
            _TEXT: pa.array([_BETWEEN.join(sample_texts) for sample_texts in joined.values()], pa.large_string()),
            _NUMBER: pa.array(np.arange(len(numbers))),
        }
        return pa.table(columns), numbers

    def _table(self, stage: Any, made: DocumentBatch) -> pa.Table:
        table = made.to_arrow()
        if _NUMBER not in table.column_names:
            raise PipelineError(f"{self.name}: stage {stage.name!r} dropped columns of its rows; run it by itself")
        return table

    def _drop(self, verdicts: Verdicts, gone: Any, numbers: list[Ints]) -> None:
        data = None if gone.data is None else gone.data if isinstance(gone.data, pa.Table) else None
        if data is None or _NUMBER not in data.column_names:
            return
        for number in data[_NUMBER].to_pylist():
            if gone.fault:
                for row in numbers[number].tolist():
                    verdicts.fail(row, MediaFault(gone.reason, "its text cannot be processed"))
            else:
                verdicts.drop(numbers[number], gone.reason)

    @staticmethod
    def _drop_rest(
        verdicts: Verdicts, before: DocumentBatch, remaining: pa.Table, stage: str, numbers: list[Ints]
    ) -> None:
        """Drop what a stage left out without a reason."""
        missing = np.setdiff1d(before.to_arrow()[_NUMBER].to_numpy(), remaining[_NUMBER].to_numpy())
        for number in missing.tolist():
            verdicts.drop(numbers[number], stage)

    def _added(
        self, verdicts: Verdicts, remaining: pa.Table, units: pa.Table, numbers: list[Ints]
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The columns that stages have added, and the texts that they have changed, for all rows."""
        places = np.full(verdicts.table.num_rows, -1)
        for at, number in enumerate(remaining[_NUMBER].to_pylist()):
            places[numbers[number]] = at
        wanted = pa.array(places, mask=places < 0)
        added = {
            name: remaining[name].take(wanted) for name in remaining.column_names if name not in units.column_names
        }
        if self.by == "row" and not remaining[_TEXT].equals(units[_TEXT].take(remaining[_NUMBER])):
            kind = verdicts.table.schema.field("text_content").type
            texts = remaining[_TEXT].take(wanted).cast(kind)
            added["text_content"] = pc.if_else(pa.array(places >= 0), texts, verdicts.table["text_content"])
        return added

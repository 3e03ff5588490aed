"""Split documents into segments, and join segments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import numbers, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.segments import joined, segment_order, segmented


@dataclass
class DocumentSplitter(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Make a row of each part of a text between separators.

    Args:
        separator: the string between segments; literal, not a pattern.
        text_field: the column that is cut.
        segment_id_field: the column for the number of the segment in its document, from 0; replaced if it is there.
        name: name of the stage.

    Other columns are repeated, and segments of a document stay in its batch, in order. An empty text is one empty
    segment, a null text one null segment, so every document can be put together again by `DocumentJoiner`: give
    documents ids of their own first, as `AddId` does.

    The bytes of other columns are repeated in memory and in the output: a document of 16,000 segments with 64 kB in
    another column becomes 1 GB. Leave out large columns before, such as with ``fields`` of the reader.

    Raises:
        PipelineError: the separator is empty.

    Examples:
        >>> import pandas as pd
        >>> batch = DocumentBatch(data=pd.DataFrame({"id": ["x"], "text": ["Hello\n\nWorld"]}))
        >>> DocumentSplitter("\n\n").process(batch).to_pandas().to_dict("list")
        {'id': ['x', 'x'], 'text': ['Hello', 'World'], 'segment_id': [0, 1]}
    """

    separator: str
    text_field: str = "text"
    segment_id_field: str = "segment_id"
    name: str = "document_splitter"

    def __post_init__(self) -> None:
        if not isinstance(self.separator, str) or not self.separator:
            raise PipelineError(f"{self.name}: separator={self.separator!r} must be a non-empty text, such as '\\n\\n'")
        if self.segment_id_field == self.text_field:
            raise PipelineError(f"{self.name}: segment_id_field and text_field are both {self.text_field!r}")

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.text_field, self.segment_id_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(
            segmented(DocumentBatch.given(task).to_arrow(), self.text_field, self.separator, self.segment_id_field)
        )


@dataclass
class DocumentJoiner(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Join the segments of each document, in the order of their numbers.

    Args:
        separator: the string between segments.
        text_field: the column with the segments.
        segment_id_field: the column with the number of each segment.
        document_id_field: the column that says to which document a segment belongs.
        drop_segment_id_field: leave the numbers out afterwards; else they count the rows made of a document, from 0.
        max_length: join neighbouring segments only up to this length, so that a document may become several rows.
            A longer single segment stays as it is.
        length_field: the column with the length of each segment, in any unit; for joined text it becomes
            the sum, and the characters of the separators. Give both of these or neither.
        name: name of the stage.

    The other columns are those of a document's first segment. Documents are in the order of their first rows;
    numbers that are missing, because a filter dropped segments, leave no gap. A row without an id is a document of its
    own. Segments are joined within a batch, where `DocumentSplitter` leaves them. If they come from files in which
    a document may lie in two splits, put ``Shuffle(id_field="id")`` before: it brings rows of equal ids into one batch.

    Raises:
        PipelineError: one of ``max_length`` and ``length_field`` without the other.
        DataError: two segments of a document have the same number, or a number or length is missing.

    Examples:
        >>> import pandas as pd
        >>> batch = DocumentBatch(data=pd.DataFrame({"id": [1, 1], "segment_id": [1, 0], "text": ["World", "Hello"]}))
        >>> DocumentJoiner(" ").process(batch).to_pandas().to_dict("list")
        {'id': [1], 'text': ['Hello World']}
    """

    separator: str = "\n\n"
    text_field: str = "text"
    segment_id_field: str = "segment_id"
    document_id_field: str = "id"
    drop_segment_id_field: bool = True
    max_length: int | None = None
    length_field: str | None = None
    name: str = "document_joiner"

    def __post_init__(self) -> None:
        if (self.max_length is None) != (self.length_field is None):
            present, absent = (
                ("max_length", "length_field") if self.length_field is None else ("length_field", "max_length")
            )
            raise PipelineError(f"{self.name}: {present} is given without {absent}; give both, or neither")

    def inputs(self) -> Spec:
        length = [self.length_field] if self.length_field is not None else []
        return ["data"], [self.text_field, self.segment_id_field, self.document_id_field, *length]

    def outputs(self) -> Spec:
        numbers_ = [] if self.drop_segment_id_field else [self.segment_id_field]
        length = [self.length_field] if self.length_field is not None else []
        return ["data"], [self.text_field, self.document_id_field, *numbers_, *length]

    def dropped_columns(self) -> list[str]:
        return [self.segment_id_field] if self.drop_segment_id_field else []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table, starts = segment_order(
            DocumentBatch.given(task).to_arrow(), self.document_id_field, self.segment_id_field
        )
        rows, totals = starts, None
        if self.max_length is not None and self.length_field is not None:
            lengths = self._lengths(numbers(table, self.length_field))
            rows, totals = packed(starts, lengths, len(self.separator), self.max_length)
        documents = joined(table, rows, self.text_field, self.separator)
        if totals is not None:
            documents = with_column(documents, str(self.length_field), totals)
        if self.drop_segment_id_field:
            return task.with_data(documents.drop_columns([self.segment_id_field]))
        document = np.searchsorted(rows, starts)
        counts = np.diff(np.append(document, len(rows)))
        return task.with_data(
            with_column(documents, self.segment_id_field, np.arange(len(rows)) - np.repeat(document, counts))
        )

    def _lengths(self, lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if np.isnan(lengths).any():
            raise DataError(
                f"column {self.length_field!r} must hold a length in every row; add one with Score(len, ...)"
            )
        return lengths


def packed(
    starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.float64], between: int, most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Start rows of the joins, when segments are joined up to a length but never beyond a document; and their lengths.

    Args:
        starts: where documents begin.
        lengths: length of each segment.
        between: length that each separator adds.
        most: the length that no joined row exceeds.

    Examples:
        >>> packed(np.array([0, 3]), np.array([4, 4, 4, 4]), 1, 9)
        (array([0, 2, 3]), array([9, 4, 4]))
    """
    fresh = set(starts.tolist())
    rows: list[int] = []
    totals: list[float] = []
    for place, length in enumerate(lengths.tolist()):
        if place in fresh or totals[-1] + between + length > most:
            rows.append(place)
            totals.append(length)
        else:
            totals[-1] += between + length
    return np.array(rows, np.int64), np.array(totals, lengths.dtype)


__all__ = ["DocumentJoiner", "DocumentSplitter", "packed"]

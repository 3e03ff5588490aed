"""Say where personal data is in texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.frames.columns import with_structures
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, text_column
from dcurate.kernels.layout import Ints
from dcurate.text.pii.finder import PiiFinder
from dcurate.text.pii.modifier import PiiModifier
from dcurate.text.pii.recognizers import Recognizer


@dataclass
class FindPii(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add a column of the places of personal data in each text, without the data itself.

    A place is a structure of ``start`` and ``end``, counted in characters of the text from 0, and ``kind``. Places are
    sorted and do not overlap. They are what a `PiiModifier` with the same settings replaces; put this stage before it.
    For transcripts, `MuteWords` of `dcurate.audio` makes seconds of them.

    Args:
        text_field: the column to look at.
        supported_entities: what to look for, as of `PiiModifier`.
        public_ips_only: leave out IP addresses that the world cannot reach.
        recognizer: finds names, say.
        output_field: the new column; null where the text is.
        name: name of the stage.

    Raises:
        PipelineError: an entity that no rule finds, and no recogniser is given.

    Examples:
        >>> import pandas as pd
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["Mail jo@example.org"]}))
        >>> FindPii().process(batch).to_arrow()["pii_spans"].to_pylist()
        [[{'start': 5, 'end': 19, 'kind': 'EMAIL_ADDRESS'}]]
    """

    text_field: str = "text"
    supported_entities: Sequence[str] | None = None
    public_ips_only: bool = True
    recognizer: Recognizer | None = None
    output_field: str = "pii_spans"
    name: str = "find_pii"

    def __post_init__(self) -> None:
        self._finder()

    def _finder(self) -> PiiFinder:
        return PiiFinder(self.supported_entities, self.public_ips_only, self.recognizer)

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.output_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        PiiModifier().prepare()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._finder().load_model()

    @property
    def cheap_setup(self) -> bool:
        return self.recognizer is None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        column = text_column(table, self.text_field)
        findings = self._finder().find(column)
        spans = findings.spans
        fields = {
            "start": in_characters(column, spans.bounds, spans.starts),
            "end": in_characters(column, spans.bounds, spans.stops),
            "kind": np.array(findings.names, object)[spans.kinds],
        }
        table = with_structures(table, self.output_field, spans.bounds, fields, source=self.text_field)
        return replace(task.with_data(table), found=findings.totals())


def in_characters(column: TextColumn, bounds: Ints, places: Ints) -> Ints:
    """Return places in a column of texts as numbers of characters from the start of their text.

    Args:
        column: texts.
        bounds: first of the places of each text, and the end of the last, shape (texts + 1,).
        places: offsets of bytes in ``column.data``, sorted.

    Examples:
        >>> from dcurate.frames.text import column_of
        >>> in_characters(column_of(["né".encode(), "é!".encode()]), np.array([0, 1, 2]), np.array([3, 5])).tolist()
        [2, 1]
    """
    offsets, data = column
    made = np.empty(len(places), np.int64)
    for row in np.flatnonzero(np.diff(bounds)).tolist():
        first, last, begin = bounds[row], bounds[row + 1], offsets[row]
        inside = np.flatnonzero((data[begin : offsets[row + 1]] & 0xC0) == 0x80)  # bytes that begin no character
        of_row = places[first:last] - begin
        made[first:last] = of_row - np.searchsorted(inside, of_row)
    return made

"""C4's rules: lines that are removed, and checks on the remaining text (Raffel et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import from_text, text_column
from dcurate.kernels import cuda_cleaning
from dcurate.kernels.cleaning import Cleaned, LineRules, clean_lines
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.layout import Bytes, Offsets, Rows
from dcurate.kernels.sentences import Spoken, sentence_signals
from dcurate.kernels.signal import with_gpu
from dcurate.text.lexicon import TRAITS, words_of
from dcurate.text.signals import text_as_column


class C4Signals(NamedTuple):
    """For each text why it is dropped (`dcurate.kernels.cleaning.STAYS` if it is kept), and its remaining sentences."""

    outcome: npt.NDArray[np.int64]
    sentences: npt.NDArray[np.int64]


def _on_gpu(column: CudaColumn, rows: Rows, rules: LineRules) -> C4Signals:
    """Remove lines on the GPU, and count sentences on the host, where words have ids."""
    return _of_cleaned(cuda_cleaning.clean_lines(column, rows, rules))


@with_gpu(_on_gpu)
def c4_signals(offsets: Offsets, data: Bytes, rows: Rows, rules: LineRules) -> C4Signals:
    """Measure the texts numbered ``rows`` after lines are removed.

    Sentences are those of spaCy's sentencizer in each line; the original's, NLTK's Punkt, needs a model.
    """
    return _of_cleaned(clean_lines(offsets, data, rows, rules))


def _of_cleaned(cleaned: Cleaned) -> C4Signals:
    rows = np.arange(len(cleaned.outcome), dtype=np.int64)
    words = words_of(cleaned.offsets, cleaned.data, rows, "english").words
    bits = 1 << TRAITS.index("ending"), 1 << TRAITS.index("punctual")
    breaks = sentence_signals(cleaned.offsets, cleaned.data, Spoken(*words.runs, words.known.traits, *bits))
    return C4Signals(cleaned.outcome, cleaned.lines + breaks)


@dataclass
class C4Lines(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Remove the lines that C4 removes: with few words, without an end mark, about cookies or scripts.

    Lines are stripped of whitespace, and of citations such as ``[1]``. Drop first the documents that C4 drops whole
    (`dcurate.text.presets.c4`): their text is left empty. A null stays null.

    Args:
        rules: the rules that say which lines are removed.
        text_field: the column that is changed.

    Examples:
        >>> import pyarrow as pa
        >>> batch = DocumentBatch(data=pa.table({"text": ["Menu\nThis is a line of some words.\nA short one."]}))
        >>> C4Lines().process(batch).to_arrow()["text"].to_pylist()
        ['This is a line of some words.']
    """

    rules: LineRules = field(default_factory=LineRules)
    text_field: str = "text"
    name: str = "c4_lines"

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.text_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        clean_lines(*text_as_column("One line."), np.zeros(1, np.int64), self.rules)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        column = text_column(table, self.text_field)
        cleaned = clean_lines(*column, np.arange(len(column), dtype=np.int64), self.rules)
        return task.with_data(with_column(table, self.text_field, from_text(*_stripped(cleaned))))


def _stripped(cleaned: Cleaned) -> tuple[Offsets, Bytes]:
    """Strip whitespace at the ends of the texts, which few have."""
    if not cleaned.ragged.any():
        return cleaned.offsets, cleaned.data
    texts = [
        cleaned.data[begin:end].tobytes() for begin, end in zip(cleaned.offsets, cleaned.offsets[1:], strict=False)
    ]
    for place in np.flatnonzero(cleaned.ragged):
        texts[place] = texts[place].decode(errors="surrogatepass").strip().encode(errors="surrogatepass")
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(texts), np.uint8)

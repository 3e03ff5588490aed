"""Stages that split texts by tokens, and join them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dcurate.compat.nemo.models import format_name_with_suffix
from dcurate.compat.nemo.rows import records, with_rows
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.hub.loading import tokenizer_of
from dcurate.hub.weights import Weights


@dataclass(eq=False, repr=False)
class TokenSplitterStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Split texts between paragraphs, so that each part has a number of tokens at most.

    A paragraph that is longer is a part by itself. Paragraphs without text are dropped.

    Args:
        model_name: model whose tokenizer counts: an id at the Hugging Face hub, or a local folder.
        max_length_tokens: maximum number of tokens in a part.
        separator: between paragraphs.
        text_field: the column with the text.
        chunk_id_field: the column for the number of the part.
        n_tokens_field: the column for its tokens.
    """

    model_name: str
    max_length_tokens: int = 8000
    separator: str = "\n\n"
    text_field: str = "text"
    chunk_id_field: str = "chunk_id"
    n_tokens_field: str = "n_tokens"

    def __post_init__(self) -> None:
        self.name = format_name_with_suffix(self.model_name, "_token_splitter")
        self._tokenizer: Any = None

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.text_field, self.chunk_id_field, self.n_tokens_field]

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the tokenizer to this host."""
        Weights(self.model_name).fetch("tokenizer")

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the tokenizer."""
        weights = Weights(self.model_name)
        self._tokenizer = tokenizer_of(weights, weights.folder("tokenizer"))

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Split each row."""
        frame = task.to_pandas()
        kept_columns = [str(name) for name in frame if name != self.text_field]
        columns = [self.text_field, self.chunk_id_field, self.n_tokens_field, *kept_columns]
        rows = [
            (text, number, tokens, *[row[name] for name in kept_columns])
            for row in records(frame)
            for number, (text, tokens) in enumerate(self._parts(str(row.get(self.text_field, ""))))
        ]
        return with_rows(task, pd.DataFrame(rows, columns=columns))

    def _parts(self, text: str) -> Iterator[tuple[str, int]]:
        *begin, last = text.split(self.separator)
        part, total = "", 0
        for paragraph in [
            *[piece + self.separator for piece in begin if piece.strip()],
            *([last] if last.strip() else []),
        ]:
            tokens = len(self._tokenizer.encode(paragraph, add_special_tokens=False))
            if total and total + tokens > self.max_length_tokens:
                yield part, total
                part, total = "", 0
            part, total = part + paragraph, total + tokens
        if part:
            yield part, total


@dataclass(eq=False, repr=False)
class ChunkMergeStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Join the parts of a text, in their order; parts that came twice or are empty are dropped.

    It joins parts of one batch: those of a text are in one, as long as no stage between splits batches.

    Args:
        text_field: the column with the part.
        raw_text_field: another one that is joined; None if there is none.
        chunk_id_field: the column with the number of the part.
        groupby_columns: columns that name a text; ``["url"]`` if not given.
        no_content_markers: parts that count as empty.
        sum_columns: columns that are added up; of all others the first part's value stays.
        max_text_length: longer texts are dropped.
        separator: between parts.
    """

    name = "chunk_merge"

    text_field: str = "cleaned_text"
    raw_text_field: str | None = "text"
    chunk_id_field: str = "chunk_id"
    groupby_columns: Any = None
    no_content_markers: Any = None
    sum_columns: Any = None
    max_text_length: int = 900_000
    separator: str = "\n"

    def __post_init__(self) -> None:
        self.groupby_columns = self.groupby_columns or ["url"]
        self.no_content_markers = self.no_content_markers or ["NO USEFUL CONTENT", '"NO USEFUL CONTENT"']
        self.sum_columns = self.sum_columns or ["num_generated_tokens", "num_input_tokens"]

    def inputs(self) -> Spec:
        raw = [self.raw_text_field] if self.raw_text_field else []
        return ["data"], [self.text_field, self.chunk_id_field, *self.groupby_columns, *raw]

    def outputs(self) -> Spec:
        raw = [self.raw_text_field] if self.raw_text_field else []
        return ["data"], [self.text_field, *self.groupby_columns, *raw]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Join the parts of each text."""
        frame = task.to_pandas()
        place = [*self.groupby_columns, self.chunk_id_field]
        frame = frame.drop_duplicates(place)
        text = frame[self.text_field]
        frame = frame[text.notna() & ~text.isin([*self.no_content_markers, "", "\n"])].sort_values(place)
        if frame.empty:
            return with_rows(task, frame.reset_index(drop=True))
        names = [str(name) for name in frame if name not in self.groupby_columns]
        rules = {name: (name, self._rule(name)) for name in names}
        merged = frame.groupby(self.groupby_columns, sort=False).agg(**rules).reset_index()
        fits = merged[self.text_field].str.len() <= self.max_text_length
        return with_rows(task, merged[fits].reset_index(drop=True))

    def _rule(self, column: str) -> Any:
        if column in (self.text_field, self.raw_text_field):
            return self._join
        return "sum" if column in self.sum_columns else "first"

    def _join(self, parts: Any) -> str:
        return self.separator.join(map(str, parts))

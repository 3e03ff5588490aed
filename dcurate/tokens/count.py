"""Count the tokens of documents."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.frames.columns import column_of, table_of
from dcurate.frames.document import DocumentBatch
from dcurate.hub.shared import SHARED
from dcurate.tokens.tokenize import without_refused
from dcurate.tokens.tokenizer import TextEncoder, TokenizerSource


@dataclass
class CountTokens(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row for each document with its number of tokens."""

    tokenizer: TokenizerSource
    text_field: str = "text"
    name: str = "count_tokens"

    _loaded: TextEncoder | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_loaded": None}

    @property
    def _key(self) -> Hashable:
        return type(self), self.tokenizer.key

    def inputs(self) -> Spec:
        return [], [self.text_field]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Download the tokenizer to this host, if it is not here."""
        self.tokenizer.fetch()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Load the tokenizer, unless another slot of this process has."""
        self._loaded = SHARED.hold(self._key, self.tokenizer.load)

    def teardown(self) -> None:
        """Release the tokenizer."""
        if self._loaded is not None:
            self._loaded = None
            SHARED.release(self._key)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        assert self._loaded is not None
        task, _ = without_refused(task, self.name, self.text_field, self._loaded, self.tokenizer)
        refused = task.rejections
        texts = column_of(task.to_arrow(), self.text_field, text=True).fill_null("").to_pylist()
        counted = task.with_data(table_of({"tokens": [len(ids) for ids in self._loaded.encode(texts)]}))
        counted.rejections = refused
        return counted

"""Count personal data: as columns, and as a reason to drop a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dcurate.core.stage import NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_column
from dcurate.kernels.pii.scan import KINDS, find_pii, pii_counts
from dcurate.text.filter import BoundedFilter, Scores
from dcurate.text.pii.finder import PiiFinder, counted
from dcurate.text.pii.recognizers import Recognizer
from dcurate.text.signals import Signals, text_as_column


@dataclass
class CountPii(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add a column of counts for each kind of personal data, without the data itself.

    Args:
        text_field: the column to look at.
        supported_entities: what to count, as of `PiiModifier`; a recogniser's labels must be named to be counted.
        prefix: what the names of the columns begin with, before the kind in lower case.
        public_ips_only: leave out IP addresses that the world cannot reach.
        recognizer: finds names, say.
        name: name of the stage.

    Examples:
        >>> import pandas as pd
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["Mail jo@example.org or al@example.org"]}))
        >>> CountPii(supported_entities=["EMAIL_ADDRESS"]).process(batch).to_pandas()["pii_email_address"].tolist()
        [2]
    """

    text_field: str = "text"
    supported_entities: Sequence[str] | None = None
    prefix: str = "pii_"
    public_ips_only: bool = True
    recognizer: Recognizer | None = None
    name: str = "count_pii"

    def __post_init__(self) -> None:
        self._finder()

    def _finder(self) -> PiiFinder:
        return PiiFinder(self._entities, self.public_ips_only, self.recognizer)

    @property
    def _entities(self) -> list[str]:
        return list(KINDS if self.supported_entities is None else self.supported_entities)

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [f"{self.prefix}{kind.lower()}" for kind in self._entities]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        find_pii(*text_as_column(""), np.arange(1))  # compiles the kernel, or loads it from numba's cache on disk

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._finder().load_model()

    @property
    def cheap_setup(self) -> bool:
        return self.recognizer is None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        findings = self._finder().find(text_column(table, self.text_field))
        counts = counted(findings)
        for kind, column in zip(self._entities, self.outputs()[1], strict=True):
            known = counts[:, findings.names.index(kind)] if kind in findings.names else np.zeros(len(counts), np.int64)
            table = with_column(table, column, known)
        return replace(task.with_data(table), found=findings.totals())


@dataclass(frozen=True)
class PiiFilter(BoundedFilter):
    """Drop texts with more than ``max_pii`` entities of personal data, as Dolma did with more than five.

    Args:
        max_pii: maximum number of entities in a document.
        supported_entities: what counts, as of `PiiModifier`; without a recogniser.
        public_ips_only: leave out IP addresses that the world cannot reach.

    Raises:
        PipelineError: an entity that no rule finds.

    Examples:
        >>> PiiFilter().score_document("jo@example.org, al@example.org")
        2
    """

    pays_on_gpu: ClassVar[bool] = True

    max_pii: int = 5
    supported_entities: tuple[str, ...] | None = None
    public_ips_only: bool = True
    _name = "pii"
    _high = "max_pii"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.supported_entities is not None and not isinstance(self.supported_entities, tuple):
            raise PipelineError(f"{self.name}: supported_entities={self.supported_entities!r} must be a tuple")
        PiiFinder(self.supported_entities)

    def score(self, signals: Signals) -> Scores:
        kinds = PiiFinder(self.supported_entities).kinds
        return signals.of(pii_counts, kinds, self.public_ips_only)

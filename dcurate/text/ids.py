"""The stage that adds ids to documents."""

from __future__ import annotations

from dataclasses import dataclass

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import with_text
from dcurate.frames.document import DocumentBatch


@dataclass
class AddId(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add a column of ids that are unique in a dataset and the same in every run over the same input.

    Args:
        id_field: the column.
        id_prefix: prefix of the ids, before an underscore; empty by default.
        overwrite: replace a column of that name instead of refusing.
        name: name of the stage.

    An id is made of the digest of the batch's key and the number of the row: it depends neither on the worker that
    made it nor on what else was running.

    Raises:
        PipelineError: the column is there already.
        DataError: the batch has no key, which the engine gives it.

    Examples:
        >>> from dcurate.core.batch import BatchKey
        >>> import pandas as pd
        >>> batch = DocumentBatch(key=BatchKey("a.jsonl"), data=pd.DataFrame({"text": ["x", "y"]}))
        >>> AddId("id", id_prefix="web").process(batch).to_pandas()["id"].tolist()
        ['web_4a976e20f24e_0', 'web_4a976e20f24e_1']
    """

    id_field: str
    id_prefix: str | None = None
    overwrite: bool = False
    name: str = "add_id"

    def __post_init__(self) -> None:
        if not self.id_field:
            raise PipelineError(f"{self.name}: id_field={self.id_field!r} is not the name of a column; give it as text")

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], [self.id_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(DocumentBatch.given(task).get_columns())
        if task.key is None:
            raise DataError(
                f"stage {self.name!r} derives ids from the batch's key, and this batch has none; give it a key"
            )
        start = f"{self.id_prefix}_{task.key.digest}_" if self.id_prefix else f"{task.key.digest}_"
        ids = [f"{start}{row}" for row in range(task.num_items)]
        return task.with_data(with_text(task.to_arrow(), self.id_field, ids))

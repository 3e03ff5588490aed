"""Frames of any library as the batches that a pipeline begins with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dcurate.core.batch import Batch
from dcurate.errors import PipelineError
from dcurate.frames.convert import as_frame, nbytes
from dcurate.frames.document import DocumentBatch

#: Bytes of a batch that is cut from a frame, about.
_BYTES = 64 * 2**20
#: Modules of Hugging Face `datasets` whose objects are no tables.
_NO_ROWS = ("datasets.dataset_dict", "datasets.iterable_dataset")


def batches_of(given: Any) -> Any:
    """Return a frame as batches of about 64 MiB, and a list with frames in it as a list of batches.

    What is neither a frame nor a batch is returned as it is.

    Raises:
        PipelineError: it is a `DatasetDict` or an `IterableDataset` of Hugging Face.

    Examples:
        >>> import pyarrow as pa
        >>> [batch.num_items for batch in batches_of(pa.table({"n": [1, 2, 3]}))]
        [3]
        >>> [batch.num_items for batch in batches_of([pa.table({"n": [1, 2]}), pa.table({"n": [3]})])]
        [2, 1]
    """
    if given is None or isinstance(given, str | bytes):
        return given
    if isinstance(given, Batch):
        return [given]
    if type(given).__module__ in _NO_ROWS:
        raise PipelineError(
            f"initial_tasks is of {type(given).__name__}, which is not a table of rows; give one split as a Dataset, "
            "or read its files with a reader"
        )
    frame = as_frame(given)
    if frame is not None:
        return list(_cut(DocumentBatch(data=frame)))
    if isinstance(given, Sequence | Iterator):
        return [element if isinstance(element, Batch) else _batch(element) for element in given]
    return given


def _batch(element: Any) -> Any:
    frame = as_frame(element)
    return element if frame is None else DocumentBatch(data=frame)


def _cut(batch: DocumentBatch) -> Iterator[DocumentBatch]:
    """Yield the rows of a batch in batches of about equal size."""
    parts = max(1, -(-nbytes(batch.data) // _BYTES))
    size = max(1, -(-batch.num_items // parts))
    for start in range(0, max(batch.num_items, 1), size):
        yield batch.rows(start, min(start + size, batch.num_items)) if parts > 1 else batch

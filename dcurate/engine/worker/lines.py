"""Call stages that do not know of the lines of rows: they are given rows without, and the lines are put back after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dcurate.core.batch import Batch, Rejection
from dcurate.frames.document import DocumentBatch
from dcurate.frames.line_matching import with_own_lines
from dcurate.frames.lines import LINE, without_lines


def without_seeing_lines(process: Callable[[list[Batch]], Any], batches: list[Batch]) -> Any:
    """Call a function of a stage with batches without the lines of their rows; return its answers with them."""
    given = [_bare(batch) for batch in batches]
    answers = process(given)
    if not isinstance(answers, list | tuple) or len(answers) != len(batches):
        return answers
    return [
        answer if bare is batch else _with_lines(answer, batch)
        for answer, bare, batch in zip(answers, given, batches, strict=True)
    ]


def _bare(batch: Batch) -> Batch:
    if isinstance(batch, DocumentBatch) and isinstance(batch.data, pa.Table) and LINE in batch.data.column_names:
        return replace(batch, data=without_lines(batch.data))
    return batch


def _with_lines(answer: Any, batch: Batch) -> Any:
    if isinstance(answer, list):
        return [_with_lines(one, batch) for one in answer]
    if not isinstance(answer, DocumentBatch) or not isinstance(batch, DocumentBatch):
        return answer
    own = with_own_lines(answer, batch.data)
    own.rejections = tuple(_rejected(one, batch.data) for one in own.rejections)
    return own


def _rejected(rejection: Rejection, source: pa.Table) -> Rejection:
    if not isinstance(rejection.data, pa.Table):
        return rejection
    return replace(rejection, data=with_own_lines(DocumentBatch(data=rejection.data), source).data)

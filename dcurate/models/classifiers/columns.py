"""The columns that classifiers add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dcurate.core.batch import Scored
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import only, rows_at, values, with_text, with_texts_each
from dcurate.frames.document import DocumentBatch
from dcurate.frames.tokens import Tokens, with_results, with_tokens
from dcurate.text.filter_run import SAMPLED


def check_free(stage: str, added: Sequence[str], columns: Sequence[str], overwrite: bool) -> None:
    """Refuse to overwrite an existing column.

    Raises:
        PipelineError: there is one, and it is not to be replaced.

    Examples:
        >>> check_free("quality", ["label"], ["text"], overwrite=False)
    """
    taken = [column for column in added if column in columns]
    if taken and not overwrite:
        raise PipelineError(
            f"stage {stage!r}: column {listed(taken)} already exists; give another name, "
            "or overwrite=True to replace it"
        )


def distinct(stage: str, added: Sequence[str]) -> None:
    """Refuse two columns with the same name.

    Raises:
        PipelineError: there are two.

    Examples:
        >>> distinct("quality", ["label", "score"])
    """
    if len(set(added)) < len(added):
        raise PipelineError(f"stage {stage!r}: columns {listed(added)} must have different names")


def check_finite(stage: str, results: Mapping[str, Any]) -> None:
    """Refuse NaN in a model's output.

    Raises:
        DataError: it is NaN or infinite.

    Examples:
        >>> check_finite("quality", {"logits": np.array([[0.5]])})
    """
    for output in results.values():
        wrong = np.flatnonzero(~np.isfinite(output).all(axis=tuple(range(1, output.ndim))))
        if len(wrong):
            raise DataError(
                f"stage {stage!r}: the model returned NaN for {len(wrong)} of {len(output)} texts, the first in row "
                f"{wrong[0]}; pass autocast=False, or check its weights"
            )


def put(table: Any, added: Mapping[str, Any], dropped: Sequence[str] = ()) -> Any:
    """The table with columns added or replaced, and others removed.

    Args:
        added: by name an array; a matrix, which becomes lists of one length; `Tokens`; a list of texts; or, for lists
            of texts, a tuple of them.

    Examples:
        >>> from dcurate.frames.columns import table_of
        >>> table = put(table_of({"a": np.array([1, 2])}), {"p": np.eye(2), "label": ["x", "y"]}, ["a"])
        >>> table.to_pylist()
        [{'p': [1.0, 0.0], 'label': 'x'}, {'p': [0.0, 1.0], 'label': 'y'}]
    """
    for name, content in added.items():
        if isinstance(content, np.ndarray):
            table = with_results(table, name, content)
        elif isinstance(content, Tokens):
            table = with_tokens(table, name, content)
        elif isinstance(content, tuple):
            table = with_texts_each(table, name, content)
        else:
            table = with_text(table, name, content)
    return table.select([name for name in table.column_names if name not in dropped])


def record_labels(batch: DocumentBatch, stage: str, columns: Sequence[str]) -> DocumentBatch:
    """The batch with the labels and numbers of these columns recorded for the report, sampled if there are many.

    Examples:
        >>> from dcurate.frames.columns import table_of
        >>> batch = DocumentBatch(data=table_of({"label": ["High", None], "p": [[0.9, 0.1], [0.5, 0.5]]}))
        >>> [(scored.name, scored.values) for scored in record_labels(batch, "quality", ["label", "p"]).scored]
        [('label', ['High', 'no label'])]
    """
    rows = batch.num_items
    every = -(-rows // SAMPLED) or 1
    sample = rows_at(only(batch.to_arrow(), columns), np.arange(0, rows, every))
    by_column = {name: _labels(values(sample, name)) for name in columns}
    return replace(
        batch, scored=tuple(Scored(stage, name, labels, every) for name, labels in by_column.items() if labels)
    )


def _labels(content: list[Any]) -> list[Any]:
    """Labels or numbers; of lists of labels all of them, of other lists nothing."""
    if any(isinstance(value, list) for value in content):
        return [label for value in content for label in value or () if isinstance(label, str)]
    return ["no label" if value is None else value for value in content]

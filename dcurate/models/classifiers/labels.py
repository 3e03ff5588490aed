"""The labels of a model, the selection of labels, and the stage that filters by them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError, listed, nearest
from dcurate.frames.columns import rows_at, values
from dcurate.frames.document import DocumentBatch

#: A label as rows hold it: text, or a truth value.
Label = str | bool


def labels_of(config: Mapping[str, Any], what: str) -> list[str] | None:
    """The labels of a model in the order of its outputs; None if its configuration names none.

    Args:
        config: the contents of its ``config.json``.
        what: the model, for the error message.

    Raises:
        DataError: they are no table of numbers and labels, or the numbers are not 0, 1, 2 and so on.

    Examples:
        >>> labels_of({"id2label": {"1": "High", "0": "Low"}}, "a model")
        ['Low', 'High']
        >>> labels_of({"label2id": {"Low": 0, "High": 1}}, "a model")
        ['Low', 'High']
    """
    try:
        named = config.get("id2label") or {number: label for label, number in (config.get("label2id") or {}).items()}
        labels = {int(number): str(label) for number, label in named.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f'{what}: id2label must be a table of numbers and labels, such as {{"0": "no", "1": "yes"}} ({error})'
        ) from error
    if not labels:
        return None
    if sorted(labels) != list(range(len(labels))):
        raise DataError(f"{what}: id2label numbers its labels {sorted(labels)}; they must be 0 to {len(labels) - 1}")
    return [labels[number] for number in range(len(labels))]


def config_in(folder: str) -> dict[str, Any]:
    """The contents of the ``config.json`` of a model's folder.

    Raises:
        DataError: there is none, or it is not JSON.
    """
    path = os.path.join(folder, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        if not isinstance(config, dict):
            raise ValueError("it is not a JSON object")
        return config
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{path!r} cannot be read as a model's configuration: {error}; copy it from the model"
        ) from error


def named(labels: Sequence[Label] | None, numbers: Iterable[int]) -> list[str]:
    """The labels with these numbers.

    Examples:
        >>> named(["High", "Low"], [1, 0, 1])
        ['Low', 'High', 'Low']
    """
    names = [str(label) for label in labels or ()]
    return [names[number] for number in numbers]


def is_model_folder(model: str) -> bool:
    """Whether a model is a local folder with a configuration."""
    return os.path.isfile(os.path.join(os.path.expanduser(model), "config.json"))


def known_labels(model: str, known: Mapping[str, Sequence[Label]]) -> Sequence[Label] | None:
    """The labels of a model, if known without network access: it is a folder, or in a table.

    Examples:
        >>> known_labels("org/model", {"org/model": ["good", "bad"]})
        ['good', 'bad']
    """
    if is_model_folder(model):
        return labels_of(config_in(os.path.expanduser(model)), repr(model))
    return known.get(model)


def wanted_labels(filter_by: Sequence[Label] | Label | None) -> tuple[Label, ...]:
    """The labels of ``filter_by``: none, one, or several.

    Examples:
        >>> wanted_labels(None), wanted_labels("High"), wanted_labels(["High", "Low"])
        ((), ('High',), ('High', 'Low'))
    """
    if filter_by is None:
        return ()
    return (filter_by,) if isinstance(filter_by, str | bool) else tuple(filter_by)


def check_wanted(stage: str, wanted: Sequence[Label], labels: Sequence[Label] | None) -> None:
    """Refuse a label that the model does not have.

    Args:
        labels: the labels of the model, or None if unknown.

    Raises:
        PipelineError: there is one.

    Examples:
        >>> check_wanted("quality", ["high"], ["High", "Low"])
        Traceback (most recent call last):
        ...
        dcurate.errors.PipelineError: stage 'quality': filter_by has an unknown label 'high'; ...
    """
    for label in wanted:
        if labels is not None and label not in labels:
            hint = (
                nearest(label, map(str, labels))
                if isinstance(label, str)
                else f"; there are {listed(map(str, labels))}"
            )
            raise PipelineError(f"stage {stage!r}: filter_by has an unknown label {label!r}{hint}")


@dataclass
class FilterByLabel(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep the rows with one of the selected labels; one of a list of labels is enough.

    The others leave the batch as rejected, for a reason that names column and label, so that a report counts them
    label by label.

    Args:
        label_field: the column with the label, or with a list of labels.
        filter_by: the labels that are wanted, at least one.
        text_field: the column used for examples in reports.
        name: name of the stage.

    Raises:
        PipelineError: no label is wanted.
        DataError: the column does not exist.

    Examples:
        >>> from dcurate.frames.columns import table_of
        >>> batch = DocumentBatch(data=table_of({"quality": ["High", "Low", "Low", "Medium"]}))
        >>> kept = FilterByLabel("quality", ("High", "Medium")).process(batch)
        >>> kept.to_arrow()["quality"].to_pylist(), [(gone.reason, gone.rows) for gone in kept.rejections]
        (['High', 'Medium'], [('quality: Low', 2)])
    """

    label_field: str
    filter_by: tuple[Label, ...]
    text_field: str = ""
    name: str = "filter_fn"

    def __post_init__(self) -> None:
        if not self.filter_by:
            raise PipelineError(f"stage {self.name!r}: filter_by is empty, so no row would be kept; name a label")

    def inputs(self) -> Spec:
        return ["data"], [self.label_field]

    def optional_inputs(self) -> Sequence[str]:
        return [self.text_field] if self.text_field else []  # for the examples in the report

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        wanted = set(self.filter_by)
        kept: list[int] = []
        gone: dict[str, list[int]] = {}
        labels = values(table, self.label_field)
        for row, label in enumerate(labels):
            good = label in wanted if not isinstance(label, list) else bool(wanted.intersection(label))
            (kept if good else gone.setdefault(self._reason(label), [])).append(row)
        if not gone:
            return task.with_data(task.data)
        rejections = []
        for reason, rows in sorted(gone.items()):
            dropped, scores = rows_at(table, np.array(rows, np.int64)), [labels[row] for row in rows]
            size = dropped.num_rows, dropped.nbytes
            rejections.append(Rejection(self.name, reason, *size, dropped, scores=scores, column=self.text_field))
        remaining = task.with_data(rows_at(table, np.array(kept, np.int64)))
        return replace(remaining, rejections=tuple(rejections))

    def _reason(self, label: Any) -> str:
        if isinstance(label, list):
            return f"{self.label_field}: none of those wanted"
        return f"{self.label_field}: {'no label' if label is None else label}"

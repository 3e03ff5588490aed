"""Rows with labels as examples: what each head is to answer, without contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, listed
from dcurate.frames.columns import values, with_column, with_lists
from dcurate.frames.document import DocumentBatch
from dcurate.frames.rows import row_keys
from dcurate.frames.text import text_column
from dcurate.frames.vectors import features
from dcurate.kernels.json_canonical import KERNELS
from dcurate.learn.head import StudentHead
from dcurate.learn.split import bands_of, site_of
from dcurate.text.filter_run import FilterRun, Verdict
from dcurate.text.signals import Needs

#: Columns of examples between the rounds.
TEXT, LABELS, SITE, BANDS, GROUP = "_text", "_labels", "_site", "_bands", "_group"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]


@dataclass(kw_only=True)
class SelectExamples(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep rows that have words and a label, and add what their order and the split depend on; part of `Learn`."""

    head_fields: tuple[str, ...]
    text_field: str = "text"
    site_field: str | None = None
    group_field: str | None = None
    figure_fields: tuple[str, ...] = ()
    feature_fields: tuple[str, ...] = ()
    near_duplicates: bool = True
    name: str = "select_examples"

    def inputs(self) -> Spec:
        columns = [*self._texts, *self.head_fields, *filter(None, (self.site_field, self.group_field))]
        return ["data"], list(dict.fromkeys([*columns, *self.figure_fields, *self.feature_fields]))

    @property
    def _texts(self) -> list[str]:
        """The column of texts, if it is read."""
        return [self.text_field] if self.near_duplicates or not self.feature_fields else []

    def outputs(self) -> Spec:
        return ["data"], []

    def kernels(self) -> list[Any]:
        """Those of the keys of rows."""
        return [KERNELS]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        run = FilterRun(task, Needs())
        table = task.to_arrow()
        labels = [values(table, head) for head in self.head_fields]
        labelled = np.array([any(value is not None for value in row) for row in zip(*labels, strict=True)], np.bool_)
        run.drop(Verdict(labelled, labelled, self.head_fields[0]), self.name, "no_label")
        if self.feature_fields:
            there = np.asarray(np.isfinite(_numbers(table, self.feature_fields)[labelled]).all(axis=1))
            run.drop(Verdict(there, there, self.feature_fields[0]), self.name, "no_features")
        else:
            text_column(table, self.text_field)  # refuses a column of other values
            words = _with_words(run.column(self.text_field))
            run.drop(Verdict(words, words, self.text_field), self.name, "no_words")
        kept = run.result()
        table = kept.to_arrow()
        columns = [*self._texts, *self.head_fields]
        columns += [column for column in (self.site_field, self.group_field) if column and column not in columns]
        table = table.select(list(dict.fromkeys([*columns, *self.figure_fields, *self.feature_fields])))
        keyed = columns[len(self._texts) :]
        if self.feature_fields:  # without texts rows may differ by nothing else
            keyed = list(dict.fromkeys([*keyed, *self.figure_fields]))
        labels_keys = row_keys(table, keyed, 0)[:, 0]
        texts_keys = row_keys(table, self._texts, 0)[:, 0] if self._texts else np.zeros(table.num_rows, np.uint64)
        if self.feature_fields:
            labels_keys = labels_keys ^ _keys_of_rows(_numbers(table, self.feature_fields))
            if self._texts:
                texts_keys = np.where(_with_words(values(table, self.text_field)), texts_keys, np.uint64(0))
        sites = [site_of(value) for value in values(table, self.site_field)] if self.site_field else []
        rows = table.num_rows
        for name, column in (
            (TEXT, texts_keys),
            (LABELS, labels_keys),
            (SITE, keys_of(sites) if sites else np.zeros(rows, np.uint64)),
        ):
            table = with_column(table, name, column)
        bands = (
            bands_of(text_column(table, self.text_field)) if self.near_duplicates else np.zeros((rows, 0), np.uint64)
        )
        bounds = np.arange(rows + 1, dtype=np.int64) * bands.shape[1]
        chosen = kept.with_data(with_lists(table, BANDS, bounds, np.ascontiguousarray(bands).ravel()))
        return replace(chosen, rejections=kept.rejections)


def _with_words(texts: Sequence[str | None]) -> npt.NDArray[np.bool_]:
    return np.array([bool(text and text.split()) for text in texts], np.bool_)


def _numbers(table: Any, fields: Sequence[str]) -> npt.NDArray[np.float64]:
    """The numbers of columns side by side; a column of lists without any list is NaN."""
    matrices = features(table, fields)
    return np.hstack([matrix if matrix.shape[1] else np.full((len(matrix), 1), np.nan) for matrix in matrices])


def _keys_of_rows(numbers: npt.NDArray[np.float64]) -> Words:
    """64 bits that follow from the numbers of each row."""
    hashed = (blake2b(row.tobytes(), digest_size=8).digest() for row in numbers)
    return np.frombuffer(b"".join(hashed), np.uint64)


def keys_of(names: Sequence[str]) -> Words:
    """Return 64 bits that follow from each name; 0 for an empty one."""
    return np.array(
        [int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") if name else 0 for name in names],
        np.uint64,
    )


class HeadTargets(NamedTuple):
    """What the heads are to answer.

    Attributes:
        heads: the heads, of the kinds that the labels show.
        targets: number of the class, or the number, of each text and head; NaN if there is none.
    """

    heads: tuple[StudentHead, ...]
    targets: Floats


def targets_of(stage: str, columns: dict[str, list[Any]]) -> HeadTargets:
    """Return the heads that labels show, and what these are to answer.

    Args:
        columns: the labels by head: texts are classes, true and false a flag, numbers a number.

    Raises:
        DataError: a head has labels of one class only, of mixed kinds, or none.
    """
    heads, targets = zip(*(_head(stage, name, labels) for name, labels in columns.items()), strict=True)
    return HeadTargets(heads, np.column_stack(targets).astype(np.float32))


def _head(stage: str, name: str, labels: list[Any]) -> tuple[StudentHead, npt.NDArray[np.float64]]:
    known = [label for label in labels if label is not None]
    if not known:
        raise DataError(f"stage {stage!r}: no row has a label of head {name!r}; label some, or leave the head out")
    if all(isinstance(label, bool) for label in known):
        return _classes(stage, name, [None if label is None else str(label).lower() for label in labels], "flag")
    if all(isinstance(label, int | float) and not isinstance(label, bool) for label in known):
        return _number(stage, name, labels)
    if all(isinstance(label, str) for label in known):
        return _classes(stage, name, labels, "classes")
    kinds = sorted({type(label).__name__ for label in known})
    raise DataError(f"stage {stage!r}: the labels of head {name!r} are of kinds {listed(kinds)}; give all in one kind")


def _classes(
    stage: str, name: str, labels: list[str | None], kind: Literal["classes", "flag"]
) -> tuple[StudentHead, npt.NDArray[np.float64]]:
    names = sorted({label for label in labels if label is not None})
    if len(names) == 1:
        raise DataError(
            f"stage {stage!r}: all {sum(label is not None for label in labels):,} labels of head {name!r} are "
            f"{names[0]!r}; label texts of another class, too"
        )
    numbers = {label: float(number) for number, label in enumerate(names)}
    targets = np.array([np.nan if label is None else numbers[label] for label in labels])
    return StudentHead(name, kind, tuple(names), positive="true" if kind == "flag" else ""), targets


def _number(stage: str, name: str, labels: list[Any]) -> tuple[StudentHead, npt.NDArray[np.float64]]:
    numbers = np.array([np.nan if label is None else float(label) for label in labels])
    known = numbers[np.isfinite(numbers)]
    if not len(known) or known.min() == known.max():
        raise DataError(f"stage {stage!r}: all numbers of head {name!r} are equal; label texts with others, too")
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    if not 0 < deviation < np.inf:
        raise DataError(
            f"stage {stage!r}: numbers of head {name!r}, from {known.min():g} to {known.max():g}, cannot be scaled; "
            "give them in another unit, or leave the largest out"
        )
    head = StudentHead(name, "number", (), mean, deviation, float(known.min()), float(known.max()))
    return head, np.where(np.isfinite(numbers), (numbers - mean) / deviation, np.nan)


def contradictory(texts: Words, targets: Floats) -> npt.NDArray[np.bool_]:
    """Return which texts come with two labels of one head.

    Args:
        texts: a key of each text; 0 for an unknown one.
        targets: answers as in `HeadTargets`.
    """
    _, group = np.unique(texts, return_inverse=True)
    wrong = np.zeros(len(texts), np.bool_)
    for column in targets.T:
        known = ~np.isnan(column)
        least, most = np.full(len(texts), np.inf), np.full(len(texts), -np.inf)
        np.minimum.at(least, group[known], column[known])
        np.maximum.at(most, group[known], column[known])
        wrong |= (least < most)[group]
    wrong[texts == 0] = False
    return wrong

"""Agreement of judges: Cohen's kappa of each two, and Krippendorff's alpha of all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FileGroup
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import nulls, values
from dcurate.frames.document import DocumentBatch
from dcurate.io.document_reader import DocumentReader
from dcurate.learn.schema import ENUMERATION, FLAG, SCALE, Label, LabelSchema

#: Rows that are counted at a time.
_SLICE = 2**16

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def cohen_kappa(counts: Any, *, weighted: bool = False) -> float:
    """Return Cohen's kappa of two judges: 1 for full agreement, 0 for what chance gives.

    Args:
        counts: how often the first gave value ``i`` and the second value ``j``, of shape (values, values).
        weighted: whether a difference counts by its square, for scales (Cohen 1968); else all differences are equal.

    Returns:
        NaN without rows, or if both judges always gave one and the same value.

    Examples:
        >>> round(cohen_kappa([[20, 5], [10, 15]]), 4)
        0.4
    """
    observed = np.asarray(counts, np.float64)
    disagreement = _differences(len(observed), weighted)
    total = observed.sum()
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / total if total else observed
    by_chance = float((disagreement * expected).sum())
    return 1 - float((disagreement * observed).sum()) / by_chance if by_chance else math.nan


def krippendorff_alpha(pairs: Mapping[int, Any], *, weighted: bool = False) -> float:
    """Return Krippendorff's alpha of any number of judges, of whom each may have left rows out.

    Args:
        pairs: for each number ``m`` of judges of a row: how often values ``i`` and ``j`` were given to one row by two
            different judges, summed over all rows with ``m`` judges, of shape (values, values).
        weighted: whether a difference counts by its square, for scales (the interval metric); else all differences are
            equal (the nominal metric).

    Returns:
        NaN if no row has two judges, or there is one value only.

    Examples:
        >>> round(krippendorff_alpha({2: [[40, 15], [15, 30]]}), 4)
        0.4
    """
    matrices = [np.asarray(matrix, np.float64) / (m - 1) for m, matrix in sorted(pairs.items())]
    if not matrices:
        return math.nan
    coincidences = np.sum(matrices, axis=0)
    totals = coincidences.sum(axis=1)
    disagreement = _differences(len(totals), weighted)
    by_chance = float((disagreement * np.outer(totals, totals)).sum())
    if not by_chance:
        return math.nan
    return 1 - float(totals.sum() - 1) * float((disagreement * coincidences).sum()) / by_chance


def _differences(size: int, weighted: bool) -> Floats:
    """How much each two values differ."""
    distances = np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(np.float64)
    return distances**2 if weighted else np.minimum(distances, 1)


@dataclass
class LabelCounts:
    """Counts of one label over the rows of several judges; its size does not grow with the rows.

    Args:
        label: the label.
        columns: the column of each judge.
    """

    label: Label
    columns: Sequence[str]
    tables: dict[tuple[int, int], Ints] = field(init=False)
    pairs: dict[int, Ints] = field(default_factory=dict, init=False)
    given: Ints = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.values)
        judges = itertools.combinations(range(len(self.columns)), 2)
        self.given = np.zeros((len(self.columns), size), np.int64)
        self.tables = {pair: np.zeros((size, size), np.int64) for pair in judges}

    @property
    def values(self) -> list[str | int | bool]:
        """The values of the label in order."""
        kinds: dict[str, list[Any]] = {
            ENUMERATION: list(self.label.values),
            SCALE: list(range(self.label.min, self.label.max + 1)),
            FLAG: [False, True],
        }
        return kinds[self.label.type]

    def add(self, table: Any) -> None:
        """Count the rows of a table.

        Raises:
            DataError: a column is missing, or has a value that the label does not have.
        """
        size = len(self.values)
        codes = np.array([self._codes(table, column) for column in self.columns])
        for judge, own in enumerate(codes):
            self.given[judge] += np.bincount(own[own >= 0], minlength=size)
        for first, second in self.tables:
            both = (codes[first] >= 0) & (codes[second] >= 0)
            places = codes[first][both] * size + codes[second][both]
            self.tables[first, second] += np.bincount(places, minlength=size * size).reshape(size, size)
        judges = (codes >= 0).sum(axis=0)
        for m in range(2, len(self.columns) + 1):
            rows = codes[:, judges == m]
            if not rows.shape[1]:
                continue
            given = np.zeros((rows.shape[1], size), np.int64)
            for judge in rows:
                given[np.flatnonzero(judge >= 0), judge[judge >= 0]] += 1
            self.pairs[m] = (
                self.pairs.get(m, np.zeros((size, size), np.int64)) + given.T @ given - np.diag(given.sum(axis=0))
            )

    def _codes(self, table: Any, column: str) -> Ints:
        """The number of the value of each row; -1 for null."""
        numbers: dict[Any, int] = {value: number for number, value in enumerate(self.values)}
        content = values(table, column)
        for value in set(content):
            # A file with a null in the column may hold whole numbers as floats.
            whole = isinstance(value, float) and value.is_integer() and self.label.type == SCALE
            if value is not None and (problem := self.label.problem(int(value) if whole else value)):
                raise DataError(f"column {column!r}: a label {problem}; correct it, or name another schema")
        return np.array([-1 if value is None else numbers[value] for value in content], np.int64)

    def figures(self) -> dict[str, Any]:
        """The agreement of each two judges, and of all."""
        weighted = self.label.type == SCALE
        pairs = [
            {
                "first": self.columns[first],
                "second": self.columns[second],
                "rows": int(counts.sum()),
                "equal": _ratio(int(np.trace(counts)), int(counts.sum())),
                "kappa": cohen_kappa(counts, weighted=weighted),
                "counts": counts.tolist(),
            }
            for (first, second), counts in self.tables.items()
        ]
        alpha = krippendorff_alpha(self.pairs, weighted=weighted)
        given = dict(zip(self.columns, self.given.tolist(), strict=True))
        return {"values": self.values, "given": given, "weighted": weighted, "pairs": pairs, "alpha": alpha}


def measure_agreement(
    file_paths: Any, schema: LabelSchema | str, *, suffixes: Sequence[str] = ("", "_2")
) -> dict[str, dict[str, Any]]:
    r"""Measure how well judges agree on the labels of a file, in one pass.

    Args:
        file_paths: a reader, or the files, directories and globs, of labels.
        schema: a `LabelSchema`, the name of a preset, or a YAML file.
        suffixes: end of the names of the columns of each judge, as for `Judge`. A row that a judge has not labelled has
            null there.

    Returns:
        For each label its ``values``, how often each was ``given`` in each column, whether differences are ``weighted``
            (scales are, by their square), Krippendorff's ``alpha`` of all judges, and ``pairs``: for each two judges
            the columns ``first`` and ``second``, the ``rows`` that both labelled, the fraction that is ``equal``,
            Cohen's ``kappa``, and the ``counts`` of values of the first (rows) and the second (columns). A figure that
            cannot be computed is NaN.

    Raises:
        PipelineError: no suffixes, or two that are equal.
        DataError: a column is missing, or has a value that the schema does not have.

    Examples:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> rows = [{"quality": first, "quality_2": second} for first, second in ((1, 1), (5, 4), (3, 3))]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "labels.jsonl")
        ...     _ = path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ...     agreement = measure_agreement(str(path), "quality")
        >>> round(agreement["quality"]["pairs"][0]["kappa"], 3), round(agreement["quality"]["alpha"], 3)
        (0.923, 0.935)
    """
    labels = LabelSchema.load(schema) if isinstance(schema, str) else schema
    if isinstance(suffixes, str) or not suffixes or len(set(suffixes)) < len(suffixes):
        raise PipelineError(f"measure_agreement: suffixes={suffixes!r} must be a list of different ends of columns")
    counted = [LabelCounts(label, [label.name + suffix for suffix in suffixes]) for label in labels.labels]
    reader: SourceStage[FileGroup, DocumentBatch] = (
        file_paths if isinstance(file_paths, SourceStage) else DocumentReader(file_paths)
    )
    for split in reader.splits():
        batch = reader.process(split)
        table = batch.to_arrow() if isinstance(batch, DocumentBatch) else nulls(0)
        for start, counts in itertools.product(range(0, table.num_rows, _SLICE), counted):
            counts.add(table.slice(start, _SLICE))
    return {counts.label.name: counts.figures() for counts in counted}


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan

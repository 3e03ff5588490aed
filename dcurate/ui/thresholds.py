"""A plot of scores with a threshold that moves: what it keeps, and documents on both sides of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dcurate.errors import PipelineError, listed, nearest, shown
from dcurate.frames.batches import batches_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.excerpts import excerpt
from dcurate.fs.atomic import atomic_write
from dcurate.ui.templating import framed, render

#: Thresholds that can be chosen, at most: all values, or quantiles of them.
_CHOICES = 1000
#: Documents to show, at most, spread over all scores; those that are nearest to the threshold are shown.
_EXAMPLES = 300
#: Characters of a document that are shown.
_CHARACTERS = 240
_BARS = 48
#: Height of the page in a notebook.
_FRAME_PX = 720

Keep = Literal["high", "low"]


@dataclass(frozen=True)
class Choices:
    """Thresholds and the number of documents at or above each.

    Attributes:
        values: thresholds, ascending.
        above: number of scores at or above each of them.
        below: number of scores at or below each of them.
        edges: edges of the bars of the histogram.
        counts: number of scores in each bar.
    """

    values: list[float]
    above: list[int]
    below: list[int]
    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class ThresholdPlot:
    """The scores of documents as a histogram, with a threshold that moves; `threshold_plot` makes it.

    A notebook shows it. It needs no server: data and program are in its HTML, and it loads nothing.

    Attributes:
        column: column of the scores.
        keep: side of the threshold that is kept.
        documents: number of documents with a score.
        without: number of those without one.
        choices: thresholds, with what they keep, and the histogram.
        examples: score, id and excerpt of documents, by score.
        start: place of the first threshold in ``choices``.
        struct: whether scores are the field ``score`` of structs.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pandas as pd
        >>> from dcurate.ui import threshold_plot
        >>> plot = threshold_plot(pd.DataFrame({"score": [1, 2, 2, 3]}), "score", threshold=2)
        >>> plot.choices.values, plot.choices.above
        ([1.0, 2.0, 3.0], [4, 3, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot.save(f"{folder}/scores.html")
        ...     Path(folder, "scores.html").read_text()[:15]
        '<!doctype html>'
    """

    column: str
    keep: Keep
    documents: int
    without: int
    choices: Choices
    examples: tuple[tuple[float, str, str], ...]
    start: int
    struct: bool = False

    def save(self, path: str | Path) -> None:
        """Write the plot as a page of its own, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        with atomic_write(Path(path), durable=False) as file:
            file.write(self._page().encode())

    def __repr__(self) -> str:
        return (
            f"ThresholdPlot({self.column!r}, {self.documents:,} documents; a notebook shows it, save(path) writes it)"
        )

    def _repr_html_(self) -> str:
        return framed(self._page(), f"scores of {self.column}", _FRAME_PX)

    def _page(self) -> str:
        data = {
            "column": self.column,
            "keep": self.keep,
            "start": self.start,
            "struct": self.struct,
            "values": self.choices.values,
            "above": self.choices.above,
            "below": self.choices.below,
            "edges": self.choices.edges,
            "counts": self.choices.counts,
            "examples": self.examples,
            "documents": self.documents,
        }
        # A text must not end the element that holds it.
        embedded = json.dumps(data).replace("<", "\\u003c").replace("&", "\\u0026").replace(">", "\\u003e")
        return render("threshold.html", plot=self, data=Markup(embedded))


def threshold_plot(
    rows: Any,
    column: str,
    *,
    keep: Keep = "high",
    threshold: float | None = None,
    text_field: str = "text",
    id_field: str | None = None,
) -> ThresholdPlot:
    """Plot the scores of documents with a threshold to move: the share that it keeps, and documents on both sides.

    The numbers are exact for each threshold that can be chosen: every score if there are at most a thousand, else
    quantiles. Documents without a score (null or NaN) are counted apart.

    Args:
        rows: a frame of pandas, Polars or DuckDB, an Arrow table, a batch, or a list of these, such as what `Annotate`
            made.
        column: a column of numbers or truth values, or of structs with a number ``score``, as language rules store.
        keep: ``"high"`` to keep scores at or above the threshold, ``"low"`` those at or below it.
        threshold: where the threshold is at first; the median if not given.
        text_field: the column whose texts are shown; it may be missing.
        id_field: the column by which documents are named.

    Raises:
        PipelineError: there are no rows, no such column, or no numbers in it.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch
        >>> from dcurate.text import Annotate, WordCountFilter
        >>> from dcurate.ui import threshold_plot
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["one", "two words", "and three words"]}))
        >>> threshold_plot(Annotate([WordCountFilter()]).process(batch), "word_count")
        ThresholdPlot('word_count', 3 documents; a notebook shows it, save(path) writes it)
    """
    if keep not in ("high", "low"):
        raise PipelineError(f"keep={keep!r} is neither 'high' nor 'low'")
    batches = _batches(rows)
    names = batches[0].get_columns()
    if column not in names:
        raise PipelineError(f"no column {column!r}{nearest(column, names)}; there are {listed(map(repr, names))}")
    scores = np.concatenate([_scores(batch, column) for batch in batches])
    known = np.flatnonzero(np.isfinite(scores))
    if not known.size:
        raise PipelineError(f"column {column!r} has no numbers; give a column of scores, such as Annotate stores")
    order = known[np.argsort(scores[known], kind="stable")]
    choices = _choices(scores[order])
    picked = order[np.unique(np.linspace(0, len(order) - 1, min(_EXAMPLES, len(order))).round().astype(np.int64))]
    start = float(scores[order[len(order) // 2]]) if threshold is None else threshold
    return ThresholdPlot(
        column,
        keep,
        len(order),
        len(scores) - len(order),
        choices,
        tuple(_examples(batches, picked, scores, text_field, id_field)),
        min(range(len(choices.values)), key=lambda place: abs(choices.values[place] - start)),
        any(isinstance(value, dict) for value in batches[0].to_arrow()[column].slice(0, 1).to_pylist()),
    )


def _batches(rows: Any) -> list[DocumentBatch]:
    batches = batches_of(rows)
    if not isinstance(batches, list) or not all(isinstance(batch, DocumentBatch) for batch in batches):
        raise PipelineError(f"rows={shown(rows)} are not rows; give a frame, an Arrow table, a batch or a list")
    if not any(batch.num_items for batch in batches):
        raise PipelineError("no rows to plot")
    return [batch for batch in batches if batch.num_items]


def _scores(batch: DocumentBatch, column: str) -> npt.NDArray[np.float64]:
    """The scores of a batch as numbers; NaN where there is none."""
    values = batch.to_arrow()[column].to_pylist()
    numbers = (value.get("score") if isinstance(value, dict) else value for value in values)
    return np.array([float(number) if isinstance(number, int | float) else np.nan for number in numbers])


def _choices(ordered: npt.NDArray[np.float64]) -> Choices:
    values = np.unique(ordered)
    if len(values) > _CHOICES:
        values = np.unique(np.quantile(ordered, np.linspace(0, 1, _CHOICES), method="nearest"))
    low, high = float(ordered[0]), float(ordered[-1])
    middle = float(ordered[len(ordered) // 2])
    if low >= 0 and high > 20 * max(middle, 1e-12):  # a long tail, such as that of lengths
        edges = np.expm1(np.linspace(np.log1p(low), np.log1p(high), _BARS + 1))
    else:
        shares = np.linspace(0, 1, _BARS + 1)
        edges = low * (1 - shares) + (high if high > low else low + 1) * shares  # no difference that overflows
    edges = np.maximum.accumulate(np.clip(edges, low, None))  # rounding may make steps back
    edges[0], edges[-1] = low, max(high, edges[-1])
    edges = np.minimum(edges, edges[-1])
    return Choices(
        values.tolist(),
        (len(ordered) - np.searchsorted(ordered, values, side="left")).tolist(),
        np.searchsorted(ordered, values, side="right").tolist(),
        edges.tolist(),
        np.histogram(ordered, edges)[0].tolist(),
    )


def _examples(
    batches: Sequence[DocumentBatch],
    picked: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    text_field: str,
    id_field: str | None,
) -> list[tuple[float, str, str]]:
    """Score, id and beginning of the picked documents, by score."""
    ends = np.cumsum([batch.num_items for batch in batches])
    examples = []
    for place in picked:
        number = int(np.searchsorted(ends, place, side="right"))
        row = int(place - (ends[number - 1] if number else 0))
        values = batches[number].rows(row, row + 1).to_arrow().to_pylist()[0]
        name = str(values.get(id_field, "")) if id_field else f"row {place}"
        examples.append((float(scores[place]), name, excerpt(str(values.get(text_field) or ""), _CHARACTERS)))
    return examples

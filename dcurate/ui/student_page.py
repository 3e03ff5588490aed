"""The page of a student that `dcurate.learn.Learn` trained: how good it is on the examples that were held back."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from jinja2 import UndefinedError
from markupsafe import Markup

from dcurate.core.profile import Bar
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.redaction import without_secrets
from dcurate.ui.svg import COLOURS, curves, histogram
from dcurate.ui.templating import render

#: Files of a model: what it is, its figures, and the page.
CARD, FIGURES, PAGE = "card.json", "figures.json", "report.html"

#: Classes of which all pairs are shown, at most; of more, the names of this many, and this many pairs.
MATRIX = 30

#: For each head the number of documents of a corpus in each bin of its scores.
CorpusScores = Mapping[str, Sequence[int]]


def write_student_page(
    model: str,
    path: str | None = None,
    *,
    corpus: CorpusScores | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Write the page of a model, with curves, reliability, thresholds and its worst errors; it loads nothing.

    Args:
        model: the folder that `dcurate.learn.Learn` wrote.
        path: the file to write; by default ``report.html`` beside the model.
        corpus: by head the number of documents of a corpus in each bin of scores of ``figures.json``, to show drift.
        storage_options: for fsspec.

    Returns:
        where the page is.

    Raises:
        DataError: the folder has no model or no figures, or they are damaged.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "card.json").write_text('{"data": {"train": 9, "validation": 1, "held": 1}}')
        ...     _ = Path(folder, "figures.json").write_text('{"heads": []}')
        ...     page = write_student_page(folder)
        ...     Path(page).name, Path(page).read_text()[:15]
        ('report.html', '<!doctype html>')
    """
    folder = Directory(str(model), dict(storage_options or {}))
    card, figures = _read(folder, CARD), _read(folder, FIGURES)
    try:
        page = student_page(without_secrets(str(model)), card, figures, corpus or {})
    except (KeyError, TypeError, ValueError, AttributeError, UndefinedError) as error:
        raise DataError(
            f"{CARD} or {FIGURES} in {without_secrets(folder.url)!r} is damaged ({error!r}); train it again"
        ) from error
    if path is None:
        folder.write(PAGE, page.encode())
        return folder.path(PAGE)
    parent, _, name = str(path).rpartition("/")
    Directory(parent or ("/" if "/" in str(path) else "."), dict(storage_options or {})).write(name, page.encode())
    return str(path)


def _read(folder: Directory, name: str) -> dict[str, Any]:
    data = folder.read(name)
    if data is None:
        raise DataError(f"{without_secrets(folder.url)!r} has no {name}; train the model again with Learn")
    try:
        return dict(json.loads(data))
    except (ValueError, TypeError) as error:
        raise DataError(f"{name} in {without_secrets(folder.url)!r} is damaged ({error}); train it again") from error


def student_page(name: str, card: Mapping[str, Any], figures: Mapping[str, Any], corpus: CorpusScores) -> str:
    """Return the page as text."""
    heads = [{**head, **_plots(head), **_drift(head, corpus.get(head["name"]))} for head in figures["heads"]]
    return render("student.html", name=name, card=card, heads=heads, colours=COLOURS, percent=percent, listed=MATRIX)


def _plots(head: Mapping[str, Any]) -> dict[str, Any]:
    plots: list[tuple[str, Markup]] = []
    if listed := head.get("curves"):
        plots.append(
            ("ROC curve: true over false positives", _curves(listed, "roc", diagonal=True)),
        )
        plots.append(("precision-recall curve", _curves(listed, "precision_recall")))
    if "reliability" in head:
        lines = [("as scored", *_bins(head["reliability"]))]
        if "calibrated" in head:
            lines.append(("calibrated", *_bins(head["calibrated"])))
        plots.append(("calibration: share of the class by score", curves(lines, dots=True, diagonal=True)))
    if "scores" in head:
        plots.append(
            ("held examples by score", histogram(_bars(head["scores"]), _marks(head), log=False, words=_words(head)))
        )
    return {"plots": plots, "confused": _confused(head) if len(head["labels"]) > MATRIX else None}


def _confused(head: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Return the most frequent confusions: label, predicted class, and number of examples."""
    labels, counts = head["labels"], head["measures"].get("confusion", ())
    pairs = [
        (labels[truth], labels[answer], count)
        for truth, row in enumerate(counts)
        for answer, count in enumerate(row)
        if count and truth != answer
    ]
    return heapq.nlargest(MATRIX, pairs, key=itemgetter(2))


def _curves(listed: Sequence[Mapping[str, Any]], kind: str, *, diagonal: bool = False) -> Markup:
    return curves([(curve["label"], *curve[kind]) for curve in listed], diagonal=diagonal)


def _bins(figures: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    return [part["score"] for part in figures["bins"]], [part["share"] for part in figures["bins"]]


def _bars(scores: Mapping[str, Any], counts: Sequence[int] | None = None) -> list[Bar]:
    """Bars of scores, on which those that are not of the class are stacked."""
    counts = scores["counts"] if counts is None else counts
    rest = [0] * len(counts)
    if counts is scores["counts"] and "positive" in scores:
        rest = [count - right for count, right in zip(counts, scores["positive"], strict=True)]
    edges = scores["edges"]
    return [Bar(*bar) for bar in zip(edges[:-1], edges[1:], counts, rest, strict=True)]


def _words(head: Mapping[str, Any]) -> tuple[str, str]:
    if head["kind"] == "number":
        return "examples", ""
    return (head["positive"], "others") if head["positive"] else ("right", "wrong")


def _marks(head: Mapping[str, Any]) -> list[tuple[float, str]]:
    return [(row["threshold"], row["group"] or "threshold") for row in head.get("thresholds", ())][:1]


def _drift(head: Mapping[str, Any], counts: Sequence[int] | None) -> dict[str, Any]:
    if counts is None or "scores" not in head or not sum(counts):
        return {"drift": None}
    held = head["scores"]["counts"]
    shares = [[count / sum(all_) for count in all_] for all_ in (held, counts)]
    drawn = histogram(_bars(head["scores"], counts), _marks(head), log=False)
    figures = {"documents": sum(counts), "index": population_stability(held, counts), "plot": drawn}
    return {"drift": {**figures, "rows": list(zip(head["scores"]["edges"], *shares, strict=False))}}


def population_stability(expected: Sequence[int], actual: Sequence[int]) -> float:
    """Return the population stability index of two histograms of the same bins; an empty bin counts as half a row.

    Examples:
        >>> population_stability([10, 20], [100, 200]) < 0.001, round(population_stability([10, 20], [20, 10]), 2)
        (True, 0.46)
    """
    wholes = sum(expected), sum(actual)
    index = 0.0
    for first, second in zip(expected, actual, strict=True):
        if first or second:
            share, other = max(first, 0.5) / wholes[0], max(second, 0.5) / wholes[1]
            index += (other - share) * math.log(other / share)
    return index


def percent(share: float | None) -> str:
    """A share in percent.

    Examples:
        >>> percent(0.1234), percent(None)
        ('12.3 %', '–')
    """
    return "–" if share is None else f"{100 * share:.1f} %"

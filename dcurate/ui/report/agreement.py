"""How far the judges of a run of ``dcurate label`` agree, and each with its own repeats, for the page of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class AgreementRow(NamedTuple):
    """The agreement of two columns of labels, as the page shows it.

    Attributes:
        label: name of the label.
        first, second: the judges, by their models.
        compared: ``"two judges"``, or ``"repeat"`` where one judge was asked twice.
        rows: number of rows that both labelled.
        equal: the fraction that is equal; None without such rows.
        kappa: Cohen's kappa, weighted for scales; None where it cannot be computed.
        alpha: Krippendorff's alpha of all judges of the label; None where it cannot be computed.
    """

    label: str
    first: str
    second: str
    compared: str
    rows: int
    equal: float | None
    kappa: float | None
    alpha: float | None


def agreement_rows(about: Mapping[str, Any]) -> list[AgreementRow]:
    """Return the agreement of each two columns of a run of ``dcurate label``; none of other runs.

    Args:
        about: the manifest of the run, with ``agreement`` as `dcurate.learn.measure_agreement` gives it, and for each
            label the ``judges``: the model of each column.

    Examples:
        >>> pair = {"first": "good", "second": "good_2", "rows": 9, "equal": 0.9, "kappa": 0.8}
        >>> label = {"judges": {"good": "qwen", "good_2": "qwen"}, "pairs": [pair], "alpha": 0.8}
        >>> agreement_rows({"agreement": {"good": label}})[0][:4]
        ('good', 'qwen', 'qwen, asked again', 'repeat')
    """
    labels = (about.get("agreement") or {}).items()
    return [row for name, figures in labels if "judges" in figures for row in _rows_of(name, figures)]


def shown_figure(figure: float | None, form: str) -> str:
    """Return a figure in a format; ``unknown`` for one that could not be computed.

    Examples:
        >>> shown_figure(0.5, ".1%"), shown_figure(float("nan"), ".3f")
        ('50.0%', 'unknown')
    """
    return "unknown" if figure is None or math.isnan(figure) else format(figure, form)


def _rows_of(name: str, figures: Mapping[str, Any]) -> Iterator[AgreementRow]:
    models: Mapping[str, str] = figures["judges"]
    titles = dict(zip(models, _titles(list(models.values())), strict=True))
    for pair in figures["pairs"]:
        first, second = pair["first"], pair["second"]
        compared = "repeat" if models[first] == models[second] else "two judges"
        measured = pair["rows"], pair["equal"], pair["kappa"], figures["alpha"]
        yield AgreementRow(name, titles[first], titles[second], compared, *measured)


def _titles(models: Sequence[str]) -> list[str]:
    """Names of judges: repeats are numbered from the second on."""
    repeats = [models[:place].count(model) for place, model in enumerate(models)]
    ends = ("", ", asked again")
    return [
        model + (ends[repeat] if repeat < len(ends) else f"{ends[1]} ({repeat})")
        for model, repeat in zip(models, repeats, strict=True)
    ]

"""How far the judges of a run of ``dcurate label`` agree, and each with its own repeats, for the page of the run."""

from __future__ import annotations

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
        about: the manifest of the run, with ``agreement`` as `dcurate.learn.measure_agreement` gives it.

    Examples:
        >>> judge = {"kind": "Judge", "settings": {"model": "'qwen'"}}
        >>> pair = {"first": "good", "second": "good_2", "rows": 9, "equal": 0.9, "kappa": 0.8}
        >>> label = {"given": {"good": [4, 5], "good_2": [5, 4]}, "pairs": [pair], "alpha": 0.8}
        >>> agreement_rows({"stages": [judge, judge], "agreement": {"good": label}})[0][:4]
        ('good', 'qwen', 'qwen, asked again', 'repeat')
    """
    judges = [stage for stage in about.get("stages") or () if stage.get("kind") == "Judge"]
    models = [str(stage.get("settings", {}).get("model", "")).strip("'") for stage in judges]
    return [
        row
        for name, figures in (about.get("agreement") or {}).items()
        if len(figures["given"]) == len(models)
        for row in _rows_of(name, figures, models)
    ]


def _rows_of(name: str, figures: Mapping[str, Any], models: Sequence[str]) -> Iterator[AgreementRow]:
    columns = list(figures["given"])
    titles = [f"{model}, asked again" if model in models[:place] else model for place, model in enumerate(models)]
    for pair in figures["pairs"]:
        first, second = columns.index(pair["first"]), columns.index(pair["second"])
        compared = "repeat" if models[first] == models[second] else "two judges"
        measured = pair["rows"], pair["equal"], pair["kappa"], figures["alpha"]
        yield AgreementRow(name, titles[first], titles[second], compared, *measured)

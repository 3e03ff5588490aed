"""Policies over the columns of rights: which rows may be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError, listed
from dcurate.frames.columns import column_of, optional_values, rows_at, values, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.io.files import is_names
from dcurate.rights.fields import USES, Use
from dcurate.rights.find import licence_kind
from dcurate.rights.licences import GROUPS, is_allowed, is_known
from dcurate.rights.signals import PLACES
from dcurate.text.filter import Mask, Scores
from dcurate.text.number_filter import NumberFilter

Silence = Literal["keep", "drop"]


@dataclass(frozen=True)
class RightsFilter(NumberFilter):
    """Keep rows whose owners do not object to a use: a rule over the column ``rights_train`` or ``rights_search``.

    As `refilter` and `Annotate` take it, it can be applied to stored columns again, without the pages. For licences and
    for reasons in the report, use `FilterByRights`.

    Args:
        use: ``"train"`` or ``"search"``.
        silence: whether to ``"keep"`` or ``"drop"`` rows about which nothing is said.

    Raises:
        PipelineError: another use or value of ``silence``.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, ScoreFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"id": [1, 2], "rights_train": [True, False]}))
        >>> ScoreFilter(RightsFilter("train")).process(batch).to_pandas().id.tolist()
        [1]
    """

    use: Use = "train"
    silence: Silence = "keep"
    made_by = "FindRights()"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(type(self).__name__, self.use, self.silence)
        object.__setattr__(self, "column", f"rights_{self.use}")

    def keep(self, scores: Scores) -> Mask:
        """Return a mask of the answers to keep: 1 is allowed, 0 is not, and NaN is nothing said."""
        answers = np.asarray(scores, np.float64)
        return (answers > 0) | (np.isnan(answers) & (self.silence == "keep"))


@dataclass
class FilterByRights(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keep the rows that may be used, by the columns of `FindRights` alone.

    As it reads no page, another policy can be applied to stored rows at any time. Rows leave for one of a few reasons,
    which the report counts: ``train: header Content-Usage`` (the place where the use is refused; the first, if there
    are several), ``licence: not allowed``, ``train: nothing said``.

    Args:
        use: ``"train"`` or ``"search"``.
        licences: licences that are allowed: SPDX identifiers, addresses, and the groups ``"public-domain"``,
            ``"permissive"``, ``"open"`` (with share-alike) and ``"non-commercial"``, each with those before it. A row
            with several licences needs all of them to be allowed. None allows any.
        silence: whether to ``"keep"`` or ``"drop"`` rows where nothing is said: neither that the use is allowed, nor,
            with ``licences``, a licence.
        on_refused: ``"drop"`` rows that may not be used, or ``"flag"`` to keep them, with the reason in a column.
        reason_field: the column of ``on_refused="flag"``: the reason, null for rows that may be used.
        prefix: comes before the name of the columns that `FindRights` made.
        name: name of the stage.

    Raises:
        PipelineError: another value of ``use``, ``silence`` or ``on_refused``, or a licence that is unknown.
        DataError: a column is missing.

    Examples:
        >>> import pandas as pd
        >>> from dcurate.rights import FindRights
        >>> licensed = b"<link rel=license href=https://creativecommons.org/licenses/by/4.0/>"
        >>> pages = [licensed, b"<meta name=robots content=noai>"]
        >>> batch = FindRights().process(DocumentBatch(data=pd.DataFrame({"content": pages})))
        >>> kept = FilterByRights("train", licences=["open"], silence="drop").process(batch)
        >>> kept.num_items, [(gone.reason, gone.rows) for gone in kept.rejections]
        (1, [('train: html robots', 1)])
    """

    use: Use = "train"
    licences: Sequence[str] | None = None
    silence: Silence = "keep"
    on_refused: Literal["drop", "flag"] = "drop"
    reason_field: str = "rights_refused"
    prefix: str = "rights_"
    name: str = "filter_by_rights"

    def __post_init__(self) -> None:
        _check(self.name, self.use, self.silence)
        if self.on_refused not in ("drop", "flag"):
            raise PipelineError(f"{self.name}: on_refused={self.on_refused!r} must be 'drop' or 'flag'")
        if self.licences is not None and not is_names(self.licences):
            raise PipelineError(
                f"{self.name}: licences={self.licences!r} must be a list such as ['open', 'MIT'], or None for any"
            )
        for licence in self.licences or ():
            if licence not in GROUPS and "://" not in licence and not is_known(licence):
                raise PipelineError(
                    f"{self.name}: the licence {licence!r} is unknown; give an SPDX identifier such as 'CC-BY-4.0', an "
                    f"address, or one of the groups {listed(GROUPS)}"
                )

    def inputs(self) -> Spec:
        return ["data"], [f"{self.prefix}{self.use}", f"{self.prefix}licences"]

    def optional_inputs(self) -> Sequence[str]:
        return [f"{self.prefix}signals"]  # for reasons

    def outputs(self) -> Spec:
        return ["data"], [self.reason_field] if self.on_refused == "flag" else []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        answers = column_of(table, f"{self.prefix}{self.use}").to_pylist()
        licences = [names or [] for names in values(table, f"{self.prefix}licences")]
        signals = [texts or [] for texts in optional_values(table, f"{self.prefix}signals")]
        reasons = [self.reason(*row) for row in zip(answers, licences, signals, strict=True)]
        counts = counted(names for names, reason in zip(licences, reasons, strict=True) if not reason)
        if self.on_refused == "flag":
            table = with_text(table, self.reason_field, [reason or None for reason in reasons])
            return replace(task.with_data(table), found=counts)
        gone: dict[str, list[int]] = {}
        for row, reason in enumerate(reasons):
            if reason:
                gone.setdefault(reason, []).append(row)
        rejections = []
        for reason, rows in sorted(gone.items()):
            dropped = rows_at(table, np.array(rows, np.int64))
            rejections.append(Rejection(self.name, reason, dropped.num_rows, dropped.nbytes, dropped))
        kept = np.array([row for row, reason in enumerate(reasons) if not reason], np.int64)
        remaining = task.with_data(rows_at(table, kept) if gone else task.data)
        return replace(remaining, rejections=tuple(rejections), found=counts)

    def reason(self, answer: bool | None, licences: Sequence[str], signals: Sequence[str]) -> str:
        """Return why a row may not be used; empty if it may.

        Args:
            answer: whether the use is allowed; None if nothing is said.
            licences: its licences.
            signals: its signals, as `FindRights` writes them.
        """
        if answer is False:
            return f"{self.use}: {self._refused_at(signals)}"
        if self.licences is not None and not all(is_allowed(name, self.licences) for name in licences):
            return "licence: not allowed"
        is_silent = answer is None and not (self.licences is not None and licences)
        return f"{self.use}: nothing said" if is_silent and self.silence == "drop" else ""

    def _refused_at(self, signals: Iterable[str]) -> str:
        """The place of the first signal that refuses the use."""
        refusals = (text.partition(": ")[0] for text in signals if text.endswith(f" -> {self.use}=no"))
        return next((place for place in refusals if place in PLACES), "refused")


def counted(licences: Iterable[Sequence[str]]) -> Counter[str]:
    """Numbers of rows by licence, as a report counts them."""
    counts: Counter[str] = Counter()
    for names in licences:
        counts.update({licence_kind(name) for name in names} or {"no licence"})
    return counts


def _check(who: str, use: Any, silence: Any) -> None:
    if not isinstance(use, str) or use not in USES:
        raise PipelineError(f"{who}: use={use!r} must be one of {listed(USES)}")
    if not isinstance(silence, str) or silence not in get_args(Silence):
        raise PipelineError(f"{who}: silence={silence!r} must be 'keep' or 'drop'")

"""A filter with limits for each programming language and file extension."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from dcurate.errors import DataError, PipelineError, listed, nearest
from dcurate.kernels.members import letter_signals
from dcurate.kernels.source import source_signals
from dcurate.text.filter import Mask, Scores, SignalFilter, ratio
from dcurate.text.signals import Signals

Number = TypeVar("Number", int, float)

#: The name under which NeMo Curator ships the table of StarCoder; here it comes with the package.
_BUNDLED = "code_meta.csv"
_COLUMNS = ("language", "extension", "Include", "Long_line_threshold", "Alphanum_threshold", "Alpha filter")
#: Lines that are this long on average are too long wherever the longest has a limit.
_MEAN_LENGTH = 100
_SPELLED = {"c#": "c-sharp", "f#": "f-sharp"}


@dataclass(frozen=True)
class ExtensionLimits:
    r"""Limits for files of an extension; None is no limit.

    ``plain`` is a minimum share of the characters ``[a-zA-Z0-9\n?!,.]``, ``letters`` of those for which
    ``str.isalpha`` is true.
    """

    included: bool = False
    longest_line: int | None = None
    plain: float | None = None
    letters: float | None = None


@dataclass(frozen=True)
class PerExtensionFilter(SignalFilter):
    r"""Keep source code that is typical for its language and extension: it scores 1, other code 0 (StarCoder).

    An extension may be left out as a whole; one that the table does not list is. Others have a limit for the longest
    line, and with it one of 100 characters for the mean of all lines, and limits for the share of ``[a-zA-Z0-9\n?!,.]``
    and for that of letters. An empty text has neither.

    Args:
        language: the language, as ``c++`` or ``C#``; capitals do not matter.
        extension: the extension, with or without its dot; None or the empty string for files without.
        metadata_file: a table with columns language, extension, Include, Long_line_threshold, Alphanum_threshold and
            Alpha filter. ``code_meta.csv`` is the one that BigCode made for StarCoder, which comes with dcurate.

    Attributes:
        limits: the limits from the table, read when the filter is constructed.

    Raises:
        PipelineError: the table does not know the language.
        DataError: the table cannot be read, or has not all columns.

    Examples:
        >>> python = PerExtensionFilter("Python", ".py")
        >>> python.limits
        ExtensionLimits(included=True, longest_line=1000, plain=0.25, letters=None)
        >>> python.score_document("print('hello')"), python.score_document("#" * 101)
        (1, 0)
    """

    language: str
    extension: str | None
    metadata_file: str = _BUNDLED
    limits: ExtensionLimits = field(init=False, repr=False, compare=False)
    _name = "per_extension_filter"

    def __post_init__(self) -> None:
        super().__post_init__()
        lang = _SPELLED.get(self.language.lower(), self.language.lower().replace(" ", "-"))
        table = _table(self.metadata_file)
        if lang not in table:
            raise PipelineError(
                f"{self.name}: language={self.language!r} is not in {self.metadata_file}{nearest(lang, table)}"
            )
        limits = table[lang].get((self.extension or "").removeprefix("."), ExtensionLimits())
        object.__setattr__(self, "limits", limits)

    def score(self, signals: Signals) -> Scores:
        limits = self.limits
        if not limits.included:
            return np.zeros(len(signals), np.int64)
        good = np.ones(len(signals), np.bool_)
        if limits.longest_line:
            source = signals.of(source_signals)
            mean_length = (source.characters + 1) / source.lines - 1
            good &= (source.longest <= limits.longest_line) & (mean_length <= _MEAN_LENGTH)
        if limits.plain:
            good &= ratio(signals.characters.plain, signals.characters.total, 0.0) >= limits.plain
        if limits.letters:
            letters = signals.of(letter_signals)
            good &= letters.members >= limits.letters * letters.characters
        return good.astype(np.int64)

    def keep(self, scores: Scores) -> Mask:
        return np.not_equal(scores, 0)


def _table(path: str) -> dict[str, dict[str, ExtensionLimits]]:
    """Limits by language and extension."""
    place = Path(__file__).parents[2] / "bundled" / _BUNDLED if path == _BUNDLED else Path(path)
    try:
        with place.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, restval=""))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"per_extension_filter: {path} cannot be read ({error}); leave metadata_file out to use dcurate's table"
        ) from error
    missing = [column for column in _COLUMNS if not rows or column not in rows[0]]
    if missing:
        raise DataError(f"per_extension_filter: {path} has no column {listed(missing)}; it needs {listed(_COLUMNS)}")
    table: dict[str, dict[str, ExtensionLimits]] = {}
    for row in rows:
        table.setdefault(row["language"], {})[row["extension"]] = ExtensionLimits(
            included=row["Include"] == "1",
            longest_line=_limit(row["Long_line_threshold"], int),
            plain=_limit(row["Alphanum_threshold"], float),
            letters=_limit(row["Alpha filter"], float),
        )
    return table


def _limit(cell: str, kind: Callable[[str], Number]) -> Number | None:
    """The number in a cell; None for a word, an empty cell, or 0."""
    try:
        return kind(cell) or None
    except ValueError:
        return None

"""Choose which of several copies to keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import numbers, values
from dcurate.frames.text import text_column

Ranks = npt.NDArray[np.float64]


class Keep(ABC):
    """Choose which of several copies to keep: the smallest rank, among equal ranks the first in the source.

    The choice depends only on the rows, not on the number of workers or the partitioning of files.

    Examples:
        >>> from dcurate import ExactDuplicates, Highest
        >>> ExactDuplicates(keep=Highest("score")).keep
        Highest(column='score')
    """

    @abstractmethod
    def ranks(self, table: Any, text_field: str) -> Ranks:
        """A number for each row.

        Args:
            table: the rows, as an Arrow table.
            text_field: the column of texts.

        Raises:
            DataError: there is no such column, or it holds something else.
        """

    def columns(self, text_field: str) -> list[str]:
        """The columns that the choice depends on."""
        return []


@dataclass(frozen=True)
class First(Keep):
    """Keep the first in the order of the source.

    Examples:
        >>> import pyarrow as pa
        >>> First().ranks(pa.table({"text": ["a", "b"]}), "text").tolist()
        [0.0, 0.0]
    """

    def ranks(self, table: Any, text_field: str) -> Ranks:
        return np.zeros(table.num_rows)


@dataclass(frozen=True)
class Longest(Keep):
    """Keep the longest text, in bytes of UTF-8.

    Examples:
        >>> import pyarrow as pa
        >>> Longest().ranks(pa.table({"text": ["a", "bcd", None]}), "text").tolist()
        [-1.0, -3.0, 0.0]
    """

    def ranks(self, table: Any, text_field: str) -> Ranks:
        return -np.diff(text_column(table, text_field).offsets).astype(np.float64) + 0.0

    def columns(self, text_field: str) -> list[str]:
        return [text_field]


@dataclass(frozen=True)
class Highest(Keep):
    """Keep the row with the highest value in a column of numbers; rows without a value come last.

    Examples:
        >>> import pyarrow as pa
        >>> Highest("score").ranks(pa.table({"score": [0.5, None, 2.0]}), "text").tolist()
        [-0.5, inf, -2.0]
    """

    column: str

    def ranks(self, table: Any, text_field: str) -> Ranks:
        return _last_if_missing(-numbers(table, self.column).astype(np.float64))

    def columns(self, text_field: str) -> list[str]:
        return [self.column]


@dataclass(frozen=True)
class Lowest(Keep):
    """Keep the row with the lowest value in a column of numbers; rows without a value come last.

    Examples:
        >>> import pyarrow as pa
        >>> Lowest("perplexity").ranks(pa.table({"perplexity": [30, 20]}), "text").tolist()
        [30.0, 20.0]
    """

    column: str

    def ranks(self, table: Any, text_field: str) -> Ranks:
        return _last_if_missing(numbers(table, self.column).astype(np.float64))

    def columns(self, text_field: str) -> list[str]:
        return [self.column]


@dataclass(frozen=True)
class Preferred(Keep):
    """Keep the row whose value is named first; other values come last.

    Args:
        column: such as the source of a document.
        order: its values, the most wanted first.

    Examples:
        >>> import pyarrow as pa
        >>> Preferred("source", ["books", "web"]).ranks(pa.table({"source": ["web", "mail", "books"]}), "text").tolist()
        [1.0, 2.0, 0.0]
    """

    column: str
    order: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", tuple(self.order))

    def ranks(self, table: Any, text_field: str) -> Ranks:
        places = {value: place for place, value in reversed(list(enumerate(self.order)))}
        return np.array([places.get(value, len(self.order)) for value in values(table, self.column)], np.float64)

    def columns(self, text_field: str) -> list[str]:
        return [self.column]


_NAMED: dict[str, Keep] = {"first": First(), "longest": Longest()}


def keep_of(wanted: str | Keep, stage: str) -> Keep:
    """A rule, or the one of that name.

    Raises:
        PipelineError: there is none of that name.

    Examples:
        >>> keep_of("longest", "exact_duplicates")
        Longest()
    """
    if isinstance(wanted, Keep):
        return wanted
    if wanted not in _NAMED:
        raise PipelineError(
            f"{stage}: keep={wanted!r} is no rule{nearest(str(wanted), list(_NAMED))}; and by a column "
            "Highest('score'), Lowest('perplexity'), Preferred('source', ['books', 'web'])"
        )
    return _NAMED[wanted]


def _last_if_missing(ranks: Ranks) -> Ranks:
    return np.where(np.isnan(ranks), np.inf, ranks)

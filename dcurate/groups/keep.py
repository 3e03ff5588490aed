"""Choose which of several copies to keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import numbers, values, with_column
from dcurate.frames.moments import parts_of_numbers
from dcurate.frames.text import text_column

Ranks = npt.NDArray[np.float64]

#: Columns of entries of rows that are compared.
RANK, _REST = "rank", "rank_rest"


class Keep(ABC):
    """Choose which of several copies to keep: the smallest rank, among equal ranks the first in the source.

    The choice depends only on the rows, not on the number of workers or the partitioning of files.

    Examples:
        >>> from dcurate import ExactDuplicates
        >>> from dcurate.dedup import Highest
        >>> ExactDuplicates(keep=Highest("score")).keep
        Highest(column='score')
    """

    in_recipes: ClassVar[bool] = True

    #: Whether values may have more digits than a rank.
    has_rests: ClassVar[bool] = False

    @abstractmethod
    def ranks(self, table: Any, text_field: str) -> Ranks:
        """A number for each row.

        Args:
            table: the rows, as an Arrow table.
            text_field: the column of texts.

        Raises:
            DataError: there is no such column, or it holds something else.
        """

    def rests(self, table: Any) -> Ranks:
        """Return the part of each value that a rank cannot hold; it decides among equal ranks if `has_rests`."""
        return np.zeros(table.num_rows)

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
    """Keep the row with the highest value in a column of numbers, dates or times; rows without a value come last.

    Whole numbers are compared with all of their digits, and decimals with 31. Texts are dates or times in ISO 8601,
    such as ``"2024-05-06"`` or ``"2024-05-06T07:08:09Z"``.

    Examples:
        >>> import pyarrow as pa
        >>> Highest("score").ranks(pa.table({"score": [0.5, None, 2.0]}), "text").tolist()
        [-0.5, inf, -2.0]
        >>> from dcurate import DocumentBatch, ExactDuplicates, InlineExecutor, Pipeline
        >>> rows = pa.table({"text": ["a", "a"], "fetched": ["2024-05-06", "2025-01-02"]})
        >>> pipeline = Pipeline("newest", stages=[ExactDuplicates(keep=Highest("fetched"))])
        >>> pipeline.run(InlineExecutor(), [DocumentBatch(data=rows)], observers=[]).to_arrow()["fetched"].to_pylist()
        ['2025-01-02']
    """

    column: str

    has_rests: ClassVar[bool] = True

    def ranks(self, table: Any, text_field: str) -> Ranks:
        return _last_if_missing(-parts_of_numbers(table, self.column).rounded)

    def rests(self, table: Any) -> Ranks:
        return -parts_of_numbers(table, self.column).rest

    def columns(self, text_field: str) -> list[str]:
        return [self.column]


@dataclass(frozen=True)
class Lowest(Keep):
    """Keep the row with the lowest value in a column of numbers, dates or times; see `Highest`.

    Examples:
        >>> import pyarrow as pa
        >>> Lowest("perplexity").ranks(pa.table({"perplexity": [30, 20]}), "text").tolist()
        [30.0, 20.0]
    """

    column: str

    has_rests: ClassVar[bool] = True

    def ranks(self, table: Any, text_field: str) -> Ranks:
        return _last_if_missing(parts_of_numbers(table, self.column).rounded)

    def rests(self, table: Any) -> Ranks:
        return parts_of_numbers(table, self.column).rest

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


def with_ranks(entries: Any, rule: Keep, table: Any, text_field: str, rows: Any = slice(None)) -> Any:
    """Return entries with the ranks of the rows that they are of.

    Args:
        entries: a table with an entry for each of some rows.
        rule: rule that ranks them.
        table: the rows.
        text_field: the column of texts.
        rows: numbers of the rows of the entries; all by default.
    """
    entries = with_column(entries, RANK, rule.ranks(table, text_field)[rows])
    return with_column(entries, _REST, rule.rests(table)[rows]) if rule.has_rests else entries


def with_rank(entries: Any, rule: Keep, rank: float) -> Any:
    """Return entries that all have the same rank, in the columns of `with_ranks`."""
    entries = with_column(entries, RANK, np.full(entries.num_rows, rank))
    return with_column(entries, _REST, np.zeros(entries.num_rows)) if rule.has_rests else entries


def ranks_in(entries: Any) -> Ranks:
    """Return the ranks of entries among each other; those without any are alike.

    Examples:
        >>> import pyarrow as pa
        >>> rows = pa.table({"n": [2**53, 2**53 + 1]})
        >>> ranks_in(with_ranks(pa.table({"row": [0, 1]}), Highest("n"), rows, "text")).tolist()
        [1.0, 0.0]
    """
    if RANK not in entries.column_names:
        return np.zeros(entries.num_rows)
    ranks = numbers(entries, RANK)
    if _REST not in entries.column_names or not len(ranks):
        return ranks
    rests = numbers(entries, _REST)
    order = np.lexsort((rests, ranks))
    differs = (ranks[order[1:]] != ranks[order[:-1]]) | (rests[order[1:]] != rests[order[:-1]])
    places = np.empty(len(ranks))
    places[order] = np.concatenate([[0], np.cumsum(differs)])
    return places


def _last_if_missing(ranks: Ranks) -> Ranks:
    return np.where(np.isnan(ranks), np.inf, ranks)

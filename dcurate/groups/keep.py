"""Choose which of several copies to keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, nearest, shown
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
            DataError: the column does not exist, or holds something else.
        """

    def rests(self, table: Any) -> Ranks:
        """Return the part of each value that a rank cannot hold; it decides among equal ranks if `has_rests`."""
        return np.zeros(table.num_rows)

    def all_ranks(self, table: Any, text_field: str) -> list[Ranks]:
        """Return the ranks, and what decides among equal ones, in the order in which they decide."""
        return [self.ranks(table, text_field), *([self.rests(table)] if self.has_rests else [])]

    @property
    def depth(self) -> int:
        """The number of `all_ranks`."""
        return 1 + self.has_rests

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


@dataclass(frozen=True)
class _RulesInTurn(Keep):
    """Several rules, of which the next decides where those before it give equal ranks."""

    rules: tuple[Keep, ...]

    def ranks(self, table: Any, text_field: str) -> Ranks:
        return self.rules[0].ranks(table, text_field)

    def all_ranks(self, table: Any, text_field: str) -> list[Ranks]:
        return [ranks for rule in self.rules for ranks in rule.all_ranks(table, text_field)]

    @property
    def depth(self) -> int:
        return sum(rule.depth for rule in self.rules)

    def columns(self, text_field: str) -> list[str]:
        return list(dict.fromkeys(column for rule in self.rules for column in rule.columns(text_field)))


_NAMED: dict[str, Keep] = {"first": First(), "longest": Longest()}


def keep_of(
    wanted: str | Keep | Sequence[str | Keep], stage: str, named: Mapping[str, Keep] = MappingProxyType(_NAMED)
) -> Keep:
    """A rule, the one of that name, or several in turn.

    Args:
        wanted: what a person asks for.
        stage: name of the stage, for the error.
        named: rules by name.

    Raises:
        PipelineError: there is none of that name.

    Examples:
        >>> keep_of("longest", "exact_duplicates")
        Longest()
        >>> keep_of([Highest("year"), "longest"], "exact_duplicates").columns("text")
        ['year', 'text']
    """
    if isinstance(wanted, Keep):
        return wanted
    if isinstance(wanted, list | tuple) and wanted:
        return _RulesInTurn(tuple(keep_of(rule, stage, named) for rule in wanted))
    if not isinstance(wanted, str) or wanted not in named:
        text = repr(wanted) if isinstance(wanted, str) else shown(wanted)
        raise PipelineError(
            f"{stage}: keep={text} is not a rule{nearest(str(wanted), list(named))}; and by a column "
            "Highest('score'), Lowest('perplexity'), Preferred('source', ['books', 'web'])"
        )
    return named[wanted]


def with_ranks(entries: Any, rule: Keep, table: Any, text_field: str, rows: Any = slice(None)) -> Any:
    """Return entries with the ranks of the rows that they are of.

    Args:
        entries: a table with an entry for each of some rows.
        rule: rule that ranks them.
        table: the rows.
        text_field: the column of texts.
        rows: numbers of the rows of the entries; all by default.
    """
    for place, ranks in enumerate(rule.all_ranks(table, text_field)):
        entries = with_column(entries, _rank_column(place), ranks[rows])
    return entries


def with_rank(entries: Any, rule: Keep, rank: float) -> Any:
    """Return entries that all have the same rank, in the columns of `with_ranks`."""
    entries = with_column(entries, RANK, np.full(entries.num_rows, rank))
    for place in range(1, rule.depth):
        entries = with_column(entries, _rank_column(place), np.zeros(entries.num_rows))
    return entries


def ranks_in(entries: Any) -> Ranks:
    """Return the ranks of entries among each other; those without any are alike.

    Examples:
        >>> import pyarrow as pa
        >>> rows = pa.table({"n": [2**53, 2**53 + 1]})
        >>> ranks_in(with_ranks(pa.table({"row": [0, 1]}), Highest("n"), rows, "text")).tolist()
        [1.0, 0.0]
    """
    ranks: list[Ranks] = []
    while (column := _rank_column(len(ranks))) in entries.column_names:
        ranks.append(numbers(entries, column))
    if len(ranks) < 2 or not entries.num_rows:
        return ranks[0] if ranks else np.zeros(entries.num_rows)
    order = np.lexsort(ranks[::-1])
    differs = np.logical_or.reduce([column[order[1:]] != column[order[:-1]] for column in ranks])
    places = np.empty(entries.num_rows)
    places[order] = np.concatenate([[0], np.cumsum(differs)])
    return places


def _rank_column(place: int) -> str:
    """The column of the ranks that decide in this place."""
    return (RANK, _REST)[place] if place < 2 else f"{RANK}_{place}"


def _last_if_missing(ranks: Ranks) -> Ranks:
    return np.where(np.isnan(ranks), np.inf, ranks)

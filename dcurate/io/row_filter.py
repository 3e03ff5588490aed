"""`RowFilter`: which rows a reader yields, and which files and row groups cannot hold any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from dcurate.core.stage import SkippedInput
from dcurate.errors import DataError, PipelineError, shown
from dcurate.io.sql_arrow import as_expression
from dcurate.io.sql_text import Condition, columns_of, parsed_condition

#: A millisecond or more, in units of a timestamp: statistics may hold times without their last digits.
_TICK = {"s": 1, "ms": 1, "us": 1000, "ns": 1_000_000}
_SHOWN = 200
#: What a reader counts of what it does not read.
GROUPS, GROUP_BYTES = "row groups left out by the filter", "bytes left out by the filter"


class Bounds(NamedTuple):
    """What is known of the values of a column in a file or row group.

    Args:
        least: a value that none is below, other than NaN; None if it is not known.
        greatest: a value that none is above.
        has_nulls: whether there may be nulls.
        all_null: whether there is nothing else.
        is_constant: whether all values are ``least``.
    """

    least: pa.Scalar | None = None
    greatest: pa.Scalar | None = None
    has_nulls: bool = True
    all_null: bool = False
    is_constant: bool = False

    @classmethod
    def of_constant(cls, value: pa.Scalar) -> Bounds:
        """The bounds of a column that has one value."""
        return cls(value, value, has_nulls=False, is_constant=True) if value.is_valid else cls(all_null=True)

    def widened(self) -> Bounds:
        """The bounds, of times a millisecond apart from those given."""
        low, high = self.least, self.greatest
        if low is None or high is None or not pa.types.is_timestamp(low.type):
            return self
        tick = _TICK[low.type.unit]
        try:
            return self._replace(
                least=pa.scalar(low.value - tick, low.type), greatest=pa.scalar(high.value + tick, low.type)
            )
        except (OverflowError, TypeError, pa.ArrowInvalid):
            return self._replace(least=None, greatest=None)


@dataclass(frozen=True)
class RowFilter:
    """A condition on rows: SQL text, or an expression of Arrow.

    Args:
        given: text of an SQL condition, or a `pyarrow.compute.Expression`.
        what: name of the setting, for errors.

    Raises:
        PipelineError: it is neither.

    Examples:
        >>> rows = pa.table({"a": [1, None, 3]})
        >>> for condition in ("a > 1", "NOT a > 1", pc.field("a").is_null()):
        ...     RowFilter(condition, "filter").matching(rows)["a"].to_pylist()
        [3]
        [1]
        [None]
    """

    given: Any
    what: str

    def __post_init__(self) -> None:
        if isinstance(self.given, str):
            _ = self._condition
        elif not isinstance(self.given, pc.Expression):
            raise PipelineError(
                f"{self.what}={shown(self.given)} must be an SQL condition such as \"lang = 'en'\", or an expression "
                "such as pyarrow.compute.field('lang') == 'en'"
            )
        elif self._is_bound_to_places:
            raise PipelineError(f"{self.what}: give columns by their names, pyarrow.compute.field('lang')")

    @cached_property
    def _condition(self) -> Condition:
        return parsed_condition(self.given, self.what)

    @property
    def _is_bound_to_places(self) -> bool:
        try:
            _scanned(pa.table({}), self.given)
        except (pa.ArrowException, TypeError) as error:
            return "FieldPath" in str(error)
        return False

    @property
    def text(self) -> str:
        """The condition in a sentence, shortened."""
        text = " ".join(str(self.given).split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

    @property
    def settings(self) -> str:
        """Text that is the same for equal conditions only."""
        if isinstance(self.given, str):
            return self.given
        _, (buffer,) = self.given.__reduce__()
        return f"{self.text} #{hashlib.blake2b(buffer.to_pybytes(), digest_size=16).hexdigest()}"

    def columns(self, schema: pa.Schema) -> list[str]:
        """Return the names of the columns that it looks at; those of SQL also if the schema lacks them."""
        if isinstance(self.given, str):
            names = ((".".join(c.parts) if str(c) in schema.names else c.parts[0]) for c in columns_of(self._condition))
            return list(dict.fromkeys(names))
        empty = schema.empty_table()
        return [name for name in schema.names if not self._binds(empty.drop_columns([name]))]

    def _binds(self, rows: pa.Table) -> bool:
        try:
            _scanned(rows, self.given)
        except (pa.ArrowException, TypeError):
            return False
        return True

    def check(self, schema: pa.Schema) -> None:
        """Refuse a condition that does not suit columns of these types.

        Raises:
            DataError: it does not.
        """
        self._mask(schema.empty_table())

    def matching(self, rows: pa.Table) -> pa.Table:
        """Return the rows for which it is true, in order.

        Raises:
            DataError: the columns do not suit it.
        """
        return rows.filter(self._mask(rows))

    def _mask(self, rows: pa.Table) -> pa.ChunkedArray:
        visible = rows.select([name for name in dict.fromkeys(rows.column_names) if rows.column_names.count(name) == 1])
        names = [name for name in self.columns(visible.schema) if name in visible.column_names]
        try:
            mask = _scanned(visible.select(names or visible.column_names[:1]), self._expression(visible.schema))
        except (pa.ArrowException, TypeError) as error:
            problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise DataError(f"{self.what}={self.text!r} does not suit the columns: {problem}") from error
        if not pa.types.is_boolean(mask.type):
            raise DataError(
                f"{self.what}={self.text!r} gives {mask.type}, and not true or false; compare it with a value"
            )
        return mask

    def _expression(self, schema: pa.Schema) -> pc.Expression:
        if isinstance(self.given, str):
            return as_expression(self._condition, schema, self.what)
        return self.given

    def may_match(self, pieces: Sequence[Mapping[str, Bounds]], schema: pa.Schema) -> list[bool]:
        """Return for each file or row group whether it may hold a row for which the condition is true.

        Args:
            pieces: what is known of the columns of each, by name.
            schema: types of the columns, as rows are read.

        Raises:
            DataError: the columns do not suit it.
        """
        import pyarrow.dataset as ds  # noqa: PLC0415 - it loads pandas, which most runs do not need

        exact = isinstance(self.given, str)
        guarantees = [_guarantee(bounds, schema, exact) for bounds in pieces]
        form, disk = ds.ParquetFileFormat(), pyarrow.fs.LocalFileSystem()
        fragments = [
            form.make_fragment(str(number), filesystem=disk, partition_expression=guarantee)
            for number, guarantee in enumerate(guarantees)
        ]
        expression = self._expression(schema)
        try:
            dataset = ds.FileSystemDataset(fragments, schema, form, disk)
            possible = {int(fragment.path) for fragment in dataset.get_fragments(filter=expression)}
        except (pa.ArrowException, TypeError):
            return [True] * len(pieces)  # `check` says what is wrong with it
        return [number in possible for number in range(len(pieces))]

    def may_match_constants(self, pieces: Sequence[Mapping[str, pa.Scalar]]) -> list[bool] | None:
        """Return the same where nothing but some constant columns is known, as from the names of folders.

        None if that takes the types of other columns, too.
        """
        kinds = {name: value.type for values in pieces for name, value in values.items()}
        bounds = [{name: Bounds.of_constant(value) for name, value in values.items()} for values in pieces]
        if isinstance(self.given, str):
            others = {column.parts[0] for column in columns_of(self._condition)} - kinds.keys()
            expression = as_expression(self._condition, pa.schema(kinds), self.what, unknown=others)
            return RowFilter(expression, self.what).may_match(bounds, pa.schema(kinds))
        schema = pa.schema(kinds)
        return self.may_match(bounds, schema) if kinds and self._binds(schema.empty_table()) else None


def _guarantee(bounds: Mapping[str, Bounds], schema: pa.Schema, exact: bool) -> pc.Expression:
    """What holds for all rows of a piece.

    Args:
        exact: whether the condition is false for NaN, of which statistics do not know.
    """
    holds = [
        guarantee
        for name, known in bounds.items()
        if name in schema.names and (guarantee := _of_column(name, known, schema.field(name).type, exact)) is not None
    ]
    made = pc.scalar(True)
    for guarantee in holds:
        made = guarantee if made.equals(pc.scalar(True)) else made & guarantee
    return made


def _of_column(name: str, bounds: Bounds, kind: pa.DataType, exact: bool) -> pc.Expression | None:
    column = pc.field(name)
    if bounds.all_null:
        return column.is_null()
    if pa.types.is_floating(kind) and not exact:
        return None
    limits = [_in_type(limit, kind) for limit in (bounds.least, bounds.greatest)]
    if limits[0] is None or limits[1] is None:
        return None
    low, high = limits
    if bounds.is_constant:
        return column == low
    if not bounds.has_nulls:
        return (column >= low) & (column <= high)
    # Arrow understands one limit at a time where there may be nulls, and these second.
    return ((column >= low) | column.is_null()) & ((column <= high) | column.is_null())


def _in_type(limit: pa.Scalar | None, kind: pa.DataType) -> pa.Scalar | None:
    """A bound in the type in which rows are read; None if values might change their order with the type."""
    if limit is None or not limit.is_valid or (pa.types.is_floating(limit.type) and limit.as_py() != limit.as_py()):
        return None
    if limit.type == kind:
        return limit
    is_ = pa.types
    texts = (is_.is_string, is_.is_large_string, is_.is_string_view)
    numbers = (is_.is_integer, is_.is_floating)
    alike = (
        (any(test(limit.type) for test in texts) and any(test(kind) for test in texts))
        or (any(test(limit.type) for test in numbers) and any(test(kind) for test in numbers) and is_.is_floating(kind))
        or (is_.is_integer(limit.type) and is_.is_integer(kind))
        or (is_.is_timestamp(limit.type) and is_.is_timestamp(kind) and limit.type.tz == kind.tz)
    )
    if not alike:
        return None
    try:
        return limit.cast(kind, safe=not is_.is_floating(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _scanned(rows: pa.Table, expression: pc.Expression) -> pa.ChunkedArray:
    """What an expression gives for each row, in order."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - as above

    made = ds.InMemoryDataset(rows).scanner(columns={"": expression}, use_threads=False).to_table()
    return made.column(0)


def skipped_files(condition: RowFilter, skipped: SkippedInput) -> str:
    """Return a sentence on files that are not read.

    Examples:
        >>> skipped_files(RowFilter("n = 1", "filter"), SkippedInput(3, 300, 4, 400))
        "filter 'n = 1' leaves 3 of 4 files unread (300 of 400 bytes); rows left out do not count as input"
    """
    return (
        f"filter {condition.text!r} leaves {skipped.files:,} of {skipped.all_files:,} files unread "
        f"({skipped.nbytes:,} of {skipped.all_bytes:,} bytes); rows left out do not count as input"
    )


def skipped_groups(found: Mapping[str, int]) -> list[str]:
    """Return a sentence on row groups that were not read, of what readers counted."""
    if not found.get(GROUPS):
        return []
    return [
        f"the filter left {found[GROUPS]:,} row groups unread ({found[GROUP_BYTES]:,} bytes); rows left out do not "
        "count as input"
    ]

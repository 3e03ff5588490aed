"""Conditions of SQL as expressions of Arrow, for columns of given types."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError, listed
from dcurate.io.sql_text import All, Column, Compared, Condition, Flag, Like, Listed, Literal, Null

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
_FALSE = partial(pc.scalar, False)
_TRUE = partial(pc.scalar, True)


def as_expression(condition: Condition, schema: pa.Schema, what: str, unknown: Collection[str] = ()) -> pc.Expression:
    """Return an expression that is true for the rows for which a condition is true, and false or null for the others.

    No comparison with null or NaN is true. Text is compared by its bytes in UTF-8, and never as a number. Numbers are
    compared exactly, with floats as the column holds them.

    Args:
        condition: parsed text.
        schema: types of the columns.
        what: name of the setting, for errors.
        unknown: names of columns of which nothing is known: what is said of them counts as true.

    Raises:
        DataError: a column is missing, or has a type that cannot be compared so.

    Examples:
        >>> from dcurate.io.sql_text import parsed_condition
        >>> print(as_expression(parsed_condition("n < 1.5", "filter"), pa.schema({"n": pa.int64()}), "filter"))
        (n < 2)
    """
    return _Compiler(schema, what, unknown).of(condition)


class _Compiler:
    def __init__(self, schema: pa.Schema, what: str, unknown: Collection[str]) -> None:
        self._schema, self._what, self._unknown = schema, what, unknown

    def of(self, condition: Condition) -> pc.Expression:
        """The expression of a condition."""
        if isinstance(condition, All):
            return _joined([self.of(part) for part in condition.parts], condition.some)
        if self._is_unknown(condition):
            return _TRUE()
        if isinstance(condition, Compared):
            return self._compared(condition)
        if isinstance(condition, Listed):
            return self._listed(condition)
        if isinstance(condition, Like):
            return self._like(condition)
        if isinstance(condition, Null):
            return self._null(condition)
        return self._flag(condition)

    def _is_unknown(self, condition: Compared | Listed | Like | Null | Flag) -> bool:
        sides = (condition.left, condition.right) if isinstance(condition, Compared) else (condition.operand,)
        return any(isinstance(side, Column) and side.parts[0] in self._unknown for side in sides)

    def _column(self, column: Column) -> tuple[pc.Expression, pa.DataType]:
        """The expression of a column, and its type."""
        if str(column) in self._schema.names:
            return pc.field(str(column)), self._schema.field(str(column)).type
        first, *inner = column.parts
        if first not in self._schema.names:
            raise DataError(f"{self._what} names a column {first!r}; name one of {listed(self._schema.names)}")
        kind = self._schema.field(first).type
        for name in inner:
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                raise DataError(f"{self._what} names {str(column)!r}, but {kind} has no field {name!r}")
            kind = kind.field(name).type
        return pc.field(*column.parts), kind

    def _compared(self, condition: Compared) -> pc.Expression:
        left, right, sign = condition.left, condition.right, condition.sign
        if isinstance(left, Literal) and isinstance(right, Literal):
            return self._of_literals(left, sign, right)
        if isinstance(left, Literal):
            return self._compared(condition.mirrored)
        column, kind = self._column(left)
        if isinstance(right, Literal):
            return self._with_literal(left, column, kind, sign, right)
        other, other_kind = self._column(right)
        if pa.types.is_null(kind) or pa.types.is_null(other_kind):
            return _FALSE()
        if _family(kind) != _family(other_kind) or not _family(kind):
            raise self._unlike(left, kind, f"column {str(right)!r}, which is {other_kind}")
        made = _COMPARE[sign](column, other)
        for side, side_kind in ((column, kind), (other, other_kind)):
            made = made & ~pc.is_nan(side) if sign == "!=" and pa.types.is_floating(side_kind) else made
        return made

    def _of_literals(self, left: Literal, sign: str, right: Literal) -> pc.Expression:
        if left.value is None or right.value is None:
            return _FALSE()
        if type(left.value) is not type(right.value):
            raise DataError(f"{self._what} compares {left} with {right}; compare values of one kind")
        return pc.scalar(bool(_COMPARE[sign](_comparable(left.value), _comparable(right.value))))

    def _with_literal(
        self, name: Column, column: pc.Expression, kind: pa.DataType, sign: str, literal: Literal
    ) -> pc.Expression:
        if literal.value is None or pa.types.is_null(kind):
            return _FALSE()
        if isinstance(literal.value, Decimal) and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            return _with_number(column, kind, sign, literal.value)
        made = _COMPARE[sign](column, self._scalar(name, kind, literal))
        return made & ~pc.is_nan(column) if sign == "!=" and pa.types.is_floating(kind) else made

    def _listed(self, condition: Listed) -> pc.Expression:
        values = [value for value in condition.values if value.value is not None]
        if condition.negated and len(values) < len(condition.values):
            return _FALSE()  # what is not in a list with a null may be that null
        if isinstance(condition.operand, Literal):
            sign = "!=" if condition.negated else "="
            parts = [self._of_literals(condition.operand, sign, value) for value in values]
            return _joined(parts, some=not condition.negated)
        column, kind = self._column(condition.operand)
        if pa.types.is_null(kind):
            return _FALSE()
        scalars = [scalar for value in values for scalar in self._equals(condition.operand, kind, value)]
        inside = column.isin(pa.array(scalars, kind)) if scalars else _FALSE()
        if not condition.negated:
            return inside
        outside = column.is_valid() & ~inside
        return outside & ~pc.is_nan(column) if pa.types.is_floating(kind) else outside

    def _equals(self, name: Column, kind: pa.DataType, literal: Literal) -> list[pa.Scalar]:
        """The value of a column that equals a literal, if there is one."""
        if not isinstance(literal.value, Decimal) or not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            return [self._scalar(name, kind, literal)]
        exact = Fraction(literal.value) * 10 ** _scale(kind)
        low, high = _limits(kind)
        return [_number(int(exact), kind)] if exact.denominator == 1 and low <= exact <= high else []

    def _like(self, condition: Like) -> pc.Expression:
        if isinstance(condition.operand, Literal):
            raise DataError(f"{self._what}: LIKE takes a column, and {condition.operand} is a value")
        column, kind = self._column(condition.operand)
        if pa.types.is_null(kind):
            return _FALSE()
        if _family(kind) != "text":
            raise self._unlike(condition.operand, kind, f"the pattern {condition.pattern!r}")
        pattern = _pattern(condition.pattern, condition.escape, self._what)
        made = pc.match_substring_regex(column, pattern, ignore_case=condition.ignore_case)
        return ~made if condition.negated else made

    def _null(self, condition: Null) -> pc.Expression:
        if isinstance(condition.operand, Literal):
            return pc.scalar((condition.operand.value is None) is not condition.negated)
        column, _ = self._column(condition.operand)
        return column.is_valid() if condition.negated else column.is_null()

    def _flag(self, condition: Flag) -> pc.Expression:
        if isinstance(condition.operand, Literal):
            if not isinstance(condition.operand.value, bool | None):
                raise DataError(f"{self._what}: {condition.operand} alone is not a condition; compare a column with it")
            return pc.scalar(condition.operand.value is (not condition.negated))
        column, kind = self._column(condition.operand)
        if pa.types.is_null(kind):
            return _FALSE()
        if not pa.types.is_boolean(kind):
            raise DataError(
                f"{self._what}: column {str(condition.operand)!r} is {kind}, and no condition alone; compare it with "
                "a value"
            )
        return ~column if condition.negated else column

    def _scalar(self, name: Column, kind: pa.DataType, literal: Literal) -> pa.Scalar:
        """A literal in the type of a column."""
        value, family = literal.value, _family(kind)
        fits = {"text": str, "time": str, "number": Decimal, "bool": bool}.get(family)
        if fits is None or not isinstance(value, fits) or (literal.kind and family != "time"):
            raise self._unlike(name, kind, str(literal))
        if family == "number":
            return pa.scalar(float(str(value))).cast(kind, safe=False)
        if family != "time":
            return pa.scalar(value, kind)
        try:
            return _moment(str(value), kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise self._unlike(name, kind, str(literal)) from error

    def _unlike(self, name: Column, kind: pa.DataType, other: str) -> DataError:
        advice = "compare it with a value of its type"
        if _family(kind) == "text":
            advice = (
                f"write the value in single quotes, or give the column a type with schema={{{str(name)!r}: 'int64'}}"
            )
        elif _family(kind) == "time":
            advice = "write the value as '2026-11-28' or '2026-11-28 12:30:00'"
        return DataError(f"{self._what} compares column {str(name)!r}, which is {kind}, with {other}; {advice}")


def _with_number(column: pc.Expression, kind: pa.DataType, sign: str, value: Decimal) -> pc.Expression:
    """Whole numbers or decimals compared with any number, exactly."""
    exact = Fraction(value) * 10 ** _scale(kind)
    low, high = _limits(kind)
    if sign in ("=", "!=") and exact.denominator != 1:
        return _FALSE() if sign == "=" else column.is_valid()
    limit = math.ceil(exact) if sign in ("<", ">=") else math.floor(exact)
    if low <= limit <= high:
        return _COMPARE[sign](column, _number(limit, kind))
    always = sign == "!=" or (limit > high) is (sign in ("<", "<="))
    return column.is_valid() if always and sign != "=" else _FALSE()


def _number(unscaled: int, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_integer(kind):
        return pa.scalar(unscaled, kind)
    digits = tuple(map(int, str(abs(unscaled))))
    return pa.scalar(Decimal((int(unscaled < 0), digits, -kind.scale)), kind)


def _scale(kind: pa.DataType) -> int:
    return kind.scale if pa.types.is_decimal(kind) else 0


def _limits(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of a type, of a decimal without its point."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if pa.types.is_signed_integer(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return 0, 2**kind.bit_width - 1


def _moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """A date or time of text; one without a zone is in UTC."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        naive = pa.timestamp(kind.unit)
        try:
            return pa.scalar(pa.scalar(text).cast(naive).value, kind)
        except pa.ArrowInvalid:
            return pa.scalar(text).cast(kind)
    return pa.scalar(text).cast(kind)


def _comparable(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _family(kind: pa.DataType) -> str:
    """What values of a type can be compared with; empty for those that cannot be compared."""
    is_ = pa.types
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return "text"
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind):
        return "number"
    if is_.is_timestamp(kind) or is_.is_date(kind) or is_.is_time(kind):
        return "time"
    return "bool" if is_.is_boolean(kind) else ""


def _pattern(like: str, escape: str, what: str) -> str:
    """A pattern of LIKE as a regular expression."""
    parts, plain = [], iter(like)
    for char in plain:
        if escape and char == escape:
            escaped = next(plain, "")
            if not escaped:
                raise DataError(f"{what}: the pattern {like!r} ends with its escape character; write it twice")
            parts.append(re.escape(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
    return f"(?s)^{''.join(parts)}$"


def _joined(parts: list[pc.Expression], some: bool) -> pc.Expression:
    """The conditions joined as a balanced tree, which stays shallow for many."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [left | right if some else left & right for left, right in pairs] + parts[len(parts) // 2 * 2 :]
    return parts[0] if parts else pc.scalar(not some)

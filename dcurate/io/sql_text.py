"""Parse the condition of an SQL ``WHERE`` clause: a small grammar, read in one pass, that runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from dcurate.errors import PipelineError

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+"|`[^`]+`)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=|>=|<>|!=|==|[=<>().,+-])
    )""",
    re.VERBOSE,
)
#: Words that are not names of columns unless they are quoted.
_KEYWORDS = frozenset(["and", "or", "not", "is", "null", "in", "between", "like", "ilike", "true", "false", "escape"])
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
#: Parentheses within each other.
_DEEPEST = 50
#: Comparisons in a condition: Arrow recurses over them.
_MOST = 1000
#: Characters of a condition; digits of a number, and its exponent.
_LONGEST, _LARGEST = 10**6, 400
_SHOWN = 60


class Column(NamedTuple):
    """A column, or a field within one, by the parts of its name."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


class Literal(NamedTuple):
    """A value: text, a number, true, false or null; ``kind`` is ``"date"`` or ``"timestamp"`` where it was named."""

    value: str | Decimal | bool | None
    kind: str = ""

    def __str__(self) -> str:
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


Operand: TypeAlias = Column | Literal


@dataclass(frozen=True)
class All:
    """A condition that is true where all of its parts are; with ``some``, where at least one is."""

    parts: tuple[Condition, ...]
    some: bool = False


@dataclass(frozen=True)
class Compared:
    """Two operands compared: ``<``, ``<=``, ``>``, ``>=``, ``=`` or ``!=``."""

    left: Operand
    sign: str
    right: Operand

    @property
    def mirrored(self) -> Compared:
        """The same with its operands exchanged."""
        return Compared(self.right, _MIRRORED[self.sign], self.left)


@dataclass(frozen=True)
class Listed:
    """Whether an operand is, or is not, one of several values."""

    operand: Operand
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True)
class Like:
    """Whether text matches, or does not match, a pattern in which ``%`` is any text and ``_`` any character."""

    operand: Operand
    pattern: str
    escape: str = ""
    ignore_case: bool = False
    negated: bool = False


@dataclass(frozen=True)
class Null:
    """Whether an operand is, or is not, null."""

    operand: Operand
    negated: bool = False


@dataclass(frozen=True)
class Flag:
    """Whether an operand is true, or, negated, false."""

    operand: Operand
    negated: bool = False


Condition: TypeAlias = All | Compared | Listed | Like | Null | Flag


@lru_cache(maxsize=64)
def parsed_condition(text: str, what: str) -> Condition:
    """Return a condition without negations: they are moved to the comparisons, as by De Morgan's laws.

    These hold with nulls, too, so a condition is true for the same rows, and false and null are equal here
    in what is returned.

    Args:
        text: condition, as after ``WHERE``.
        what: name of the setting, for the error.

    Raises:
        PipelineError: it is not such a condition.

    Examples:
        >>> parsed_condition("NOT (a < 1 OR b.c IS NULL)", "filter").parts
        (Compared(left=Column(parts=('a',)), sign='>=', right=Literal(value=Decimal('1'), kind='')), \
Null(operand=Column(parts=('b', 'c')), negated=True))
    """
    if len(text) > _LONGEST:
        raise PipelineError(
            f"{what} has {len(text):,} characters; it may have {_LONGEST:,}: keep the rows with a stage instead"
        )
    return _SqlParser(text, what).condition()


def columns_of(condition: Condition) -> Iterator[Column]:
    """Yield the columns that a condition looks at, those in several places several times."""
    if isinstance(condition, All):
        for part in condition.parts:
            yield from columns_of(part)
        return
    sides = (condition.left, condition.right) if isinstance(condition, Compared) else (condition.operand,)
    yield from (side for side in sides if isinstance(side, Column))


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _SqlParser:
    """Reads tokens from left to right; each method reads one rule of the grammar."""

    def __init__(self, text: str, what: str) -> None:
        self._text, self._what = text, what
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0
        self._count = 0

    def condition(self) -> Condition:
        """The condition that all tokens are."""
        made = self._either(negated=False)
        if self._now.kind:
            raise self._error("the end, AND or OR")
        return made

    def _split(self) -> Iterator[_Token]:
        at, end = 0, len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None:
                start = at + len(self._text[at:]) - len(self._text[at:].lstrip())
                raise self._refusal(start, f"{_short(self._text[start:])} is not SQL that is read here")
            kind = match.lastgroup or ""
            yield _Token(kind, match[kind], match.start(kind))
            at = match.end()
        yield _Token("", "", end)

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _is_word(self, *words: str) -> bool:
        return self._now.kind == "word" and self._now.text.lower() in words

    def _took(self, *words: str) -> bool:
        """Whether the next token is one of these words or signs; it is read then."""
        if self._is_word(*words) or (self._now.kind == "sign" and self._now.text in words):
            self._at += 1
            return True
        return False

    def _need(self, word: str) -> None:
        if not self._took(word):
            raise self._error(word.upper())

    def _either(self, negated: bool) -> Condition:
        parts = [self._both(negated)]
        while self._took("or"):
            parts.append(self._both(negated))
        return parts[0] if len(parts) == 1 else All(tuple(parts), some=not negated)

    def _both(self, negated: bool) -> Condition:
        parts = [self._single(negated)]
        while self._took("and"):
            parts.append(self._single(negated))
        return parts[0] if len(parts) == 1 else All(tuple(parts), some=negated)

    def _single(self, negated: bool) -> Condition:
        while self._took("not"):
            negated = not negated
        if not self._took("("):
            return self._comparison(negated)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._refusal(self._now.start, f"more than {_DEEPEST} parentheses are within each other")
        made = self._either(negated)
        self._need(")")
        self._depth -= 1
        return made

    def _comparison(self, negated: bool) -> Condition:
        self._count += 1
        if self._count > _MOST:
            raise self._refusal(self._now.start, f"there are more than {_MOST:,} comparisons; list values with IN")
        left = self._operand()
        if self._took("is"):
            negated ^= self._took("not")
            self._need("null")
            return Null(left, negated)
        if self._now.kind == "sign" and self._now.text in ("<", "<=", ">", ">=", "=", "==", "!=", "<>"):
            sign = {"==": "=", "<>": "!="}.get(self._now.text, self._now.text)
            self._at += 1
            return Compared(left, _NEGATED[sign] if negated else sign, self._operand())
        has_not = self._took("not")
        negated ^= has_not
        if self._took("in"):
            return Listed(left, self._values(), negated)
        if self._took("between"):
            low = self._operand()
            self._need("and")
            bounds = Compared(left, ">=", low), Compared(left, "<=", self._operand())
            if negated:
                bounds = Compared(left, "<", low), Compared(left, ">", bounds[1].right)
            return All(bounds, some=negated)
        if self._is_word("like", "ilike"):
            return self._like(left, negated)
        if has_not:
            raise self._error("IN, BETWEEN or LIKE")
        return Flag(left, negated)

    def _like(self, left: Operand, negated: bool) -> Like:
        ignore_case = self._now.text.lower() == "ilike"
        self._at += 1
        pattern, escape = self._literal_text(), ""
        if self._took("escape"):
            escape = self._literal_text()
            if len(escape) != 1:
                raise self._refusal(self._now.start, f"ESCAPE {escape!r} must be one character")
        return Like(left, pattern, escape, ignore_case, negated)

    def _literal_text(self) -> str:
        token = self._now
        if token.kind != "text":
            raise self._error("text in single quotes")
        self._at += 1
        return token.text[1:-1].replace("''", "'")

    def _values(self) -> tuple[Literal, ...]:
        self._need("(")
        values = []
        while True:
            value = self._operand()
            if isinstance(value, Column):
                raise self._refusal(self._now.start, f"IN takes values, and {value} is a column")
            values.append(value)
            if not self._took(","):
                break
        self._need(")")
        return tuple(values)

    def _operand(self) -> Operand:
        token = self._now
        if token.kind == "text":
            return Literal(self._literal_text())
        negative = token.text == "-"
        if negative or token.text == "+":
            self._at += 1
        if self._now.kind == "number":
            return self._number(negative)
        if token.text in ("-", "+"):
            raise self._error("a number")
        word = token.text.lower() if token.kind == "word" else ""
        if word in ("true", "false", "null"):
            self._at += 1
            return Literal({"true": True, "false": False}.get(word))
        if word in ("date", "timestamp") and self._tokens[self._at + 1].kind == "text":
            self._at += 1
            return Literal(self._literal_text(), word)
        return self._column()

    def _number(self, negative: bool) -> Literal:
        token = self._now
        self._at += 1
        number = Decimal(token.text)
        if len(token.text) > _LARGEST or abs(number.adjusted()) > _LARGEST:
            raise self._refusal(token.start, f"the number {_short(token.text)} is too large or too small")
        return Literal(number.copy_negate() if negative else number)

    def _column(self) -> Column:
        parts = [self._name()]
        while self._took("."):
            parts.append(self._name())
        if self._now.text == "(":
            raise self._refusal(
                self._now.start, f"{parts[0]} is a function, and none is read; compute a column in a stage instead"
            )
        return Column(tuple(parts))

    def _name(self) -> str:
        token = self._now
        if token.kind == "quoted":
            self._at += 1
            return token.text[1:-1].replace('""', '"') if token.text[0] == '"' else token.text[1:-1]
        if token.kind == "word" and token.text.lower() not in _KEYWORDS:
            self._at += 1
            return token.text
        raise self._error("a column or a value")

    def _error(self, wanted: str) -> PipelineError:
        there = _short(self._now.text) if self._now.kind else "the end"
        return self._refusal(self._now.start, f"{there} is where {wanted} should be")

    def _refusal(self, start: int, problem: str) -> PipelineError:
        return PipelineError(
            f"{self._what}={_short(self._text)}: at character {start + 1}, {problem}; write a condition such as "
            "\"lang = 'en' AND (score >= 0.5 OR score IS NULL)\", names in double quotes if they need any"
        )


def _short(text: str) -> str:
    """Text in quotes on one line, cut where it is long."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")

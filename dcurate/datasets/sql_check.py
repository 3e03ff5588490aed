"""Check expressions of SQL before they run: each must be a function of one row, and of nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import orjson

from dcurate.core.extras import needed
from dcurate.datasets.sql_names import FUNCTIONS, OTHER_NAMES, TAKE_LAMBDAS
from dcurate.errors import PipelineError, nearest, shown
from dcurate.frames.sql import EXTRA, SETTINGS

#: Characters of an expression, and brackets within each other: the parser takes time that grows with their square.
_LONGEST, _DEEPEST = 10_000, 100
_SHOWN = 60
_STATEMENT = re.compile(r"\s*(SELECT|FROM|WHERE|WITH)\s", re.IGNORECASE)
_TOO_DEEP = "expression depth limit"
#: Kinds of nodes of a parsed expression that depend on their children alone.
_KINDS = {
    *("BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA"),
    *("LAMBDAREF", "OPERATOR", "TYPE"),
}
#: Operators that do not.
_NOT_OF_ROWS = frozenset(["GROUPING_FUNCTION", "OPERATOR_UNPACK", "OPERATOR_INTERNAL"])
#: What the other kinds are, in words.
_WORDS = {
    "COLLATE": "COLLATE",
    "DEFAULT": "DEFAULT",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a column by its number",
    "STAR": "*",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
}


@dataclass(frozen=True)
class Expression:
    """An expression that was checked.

    Args:
        text: what was given.
        columns: names of the columns that it reads.
    """

    text: str
    columns: tuple[str, ...]


def checked_expression(text: Any, what: str) -> Expression:
    """Parse an expression and refuse one that depends on more than its row.

    Args:
        text: the expression.
        what: name of the setting, for errors.

    Raises:
        PipelineError: it is not an expression, or may not run.
        ResourceError: DuckDB is not installed.

    Examples:
        >>> checked_expression("len(string_split(text, ' ')) + list_sum([x.n for x in parts])", "columns").columns
        ('text', 'parts')
        >>> checked_expression("sum(n)", "columns")
        Traceback (most recent call last):
        dcurate.errors.PipelineError: columns='sum(n)' calls sum(), which may depend on more than the values of its row
    """
    if not isinstance(text, str) or not text.strip():
        raise PipelineError(
            f"{what}={shown(text)} must be an expression of SQL, such as \"len(string_split(text, ' '))\""
        )
    given = f"{what}={text if len(text) <= _SHOWN else text[:_SHOWN] + '...'!r}"
    if len(text) > _LONGEST or _depth(text) > _DEEPEST:
        raise PipelineError(
            f"{given} has more than {_LONGEST:,} characters or {_DEEPEST} brackets within each other; write it in "
            "parts, of a stage each"
        )
    if _STATEMENT.match(text):
        raise PipelineError(f"{given} must be one expression, without SELECT, FROM and WHERE")
    return Expression(text, tuple(dict.fromkeys(_Check(given).columns(_parsed(text, given)))))


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _parsed(text: str, given: str) -> dict[str, Any]:
    """The tree of an expression, alone in the parentheses in which it runs."""
    query = f'SELECT (\n{text}\n) AS "0"'
    [answer] = _parser().cursor().execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    try:
        tree = orjson.loads(answer)
    except orjson.JSONDecodeError:
        tree = {"error": True, "error_message": _TOO_DEEP}
    if tree["error"]:
        problem = " ".join(str(tree.get("error_message", "syntax error")).split())
        if _TOO_DEEP in problem:
            raise PipelineError(f"{given} is nested too deeply; write it in parts, of a stage each")
        raise PipelineError(f"{given} is not an expression of SQL: {problem}; {_advice(problem)}")
    nodes = [statement["node"] for statement in tree["statements"]]
    if len(nodes) != 1 or not _is_bare(nodes[0]):
        raise PipelineError(f"{given} must be one expression, without FROM, WHERE and the like")
    [expression] = nodes[0]["select_list"]
    return dict(expression)


def _advice(problem: str) -> str:
    """What to change in a text that DuckDB cannot parse."""
    if 'near ")"' in problem:
        return "something is missing before it, or a name there is a word of SQL, which takes double quotes"
    if 'near "AS"' in problem or "end of input" in problem:
        return "close all brackets"
    if 'near ";"' in problem:
        return "leave out the semicolon"
    return "write names that are words of SQL in double quotes"


def _is_bare(node: Mapping[str, Any]) -> bool:
    """Whether a statement is ``SELECT`` with one expression and nothing else."""
    clauses = ("where_clause", "group_expressions", "group_sets", "having", "sample", "qualify", "modifiers")
    return (
        node["type"] == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and node["from_table"]["type"] == "EMPTY"
        and not any(node[clause] for clause in clauses)
        and not node["cte_map"]["map"]
    )


@lru_cache(1)
def _parser() -> Any:
    return needed("duckdb", "SQL expressions", EXTRA).connect(config=SETTINGS)


class _Check:
    """Walks over the tree of an expression.

    Args:
        given: the setting and the expression, for errors.
    """

    def __init__(self, given: str) -> None:
        self._given = given

    def columns(self, node: Any, names: frozenset[str] = frozenset(), *, in_list: bool = False) -> Iterator[str]:
        """Yield the names of the columns that are read.

        Args:
            node: a node of the tree, or any value in one.
            names: those of parameters of lambdas around it.
            in_list: whether the node is an argument of a function that takes a lambda.

        Raises:
            PipelineError: the node is of no allowed kind.
        """
        if isinstance(node, list):
            for inner in node:
                yield from self.columns(inner, names, in_list=in_list)
        if not isinstance(node, dict):
            return
        kind = node.get("class")
        if kind == "LAMBDA" and in_list:
            parameters = frozenset(name.lower() for name in _Check(self._given).columns(node["lhs"]))
            yield from self.columns(node["expr"], names | parameters)
            return
        if kind == "COLUMN_REF":
            first = node["column_names"][0]
            if first.lower() not in names:
                yield first
            return
        if kind is not None:
            self._check(kind, node)
        takes_lambda = kind == "FUNCTION" and node["function_name"].lower() in TAKE_LAMBDAS
        for inner in node.values():
            yield from self.columns(inner, names, in_list=takes_lambda or (in_list and kind is None))

    def _check(self, kind: str, node: Mapping[str, Any]) -> None:
        if kind not in _KINDS or node.get("type") in _NOT_OF_ROWS:
            problem = _WORDS.get(kind, str(node.get("type", kind)))
            raise PipelineError(f"{self._given} has {problem}; an expression is a function of the values of one row")
        if kind != "FUNCTION":
            return
        name, *prefix = node["function_name"], *filter(None, (node.get("catalog"), node.get("schema")))
        if prefix:
            value = ".".join(prefix).removesuffix(".str")  # of pandas
            raise PipelineError(f"{self._given} calls {name}() with a dot; write {name}({value}, ...)")
        if name.lower() not in FUNCTIONS:
            raise PipelineError(f"{self._given} calls {name.removesuffix('_star')}(), which {_problem(name)}")


def _problem(name: str) -> str:
    """What is wrong with a function that may not be called."""
    query = "SELECT count(*) FROM duckdb_functions() WHERE lower(function_name) = lower(?)"
    [count] = _parser().cursor().execute(query, [name]).fetchone()
    if count:
        return "may depend on more than the values of its row"
    meant = OTHER_NAMES.get(name.lower()) or next(iter(get_close_matches(name.lower(), FUNCTIONS, n=1)), "")
    return f"DuckDB does not have{nearest(meant, filter(None, [meant]))}"

"""Comments and docstrings of Python source, by the grammar of the running Python."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Iterator

#: Where strings and comments begin and end in source that can be parsed.
_STRING_OR_COMMENT = re.compile(
    r"""
    (\#[^\r\n]*)
    | \"\"\" [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* \"\"\"
    | ''' [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* '''
    | " [^"\\]* (?: \\. [^"\\]* )* "
    | ' [^'\\]* (?: \\. [^'\\]* )* '
    """,
    re.VERBOSE | re.DOTALL,
)
#: From Python 3.12 on, formatted strings hold expressions that may hold such strings and comments again.
_FORMATTED = re.compile(r"""\b(?:[ft]r?|r[ft])["']""", re.IGNORECASE)
_NESTS = sys.version_info >= (3, 12)

_NAME = "<dcurate document>"
_SILENCE = ("ignore", None, Warning, re.compile(re.escape(_NAME)), 0)
#: Errors that the parser raises for text that is not Python; it may also run out of stack.
_NOT_PYTHON = (SyntaxError, tokenize.TokenError, ValueError, RecursionError, MemoryError)


def documentation_length(source: str) -> int:
    r"""Characters of all comments, with their ``#``, and of all docstrings, joined by newlines.

    Docstrings are cleaned as ``ast.get_docstring`` does it; those of asynchronous functions do not count, as in NeMo
    Curator. Source that cannot be parsed has none.

    Examples:
        >>> documentation_length("def f():\n    '''Two.'''  # one\n")
        9
        >>> documentation_length("def f(")
        0
    """
    try:
        tree = _parsed(source)
        comments = list(_comments(source))
    except _NOT_PYTHON:
        return 0
    docstrings = [text for text in _docstrings(tree) if text]
    return sum(map(len, comments)) + sum(map(len, docstrings)) + max(len(docstrings) - 1, 0)


def comments_of(source: str) -> list[str] | None:
    """The comments without their ``#``; None if the source cannot be tokenized.

    Examples:
        >>> comments_of("x = '#'  # one")
        [' one']
        >>> comments_of("x = (")
    """
    try:
        return [comment[1:] for comment in _tokenized(source.removeprefix("\ufeff"))]
    except _NOT_PYTHON:
        return None


def _parsed(source: str) -> ast.Module:
    # The filter is by file name, and so touches nobody else's warnings; catch_warnings would, in other threads.
    if _SILENCE not in warnings.filters:
        warnings.filterwarnings("ignore", module=re.escape(_NAME))
    tree = compile(source, _NAME, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return tree


def _comments(source: str) -> Iterator[str]:
    if _NESTS and _FORMATTED.search(source):
        return _tokenized(source)
    return (match[1] for match in _STRING_OR_COMMENT.finditer(source) if match[1])


def _tokenized(source: str) -> Iterator[str]:
    if _NESTS and "\0" in source:  # Python 3.12.1 raises the error of that at a random place
        raise SyntaxError("source code cannot contain null bytes")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return (token.string for token in tokens if token.type == tokenize.COMMENT)


def _docstrings(tree: ast.Module) -> Iterator[str | None]:
    """Docstrings of the module, classes and functions; only statements are visited."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node)
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending.extend(getattr(node, block, ()))

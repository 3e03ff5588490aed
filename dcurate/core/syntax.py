"""Read and parse Python source, in one thread at a time.

CPython 3.11 counts the depth of the parser over all threads together: of two that parse, one may end in a SystemError.
"""

from __future__ import annotations

import ast
import inspect
import threading
from typing import Any

_parsing = threading.RLock()


def parsed(source: str) -> ast.Module:
    """Parse Python source.

    Raises:
        SyntaxError: it is not Python.

    Examples:
        >>> len(parsed("a = 1; b = 2").body)
        2
    """
    with _parsing:
        return ast.parse(source)


def source_of(value: Any) -> str:
    """Return the source of a class, function or code object; to find a class, Python parses its module.

    Raises:
        OSError: the source is not known.
        TypeError: the value has none.

    Examples:
        >>> source_of(parsed).splitlines()[0]
        'def parsed(source: str) -> ast.Module:'
    """
    with _parsing:
        return inspect.getsource(value)

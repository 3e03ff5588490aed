"""Columns that rows carry through a run for dcurate itself."""

from __future__ import annotations

from collections.abc import Iterable

from dcurate.errors import listed
from dcurate.rows.lines import LINE
from dcurate.rows.origins import ORIGINS

#: Their names.
HIDDEN = frozenset((LINE, *ORIGINS))


def columns_listed(names: Iterable[str]) -> str:
    """Quote and join the names of columns for an error sentence, without those that are dcurate's own.

    Examples:
        >>> columns_listed(["text", "_dcurate_line"])
        "'text'"
    """
    return listed(visible(names))


def visible(names: Iterable[str]) -> list[str]:
    """The names of columns, without those that are dcurate's own."""
    return [name for name in names if name not in HIDDEN]

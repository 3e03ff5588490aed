"""HTML out of the templates in `dcurate/ui/templates`, which escape all text that they print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from rich.filesize import decimal

from dcurate.runs.text import many, number_text, seconds_text
from dcurate.ui.profile_table import share
from dcurate.ui.report.blocks import brief
from dcurate.ui.svg import clock


def render(template: str, /, **values: Any) -> str:
    """Fill in a template."""
    return _environment().get_template(template).render(values)


def labelled(rows: str, heads: Sequence[str]) -> Markup:
    """Give each ``<td>`` of a table's rows the head of its column, for screens too narrow for columns.

    Examples:
        >>> labelled("<tr><th>read</th><td>8</td></tr>", ("stage", "documents"))
        Markup('<tr><th>read</th><td data-head="documents">8</td></tr>')
    """

    def row(found: re.Match[str]) -> str:
        column = iter(heads)

        def cell(tag: re.Match[str]) -> str:
            head = next(column, "")
            return f'<td data-head="{escape(head)}"' if head and tag[0] == "<td" else tag[0]

        return re.sub(r"<t[dh]\b", cell, found[0])

    return Markup(re.sub(r"<tr\b.*?</tr>", row, rows, flags=re.S))


def breakable(text: object) -> Markup:
    """Let a line of code end after a separator, so that no name in it is broken.

    Examples:
        >>> breakable("min_words=5")
        Markup('min_<wbr>words=<wbr>5')
    """
    parts = re.split(r"(?<=[/(,=_?&])", str(text))
    return Markup("<wbr>").join(parts)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("dcurate.ui"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "breakable": breakable,
        "brief": brief,
        "clock": clock,
        "count": "{:,}".format,
        "labelled": labelled,
        "many": many,
        "nbytes": decimal,
        "number": number_text,
        "seconds": seconds_text,
        "width": "{:.2%}".format,
    }
    found.globals["share"] = share
    return found

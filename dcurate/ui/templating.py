"""HTML out of the templates in `dcurate/ui/templates`, which escape all text that they print."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from rich.filesize import decimal

from dcurate.runs.text import many, number_text, seconds_text
from dcurate.ui.profile_table import share
from dcurate.ui.report.blocks import brief
from dcurate.ui.svg import clock


def render(template: str, /, **values: Any) -> str:
    """Fill in a template."""
    return _environment().get_template(template).render(values)


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
        "brief": brief,
        "clock": clock,
        "count": "{:,}".format,
        "many": many,
        "nbytes": decimal,
        "number": number_text,
        "seconds": seconds_text,
        "width": "{:.2%}".format,
    }
    found.globals["share"] = share
    return found

"""HTML out of the templates in `dcurate/ui/templates`, which escape all text that they print."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined, select_autoescape
from jinja2.bccache import Bucket
from markupsafe import Markup, escape
from rich.filesize import decimal

from dcurate.fs.temporary import own_folder
from dcurate.runs.text import many, number_text, seconds_text
from dcurate.ui.profile_table import share
from dcurate.ui.report.blocks import brief
from dcurate.ui.svg import clock

#: The beginning of a section of a page.
_SECTION = re.compile(r"""<section(?: id=["'](?P<name>[^"']+)["'])?><h2>(?P<title>[^<]*)</h2>""")


class _TemplateCache(FileSystemBytecodeCache):
    """Templates as compiled by an earlier run: compiling them takes half a second of CPU.

    They are kept beside the package, as Python's own bytecode is, or in a folder that nobody else may write to.
    """

    def __init__(self) -> None:
        package = Path(__file__).parent
        folder = package / "__pycache__" if os.access(package, os.W_OK) else own_folder("templates")
        folder.mkdir(exist_ok=True)
        super().__init__(str(folder), "template-%s.cache")

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):  # a full disk, or the folder is gone: it is compiled again next time
            super().dump_bytecode(bucket)


def render(template: str, /, **values: Any) -> str:
    """Fill in a template."""
    return _environment().get_template(template).render(values)


def framed(page: str, title: str, height: int) -> str:
    """A page in a frame of its own, so that its style and a notebook's leave each other alone; height in pixels."""
    style = f"width: 100%; height: {height}px; border: 0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}" title="{escape(title)}"></iframe>'


def labelled(rows: str, heads: Sequence[str]) -> Markup:
    """Give each ``<td>`` of a table's rows the head of its column, for screens too narrow for columns.

    Examples:
        >>> labelled("<tr><th>read</th><td>8</td></tr>", ("stage", "documents"))
        Markup('<tr><th>read</th><td data-head="documents">8</td></tr>')
    """

    def row(match: re.Match[str]) -> str:
        column = iter(heads)

        def cell(tag: re.Match[str]) -> str:
            head = next(column, "")
            return f'<td data-head="{escape(head)}"' if head and tag[0] == "<td" else tag[0]

        return re.sub(r"<t[dh]\b", cell, match[0])

    return Markup(re.sub(r"<tr\b.*?</tr>", row, rows, flags=re.S))


def with_contents(main: str) -> Markup:
    """Put links to the sections of a page behind its header, if it has three or more; a phone shows them.

    Examples:
        >>> page = "<header></header><section><h2>One</h2></section><section id='2'><h2>Two</h2></section>"
        >>> with_contents(page) == page
        True
        >>> with_contents(page + "<section><h2>What</h2></section>")[:60]
        Markup('<header></header><details class="contents"><summary>Contents')
    """
    sections = [section for section in _SECTION.finditer(main) if section["title"]]
    if len(sections) < 3 or "</header>" not in main:
        return Markup(main)
    links, parts, end = [], [], 0
    for number, section in enumerate(sections):
        name = section["name"] or f"part-{number}"
        links.append(f'<a href="#{name}">{section["title"]}</a>')
        parts += [main[end : section.start()], f'<section id="{name}"><h2>{section["title"]}</h2>']
        end = section.end()
    whole = "".join([*parts, main[end:]])
    contents = f'<details class="contents"><summary>Contents</summary><nav>{"".join(links)}</nav></details>'
    return Markup(whole.replace("</header>", f"</header>{contents}", 1))


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
    environment = Environment(
        loader=PackageLoader("dcurate.ui"),
        bytecode_cache=_TemplateCache(),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
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
        "with_contents": with_contents,
    }
    environment.globals["share"] = share
    return environment

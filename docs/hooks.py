"""What the site does to pages: commands and names from the code, names that lead to the reference and may break."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dcurate.cli import cli

HERE = "<!-- commands -->"
#: The place of the public names that a module defines, such as ``<!-- names of dcurate.text.filters.words -->``.
NAMES = re.compile(r"^<!-- names of (dcurate\.\w+)\.([\w.]+) -->$", re.MULTILINE)
PACKAGE = Path(__file__).parents[1]
#: The page of the reference that lists a public name.
PLACES = {
    name: page.stem
    for page in Path(__file__).parent.glob("reference/*.md")
    for name in re.findall(r"^::: dcurate\.(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
}
SKIPPED_OR_NAME = re.compile(
    r"<a\b.*?</a>|<h\d\b.*?</h\d>|<pre\b.*?</pre>|<code>(?P<name>\w+)(?:\(\))?</code>", re.DOTALL
)
CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")


def on_config(config: Any) -> Any:
    """The site, with the pages of modules in the navigation, as the index of the reference lists them."""
    [reference] = [entry["Reference"] for entry in config.nav if "Reference" in entry]
    index = (PACKAGE / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    pages = re.findall(r"^\| \[`([\w.]+)`\]\((\w+\.md)\)", index, re.MULTILINE)
    reference += [{name: f"reference/{page}"} for name, page in pages]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page, with every command in the place of ``<!-- commands -->``, and names in that of `NAMES`."""
    markdown = NAMES.sub(lambda place: names_in(place[1], place[2]), markdown)
    return markdown.replace(HERE, commands(cli, "dcurate")) if HERE in markdown else markdown


def names_in(subject: str, module: str) -> str:
    """The entries of the public names of a subject that one of its modules defines, from its ``__init__.pyi``."""
    listed = (PACKAGE / subject.replace(".", "/") / "__init__.pyi").read_text(encoding="utf-8")
    names = re.findall(rf"^from \.{re.escape(module)} import \w+ as (\w+)$", listed, re.MULTILINE)
    return "\n\n".join(f"::: {subject}.{name}" for name in names)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """The page, in which public names lead to the reference, and long names in tables may go on in the next line."""
    content = SKIPPED_OR_NAME.sub(linked("../" * page.url.count("/")), content)
    return re.sub(r"<td[ >].*?</td>", lambda cell: CODE.sub(breakable, cell[0]), content, flags=re.DOTALL)


def linked(up: str) -> Callable[[re.Match[str]], str]:
    """Link public names, except in links, headings and code blocks."""

    def link(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in PLACES:
            return found[0]
        return f'<a href="{up}reference/{PLACES[name]}/#dcurate.{name}">{found[0]}</a>'

    return link


def breakable(code: re.Match[str]) -> str:
    """Code that may break behind a bracket or a dot."""
    return re.sub(r"(?<=[(.])(?=[A-Za-z_])", "<wbr>", code[0])


def commands(group: click.Group, name: str) -> str:
    """The commands of a group as Markdown, in order of their names, those of groups in it too."""
    parts = []
    for called, command in sorted(group.commands.items()):
        whole = f"{name} {called}"
        parts.append(commands(command, whole) if isinstance(command, click.Group) else section(command, whole))
    return "\n".join(parts)


def section(command: click.Command, name: str) -> str:
    """One command: how it is called, what it does, its options."""
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    about = inspect.cleandoc(command.help or "").replace("\b\n", "")
    options = [option for option in command.params if isinstance(option, click.Option)]
    rows = [row(*found) for option in options if (found := option.get_help_record(context))]
    return "\n".join(
        [f"## {name}", "", f"```console\n$ {usage}\n```", "", about, "", "| option | |", "|---|---|", *rows, ""]
    )


def row(option: str, about: str) -> str:
    """One row of a table of options."""
    shown = option.replace("|", r"\|")
    return f"| `{shown}` | {html.escape(about).replace('|', '&#124;').replace('[', '&#91;')} |"

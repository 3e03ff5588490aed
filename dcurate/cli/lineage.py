"""``dcurate lineage``: which runs made an output, of what."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

import click

import dcurate.runs
from dcurate.cli.group import cli, console, debug_option
from dcurate.cli.runs import write_file, write_json
from dcurate.runs import Lineage
from dcurate.ui.lineage_page import lineage_page, lineage_svg

_Command = Callable[..., None]

_FILES = (
    click.option("--html", metavar="FILE", help="Write a self-contained page with the graph."),
    click.option("--svg", metavar="FILE", help="Write the graph as a picture."),
    click.option("--dot", metavar="FILE", help="Write the graph for Graphviz; - for standard output."),
    click.option("--json", metavar="FILE", help="Write the graph as JSON; - for standard output."),
)
_DOCUMENTS = (
    click.option("--row", metavar="ID", multiple=True, help="Follow a document back to its source; repeatable."),
    click.option("--token", metavar="SHARD:OFFSET", multiple=True, help="Follow that of a token; repeatable."),
    click.option(
        "--id-field", metavar="COLUMN", help="The column with ids, if it is not called id, doc_id, url or so."
    ),
)


def _options(command: _Command) -> _Command:
    """Give a command ``files`` to write, by their kinds, and ``documents`` to follow: ids, tokens, column of ids."""

    @wraps(command)
    def wrapped(
        *,
        row: tuple[str, ...],
        token: tuple[str, ...],
        id_field: str | None,
        output: str,
        check: bool,
        **others: Any,
    ) -> None:
        hash_bytes = others.pop("hash_bytes")
        documents = {"ids": row, "tokens": token, "id_field": id_field}
        command(output=output, check=check, hash_bytes=hash_bytes, files=others, documents=documents)

    return reduce(lambda inner, option: option(inner), reversed([*_FILES, *_DOCUMENTS]), wrapped)


@cli.command("lineage", short_help="Show which runs made an output, of what.")
@click.argument("output")
@click.option("--check/--no-check", default=True, help="Compare files with the versions that were read.")
@click.option(
    "--hash", "hash_bytes", is_flag=True, help="Read the input files of OUTPUT, for a SHA-256 of their bytes."
)
@debug_option
@_options
def show_lineage(
    *, output: str, check: bool, hash_bytes: bool, files: dict[str, str | None], documents: dict[str, Any]
) -> None:
    """Show which runs made an output, and what each of them read, back to files that no run made.

    OUTPUT is the output directory of a run, local or a URL such as s3://bucket/out. Files that changed, or are gone,
    since they were read are named. With --row or --token only the way of these documents is shown, and exit code 1 says
    that one was not followed to its source.
    """
    if documents["ids"] or documents["tokens"]:
        ways = dcurate.runs.way_back(output, **documents)
        if files["json"] != "-":
            console().print(ways)
        write_json(files["json"], ways.to_dict())
        click.get_current_context().exit(0 if all(way.complete for way in ways.ways) else 1)
    graph = dcurate.runs.lineage(output, check=check, hash_bytes=hash_bytes)
    if "-" not in (files["json"], files["dot"]):
        console().print(graph)
    drawn: dict[str, Callable[[Lineage], str]] = {"html": lineage_page, "svg": lineage_svg, "dot": Lineage.dot}
    for kind, draw in drawn.items():
        path = files[kind]
        if path == "-":
            click.echo(draw(graph), nl=False)
        elif path is not None:
            write_file(path, draw(graph).encode())
    write_json(files["json"], graph.to_dict())

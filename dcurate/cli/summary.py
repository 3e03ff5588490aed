"""``dcurate summary``: the public summary of training content."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click
import orjson

import dcurate.runs
from dcurate.cli.group import cli, console, debug_option
from dcurate.cli.runs import write_file, write_json
from dcurate.core.lazy import lazy

if TYPE_CHECKING:
    from dcurate.runs.summary import croissant, dataset_card, licences, word
    from dcurate.ui import training_summary as pages
else:  # what these import is heavy, and other commands need none of it
    croissant, dataset_card, licences, word = (
        lazy(f"dcurate.runs.summary.{name}") for name in ("croissant", "dataset_card", "licences", "word")
    )
    pages = lazy("dcurate.ui.training_summary")


def _columns(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    if wrong := [value for value, (role, _, name) in zip(values, pairs, strict=True) if not role or not name]:
        raise click.BadParameter(f"{wrong[0]!r} must be ROLE=COLUMN, such as url=link")
    return {role: name for role, _, name in pairs}


@cli.command("summary", short_help="Fill in the public summary of training content of the AI Act.")
@click.argument("outputs", nargs=-1, required=True)
@click.option("--facts", metavar="FILE", help="YAML with what the provider states.")
@click.option("--sme", is_flag=True, help="List the domains that a small or medium-sized enterprise lists.")
@click.option("--removed", is_flag=True, help="Count what runs removed and kept aside, too.")
@click.option("--private-suffixes", is_flag=True, help="Names under suffixes such as github.io are domains.")
@click.option("--read-texts", is_flag=True, help="Read the texts of Parquet files, for their exact sizes.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    callback=_columns,
    metavar="ROLE=COLUMN",
    help="The column with URLs, languages and so on, where it has another name; repeatable.",
)
@click.option("--html", metavar="FILE", help="Write a self-contained page.")
@click.option("--json", "json_path", metavar="FILE", help="Write all fields as JSON; - for standard output.")
@click.option("--docx", metavar="FILE", help="Write a document of Word.")
@click.option("--domains", metavar="FILE", help="Write all domains that are to be listed as CSV.")
@click.option("--croissant", "croissant_path", metavar="FILE", help="Write the data set as Croissant.")
@click.option("--card", metavar="FILE", help="Write the card of the data set, README.md.")
@click.option("--spdx", metavar="FILE", help="Write the licences of documents as SPDX.")
@debug_option
def summary(
    *, outputs: tuple[str, ...], facts: str | None, columns: dict[str, str], domains: str | None, **chosen: Any
) -> None:
    """Fill in the public summary of training content that the AI Act asks for, as far as it can be counted.

    OUTPUTS are the output directories of runs, or folders of tokens; they are added up. Texts in Parquet are not read.
    What cannot be counted is a named blank, which --facts fills.
    """
    flags = {name: chosen[name] for name in ("sme", "removed", "private_suffixes", "read_texts")}
    options = dcurate.runs.SummaryOptions(**flags, columns=columns, domains_path=domains)
    made = dcurate.runs.training_summary(outputs, facts=facts, options=options)
    if chosen["json_path"] != "-":
        console().print(made)
    now = time.gmtime()
    if path := chosen["html"]:
        write_file(path, pages.summary_page(made).encode())
    if path := chosen["docx"]:
        word.write_docx(made, path)
    if path := chosen["croissant_path"]:
        write_file(path, _json(croissant.croissant(made, os.path.dirname(path) or ".", time.strftime("%Y-%m-%d", now))))
    if path := chosen["card"]:
        write_file(path, dataset_card.dataset_card(made).encode())
    if path := chosen["spdx"]:
        write_file(path, _json(licences.spdx_document(made, time.strftime("%Y-%m-%dT%H:%M:%SZ", now))))
    write_json(chosen["json_path"], made.to_dict())


def _json(values: object) -> bytes:
    return orjson.dumps(values, option=orjson.OPT_INDENT_2) + b"\n"

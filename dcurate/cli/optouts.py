"""``dcurate optout``: take the documents of a list out of all that was made of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson
from rich import box
from rich.table import Table

import dcurate
from dcurate.cli.group import cli, console, debug_option, local_executor
from dcurate.cli.runs import write_json
from dcurate.core.lazy import lazy
from dcurate.core.stage import Stage
from dcurate.errors import PipelineError
from dcurate.runs.text import many

if TYPE_CHECKING:
    from dcurate.io import optouts
    from dcurate.optouts import listing, remove
else:  # what these import is heavy, and other commands need none of it
    listing, optouts, remove = map(lazy, ("dcurate.optouts.listing", "dcurate.io.optouts", "dcurate.optouts.remove"))

#: Similarity from which texts are near-copies, where none is given.
_NEAR = 0.8


@cli.command("optout", short_help="Take documents out of all that was made of a corpus.")
@click.argument("list_path", metavar="LIST")
@click.argument("outputs", nargs=-1, required=True, metavar="OUTPUT...")
@click.option("--lines", metavar="KIND", help="What the lines of a text file are: url, domain, id or text.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the receipts.")
@click.option("--near", is_flag=True, help="Near-copies of the documents go as well.")
@click.option("--threshold", type=float, help=f"Similarity from which texts are near-copies.  [default: {_NEAR}]")
@click.option("--url-field", default="url", show_default=True, metavar="COLUMN", help="The column with the URL.")
@click.option("--id-field", metavar="COLUMN", help="The column with the id; id, doc_id and the like by default.")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--dry-run", is_flag=True, help="Only show which documents there are.")
@click.option("--receipt", metavar="FILE", help="Write one receipt of all outputs.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of worker processes for files of tokens.")
@click.option("--json", "json_path", metavar="FILE", help="Write the receipt as JSON; - for standard output.")
@debug_option
def optout(
    *,
    list_path: str,
    outputs: tuple[str, ...],
    dry_run: bool,
    receipt: str | None,
    json_path: str | None,
    **how: Any,
) -> None:
    """Write the files of OUTPUTs that hold documents of LIST again, without them.

    LIST is JSON Lines, Parquet or CSV with columns url, domain, id or text, or a text file with --lines. OUTPUTs are
    outputs of runs (rows, shards of WebDataset), folders of tokens, and indexes of duplicates of one corpus: an id
    names the same document in all of them. Rows that runs have dropped or put in quarantine go, too. Later runs into
    an output leave these documents out.
    """
    if how["threshold"] is not None and not how["near"]:
        raise PipelineError("--threshold is for near-copies; give --near as well, or leave it out")
    if receipt is not None and not Path(receipt).absolute().parent.is_dir():
        raise PipelineError(f"--receipt {receipt} is in a folder that does not exist; make it first")
    near = (_NEAR if how["threshold"] is None else how["threshold"]) if how["near"] else None
    compared = optouts.ComparedColumns(how["url_field"], how["id_field"], how["text_field"])
    wanted = listing.read_list(list_path, how["lines"], compared, texts=near is not None)
    with remove.OptOutRemoval(wanted, outputs, how["reason"], near) as removal:
        if not dry_run:
            removal.lock()
        removal.find()
        if not dry_run:
            removal.commit(lambda stages: _run(stages, how["workers"]))
        total = {**removal.receipt(), "dry_run": dry_run}
    if receipt is not None and not dry_run and total["documents"]:
        Path(receipt).write_bytes(orjson.dumps(total, option=orjson.OPT_INDENT_2) + b"\n")
    if json_path != "-":
        _show(total, list_path, receipt)
    write_json(json_path, total)


def _run(stages: list[Stage], workers: int | None) -> None:
    executor = local_executor({"execution_mode": "streaming" if workers else "inline"}, workers)
    dcurate.Pipeline("optout", stages=stages).run(executor, observers=[])


def _show(total: Mapping[str, Any], path: str, receipt: str | None) -> None:
    """Print what was taken out of what."""
    asked = ", ".join(f"{total['named'][kind]:,} of {count:,} {kind}s" for kind, count in total["asked"].items())
    click.echo(f"{path}: {asked} name documents that are there")
    if total["ignored_columns"]:
        click.echo(f"columns of {path} that were not used: {', '.join(total['ignored_columns'])}")
    table = Table(box=box.SIMPLE_HEAD)
    for name, justify in (("output", "left"), ("product", "left"), ("documents", "right"), ("by", "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    table.add_column("files", justify="right")
    for product in total["products"]:
        by = ", ".join(f"{kind} {count:,}" for kind, count in product["by"].items())
        files = f"{product['written']:,} of {product['files']:,}"
        table.add_row(product["output"], product["product"], f"{product['documents']:,}", by, files)
    console().print(table)
    for sentence in _sentences(total):
        click.echo(sentence)
    if receipt is not None and total["documents"] and not total["dry_run"]:
        click.echo(f"receipt: {receipt}")


def _sentences(total: Mapping[str, Any]) -> Sequence[str]:
    documents, copies = total["documents"], total["dropped_copies"]
    outcome = "would be removed" if total["dry_run"] else "removed"
    sentences = [
        f"{many(documents, 'document')} {outcome}" if documents else "nothing to remove: no output holds any of them"
    ]
    if total["put_back"]:
        sentences.append(
            f"put back in the place of these, as copies that were dropped for them: {many(total['put_back'], 'row')}"
        )
    if copies:
        sentences.append(
            f"not put back, though dropped as copies of documents that are {outcome}: {many(copies, 'row')}; a new run "
            "would keep one of each"
        )
    for folder in total["unseen"]:
        sentences.append(
            f"the run kept dropped rows in {folder!r}, where nothing is any more; if they were moved, name them"
        )
    return sentences

"""``dcurate tokens``: count tokens, look at files of tokens, merge and convert them, and drop documents."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click
from rich.table import Table

import dcurate
import dcurate.tokens
from dcurate.cli.group import cli, console, debug_option, local_executor
from dcurate.cli.runs import write_json
from dcurate.core.lazy import lazy
from dcurate.core.stage import Stage
from dcurate.errors import DataError, PipelineError
from dcurate.fs.stores import Directory

if TYPE_CHECKING:
    from dcurate.frames import columns
    from dcurate.tokens import check, pairs, rewrite, show, special
    from dcurate.tokens import count as counting
    from dcurate.tokens import drop as dropping
    from dcurate.tokens import folder as folders
    from dcurate.tokens import tokenizer as tokenizers
else:  # what these import is heavy, and other commands need none of it
    columns = lazy("dcurate.frames.columns")
    check, counting, dropping, folders, pairs, rewrite, show, tokenizers = (
        lazy(f"dcurate.tokens.{name}")
        for name in ("check", "count", "drop", "folder", "pairs", "rewrite", "show", "tokenizer")
    )

_JSON = click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON; - for standard output.")
_WORKERS = click.option(
    "--workers", type=click.IntRange(min=1), help="Number of worker processes to start on this machine."
)
_SHARD_TOKENS = click.option("--shard-tokens", type=click.IntRange(min=1), help="Number of tokens of a shard.")
_OUTPUT = click.option("--output", required=True, metavar="FOLDER", help="The folder to write.")
_MODE = click.option(
    "--overwrite", "mode", flag_value="overwrite", default="error", help="Replace what an earlier run wrote there."
)
_OF_PAIRS = click.option("--tokenizer", metavar="FILE", help="The tokenizer of .bin and .idx that do not say it.")
_SEED = click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")


@cli.group(short_help="Count tokens; check, merge and convert files of tokens.")
def tokens() -> None:
    """Count the tokens of documents; look at files of tokens, check, merge and convert them, and drop documents."""


def _tokenizer(folder: folders.TokenFolder, tokenizer: str | None) -> tokenizers.TokenizerSource:
    """The tokenizer that is given, or that a folder of tokens was made with."""
    return tokenizers.TokenizerSource(tokenizer or str(folder.about["tokenizer"]["name"]), asks="dcurate tokens")


@tokens.command("count", short_help="Count the tokens of documents.")
@click.argument("paths", nargs=-1, required=True)
@click.option("--tokenizer", required=True, metavar="FILE", help="A tokenizer.json, a folder, or the id of a model.")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option(
    "--special-in-text",
    type=click.Choice(["text", "token", "refuse"]),
    default="text",
    show_default=True,
    help="Count special tokens that are spelled in texts as text or as tokens, or leave such documents out.",
)
@_WORKERS
@_JSON
@debug_option
def count(
    *,
    paths: tuple[str, ...],
    tokenizer: str,
    text_field: str,
    special_in_text: special.SpecialInText,
    workers: int | None,
    json_path: str | None,
) -> None:
    """Count the tokens of the documents under PATHS, without BOS and EOS.

    PATHS are files, directories or globs of JSONL or Parquet. They are read in one process, unless --workers is given.
    """
    source = tokenizers.TokenizerSource(tokenizer, asks="dcurate tokens count", special_in_text=special_in_text)
    stages: list[Stage] = [dcurate.DocumentReader(list(paths)), counting.CountTokens(source, text_field)]
    counts = {"documents": 0, "tokens": 0, "longest": 0}
    executor = local_executor({"execution_mode": "streaming" if workers else "inline"}, workers)
    for batch in dcurate.Pipeline("count", stages=stages).stream(executor, observers=[]):
        assert isinstance(batch, dcurate.DocumentBatch)
        lengths = columns.numbers(batch.to_arrow(), "tokens")
        counts["documents"] += len(lengths)
        counts["tokens"] += int(lengths.sum())
        counts["longest"] = max(counts["longest"], int(lengths.max(initial=0)))
    if json_path != "-":
        click.echo(f"{counts['documents']:,} documents, {counts['tokens']:,} tokens, longest {counts['longest']:,}")
    write_json(json_path, counts)


@tokens.command("inspect", short_help="Show what a folder of tokens holds.")
@click.argument("folder")
@click.option("-n", "--n", "n", type=click.IntRange(min=0), default=3, show_default=True, help="Number of documents.")
@click.option("--tokenizer", metavar="FILE", help="The tokenizer, if it is not where it was.")
@_SEED
@_JSON
@debug_option
def inspect_tokens(*, folder: str, n: int, tokenizer: str | None, seed: int, json_path: str | None) -> None:
    """Show what a folder of tokens holds, and decode a few documents of it."""
    token_folder = folders.TokenFolder(folder)
    about = token_folder.about
    shown = show.shown_documents(token_folder, _tokenizer(token_folder, tokenizer), n, seed) if n else []
    if json_path != "-":
        table = Table.grid(padding=(0, 2))
        padding = f", {about['padding'] / about['tokens']:.2%} of them padding" if about["padding"] else ""
        window = f", windows of {about['sequence_length']:,} ({about['packing']})" if about["sequence_length"] else ""
        table.add_row("format", f"{about['format']}, {about['dtype']}{window}")
        table.add_row("tokenizer", about["tokenizer"]["name"])
        table.add_row("shards", f"{len(about['shards']):,}")
        table.add_row("documents", f"{about['documents']:,}")
        table.add_row("tokens", f"{about['tokens']:,}{padding}")
        console().print(table)
        for document in shown:
            console().print(
                f"\n{document['shard']}:{document['start']} {document['doc']} ({document['tokens']:,} tokens)",
                highlight=False,
            )
            console().print(document["text"], markup=False, highlight=False)
    write_json(json_path, {**about, "shown": shown})


@tokens.command("verify", short_help="Check a folder of tokens.")
@click.argument("folder")
@click.option("--input", "inputs", multiple=True, metavar="PATH", help="A folder of the documents; repeatable.")
@click.option(
    "--sample", type=click.IntRange(min=0), default=100, show_default=True, help="Number of documents to read back."
)
@click.option("--tokenizer", metavar="FILE", help="The tokenizer, if it is not where it was.")
@_SEED
@_JSON
@debug_option
def verify_tokens(
    *, folder: str, inputs: tuple[str, ...], sample: int, tokenizer: str | None, seed: int, json_path: str | None
) -> None:
    """Check sizes, indexes and spans of a folder of tokens, and read a sample of documents back.

    With --input the texts of the sample are looked for there, by their ids, and tokenised again. Exit code 1 if
    anything is wrong.
    """
    token_folder = folders.TokenFolder(folder)
    verified = check.verify(token_folder, _tokenizer(token_folder, tokenizer), inputs, sample=sample, seed=seed)
    if json_path != "-":
        click.echo(
            f"{verified.shards:,} shards, {verified.documents:,} documents; "
            f"{_read_back(verified, token_folder, sample)}"
        )
        if inputs:
            click.echo(
                f"found {verified.found:,} texts in the input, of which {verified.tokenised:,} give the same tokens"
            )
        for sentence in verified.wrong:
            click.echo(f"wrong: {sentence}")
    write_json(json_path, verified.to_dict())
    if verified.wrong:
        click.get_current_context().exit(1)
    if inputs and sample and verified.documents and not verified.found:
        raise PipelineError("no document of the sample is in the input; name the folder that they were read from")


def _read_back(verified: check.Verified, folder: folders.TokenFolder, sample: int) -> str:
    """Describe how many documents of a sample were read back, or why none was."""
    if verified.sampled:
        return f"read back {verified.sampled:,}, of which {verified.decoded:,} decode to a text of the same tokens"
    if verified.wrong:
        return "no document is read back, as files are damaged"
    if folder.about["unit"] == "window":
        return "no document is read back, as the windows are shuffled; their sizes, indexes and bytes are right"
    return "no document is read back, as the sample is empty" if not sample else "no document to read back"


def _token_folders(inputs: tuple[str, ...], tokenizer: str | None) -> list[folders.TokenFolder]:
    """Folders of tokens, or of pairs of Megatron; of these it says what is lost."""
    source = None if tokenizer is None else tokenizers.TokenizerSource(tokenizer, asks="dcurate tokens")
    token_folders = [pairs.with_pairs(path, None, source) for path in inputs]
    for folder in token_folders:
        if folder.about.get("pairs"):
            click.echo(
                f"{folder.url}: these pairs do not say where documents came from, so their tokens lead back to the "
                "pair and the number of the document in it, and no further",
                err=True,
            )
    return token_folders


def _run(name: str, stages: list[Stage], workers: int | None) -> None:
    executor = local_executor({"execution_mode": "streaming" if workers else "inline"}, workers)
    dcurate.Pipeline(name, stages=stages).run(executor, observers=[])


def _written(output: str, json_path: str | None) -> None:
    about = folders.TokenFolder(output).about
    if json_path != "-":
        click.echo(
            f"{output}: {len(about['shards']):,} shards, {about['documents']:,} documents, {about['tokens']:,} tokens"
        )
    write_json(json_path, {name: value for name, value in about.items() if name != "shards"})


@tokens.command("merge", short_help="Write the shards of several folders as one folder.")
@click.argument("inputs", nargs=-1, required=True, metavar="FOLDER...")
@_OUTPUT
@_SHARD_TOKENS
@_OF_PAIRS
@_MODE
@_WORKERS
@_JSON
@debug_option
def merge(*, inputs: tuple[str, ...], output: str, workers: int | None, json_path: str | None, **how: Any) -> None:
    """Write the documents of all FOLDERs, in order, to one folder, in shards of 2^27 tokens.

    The folders must be of one tokenizer, format and packing. Documents that are packed into windows are packed again.
    Folders with .bin and .idx of Megatron that other programs wrote are taken as well.
    """
    token_folders = _token_folders(inputs, how["tokenizer"])
    changes = rewrite.Changes(shard_tokens=how["shard_tokens"] or 2**27)
    stages = rewrite.rewrite(token_folders, output, changes, mode=how["mode"], asks="dcurate tokens merge")
    _run("merge", stages, workers)
    _written(output, json_path)


@tokens.command("convert", short_help="Write a folder of tokens in another format, packing or type.")
@click.argument("folder")
@_OUTPUT
@click.option("--format", metavar="NAME", help="megatron, ds, memmap, npy, mds, litdata or parquet.")
@click.option("--packing", metavar="NAME", help="none, concat or best_fit.")
@click.option("--sequence-length", type=click.IntRange(min=1), help="Number of tokens of a window.")
@click.option("--dtype", metavar="NAME", help="Type of the ids.")
@_SHARD_TOKENS
@_OF_PAIRS
@_MODE
@_WORKERS
@_JSON
@debug_option
def convert(
    *,
    folder: str,
    output: str,
    tokenizer: str | None,
    mode: str,
    workers: int | None,
    json_path: str | None,
    **changes: Any,
) -> None:
    """Write the documents of FOLDER to another folder; what is not given stays as it is. Nothing is tokenised."""
    token_folders = _token_folders((folder,), tokenizer)
    stages = rewrite.rewrite(
        token_folders, output, rewrite.Changes(**changes), mode=mode, asks="dcurate tokens convert"
    )
    _run("convert", stages, workers)
    _written(output, json_path)


@tokens.command("shuffle", short_help="Write the documents or windows of folders in random order.")
@click.argument("inputs", nargs=-1, required=True, metavar="FOLDER...")
@_OUTPUT
@click.option("--unit", type=click.Choice(["document", "window"]), default="document", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Another one gives another order.")
@_SHARD_TOKENS
@_MODE
@_WORKERS
@_JSON
@debug_option
def shuffle(*, inputs: tuple[str, ...], output: str, workers: int | None, json_path: str | None, **how: Any) -> None:
    """Write the documents or windows of all FOLDERs to one folder in random order, in shards of 2^27 tokens."""
    how["shard_tokens"] = how["shard_tokens"] or 2**27
    _run("shuffle", [dcurate.tokens.TokenShuffle(list(inputs), output, **how)], workers)
    _written(output, json_path)


@tokens.command("drop", short_help="Take documents out of a folder of tokens, with a receipt.")
@click.argument("folder")
@click.option("--ids", "file", required=True, type=click.File(), metavar="FILE", help="A file with an id per line.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the receipt.")
@click.option("--groups", metavar="FOLDER", help="Groups of duplicates: near-copies of the documents go as well.")
@click.option("--dry-run", is_flag=True, help="Only show which documents there are.")
@_WORKERS
@_JSON
@debug_option
def drop(
    *,
    folder: str,
    file: IO[str],
    dry_run: bool,
    workers: int | None,
    json_path: str | None,
    **why: Any,
) -> None:
    """Write the shards of FOLDER that hold any of the documents again, without them.

    Other shards stay as they are, and all documents keep their order. The receipt names each place that was taken out.
    """
    ids = [line for line in map(str.strip, file) if line]
    if not ids:
        raise DataError(f"{file.name!r} names no id; write one per line")
    copies = dropping.near_copies(Directory(why["groups"]), ids) if why["groups"] else {}
    todo = dropping.Drop(folders.TokenFolder(folder), ids, why["reason"], copies)
    stages = [] if dry_run else todo.stages()
    if stages:
        _run("drop", stages, workers)
    receipt = todo.receipt() if dry_run else todo.commit()
    if json_path != "-":
        outcome = "would be dropped" if dry_run else "dropped"
        click.echo(
            f"{receipt['documents']:,} documents, {receipt['tokens']:,} tokens {outcome}; shards written again: "
            f"{len(receipt['shards']):,}; ids that are not there: {len(receipt['not_found']):,}"
        )
        if not dry_run:
            click.echo(f"receipt: {receipt['receipt']}")
    write_json(json_path, receipt)

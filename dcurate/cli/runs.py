"""Commands for finished runs: ``report``, ``compare``, ``inspect``, ``trace``, ``explore`` and ``publish``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import orjson
from rich.text import Text

import dcurate
import dcurate.runs
import dcurate.ui
from dcurate.cli.group import cli, console, debug_option
from dcurate.cli.students import write_page
from dcurate.core.lazy import lazy
from dcurate.errors import listed
from dcurate.fs.atomic import atomic_write
from dcurate.fs.errors import storage_errors
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.redaction import without_secrets
from dcurate.ui.compare import comparison_page
from dcurate.ui.report.aside import files_set_aside
from dcurate.ui.report.page import PAGE, write_run_page
from dcurate.ui.student_page import CARD
from dcurate.ui.table import report_table

if TYPE_CHECKING:
    from dcurate.ui.explore import corpus as corpora
    from dcurate.ui.explore import server as servers
else:  # what these import is heavy, and other commands need none of it
    corpora, servers = (lazy(f"dcurate.ui.explore.{name}") for name in ("corpus", "server"))

_HTML = click.option("--html", metavar="FILE", help="Write a self-contained page.")
_JSON = click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON; - for standard output.")
_REJECTED = click.option(
    "--rejected", metavar="PATH", help="Where the run kept dropped documents, if its report is gone."
)


@cli.command("report", short_help="Show what a run did, or how good a model is.")
@click.argument("run")
@_HTML
@_JSON
@click.option(
    "--corpus", multiple=True, metavar="PATH", help="Of a model: documents whose scores are compared; repeatable."
)
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="Their column with the text.")
@debug_option
def report(*, run: str, html: str | None, json_path: str | None, corpus: tuple[str, ...], text_field: str) -> None:
    """Show what a finished run did, or how good a model of dcurate learn is.

    RUN is its output directory, or the folder of its records (OUTPUT.dcurate); a local path, or a URL such as
    s3://bucket/out. Of a model it is the folder; its page is written again.
    """
    card = Directory(run).read(CARD)
    if card is not None:
        page = write_page(run, corpus, text_field, html)
        click.echo(f"page written to {without_secrets(page)}", err=json_path == "-")
        write_json(json_path, orjson.loads(card))
        return
    if corpus:
        raise click.UsageError(f"--corpus compares scores of a model, and {run} has none; give the folder of a model")
    recorded = dcurate.read_run(run)
    if json_path != "-":
        console().print(report_table(recorded.report))
        for sentence in recorded.missing:
            console().print(Text(f"missing: {sentence}", style="dim"))
    if html is not None:
        aside = files_set_aside(recorded.report, recorded.about)
        written = write_run_page(recorded.report, recorded.history, recorded.about, html, aside=aside)
        click.echo(f"page written to {written}", err=json_path == "-")
    elif json_path is None:
        click.echo(f"page: {without_secrets(recorded.address).rstrip('/')}/{PAGE}, or --html FILE to write it again")
    write_json(json_path, {**recorded.to_dict(), "history": recorded.history.to_dict()})


@cli.command("compare", short_help="Show how two runs differ.")
@click.argument("first")
@click.argument("second")
@_HTML
@_JSON
@debug_option
def compare_runs(*, first: str, second: str, html: str | None, json_path: str | None) -> None:
    """Show how two runs differ: settings, documents, reasons, speed.

    FIRST and SECOND are output directories, or the folders of their records (OUTPUT.dcurate).
    """
    comparison = dcurate.ui.compare_runs(first, second)
    if json_path != "-":
        console().print(comparison)
    if html is not None:
        write_file(html, comparison_page(comparison).encode())
    write_json(json_path, comparison.to_dict())


@cli.command("inspect", short_help="Show documents that a stage dropped.")
@click.argument("output")
@click.option("--dropped-by", metavar="STAGE", help="The stage that dropped them.  [required]")
@click.option("--reason", help="Only those dropped for this reason.")
@click.option("-n", "--n", "n", type=click.IntRange(min=1), default=10, show_default=True, help="Number of documents.")
@click.option(
    "--kept", type=click.IntRange(min=0), help="Number of kept documents, for contrast; half of -n by default."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--find", metavar="REGEX", help="Cut excerpts around the first match.")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@_REJECTED
@_JSON
@debug_option
def inspect_documents(
    *,
    output: str,
    dropped_by: str | None,
    reason: str | None,
    n: int,
    kept: int | None,
    seed: int,
    find: str | None,
    text_field: str,
    rejected: str | None,
    json_path: str | None,
) -> None:
    """Show documents that a stage dropped, with their scores.

    OUTPUT is the output directory of a run. Run with --rejected PATH to have dropped documents kept.
    """
    if dropped_by is None:
        stages = dcurate.read_run(output).report.stages
        dropping = [stage.name for stage in stages if stage.dropped or stage.faulty]
        if not dropping:
            raise click.UsageError("no stage of this run dropped documents")
        raise click.UsageError(f"name the stage with --dropped-by; documents were dropped by {listed(dropping)}")
    inspected = dcurate.inspect(
        dcurate.runs.RunPlaces(output, rejected),
        dropped_by,
        n=n,
        reason=reason,
        kept=kept,
        seed=seed,
        find=find,
        text_field=text_field,
    )
    if json_path != "-":
        console().print(inspected)
    write_json(json_path, inspected.to_dict())


@cli.command("trace")
@click.argument("ids", nargs=-1, metavar="ID...")
@click.argument("output")
@click.option(
    "--token", "tokens", multiple=True, metavar="SHARD:OFFSET", help="Trace the document of a token; repeatable."
)
@click.option("--id-field", metavar="COLUMN", help="The column with ids, if it is not called id, doc_id, url or so.")
@click.option("--groups", multiple=True, metavar="PATH", help="A folder with groups of duplicates; repeatable.")
@_REJECTED
@_JSON
@debug_option
def trace_documents(
    *,
    ids: tuple[str, ...],
    output: str,
    tokens: tuple[str, ...],
    id_field: str | None,
    groups: tuple[str, ...],
    rejected: str | None,
    json_path: str | None,
) -> None:
    """Trace single documents through a run.

    IDs of documents come first, then OUTPUT, the output directory of a run. Exit code 1 if a document is not found.
    """
    if not ids and not tokens:
        raise click.UsageError("no document to trace; give its id before OUTPUT, or --token SHARD:OFFSET")
    traced = dcurate.trace(dcurate.runs.RunPlaces(output, rejected, groups), ids, id_field=id_field, tokens=tokens)
    if json_path != "-":
        console().print(traced)
    write_json(json_path, traced.to_dict())
    if any(fate.outcome == "not found" for fate in traced.fates):
        click.get_current_context().exit(1)


@cli.command("explore", short_help="Open a page to search, compare and mark documents.")
@click.argument("output")
@click.option("--groups", multiple=True, metavar="PATH", help="A folder with groups of duplicates; repeatable.")
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--most", type=click.IntRange(min=2), default=1_000_000, show_default=True, help="Most documents read.")
@click.option("--mark", "marks", multiple=True, metavar="TEXT", help="A mark that the page offers; repeatable.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page; a free one by default.")
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser.")
@_REJECTED
@debug_option
def explore(
    *,
    output: str,
    groups: tuple[str, ...],
    text_field: str,
    most: int,
    marks: tuple[str, ...],
    port: int,
    browser: bool,
    rejected: str | None,
) -> None:
    """Open a page to search, compare and mark the documents of a finished run.

    OUTPUT is the output directory of a run. Run with --rejected PATH to have dropped documents kept. The page is served
    to this machine alone, until Ctrl-C; marks are kept in marks.jsonl among the records of the run. With --mark the
    page offers marks of your own, such as the values of a label; dcurate marks makes labels of them.
    """
    if too_long := [mark for mark in marks if not 0 < len(mark) <= corpora.LONGEST_MARK]:
        raise click.UsageError(f"--mark {too_long[0]!r}: a mark has 1 to {corpora.LONGEST_MARK} characters")
    places = dcurate.runs.RunPlaces(output, rejected, groups)
    with scratch_folder() as folder, console().status("reading documents") as status:
        path = Path(folder)
        corpus = corpora.load_corpus(
            places,
            path,
            text_field=text_field,
            most=most,
            progress=lambda n: status.update(f"reading documents: {n:,}"),
        )
        status.stop()
        corpus.buttons = marks or corpus.buttons
        try:
            server = servers.ExploreServer(corpus, port)
        except OSError as error:
            raise click.UsageError(f"port {port} cannot be used ({error.strerror}); give another --port") from error
        with server:
            click.echo(f"{len(corpus.index):,} documents: {server.address} (Ctrl-C ends it)")
            if browser:
                click.launch(server.address)
            with suppress(KeyboardInterrupt):
                server.wait()
        corpus.pictures.close()


@cli.command("publish", short_help="Publish an output as a data set at the Hugging Face Hub.")
@click.argument("output")
@click.argument("target")
@click.option(
    "--mode",
    type=click.Choice(["error", "overwrite", "ignore"]),
    default="error",
    show_default=True,
    help="What to do about other files in the folder of the data set.",
)
@click.option("--private/--public", default=True, show_default=True, help="Who sees a data set that is made.")
@_JSON
@debug_option
def publish(
    *, output: str, target: str, mode: Literal["error", "overwrite", "ignore"], private: bool, json_path: str | None
) -> None:
    """Publish the output of a finished run as a data set at the Hugging Face Hub.

    OUTPUT is the output directory of a run, and TARGET is hf://datasets/OWNER/NAME, with @BRANCH and /FOLDER after it
    if you like. Run it again after an interruption: what is there already is not sent again. The token is that of
    HF_TOKEN, or of hf auth login.
    """
    published = dcurate.publish(output, target, mode=mode, private=private)
    if json_path != "-":
        click.echo(
            f"{published.target}: files: {published.files:,}, sent: {published.sent:,}, "
            f"deleted: {published.deleted:,}, commits: {published.commits:,}"
        )
    write_json(json_path, published.to_dict())


def write_json(path: str | None, values: dict[str, Any]) -> None:
    """Write figures to a file, or to standard output for ``-``; nowhere without a path."""
    if path is None:
        return
    data = orjson.dumps(values, default=str, option=orjson.OPT_INDENT_2)
    if path == "-":
        click.echo(data.decode())
    else:
        write_file(path, data + b"\n")


def write_file(path: str, data: bytes) -> None:
    """Write a file that an option names, whole or not at all.

    Raises:
        DataError: it cannot be written.
    """
    with storage_errors("write", path), atomic_write(path, durable=False) as file:
        file.write(data)

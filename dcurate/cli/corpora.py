"""``dcurate peek``, ``profile`` and ``dedup-report``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import orjson

import dcurate
import dcurate.dedup
from dcurate.cli.group import (
    LINE_INTERVAL,
    MODES,
    cli,
    console,
    debug_option,
    local_executor,
    message_of,
    trust_option,
)
from dcurate.core.lazy import lazy
from dcurate.ui.progress import Progress

if TYPE_CHECKING:
    from dcurate.frames import columns as frame_columns
    from dcurate.ui import preview_table
else:  # what these import is heavy, and other commands need none of it
    frame_columns, preview_table = lazy("dcurate.frames.columns"), lazy("dcurate.ui.preview_table")


#: Of commands that read files of any columns.
_schema_option = click.option(
    "--schema",
    "column_types",
    multiple=True,
    metavar="COLUMN=TYPE",
    help="The type of a column, as id=string; repeatable.",
)


_delimiter_option = click.option(
    "--delimiter", metavar="SIGN", help="The sign between values of CSV files; \\t for a tab."
)


def _sign(delimiter: str | None) -> str | None:
    """The sign that a shell gives, where a tab is easier to name than to type."""
    return "\t" if delimiter == r"\t" else delimiter


def _schema(column_types: tuple[str, ...]) -> dict[str, str] | None:
    """The types of columns, as a shell gives them."""
    pairs = [given.rpartition("=") for given in column_types]
    for column, _, kind in pairs:
        if not column or not kind:
            raise click.BadParameter(f"{kind!r} is not of the form COLUMN=TYPE, as id=string", param_hint="'--schema'")
    return {column: kind for column, _, kind in pairs} or None


@cli.command(short_help="Show the first rows of a corpus, and its columns.")
@click.argument("paths", nargs=-1, required=True)
@click.option("--rows", type=click.IntRange(min=1), default=5, show_default=True, metavar="N", help="Number of rows.")
@click.option("--column", "columns", multiple=True, metavar="COLUMN", help="Show this column only; repeatable.")
@_schema_option
@_delimiter_option
@click.option("--json", "as_json", is_flag=True, help="Print types and whole values as JSON.")
@debug_option
def peek(
    *,
    paths: tuple[str, ...],
    rows: int,
    columns: tuple[str, ...],
    column_types: tuple[str, ...],
    delimiter: str | None,
    as_json: bool,
) -> None:
    """Show the first rows under PATHS, and the types of their columns.

    PATHS are files, directories or globs of JSONL, Parquet or CSV. No more is read than these rows need.
    """
    preview = dcurate.peek(
        list(paths),
        rows,
        fields=list(columns) or None,
        schema=_schema(column_types),
        delimiter=_sign(delimiter),
    )
    preview = replace(preview, notices=tuple(message_of(notice, ["peek"]) for notice in preview.notices))
    if not as_json:
        console().print(preview_table.PreviewTable(preview))
        return
    types = {column.name: str(column.type) for column in preview.schema}
    values = {"columns": types, "rows": frame_columns.python_rows(preview.to_arrow()), "rows_read": preview.rows_read}
    click.echo(orjson.dumps(values, default=str, option=orjson.OPT_INDENT_2))


@cli.command(short_help="Profile a corpus.")
@click.argument("paths", nargs=-1, required=True)
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--id-field", metavar="COLUMN", help="The column with ids, for examples.")
@click.option(
    "--filters", default="nemo-english", show_default=True, metavar="RECIPE", help="Take the filters of this recipe."
)
@click.option("--column", "columns", multiple=True, metavar="COLUMN", help="Count the values of a column; repeatable.")
@_schema_option
@_delimiter_option
@click.option(
    "--most-dropped",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Suggest thresholds where a filter drops a larger share.",
)
@click.option("--html", metavar="FILE", help="Write a page with plots.")
@click.option("--json", "json_path", metavar="FILE", help="Write all tables as JSON.")
@click.option("--mode", type=click.Choice(MODES), default="streaming", show_default=True, help="Execution mode.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of worker processes to start on this machine.")
@click.option("--quiet", is_flag=True, help="Show no progress and no table.")
@trust_option
@debug_option
def profile(
    *,
    paths: tuple[str, ...],
    text_field: str,
    id_field: str | None,
    filters: str,
    columns: tuple[str, ...],
    column_types: tuple[str, ...],
    delimiter: str | None,
    most_dropped: float,
    html: str | None,
    json_path: str | None,
    mode: str,
    workers: int | None,
    quiet: bool,
    trust: bool,
) -> None:
    """Profile the documents under PATHS, and show what filters would drop.

    PATHS are files, directories or globs of JSONL, Parquet or CSV. Nothing is changed.
    """
    reader = dcurate.DocumentReader(
        list(paths), schema=_schema(column_types), delimiter=_sign(delimiter), on_bad_line="quarantine"
    )
    with Progress(interval_s=LINE_INTERVAL) as progress:
        corpus_profile = dcurate.profile(
            reader,
            text_field=text_field,
            id_field=id_field,
            filters=filters,
            columns=columns or None,
            most_dropped=most_dropped,
            executor=local_executor({"execution_mode": mode}, workers),
            observers=[] if quiet else [progress],
            trust=trust,
        )
    if json_path is not None:
        corpus_profile.to_json(json_path)
    if html is not None:
        corpus_profile.to_html(html)
    if not quiet:
        console().print(corpus_profile)


@cli.command("dedup-report", short_help="Measure how duplicated a sample is.")
@click.argument("paths", nargs=-1, required=True)
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option(
    "--threshold",
    type=click.FloatRange(0.5, 1, max_open=True),
    default=0.8,
    show_default=True,
    metavar="SIMILARITY",
    help="Documents are duplicates from this Jaccard similarity on.",
)
@click.option("--words", type=click.IntRange(min=1), metavar="N", help="Compare shingles of N words; 5 by default.")
@click.option("--characters", type=click.IntRange(min=1), metavar="N", help="Compare shingles of N characters.")
@click.option(
    "--documents", type=click.IntRange(min=1), default=20_000, show_default=True, help="Look at the first N documents."
)
@click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON.")
@click.option("--quiet", is_flag=True, help="Show no table.")
@debug_option
def dedup_report(
    *,
    paths: tuple[str, ...],
    text_field: str,
    threshold: float,
    words: int | None,
    characters: int | None,
    documents: int,
    json_path: str | None,
    quiet: bool,
) -> None:
    """Measure how duplicated a sample is, and how well near-duplicates are found in it.

    PATHS are files, directories or globs of JSONL, Parquet or CSV. All pairs of documents are found by an exhaustive
    search, and what MinHash finds with several settings is held against them. Nothing is changed.
    """
    if words and characters:
        raise click.UsageError("--words and --characters exclude each other; give one of them")
    shingles = dcurate.dedup.Shingles(characters, "characters") if characters else dcurate.dedup.Shingles(words or 5)
    measurement = dcurate.dedup.dedup_report(
        list(paths), text_field=text_field, threshold=threshold, shingles=shingles, documents=documents
    )
    if json_path is not None:
        measurement.to_json(json_path)
    if not quiet:
        console().print(dcurate.dedup.DedupReportTable(measurement))

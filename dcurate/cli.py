"""The command line: ``dcurate run``, ``plan``, ``profile``, ``dedup-report`` and ``recipes``."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Callable
from functools import reduce
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dcurate
from dcurate.core.report import RunReport
from dcurate.errors import DcurateError, PipelineError
from dcurate.observe.profile_plots import library
from dcurate.observe.progress import Progress
from dcurate.observe.table import report_table, write_report
from dcurate.plan.compile import compile_plan
from dcurate.recipe import Recipe, bundled_recipes, load_recipe, parse_setting

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

#: Seconds between progress lines where there is no terminal.
LINE_INTERVAL = 10.0

#: Seconds to wait for a scheduler that does not answer.
SCHEDULER_TIMEOUT = 10.0

MODES = ("streaming", "batch", "inline")

_Command = Callable[..., None]

_RECIPE_OPTIONS = (
    click.argument("recipe"),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a param of the recipe; repeatable."
    ),
    click.option("--input", "source", metavar="PATH", help="Same as --set input=PATH."),
    click.option("--output", metavar="PATH", help="Same as --set output=PATH."),
    click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."),
)


def _recipe_options(command: _Command) -> _Command:
    return reduce(lambda wrapped, option: option(wrapped), reversed(_RECIPE_OPTIONS), command)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dcurate.__version__, prog_name="dcurate", message="%(prog)s %(version)s")
def cli() -> None:
    """Curate LLM training data on Dask.

    RECIPE is a YAML file, or the name of a bundled recipe.
    """


@cli.command()
@_recipe_options
@click.option(
    "--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler, as in tcp://host:8786."
)
@click.option("--mode", type=click.Choice(MODES), help="How to carry it out, instead of what the recipe says.")
@click.option("--resume", is_flag=True, help="Do only what an earlier run into the same output left undone.")
@click.option("--workers", type=click.IntRange(min=1), help="Worker processes to start here.")
@click.option("--rejected", metavar="PATH", help="Keep dropped documents, with their reasons, under this path.")
@click.option("--quiet", is_flag=True, help="Show no progress and no table.")
def run(
    *,
    recipe: str,
    settings: tuple[str, ...],
    source: str | None,
    output: str | None,
    scheduler: str | None,
    mode: str | None,
    resume: bool,
    workers: int | None,
    rejected: str | None,
    quiet: bool,
) -> None:
    """Run a recipe and report what became of the documents."""
    loaded = load_recipe(recipe, _overrides(settings, source, output))
    executor = _executor(loaded, mode, scheduler, workers)
    with Progress(interval=loaded.executor.get("logging_interval", LINE_INTERVAL)) as progress:
        result = loaded.pipeline.run(
            executor, resume=resume, rejected=rejected or loaded.rejected, observers=[] if quiet else [progress]
        )
    report: RunReport = result.report
    if report.output_path is not None:
        write_report(report, f"{report.output_path.rstrip('/')}/_dcurate")
    if not quiet:
        _console().print(report_table(report))


@cli.command()
@_recipe_options
def plan(*, recipe: str, settings: tuple[str, ...], source: str | None, output: str | None) -> None:
    """Show how a recipe would run: its operators, what each needs, which columns flow."""
    loaded = load_recipe(recipe, _overrides(settings, source, output))
    pipeline = loaded.pipeline
    click.echo(f"{pipeline.name}: {pipeline.description}" if pipeline.description else pipeline.name)
    for name, value in loaded.params.items():
        click.echo(f"  {name}: {value}")
    click.echo(compile_plan(pipeline.build()).explain())


@cli.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--text-field", default="text", show_default=True, metavar="COLUMN", help="The column with the text.")
@click.option("--id-field", metavar="COLUMN", help="The column with ids, for examples.")
@click.option(
    "--filters", default="nemo-english", show_default=True, metavar="RECIPE", help="Take the filters of this recipe."
)
@click.option("--column", "columns", multiple=True, metavar="COLUMN", help="Count the values of a column; repeatable.")
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
@click.option("--mode", type=click.Choice(MODES), default="streaming", show_default=True, help="How to carry it out.")
@click.option("--workers", type=click.IntRange(min=1), help="Worker processes to start here.")
@click.option("--quiet", is_flag=True, help="Show no progress and no table.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def profile(
    *,
    paths: tuple[str, ...],
    text_field: str,
    id_field: str | None,
    filters: str,
    columns: tuple[str, ...],
    most_dropped: float,
    html: str | None,
    json_path: str | None,
    mode: str,
    workers: int | None,
    quiet: bool,
) -> None:
    """Say what the documents under PATHS are like, and what filters would drop.

    PATHS are files, directories or globs of JSONL or Parquet. Nothing is changed.
    """
    if html is not None:
        library()  # to say now, not after the run, that it is missing
    with Progress(interval=LINE_INTERVAL) as progress:
        found = dcurate.profile(
            list(paths),
            text_field=text_field,
            id_field=id_field,
            filters=filters,
            columns=columns or None,
            most_dropped=most_dropped,
            executor=_local_executor({"execution_mode": mode}, workers),
            observers=[] if quiet else [progress],
        )
    if json_path is not None:
        found.to_json(json_path)
    if html is not None:
        found.to_html(html)
    if not quiet:
        _console().print(found)


@cli.command("dedup-report")
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
@click.option(
    "--words", type=click.IntRange(min=1), metavar="N", help="Compare shingles of so many words; 5 by default."
)
@click.option("--characters", type=click.IntRange(min=1), metavar="N", help="Compare shingles of so many characters.")
@click.option(
    "--documents", type=click.IntRange(min=1), default=20_000, show_default=True, help="Look at the first so many."
)
@click.option("--json", "json_path", metavar="FILE", help="Write all figures as JSON.")
@click.option("--quiet", is_flag=True, help="Show no table.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
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
    """Say how duplicated a sample is, and how well near-duplicates are found in it.

    PATHS are files, directories or globs of JSONL or Parquet. All pairs of documents are found by an exhaustive search,
    and what MinHash finds with several settings is held against them. Nothing is changed.
    """
    if words and characters:
        raise click.UsageError("--words and --characters exclude each other; give one of them")
    shingles = dcurate.Shingles(characters, "characters") if characters else dcurate.Shingles(words or 5)
    found = dcurate.dedup_report(
        list(paths), text_field=text_field, threshold=threshold, shingles=shingles, documents=documents
    )
    if json_path is not None:
        found.to_json(json_path)
    if not quiet:
        _console().print(dcurate.DedupReportTable(found))


@cli.command()
def recipes() -> None:
    """List the bundled recipes and the params that they take."""
    table = Table("recipe", "what it does", "params", box=None, pad_edge=False, padding=(0, 2, 1, 0))
    for recipe in bundled_recipes():
        params = "\n".join(
            f"{name}: {'(required)' if value is None else value}" for name, value in recipe.params.items()
        )
        table.add_row(Text(recipe.name, "bold"), Text(recipe.description), Text(params))
    _console().print(table)


def _overrides(settings: tuple[str, ...], source: str | None, output: str | None) -> dict[str, Any]:
    """The params that the command line sets."""
    paths = {name: path for name, path in (("input", source), ("output", output)) if path is not None}
    return dict(map(parse_setting, settings)) | paths


def _executor(recipe: Recipe, mode: str | None, scheduler: str | None, workers: int | None) -> Any:
    """The executor that the recipe and the command line ask for."""
    if scheduler and workers:
        raise click.UsageError(
            "--workers starts workers here and --scheduler uses those of a cluster; give one of them"
        )
    config = recipe.executor | ({"execution_mode": mode} if mode else {})
    if scheduler and config.get("execution_mode") == "inline":
        raise click.UsageError("mode inline uses no workers; leave out --scheduler and --workers")
    try:
        if scheduler:
            timeout = config.get("scheduler_timeout_s", SCHEDULER_TIMEOUT)
            return dcurate.DaskExecutor(config, dcurate.AttachedCluster(scheduler, timeout))
        return _local_executor(config, workers)
    except PipelineError as error:
        raise PipelineError(f"{recipe.source.name}, executor: {error}") from error


def _local_executor(config: dict[str, Any], workers: int | None) -> Any:
    """An executor on this machine."""
    if config.get("execution_mode") == "inline":
        if workers:
            raise click.UsageError("mode inline uses no workers; leave out --scheduler and --workers")
        return dcurate.InlineExecutor()
    return dcurate.DaskExecutor(config, dcurate.LocalCluster(n_workers=workers) if workers else None)


def _console() -> Console:
    """Standard output; where it is not a terminal, wide enough for the report."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=120)


def _fail(message: str, code: int, debug: bool) -> NoReturn:
    """End with one sentence on standard error."""
    if debug:
        traceback.print_exc()
    click.echo(" ".join(message.splitlines()) if message.startswith("error:") else message, err=True)
    sys.exit(code)


def _interrupted(arguments: list[str]) -> str:
    """What to say after Ctrl-C."""
    if arguments[:1] != ["run"]:
        return "interrupted"
    again = arguments if "--resume" in arguments else [*arguments, "--resume"]
    return f"interrupted; go on with: dcurate {shlex.join(again)}"


def main() -> None:
    """The ``dcurate`` command. Exit codes: 0 done, 1 failed, 2 wrong use or recipe, 130 interrupted."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    sys.path.insert(0, os.getcwd())  # a recipe may name classes in modules beside it
    try:
        code = cli.main(arguments, prog_name="dcurate", standalone_mode=False)
    except PipelineError as error:
        _fail(f"error: {error}", WRONG_USE, debug)
    except (DcurateError, OSError) as error:
        _fail(f"error: {error}", FAILED, debug)
    except click.exceptions.NoArgsIsHelpError as error:
        _fail(error.format_message(), WRONG_USE, debug)
    except click.ClickException as error:
        _fail(f"error: {error.format_message()}", WRONG_USE, debug)
    except (click.Abort, KeyboardInterrupt):
        _fail(_interrupted(arguments), INTERRUPTED, debug)
    sys.exit(code)


if __name__ == "__main__":
    main()

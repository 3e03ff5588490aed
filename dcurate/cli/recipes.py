"""``dcurate run``, ``plan``, ``compile`` and ``recipes``."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dcurate
from dcurate.cli.group import (
    LINE_INTERVAL,
    MODES,
    JsonLines,
    cli,
    console,
    debug_option,
    local_executor,
    message_of,
    sign_options,
    trust_option,
)
from dcurate.cli.samples import run_on_sample
from dcurate.cli.scheduler import SCHEDULER_TIMEOUT, is_of_environment, scheduler_options
from dcurate.cli.shares import check_limits, share_options
from dcurate.cluster.fork_server import started_ahead
from dcurate.core.extras import libraries, missing
from dcurate.core.lazy import lazy
from dcurate.core.report import RunReport
from dcurate.core.secrets import shown
from dcurate.core.shard import Shard
from dcurate.engine.config import WITHOUT_WORKERS, ExecutorConfig
from dcurate.errors import PipelineError, ResourceError, listed, nearest
from dcurate.events import Observer
from dcurate.fs.stores import Directory
from dcurate.plan.compile import compile_plan
from dcurate.recipe import SAMPLE, Recipe, bundled_recipes, load_recipe, parse_setting
from dcurate.ui.heartbeat import Heartbeat
from dcurate.ui.progress import JsonProgress, Progress
from dcurate.ui.report.page import PAGE
from dcurate.ui.table import report_table

if TYPE_CHECKING:
    from dcurate.ui import openlineage as openlineages
else:  # it imports Arrow, and other commands need none of it
    openlineages = lazy("dcurate.ui.openlineage")

#: How progress may be shown.
PROGRESS = ("auto", "lines", "json", "none")

#: Executor settings that have no effect without workers.
_WORKER_SETTINGS = {field.name for field in fields(ExecutorConfig)} - {"execution_mode", *WITHOUT_WORKERS}

_log = logging.getLogger(__name__)

_Command = Callable[..., None]

_RECIPE_OPTIONS = (
    click.argument("recipe"),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a param of the recipe; repeatable."
    ),
    click.option("--input", "source", metavar="PATH", help="Same as --set input=PATH."),
    click.option("--output", metavar="PATH", help="Same as --set output=PATH."),
    trust_option,
    debug_option,
)


def _recipe_options(command: _Command) -> _Command:
    return reduce(lambda wrapped, option: option(wrapped), reversed(_RECIPE_OPTIONS), command)


_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write the result as JSON in place of the table, for other programs."
)


@cli.command()
@_recipe_options
@scheduler_options
@click.option("--mode", type=click.Choice(MODES), help="Execution mode, instead of that of the recipe.")
@click.option("--resume", is_flag=True, help="Resume an earlier run into the same output.")
@click.option(
    "--shard",
    metavar="K/N",
    help="Run share K of N of the input on its own; join all shares afterwards with dcurate finish.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Number of worker processes to start on this machine.")
@share_options
@click.option("--rejected", metavar="PATH", help="Keep dropped documents, with their reasons, under this path.")
@click.option("--proof", is_flag=True, help="Leave a proof of every row, which dcurate prove checks.")
@click.option("--no-examples", is_flag=True, help="Show no excerpts of dropped documents in the report.")
@click.option(
    "--progress",
    type=click.Choice(PROGRESS),
    default="auto",
    show_default=True,
    help="Show progress: live on a terminal and in lines elsewhere, in lines, as JSON for another program, not at all.",
)
@click.option("--quiet", is_flag=True, help="Show no progress and no table.")
@_json_option
@sign_options
def run(
    *,
    recipe: str,
    settings: tuple[str, ...],
    source: str | None,
    output: str | None,
    trust: bool,
    scheduler: str | None,
    mode: str | None,
    resume: bool,
    shard: str | None,
    workers: int | None,
    limits: dict[str, Any],
    rejected: str | None,
    proof: bool,
    no_examples: bool,
    progress: str,
    quiet: bool,
    as_json: bool,
    heartbeat: str | None,
    webhook: str | None,
    openlineage: str | None,
) -> None:
    """Run a recipe and report what each stage kept and dropped."""
    with ExitStack() as stack:
        stack.enter_context(_failures_as_json() if as_json else nullcontext())
        events = openlineages.OpenLineage(openlineage)
        signs = stack.enter_context(Heartbeat(heartbeat, webhook))
        if is_of_environment("scheduler") and (workers or mode == "inline"):
            scheduler = None  # the command line says to run here
        if scheduler is None and mode != "inline":
            stack.enter_context(started_ahead())
        if progress == "json" and not quiet:
            _write_warnings_as_json(stack)
        loaded = load_recipe(recipe, overrides(settings, source, output), trust=trust)
        if is_of_environment("scheduler") and mode is None and loaded.executor.get("execution_mode") == "inline":
            scheduler = None  # so says the recipe
        check_limits(limits, mode or loaded.executor.get("execution_mode"), scheduler)
        executor = _executor(loaded, mode, scheduler, workers, limits)
        pipeline = loaded.pipeline
        result = (pipeline.run if shard is None else partial(pipeline.run_shard, shard))(
            executor,
            resume=resume,
            rejected=rejected or loaded.rejected,
            examples=not no_examples,
            observers=[signs, events, *_shown("none" if quiet else progress, loaded, stack)],
            proof=proof or loaded.proof,
        )
    report: RunReport = result.report
    _show_report(report, quiet, as_json, Shard.parse(shard).folder if shard else "")
    if not quiet:
        for sentence in [*_advice(report), *_next_steps(loaded)]:
            click.echo(json.dumps({"notice": sentence}) if progress == "json" else sentence, err=True)


@cli.command(short_help="Join the shards of a run.")
@_recipe_options
@click.option("--quiet", is_flag=True, help="Show no table.")
@_json_option
def finish(
    *,
    recipe: str,
    settings: tuple[str, ...],
    source: str | None,
    output: str | None,
    trust: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Join the shards that dcurate run --shard has run, with the same params: records, report and index of the output.

    It says which shards are missing, if some are. Nothing is computed again.
    """
    with _failures_as_json() if as_json else nullcontext():
        report = load_recipe(recipe, overrides(settings, source, output), trust=trust).pipeline.finish().report
    _show_report(report, quiet, as_json)


def _show_report(report: RunReport, quiet: bool, as_json: bool, shard: str = "") -> None:
    """Show the table of a report, or its figures as JSON, and where its page is: in the records of output or shard."""
    page = f"{Directory(report.output_path, run=shard).records}/{PAGE}" if report.output_path else None
    if as_json:
        click.echo(json.dumps(_outcome(report, page)))
    elif not quiet:
        console().print(report_table(report, page))


def _outcome(report: RunReport, page: str | None) -> dict[str, Any]:
    """What became of a run, as plain values; stages that took no rows out are left out."""
    names = ("run", "pipeline", "mode", "seconds", "splits", "splits_before", "workers", "files")
    places = {name: getattr(report, f"{name}_path") for name in ("output", "rejected", "quarantine")}
    return {
        "state": "done",
        **{name: getattr(report, name) for name in names},
        "rows_in": report.stages[0].rows_in,
        "rows_out": report.stages[-1].rows_out,
        "dropped": {stage.name: stage.dropped for stage in report.stages if stage.dropped},
        "quarantined": {stage.name: stage.faulty for stage in report.stages if stage.faulty},
        **places,
        "report": page,
        "notices": list(report.notices),
    }


@contextmanager
def _failures_as_json() -> Iterator[None]:
    """Write why a run failed or was stopped as JSON; the sentence on standard error, and the exit code, stay."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(json.dumps({"state": "stopped", "why": ""}))
        raise
    except Exception as error:
        click.echo(
            json.dumps({"state": "failed", "why": message_of(error, [click.get_current_context().info_name or ""])})
        )
        raise


@cli.command("compile", short_help="Compile what recipes use, ahead of their runs.")
@click.argument("recipe", nargs=-1)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a param of the recipes; repeatable.")
@trust_option
@debug_option
def compile_recipes(recipe: tuple[str, ...], settings: tuple[str, ...], trust: bool) -> None:
    """Compile what recipes use, so that their first run does not have to.

    Each RECIPE runs on a small sample of the kind that it reads, in this process; its output is deleted. Without
    RECIPE, all bundled ones run that need no more than an input and whose packages are installed; the others are named.
    Compiled code is kept beside the package, or in the folder NUMBA_CACHE_DIR: build an image with this command.
    """
    params = dict(map(parse_setting, settings))
    for name in recipe or [info.name for info in bundled_recipes()]:
        if needed := _needs(name, params):
            how = " ".join(["dcurate compile", name, *(f"--set {param}=VALUE" for param in needed)])
            if recipe:
                raise PipelineError(f"{name} has no default for {listed(needed)}; give it: {how}")
            click.echo(f"{name}: left out, as {listed(needed)} has no default; compile it with: {how}")
            continue
        started = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder:
                run_on_sample(name, params, folder, trust)
        except ResourceError as error:  # a package that is not installed
            if recipe:
                raise
            click.echo(f"{name}: left out; {error}")
            continue
        click.echo(f"{name}: compiled in {time.monotonic() - started:.1f} s")


def _needs(name: str, given_params: Mapping[str, Any]) -> list[str]:
    """The params of a bundled recipe that must be given beside its places, and are not."""
    params = next((info.params for info in bundled_recipes() if info.name == name), {})
    return [
        param for param, value in params.items() if value is None and param != "input" and param not in given_params
    ]


def _advice(report: RunReport) -> list[str]:
    """Advice on a run that read, kept or wrote nothing."""
    advice = []
    if not report.output_path:
        advice.append("nothing was written: end the recipe with a writer, such as JsonlWriter: {path: out}")
    first, last = report.stages[0], report.stages[-1]
    if not first.rows_in:
        advice.append("the input has no documents")
    elif not last.rows_out:
        why = "--rejected PATH keeps dropped documents, with the reasons"
        if sum(first.faulty.values()) == first.rows_in:
            why = "all went to quarantine, which says what is wrong with each row"
        advice.append(f"no documents are left: {why}")
    return advice


def _next_steps(recipe: Recipe) -> list[str]:
    """What to do after a run on the bundled sample: the same on files of one's own."""
    if recipe.params.get("input") != str(SAMPLE):
        return []
    program = Path(sys.argv[0]).absolute()
    in_checkout = program.name == "dcurate" and program.is_relative_to(Path.cwd())
    called = str(program.relative_to(Path.cwd())) if in_checkout else "dcurate"
    commands = {
        f"{called} profile FOLDER": "what each rule would drop",
        f"{called} run {recipe.source.stem} --input FOLDER --output OUT": "this recipe",
        f"{called} recipes": "others",
    }
    width = max(map(len, commands))
    lines = [f"  {command:{width}}  {purpose}" for command, purpose in commands.items()]
    return ["\n".join(["next, with a folder of your own files (JSONL, CSV, Parquet):", *lines])]


def _write_warnings_as_json(stack: ExitStack) -> None:
    """Write warnings to standard error as lines of JSON, until the stack ends."""
    warnings = logging.StreamHandler()
    warnings.setFormatter(JsonLines())
    logging.getLogger("dcurate").addHandler(warnings)
    stack.callback(logging.getLogger("dcurate").removeHandler, warnings)


def _shown(progress: str, recipe: Recipe, stack: ExitStack) -> list[Observer]:
    """The observers that show progress; what they show ends with the stack."""
    interval = recipe.executor.get("logging_interval", LINE_INTERVAL)
    if progress == "none":
        return []
    if progress == "json":
        return [JsonProgress(interval_s=interval)]
    lines = Console(stderr=True, force_terminal=False) if progress == "lines" else None
    return [stack.enter_context(Progress(lines, interval))]


@cli.command(short_help="Show how a recipe would run.")
@_recipe_options
@click.option("--types", is_flag=True, help="Show the type of each column after each stage, from the first rows.")
@click.option("--estimate", is_flag=True, help="Run a sample of the input, and estimate what a run will take.")
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    help="Slots of the cluster; as many as this host has CPUs if not given.",
)
def plan(
    *,
    recipe: str,
    settings: tuple[str, ...],
    source: str | None,
    output: str | None,
    trust: bool,
    types: bool,
    estimate: bool,
    slots: int | None,
) -> None:
    """Show how a recipe would run: its operators, what each needs, which columns flow.

    With --types, the first rows of the input go through the stages in this process, and the type of each column that a
    stage adds or changes is shown. With --estimate, a sample of the input is run for about 20 seconds in this process;
    nothing is written. The report of the next run says how far the estimate was off. With --slots, a warning says if
    the splits are so small that the scheduler of a cluster of so many slots could not keep up.
    """
    loaded = load_recipe(recipe, overrides(settings, source, output), trust=trust)
    executor = _executor(loaded, None, None, None, {})  # to say here, not at the run, that a setting is wrong
    pipeline = loaded.pipeline
    click.echo(f"{pipeline.name}: {pipeline.description}" if pipeline.description else pipeline.name)
    for name, value in loaded.params.items():
        click.echo(f"  {name}: {'(none)' if value is None else shown(value, name)}")
    stages = pipeline.build()
    click.echo(compile_plan(stages).explain())
    for line in (line for stage in stages for line in stage.forecast()):
        click.echo(line)
    if types:
        click.echo("\n".join(_types(pipeline.schemas())))
    for library in libraries(stages):
        if missing([library.module]):
            click.echo(f"not installed here: {library.error}", err=True)
    if estimate or slots is not None:
        expected = pipeline.estimate(executor, slots=slots)
        if estimate:
            click.echo(expected)
        if warning := expected.overload():
            click.echo(warning, err=True)


def _types(schemas: Mapping[str, Any]) -> Iterator[str]:
    """The columns of the input with their types, then for each stage those that it adds, changes or removes."""
    before: dict[str, str] = {}
    for name, schema in schemas.items():
        now = {column.name: str(column.type) for column in schema}
        changes = [f"{column} {kind}" for column, kind in now.items() if before.get(column) != kind]
        changes += [f"without {column}" for column in before if column not in now]
        yield f"{name}: {', '.join(changes) or 'the same'}"
        before = now


@cli.command(short_help="List the bundled recipes, or print one.")
@click.argument("name", required=False)
@debug_option
def recipes(*, name: str | None) -> None:
    """List the bundled recipes and the params that they take.

    With the NAME of one, print it, to begin one of your own with: dcurate recipes c4 > mine.yaml
    """
    if name is not None:
        click.echo(_bundled(name), nl=False)
        return
    table = Table("recipe", "what it does", "params", box=None, pad_edge=False, padding=(0, 2, 1, 0))
    for recipe in bundled_recipes():
        params = "\n".join(
            f"{name}: {'(required)' if value is None else '(optional)' if value == '${none}' else value}"
            for name, value in recipe.params.items()
        )
        table.add_row(Text(recipe.name, "bold"), Text(recipe.description), Text(params))
    console().print(table)


def _bundled(name: str) -> str:
    """The text of a bundled recipe."""
    paths = {recipe.name: recipe.path for recipe in bundled_recipes()}
    if name not in paths:
        raise PipelineError(f"no bundled recipe is named {name!r}{nearest(name, paths)}")
    return paths[name].read_text("utf-8")


def overrides(settings: tuple[str, ...], source: str | None, output: str | None) -> dict[str, Any]:
    """The params that the command line sets."""
    paths = {name: path for name, path in (("input", source), ("output", output)) if path is not None}
    return dict(map(parse_setting, settings)) | paths


def _executor(
    recipe: Recipe, mode: str | None, scheduler: str | None, workers: int | None, limits: Mapping[str, Any]
) -> Any:
    """The executor that the recipe and the command line ask for."""
    if scheduler == "":
        raise click.UsageError("--scheduler has no address; give one, or leave the option out to run on this machine")
    if scheduler and workers:
        raise click.UsageError(
            "--workers starts workers here and --scheduler uses those of a cluster; give one of them"
        )
    config = {**recipe.executor, **({"execution_mode": mode} if mode else {}), **limits}
    if scheduler and config.get("execution_mode") == "inline":
        raise click.UsageError("mode inline uses no workers; leave out --scheduler and --workers")
    try:
        if mode == "inline" and recipe.executor.get("execution_mode") != "inline":
            config = _without_workers(config)
        if scheduler:
            timeout = config.get("scheduler_timeout_s", SCHEDULER_TIMEOUT)
            return dcurate.DaskExecutor(config, dcurate.AttachedCluster(scheduler, timeout))
        return local_executor(config, workers)
    except PipelineError as error:
        raise PipelineError(f"{recipe.source.name}, executor: {error}") from error


def _without_workers(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that have an effect in mode inline, in which a recipe for workers is run; name the others."""
    ExecutorConfig.of({name: value for name, value in config.items() if name != "execution_mode"})
    unused = [name for name in config if name in _WORKER_SETTINGS]
    if unused:
        _log.warning("%s of the recipe: no effect in mode inline, which has no workers", listed(unused))
    return {name: value for name, value in config.items() if name not in unused}

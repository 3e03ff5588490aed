"""``dcurate submit``, ``jobs``, ``logs``, ``stop``, ``resume``, ``wait`` and ``describe``."""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from dcurate.cli.group import MODES, cli, console, debug_option, sign_options, trust_option
from dcurate.cli.recipes import overrides
from dcurate.cli.scheduler import scheduler_options
from dcurate.cli.shares import share_options
from dcurate.core.lazy import lazy
from dcurate.engine.config import ExecutorConfig
from dcurate.errors import PipelineError
from dcurate.jobs.archive import archived_jobs, archived_lines
from dcurate.jobs.records import JobRecord, JobSpec, LogLine
from dcurate.recipe import load_recipe
from dcurate.runs.text import many, seconds_text
from dcurate.ui.heartbeat import Heartbeat

if TYPE_CHECKING:
    from dcurate.jobs import client as clients
    from dcurate.ui import openlineage as openlineages
else:  # they import Dask and Arrow, and other commands need none of it
    clients, openlineages = lazy("dcurate.jobs.client"), lazy("dcurate.ui.openlineage")

#: Exit codes of ``wait`` for a job that was stopped, and for one that goes on when the time is over.
STOPPED, GOES_ON = 143, 124

#: What would control a terminal: a stage may print its data.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")

_json = click.option("--json", "as_json", is_flag=True, help="Write JSON, for other programs.")


@cli.command(short_help="Run a recipe or a script as a job of a cluster.")
@click.argument("what", metavar="RECIPE|SCRIPT.py:PIPELINE")
@scheduler_options
@click.option("--name", default="", help="Name that no other job has while it goes on; by default that of the recipe.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a param; repeatable.")
@click.option("--input", "source", metavar="PATH", help="Same as --set input=PATH.")
@click.option("--output", metavar="PATH", help="Same as --set output=PATH.")
@click.option("--mode", type=click.Choice(MODES[:2]), help="Execution mode, instead of that of the recipe.")
@click.option("--resume", is_flag=True, help="Resume an earlier run into the same output.")
@click.option("--rejected", metavar="PATH", help="Keep dropped documents, with their reasons, under this path.")
@click.option("--no-examples", is_flag=True, help="Show no excerpts of dropped documents in the report.")
@click.option("--proof", is_flag=True, help="Leave a proof of every row, which dcurate prove checks.")
@share_options
@click.option("--attach", is_flag=True, help="If a job of this name goes on and runs the same, start no other one.")
@click.option("--follow", "-f", is_flag=True, help="Show the log until the job has ended; Ctrl-C leaves the job alone.")
@_json
@sign_options
@trust_option
@debug_option
def submit(
    *,
    what: str,
    scheduler: str | None,
    name: str,
    settings: tuple[str, ...],
    source: str | None,
    output: str | None,
    mode: str | None,
    resume: bool,
    rejected: str | None,
    no_examples: bool,
    proof: bool,
    limits: dict[str, Any],
    attach: bool,
    follow: bool,
    as_json: bool,
    heartbeat: str | None,
    webhook: str | None,
    openlineage: str | None,
    trust: bool,
) -> None:
    """Run a recipe or a script as a job of a cluster, and return at once.

    The job goes on when this machine is gone. A process beside a worker runs it; when that dies, another takes over.
    Paths are those of the cluster's hosts; relative ones begin in this folder, which must be there, too.
    SCRIPT.py:PIPELINE names a dcurate.Pipeline in a script, or a function that returns one and takes the params.
    """
    address = _address(scheduler)
    params = overrides(settings, source, output)
    options: dict[str, Any] = {
        "settings": params,
        "executor": ({"execution_mode": mode} if mode else {}) | limits,
        "resume": resume,
        "rejected": rejected,
        "examples": not no_examples,
        "proof": proof,
        "trust": trust,
        "heartbeat": heartbeat,
        "webhook": webhook,
        "openlineage": openlineages.OpenLineageSettings.of_environment(openlineage).to_dict(),
    }
    ExecutorConfig.of(limits)
    Heartbeat(heartbeat, webhook)  # to say here, not in the log of the job, that one is wrong
    script, _, attribute = what.rpartition(":")
    if script.endswith(".py"):
        spec = JobSpec("script", Path(script).name, _text(script), attribute, **options)
    elif what.endswith(".py"):
        raise click.UsageError(f"name the pipeline in the script: {what}:PIPELINE")
    else:
        recipe = load_recipe(what, params, trust=trust)
        spec = JobSpec("recipe", recipe.source.name, recipe.source.read_bytes(), **options)
    job = clients.submit_spec(spec, address, name or Path(spec.title).stem, attach=attach)
    if as_json:
        click.echo(json.dumps({"job": job.id, "scheduler": job.scheduler}))
    else:
        click.echo(f"job {job.id} was submitted; follow it with: dcurate logs -f {job.id} --scheduler {job.scheduler}")
    if follow:
        _show(job.logs(follow=True), as_json)
        _exit_with(job.describe())


@cli.command("jobs", short_help="List the jobs of a cluster, or those of an output.")
@click.argument("output", required=False)
@scheduler_options
@click.option("--all", "all_jobs", is_flag=True, help="List all jobs that ended, and not only the last 20.")
@_json
@debug_option
def list_jobs(*, output: str | None, scheduler: str | None, all_jobs: bool, as_json: bool) -> None:
    """List the jobs of a cluster: who, what, how far; or those that wrote to OUTPUT, without a cluster."""
    jobs = archived_jobs(output) if output is not None else clients.jobs_on(_address(scheduler))
    if as_json:
        click.echo(json.dumps([job.to_dict() for job in jobs]))
        return
    live = [job for job in jobs if job.is_live]
    ended = [job for job in jobs if not job.is_live]
    shown = [*live, *(ended if all_jobs else ended[:20])]
    if not shown:
        nothing = "no jobs; submit one with: dcurate submit RECIPE"
        click.echo(nothing if output is None else f"no job wrote to {output!r}")
        return
    table = Table("job", "name", "owner", "state", "for", "progress", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for job in shown:
        table.add_row(job.id, Text(job.name), Text(job.owner), _state(job), _duration(job), Text(_progress(job)))
    console().print(table)
    if len(shown) < len(jobs):
        click.echo(f"{many(len(jobs) - len(shown), 'job')} more that ended: --all")


@cli.command(short_help="Show the log of a job.")
@click.argument("job")
@scheduler_options
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
@click.option("--output", metavar="PATH", help="Read the log from the records of this output, without a cluster.")
@_json
@debug_option
def logs(*, job: str, scheduler: str | None, follow: bool, output: str | None, as_json: bool) -> None:
    """Show the log of a JOB: what its driver prints and logs, and what its stages print, log and warn on workers."""
    if output is not None:
        _show(archived_lines(output, _archived(output, job).id), as_json)
    else:
        _show(clients.Job(_address(scheduler), job).logs(follow), as_json)


@cli.command(short_help="Stop a job.")
@click.argument("job")
@scheduler_options
@_json
@debug_option
def stop(*, job: str, scheduler: str | None, as_json: bool) -> None:
    """Stop a JOB, and free its slots. What is finished stays, and 'dcurate resume' goes on from there."""
    target = clients.Job(_address(scheduler), job)
    target.stop()
    _tell(target.wait(60.0), as_json)


@cli.command(short_help="Resume a job that failed or was stopped.")
@click.argument("job")
@scheduler_options
@_json
@debug_option
def resume(*, job: str, scheduler: str | None, as_json: bool) -> None:
    """Resume a JOB that failed or was stopped, from what is finished."""
    _tell(clients.Job(_address(scheduler), job).resume(), as_json)


@cli.command(short_help="Wait until a job has ended.")
@click.argument("job")
@scheduler_options
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait no longer than this.")
@_json
@debug_option
def wait(*, job: str, scheduler: str | None, timeout: float | None, as_json: bool) -> None:
    """Wait until a JOB has ended. Exit codes: 0 done, 1 failed, 143 stopped, 124 it goes on when the time is over."""
    record = clients.Job(_address(scheduler), job).wait(timeout)
    _tell(record, as_json)
    _exit_with(record)


@cli.command(short_help="Show the state of a job.")
@click.argument("job")
@scheduler_options
@click.option("--output", metavar="PATH", help="Read it from the records of this output, without a cluster.")
@_json
@debug_option
def describe(*, job: str, scheduler: str | None, output: str | None, as_json: bool) -> None:
    """Show the state of a JOB: owner, progress, why it waits, output."""
    if output is None:
        _tell(clients.Job(_address(scheduler), job).describe(), as_json)
    else:
        _tell(_archived(output, job), as_json)


def _archived(output: str, job: str) -> JobRecord:
    """The newest job of an id or a name that wrote to an output.

    Raises:
        PipelineError: no such job did.
    """
    records = [record for record in archived_jobs(output) if job in (record.id, record.name)]
    if not records:
        raise PipelineError(f"no job {job!r} wrote to {output!r}; list them with: dcurate jobs {output}")
    return records[0]


def _address(scheduler: str | None) -> str:
    if not scheduler:
        raise click.UsageError(
            "name the cluster: --scheduler tcp://host:8786, --scheduler-file FILE, or set DASK_SCHEDULER_ADDRESS"
        )
    return scheduler


def _text(script: str) -> bytes:
    try:
        return Path(script).read_bytes()
    except OSError as error:
        raise PipelineError(f"the script {script!r} cannot be read: {error.strerror}") from error


def _show(lines: Iterable[LogLine], as_json: bool) -> None:
    for line in lines:
        if as_json:
            click.echo(json.dumps(line.to_dict()))
        else:
            moment = datetime.datetime.fromtimestamp(line.time).strftime("%H:%M:%S")
            level = "" if line.level in ("OUT", "INFO") else f"{line.level} "
            text = _CONTROL.sub(lambda sign: repr(sign[0])[1:-1], line.text)
            click.echo(f"{moment} {line.source}: {level}{text}")


def _tell(record: JobRecord, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(record.to_dict()))
        return
    rows = {
        "job": f"{record.id} ({record.name})",
        "runs": record.title,
        "owner": record.owner,
        "state": f"{_state(record)} for {_duration(record)}" if record.is_live else _state(record).plain,
        "why": record.why,
        "progress": _progress(record),
        "output": record.output,
        "driver": f"{record.driver} (number {record.attempt})" if record.driver else "",
        "run": record.run,
        "took": "" if record.is_live else _duration(record),
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        if value:
            table.add_row(Text(name, "dim"), Text(value))
    console().print(table)


def _state(record: JobRecord) -> Text:
    styles = {"done": "green", "failed": "red", "stopped": "yellow"}
    return Text(record.state, styles.get(record.state, "bold"))


def _duration(record: JobRecord) -> str:
    return seconds_text(max(0.0, (record.ended or time.time()) - (record.started or record.submitted)))


def _progress(record: JobRecord) -> str:
    if record.is_live and not record.progress:
        return record.why
    _, _, line = record.progress.partition(": ")
    return record.why if record.state == "failed" else line


def _exit_with(record: JobRecord) -> None:
    code = GOES_ON if record.exit_code is None else record.exit_code
    if code:
        click.get_current_context().exit(code)

"""``dcurate nemo``: a script of NeMo Curator, run on dcurate."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from dcurate.cli.group import cli
from dcurate.compat.nemo import trust
from dcurate.compat.nemo.script import NOT_READ, NotReadError, run_module, run_script


@cli.command(
    short_help="Run a script that was written for NeMo Curator.",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module.")
@click.option("--cpu", is_flag=True, help="Run what asks for a GPU on CPUs.")
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with models, such as Cosmos-Embed1.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def nemo(*, script: str, arguments: tuple[str, ...], as_module: bool, cpu: bool, trust_remote_code: bool) -> None:
    """Run SCRIPT with ARGUMENTS as python does. In it, nemo_curator is dcurate."""
    try:
        with trust.granted() if trust_remote_code else nullcontext():
            sys.exit((run_module if as_module else run_script)(script, arguments, cpu=cpu))
    except NotReadError as error:
        click.echo(f"dcurate nemo: {error}", err=True)
        sys.exit(NOT_READ)

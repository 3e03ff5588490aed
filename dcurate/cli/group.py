"""What all commands have in common: the group, how output looks, how errors end."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from typing import Any, NoReturn

import click
from rich.console import Console

import dcurate
from dcurate.errors import DcurateError, PipelineError

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

#: Seconds between progress lines where there is no terminal.
LINE_INTERVAL = 10.0

MODES = ("streaming", "batch", "inline")

#: Of every command.
debug_option = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dcurate.__version__, prog_name="dcurate", message="%(prog)s %(version)s")
def cli() -> None:
    """Curate LLM training data on Dask.

    RECIPE is a YAML file, or the name of a bundled recipe.
    """


def local_executor(config: dict[str, Any], workers: int | None) -> Any:
    """An executor on this machine."""
    if config.get("execution_mode") == "inline":
        if workers:
            raise click.UsageError("mode inline uses no workers; leave out --scheduler and --workers")
        return dcurate.InlineExecutor()
    return dcurate.DaskExecutor(config, dcurate.LocalCluster(n_workers=workers) if workers else None)


def console() -> Console:
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

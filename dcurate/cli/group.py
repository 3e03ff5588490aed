"""What all commands share: the command group, the console and error handling."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import reduce
from io import TextIOWrapper
from itertools import pairwise
from types import FrameType
from typing import Any, NoReturn

import click
from rich.console import Console

import dcurate
from dcurate.core.secrets import argument_without_secrets
from dcurate.errors import DcurateError, PipelineError
from dcurate.redaction import redacted

FAILED, WRONG_USE = 1, 2

#: What a signal that ends a command is called.
_ENDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}

#: Arguments in Python, as sentences name them, and what does the same in a shell.
_IN_A_SHELL = {
    "execution_mode='batch'": "--mode batch",
    "resume=True": "--resume",
    "mode='overwrite'": "--set mode=overwrite",
    "mode='ignore'": "--set mode=ignore",
    "mode='append'": "--set mode=append",
    "raise max_cost": "raise --max-cost",
    "raise max_total_tokens": "raise --max-total-tokens",
}
#: Commands that go on with --resume.
_RESUMABLE = (["run"], ["label"])

#: Commands that take types of columns, and how Python names these.
_TYPED = (["peek"], ["profile"])
_SIGN = re.compile(r"delimiter=('[^']+')")
_TYPES = re.compile(r"schema=\{'([^']+)': '([^']+)'\}")

#: Commands that take a recipe, which need not be one's own, nor the folder that it is in.
_RECIPE_COMMANDS = ("run", "plan", "profile", "finish")
#: Settings that numba takes from the working directory.
_NUMBA_CONFIG = ".numba_config.yaml"

#: Seconds until a signal is sent again that was lost.
AGAIN_S = 0.05
#: Seconds between progress lines where there is no terminal.
LINE_INTERVAL = 10.0

MODES = ("streaming", "batch", "inline")

#: Of every command.
debug_option = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")

_SIGNS = (
    click.option("--heartbeat", metavar="FILE", help="Renew this file with state and progress, as JSON."),
    click.option(
        "--webhook",
        metavar="URL",
        envvar="DCURATE_WEBHOOK",
        help="POST the state as JSON when it changes; DCURATE_WEBHOOK hides it from lists of processes.",
    ),
    click.option(
        "--openlineage",
        metavar="URL|FILE",
        help="Report the run to OpenLineage: a server, or a file of JSON Lines; OPENLINEAGE_URL by default.",
    ),
)


def sign_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of signs for orchestrators."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(_SIGNS), command)


#: Of every command that takes a recipe.
trust_option = click.option(
    "--trust", is_flag=True, help="Let the recipe run any code, for example classes of your own."
)


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
        return dcurate.InlineExecutor({name: config[name] for name in config if name != "execution_mode"})
    return dcurate.DaskExecutor(config, dcurate.LocalCluster(n_workers=workers) if workers else None)


def console() -> Console:
    """Standard output; where it is not a terminal, wide enough for the report."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=120)


def writes_json(arguments: list[str]) -> bool:
    """Whether progress is asked for as JSON lines, so that standard error has nothing else.

    Examples:
        >>> writes_json(["run", "demo", "--progress", "json"]), writes_json(["run", "--progress=json"])
        (True, True)
        >>> writes_json(["run", "json", "--progress", "lines"])
        False
    """
    return "--progress=json" in arguments or ("--progress", "json") in pairwise(arguments)


class JsonLines(logging.Formatter):
    """Formats a warning as a line of JSON, for standard error where progress is JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return json.dumps({"notice": redacted(record.getMessage())})


def _fail(message: str, code: int, debug: bool) -> NoReturn:
    """End with one sentence on standard error."""
    trace = redacted(traceback.format_exc()) if debug else ""
    message = redacted(message)
    if writes_json(sys.argv[1:]):
        line = {"error": message.removeprefix("error: "), "code": code}
        click.echo(json.dumps(line | ({"trace": trace} if trace else {})), err=True)
        sys.exit(code)
    click.echo(trace, err=True, nl=False)
    click.echo(" ".join(message.splitlines()) if message.startswith("error:") else message, err=True)
    sys.exit(code)


def message_of(error: BaseException | str, arguments: list[str]) -> str:
    """Return an error or notice with command options in place of Python arguments, and without secrets."""
    sentence = str(error)
    for argument, option in _IN_A_SHELL.items() if arguments[:1] in _RESUMABLE else ():
        sentence = sentence.replace(argument, option)
    if arguments[:1] in _TYPED:
        sentence = _SIGN.sub(r"--delimiter \1", _TYPES.sub(r"--schema \1=\2", sentence))
    return redacted(sentence)


def _ended(how: str, arguments: list[str]) -> str:
    """Return the message for a command that a signal ended."""
    if arguments[:1] not in _RESUMABLE:
        return how
    again = arguments if "--resume" in arguments else [*arguments, "--resume"]
    return f"{how}; resume with: dcurate {shlex.join(map(argument_without_secrets, again))}"


def _mind_signals() -> list[int]:
    """Have Ctrl-C and SIGTERM end the command, the first cleanly and the next at once; return those received."""
    came: list[int] = []
    lost: list[int] = []
    stopping = "stopping cleanly; press Ctrl-C again to stop at once"
    notice = f"{json.dumps({'notice': stopping}) if writes_json(sys.argv[1:]) else stopping}\n".encode()

    def end(number: int, _frame: FrameType | None) -> None:
        if lost:
            lost.clear()
            raise KeyboardInterrupt
        came.append(number)
        if len(came) > 1:
            os._exit(128 + number)  # worker processes see that this one is gone, and go too
        # Not by a stream: the signal may have come while that is written to.
        os.write(2, notice)
        raise KeyboardInterrupt

    def send_again(unraisable: sys.UnraisableHookArgs) -> None:
        """Send a signal again that came within a callback from C, as of LLVM: Python ignores what is raised there."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt) or not came:
            sys.__unraisablehook__(unraisable)
            return
        lost.append(came[0])
        threading.Timer(AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, came[0])).start()

    sys.unraisablehook = send_again
    for number in _ENDS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, end)
    return came


def _prepare() -> list[int]:
    """Set up the process for a command; return the signals received, as they come."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a character gets "?", not an error after the run
    atexit.register(gc.freeze)  # Python would look for garbage in all that was loaded, for a third of a second
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # a folder hides no package from worker processes either
    return _mind_signals()


def main() -> None:
    """The ``dcurate`` command. Exit codes: 0 done, 1 failed, 2 wrong use or recipe, 130 interrupted, 143 terminated."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    is_script = arguments[:1] == ["nemo"]  # it has the process as python gives it
    signals = [] if is_script else _prepare()
    if "--trust" in arguments and not is_script:
        sys.path.append(os.getcwd())  # a recipe may then name classes in modules beside it
    elif arguments[:1] and arguments[0] in _RECIPE_COMMANDS and os.path.isfile(_NUMBA_CONFIG):
        _fail(
            f"error: {_NUMBA_CONFIG} in this folder sets where numba loads compiled code from; run elsewhere, "
            "remove it, or give --trust if you trust it as you would a program",
            WRONG_USE,
            debug,
        )
    try:
        code = cli.main(arguments, prog_name="dcurate", standalone_mode=False)
    except PipelineError as error:
        _fail(f"error: {message_of(error, arguments)}", WRONG_USE, debug)
    except (DcurateError, OSError) as error:
        _fail(f"error: {message_of(error, arguments)}", FAILED, debug)
    except click.exceptions.NoArgsIsHelpError as error:
        _fail(error.format_message(), WRONG_USE, debug)
    except click.ClickException as error:
        _fail(f"error: {error.format_message()}", WRONG_USE, debug)
    except (click.Abort, KeyboardInterrupt):
        number = signals[0] if signals else signal.SIGINT
        exec("")  # else Python ends by a signal, not this code, if an `exec` of text was interrupted
        _fail(_ended(_ENDS[signal.Signals(number)], arguments), 128 + number, debug)
    sys.exit(code)

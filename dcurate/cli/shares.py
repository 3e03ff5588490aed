"""Options of commands that run on a cluster beside other runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

import click

from dcurate.errors import PipelineError

_Command = Callable[..., None]

#: Each sets the executor's setting of its name.
_OPTIONS = (
    click.option(
        "--share",
        type=click.FloatRange(min=0, min_open=True),
        metavar="WEIGHT",
        help="Weight among the runs on the cluster: 2 gets twice what 1 gets.",
    ),
    click.option("--priority", type=int, help="Runs of a higher priority go first; 0 if not given."),
    click.option("--max-cpus", type=click.IntRange(min=1), help="Use no more CPUs than this."),
    click.option("--max-gpus", type=click.IntRange(min=1), help="Use no more GPUs than this."),
)


def share_options(command: _Command) -> _Command:
    """Give a command the options of shares; it gets ``limits``, the settings that were named, by name."""

    @wraps(command)
    def wrapped(
        *, share: float | None, priority: int | None, max_cpus: int | None, max_gpus: int | None, **options: Any
    ) -> None:
        limits = {"share": share, "priority": priority, "max_cpus": max_cpus, "max_gpus": max_gpus}
        command(limits={name: value for name, value in limits.items() if value is not None}, **options)

    return reduce(lambda inner, option: option(inner), reversed(_OPTIONS), wrapped)


def check_limits(limits: dict[str, Any], mode: object, scheduler: str | None) -> None:
    """Refuse limits that would have no effect.

    Raises:
        PipelineError: the run has no workers, or workers of its own.
    """
    for name in limits:
        option = f"--{name.replace('_', '-')}"
        if mode == "inline":
            raise PipelineError(f"mode inline uses no workers; leave out {option}")
        if name in ("share", "priority") and not scheduler:
            raise PipelineError(f"{option} is for a cluster with other runs on it; name the cluster with --scheduler")

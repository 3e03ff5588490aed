"""What a worker started by ``dask worker`` says of itself: ``dask worker ADDRESS --preload dcurate.preload [OPTIONS]``.

What no option says is found out on the worker. Harmless on a scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
from distributed import Scheduler, Worker

from dcurate.errors import ResourceError
from dcurate.worker.announce import Said, declare, found, names

T = TypeVar("T")


def _checked(make: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """A check that ``dask worker`` makes while it reads its options, so that what is wrong ends it at once."""

    def check(context: click.Context, parameter: click.Parameter, value: str | None) -> T | None:
        try:
            return None if value is None else make(value)
        except (ResourceError, ValueError) as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return check


def _amount(text: str) -> float:
    Said(cpus=float(text))
    return float(text)


class _Options(click.Command):
    """Options that are checked together, too, as soon as they are read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        try:
            _said(**ctx.params)
        except ResourceError as error:
            raise click.UsageError(str(error), ctx) from error
        return rest


def _said(host_name: str | None, simulate_gpus: tuple[str, ...] | None, **more: Any) -> Said:
    return Said(host=host_name, simulated_gpus=simulate_gpus, **more)


@click.command(cls=_Options)
@click.option("--host-name", help="Name of the host, so that workers of one machine can stand for several.")
@click.option("--cpus", callback=_checked(_amount), help="CPU cores that each worker process stands for.")
@click.option("--kind", help="What workers of this sort are called: 'cpu' (no GPUs), 'gpu', or any other label.")
@click.option("--simulate-gpus", callback=_checked(names), help="GPUs that are not there, its own first, such as 0,1.")
@click.option("--simulated-gpu-memory-gb", callback=_checked(_amount), help="Memory of each of these, in GB.")
def dask_setup(worker: Worker | Scheduler, **options: Any) -> None:
    """Called by Dask in each worker process as it starts, with the options behind ``--preload dcurate.preload``."""
    if isinstance(worker, Worker):
        declare(worker, found(worker, _said(**options).over(Said.in_environment(os.environ))))

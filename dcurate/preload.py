"""The preload of a cluster's processes: ``--preload dcurate.preload``.

A worker (``dask worker ADDRESS --preload dcurate.preload [OPTIONS]``) sets its info; what no option specifies is
detected. A scheduler (``dask scheduler --preload dcurate.preload``) has its page ``/curation`` and its metrics of runs
at once, and not only from the first run on. It loads what runs need then, too, instead of while it serves workers.
With ``--jobs-folder FOLDER`` it keeps its jobs there, for when it is started again.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
from distributed import Scheduler, Worker

from dcurate.cluster.worker_info import WorkerOverrides, detect, names, set_worker_info
from dcurate.core.slot_gpus import SIMULATED
from dcurate.errors import ResourceError

T = TypeVar("T")


def _checked(make: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Make an option's check, which ``dask worker`` runs while it reads its options."""

    def check(context: click.Context, parameter: click.Parameter, value: str | None) -> T | None:
        try:
            return None if value is None else make(value)
        except (ResourceError, ValueError) as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return check


def _amount(text: str) -> float:
    WorkerOverrides(cpus=float(text))
    return float(text)


class _CheckedCommand(click.Command):
    """Options that are also checked together, as soon as they are read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        remaining = super().parse_args(ctx, args)
        try:
            _overrides(**ctx.params)
        except ResourceError as error:
            raise click.UsageError(str(error), ctx) from error
        return remaining


def _overrides(
    host_name: str | None, simulate_gpus: tuple[str, ...] | None, jobs_folder: str | None = None, **more: Any
) -> WorkerOverrides:
    return WorkerOverrides(host=host_name, simulated_gpus=simulate_gpus, **more)


@click.command(cls=_CheckedCommand)
@click.option("--host-name", help="Name of the host, so that workers of one machine can act as several.")
@click.option("--cpus", callback=_checked(_amount), help="CPU cores that each worker process counts for.")
@click.option("--kind", help="What workers of this sort are called: 'cpu' (no GPUs), 'gpu', or any other label.")
@click.option("--simulate-gpus", callback=_checked(names), help="GPUs that are not there, its own first, such as 0,1.")
@click.option("--simulated-gpu-memory-gb", callback=_checked(_amount), help="Memory of each of these, in GB.")
@click.option("--jobs-folder", help="Folder in which a scheduler keeps its jobs; only its user may read it.")
def dask_setup(server: Worker | Scheduler, **options: Any) -> Awaitable[None] | None:
    """Called by Dask in each process as it starts, with the options behind ``--preload dcurate.preload``."""
    if isinstance(server, Scheduler):
        importlib.import_module("dcurate.engine.dask.scheduler_plugin")
        return _set_up_scheduler(server, options["jobs_folder"])
    overrides = _overrides(**options).over(WorkerOverrides.in_environment(os.environ))
    if overrides.simulated_gpus is not None:
        os.environ[SIMULATED] = ",".join(overrides.simulated_gpus)  # for the sandboxes, too
    set_worker_info(server, detect(server, overrides))
    return None


async def _set_up_scheduler(scheduler: Scheduler, jobs_folder: str | None) -> None:
    # Nannies and workers, which load this module, too, need none of it.
    from dcurate.jobs.board import PLUGIN as JOBS  # noqa: PLC0415
    from dcurate.jobs.board import JobBoard  # noqa: PLC0415
    from dcurate.ui.scheduler_store import PLUGIN, SchedulerStore  # noqa: PLC0415

    await scheduler.register_scheduler_plugin(SchedulerStore(), PLUGIN, idempotent=True)
    await scheduler.register_scheduler_plugin(JobBoard(jobs_folder), JOBS, idempotent=True)

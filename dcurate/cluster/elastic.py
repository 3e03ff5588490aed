"""Clusters of several kinds of workers that grow and shrink by kind."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import dask
from distributed import Adaptive, Client, SpecCluster, Status
from distributed.deploy import Cluster as DaskCluster
from distributed.protocol.pickle import dumps

from dcurate.cluster.base import Cluster
from dcurate.cluster.compat import ClosingSpecCluster, call_scheduler
from dcurate.cluster.nannies import (
    DASK_SETTINGS,
    cause_of_start_failure,
    check_main_program,
    local_scheduler,
    start_error,
    tolerate_resource_tracker_exit,
)
from dcurate.cluster.scale_api import OFFER, ScaleApi
from dcurate.cluster.worker_pools import Kind, SpecSupply, Supply
from dcurate.cluster.worker_shape import Shape
from dcurate.errors import ResourceError, RunError, nearest

#: How long a retiring worker may finish its calls, in seconds.
PATIENCE_S = 60.0
#: How often to check whether the last adaptation has ended, in seconds.
FINISH_LOOK_S = 0.02


class KindsAdaptive(Adaptive):  # type: ignore[misc]
    """Scales the workers of each kind to the number that the runs want: up at once, down after confirmations.

    Args:
        cluster: an open Dask cluster.
        supplies: start and end workers, by kind.
        interval: seconds between two adaptations; None to adapt only when asked.
        wait_count: adaptations in a row that must want fewer workers before some are retired.
        patience_s: how long a retiring worker may finish its calls, in seconds.
    """

    def __init__(
        self,
        cluster: DaskCluster,
        supplies: Mapping[str, Supply],
        interval: float | None = 1.0,
        wait_count: int = 3,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._adapting: bool = False
        self.supplies = dict(supplies)
        self.patience_s = patience_s
        self._lower_targets: dict[str, list[int]] = {}
        self._retiring: dict[str, int] = {}
        self._retired: dict[str, set[Any]] = {kind: set() for kind in supplies}
        self._tasks: set[asyncio.Task[None]] = set()
        super().__init__(cluster, interval=interval or 0, minimum=0, maximum=math.inf, wait_count=wait_count)

    async def adapt(self) -> None:
        """Ask for the desired numbers of workers, and act on them (called by Dask periodically)."""
        if self._adapting or self.cluster.status != Status.running:
            return
        self._adapting = True
        try:
            wanted = await self.offer()
            for kind, supply in self.supplies.items():
                await supply.replace_lost()
                await self._scale_towards(kind, supply.shape.clamped(wanted.get(kind, 0)))
        finally:
            self._adapting = False

    async def offer(self) -> dict[str, int]:
        """Send the scheduler the shapes of workers that could be started; return the desired numbers."""
        shapes = {kind: supply.shape.to_dict() for kind, supply in self.supplies.items()}
        wanted: dict[str, int] = await call_scheduler(self.cluster, "dcurate_offer", shapes=shapes)
        return wanted

    async def number(self, kind: str) -> int:
        """Count the workers of a kind (or jobs, or pods), without those that are retiring."""
        entries = await self.supplies[kind].entries()
        return len(set(entries) - self._retired[kind]) - self._retiring.get(kind, 0)

    async def scale(self, kind: str, number: int) -> None:
        """Scale a kind to `number` workers; return when those that are retired are gone."""
        now = await self.number(kind)
        if number > now:
            await self.supplies[kind].start(number - now)
        elif number < now:
            await self._retire(kind, now - number)

    async def _scale_towards(self, kind: str, wanted: int) -> None:
        now = await self.number(kind)
        if wanted >= now:
            self._lower_targets.pop(kind, None)
            await self.scale(kind, wanted)
            return
        fewer = self._lower_targets.setdefault(kind, [])
        fewer.append(wanted)
        if len(fewer) >= self.wait_count and not self._retiring.get(kind):
            del self._lower_targets[kind]
            task = asyncio.ensure_future(self._retire(kind, now - max(fewer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _retire(self, kind: str, number: int) -> None:
        entries = await self.supplies[kind].entries()
        among = [[entry, list(names)] for entry, names in entries.items() if entry not in self._retired[kind]]
        self._retiring[kind] = self._retiring.get(kind, 0) + number
        gone: list[Any] = []
        try:
            options = {"among": among, "number": number, "patience_s": self.patience_s}
            gone = await call_scheduler(self.cluster, "dcurate_retire", **options)
        finally:
            self._retired[kind].update(gone)
            self._retiring[kind] -= number
        # A SpecCluster that is stopped while it starts or ends processes would lose sight of them.
        await asyncio.shield(self._end(kind, gone))

    async def _end(self, kind: str, entries: Sequence[Any]) -> None:
        try:
            await self.supplies[kind].end(entries)
        finally:
            self._retired[kind].difference_update(entries)

    async def finish(self) -> None:
        """Stop, cancel what is under way, and withdraw the offer."""
        self.stop(reason="finished")
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._adapting:
            await asyncio.sleep(FINISH_LOOK_S)
        with suppress(OSError):
            await call_scheduler(self.cluster, "dcurate_offer", shapes={})


def adapt_kinds(
    cluster: DaskCluster,
    kinds: Mapping[str, Kind | Supply],
    interval_s: float | None = 1.0,
    wait_count: int = 3,
    patience_s: float = PATIENCE_S,
) -> KindsAdaptive:
    """Let a Dask cluster grow and shrink by kind, following the runs; instead of its own ``adapt``.

    Args:
        cluster: an open cluster, such as dask-jobqueue's ``SLURMCluster``. Its scheduler needs dcurate installed.
        kinds: by name. A `Kind` is kept up within the cluster itself, which must then be a `SpecCluster`; for
            anything else give a `Supply` of your own.
        interval_s: seconds between two adaptations; None to adapt only when asked, and to offer nothing to runs.
        wait_count: adaptations in a row that must want fewer workers before some are retired.
        patience_s: how long a retiring worker may finish its calls, in seconds.

    Returns:
        What does it; ``stop()`` ends it.

    Raises:
        ResourceError: no kinds, or a `Kind` for a cluster that is no `SpecCluster`, or a scheduler without dcurate.
    """
    if not kinds:
        raise ResourceError("kinds is empty; say what workers there may be: {'cpu': Kind(...)}")
    supplies: dict[str, Supply] = {}
    for name, kind in kinds.items():
        if isinstance(kind, Kind) and not isinstance(cluster, SpecCluster):
            raise ResourceError(
                f"kind {name!r} is a Kind, but a {type(cluster).__name__} does not start workers from a specification; "
                "give a Supply that starts and ends them"
            )
        supplies[name] = SpecSupply(cluster, name, kind) if isinstance(kind, Kind) else kind
    try:
        plugin = {"plugin": dumps(ScaleApi()), "name": OFFER, "idempotent": True}
        cluster.sync(call_scheduler, cluster, "register_scheduler_plugin", **plugin)
    except (ImportError, AttributeError) as error:
        raise ResourceError(f"the scheduler cannot load dcurate ({error}); install the same version there") from error
    options = {"supplies": supplies, "interval": interval_s, "wait_count": wait_count, "patience_s": patience_s}
    adaptive: KindsAdaptive = DaskCluster.adapt(cluster, Adaptive=KindsAdaptive, **options)
    if interval_s is not None:
        cluster.sync(adaptive.offer)
    return adaptive


@contextmanager
def _adaptive_warnings_shown() -> Iterator[None]:
    """Show Dask's warnings about workers that cannot be started or retired, however quiet it is otherwise."""
    log, handler = logging.getLogger("distributed.deploy.adaptive"), logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class ElasticCluster(Cluster):
    """Workers of several kinds under one scheduler, as many of each as the runs want.

    Args:
        kinds: by name.
        scheduler: class and options of the scheduler, as Dask's `SpecCluster` takes them; one in this process that
            only this machine can reach if not given. Workers follow its ``protocol``, such as ``"ucxx"``.
        follow: whether to follow what runs want; else only `scale_kind` changes the numbers.
        interval_s: seconds between two adaptations.
        wait_count: adaptations in a row that must want fewer workers before some are retired.
        patience_s: how long a retiring worker may finish its calls, in seconds.

    Raises:
        ResourceError: no kinds.

    Examples:
        >>> kinds = {"cpu": Kind.cpus_here(maximum=4, minimum=1), "gpu": Kind.simulated_gpus_here(maximum=2)}
        >>> ElasticCluster(kinds).shapes["gpu"].maximum
        2
    """

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        scheduler: Mapping[str, Any] | None = None,
        follow: bool = True,
        *,
        interval_s: float = 1.0,
        wait_count: int = 3,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__()
        if not kinds:
            raise ResourceError("kinds is empty; say what workers there may be: {'cpu': Kind.cpus_here()}")
        self.kinds = dict(kinds)
        self.scheduler = dict(scheduler or local_scheduler())
        self.follow = follow
        self.interval_s = interval_s
        self.wait_count = wait_count
        self.patience_s = patience_s
        self._adaptive: KindsAdaptive | None = None

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of the workers that there may be, by kind."""
        return {name: kind.shape for name, kind in self.kinds.items()}

    @property
    def numbers(self) -> dict[str, int]:
        """How many workers of each kind there are, or have been requested.

        Raises:
            RunError: the cluster is not open.
        """
        adaptive = self._running()
        return {kind: adaptive.cluster.sync(adaptive.number, kind) for kind in self.kinds}

    def scale_kind(self, kind: str, number: int) -> None:
        """Scale a kind to `number` workers. Retired workers end their calls, and their results move to others.

        Workers whose results nobody could take stay.

        Raises:
            ResourceError: the kind is not known, or the number is out of its limits.
            RunError: the cluster is not open, or it follows what runs want.
        """
        adaptive = self._running()
        if self.follow:
            raise RunError("the cluster follows what runs want; open it with follow=False to set numbers yourself")
        if kind not in self.kinds:
            raise ResourceError(f"no workers are of kind {kind!r}{nearest(kind, self.kinds)}")
        shape = self.kinds[kind].shape
        if shape.clamped(number) != number:
            raise ResourceError(f"{number} workers of kind {kind!r}: there may be {shape.minimum} to {shape.maximum}")
        adaptive.cluster.sync(adaptive.scale, kind, number)

    def _running(self) -> KindsAdaptive:
        if self._adaptive is None:
            raise RunError(
                "the cluster is not open; use it in a with statement: with ElasticCluster(...) as cluster: ..., "
                "or open() it and close() it at the end"
            )
        return self._adaptive

    def _connect(self, stack: ExitStack) -> Client:
        check_main_program()
        tolerate_resource_tracker_exit()
        stack.enter_context(dask.config.set(DASK_SETTINGS))
        workers = {
            f"{name}-{number}": kind.spec(name, number)
            for name, kind in self.kinds.items()
            for number in range(kind.shape.minimum)
        }
        stack.enter_context(_adaptive_warnings_shown())
        try:
            cluster = stack.enter_context(ClosingSpecCluster(workers, self.scheduler, silence_logs=logging.CRITICAL))
        except Exception as error:  # of Dask, and of any library that workers load as they start
            raise start_error(error) from cause_of_start_failure(error)
        interval_s = self.interval_s if self.follow else None
        adaptive = adapt_kinds(cluster, self.kinds, interval_s, self.wait_count, self.patience_s)
        stack.callback(cluster.sync, adaptive.finish)
        self._adaptive = adaptive
        stack.callback(setattr, self, "_adaptive", None)
        return stack.enter_context(Client(cluster, direct_to_workers=True, set_as_default=False))

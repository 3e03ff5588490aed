"""A cluster that runs elsewhere."""

from __future__ import annotations

import importlib
import logging
from contextlib import ExitStack
from typing import Any, Protocol, runtime_checkable

from distributed import Client, Future, Security
from distributed.deploy import Cluster as DaskCluster

from dcurate.cluster.address import read_scheduler_file
from dcurate.cluster.base import Cluster
from dcurate.cluster.compat import identify_workers
from dcurate.cluster.probe import all_reachable, check_answers, shown
from dcurate.errors import PipelineError, ResourceError, RunError

_log = logging.getLogger("dcurate.cluster")


class AttachedCluster(Cluster):
    """A scheduler at an address, with the workers that were started for it.

    Workers need the same version of dcurate as this process. They detect their resources, unless options say otherwise:
    ``CUDA_VISIBLE_DEVICES=0 dask worker tcp://... --nthreads 8 --preload dcurate.preload --kind gpu``.

    Args:
        address: such as ``tcp://10.0.0.1:8786``; None to read it from ``scheduler_file``.
        timeout_s: how long to wait for it, in seconds.
        security: certificates for an address that begins with ``tls://``; by default those of Dask's configuration.
        scheduler_file: file that ``dask scheduler --scheduler-file`` writes.

    Raises:
        PipelineError: there is neither an address nor a file, or both.
        RunError: when opened: nothing answers at the address.

    Examples:
        >>> AttachedCluster("tcp://10.0.0.1:8786").is_open
        False
    """

    def __init__(
        self,
        address: str | None = None,
        timeout_s: float = 10.0,
        *,
        security: Security | None = None,
        scheduler_file: str | None = None,
    ) -> None:
        super().__init__()
        if (address is None) == (scheduler_file is None):
            raise PipelineError(
                "AttachedCluster needs the address of a scheduler, such as 'tcp://10.0.0.1:8786', or the "
                "scheduler_file= that it wrote, and not both"
            )
        self.address = address or ""
        self.timeout_s = timeout_s
        self.security = security
        self.scheduler_file = scheduler_file

    def _connect(self, stack: ExitStack) -> Client:
        if self.scheduler_file is not None:
            self.address = read_scheduler_file(self.scheduler_file, self.timeout_s)
        check_answers(self.address, self.timeout_s, self.security)
        options = {"timeout": self.timeout_s, "direct_to_workers": True, "set_as_default": False}
        try:
            client = Client(self.address, security=self.security, **options)
        except (OSError, TimeoutError, ValueError) as error:
            raise RunError(
                f"no Dask scheduler answers at {shown(self.address)!r} ({error}); start one with 'dask scheduler'"
            ) from error
        stack.enter_context(client)
        ask_whom_it_reaches(client)
        return client


class ClientCluster(Cluster):
    """A client that the user connected, in a notebook for example; it is used and left open."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._given = client

    def _connect(self, stack: ExitStack) -> Client:
        return self._given


@runtime_checkable
class GivesClients(Protocol):
    """A cluster that is none of Dask's own class, and makes clients as these do: that of dask-gateway."""

    def get_client(self, set_as_default: bool = True) -> Client:
        """Return a connected client."""


class GatewayCluster(Cluster):
    """A cluster that the user started by dask-gateway; it is left running."""

    def __init__(self, cluster: GivesClients) -> None:
        super().__init__()
        self._given = cluster

    def _connect(self, stack: ExitStack) -> Client:
        client: Client = stack.enter_context(self._given.get_client(set_as_default=False))
        return client


class DaskManagedCluster(Cluster):
    """A cluster that the user started with Dask or one of its packages; it is left running."""

    def __init__(self, cluster: DaskCluster) -> None:
        super().__init__()
        self._given = cluster

    def _connect(self, stack: ExitStack) -> Client:
        if self._given.status.name != "running":
            raise RunError(f"the cluster {self._given.name!r} is {self._given.status.name}; start a new one")
        client = stack.enter_context(Client(self._given, direct_to_workers=True, set_as_default=False))
        ask_whom_it_reaches(client)
        return client


def wait_for_workers(client: Client, timeout_s: float) -> Future | None:
    """Wait until a cluster has a worker, and have what scales it start one: Dask's ``adapt(minimum=0)`` and its kin.

    Returns:
        A result that a worker holds; the cluster keeps that worker until it is released. None if there were workers.

    Args:
        client: a client of it.
        timeout_s: longest wait, in seconds.

    Raises:
        ResourceError: none came.
    """
    if identify_workers(client):
        return None
    _log.warning("the cluster has no workers yet; waiting up to %g seconds for some", timeout_s)
    # What scales the cluster looks at tasks, and keeps a worker that alone has their results.
    wanted = client.submit(_load, pure=False)
    try:
        client.wait_for_workers(1, timeout=timeout_s)
    except TimeoutError as error:
        wanted.cancel()
        address = shown(client.scheduler.address)
        raise ResourceError(
            f"the cluster has no workers, and none came within {timeout_s:g} seconds; start some with "
            f"'dask worker {address}', or see why what scales the cluster starts none"
        ) from error
    return wanted


def _load() -> bool:
    """Load what a worker is asked for (runs there)."""
    importlib.import_module("dcurate.engine.dask.worker_plugin")
    return True


def ask_whom_it_reaches(client: Client) -> None:
    """Have a client fetch results through the scheduler if it cannot reach the workers.

    Dask would try to reach them for ten seconds, for each result.
    """
    client.direct_to_workers = all_reachable(identify_workers(client))


def cluster_of(given: Any, timeout_s: float = 10.0) -> Cluster | None:
    """Return the cluster for a cluster, one of Dask's own, a connected client or an address.

    Args:
        given: one of these.
        timeout_s: how long to wait for a scheduler at an address, in seconds.

    Raises:
        PipelineError: the argument is something else.

    Examples:
        >>> cluster_of("tcp://10.0.0.1:8786").address
        'tcp://10.0.0.1:8786'
    """
    if given is None or isinstance(given, Cluster):
        return given
    if isinstance(given, Client):
        return ClientCluster(given)
    if isinstance(given, DaskCluster):
        return DaskManagedCluster(given)
    if isinstance(given, GivesClients) and not isinstance(given, type):
        return GatewayCluster(given)
    if isinstance(given, str):
        return AttachedCluster(given, timeout_s)
    raise PipelineError(
        f"cluster={given!r} is not a cluster; give LocalCluster(), the address of a scheduler such as "
        "'tcp://10.0.0.1:8786', a cluster of Dask's own or a connected Client"
    )

"""The base class of clusters: a connected client, for as long as the cluster is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from distributed import Client

from dcurate.cluster.compat import is_lost_connection
from dcurate.errors import RunError


@contextmanager
def scheduler_needed() -> Iterator[None]:
    """Turn Dask's errors for a scheduler that is gone into a sentence.

    Raises:
        RunError: the scheduler does not answer any more.
    """
    try:
        yield
    except OSError as error:
        if not is_lost_connection(error):
            raise
        raise RunError(
            "the scheduler does not answer any more; start the run again with resume=True to go on"
        ) from error


class Cluster(ABC):
    """A Dask cluster to run pipelines on.

    Use it in a ``with`` statement and give it to as many executors as you like; or give it to one executor
    unopened, which then opens and closes it around each run. In a notebook `open` it in one cell and `close` it in
    another.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._client: Client | None = None

    @abstractmethod
    def _connect(self, stack: ExitStack) -> Client:
        """Start or find the cluster and connect; push what must be undone onto the stack."""

    @property
    def client(self) -> Client:
        """The connected client.

        Raises:
            RunError: the cluster is not open.
        """
        if self._client is None:
            raise RunError(
                "the cluster is not open; use it in a with statement: with LocalCluster() as cluster: ..., "
                "or open() it and close() it at the end"
            )
        return self._client

    @property
    def dashboard_link(self) -> str | None:
        """Address of the page that shows runs; None if the scheduler has no dashboard.

        It is derived from Dask's own link, so the setting ``distributed.dashboard.link`` applies.

        Raises:
            RunError: the cluster is not open.
        """
        link: str | None = self.client.dashboard_link
        return f"{link.removesuffix('status')}curation" if link else None

    @property
    def memory(self) -> int | None:
        """Bytes that all workers together may use, where this is less than the sum of their limits; None elsewhere."""
        return None

    @property
    def is_open(self) -> bool:
        """Whether the cluster is open."""
        return self._client is not None

    def __repr__(self) -> str:
        if self._client is None:
            return f"<{type(self).__name__}, not open>"
        link = self.dashboard_link
        return f"<{type(self).__name__} at {self._client.scheduler.address}{f', {link}' if link else ''}>"

    def settle(self) -> None:  # noqa: B027
        """Wait until the workers that the cluster starts itself are up, or have failed for good.

        Raises:
            RunError: they have been given up.
        """

    def trouble(self) -> str:
        """Why runs cannot continue, if the cluster knows that its workers will not come back; else empty."""
        return ""

    def open(self) -> Self:
        """Start or find the cluster and connect, unless it is open; return the cluster.

        Raises:
            RunError: it cannot be started or reached.
            ResourceError: this machine does not have the resources that it asks for.
        """
        if self._client is None:
            with scheduler_needed(), ExitStack() as stack:
                self._client = self._connect(stack)
                self._stack = stack.pop_all()
        return self

    def close(self) -> None:
        """End what `open` started, if the cluster is open. It can be opened again."""
        self._client = None
        self._stack.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""Submit jobs to a cluster, and follow them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
from distributed import Client, Security
from distributed.deploy import Cluster as DaskCluster

from dcurate.cluster.attach import GivesClients, cluster_of
from dcurate.cluster.base import Cluster
from dcurate.cluster.versions import check_versions
from dcurate.core.owner import owner_here
from dcurate.core.pipeline import PipelineDefinition
from dcurate.engine.config import ExecutorConfig
from dcurate.errors import PipelineError, ResourceError, RunError, shown
from dcurate.jobs.board import PLUGIN, JobBoard
from dcurate.jobs.calls import ask_for_person
from dcurate.jobs.records import JobRecord, JobSpec, LogLine

#: Seconds for which one call waits at the board.
_WAIT_S = 5.0


@dataclass(frozen=True)
class Job:
    """A job on a cluster: a run that goes on without the process that submitted it.

    Args:
        scheduler: address of the scheduler, such as ``tcp://10.0.0.1:8786``.
        id: id or name of the job.
        security: certificates for an address that begins with ``tls://``; by default those of Dask's configuration.

    Examples:
        >>> Job("tcp://10.0.0.1:8786", "7f3a90c1").id
        '7f3a90c1'
    """

    scheduler: str
    id: str
    security: Security | None = field(default=None, repr=False, compare=False)

    def _ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        return ask_for_person(self.scheduler, verb, security=self.security, **arguments)

    def describe(self) -> JobRecord:
        """Return the state of the job.

        Raises:
            RunError: no scheduler answers.
            PipelineError: the job is unknown.
        """
        return JobRecord.from_dict(self._ask("get", job=self.id)["job"])

    def wait(self, timeout_s: float | None = None) -> JobRecord:
        """Wait until the job has ended, and return its state; also after ``timeout_s`` seconds.

        Raises:
            RunError: no scheduler answers.
            PipelineError: the job is unknown.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        record = self.describe()
        while record.is_live and (end is None or time.monotonic() < end):
            wait_s = _WAIT_S if end is None else min(_WAIT_S, max(0.0, end - time.monotonic()))
            answer = self._ask("get", job=self.id, unless=record.state, wait_s=wait_s)
            record = JobRecord.from_dict(answer["job"])
        return record

    def logs(self, follow: bool = False) -> Iterator[LogLine]:
        """Yield the lines of the log that the scheduler keeps: of the driver, of stages on workers, of the scheduler.

        Args:
            follow: whether to go on until the job has ended.

        Raises:
            RunError: no scheduler answers.
            PipelineError: the job is unknown.
        """
        after = 0
        while True:
            wait_s = _WAIT_S if follow else 0.0
            answer = self._ask("logs", job=self.id, after=after, wait_s=wait_s)
            if answer["missing"] and after == 0:
                yield LogLine(
                    time.time(), "scheduler", "INFO", f"{answer['missing']:,} earlier lines are not kept here"
                )
            yield from (LogLine(*line) for line in answer["lines"])
            after = answer["next"]
            if answer["ended"] or not (follow or answer["lines"]):
                return

    def stop(self) -> JobRecord:
        """Stop the job; what is finished stays, and `resume` goes on from there.

        Raises:
            RunError: no scheduler answers.
            PipelineError: the job is unknown.
        """
        answer = self._ask("stop", job=self.id, who=owner_here())
        return JobRecord.from_dict(answer["job"])

    def resume(self) -> JobRecord:
        """Have a job that failed or was stopped go on from what is finished.

        Raises:
            RunError: no scheduler answers.
            PipelineError: the job is unknown, goes on, or is done.
        """
        answer = self._ask("resume", job=self.id, who=owner_here())
        return JobRecord.from_dict(answer["job"])


def submit(
    pipeline: PipelineDefinition,
    cluster: Cluster | DaskCluster | GivesClients | Client | str,
    *,
    name: str = "",
    config: Mapping[str, Any] | None = None,
    resume: bool = False,
    rejected: str | None = None,
    proof: bool = False,
) -> Job:
    """Start a pipeline as a job of a cluster, and return at once.

    A process beside a worker runs it. It goes on when this process ends; when that process or its host dies, another
    takes over from what is finished.

    Args:
        pipeline: a pipeline that ends with a writer; its input need not be visible here. Its stages are sent with it;
            modules that are not installed on the workers are not.
        cluster: the address of a scheduler, a connected client, or a cluster; it must outlive this process for the job
            to do so.
        name: name that no other job there has while it goes on; that of the pipeline by default.
        config: settings of `dcurate.DaskExecutor`.
        resume: whether to go on with an earlier run into the same output.
        rejected: folder for rejected rows.
        proof: whether to leave a proof of every row, which ``dcurate prove`` checks.

    Raises:
        PipelineError: the pipeline cannot be sent, a setting is wrong, or the name is taken.
        ResourceError: the cluster has other versions of dcurate or Dask.
        RunError: no scheduler answers.

    Examples:
        >>> from dcurate import JsonlReader, JsonlWriter, Pipeline
        >>> pipeline = Pipeline("monday", stages=[JsonlReader("in"), JsonlWriter("out")])
        >>> submit(pipeline, "http://10.0.0.1:8787")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        dcurate.errors.RunError: no Dask scheduler answers at 'http://10.0.0.1:8787': it is the address of a web page...
    """
    if not isinstance(pipeline, PipelineDefinition):
        raise PipelineError(f"pipeline={shown(pipeline)} is not a dcurate.Pipeline")
    ExecutorConfig.of(config)
    try:
        payload = cloudpickle.dumps(pipeline)
    except Exception as error:  # of an object of the user
        raise PipelineError(f"pipeline {pipeline.name!r} cannot be pickled: {error}") from error
    options: dict[str, Any] = {
        "executor": dict(config or {}),
        "resume": resume,
        "rejected": rejected,
        "proof": proof,
    }
    return submit_spec(JobSpec("pickle", pipeline.name, payload, **options), cluster, name)


def submit_spec(spec: JobSpec, cluster: Any, name: str = "", *, attach: bool = False) -> Job:
    """Put a job on the board of a cluster.

    Args:
        spec: what the job runs.
        cluster: where.
        name: name of the job; the title of the spec by default.
        attach: whether to return the job of this name that goes on, if it runs the same.

    Raises:
        PipelineError: the board refuses it.
        ResourceError: the cluster has other versions.
        RunError: no scheduler answers.
    """
    place = cluster_of(cluster)
    if place is None:
        raise PipelineError("a job needs a cluster; give the address of a scheduler, such as 'tcp://10.0.0.1:8786'")
    with ExitStack() as stack:
        if not place.is_open:
            stack.enter_context(place)
        client = place.client
        if client.scheduler.address.startswith("inproc"):
            raise PipelineError("a job needs a scheduler in a process of its own; this cluster is in this process")
        try:
            check_versions(client)
            client.register_plugin(JobBoard(), name=PLUGIN)
        except (ImportError, AttributeError) as error:
            raise ResourceError(
                f"the cluster has no dcurate, or another version ({error}); install the same one there"
            ) from error
        address = str(client.scheduler.address)
        record = JobRecord(uuid.uuid4().hex[:8], name or spec.title, owner_here(), spec.title, submitted=time.time())
        job = Job(address, record.id, client.security)
        submitted = job._ask("submit", record=record.to_dict(), spec=replace(spec).to_dict(), attach=attach)
        return replace(job, id=submitted["job"]["id"])


def jobs_on(scheduler: str, security: Security | None = None) -> list[JobRecord]:
    """Return the jobs of a scheduler, the newest first: those that go on, and the last 1,000 that ended.

    Args:
        scheduler: address of the scheduler.
        security: certificates for an address that begins with ``tls://``; by default those of Dask's configuration.

    Raises:
        RunError: no scheduler answers.

    Examples:
        >>> jobs_on("http://10.0.0.1:8787")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        dcurate.errors.RunError: no Dask scheduler answers at 'http://10.0.0.1:8787': it is the address of a web page...
    """
    try:
        return [JobRecord.from_dict(job) for job in ask_for_person(scheduler, "list", security=security)["jobs"]]
    except RunError as error:
        if "has no jobs" in str(error):
            return []
        raise

"""Settings of the Dask executor, under the names of NeMo Curator's executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, cast

from dcurate.errors import PipelineError, nearest

#: The settings that do not concern workers.
WITHOUT_WORKERS = ("ignore_failures", "logging_interval")


@dataclass(frozen=True)
class ExecutorConfig:
    """Settings of a run on Dask.

    Args:
        execution_mode: ``"streaming"`` (all operators at once, bounded memory) or ``"batch"`` (the whole input
            through one operator before the next; only one model is resident at a time).
        cpu_allocation_percentage: share of this machine's CPUs that an embedded cluster takes, above 0 to 1;
            at least one worker is always started. With a cluster that is given it has no effect, and a warning says so.
        autoscale_interval_s: the longest time between two decisions on the allocation of slots, in seconds. A decision
            is made much earlier when something happened: the first rates of a stage, a rate that changed, a worker that
            joined or left.
        ignore_failures: whether rows on which a stage raises or dies go to quarantine, and the run goes on. Nothing
            is dropped without a record. A stage may decide otherwise with ``with_(ignore_failures=...)``.
        max_workers_per_stage: no more slots than this for any stage; None for no limit.
        logging_interval: seconds between progress lines where there is no terminal, of a `Progress` or
            `JsonProgress` that is not given an interval.
        memory_share: share of the workers' memory that batches between operators may take, above 0 to 1.
        scheduler_timeout_s: how long to wait for a scheduler that does not answer, in seconds: when it is given by its
            address, and while a run goes on.
        worker_timeout_s: how long a run goes on without any worker before it ends with an error, in seconds; on
            clusters that start workers by themselves (`ElasticCluster`) it waits as long as these may come.

    Raises:
        PipelineError: a value out of range.

    Examples:
        >>> ExecutorConfig.of({"execution_mode": "batch"}).execution_mode
        'batch'
        >>> ExecutorConfig.of({"execution_mod": "batch"})
        Traceback (most recent call last):
        ...
        dcurate.errors.PipelineError: the executor has no setting 'execution_mod'; did you mean 'execution_mode'?
    """

    execution_mode: Literal["streaming", "batch"] = "streaming"
    cpu_allocation_percentage: float = 0.95
    autoscale_interval_s: float = 180.0
    logging_interval: float = 10.0
    ignore_failures: bool = False
    max_workers_per_stage: int | None = None
    memory_share: float = 0.3
    scheduler_timeout_s: float = 10.0
    worker_timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.execution_mode not in ("streaming", "batch"):
            raise PipelineError(f"execution_mode={self.execution_mode!r} is neither 'streaming' nor 'batch'")
        if not isinstance(self.ignore_failures, bool):
            raise PipelineError(f"executor setting ignore_failures={self.ignore_failures!r} must be True or False")
        most = self.max_workers_per_stage
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise PipelineError(f"executor setting max_workers_per_stage={most!r} must be a whole number, at least 1")
        for field in fields(self):
            if field.name in ("execution_mode", "ignore_failures", "max_workers_per_stage"):
                continue
            amount = getattr(self, field.name)
            if isinstance(amount, bool) or not isinstance(amount, int | float) or not amount > 0:
                raise PipelineError(f"executor setting {field.name}={amount!r} must be a number above zero")
        for share in ("cpu_allocation_percentage", "memory_share"):
            if getattr(self, share) > 1:
                raise PipelineError(f"executor setting {share}={getattr(self, share)!r} is a share: at most 1")

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None) -> Self:
        """Build the config from settings by name.

        Raises:
            PipelineError: a setting that there is not, with the nearest name; or a value out of range.
        """
        known = [field.name for field in fields(cls)]
        for name in settings or {}:
            if name not in known:
                raise PipelineError(f"the executor has no setting {name!r}{nearest(name, known)}")
        return cls(**cast(dict[str, Any], dict(settings or {})))

"""Settings of the Dask executor, under the names of NeMo Curator's executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any, Literal, Self, cast

from dcurate.errors import PipelineError, nearest, shown

#: The settings that do not concern workers.
WITHOUT_WORKERS = ("ignore_failures", "logging_interval", "cpu_hour_price", "gpu_hour_price")

#: The settings that are a largest number, or None.
LIMITS = ("max_workers_per_stage", "max_cpus", "max_gpus")


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
        share: weight of the run among those on the same cluster: with 2 it gets twice the CPUs, GPUs and memory of
            queues of a run with 1.
        priority: a whole number; of the runs on a cluster those of a higher priority are served first, and others get
            what is left.
        max_cpus: the most CPUs that the run may use, as threads of workers; None for no limit.
        max_gpus: the most GPUs that the run may use; None for no limit.
        scheduler_timeout_s: how long to wait for a scheduler that does not answer, in seconds: when it is given by its
            address, and while a run goes on.
        worker_timeout_s: how long a run waits for a first worker, or goes on without any, in seconds; on
            clusters that start workers by themselves (`ElasticCluster`) it waits as long as these may come.
        cpu_hour_price: what an hour of a CPU costs, in the currency that you count in; with it or ``gpu_hour_price``
            the report says what the stages' work costs.
        gpu_hour_price: what an hour of a GPU costs.

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
    share: float = 1.0
    priority: int = 0
    max_cpus: int | None = None
    max_gpus: int | None = None
    scheduler_timeout_s: float = 10.0
    worker_timeout_s: float = 600.0
    cpu_hour_price: float | None = None
    gpu_hour_price: float | None = None

    def __post_init__(self) -> None:
        if self.execution_mode not in ("streaming", "batch"):
            raise PipelineError(f"execution_mode={self.execution_mode!r} is neither 'streaming' nor 'batch'")
        if not isinstance(self.ignore_failures, bool):
            raise PipelineError(f"executor setting ignore_failures={self.ignore_failures!r} must be True or False")
        for name in LIMITS:
            most = getattr(self, name)
            if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
                raise PipelineError(f"executor setting {name}={most!r} must be a whole number, at least 1")
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise PipelineError(f"executor setting priority={self.priority!r} must be a whole number, such as 0 or 10")
        for field in fields(self):
            if field.name in ("execution_mode", "ignore_failures", "priority", *LIMITS):
                continue
            amount = getattr(self, field.name)
            if field.name in ("cpu_hour_price", "gpu_hour_price"):
                _check_price(field.name, amount)
                continue
            if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount < inf:
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
        if settings is not None and not isinstance(settings, Mapping):
            raise PipelineError(
                f"the settings of an executor are a dict, such as {{'ignore_failures': True}}, and this is "
                f"{shown(settings)}; for a scheduler or a cluster write DaskExecutor(cluster=...)"
            )
        known = [field.name for field in fields(cls)]
        for name in settings or {}:
            if name not in known:
                raise PipelineError(f"the executor has no setting {name!r}{nearest(name, known)}")
        return cls(**cast(dict[str, Any], dict(settings or {})))


def _check_price(name: str, price: Any) -> None:
    """Refuse a price that is no amount of money."""
    number = isinstance(price, int | float) and not isinstance(price, bool)
    if price is not None and not (number and 0 <= price < inf):
        raise PipelineError(f"executor setting {name}={price!r} must be a number, at least zero, or None for no price")

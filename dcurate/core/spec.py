"""How to run a stage: attempts, time limits and lifetimes. Nothing here changes its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from dcurate.errors import PipelineError


@dataclass(frozen=True)
class StageSpec:
    """How to run a stage. Pass any of these to `ProcessingStage.with_` by name.

    Args:
        num_workers_per_node: a fixed number of slots on every host, instead of ``num_workers``.
        max_workers: no more slots than this.
        num_setup_attempts: how often ``setup`` is tried before the run ends.
        num_run_attempts: how often ``process`` is tried on a batch before it counts as failed.
        timeout_s: seconds that one call may take; a worker that hangs longer is restarted, and its batch is run again
            by itself. Where nothing restarts the process, as in mode inline or on a Dask worker without a nanny, calls
            have no limit.
        ignore_failures: whether rows on which the stage raises, or dies, go to quarantine and the run goes on; None
            leaves it to the executor's setting of that name.
        worker_max_lifetime_m: minutes after which a slot's process is drained, restarted and set up again; 0 for never.
        worker_restart_interval_m: least minutes between two such restarts for one stage, so that they are staggered.
        gpu_optional: whether the stage runs on CPUs alone where the whole cluster has no GPU, though its resources ask
            for one.

    Raises:
        PipelineError: a value out of range.

    Examples:
        >>> StageSpec(num_run_attempts=3).num_run_attempts
        3
        >>> StageSpec(timeout_s=-1)
        Traceback (most recent call last):
        ...
        dcurate.errors.PipelineError: timeout_s=-1 must be above zero
    """

    num_workers_per_node: int | None = None
    max_workers: int | None = None
    num_setup_attempts: int = 1
    num_run_attempts: int = 1
    timeout_s: float | None = None
    ignore_failures: bool | None = None
    worker_max_lifetime_m: float = 0.0
    worker_restart_interval_m: float = 1.0
    gpu_optional: bool = False

    def __post_init__(self) -> None:
        for name in ("num_workers_per_node", "max_workers", "num_setup_attempts", "num_run_attempts"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise PipelineError(f"{name}={number!r} must be a whole number, at least 1")
        for name, least in (("timeout_s", "above zero"), ("worker_max_lifetime_m", "zero or more")):
            amount = getattr(self, name)
            if amount is not None and (
                not isinstance(amount, int | float)
                or not math.isfinite(amount)
                or amount < 0
                or (least[0] == "a" and not amount)
            ):
                raise PipelineError(f"{name}={amount!r} must be {least}")
        if not isinstance(self.worker_restart_interval_m, int | float) or self.worker_restart_interval_m < 0:
            raise PipelineError(f"worker_restart_interval_m={self.worker_restart_interval_m!r} must be zero or more")
        if self.gpu_optional not in (True, False):
            raise PipelineError(f"gpu_optional={self.gpu_optional!r} must be True or False")
        if self.ignore_failures not in (None, True, False):
            raise PipelineError(f"ignore_failures={self.ignore_failures!r} must be True, False or None")


#: The names that `ProcessingStage.with_` takes for a stage's spec.
SPEC_FIELDS = tuple(field.name for field in fields(StageSpec))

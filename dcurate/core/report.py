"""The report of a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dcurate.events import StageStats


@dataclass(frozen=True)
class Threshold:
    """A threshold of a filter: ``keeps`` is the rule, such as ``"<= 0.25"``, and ``value`` its number."""

    keeps: str
    value: float


#: What a report says beside its fields, under ``used``, and works out again when it is read.
_USED = ("cpu_s", "gpu_s", "bytes_read", "bytes_written", "cost")


@dataclass(frozen=True)
class RunReport:
    """The counts of a run, stage by stage, and the path of its output.

    Attributes:
        run: its id.
        pipeline: the pipeline's name.
        mode: ``"streaming"``, ``"batch"`` or ``"inline"``.
        started: seconds since the epoch.
        seconds: from start to end by the clock; ``compile_seconds`` of them passed while kernels were compiled ahead.
        stages: one per stage as a person wrote them, in order; counts include splits of earlier runs.
            Of stages that were computed in one pass the first has all of the seconds.
        splits: source splits in all.
        splits_before: those that an earlier run had finished.
        workers: worker processes; 0 where everything ran in the caller's own.
        output_path: the directory written to, if any.
        rejected_path: where rows that a rule dropped are kept, if they are.
        quarantine_path: where rows that could not be processed are kept, if there are any.
        files: how many output files were written.
        inputs_digest: identifies all source splits and the versions of their files.
        outputs_digest: identifies all finished splits: the names of their files, and how many rows came out of each.
        error: what ended the run early; empty if nothing did.
        notices: what a person should look at, in sentences.
        cpu_hour_price: the price of an hour of a CPU, if one was given; ``gpu_hour_price`` that of a GPU.

    Examples:
        >>> report = RunReport("7f3a", "demo", "inline", 0.0, 2.0, (StageStats("read", rows_out=8),), splits=1)
        >>> RunReport.from_dict(report.to_dict()) == report
        True
        >>> report
        RunReport('demo', run 7f3a, 0 rows in, 8 out)
    """

    run: str
    pipeline: str
    mode: str
    started: float
    seconds: float
    stages: tuple[StageStats, ...]
    splits: int = 0
    splits_before: int = 0
    workers: int = 0
    output_path: str | None = None
    rejected_path: str | None = None
    quarantine_path: str | None = None
    files: int = 0
    inputs_digest: str = ""
    outputs_digest: str = ""
    error: str = ""
    notices: tuple[str, ...] = ()
    cpu_hour_price: float | None = None
    gpu_hour_price: float | None = None
    compile_seconds: float = 0.0

    @property
    def working_seconds(self) -> float:
        """Seconds without those of `compile_seconds`, never 0: rates are over these."""
        return max(self.seconds - self.compile_seconds, 1e-6)

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU that all calls of stages took, those of earlier runs of the same splits included."""
        return sum(stage.cpu_s for stage in self.stages)

    @property
    def gpu_s(self) -> float:
        """Seconds of GPU that stages held in their calls."""
        return sum(stage.gpu_s for stage in self.stages)

    @property
    def bytes_read(self) -> int:
        """Bytes of the input files that were read."""
        return self.stages[0].bytes_in if self.stages else 0

    @property
    def bytes_written(self) -> int:
        """Bytes of the output files; 0 of a run that writes none."""
        return self.stages[-1].bytes_out if self.stages and self.output_path else 0

    def cost_of(self, stage: StageStats) -> float | None:
        """What the work of a stage costs by the prices that were given; None without one.

        Examples:
            >>> stage = StageStats("ask", cpu_s=1800.0, gpu_s=3600.0)
            >>> prices = {"cpu_hour_price": 0.04, "gpu_hour_price": 2.0}
            >>> report = RunReport("7f3a", "demo", "inline", 0.0, 2.0, (stage,), **prices)
            >>> report.cost_of(stage), report.cost
            (2.02, 2.02)
        """
        if self.cpu_hour_price is None and self.gpu_hour_price is None:
            return None
        return (stage.cpu_s * (self.cpu_hour_price or 0.0) + stage.gpu_s * (self.gpu_hour_price or 0.0)) / 3600

    @property
    def cost(self) -> float | None:
        """What the work of all stages costs; None without prices. Workers that wait for work are not in it."""
        costs = [self.cost_of(stage) for stage in self.stages]
        return None if None in costs or not costs else sum(cost or 0.0 for cost in costs)

    @property
    def nothing_was_left(self) -> bool:
        """Whether an earlier run had finished all splits, so that this one did nothing."""
        return 0 < self.splits == self.splits_before and not self.error

    def __repr__(self) -> str:
        rows = f", {self.stages[0].rows_in:,} rows in, {self.stages[-1].rows_out:,} out" if self.stages else ""
        end = ", failed" if self.error else ", nothing to do" if self.nothing_was_left else ""
        return f"{type(self).__name__}({self.pipeline!r}, run {self.run}{rows}{end})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        used = {name: getattr(self, name) for name in _USED}
        return {**vars(self), "stages": [stage.to_dict() for stage in self.stages], "used": used}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`."""
        stages = tuple(map(StageStats.from_dict, values["stages"]))
        values = {name: value for name, value in values.items() if name != "used"}
        return cls(**{**values, "stages": stages, "notices": tuple(values.get("notices", ()))})

"""What policies see of a run, and what they may suggest. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dcurate.cluster.worker_shape import Shape
from dcurate.engine.allocate.assignment import Assignment, SlotClaim
from dcurate.engine.allocate.explain import Change
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState


@dataclass(frozen=True)
class OperatorView:
    """An operator of a run.

    Args:
        name: name of the operator; stages that were fused are one operator.
        request: what a slot needs, and limits that the user set.
        wanted: slots that workers were asked for.
        ready: slots that are set up.
        waiting: batches that wait for the operator.
        running: batches in running calls.
        elapsed_s: seconds for each batch that the longest running call has taken so far.
        seconds: duration of a call, for each batch; None until one has ended.
        samples: calls that were measured since ``seconds`` changed last.
        cv: coefficient of variation of ``seconds``.
        cached: whether rates of earlier runs count among the measurements.
        wobble: relative error of ``seconds`` from disturbances that come and go.
        shifted_at: when ``seconds`` last changed for good, on the clock of `RunView.time`; None if never.
        outputs_per_input: batches that it makes of one.
        first_sample_at: when its first call ended, on the clock of `RunView.time`.
        setup_s: mean seconds of a setup; None if unknown.
        finished: whether it has nothing to do, now or later.
        lifetime_m: minutes after which its stages want their process restarted; 0 for never.
        restart_interval_m: the least minutes between two such restarts.
        recycled_s: seconds since a worker with its slots was last recycled; None if none was.
    """

    name: str
    request: OperatorRequest
    wanted: int = 0
    ready: int = 0
    waiting: int = 0
    running: int = 0
    elapsed_s: float = 0.0
    seconds: float | None = None
    samples: int = 0
    cv: float = 0.5
    cached: bool = False
    wobble: float = 0.0
    shifted_at: float | None = None
    outputs_per_input: float = 1.0
    first_sample_at: float | None = None
    setup_s: float | None = None
    finished: bool = False
    lifetime_m: float = 0.0
    restart_interval_m: float = 0.0
    recycled_s: float | None = None

    @property
    def setting_up(self) -> int:
        """Slots that are being set up."""
        return max(0, self.wanted - self.ready)


@dataclass(frozen=True)
class WorkerView:
    """A worker process.

    Args:
        info: its address, host and kind, and what the run may use of its threads, cores and GPUs.
        claims: slots that it was asked for, by operator.
        ready: slots that are set up, by operator.
        age_s: seconds since it joined.
        paused_s: seconds for which it has taken no tasks as its memory is full; None if it takes some.
        running: calls that it runs.
        memory: bytes that it uses, results included.
        grown: bytes besides results at the last checks, one every half a second, the newest last.
        memory_limit: bytes that it may use; 0 without a limit.
        restartable: whether it has a nanny that can restart it.
        recycling: whether it is being drained or restarted.
        whole: like ``info``, with all that it has; the same unless other runs are on the cluster.
    """

    info: WorkerState
    claims: Mapping[str, SlotClaim] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)
    age_s: float = 0.0
    paused_s: float | None = None
    running: int = 0
    memory: int = 0
    grown: tuple[int, ...] = ()
    memory_limit: int = 0
    restartable: bool = True
    recycling: bool = False
    whole: WorkerState | None = None

    @property
    def address(self) -> str:
        """The address of the worker."""
        return self.info.address

    @property
    def host(self) -> str:
        """The machine that it runs on."""
        return self.info.host

    @property
    def kind(self) -> str:
        """The cluster's name of this kind of worker."""
        return self.info.kind

    @property
    def slots(self) -> dict[str, int]:
        """Slots that it was asked for, by operator."""
        return {operator: claim.slots for operator, claim in self.claims.items()}


@dataclass(frozen=True)
class TaskView:
    """A running task of an operator that has only its last tasks left, and idle slots.

    Args:
        id: its `Task.id`.
        operator: its name.
        seconds: for which it has run.
        usual_s: seconds that such a task takes on average.
        cv: coefficient of variation of these.
    """

    id: int
    operator: str
    seconds: float
    usual_s: float
    cv: float


@dataclass(frozen=True)
class RunView:
    """A run at one moment; nothing in it changes.

    Args:
        time: seconds on a monotonic clock.
        started: when the run started, on the same clock.
        operators: by name, in order.
        workers: by address.
        kinds: the workers that the cluster could start, by kind.
        starting: how many workers have joined, and not yet said what they have.
        asked: whether something that may scale the cluster, such as Dask's ``adapt``, has asked of late how many are
            wanted.
        workerless_s: seconds for which the cluster has had no worker and starts none by itself.
        exhausted: whether the source has no more splits.
        sequential: whether operators run one after the other (batch mode).
        changed: whether anything has happened since the last view.
        waits: why the run waits for others on the cluster; empty if it does not.
        pinned: slots of operators that earlier policies have set.
        tasks: on the driver, the tasks that may be late.
        interval_s: the executor's setting ``autoscale_interval_s``.
        worker_timeout_s: the executor's setting.
    """

    time: float
    started: float = 0.0
    operators: Mapping[str, OperatorView] = field(default_factory=dict)
    workers: Mapping[str, WorkerView] = field(default_factory=dict)
    kinds: Mapping[str, Shape] = field(default_factory=dict)
    starting: int = 0
    asked: bool = False
    workerless_s: float = 0.0
    exhausted: bool = False
    sequential: bool = False
    changed: bool = True
    waits: str = ""
    pinned: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[TaskView, ...] = ()
    interval_s: float = 180.0
    worker_timeout_s: float = 600.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run started."""
        return self.time - self.started


@dataclass(frozen=True)
class SetSlots:
    """Give an operator this many slots, or as many as fit, until the policy does not repeat it.

    Args:
        operator: name of the operator.
        slots: number of slots in all processes.
        reason: why, in words, for logs and the report.
    """

    operator: str
    slots: int
    reason: str = ""


@dataclass(frozen=True)
class Recycle:
    """Drain a worker process and restart it. Others with slots of the same operators have to wait for that.

    Args:
        worker: address of the process.
        reason: why, in words, for logs and the report.
    """

    worker: str
    reason: str = ""


@dataclass(frozen=True)
class Scale:
    """Have this many workers of a kind, in a cluster that starts workers itself.

    Args:
        kind: name of the kind.
        workers: number of workers.
        reason: why, in words, for logs and the report.
    """

    kind: str
    workers: int
    reason: str = ""


@dataclass(frozen=True)
class ScaleTo:
    """Set the total number of workers like the present ones, where Dask scales the cluster; for `Autoscaling`.

    Args:
        workers: the number that is known to be needed; those of all runs are added up.
        keeps_present: whether more may be needed, so that present workers must not be ended.
    """

    workers: int
    keeps_present: bool = False


@dataclass(frozen=True)
class Stop:
    """End the run with an error."""

    error: str


@dataclass(frozen=True)
class Speculate:
    """Run a task again on an idle slot; for `Speculation`."""

    task: int
    reason: str = ""


@dataclass(frozen=True)
class Allocate:
    """Give workers these slots; for `Balancing`."""

    assignment: Assignment
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Notice:
    """Show a sentence to the user, once in a run.

    Args:
        text: the sentence.
    """

    text: str


@dataclass(frozen=True)
class LookAgain:
    """Run the policies again after this many seconds, if nothing happens before."""

    seconds: float


Suggestion = SetSlots | Recycle | Scale | ScaleTo | Stop | Notice | Speculate | Allocate | LookAgain


class Policy(Protocol):
    """Suggests changes to a run.

    A policy is any object with this method. It is pickled and runs with the scheduler, about twice a second, in a
    thread. Its constants are best fields of a dataclass.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class AtMostTwo:
        ...     operator: str
        ...
        ...     def run(self, view):
        ...         yield SetSlots(self.operator, 2, "a service behind it takes two calls at a time")
        >>> list(AtMostTwo("ask").run(RunView(time=0.0)))[0].slots
        2
    """

    def run(self, view: RunView) -> Iterator[Suggestion]:
        """Yield suggestions for a run, or none.

        The scheduler plugin makes a view and has `PolicyRunner.run` call this in a thread: when something changed, when
        a `LookAgain` is due, and twice a second otherwise, policies of a user first. When all have answered, the plugin
        carries the suggestions out. `Speculation` alone is called by the driver's `DaskBackend`.
        """

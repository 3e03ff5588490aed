"""`ProcessingStage`: a function from one batch to its results, with its setup."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dcurate.core.batch import Batch
from dcurate.core.stage.base import Stage
from dcurate.errors import StageError

X = TypeVar("X", bound=Batch)
Y = TypeVar("Y", bound=Batch)


@dataclass(frozen=True)
class NodeInfo:
    """The host that ``setup_on_node`` runs on.

    Args:
        node_id: its name.

    Examples:
        >>> NodeInfo("node-7").node_id
        'node-7'
    """

    node_id: str = ""


@dataclass(frozen=True)
class WorkerMetadata:
    """The slot that ``setup`` prepares.

    Args:
        worker_id: its name: the worker's, and its number there.
        allocation: the GPUs that it may use, as CUDA indices; none on a CPU.

    Examples:
        >>> WorkerMetadata("cpu-0/3", (1,)).allocation
        (1,)
    """

    worker_id: str = ""
    allocation: tuple[int, ...] = ()


class NotSetUpError(StageError, AttributeError):
    """A stage was called directly before its ``setup``."""


class ProcessingStage(Stage, Generic[X, Y]):
    """One step of a pipeline: settings, and a function from a batch to its results.

    Subclass it, give it a ``name``, and write ``process``. A stage is best a dataclass: it is then
    equal to another with the same fields, prints itself, and can be used in any number of pipelines.
    What ``setup`` loads belongs to the worker's own copy and never travels.

    Class attributes that may be overridden, here or for one use by `with_`:

    * ``name``: shown in plans, reports and errors; the class name in snake case if not given.
    * ``resources``: what one slot needs (one CPU by default).
    * ``batch_size``: how many batches ``process_batch`` is given in one call.
    * ``spec``: attempts, time limits and lifetimes, see `StageSpec`.

    Examples:
        >>> from dcurate import Resources
        >>> class Shout(ProcessingStage):
        ...     def process(self, batch):
        ...         return batch
        >>> Shout().name, Shout().with_(name="loud", resources=Resources(cpus=2)).resources.cpus
        ('shout', 2.0)
    """

    name: str = "processing_stage"

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            missing = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_") or name.startswith("__") or type(self).setup is ProcessingStage.setup:
                raise AttributeError(missing)
            raise NotSetUpError(
                f"stage {type(self).name!r} is not set up ({missing}); call its setup() before process(), "
                "or run it in a pipeline, which does"
            )

    @abstractmethod
    def process(self, task: X) -> Y | list[Y] | None:
        """Return a batch, a list of batches, or None if no rows are left."""

    def process_batch(self, tasks: list[X]) -> Sequence[Y | list[Y] | None]:
        """Process several batches in one call; return one result per batch, in order.

        Override it where several batches are cheaper together, and ask for them with ``batch_size``.
        """
        return [self.process(task) for task in tasks]

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Called once per host before any slot on it is set up: fetch weights, warm caches."""

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Called once per slot before it takes work: load the model, open the connection."""

    def teardown(self) -> None:
        """Called once per slot when it ends, also after an error."""

    @property
    def cheap_setup(self) -> bool:
        """Whether a slot costs nothing to hold: ``setup`` loads nothing. Such CPU stages share worker processes."""
        return type(self).setup is ProcessingStage.setup and type(self).teardown is ProcessingStage.teardown

    def _log_metrics(self, metrics: Mapping[str, float]) -> None:
        """Add metrics of the stage to those of the run: tokens, cache hits, seconds of a part of the work.

        Call it in ``process``. Figures of one name are added up over all calls, and appear in the run's report and
        metrics as they are; give what can be added up, such as seconds and a number of calls for a mean.

        Raises:
            TypeError: a figure is not a number.

        Examples:
            >>> class Count(ProcessingStage):
            ...     def process(self, batch):
            ...         self._log_metrics({"characters": 3})
            ...         self._log_metric("characters", 4)
            ...         return batch
            >>> stage = Count()
            >>> stage.process("batch"), stage.take_metrics(), stage.take_metrics()
            ('batch', {'characters': 7.0}, {})
        """
        logged: dict[str, float] = self.__dict__.setdefault("_metrics", {})
        for name, amount in metrics.items():
            logged[name] = logged.get(name, 0.0) + float(amount)

    def _log_metric(self, name: str, amount: float) -> None:
        """One figure; see `_log_metrics`."""
        self._log_metrics({name: amount})

    def take_metrics(self) -> dict[str, float]:
        """Return the metrics logged since the last call; the engine calls it after each call of the stage."""
        logged: dict[str, float] = self.__dict__.pop("_metrics", {})
        return logged

    def fuse_with(self, following: ProcessingStage[Any, Any]) -> ProcessingStage[Any, Any] | None:
        """Return one stage that does the work of both at lower cost, or None.

        A fused stage must give the same rows as the two in a row, and must list both in `parts`.
        """
        return None

    @property
    def parts(self) -> tuple[ProcessingStage[Any, Any], ...]:
        """The stages that were written by a person: several if this one is merged, else itself."""
        return (self,)

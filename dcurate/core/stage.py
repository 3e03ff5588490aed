"""Stages: the steps of a pipeline."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from dcurate.core.batch import Batch, FileGroup, FilePart, FileRows
from dcurate.core.part import Part
from dcurate.core.resources import Resources
from dcurate.core.spec import SPEC_FIELDS, StageSpec
from dcurate.errors import PipelineError, StageError, nearest

X = TypeVar("X", bound=Batch)
Y = TypeVar("Y", bound=Batch)

#: Attributes and columns, as `ProcessingStage.inputs` and `outputs` give them.
Spec = tuple[list[str], list[str]]

_UNSET: Any = object()
_A = {str: "text", Resources: "Resources, such as Resources(cpus=2)"}
#: Attributes of a stage that decide nothing of the rows that it makes.
_NO_SETTINGS = ("_with", "_num_workers", "_metrics", "spec")


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
    """A stage was used by hand before its ``setup``."""


class NoProcessError(PipelineError, AttributeError):
    """``process`` was called on a stage that does not work on one batch at a time."""


class Stage(Part, ABC):
    """What a pipeline is made of: a name, settings, and the columns that are read and added.

    A stage either works on one batch at a time (`ProcessingStage`) or needs all rows (`BarrierStage`).
    """

    name: str = "stage"
    resources: Resources = Resources(cpus=1.0)
    batch_size: int = 1
    spec: StageSpec = StageSpec()

    _num_workers: ClassVar[int | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()

    def inputs(self) -> Spec:
        """Attributes of a batch and columns of its rows that the stage reads."""
        return [], []

    def outputs(self) -> Spec:
        """Attributes of a batch and columns that the stage adds."""
        return [], []

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that the stage cannot work with; called when a pipeline is built, where they are known.

        Raises:
            PipelineError: there is a column that must not be there, say.
        """

    def num_workers(self) -> int | None:
        """A fixed number of slots for this stage, or None to leave it to the run."""
        return self._num_workers

    def is_fanout_stage(self) -> bool:
        """Whether the stage makes many batches of one; override it to say so.

        What follows is then a task of its own for each of the batches, so that they spread over the workers.
        """
        return False

    @property
    def light(self) -> bool:
        """Whether a slot costs nothing to hold. Light CPU stages share worker processes."""
        return True

    def settings(self) -> dict[str, Any]:
        """What decides the rows that the stage makes: its attributes.

        A resumed run refuses to go on when they changed. Override it to leave out what does not matter
        to the rows, such as where they are read from or written to.
        """
        return {name: value for name, value in vars(self).items() if name not in _NO_SETTINGS}

    @property
    def parts(self) -> tuple[Stage, ...]:
        """The stages that were written by a person: several if this one is merged, else itself."""
        return (self,)

    def with_(
        self,
        name: str | None = None,
        resources: Resources | None = None,
        batch_size: int | None = None,
        num_workers: int | None = _UNSET,
        **spec: Any,
    ) -> Self:
        """A copy of the stage with some of its settings changed; the stage itself stays as it is.

        Args:
            num_workers: a fixed number of slots; None goes back to letting the run decide.
            spec: fields of `StageSpec` by name, such as ``num_run_attempts=3``.

        Raises:
            PipelineError: a value out of range, or a setting that there is not.
        """
        for unknown in set(spec) - set(SPEC_FIELDS):
            raise PipelineError(f"stage {self.name!r}: with_ has no setting {unknown!r}{nearest(unknown, SPEC_FIELDS)}")
        if isinstance(name, Mapping):
            raise PipelineError(
                f"stage {self.name!r} is one stage and has no inner ones, which a dict would name; "
                "give its settings by name: .with_(resources=..., batch_size=...)"
            )
        for setting, given, kind in (("name", name, str), ("resources", resources, Resources)):
            if given is not None and not isinstance(given, kind):
                raise PipelineError(f"stage {self.name!r}: {setting}={given!r} must be {_A[kind]}")
        for setting, number in (("batch_size", batch_size), ("num_workers", num_workers)):
            if number is not None and number is not _UNSET and (not isinstance(number, int) or number < 1):
                raise PipelineError(f"stage {self.name!r}: {setting}={number!r} must be at least 1")
        changed = copy.deepcopy(self)
        for attribute, value in (("name", name), ("resources", resources), ("batch_size", batch_size)):
            if value is not None:
                object.__setattr__(changed, attribute, value)
        if resources is not None and self.spec.gpu_optional:
            spec = {"gpu_optional": False, **spec}  # who asks for a GPU by name is to have one
        if num_workers is not _UNSET:
            object.__setattr__(changed, "_num_workers", num_workers)
        if spec:
            try:
                object.__setattr__(changed, "spec", replace(self.spec, **spec))
            except PipelineError as error:
                raise PipelineError(f"stage {self.name!r}: {error}") from error
        return changed


class ProcessingStage(Stage, Generic[X, Y]):
    """One step of a pipeline: configuration, and a function from a batch to what it becomes.

    Subclass it, give it a ``name``, and write ``process``. A stage is best a dataclass: it is then
    equal to another with the same fields, prints itself, and can be used in any number of pipelines.
    What ``setup`` loads belongs to the worker's own copy and never travels.

    Class attributes that may be overridden, here or for one use by `with_`:

    * ``name``: shown in plans, reports and errors; the class name in snake case if not given.
    * ``resources``: what one slot needs (one CPU by default).
    * ``batch_size``: how many batches ``process_batch`` is given in one call.
    * ``spec``: attempts, time limits and lifetimes, see `StageSpec`.

    Examples:
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
        """What a batch becomes: a batch, a list of batches, or None when nothing of it is left."""

    def process_batch(self, tasks: list[X]) -> Sequence[Y | list[Y] | None]:
        """Process several batches in one call; answers one result per batch, in order.

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
    def light(self) -> bool:
        """Whether a slot costs nothing to hold: ``setup`` loads nothing. Light CPU stages share worker processes."""
        return type(self).setup is ProcessingStage.setup and type(self).teardown is ProcessingStage.teardown

    def _log_metrics(self, metrics: Mapping[str, float]) -> None:
        """Add figures of the stage's own to those of the run: tokens, cache hits, seconds of a part of the work.

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
        """What was logged since this was last called; the engine calls it after each call of the stage."""
        logged: dict[str, float] = self.__dict__.pop("_metrics", {})
        return logged

    def merged_with(self, following: ProcessingStage[Any, Any]) -> ProcessingStage[Any, Any] | None:
        """One stage that does this one's work and the following one's at lower cost, or None.

        A merged stage must give the same rows as the two in turn, and must list both in `parts`.
        """
        return None

    @property
    def parts(self) -> tuple[ProcessingStage[Any, Any], ...]:
        """The stages that were written by a person: several if this one is merged, else itself."""
        return (self,)


class SourceStage(ProcessingStage[X, Y]):
    """A stage that a pipeline begins with: it lists splits, and makes a batch of each.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import BatchKey, DocumentBatch, InlineExecutor, Pipeline
        >>> class Numbers(SourceStage):
        ...     def splits(self):
        ...         yield from (DocumentBatch(key=BatchKey(str(n)), data=pd.DataFrame({"n": [n]})) for n in range(2))
        ...     def columns(self):
        ...         return ["n", "square"]
        ...     def process(self, task):
        ...         return task.with_data(task.to_pandas().assign(square=lambda rows: rows.n**2))
        >>> made = Pipeline("squares", stages=[Numbers()]).run(InlineExecutor(), observers=[])
        >>> [int(batch.to_pandas().square[0]) for batch in made]
        [0, 1]
    """

    @abstractmethod
    def splits(self) -> Iterator[X]:
        """The splits of the input, each with its key, always in the same order; called on the driver.

        Raises:
            DataError: there is nothing to read, or it cannot be listed.
        """

    def columns(self) -> list[str] | None:
        """Columns that the source yields, or None if that is not known before the run."""
        return None

    def divided(self, task: X) -> FileRows | None:
        """The split as one that can be read in parts, with its rows counted; None for one that cannot.

        Where failures are ignored and reading a split raises, or ends its process, the engine reads parts of it, so
        that only the rows at fault are lost; ``process`` is then given such parts. It must not do what may have failed,
        such as parsing, nor hold all of the split in memory. A split that cannot be divided is lost whole and does not
        count as finished.

        Raises:
            DataError: it cannot be read.
        """
        return None

    def unread(self, task: X) -> list[dict[str, Any]]:
        """What quarantine holds of a split that cannot be read, or of rows of one: a record for each place of them.

        A record says where it is; ``rows`` is how many rows there are, where that is known.
        """
        return places(task)

    def notices(self) -> list[str]:
        """What a person should know of the input, in sentences; asked for after `splits`."""
        return []

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """What a person should know of what was counted in the input while it was read, in sentences.

        Args:
            found: how often, by kind, as the batches of the source have it.
        """
        return []


def places(batch: Batch) -> list[dict[str, Any]]:
    """Where a batch is that holds no rows itself, as records: its files, or parts of them; else its key.

    Examples:
        >>> places(FileGroup(parts=(FilePart("a.parquet", 2, 3, rows=(10, 20)),)))
        [{'file': 'a.parquet', 'start': 2, 'stop': 3, 'first_row': 10, 'last_row': 19, 'rows': 10}]
    """
    parts = batch.parts if isinstance(batch, FileGroup) else ()
    return [_place(part) for part in parts] or [{"batch": str(batch.key)}]


def _place(part: FilePart) -> dict[str, Any]:
    start = part.start if part.start or part.stop is not None else None
    first, last = part.rows or (None, None)
    return {
        "file": part.path,
        "start": start,
        "stop": part.stop,
        "first_row": first,
        "last_row": None if last is None else last - 1,
        "rows": None if first is None or last is None else last - first,
    }


class SinkStage(ProcessingStage[X, FileGroup]):
    """A stage that writes: what it returns names the files written, under names that follow from the key."""

    @property
    @abstractmethod
    def output_path(self) -> str:
        """The directory that it writes to; run records and quarantine are in ``_dcurate`` below it."""

    storage_options: Mapping[str, Any] | None = None

    def check(self) -> None:
        """Refuse, before workers are started, a directory that a new run must not touch; nothing is written.

        Raises:
            DataError: the directory holds what the stage must not touch.
        """

    @abstractmethod
    def prepare(self, resume: bool) -> None:
        """Check and make ready the directory; called on the driver once, before anything is written.

        Raises:
            DataError: the directory holds what the stage must not touch, or cannot be written.
        """


class BarrierStage(Stage, Generic[X]):
    """A stage that needs every row before it can pass any on, such as the removal of duplicates.

    A pipeline is cut into rounds at its barriers. `map_stages` end the round before the barrier: the last of them is a
    sink that writes to a folder. `reduce_stages` look at the folder as a whole and begin the next round with a source
    that reads it. They may hold further barriers, so a stage that takes several rounds is a chain of them. Folders stay
    until the run ends: a later round may read what an earlier one wrote.
    """

    name: str = "barrier_stage"

    @abstractmethod
    def map_stages(self, url: str, options: Mapping[str, Any]) -> Sequence[Stage]:
        """Return the stages that end the round before the barrier; the last is a sink that writes to `url`.

        Args:
            options: fsspec's ``storage_options`` for the folder.
        """

    @abstractmethod
    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> Sequence[Stage]:
        """Return the stages that begin the round after the barrier; the first is a source that reads from `url`.

        Called on the driver, again when a run is resumed, and must then return the same: expensive work belongs into
        stages. Names of further barriers among them must be unique within the run.

        Args:
            splits: each split's key and the files written for it, in the order of the source.
        """

    def notices(self) -> list[str]:
        """Return sentences about the data for the report; called after `reduce_stages`."""
        return []

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            missing = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name not in ("process", "process_batch"):
                raise AttributeError(missing)
            raise NoProcessError(f"stage {type(self).name!r} needs every row ({missing}); run it in a pipeline")


class CompositeStage(ProcessingStage[X, Y]):
    """A name for several stages in a row.

    `decompose` gives them; ``with_`` takes settings for them by name:
    ``composite.with_({"tokenizer": {"resources": Resources(cpus=2)}})``.

    Examples:
        >>> from dcurate import AddId, Modify
        >>> class Clean(CompositeStage):
        ...     def decompose(self):
        ...         return [Modify(str.strip), AddId("id")]
        >>> [stage.name for stage in Clean().decompose_and_apply_with()][-1]
        'add_id'
    """

    _with: Mapping[str, Mapping[str, Any]] = {}

    @abstractmethod
    def decompose(self) -> Sequence[Stage]:
        """Return the inner stages, at least one."""

    def process(self, task: X) -> Y | list[Y] | None:
        raise PipelineError(f"stage {self.name!r} is a composite: run it in a pipeline, which takes it apart")

    def with_(self, stage_with: Mapping[str, Mapping[str, Any]] | None = None, **unknown: Any) -> Self:  # type: ignore[override]
        """A copy of the composite in which the named inner stages have other settings.

        Raises:
            PipelineError: settings for the composite itself, which has none.
        """
        if unknown or stage_with is None:
            inner = [stage.name for stage in self.decompose()]
            raise PipelineError(
                f"stage {self.name!r} is a composite; name the inner stage: .with_({{{inner[0]!r}: {unknown or {}}}})"
            )
        changed = copy.deepcopy(self)
        object.__setattr__(changed, "_with", {**self._with, **stage_with})
        return changed

    def decompose_and_apply_with(self) -> list[Stage]:
        """The inner stages, composites among them taken apart, with the settings of `with_` applied.

        Raises:
            PipelineError: no inner stage, or settings for one that is not there.
        """
        inner: list[Stage] = []
        for stage in self.decompose():
            inner.extend(stage.decompose_and_apply_with() if isinstance(stage, CompositeStage) else [stage])
        if not inner:
            raise PipelineError(f"composite stage {self.name!r} decomposes into no stage at all")
        names = [stage.name for stage in inner]
        for wanted in self._with:
            if wanted not in names:
                raise PipelineError(f"composite {self.name!r} has no inner stage {wanted!r}{nearest(wanted, names)}")
        return [stage.with_(**self._with[stage.name]) if stage.name in self._with else stage for stage in inner]


@dataclass
class FunctionStage(ProcessingStage[X, Y]):
    """A stage made of a function from one batch to what it becomes."""

    function: Callable[[X], Y | list[Y] | None]
    name: str = "function"
    resources: Resources = field(default_factory=Resources)
    batch_size: int = 1

    def process(self, task: X) -> Y | list[Y] | None:
        return self.function(task)

    def __call__(self, task: X) -> Y | list[Y] | None:
        return self.function(task)


def processing_stage(
    *, name: str, resources: Resources | Mapping[str, float] | None = None, batch_size: int | None = None
) -> Callable[[Callable[[X], Y | list[Y] | None]], FunctionStage[X, Y]]:
    """Make a stage of a function of one batch.

    Args:
        name: of the stage, in plans, reports and errors.
        resources: what one slot needs, as `Resources` or as a mapping such as ``{"cpus": 2}``; one CPU if not given.
        batch_size: how many batches a slot is given at a time; the function is called with each of them.

    Examples:
        >>> @processing_stage(name="keep_all", resources=Resources(cpus=2))
        ... def keep_all(batch):
        ...     return batch
        >>> keep_all.name, keep_all.resources.cpus
        ('keep_all', 2.0)
    """

    def make(function: Callable[[X], Y | list[Y] | None]) -> FunctionStage[X, Y]:
        wanted = Resources(**resources) if isinstance(resources, Mapping) else resources
        return FunctionStage(function, name, wanted or Resources(), batch_size or 1)

    return make

"""Stages in the form that NeMo Curator gives them."""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import math
import time
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from inspect import isabstract
from types import UnionType
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.tasks import NoneTask, Task
from dcurate.core import resources as native
from dcurate.core import stage as ours
from dcurate.core.stage import NodeInfo, WorkerMetadata

X = TypeVar("X")
Y = TypeVar("Y")

#: Attributes of a task and columns of its rows.
Spec = tuple[list[str], list[str]]

#: Attributes that `with_` sets, and that decide nothing of the rows.
HOW_IT_RUNS = ("num_workers", "num_workers_per_node", "ray_stage_spec", "xenna_stage_spec", "runtime_env")

_UNSET: Any = object()
_log = logging.getLogger("dcurate.compat.nemo")

_STAGE_REGISTRY: dict[str, type[Any]] = {}


class RayStageSpecKeys(StrEnum):
    """Names of settings in what ``ray_stage_spec`` returns."""

    IS_ACTOR_STAGE = "is_actor_stage"
    IS_FANOUT_STAGE = "is_fanout_stage"
    IS_RAFT_ACTOR = "is_raft_actor"
    IS_LSH_STAGE = "is_lsh_stage"
    IS_SHUFFLE_STAGE = "is_shuffle_stage"
    MAX_CALLS_PER_WORKER = "max_calls_per_worker"
    MIN_WORKERS = "min_workers"
    MAX_WORKERS = "max_workers"
    INITIAL_WORKERS = "initial_workers"
    RAY_REMOTE_ARGS = "ray_remote_args"
    RAY_NUM_CPUS = "ray_num_cpus"


ACTOR_POOL_SIZING_KEYS = (
    RayStageSpecKeys.MIN_WORKERS,
    RayStageSpecKeys.MAX_WORKERS,
    RayStageSpecKeys.INITIAL_WORKERS,
)


def get_configured_actor_pool_sizing_keys(ray_stage_spec: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings in what ``ray_stage_spec`` returns that limit the number of slots."""
    return [key.value for key in ACTOR_POOL_SIZING_KEYS if key in ray_stage_spec]


def validate_num_workers_per_node(value: Any, stage_name: str) -> int | float | None:
    """Return a number of slots on each host, or None.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not above zero, or not finite.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError(f"num_workers_per_node for stage {stage_name} must be a positive number, not {value!r}.")
    if value is not None and not 0 < value < math.inf:
        raise ValueError(f"num_workers_per_node for stage {stage_name} must be finite and > 0, not {value!r}.")
    return value


def check_sizing(stage: Any) -> None:
    """Check that at most one setting says how many slots a stage has.

    Raises:
        TypeError: a number of slots on each host is not a number.
        ValueError: several settings say it, or a number is out of range.
    """
    sizing = {
        "num_workers()": stage.num_workers(),
        "num_workers_per_node()": validate_num_workers_per_node(stage.num_workers_per_node(), stage.name),
        "actor-pool sizing keys (min/max/initial_workers)": get_configured_actor_pool_sizing_keys(
            stage.ray_stage_spec()
        )
        or None,
    }
    sizing = {name: value for name, value in sizing.items() if value is not None}
    if len(sizing) > 1:
        raise ValueError(
            f"Stage {stage.name} sets multiple worker-sizing options ({', '.join(sizing)}); use only one of "
            "num_workers, num_workers_per_node, or actor-pool sizing keys."
        )


class Resources(native.Resources):
    """`dcurate.Resources` with NeMo Curator's order of arguments.

    Args:
        cpus, gpu_memory_gb, gpus: the same amounts as in `dcurate.Resources`; of the last two, only one.
        entire_gpu: one GPU, as in 25.09.
        nvdecs, nvencs: decoders and encoders of videos, as in 25.09; taken, and without effect.

    Raises:
        ValueError: both `gpus` and `gpu_memory_gb` are given, or an amount is out of range.

    Examples:
        >>> Resources(1.0, 12.0).gpu_memory_gb
        12.0
    """

    def __init__(
        self,
        cpus: float = 1.0,
        gpu_memory_gb: float = 0.0,
        gpus: float = 0.0,
        *,
        entire_gpu: bool = False,
        nvdecs: int = 0,
        nvencs: int = 0,
    ) -> None:
        with as_nemo_raises():
            super().__init__(cpus, gpus or float(entire_gpu), gpu_memory_gb)


class StageMeta(ABCMeta):
    """Registers the classes of stages by name; see `get_stage_class`."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        cls = super().__new__(mcls, name, bases, namespace, **kwargs)
        is_stage = any(base.__name__ == "ProcessingStage" for base in cls.mro()[1:])
        if is_stage and not namespace.get("_is_abstract_root") and not isabstract(cls):
            _STAGE_REGISTRY[name] = cls
        return cls

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """Make a stage.

        Raises:
            ValueError: several of its settings say how many slots it has.
        """
        stage = super().__call__(*args, **named)
        check_sizing(stage)
        return stage


def get_stage_class(name: str) -> type[Any]:
    """The class of a stage by its name.

    Raises:
        KeyError: there is none.
    """
    return _STAGE_REGISTRY[name]


class StageMethods:
    """What every stage of NeMo Curator has besides its work: of a person's and of dcurate's own."""

    runtime_env: ClassVar[dict[str, Any] | None] = None
    is_source_stage: bool = False
    is_sink_stage: bool = False
    is_resumable: bool = True
    #: As NeMo Curator does, where a stage has no such setting.
    overwrite: bool = True

    def ray_stage_spec(self) -> dict[str, Any]:
        """Settings for Ray; those that dcurate has are carried out."""
        return {"is_fanout_stage": self.is_fanout_stage()}

    def xenna_stage_spec(self) -> dict[str, Any]:
        """Settings for Xenna; those that dcurate has are carried out."""
        return {}

    def get_config(self) -> dict[str, Any]:
        """The name, resources and batch size of the stage."""
        config = {name: getattr(self, name) for name in ("name", "resources", "batch_size")}
        return config | {"supports_batch_processing": self.supports_batch_processing()}

    def supports_batch_processing(self) -> bool:
        """Whether the class has a ``process_batch`` of its own."""
        method = type(self).process_batch  # type: ignore[attr-defined]
        return method not in (ProcessingStage.process_batch, ours.ProcessingStage.process_batch)

    def validate_input(self, task: Any) -> bool:
        """Whether a task has the attributes and columns that the stage reads; says in the log what is missing."""
        try:
            attributes, columns = self.input_spec_for_task(task)
        except TypeError as error:
            _log.error("%s", error)
            return False
        get_columns = getattr(task, "get_columns", None)
        known = get_columns() if callable(get_columns) else getattr(task.data, "column_names", ())
        missing = [name for name in attributes if not hasattr(task, name)]
        missing += [name for name in columns if name not in known and not hasattr(task.data, name)]
        if missing:
            _log.error("task %s is missing what stage %r reads: %s", getattr(task, "task_id", ""), self.name, missing)  # type: ignore[attr-defined]
        return not missing

    def input_spec_for_task(self, task: Any) -> Spec:
        """The attributes and columns that the stage reads of tasks of this type.

        Raises:
            TypeError: the stage takes no tasks of this type, or gives no such pair.
        """
        name, specs = self.name, self.inputs()  # type: ignore[attr-defined]
        if isinstance(specs, Mapping):
            for kind in type(task).mro():
                if kind in specs:
                    return _pair(specs[kind], f"Stage {name} inputs()[{kind.__name__}]")
            supported = ", ".join(kind.__name__ for kind in specs) or "<none>"
            raise TypeError(
                f"Stage {name} does not support input task type {type(task).__name__}. "
                f"Supported input task types: {supported}"
            )
        if not isinstance(specs, tuple):
            raise TypeError(f"Stage {name} inputs() must return an input spec tuple or dict of task type to input spec")
        return _pair(specs, f"Stage {name} inputs()")

    def is_fanout_stage(self) -> bool:
        """Whether ``process`` is annotated to return a list."""
        try:
            hints = get_type_hints(type(self).process)  # type: ignore[attr-defined]
        except (AttributeError, NameError, TypeError):
            return False
        return _has_list(hints.get("return"))

    @contextlib.contextmanager
    def _time_metric(self, name: str) -> Iterator[None]:
        """Add the seconds of the ``with`` block to the metrics of the stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._log_metric(name, time.perf_counter() - start)  # type: ignore[attr-defined]


def _pair(spec: Any, source: str) -> Spec:
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise TypeError(f"{source} must be a tuple of (required_attributes, required_columns)")
    return spec


def _has_list(annotation: Any) -> bool:
    origin = get_origin(annotation)
    return origin is list or (origin in (UnionType, Union) and any(map(_has_list, get_args(annotation))))


def _constant(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def changed_stage(stage: Any, settings: Mapping[str, Any]) -> Any:
    """Set what NeMo Curator's ``with_`` takes, on a stage that is already a copy.

    Raises:
        TypeError: `num_workers_per_node` is not a number.
        ValueError: `num_workers` is in the settings for Xenna, or several settings say how many slots there are.
    """
    for name in ("name", "resources", "batch_size", "runtime_env"):
        if settings.get(name) is not None:
            object.__setattr__(stage, name, settings[name])
    for name in ("ray_stage_spec", "xenna_stage_spec"):
        if settings.get(name) is not None:
            if name.startswith("xenna") and "num_workers" in settings[name]:
                raise ValueError("Use with_(num_workers=...) instead of setting num_workers in xenna_stage_spec.")
            object.__setattr__(stage, name, partial(_constant, {**getattr(stage, name)(), **settings[name]}))
    workers = settings.get("num_workers", _UNSET)
    if workers is not _UNSET and isinstance(stage, ours.Stage):
        object.__setattr__(stage, "_num_workers", workers)
    elif workers is not _UNSET:
        object.__setattr__(stage, "num_workers", partial(_constant, workers))
    per_node = settings.get("num_workers_per_node", _UNSET)
    if per_node is not _UNSET and isinstance(stage, ours.Stage):
        object.__setattr__(stage, "spec", replace(stage.spec, num_workers_per_node=whole_slots(per_node, stage.name)))
    elif per_node is not _UNSET:
        object.__setattr__(stage, "num_workers_per_node", partial(_constant, per_node))
    if per_node is not _UNSET or not isinstance(stage, ours.Stage):
        check_sizing(stage)
    return stage


def whole_slots(per_node: Any, name: str) -> int | None:
    """Return a number of slots on each host that may be a fraction, rounded up.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not above zero, or not finite.
    """
    number = validate_num_workers_per_node(per_node, name)
    if number is None:
        return None
    slots = math.ceil(number)
    if slots != number:
        _log.warning("stage %r: num_workers_per_node=%s is %d on each host, rounded up", name, number, slots)
    return slots


class ProcessingStage(StageMethods, ABC, Generic[X, Y], metaclass=StageMeta):
    """One step of a pipeline, as a person writes it for NeMo Curator: subclass it and write ``process``.

    Tasks are given and taken as NeMo Curator has them; see `dcurate.compat.nemo.tasks`.
    """

    _is_abstract_root = True

    name = "ProcessingStage"
    resources = Resources(cpus=1.0)
    batch_size = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        namespace, annotated = vars(cls), dict[str, Any]()
        with contextlib.suppress(NameError):  # Python 3.14 evaluates annotations here
            annotated = inspect.get_annotations(cls)
        for name in ("num_workers", "num_workers_per_node"):
            if (name in namespace and not callable(namespace[name])) or (name not in namespace and name in annotated):
                raise TypeError(
                    f"{cls.__name__} must not define '{name}' as a stage attribute. Override {name}() "
                    "for backend worker sizing, or use a different field name for stage-specific worker counts."
                )
        for name in ("name", "resources", "batch_size", "runtime_env"):
            if isinstance(namespace.get(name), property):
                raise TypeError(
                    f"{cls.__name__} must not define '{name}' as a @property. Use a plain class attribute or "
                    "dataclass field instead, so that ProcessingStage.with_() can override it."
                )
            if callable(namespace.get(f"_{name}")):
                raise TypeError(f"{cls.__name__} must not override '_{name}'")
            if name != "runtime_env" and f"_{name}" in namespace:  # where version 25.09 has these settings
                setattr(cls, name, namespace[f"_{name}"])

    @abstractmethod
    def process(self, task: X) -> Y | list[Y] | None:
        """Return a task, a list of tasks, or None if nothing is left."""

    def process_batch(self, tasks: list[X]) -> list[Y]:
        """Process several tasks; return their results in one list.

        Raises:
            ValueError: a task has not what the stage reads.
        """
        results: list[Any] = []
        for task in tasks:
            if not self.validate_input(task):
                raise ValueError(f"Task {task!s} failed validation for stage {self}")
            result = self.process(task)
            results.extend(result if isinstance(result, list) else [result])
        return results

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        """Called once per host before any slot on it is set up."""

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Called once per slot before it takes work."""

    def teardown(self) -> None:
        """Called once per slot when it ends."""

    def inputs(self) -> Spec | dict[type[Task[Any]], Spec]:
        """Attributes and columns that the stage reads; by type of task, if it takes several."""
        return [], []

    def outputs(self) -> Spec:
        """Attributes and columns that the stage adds."""
        return [], []

    def num_workers(self) -> int | None:
        """A fixed number of slots; None to leave it to the run."""
        return None

    def num_workers_per_node(self) -> float | None:
        """A fixed number of slots on each host, a fraction rounded up; None to leave it to the run."""
        return None

    def with_(  # noqa: PLR0913, PLR0917
        self,
        name: str | None = None,
        resources: Any = None,
        batch_size: int | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_stage_spec: dict[str, Any] | None = None,
        xenna_stage_spec: dict[str, Any] | None = None,
        num_workers: int | None = _UNSET,
        num_workers_per_node: float | None = _UNSET,
    ) -> Any:
        """A copy of the stage with some settings changed.

        Args:
            num_workers: a fixed number of slots; None leaves it to the run again.
            num_workers_per_node: a fixed number of slots on each host; None leaves it to the run again.

        Raises:
            TypeError: `num_workers_per_node` is not a number.
            ValueError: `num_workers` is in `xenna_stage_spec`, or several settings say how many slots there are.
        """
        settings = {name: value for name, value in locals().items() if name != "self"}
        return changed_stage(copy.deepcopy(self), settings)

    def __repr__(self) -> str:
        return type(self).__name__

    def _log_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Add metrics of the stage to those of the run."""
        logged = self.__dict__.setdefault("_custom_metrics", {})
        figures: Mapping[str, Any] = metrics
        for name, value in figures.items():
            if isinstance(value, int | float):
                logged[name] = float(value)
            else:
                _log.warning("metric %s=%r of stage %s is not a number", name, value, self.name)

    def _log_metric(self, name: str, value: float) -> None:
        """Add one metric; see `_log_metrics`."""
        self._log_metrics({name: value})

    def _consume_custom_metrics(self) -> dict[str, float]:
        """Return the metrics since the last call."""
        return self.__dict__.pop("_custom_metrics", None) or {}


class CompositeStage(ProcessingStage[X, Y], ABC):
    """A name for several stages in a row, as a person writes it for NeMo Curator."""

    _is_abstract_root = True

    def inputs(self) -> Any:
        return self.decompose()[0].inputs()

    def outputs(self) -> Any:
        return self.decompose()[-1].outputs()

    @abstractmethod
    def decompose(self) -> list[Any]:
        """Return the inner stages."""

    def with_(self, stage_with_dict: Mapping[str, Mapping[str, Any]]) -> Any:  # type: ignore[override]
        """Change settings of inner stages by name; returns the composite itself."""
        self.__dict__.setdefault("_with_operations", []).append(stage_with_dict)
        return self

    def decompose_and_apply_with(self) -> list[Any]:
        """The inner stages with the settings of `with_`.

        Raises:
            ValueError: there is no inner stage of that name, or there are several.
        """
        return self._apply_with_(list(self.decompose()))

    def _apply_with_(self, stages: list[Any]) -> list[Any]:
        for settings in self.__dict__.get("_with_operations", ()):
            names = [stage.name for stage in stages]
            if len(set(names)) != len(names):
                raise ValueError(
                    "All stages must have unique names in composite stage to apply configuration changes using with_()."
                )
            for name in settings:
                if name not in names:
                    raise ValueError(
                        f"Stage {name} not found in composite stage to apply configuration changes using with_()."
                    )
            stages = [stage.with_(**settings[stage.name]) if stage.name in settings else stage for stage in stages]
        return stages

    def process(self, task: X) -> Any:
        raise RuntimeError(
            f"Composite stage '{self.name}' should not be executed directly. It should be decomposed into execution "
            "stages during planning."
        )

    def get_description(self) -> str:
        """A description of the stage for a person."""
        return f"Composite stage: {self.name}"


ProcessingStage.register(ours.Stage)
CompositeStage.register(ours.CompositeStage)  # type: ignore[type-abstract]


def processing_stage(
    *, name: str, resources: Resources | Mapping[str, Any] | None = None, batch_size: int | None = None
) -> Callable[[Callable[[Any], Any]], ProcessingStage[Any, Any]]:
    """Make a stage of a function from a task to a task, or to a list of tasks.

    Raises:
        ValueError: the function takes another number of arguments than one.

    Examples:
        >>> @processing_stage(name="keep")
        ... def keep(task):
        ...     return task
        >>> keep.name
        'keep'
    """
    wanted = Resources(**resources) if isinstance(resources, Mapping) else resources or Resources()

    def make(function: Callable[[Any], Any]) -> ProcessingStage[Any, Any]:
        if len(inspect.signature(function).parameters) != 1:
            raise ValueError(
                "A processing stage function must accept exactly one positional argument (the input Task)."
            )

        def process(self: Any, task: Any) -> Any:
            result = function(task)
            for output in result if isinstance(result, list) else [result]:
                if isinstance(output, Task) and not isinstance(output, NoneTask):
                    output._metadata, output._stage_perf = dict(task._metadata), list(task._stage_perf)
            return result

        settings = {"name": str(name), "resources": wanted, "batch_size": batch_size, "_fn": staticmethod(function)}
        kind = StageMeta(name, (ProcessingStage,), {"__module__": function.__module__, "process": process, **settings})
        stage: ProcessingStage[Any, Any] = kind()
        return stage

    return make

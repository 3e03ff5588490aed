"""dcurate's classes with NeMo Curator's arguments and methods: one subclass for each, made when it is asked for."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any

import dcurate
import dcurate.download
import dcurate.text
from dcurate.compat.nemo.bridge import restored
from dcurate.compat.nemo.earlier import ARGUMENTS, CLASSIFIERS, earlier_names
from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.names import native_name
from dcurate.compat.nemo.stages import HOW_IT_RUNS, StageMethods, changed_stage
from dcurate.compat.nemo.tasks import DocumentBatch, task_id_of
from dcurate.compat.nemo.verbose import log_progress
from dcurate.core import stage as ours
from dcurate.core.public import find_public
from dcurate.core.spec import SPEC_FIELDS
from dcurate.errors import PipelineError


class BuiltIn(StageMethods):
    """What a stage of dcurate has besides, where a script of NeMo Curator uses it."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return restored, (type(self),), self.__dict__

    def is_fanout_stage(self) -> bool:
        return super(StageMethods, self).is_fanout_stage()  # type: ignore[misc,no-any-return]

    def num_workers_per_node(self) -> int | None:
        """A fixed number of slots on each host; None to leave it to the run."""
        slots: int | None = self.spec.num_workers_per_node  # type: ignore[attr-defined]
        return slots

    def settings(self) -> dict[str, Any]:
        """The attributes that decide the rows of the stage."""
        fields: dict[str, Any] = super().settings()  # type: ignore[misc]
        return {name: value for name, value in fields.items() if name not in (*HOW_IT_RUNS, "verbose")}

    def with_(self, *args: Any, **settings: Any) -> Any:
        """A copy of the stage with some settings changed, by NeMo Curator's names or by dcurate's."""
        base: Any = super()
        if isinstance(self, ours.CompositeStage):
            changed = base.with_(*args, **settings)
            object.__setattr__(self, "_with", changed._with)
            return self
        settings |= dict(zip(("name", "resources", "batch_size"), args, strict=False))
        ours_alone = [name for name in SPEC_FIELDS if name != "num_workers_per_node"]
        spec_settings = {name: settings.pop(name) for name in ours_alone if name in settings}
        stage: Any = base.with_(**spec_settings) if spec_settings else copy.deepcopy(self)
        resources = settings.get("resources")
        if resources is not None and stage.spec.gpu_optional and "gpu_optional" not in spec_settings:
            stage = base.with_(gpu_optional=False)
        return changed_stage(stage, settings)


_made: dict[str, type[Any]] = {}


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in _made:
        native = native_name(name)
        if native is None:
            raise AttributeError(name)
        base = find_public(native)
        if not isinstance(base, type):
            raise AttributeError(f"{name} is not a class")
        made = built_in(base, __name__, name) if issubclass(base, ours.Stage) else with_nemo_arguments(base)
        _made[name] = made
    return _made[name]


def built_in(base: type[Any], module: str, name: str | None = None) -> type[Any]:
    """A subclass of a stage of dcurate with the methods of NeMo Curator's stages, and errors of its kinds.

    Args:
        base: stage class of dcurate.
        module: module that has the subclass.
        name: name of the subclass; None for that of `base`.

    Raises:
        PipelineError: the class is not of a stage.
    """
    if not issubclass(base, ours.Stage):
        raise PipelineError(f"{base.__name__} is not a stage of dcurate")
    made = type(
        name or base.__name__, (BuiltIn, base), {"__module__": module, "__doc__": base.__doc__, "name": base.name}
    )
    _raise_as_nemo(made)
    return earlier_names(**CLASSIFIERS, **ARGUMENTS)(made)  # type: ignore[no-any-return]


def with_nemo_arguments(base: type[Any]) -> type[Any]:
    """A subclass of a class of dcurate that takes NeMo Curator's names of arguments."""
    made = type(base.__name__, (base,), {"__module__": __name__, "__doc__": base.__doc__})
    return earlier_names(**ARGUMENTS)(made)  # type: ignore[no-any-return]


def _raise_as_nemo(made: Any) -> None:
    begin = made.__init__

    @wraps(begin)
    def __init__(self: Any, *args: Any, **named: Any) -> None:  # noqa: N807
        with as_nemo_raises():
            begin(self, *args, **named)

    made.__init__ = __init__


def _raising(base: type[Any], module: str) -> type[Any]:
    """A subclass of a class of dcurate whose constructor raises errors of NeMo Curator's kinds."""
    made = type(base.__name__, (base,), {"__module__": module, "__doc__": base.__doc__})
    _raise_as_nemo(made)
    return made


CommonCrawlHTMLExtractor = _raising(dcurate.download.CommonCrawlHTMLExtractor, __name__)
SubstringFilter = _raising(dcurate.text.SubstringFilter, __name__)


class _Verbose:
    """A filter that logs how many rows of each batch it keeps, if `verbose`."""

    name: str
    verbose: bool

    def process(self, task: Any) -> Any:
        rows, result = task.num_items, super().process(task)  # type: ignore[misc]
        if self.verbose and rows:
            number = getattr(task, "task_id", None) or task_id_of(task.key)
            log_progress("%s batch %s retained %d/%d rows", self.name, number, result.num_items, rows)
        return result


@dataclass
class Filter(_Verbose, built_in(dcurate.Filter, __name__)):  # type: ignore[misc]
    """`dcurate.Filter`, which can log how many rows it keeps.

    Args:
        filter_fn, filter_field, invert, name: the same settings as in `dcurate.Filter`.
        verbose: whether the number of rows that are kept is logged for each batch.
    """

    verbose: bool = False


@dataclass
class ScoreFilter(_Verbose, built_in(dcurate.ScoreFilter, __name__)):  # type: ignore[misc]
    """`dcurate.ScoreFilter`, which can log how many rows it keeps.

    Args:
        filter_obj, text_field, score_field, invert, name: the same settings as in `dcurate.ScoreFilter`.
        verbose: whether the number of rows that are kept is logged for each batch; the filter is not merged with others
            then.
    """

    verbose: bool = False

    def shared_field(self) -> str | None:
        """The column that filters which can be merged share; None if the filter is to tell of its own rows."""
        return None if self.verbose else super().shared_field()


_raise_as_nemo(Filter)
_raise_as_nemo(ScoreFilter)


class AddId(built_in(dcurate.text.AddId, __name__)):  # type: ignore[misc]
    """`dcurate.text.AddId`; called by hand with a task, it makes the ids of its ``task_id``."""

    def process(self, task: Any) -> Any:
        if not isinstance(task, DocumentBatch) or task.key is not None:
            return super().process(task)
        if self.id_field in task.get_columns() and not self.overwrite:
            raise ValueError(f"Column '{self.id_field}' already exists: set overwrite=True to replace it")
        start = f"{self.id_prefix}_{task.task_id}" if self.id_prefix else task.task_id
        ids = [f"{start}_{row}" for row in range(task.num_items)]
        return task.with_data(task.to_pandas().assign(**{self.id_field: ids}))

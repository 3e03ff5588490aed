"""`Stage`: a name, settings, and the columns that are read and added."""

from __future__ import annotations

import copy
import re
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from dcurate.core.kernels import Kernels
from dcurate.core.part import Part
from dcurate.core.resources import Resources
from dcurate.core.spec import SPEC_FIELDS, StageSpec
from dcurate.errors import PipelineError, nearest

#: Attributes and columns, as `ProcessingStage.inputs` and `outputs` give them.
Spec = tuple[list[str], list[str]]

_UNSET: Any = object()
_A = {str: "text", Resources: "Resources, such as Resources(cpus=2)"}
#: Attributes of a stage that decide nothing of the rows that it makes.
_NO_SETTINGS = ("_with", "_num_workers", "_metrics", "_read_later", "spec")


class Stage(Part, ABC):
    """A step of a pipeline: a name, settings, and the columns that it reads and adds.

    A stage either works on one batch at a time (`ProcessingStage`) or needs all rows (`BarrierStage`).
    """

    name: str = "stage"
    resources: Resources = Resources(cpus=1.0)
    batch_size: int = 1
    spec: StageSpec = StageSpec()

    #: Whether the stage looks at no columns but those of `inputs`, `optional_inputs` and `outputs`, and passes others
    #: on as they are. Where it is true of all stages, a reader of JSON Lines parses no other columns.
    uses_only_named_columns: ClassVar[bool] = False
    #: Whether it looks at where rows were read, which readers say in columns that only stages of dcurate see.
    uses_origins: ClassVar[bool] = False

    #: Whether the stage may add columns that `outputs` does not name: no stage after it is refused for a column then.
    adds_unknown_columns: ClassVar[bool] = False

    _num_workers: ClassVar[int | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()

    def inputs(self) -> Spec:
        """Attributes of a batch and columns of its rows that the stage reads."""
        return [], []

    def optional_inputs(self) -> Sequence[str]:
        """Columns of the rows that the stage reads where they are there."""
        return []

    def outputs(self) -> Spec:
        """Attributes of a batch and columns that the stage adds."""
        return [], []

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that the stage cannot work with; called when a pipeline is built, where they are known.

        Raises:
            PipelineError: there is a column that must not be there, say.
        """

    def made_by(self, column: str) -> str:
        """The stage that makes a column which this one reads, for the error where there is none; empty if not known."""
        return ""

    def num_workers(self) -> int | None:
        """A fixed number of slots for this stage, or None to leave it to the run."""
        return self._num_workers

    def is_fanout_stage(self) -> bool:
        """Whether the stage makes many batches of one; override it to say so.

        What follows is then a task of its own for each of the batches, so that they spread over the workers.
        """
        return False

    def forecast(self) -> list[str]:
        """Return sentences about what the stage would do with its input, for ``dcurate plan``; it may read some of it.

        Raises:
            DataError: the input cannot be read.
        """
        return []

    @property
    def sees_lines(self) -> bool:
        """Whether it is given the lines of JSON of rows, in a column: a stage of dcurate passes them on like any."""
        return type(self).__module__.partition(".")[0] == "dcurate"

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences for the report of a run about what the stage counted in its batches.

        Args:
            found: how often, by kind, as `Batch.found` of the stage's batches has it.
        """
        return []

    def kernels(self) -> Sequence[Kernels]:
        """Return the kernels that the stage uses, as far as they are known: a run compiles them first, in parallel."""
        return ()

    def plan_notes(self) -> list[str]:
        """Return what a reader of the plan should know about how the stage runs, a phrase each."""
        return []

    @property
    def cheap_setup(self) -> bool:
        """Whether a slot costs nothing to hold. Such CPU stages share worker processes."""
        return True

    def settings(self) -> dict[str, Any]:
        """Return the attributes that decide the rows of the stage.

        A resumed run refuses changed settings. Override it to leave out settings that do not matter to the rows, such
        as input and output paths.
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

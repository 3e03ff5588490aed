"""`Stage`: a name, settings, and the columns that are read and added."""

from __future__ import annotations

import copy
import re
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from dcurate.core.kernels import Kernels
from dcurate.core.packages import is_ours
from dcurate.core.part import Part
from dcurate.core.resources import Resources
from dcurate.core.spec import SPEC_FIELDS, StageSpec
from dcurate.errors import PipelineError, listed, nearest

#: Attributes and columns, as `ProcessingStage.inputs` and `outputs` give them.
Spec = tuple[list[str], list[str]]

#: Kind of a count of rows, before the name of the column in which the stage replaced their values.
REPLACED = "replaced "

_UNSET: Any = object()
_A: dict[type, str] = {str: "text", bool: "True or False", Resources: "Resources, such as Resources(cpus=2)"}
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
    #: Whether columns that rows have already are replaced by new ones of the same names; else they are refused.
    overwrite: bool = False

    #: Whether the class says all that it does to columns: it reads those of `columns_read`, adds and drops those that
    #: it names, and passes all others on with their rows. A class says so itself, as one that extends it may do more;
    #: by default those of registered packages do.
    declares_columns: ClassVar[bool] = True

    _num_workers: ClassVar[int | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "declares_columns" not in vars(cls):
            cls.declares_columns = is_ours(cls)
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()

    def inputs(self) -> Spec:
        """Attributes of a batch and columns of its rows that the stage reads."""
        return [], []

    def optional_inputs(self) -> Sequence[str]:
        """Columns of the rows that the stage reads where they are there."""
        return []

    def columns_read(self) -> Sequence[str] | None:
        """Columns of the rows that the stage may look at, besides those of `outputs`; None if these may be any.

        By default these are the columns of `inputs` and `optional_inputs`, if the class has one of these methods.
        Override it for a stage that looks at more, such as a writer of all columns. Where all stages say, a reader of
        JSON Lines parses no other columns.
        """
        if type(self).inputs is Stage.inputs and type(self).optional_inputs is Stage.optional_inputs:
            return None
        return [*self.inputs()[1], *self.optional_inputs()]

    def outputs(self) -> Spec:
        """Attributes of a batch and columns that the stage adds, or changes if it reads them."""
        return [], []

    def new_columns(self) -> list[str]:
        """Columns of `outputs` that the stage does not change but makes: rows must not have them before.

        Empty where a user's class defines `outputs`, or how rows are processed: its code knows which columns it
        replaces.
        """
        methods = [getattr(type(self), name, None) for name in ("outputs", "process", "process_batch")]
        if not all(is_ours(method) for method in methods if method is not None):
            return []
        read = {*self.inputs()[1], *self.optional_inputs()}
        return [column for column in self.outputs()[1] if column not in read]

    def dropped_columns(self) -> Sequence[str]:
        """Columns that rows do not have after the stage."""
        return []

    def columns_after(self, columns: Sequence[str]) -> list[str] | None:
        """Return the columns of rows after the stage, from those before it; None if they are not known.

        They are not known of a user's class that does not define `outputs`: it may add any.
        """
        if type(self).outputs is Stage.outputs and not self.declares_columns:
            return None
        dropped = self.dropped_columns()
        return list(dict.fromkeys([*(column for column in columns if column not in dropped), *self.outputs()[1]]))

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that the stage cannot work with; called when a pipeline is built, where they are known.

        Raises:
            PipelineError: the stage would replace a column, and `overwrite` is False.
        """
        taken = [] if self.overwrite else [column for column in self.new_columns() if column in columns]
        if taken:
            exist = "columns {} already exist" if len(taken) > 1 else "column {} already exists"
            raise PipelineError(f"stage {self.name!r}: {exist.format(listed(taken))}; {self._free(taken)}")

    def _free(self, taken: Sequence[str]) -> str:
        """Say how to keep columns of the rows that the stage would replace, or how to replace them."""
        setting = next((name for name, value in vars(self).items() if self._frees(taken, name, value)), "")
        columns, them = ("columns", "them") if len(taken) > 1 else ("column", "it")
        way = f"give another {setting}" if setting else f"rename the {columns} before this stage"
        replacing = "overwrite=True" if "overwrite" in vars(self) else ".with_(overwrite=True)"
        return f"{way}, or {replacing} to replace {them}"

    def _frees(self, taken: Sequence[str], setting: str, value: Any) -> bool:
        """Whether another value of a setting gives all of these columns other names."""
        texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        if setting.startswith("_") or not (setting == "prefix" or any(column in texts for column in taken)):
            return False
        changed = copy.copy(self)
        object.__setattr__(
            changed, setting, f"{value}2_" if isinstance(value, str) else [f"{part}_2" for part in texts]
        )
        return not {*taken} & {*changed.new_columns()}

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences for the report about what was counted in the rows of the stage.

        Args:
            found: number by kind, as the batches of the stage have it.
        """
        replaced = {
            kind.removeprefix(REPLACED)[1:-1]: count for kind, count in found.items() if kind.startswith(REPLACED)
        }
        return [
            f"stage {self.name!r} replaced the values of column {column!r} in {rows:,} row{'s' if rows > 1 else ''}; "
            f"to keep them, {self._free([column]).partition(', or ')[0]}"
            for column, rows in replaced.items()
        ]

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

    def evidence_columns(self) -> Mapping[str, str]:
        """Return what the columns say that dropped rows get from the stage, by their names.

        `dcurate.inspect` and `dcurate.trace` show them: ``{"contamination_ngram": "words"}``.
        """
        return {}

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
        overwrite: bool | None = None,
        **spec: Any,
    ) -> Self:
        """A copy of the stage with some of its settings changed; the stage itself stays as it is.

        Args:
            num_workers: a fixed number of slots; None goes back to letting the run decide.
            overwrite: whether columns that rows have already are replaced.
            spec: fields of `StageSpec` by name, such as ``num_run_attempts=3``.

        Raises:
            PipelineError: a value out of range, or a setting that there is not.
        """
        names = ("name", "resources", "batch_size", "num_workers", "overwrite", *SPEC_FIELDS)
        for unknown in set(spec) - set(SPEC_FIELDS):
            raise PipelineError(f"stage {self.name!r}: with_ has no setting {unknown!r}{nearest(unknown, names)}")
        if isinstance(name, Mapping):
            raise PipelineError(
                f"stage {self.name!r} is one stage and has no inner ones, which a dict would name; "
                "give its settings by name: .with_(resources=..., batch_size=...)"
            )
        kinds = (("name", name, str), ("resources", resources, Resources), ("overwrite", overwrite, bool))
        for setting, argument, kind in kinds:
            if argument is not None and not isinstance(argument, kind):
                raise PipelineError(f"stage {self.name!r}: {setting}={argument!r} must be {_A[kind]}")
        for setting, number in (("batch_size", batch_size), ("num_workers", num_workers)):
            if number is not None and number is not _UNSET and (not isinstance(number, int) or number < 1):
                raise PipelineError(f"stage {self.name!r}: {setting}={number!r} must be at least 1")
        changed = copy.deepcopy(self)
        for attribute, value in (*((setting, value) for setting, value, _ in kinds), ("batch_size", batch_size)):
            if value is not None and value != getattr(changed, attribute):
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

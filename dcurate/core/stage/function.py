"""`processing_stage`: make a stage of a function."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, overload

from dcurate.core.resources import Resources
from dcurate.core.stage.base import Spec
from dcurate.core.stage.processing import ProcessingStage, X, Y
from dcurate.core.syntax import parsed, source_of
from dcurate.errors import PipelineError

Function: TypeAlias = Callable[[X], Y | list[Y] | None]


@dataclass
class FunctionStage(ProcessingStage[X, Y]):
    """A stage made of a function from one batch to its results."""

    declares_columns = False  # the function is a user's

    function: Function[X, Y]
    name: str = "function"
    resources: Resources = field(default_factory=Resources)
    batch_size: int = 1
    #: Columns that the function adds or changes; None if they are not known.
    added: tuple[str, ...] | None = None

    def outputs(self) -> Spec:
        return [], list(self.added or ())

    def new_columns(self) -> list[str]:
        return []

    def columns_after(self, columns: Sequence[str]) -> list[str] | None:
        return None if self.added is None else super().columns_after(columns)

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "added"}

    def process(self, task: X) -> Y | list[Y] | None:
        return self.function(task)

    def __call__(self, task: X) -> Y | list[Y] | None:
        return self.function(task)


@overload
def processing_stage(function: Function[X, Y], /) -> FunctionStage[X, Y]: ...


@overload
def processing_stage(
    *,
    name: str = "",
    resources: Resources | Mapping[str, float] | None = None,
    batch_size: int | None = None,
    outputs: Sequence[str] | None = None,
) -> Callable[[Function[X, Y]], FunctionStage[X, Y]]: ...


def processing_stage(
    function: Function[X, Y] | None = None,
    /,
    *,
    name: str = "",
    resources: Resources | Mapping[str, float] | None = None,
    batch_size: int | None = None,
    outputs: Sequence[str] | None = None,
) -> FunctionStage[X, Y] | Callable[[Function[X, Y]], FunctionStage[X, Y]]:
    """Make a stage of a function of one batch.

    Use it with arguments, ``@processing_stage(name="score")``, or without them, ``@processing_stage``.

    Args:
        function: the function, where no arguments are given.
        name: name of the stage in plans, reports and errors; by default that of the function.
        resources: what one slot needs, as `Resources` or as a mapping such as ``{"cpus": 2}``; one CPU if not given.
        batch_size: how many batches a slot is given at a time; the function is called with each of them.
        outputs: columns that the function adds or changes. Where they are given, a later stage that reads a column
            which nothing makes is refused before the run; by default the function may add any column.

    Raises:
        PipelineError: an argument of the wrong type.

    Examples:
        >>> @processing_stage(name="keep_all", resources=Resources(cpus=2))
        ... def keep_all(batch):
        ...     return batch
        >>> keep_all.name, keep_all.resources.cpus
        ('keep_all', 2.0)
        >>> @processing_stage(outputs=["length"])
        ... def add_length(batch):
        ...     rows = batch.to_pandas()
        ...     return batch.with_data(rows.assign(length=rows.text.str.len()))
        >>> add_length.name, add_length.outputs()[1]
        ('add_length', ['length'])
    """
    if not isinstance(name, str):
        raise PipelineError(f"processing_stage: name={name!r} must be text")
    if outputs is not None and (isinstance(outputs, str) or not all(isinstance(column, str) for column in outputs)):
        raise PipelineError(f"processing_stage: outputs={outputs!r} must be a list of column names")

    def make(function: Function[X, Y]) -> FunctionStage[X, Y]:
        if isinstance(function, type) or not callable(function):
            raise PipelineError(
                f"@processing_stage is for a function of a batch, and this is {function!r}; "
                "write @processing_stage(name=...) before a def, or subclass ProcessingStage"
            )
        called = name or getattr(function, "__name__", "function")
        if _returns_nothing(function):
            raise PipelineError(f"stage {called!r}: the function returns nothing; end it with 'return' and the batch")
        wanted = Resources(**resources) if isinstance(resources, Mapping) else resources
        added = None if outputs is None else tuple(outputs)
        return FunctionStage(function, called, wanted or Resources(), batch_size or 1, added)

    return make if function is None else make(function)


def _returns_nothing(function: Callable[..., Any]) -> bool:
    """Whether the source of a function, if known, has no ``return``, and does not end by raising an error."""
    try:
        source = source_of(function.__code__)  # not of the function that it may wrap
        [definition] = parsed(textwrap.dedent(source)).body
    except (AttributeError, OSError, TypeError, SyntaxError, ValueError):  # no source, or a part of an expression
        return False
    if not isinstance(definition, ast.FunctionDef) or _raises(definition.body) or _is_empty(definition.body):
        return False
    inner = {
        node
        for part in ast.walk(definition)
        if part is not definition and isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(part)
    }
    ends = (node for node in ast.walk(definition) if node not in inner)
    return not any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in ends)


def _is_empty(statements: Sequence[ast.stmt]) -> bool:
    """Whether a function is still to be written: ``pass``, ``...`` or a docstring."""
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in statements
    )


def _raises(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements end by raising an error, in each branch."""
    if not statements:
        return False
    last = statements[-1]
    return isinstance(last, ast.Raise) or (isinstance(last, ast.If) and _raises(last.body) and _raises(last.orelse))

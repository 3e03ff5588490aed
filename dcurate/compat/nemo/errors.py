"""dcurate's errors as the kinds that NeMo Curator raises, so that scripts which catch those go on working."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from dcurate.errors import DataError, DcurateError, PipelineError, ResourceError, RunError, StageError

#: What NeMo Curator raises in the places where dcurate raises its own.
_KINDS: dict[type[DcurateError], tuple[type[Exception], ...]] = {
    PipelineError: (ValueError, TypeError),
    ResourceError: (ValueError, RuntimeError),
    DataError: (ValueError, RuntimeError),
    StageError: (RuntimeError, ValueError),
    RunError: (RuntimeError,),
}


@cache
def _kind(error: type[DcurateError]) -> type[DcurateError]:
    bases = next((kinds for kind, kinds in _KINDS.items() if issubclass(error, kind)), (RuntimeError,))

    return type(error.__name__, (error, *bases), {"__module__": error.__module__})


@contextmanager
def as_nemo_raises() -> Iterator[None]:
    """Raise errors of dcurate as errors of the same class that are also Python's own.

    Examples:
        >>> try:
        ...     with as_nemo_raises():
        ...         raise PipelineError("no stages")
        ... except ValueError as error:
        ...     print(isinstance(error, PipelineError), error)
        True no stages
    """
    try:
        yield
    except DcurateError as error:
        if isinstance(error, ValueError | TypeError | RuntimeError):
            raise
        raised = _kind(type(error))(*error.args)  # type: ignore[arg-type]
        for note in getattr(error, "__notes__", ()):
            raised.add_note(note)
        raise raised from error.__cause__

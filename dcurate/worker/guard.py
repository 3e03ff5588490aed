"""The one place where whatever a stage's own code raises is caught, named and passed on."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from dcurate.errors import DcurateError, StageError


@contextmanager
def user_code(doing: str) -> Iterator[None]:
    """Turn an exception of a stage's own code into a `StageError` that says what was being done.

    Errors of dcurate's own (a reader that names file and line) pass with a note. The traceback travels as
    a note, since causes are lost on the way between processes.

    Examples:
        >>> with user_code("stage 'divide' failed on batch 'a.jsonl'"):
        ...     1 / 0
        Traceback (most recent call last):
        ...
        dcurate.errors.StageError: stage 'divide' failed on batch 'a.jsonl': ZeroDivisionError: division by zero ...
    """
    try:
        yield
    except DcurateError as error:
        error.add_note(doing)
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        failure = StageError(
            f"{doing}: {type(error).__name__}: {error} ({last.filename}, line {last.lineno}, in {last.name})"
        )
        failure.add_note("".join(traceback.format_exception(error)))
        raise failure from error

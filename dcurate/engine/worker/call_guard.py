"""The one place where whatever a stage's own code raises is caught; it goes on as a value."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from traceback import TracebackException
from typing import ClassVar, Self, TypeAlias, TypeVar

from dcurate.errors import DcurateError, PipelineError, ResourceError, RunError, StageError, without_secrets

A = TypeVar("A")
B = TypeVar("B")

#: Errors that say that the run as a whole cannot go on; no row is to blame for them, and trying again is no use.
FATAL = (PipelineError, ResourceError, RunError)


@dataclass
class CallError:
    """A stage's own code raised, as often as it was tried.

    Attributes:
        error: what it raised the last time.
        tries: how often it was called.
        seconds: how long the last call took.
    """

    error: Exception
    tries: int = 1
    seconds: float = 0.0
    _told: TracebackException | None = None

    #: Into how many parts a batch is cut to find the rows at fault: calls are cheap here, so as few as can be.
    ways: ClassVar[int] = 2
    whole: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """Short and stable: the name of the exception's class."""
        return type(self.error).__name__

    @property
    def message(self) -> str:
        """Class and text of the exception."""
        text = without_secrets(str(self.error))
        return f"{self.reason}: {text}" if text else self.reason

    @property
    def trace(self) -> str:
        """The traceback as Python prints it."""
        return without_secrets("".join(self._tell().format()))

    def settle(self) -> Self:
        """Note the traceback in words and let go of its frames: they hold batches, and would until memory is swept."""
        self._told = self._tell()
        chain: list[BaseException | None] = [self.error]
        while chain:
            link = chain.pop()
            if link is None or link.__traceback__ is None:
                continue
            link.__traceback__ = None
            chain += [link.__cause__, link.__context__]
            chain += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        return self

    def _tell(self) -> TracebackException:
        return self._told or TracebackException.from_exception(self.error, lookup_lines=False)

    def like(self, other: object) -> bool:
        """Whether something else failed in the same way."""
        return isinstance(other, CallError) and type(other.error) is type(self.error)

    def as_error(self, doing: str, row: str = "") -> DcurateError:
        """The error to raise: errors of dcurate's own (a reader that names file and line) stay what they are.

        The traceback travels as a note, since causes are lost on the way between processes.

        Args:
            doing: what was being done.
            row: which row is to blame, in words.
        """
        tried = f"tried {self.tries} times" if self.tries > 1 else ""
        if isinstance(self.error, DcurateError):
            self.error.add_note("; ".join(filter(None, (doing, row, tried))))
            return self.error
        last = self._tell().stack[-1]
        place = f"{last.filename}, line {last.lineno}, in {last.name}"
        failure = StageError(f"{doing}: {self.message} ({'; '.join(filter(None, (place, row, tried)))})")
        failure.add_note(self.trace)
        failure.__cause__ = self.error
        return failure


@dataclass(frozen=True)
class Died:
    """The process in which a stage's own code ran came to its end.

    Attributes:
        reason: short and stable: ``"died: SIGSEGV"``, ``"timeout"``.
        message: how it ended.
        trace: where it was, as far as is known.
        whole: whether to give up all of the batch from there on, instead of looking for the rows at fault.
    """

    reason: str
    message: str
    trace: str = ""
    whole: bool = False

    #: Every look costs a process, and pieces are tried in turn, so that one death tells which of many is at fault.
    ways: ClassVar[int] = 16
    seconds: ClassVar[float] = 0.0

    def like(self, other: object) -> bool:
        """Whether something else failed in the same way."""
        return isinstance(other, Died)

    def as_error(self, doing: str, row: str = "") -> DcurateError:
        """The error to raise, as `CallError.as_error`."""
        failure = StageError(f"{doing}: {self.message}" + (f" ({row})" if row else ""))
        if self.trace:
            failure.add_note(self.trace)
        return failure


Failure: TypeAlias = CallError | Died


def attempt(function: Callable[[A], B], argument: A, attempts: int = 1) -> B | CallError:
    """What a stage's own code answers, called up to so many times until it does not raise.

    Examples:
        >>> attempt(len, "four", attempts=2)
        4
        >>> failure = attempt(int, "four", attempts=2)
        >>> failure.tries, str(failure.as_error("stage 'count' failed on batch 'a.jsonl'"))[:65]
        (2, "stage 'count' failed on batch 'a.jsonl': ValueError: invalid lite")
    """
    number = 1
    while True:
        begin = time.perf_counter()
        try:
            return function(argument)
        except Exception as error:
            if number >= attempts or isinstance(error, FATAL):
                return CallError(error, number, time.perf_counter() - begin)
        number += 1

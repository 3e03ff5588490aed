"""Call user code and return exceptions as values. The only broad `except` around stages."""

from __future__ import annotations

import os
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException
from typing import ClassVar, Self, TypeAlias, TypeVar

from dcurate.core.gpu_errors import is_gpu_out_of_memory, poison_in
from dcurate.errors import DcurateError, PipelineError, ResourceError, RunError, StageError
from dcurate.redaction import LONGEST_TRACE, legible, text_of

A = TypeVar("A")
B = TypeVar("B")

#: Errors of the run as a whole: no row is at fault, and a retry is useless.
FATAL = (PipelineError, ResourceError, RunError)
#: Characters of the name of an exception's class, which is a reason in reports and ledgers.
_LONGEST_REASON = 200


@dataclass
class CallError:
    """An exception of a stage's code, after all attempts.

    Attributes:
        error: the exception of the last attempt.
        tries: number of attempts.
        seconds: duration of the last attempt.
    """

    error: BaseException
    tries: int = 1
    seconds: float = 0.0
    _captured: TracebackException | None = None

    #: Number of parts into which a failing batch is split: calls are cheap here, so as few as possible.
    fan_out: ClassVar[int] = 2
    whole: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """The name of the exception's class: short and stable."""
        return type(self.error).__name__[:_LONGEST_REASON]

    @property
    def message(self) -> str:
        """Class and text of the exception."""
        text = text_of(self.error)
        return f"{self.reason}: {text}" if text else self.reason

    @property
    def trace(self) -> str:
        """The traceback as Python prints it."""
        return legible("".join(self._traceback().format()), LONGEST_TRACE)

    def detach(self) -> Self:
        """Keep the traceback as text and drop its frames: they hold batches alive."""
        self._captured = self._traceback()
        chain: list[BaseException | None] = [self.error]
        while chain:
            link = chain.pop()
            if link is None or link.__traceback__ is None:
                continue
            link.__traceback__ = None
            chain += [link.__cause__, link.__context__]
            chain += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        return self

    def _traceback(self) -> TracebackException:
        return self._captured or TracebackException.from_exception(self.error, lookup_lines=False)

    @property
    def poisons(self) -> bool:
        """Whether a CUDA error has left the GPU unusable to this process: later calls fail on any input."""
        return not isinstance(self.error, FATAL) and poison_in(self.error) is not None

    @property
    def is_gpu_out_of_memory(self) -> bool:
        """Whether the memory of a GPU ran out."""
        return not isinstance(self.error, FATAL) and is_gpu_out_of_memory(self.error)

    def like(self, other: object) -> bool:
        """Whether another failure is of the same kind."""
        return isinstance(other, CallError) and type(other.error) is type(self.error)

    def as_error(self, doing: str, row: str = "") -> DcurateError:
        """Return the error to raise; dcurate's own errors (a reader that names file and line) are returned unchanged.

        The traceback travels as a note, since causes are lost between processes.

        Args:
            doing: what was being done.
            row: the row at fault, in words.
        """
        tried = f"tried {self.tries} times" if self.tries > 1 else ""
        if isinstance(self.error, DcurateError):
            self.error.add_note("; ".join(filter(None, (doing, row, tried))))
            return self.error
        frame = _nearest(self._traceback().stack)
        place = f"{frame.filename}, line {frame.lineno}, in {frame.name}"
        failure = StageError(f"{doing}: {self.message} ({'; '.join(filter(None, (place, row, tried)))})")
        failure.add_note(self.trace)
        failure.__cause__ = self.error
        return failure


#: Folders of the standard library, of installed packages and of dcurate.
_INSTALLED = tuple(
    f"{folder}{os.sep}"
    for folder in (
        *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        Path(__file__).parents[2],
    )
)


def _nearest(stack: StackSummary) -> FrameSummary:
    """Return the last call in the user's own code, or else the last one."""
    user_frames = (frame for frame in reversed(stack) if not _is_installed(frame.filename))
    return next(user_frames, stack[-1])


def _is_installed(file: str) -> bool:
    return file.startswith("<frozen") or file.endswith((".pyx", ".pxi")) or file.startswith(_INSTALLED)


@dataclass(frozen=True)
class Died:
    """The end of the process that ran a stage's code.

    Attributes:
        reason: short and stable: ``"died: SIGSEGV"``, ``"timeout"``.
        message: how it ended.
        trace: where it was, as far as is known.
        whole: whether the whole batch failed from there on, without a search for the rows at fault.
        poisoned: whether a CUDA error had left the GPU unusable to the process.
    """

    reason: str
    message: str
    trace: str = ""
    whole: bool = False
    poisoned: bool = False

    #: Every try costs a process, and parts are tried in turn, so that one death shows which of many is at fault.
    fan_out: ClassVar[int] = 16
    seconds: ClassVar[float] = 0.0

    def like(self, other: object) -> bool:
        """Whether another failure is of the same kind."""
        return isinstance(other, Died)

    def as_error(self, doing: str, row: str = "") -> DcurateError:
        """Return the error to raise, as `CallError.as_error` does."""
        failure = StageError(f"{doing}: {self.message}" + (f" ({row})" if row else ""))
        if self.trace:
            failure.add_note(self.trace)
        return failure


Failure: TypeAlias = CallError | Died


def attempt(function: Callable[[A], B], argument: A, attempts: int = 1) -> B | CallError:
    """Call a stage's code up to ``attempts`` times until it does not raise; return its answer or the error.

    Errors of the run as a whole, and those that leave the GPU unusable to this process, are not tried again. A stage
    that calls ``sys.exit()`` has failed, too; Ctrl-C passes through.

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
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if number >= attempts or isinstance(error, FATAL) or poison_in(error) is not None:
                return CallError(error, number, time.perf_counter() - begin)
        number += 1

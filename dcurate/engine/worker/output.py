"""Takes what the stages of a run print, log and warn in this process, for the log of its job.

What a thread prints belongs to the run for which it works (`RunOutput.taken`), also in tasks of asyncio that it
starts, and in `asyncio.to_thread`; not in threads that a stage starts itself. The process shows all of it as before.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TextIO, cast

from dcurate.redaction import line_of

#: Characters of a line that are kept, and those that are read for secrets.
LONGEST, READ = 4000, 8000
#: Lines of a process that wait to be sent, and those that are sent at a time. A long line counts for several.
MOST_WAITING, MOST_SENT = 4000, 500
#: Characters that count as one line.
LINE = 200
#: The level of what is printed; others are those of logging.
PRINTED = "OUT"
#: Loggers of which only warnings are of use, as in a driver.
_QUIET = ("distributed", "asyncio", "tornado")


class OutputLine(NamedTuple):
    """A line: seconds since the epoch, its level and its text."""

    time: float
    level: str
    text: str


def weight(text: str) -> int:
    """For how many lines a text counts.

    Examples:
        >>> weight("short"), weight("x" * 1000)
        (1, 6)
    """
    return 1 + len(text) // LINE


def left_out(lines: int) -> OutputLine:
    """A line that says how many are missing at its place.

    Examples:
        >>> left_out(2000).text
        '2,000 lines were left out, as more came than can be sent'
    """
    return OutputLine(time.time(), "WARNING", f"{lines:,} lines were left out, as more came than can be sent")


class RunOutput:
    """The lines of one run in this process that wait to be sent: bounded, in order; thread-safe.

    Examples:
        >>> output = RunOutput()
        >>> with output.taken():
        ...     logging.getLogger("doctest").warning("row %d is odd", 3)
        >>> [(line.level, line.text) for line in output.take()]
        [('WARNING', 'row 3 is odd')]
        >>> output.close()
    """

    def __init__(self) -> None:
        self._closed = False
        self._lock = threading.Lock()
        self._waiting: deque[OutputLine] = deque()
        self._weight = 0
        self._missing = 0
        #: What each thread has printed of a line that has not ended.
        self._begun: dict[int, str] = {}
        _hooks.add()

    def close(self) -> None:
        """Take nothing more."""
        with self._lock:
            closes, self._closed = not self._closed, True
        if closes:
            _hooks.remove()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take what this thread prints, logs and warns in the ``with`` block."""
        token = _present.set(self)
        try:
            yield
        finally:
            _present.reset(token)
            if threading.get_ident() in self._begun:
                self.write("\n")

    def put(self, text: str, level: str) -> None:
        """Add a text of whole lines."""
        moment = time.time()
        with self._lock:
            for line in text.splitlines() or [""]:
                self._put(line, level, moment)

    def write(self, text: str) -> None:
        """Add what was printed: any part of a line, or several."""
        thread = threading.get_ident()  # another thread never touches what this one has begun
        begun = self._begun.get(thread, "")
        *lines, rest = text.split("\n") if "\n" in text else (text,)
        if lines:
            lines[0], begun, moment = begun + lines[0], "", time.time()
            with self._lock:
                for line in lines:
                    self._put(_last_shown(line) if "\r" in line else line, PRINTED, moment)
        if len(begun) < READ:  # more of a line is not kept
            begun = (_last_shown(begun + rest) if "\r" in rest else begun + rest)[:READ]
        if begun:
            self._begun[thread] = begun
        else:
            self._begun.pop(thread, None)

    def _put(self, text: str, level: str, moment: float) -> None:
        if self._weight >= MOST_WAITING:
            self._missing += 1
            return
        if self._missing:
            self._waiting.append(left_out(self._missing))
            self._weight, self._missing = self._weight + 1, 0
        self._waiting.append(OutputLine(moment, level, text[:READ]))
        self._weight += weight(text[:LONGEST])

    def take(self, most: int = MOST_SENT) -> list[OutputLine]:
        """Take the oldest lines that wait, without secrets.

        Args:
            most: weight of the lines.
        """
        taken: list[OutputLine] = []
        with self._lock:
            while self._waiting and most > 0:
                taken.append(self._waiting.popleft())
                size = weight(taken[-1].text[:LONGEST])
                most, self._weight = most - size, self._weight - size
            if self._missing and not self._waiting:
                taken.append(left_out(self._missing))
                self._missing = 0
        return [line._replace(text=line_of(line.text, LONGEST)) for line in taken]


def _last_shown(line: str) -> str:
    """What a terminal shows of a line: a progress bar writes over itself."""
    return line.rstrip("\r").rpartition("\r")[2]


_present: ContextVar[RunOutput | None] = ContextVar("dcurate_output", default=None)


class _Stream:
    """Standard output or error, which sends what a thread prints to the run that it works for."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stream)

    def write(self, text: str) -> int:
        """Write a text."""
        size = self.stream.write(text)
        output = _present.get()
        if output is not None and sys._getframe(1).f_code is not _LOGGING:
            output.write(text)
        return size

    def writelines(self, lines: Any) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)


#: The code that writes what was logged to a stream; it has been taken as a record.
_LOGGING = logging.StreamHandler.emit.__code__


class _Hooks:
    """Where Python says that something is printed, logged or warned; set while a run of this process takes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._streams: dict[str, _Stream] = {}
        self._factory: Callable[..., logging.LogRecord] = logging.LogRecord
        self._shows: Callable[..., None] = warnings.showwarning
        self._level = False

    def add(self) -> None:
        """Count a run; set the hooks, again where somebody has replaced them."""
        with self._lock:
            self._runs += 1
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is not None and not isinstance(stream, _Stream):
                    self._streams[name] = _Stream(stream)
                    setattr(sys, name, cast(TextIO, self._streams[name]))
            if logging.getLogRecordFactory() is not _record:
                self._factory = logging.getLogRecordFactory()
                logging.setLogRecordFactory(_record)
            if warnings.showwarning is not _show:
                self._shows = warnings.showwarning
                warnings.showwarning = _show
            root = logging.getLogger()
            # Without handlers nothing below a warning is shown, so that the process itself shows what it did.
            if not root.handlers and root.level == logging.WARNING:
                self._level = True
                root.setLevel(logging.INFO)

    def remove(self) -> None:
        """Count a run that has ended; remove the hooks with the last, unless somebody else has set his over them."""
        with self._lock:
            self._runs -= 1
            if self._runs:
                return
            for name, stream in self._streams.items():
                if getattr(sys, name) is stream:
                    setattr(sys, name, stream.stream)
            self._streams = {}
            if logging.getLogRecordFactory() is _record:
                logging.setLogRecordFactory(self._factory)
            if warnings.showwarning is _show:
                warnings.showwarning = self._shows
            if self._level and logging.getLogger().level == logging.INFO:
                logging.getLogger().setLevel(logging.WARNING)
            self._level = False

    def record(self, *arguments: Any, **named: Any) -> logging.LogRecord:
        """Make a record, as `logging` does."""
        return self._factory(*arguments, **named)

    def show(self, *arguments: Any, **named: Any) -> None:
        """Show a warning, as `warnings` does."""
        self._shows(*arguments, **named)


_hooks = _Hooks()
os.register_at_fork(after_in_child=lambda: cast(None, _present.set(None)))  # nobody sends what a child takes


def _record(*arguments: Any, **named: Any) -> logging.LogRecord:
    """Make a record of logging (called by each logger), and take its text."""
    record = _hooks.record(*arguments, **named)
    output = _present.get()
    if output is None or not record.name:  # one that was made elsewhere has no name yet
        return record
    if record.levelno < logging.WARNING and record.name.partition(".")[0] in _QUIET:
        return record
    try:
        text = record.getMessage()
    except Exception:  # of a value that cannot be printed: logging says so itself
        text = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    output.put(text, record.levelname)
    return record


def _show(*arguments: Any, **named: Any) -> None:
    """Show a warning (called by `warnings`, as `warnings.showwarning`), and take its text."""
    output = _present.get()
    given = dict(zip(("message", "category", "filename", "lineno", "file"), arguments, strict=False)) | named
    if output is None or given.get("file") is not None:
        _hooks.show(*arguments, **named)
        return
    output.put(f"{given['filename']}:{given['lineno']}: {given['category'].__name__}: {given['message']}", "WARNING")
    token = _present.set(None)  # what is shown of it is taken already
    try:
        _hooks.show(*arguments, **named)
    finally:
        _present.reset(token)

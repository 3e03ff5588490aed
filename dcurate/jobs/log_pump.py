"""Collects what a driver and its workers print and log, as lines, for the board and for the records of the output."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from dcurate.jobs.records import LogLine
from dcurate.redaction import line_of

#: Characters of a line that are kept.
LONGEST = 4000
#: Lines that wait for the board; more are dropped, and counted.
MOST_WAITING = 50_000
#: Bytes that are read at once.
_READ = 1 << 16


class LogPump(logging.Handler):
    """Takes over standard output, standard error and the loggers of this process.

    Args:
        source: the source of the lines.
    """

    def __init__(self, source: str = "driver") -> None:
        super().__init__()
        self.source = source
        self._waiting: deque[LogLine] = deque()
        self._guard = threading.Lock()
        self._dropped = 0

    def install(self) -> None:
        """Redirect descriptors 1 and 2 here, and log here."""
        reading, writing = os.pipe()
        for descriptor in (1, 2):
            os.dup2(writing, descriptor)
        os.close(writing)
        threading.Thread(target=self._read, args=(reading,), name="dcurate-job-output", daemon=True).start()
        logging.basicConfig(level=logging.INFO, handlers=[self], force=True)
        for name in ("distributed", "asyncio", "tornado"):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [self], False
            logger.setLevel(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of a logger (called by logging)."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        self.put(text.splitlines() or [""], record.levelname, record.created)

    def put(self, texts: Iterable[str], level: str, moment: float | None = None) -> None:
        """Add lines."""
        moment = time.time() if moment is None else moment
        self._put(LogLine(moment, self.source, level, line_of(text, LONGEST)) for text in texts)

    def put_of(self, worker: str, lines: Iterable[Sequence[Any]]) -> None:
        """Add lines of a worker.

        Args:
            worker: its name.
            lines: seconds since the epoch, level and text of each; what is secret to this process is removed, too.
        """
        self._put(LogLine(moment, worker, level, line_of(text, LONGEST)) for moment, level, text in lines)

    def _put(self, lines: Iterable[LogLine]) -> None:
        new = list(lines)
        with self._guard:
            self._waiting.extend(new)
            while len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1

    def give_back(self, lines: list[LogLine]) -> None:
        """Put lines back that could not be sent."""
        with self._guard:
            self._waiting.extendleft(reversed(lines))

    def take(self, most: int) -> list[LogLine]:
        """Take the oldest lines that wait."""
        with self._guard:
            lines = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            if self._dropped and len(lines) < most:
                lines.append(LogLine(time.time(), self.source, "WARNING", f"{self._dropped:,} lines were left out"))
                self._dropped = 0
        return lines

    def _read(self, descriptor: int) -> None:
        """Read what is printed, line by line; a line without an end is taken when it is long or at the end."""
        rest = b""
        while data := os.read(descriptor, _READ):
            *lines, rest = (rest + data).replace(b"\r\n", b"\n").split(b"\n")
            if len(rest) > LONGEST:
                lines.append(rest)
                rest = b""
            if lines:
                self.put((line.decode(errors="replace") for line in lines), "OUT")
        if rest:
            self.put([rest.decode(errors="replace")], "OUT")

"""Call a function on hostile bytes in a child process, so that a hang or a crash costs one item.

The child is started once and kept warm; a template process that has loaded the function forks it and what replaces it
(`dcurate.isolate.template`). Items are streamed to it ahead of its answers, which come back in order: the
first item without an answer is the one in progress. When the child dies, or takes too long over an item, that item is
tried once more, alone in a new child; then it is given up with a `MediaFault`, and the rest goes on.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

import orjson

from dcurate.core.cpu_time import CPU_METER
from dcurate.errors import StageError
from dcurate.isolate.child import HEAD, AnswerKind
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.isolate.process import REQUEST, Pipes, named
from dcurate.isolate.template import Ended, Template

#: Seconds that the child may take to load its function.
START_S = 300.0
#: Seconds that a child whose pipe is closed may take to end.
END_S = 30.0
#: A child that holds so much more than after its first items is replaced.
RECYCLE_GROWTH_BYTES = 2**28
#: An item may take this many times its limit of CPU time by the clock, as a child waits on a loaded machine.
WALL_FACTOR = 10
#: The kind of clock of a process that counts its CPU time, see clock_getcpuclockid(3).
_CPU_CLOCK = 2
#: Bytes that are asked of the kernel for each pipe.
_PIPE = 2**20
_READ = 2**18
#: Seconds between two looks at a child that is about to reach a limit.
_LEAST_WAIT_S = 0.01
#: Seconds after an answer in which a child gives no sign of progress.
_QUIET_S = 0.05
_IOV = 64
#: A child that was killed at more than this share of its memory limit ran out of memory.
_NEARLY_ALL = 0.75
#: Bytes of the longest read.
_MOST_READ = 2**20
#: Limit of all reads of a served file: a multiple of its size, and bytes on top.
_READ_FACTOR, _READ_MORE = 64, 2**26
_NO_MEMORY = (b"bad_alloc", b"out of memory", b"cannot allocate", b"memory exhausted")


class ChildAnswer(NamedTuple):
    """What the function returned for an item.

    Args:
        value: the dictionary, as it came through JSON.
        blobs: the byte strings.
    """

    value: dict[str, Any]
    blobs: list[bytes]


class Sandbox:
    """Calls a function of bytes in a warm child process with limits of time and memory.

    The function gets ``(data: bytes, options: dict)`` and returns a dictionary that JSON can hold, or a pair of it and
    a list of byte strings. A `MediaError` that it raises is the fault of the item; any other error is, too, with the
    reason ``"failed: <type>"``. Answers come back as JSON and raw bytes, never as pickles, so that a child in which
    hostile data took over cannot run code here. The child gets no environment variables with secrets, and cannot write
    files of more than 16 MiB.

    Make one in the ``setup`` of a stage and close it in its ``teardown``. The child starts with the first item, and
    ends when this process does, however that ends.

    Args:
        function: ``"package.module:function"``.
        options: passed to the function with each item; must be what JSON can hold.
        timeout_s: seconds of CPU time for an item, so that the result does not depend on what else the machine does; by
            the clock it may take ten times as long.
        memory_bytes: bytes of data (``RLIMIT_DATA``) that the child may hold, its libraries included.
        recycle_items: a new child is started after as many items, or when it holds 256 MiB more than after the first.
        serves_files: whether the function reads files through this process: see `stream`.

    Examples:
        >>> with Sandbox("dcurate.isolate.child:measured", {"unit": "bytes"}) as sandbox:
        ...     good, bad = sandbox.map([b"four", b""])
        >>> good.value, bad
        ({'bytes': 4}, MediaFault(reason='empty', detail='the file has no bytes'))
    """

    def __init__(
        self,
        function: str,
        options: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 60.0,
        memory_bytes: int = 2**30,
        recycle_items: int = 10_000,
        serves_files: bool = False,
    ) -> None:
        self._setup = orjson.dumps(
            {
                "function": function,
                "options": dict(options or {}),
                "memory_bytes": memory_bytes,
                "recycle_items": recycle_items,
                "recycle_growth_bytes": RECYCLE_GROWTH_BYTES,
                "serves_files": serves_files,
                "quiet_s": min(_QUIET_S, timeout_s / 10),
            }
        )
        self._function, self._timeout_s, self._memory = function, timeout_s, memory_bytes
        self._template: Template | None = None
        self._child: _Child | None = None
        self._busy = threading.Lock()
        #: How many children were started, and how many seconds of CPU those that ended took.
        self.started, self.cpu_s = 0, 0.0

    def map(self, items: Sequence[bytes | memoryview], wall_s: float | None = None) -> list[ChildAnswer | MediaFault]:
        """Call the function on each item; the answers are in the order of the items.

        Args:
            items: passed to the function.
            wall_s: seconds by the clock that an item may take; ten times the CPU time if not given.

        Raises:
            StageError: the function cannot be loaded.
        """
        with self._busy:
            return list(self._answers(items, wall_s or WALL_FACTOR * self._timeout_s))

    def call(self, data: bytes | memoryview, wall_s: float | None = None) -> ChildAnswer | MediaFault:
        """Call the function on one item; see `map`.

        Raises:
            StageError: the function cannot be loaded.
        """
        return self.map([data], wall_s)[0]

    def stream(self, source: BinaryIO, size: int, request: Mapping[str, Any]) -> Iterator[ChildAnswer]:
        """Call the function on an open file, and yield its answers as they come; an empty one is a sign of progress.

        The function gets ``(source: BinaryIO, request: dict, options: dict)`` and yields pairs of a dictionary and a
        list of byte strings, or None. Its reads of the file are answered from here. The limits of time hold from
        answer to answer; all reads together may take 64 times the size of the file.

        Args:
            source: the file, which can seek.
            size: size of it in bytes.
            request: what the function is asked; JSON must be able to hold it.

        Raises:
            MediaError: the fault of the file.
            ChildDiedError: likewise, where the child died or took too long; another try may succeed.
            StageError: the function cannot be loaded.

        Examples:
            >>> from io import BytesIO
            >>> with Sandbox("dcurate.isolate.child:chunks", serves_files=True) as sandbox:
            ...     [answer.blobs for answer in sandbox.stream(BytesIO(b"12345"), 5, {"bytes": 3}) if answer.value]
            [[b'123'], [b'45']]
        """
        with self._busy:
            child = self._ready()
            whole = False
            try:
                yield from child.parts(source, size, request, self._timeout_s, WALL_FACTOR * self._timeout_s)
                whole = True
            except ChildDiedError:
                raise
            except MediaError:
                whole = True
                raise
            finally:
                if not whole or child.retired:
                    self._end()

    def close(self) -> None:
        """End the child; the next call starts another."""
        with self._busy:
            self._end(whole=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answers(self, items: Sequence[bytes | memoryview], wall_s: float) -> Iterator[ChildAnswer | MediaFault]:
        waiting = deque(items)
        again = False  # the first item ended a child, and is tried once more, alone
        while waiting:
            try:
                child = self._ready()
                for answer in child.answers([waiting[0]] if again else list(waiting), self._timeout_s, wall_s):
                    again = False
                    waiting.popleft()
                    yield answer
                if child.retired:
                    self._end()
            except ChildDiedError as died:
                self._end()
                if again:
                    waiting.popleft()
                    yield died.fault
                again = not again
            except BaseException:  # interrupted: what the child would answer next belongs to no item
                self._end()
                raise

    def _ready(self) -> _Child:
        if self._child is None:
            self.started += 1
            if self._template is None:
                self._template = Template(self._function)
            self._child = _Child(self._template, self._function, self._setup, self._memory)
            try:
                self._child.start()
            except BaseException:
                self._end(whole=True)
                raise
        return self._child

    def _end(self, *, whole: bool = False) -> None:
        """End the child; if `whole`, the template, too."""
        child, self._child = self._child, None
        if child is not None:
            self.cpu_s += child.end()
        if whole and self._template is not None:
            template, self._template = self._template, None
            self.cpu_s += template.end()


class ChildDiedError(MediaError):
    """Raised where a child died or was killed, with the fault of the item in progress."""


class _Child:
    """A child process with its pipes.

    Attributes:
        retired: whether it wants to be replaced; it answers no more.
    """

    def __init__(self, template: Template, function: str, setup: bytes, memory: int) -> None:
        self.retired = False
        self._counted_s = 0.0
        self._peak = 0  # bytes of memory, when the child began
        self._ended: Ended | None = None
        self._function, self._memory = function, memory
        self._pipes = Pipes()
        self._requests, self._answers = self._pipes.requests, self._pipes.answers
        try:
            self._process = template.child(self._pipes.ends)
        except BaseException:
            self._pipes.close()
            raise
        finally:
            self._pipes.close_ends()
        for end in (self._requests, self._answers):
            os.set_blocking(end, False)
            with suppress(OSError):  # a user may have only so much in pipes
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        self._held = bytearray()
        self._outgoing: deque[memoryview] = deque()
        self._send(setup)

    def start(self) -> None:
        """Wait until the function is loaded.

        Raises:
            StageError: it cannot be.
        """
        try:
            kind, value, _ = self._next(START_S, START_S)
            reason = "" if kind == AnswerKind.READY else str(value.get("detail"))
            peak = value.get("peak_bytes", 0)
            self._peak = peak if isinstance(peak, int) else 0
        except ChildDiedError as died:
            reason = ", ".join(filter(None, died.fault))
        if reason:
            raise StageError(f"{self._function!r} could not be loaded in a process of its own: {reason}")

    def answers(
        self, items: Sequence[bytes | memoryview], timeout_s: float, wall_s: float
    ) -> Iterator[ChildAnswer | MediaFault]:
        """Yield the answers to the items; fewer if the child retires.

        Raises:
            ChildDiedError: the child died over the first item without an answer, or took too long.
        """
        for item in items:
            self._send(item)
        for _ in range(len(items)):
            kind, value, blobs = self._next(timeout_s, wall_s)
            self.retired = kind in (AnswerKind.LAST, AnswerKind.LAST_FAULT)
            if kind in (AnswerKind.FAULT, AnswerKind.LAST_FAULT):
                yield MediaFault(str(value.get("reason")), str(value.get("detail")))
            else:
                yield ChildAnswer(value, blobs)
            if self.retired:
                return

    def parts(
        self, source: BinaryIO, size: int, request: Mapping[str, Any], timeout_s: float, wall_s: float
    ) -> Iterator[ChildAnswer]:
        """Yield the answers about a file, and answer the child's reads of it meanwhile.

        Raises:
            MediaError: the fault of the file.
            ChildDiedError: the child died, took too long or read too much.
        """
        self._send(orjson.dumps({"size": size, "request": dict(request)}))
        remaining = _READ_FACTOR * size + _READ_MORE
        while True:
            kind, value, blobs = self._next(timeout_s, wall_s)
            if kind == AnswerKind.READ:
                data = _range(source, size, value)
                remaining -= len(data)
                if remaining < 0:
                    self._wait(0.0)
                    raise ChildDiedError("timed out", f"it read more than {_READ_FACTOR} times the file")
                self._send(data)
                continue
            if kind == AnswerKind.PART:
                yield ChildAnswer(value, blobs)
                continue
            self.retired = kind in (AnswerKind.LAST, AnswerKind.LAST_FAULT)
            if kind in (AnswerKind.FAULT, AnswerKind.LAST_FAULT):
                raise MediaError(str(value.get("reason")), str(value.get("detail")))
            return

    def end(self) -> float:
        """Kill the process if it still runs; return the seconds of CPU that it took."""
        ended = self._wait(0.0)
        self._pipes.close()
        return ended.cpu_s

    def _send(self, data: bytes | memoryview) -> None:
        self._outgoing.append(memoryview(REQUEST.pack(len(data))))
        if len(data):
            self._outgoing.append(memoryview(data).cast("B"))

    def _next(self, timeout_s: float, wall_s: float) -> tuple[int, dict[str, Any], list[bytes]]:
        """Return the next answer, and send what is still to be sent meanwhile.

        Args:
            timeout_s: seconds of CPU time that it may take.
            wall_s: seconds by the clock.

        Raises:
            ChildDiedError: the child died, or was killed because it took too long.
        """
        begin, cpu_s = time.monotonic(), self._cpu_s()
        while True:
            wanted = self._frame_size()
            if wanted and len(self._held) >= wanted:
                self._count_cpu(self._cpu_s())
                return self._taken(wanted)
            self._poll.register(self._answers, select.POLLIN)
            if self._outgoing:
                self._poll.register(self._requests, select.POLLOUT)
            took_s, used_s = time.monotonic() - begin, self._cpu_s() - cpu_s
            if used_s >= timeout_s or took_s >= wall_s:
                self._wait(0.0)
                limit = f"{timeout_s:g} s of CPU time" if used_s >= timeout_s else f"{wall_s:g} s"
                raise ChildDiedError("timed out", f"it took longer than {limit}")
            wait_s = max(min(timeout_s - used_s, wall_s - took_s), _LEAST_WAIT_S)
            events = dict(self._poll.poll(wait_s * 1000))
            if self._requests in events:
                self._write()
            if self._answers in events:
                data = os.read(self._answers, _READ)
                if not data:
                    raise ChildDiedError(*self._death())
                self._held += data

    def _count_cpu(self, cpu_s: float) -> None:
        """Count what the process took since the last look for the call that it works for."""
        CPU_METER.add(max(0.0, cpu_s - self._counted_s))
        self._counted_s = max(self._counted_s, cpu_s)

    def _cpu_s(self) -> float:
        """Return the CPU time of the process so far, in seconds; 0 if it has ended."""
        try:
            return time.clock_gettime(~self._process.pid << 3 | _CPU_CLOCK)
        except OSError:
            return 0.0

    def _write(self) -> None:
        try:
            sent = os.writev(self._requests, [self._outgoing[place] for place in range(min(_IOV, len(self._outgoing)))])
        except BlockingIOError:
            return
        except BrokenPipeError:  # it died: reading says so
            self._outgoing.clear()
            sent = 0
        while sent:
            first = self._outgoing.popleft()
            if sent < len(first):
                self._outgoing.appendleft(first[sent:])
            sent -= min(sent, len(first))
        if not self._outgoing:
            self._poll.unregister(self._requests)

    def _frame_size(self) -> int:
        """Return the size of the frame that comes next; 0 if that is not known yet."""
        if len(self._held) < HEAD.size:
            return 0
        _, number, length = HEAD.unpack_from(self._held)
        sizes = HEAD.size + 8 * number
        self._check_size(sizes + length)
        if len(self._held) < sizes:
            return 0
        size: int = sizes + length + sum(struct.unpack_from(f"<{number}Q", self._held, HEAD.size))
        self._check_size(size)
        return size

    def _check_size(self, size: int) -> None:
        if size > 2 * self._memory:
            self._wait(0.0)
            raise ChildDiedError("crashed: bad answer", f"an answer of {size:,} bytes")

    def _taken(self, size: int) -> tuple[int, dict[str, Any], list[bytes]]:
        """Take a frame from what was read."""
        kind, number, length = HEAD.unpack_from(self._held)
        sizes = struct.unpack_from(f"<{number}Q", self._held, HEAD.size)
        at = HEAD.size + 8 * number
        with memoryview(self._held) as held:
            text, at = held[at : at + length], at + length
            try:
                value = orjson.loads(text)
            except orjson.JSONDecodeError:
                value = None
            text.release()
            blobs = []
            for blob_size in sizes:
                blobs.append(bytes(held[at : at + blob_size]))
                at += blob_size
        del self._held[:size]
        if not isinstance(value, dict):
            self._wait(0.0)
            raise ChildDiedError("crashed: bad answer", "an answer that is not a JSON object")
        return kind, value, blobs

    def _death(self) -> MediaFault:
        """Describe how the process ended."""
        ended = self._wait(END_S)
        code = os.waitstatus_to_exitcode(ended.status)
        trace = self._pipes.traces(4096)
        detail = trace.decode(errors="backslashreplace").strip()
        lower = trace.lower()
        if (
            code == -signal.SIGKILL
            or ended.peak_bytes > max(self._peak, _NEARLY_ALL * self._memory)
            or any(words in lower for words in _NO_MEMORY)
        ):
            return MediaFault("out of memory", detail)
        return MediaFault(f"crashed: {named(code)}", detail)

    def _wait(self, seconds: float) -> Ended:
        """Wait so long for the end of the process, then kill it; return how it ended."""
        if self._ended is None:
            until = time.monotonic() + seconds
            ended = self._process.wait(os.WNOHANG)
            while not ended.pid and time.monotonic() < until:
                time.sleep(0.005)
                ended = self._process.wait(os.WNOHANG)
            if not ended.pid:
                with suppress(ProcessLookupError):
                    os.kill(self._process.pid, signal.SIGKILL)
                ended = self._process.wait(0)
            self._ended = ended
            self._count_cpu(ended.cpu_s)
        return self._ended


def _range(source: BinaryIO, size: int, value: Mapping[str, Any]) -> bytes:
    """The bytes of a file that a child asks for, whatever it asks for."""
    offset, length = (number if isinstance(number := value.get(name), int) else 0 for name in ("offset", "size"))
    offset = min(max(offset, 0), size)
    source.seek(offset)
    return source.read(min(max(length, 0), size - offset, _MOST_READ))

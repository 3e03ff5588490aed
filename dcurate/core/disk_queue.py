"""A queue in bounded memory, for the splits that a run lists ahead."""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from collections import deque
from typing import BinaryIO, Generic, TypeVar, cast

from dcurate.errors import RunError

Value = TypeVar("Value")

#: Values that are written and read together; up to two blocks are in memory.
BLOCK = 1_024


class DiskQueue(Generic[Value]):
    """A queue whose first and last values are in memory, and the others in a file without a name.

    Values are pickled. A block of values of which one cannot be pickled stays in memory.

    Raises:
        RunError: the temporary folder is full or cannot be written.

    Examples:
        >>> queue = DiskQueue()
        >>> for number in range(5_000):
        ...     queue.append(number)
        >>> queue.first, [queue.popleft() for _ in range(3)], len(queue)
        (0, [0, 1, 2], 4997)
    """

    def __init__(self) -> None:
        self._size = 0
        self._next: deque[Value] = deque()
        self._blocks: deque[tuple[int, int] | list[Value]] = deque()  # where they are in the file, or their values
        self._last: list[Value] = []
        self._file: BinaryIO | None = None
        self._end = 0

    def __len__(self) -> int:
        return self._size

    def append(self, value: Value) -> None:
        """Add a value at the end."""
        self._size += 1
        if not self._blocks and not self._last and len(self._next) < BLOCK:
            self._next.append(value)
            return
        self._last.append(value)
        if len(self._last) == BLOCK:
            self._blocks.append(self._written(self._last))
            self._last = []

    @property
    def first(self) -> Value:
        """The value that `popleft` gives next.

        Raises:
            IndexError: the queue is empty.
        """
        if not self._next and self._size:
            self._next.extend(self._read(self._blocks.popleft()) if self._blocks else self._last)
            self._last = self._last if self._size > len(self._next) else []
        return self._next[0]

    def popleft(self) -> Value:
        """Remove the first value and return it.

        Raises:
            IndexError: the queue is empty.
        """
        value = self.first
        self._next.popleft()
        self._size -= 1
        return value

    def _written(self, values: list[Value]) -> tuple[int, int] | list[Value]:
        """Write values; return where they are, or the values themselves if they cannot be pickled."""
        try:
            data = pickle.dumps(values)
        except Exception:  # of a class of the user
            return values
        try:
            if self._file is None:
                self._file = cast(BinaryIO, tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - closed with the queue
                weakref.finalize(self, self._file.close)
            self._file.write(data)
        except OSError as error:
            raise RunError(
                f"the list of the splits of the run cannot be kept in the temporary folder ({error}); free space "
                "there, or name another folder in the environment variable TMPDIR"
            ) from error
        start, self._end = self._end, self._end + len(data)
        return start, len(data)

    def _read(self, block: tuple[int, int] | list[Value]) -> list[Value]:
        if isinstance(block, list):
            return block
        assert self._file is not None
        start, length = block
        values = cast("list[Value]", pickle.loads(os.pread(self._file.fileno(), length, start)))
        if not self._blocks:
            self._file.truncate(0)
            self._file.seek(0)
            self._end = 0
        return values

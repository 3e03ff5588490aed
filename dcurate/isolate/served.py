"""A file that a child process reads through the process that started it: the child needs no path and no credentials."""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

#: Bytes that are asked for at a time, and blocks that are kept: files interleave picture and sound, at some distance.
BLOCK, _KEPT = 2**18, 16


class ServedFile(io.RawIOBase):
    """A file whose blocks are asked for one by one.

    Args:
        size: size of the file in bytes.
        ask: function that returns the bytes from an offset on, up to a size; fewer where the file ends early.

    Examples:
        >>> file = ServedFile(10, lambda offset, size: b"0123456789"[offset : offset + size])
        >>> file.seek(4), file.read(3), file.read()
        (4, b'456', b'789')
    """

    def __init__(self, size: int, ask: Callable[[int, int], bytes]) -> None:
        self.size, self._ask, self._at = size, ask, 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, skip = divmod(self._at, BLOCK)
        if self._at >= self.size:
            return 0
        data = memoryview(self._block(number))[skip : skip + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            start = number * BLOCK
            block = self._blocks[number] = self._ask(start, min(BLOCK, self.size - start))
            if len(self._blocks) > _KEPT:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block

"""Tell frames with other content apart."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import xxhash

from dcurate.errors import DataError
from dcurate.frames.convert import to_arrow


def version_of_frame(frame: Any, types: pa.Schema | None = None) -> str:
    """Return a hash of the columns, types and values of a frame; it takes one pass over its bytes.

    What Arrow has no type for is pickled; of values that cannot be pickled nothing is known, and the text is empty.

    Args:
        frame: frame of any library that a batch may hold.
        types: types of columns by name, as for `to_arrow`.

    Examples:
        >>> table = pa.table({"text": ["a", None, "b"]})
        >>> version_of_frame(table) == version_of_frame(pa.table({"text": ["a", None, "b"]}))
        True
        >>> version_of_frame(table) == version_of_frame(pa.table({"text": ["a", None, "c"]}))
        False
    """
    hashed = _Hashed()
    try:
        table = to_arrow(frame, types)
    except DataError:
        try:
            hashed.write(pickle.dumps(frame, protocol=5))
        except Exception:  # the objects of a user may raise anything
            return ""
        return hashed.text
    file = pa.PythonFile(hashed, mode="w")
    with pa.ipc.new_stream(file, table.schema) as stream:  # it writes a slice, not all that it is of
        stream.write_table(table.combine_chunks())
    return hashed.text


class _Hashed:
    """A file that keeps a hash of what is written."""

    closed = False

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    @property
    def text(self) -> str:
        """The hash of all that was written."""
        return self._hash.hexdigest()

"""Counts of rows and bytes by name, of as many names as there are, in bounded memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple, Self

from dcurate.fs.temporary import scratch_folder

#: Names in memory at a time; more go to a file.
HELD = 2**18
_TABLE = (
    "CREATE TABLE counts (kind TEXT, name TEXT, rows INTEGER, nbytes INTEGER, PRIMARY KEY (kind, name)) WITHOUT ROWID"
)
_ADD = (
    "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET rows = rows + excluded.rows, "
    "nbytes = nbytes + excluded.nbytes"
)
_LARGEST = "SELECT name, rows, nbytes FROM counts WHERE kind = ? ORDER BY nbytes DESC, rows DESC, name LIMIT ?"


class Count(NamedTuple):
    """Rows and bytes of a name."""

    name: str
    rows: int
    nbytes: int


class GroupCounts:
    """Counts by kind and name; a context manager.

    Args:
        held: number of names that are held in memory.

    Examples:
        >>> with GroupCounts() as counts:
        ...     for name in ("b.org", "a.org", "b.org"):
        ...         counts.add("domain", name, 1, 10)
        ...     counts.names("domain"), list(counts.largest("domain", 1))
        (2, [Count(name='b.org', rows=2, nbytes=20)])
    """

    def __init__(self, held: int = HELD) -> None:
        self._most, self._held = held, dict[tuple[str, str], list[int]]()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(scratch_folder())
        self._file = sqlite3.connect(f"{folder}/counts.sqlite", isolation_level=None)
        self._stack.callback(self._file.close)
        for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _TABLE):
            self._file.execute(statement)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, kind: str, name: str, rows: int, nbytes: int) -> None:
        """Add to the counts of a name."""
        count = self._held.setdefault((kind, name), [0, 0])
        count[0] += rows
        count[1] += nbytes
        if len(self._held) >= self._most:
            self._flush()

    def names(self, *kinds: str) -> int:
        """Return how many names of some kinds there are; one of several kinds counts once."""
        self._flush()
        marks = ", ".join("?" * len(kinds))
        [(number,)] = self._file.execute(f"SELECT count(DISTINCT name) FROM counts WHERE kind IN ({marks})", kinds)
        return int(number)

    def total(self, kind: str) -> Count:
        """Return the sums of a kind, under its own name."""
        self._flush()
        sums = "SELECT coalesce(sum(rows), 0), coalesce(sum(nbytes), 0) FROM counts WHERE kind = ?"
        [(rows, nbytes)] = self._file.execute(sums, (kind,))
        return Count(kind, int(rows), int(nbytes))

    def kinds(self) -> list[str]:
        """Return the kinds, in order."""
        self._flush()
        return [kind for (kind,) in self._file.execute("SELECT DISTINCT kind FROM counts ORDER BY kind")]

    def largest(self, kind: str, most: int = -1) -> Iterator[Count]:
        """Yield the names with the most bytes, then rows, then in order of names; all by default."""
        self._flush()
        for row in self._file.execute(_LARGEST, (kind, most)):
            yield Count(*row)

    def _flush(self) -> None:
        if self._held:
            self._file.execute("BEGIN")
            self._file.executemany(_ADD, [(*key, *count) for key, count in sorted(self._held.items())])
            self._file.execute("COMMIT")
            self._held.clear()

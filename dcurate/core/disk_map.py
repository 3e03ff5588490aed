"""An ordered map from names to values in bounded memory, for runs of millions of splits."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from dcurate.errors import RunError

Value = TypeVar("Value")

#: Entries that wait in memory to be written together.
MOST_WAITING = 8_192
#: Memory of the table in KiB; what does not fit is in a file without a name, which goes when the process ends.
CACHE_KIB = 2_048


class DiskMap(Generic[Value]):
    """Maps names to values, in the order in which names are added, with a few MB in memory.

    Threads may use it in turn, not at the same time.

    Args:
        encode: encodes a value as bytes.
        decode: decodes what ``encode`` gave.

    Raises:
        RunError: the temporary folder is full or cannot be written.

    Examples:
        >>> sizes = DiskMap(lambda size: b"%d" % size, int)
        >>> sizes.add("b", 3), sizes.add("a", 5), sizes.add("b", 8)
        (True, True, False)
        >>> sizes.put("a", 7)
        >>> dict(sizes.items()), sizes["a"], "c" in sizes
        ({'b': 3, 'a': 7}, 7, False)
    """

    def __init__(self, encode: Callable[[Value], bytes], decode: Callable[[bytes], Value]) -> None:
        self._encode, self._decode = encode, decode
        self._size = 0
        self._waiting: dict[str, Value] = {}
        self._last = ""  # the greatest name so far: one that is greater cannot be in the map
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._database.close)  # Python 3.13 warns of one that is not closed
        for statement in (
            "PRAGMA journal_mode = OFF",
            f"PRAGMA cache_size = -{CACHE_KIB}",
            "CREATE TABLE entries (number INTEGER PRIMARY KEY, name BLOB UNIQUE NOT NULL, value BLOB NOT NULL)",
            "BEGIN",
        ):
            self._database.execute(statement)

    def add(self, name: str, value: Value) -> bool:
        """Add a name, unless it is in the map; return whether it was added."""
        if name in self:
            return False
        self._size += 1
        self._last = max(self._last, name)
        self.put(name, value)
        return True

    def put(self, name: str, value: Value) -> None:
        """Set the value of a name that is in the map."""
        self._waiting[name] = value
        if len(self._waiting) >= MOST_WAITING:
            self._write()

    @classmethod
    def of_names(cls) -> DiskMap[tuple[str, ...]]:
        """Return an empty map from names to names, as from splits to their files."""
        return DiskMap(encode_names, decode_names)

    def __getitem__(self, name: str) -> Value:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name: str) -> Value | None:
        """Return the value of a name; None if it is not in the map."""
        if name in self._waiting:
            return self._waiting[name]
        if name > self._last or self._size == len(self._waiting):
            return None
        with _disk():
            row = self._database.execute("SELECT value FROM entries WHERE name = ?", (_key(name),)).fetchone()
        return None if row is None else self._decode(row[0])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return self._size

    def items(self) -> Iterator[tuple[str, Value]]:
        """Yield names and values, in the order in which the names were added."""
        self._write()
        with _disk():
            for name, value in self._database.execute("SELECT name, value FROM entries ORDER BY number"):
                yield name.decode(errors="surrogatepass"), self._decode(value)

    def _write(self) -> None:
        """Write the entries that wait, in the order in which new names were added."""
        entries = ((_key(name), self._encode(value)) for name, value in self._waiting.items())
        with _disk():
            self._database.executemany(
                "INSERT INTO entries (name, value) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                entries,
            )
        self._waiting = {}


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise RunError(
            f"the list of the splits of the run cannot be kept in the temporary folder ({error}); free space there, or "
            "name another folder in the environment variable SQLITE_TMPDIR"
        ) from error


def encode_names(names: tuple[str, ...]) -> bytes:
    """Encode names as bytes, each ended by a NUL."""
    return "".join(f"{name}\0" for name in names).encode(errors="surrogatepass")


def decode_names(data: bytes) -> tuple[str, ...]:
    """Decode what `encode_names` gave."""
    return tuple(data.decode(errors="surrogatepass").split("\0")[:-1])


def _key(name: str) -> bytes:
    return name.encode(errors="surrogatepass")

"""Frames of films on their way into batches: in memory as far as they fit, and else in files on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from dcurate.errors import ResourceError
from dcurate.media.refs import BYTES
from dcurate.media.stage import with_columns

#: Columns of frames, beside `BYTES`.
FRAME_S, FRAME_NUMBER, FRAME_COUNT = "frame_s", "frame_number", "frame_count"
COLUMNS = {BYTES: pa.large_binary(), FRAME_S: pa.float64(), FRAME_NUMBER: pa.int64(), FRAME_COUNT: pa.int64()}

#: Bytes of frames in a batch, about; a film is never cut.
_BATCH = 2**26
#: Bytes of frames that wait in memory for their batch; what is more waits on disk.
_WAITING = 2**26
#: Bytes of batches that a call holds in memory; what is more is on disk.
_IN_MEMORY = 2**28


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """A frame that waits on disk.

    Args:
        place: offset in the file.
        size: number of bytes.
    """

    place: int
    size: int

    def __len__(self) -> int:
        return self.size


#: The file of a frame, or where it waits.
KeptFrame = bytes | StoredFrame
#: The frames of a film: their times in seconds, and their files.
FilmFrames = tuple[Sequence[float], Sequence[KeptFrame]]


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Turn an error of the temporary folder into one sentence.

    Raises:
        ResourceError: the folder is full or cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"frames that wait for their batch cannot be kept in the temporary folder ({error.strerror or error}); "
            "free space there, or name another folder in the environment variable TMPDIR of the workers"
        ) from error


def _write(file: IO[bytes], data: bytes) -> None:
    """Write to a file without a buffer: to close one with a buffer would fail where the disk is full, and leave it."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


class FrameStore:
    """Keeps frames until their batch is made: up to 64 MiB in memory, and others in a file without a name."""

    def __init__(self) -> None:
        self._held = self._written = 0  # bytes of frames in memory and in the file
        self._file: IO[bytes] | None = None

    def keep(self, frame: bytes) -> KeptFrame:
        """Keep a frame.

        Raises:
            ResourceError: the temporary folder is full or cannot be written.
        """
        if self._held + len(frame) <= _WAITING:
            self._held += len(frame)
            return frame
        kept = StoredFrame(self._written, len(frame))
        with _temporary_files():
            if self._file is None:
                self._file = cast(IO[bytes], tempfile.TemporaryFile(buffering=0, prefix="dcurate-frames-"))  # noqa: SIM115
            self._file.seek(self._written)
            _write(self._file, frame)
        self._written += len(frame)
        return kept

    def read(self, frame: KeptFrame) -> bytes:
        """Return a frame that `keep` returned."""
        if isinstance(frame, bytes):
            return frame
        assert self._file is not None
        self._file.seek(frame.place)
        return self._file.read(frame.size)

    @property
    def bytes_on_disk(self) -> int:
        """Size of the file."""
        return 0 if self._file is None else self._file.seek(0, os.SEEK_END)

    def forget_all_but(self, frames: Iterable[KeptFrame]) -> None:
        """Free the room of all frames but these, which still wait; the file shrinks once no frame in it does.

        Args:
            frames: frames that `keep` returned.
        """
        sizes = dict.fromkeys((bytes, StoredFrame), 0)
        for frame in frames:
            sizes[type(frame)] += len(frame)
        self._held = sizes[bytes]
        if self._file is not None and not sizes[StoredFrame]:
            self._file.truncate(0)
            self._written = 0

    def close(self) -> None:
        """Delete what is on disk."""
        if self._file is not None:
            self._file.close()


class FrameBatches:
    """Makes batches of the frames of films, in order, each of whole films and about 64 MiB.

    Batches that do not fit into 256 MiB with those before are in files on disk, which are deleted at once and mapped
    into memory.

    Args:
        store: where frames are kept.
        most_films: largest number of films of a batch; None for any number.
    """

    def __init__(self, store: FrameStore, most_films: int | None) -> None:
        self._store, self._most_films = store, most_films
        self._held = 0  # bytes of batches in memory
        self._open, self._size = list[tuple[pa.Table, FilmFrames]](), 0
        self._made = list[pa.Table]()

    def add(self, row: pa.Table, film: FilmFrames) -> None:
        """Add the frames of a film.

        Args:
            row: the row of the film, as a table.
            film: times and files of its frames.
        """
        size = sum(map(len, film[1]))
        if self._open and (self._size + size > _BATCH or len(self._open) == self._most_films):
            self._end()
        self._open.append((row, film))
        self._size += size

    def all(self) -> list[pa.Table]:
        """Return the tables of all batches."""
        if self._open:
            self._end()
        return self._made

    def waiting(self) -> Iterator[KeptFrame]:
        """Yield the frames of films that are in no batch yet."""
        return (file for _, (_, files) in self._open for file in files)

    def _end(self) -> None:
        files = list(self.waiting())
        if self._held + self._size > _IN_MEMORY:
            column = self._on_disk(files)
        else:
            column = self._in_memory(files)
            self._held += self._size
        self._made.append(frames_table(self._open, column))
        self._open, self._size = [], 0

    def _in_memory(self, files: Sequence[KeptFrame]) -> pa.Array:
        return pa.array(list(map(self._store.read, files)), COLUMNS[BYTES])

    def _on_disk(self, files: Sequence[KeptFrame]) -> pa.Array:
        """Return a column whose bytes are mapped from a file on disk, which has no name any more."""
        places = np.zeros(len(files) + 1, np.int64)
        np.cumsum([len(file) for file in files], out=places[1:])
        with _temporary_files(), tempfile.NamedTemporaryFile(buffering=0, prefix="dcurate-frames-") as disk:
            for file in files:
                _write(disk, self._store.read(file))
            mapped = pa.memory_map(disk.name).read_buffer()
        return pa.Array.from_buffers(COLUMNS[BYTES], len(files), [None, pa.py_buffer(places), mapped])


def frames_table(films: Sequence[tuple[pa.Table, FilmFrames]], files: pa.Array) -> pa.Table:
    """Return a row for each frame of films, with the columns of the row of its film.

    Args:
        films: the row of each film, as a table, and its frames.
        files: the files of all frames.
    """
    counts = [len(frames) for _, (_, frames) in films]
    values: dict[str, Any] = {
        FRAME_S: [time for _, (times, _) in films for time in times],
        FRAME_NUMBER: [number for count in counts for number in range(count)],
        FRAME_COUNT: [count for count in counts for _ in range(count)],
    }
    columns = {name: pa.array(column, COLUMNS[name]) for name, column in values.items()}
    added = pa.table({BYTES: files, **columns})
    rows = pa.concat_tables([row for row, _ in films])
    carried = rows.drop_columns([name for name in added.column_names if name in rows.column_names])
    if not carried.column_names:
        return added
    origin = [place for place, count in enumerate(counts) for _ in range(count)]
    return with_columns(carried.take(pa.array(origin, pa.int64())), added)

"""Frames of films on their way into batches: in memory as far as they fit, and else in files on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

import pyarrow as pa

from dcurate.media.refs import BYTES
from dcurate.media.stage import with_columns

#: Columns of frames, beside `BYTES`.
FRAME_S, FRAME_NUMBER, FRAME_COUNT = "frame_s", "frame_number", "frame_count"
COLUMNS = {BYTES: pa.large_binary(), FRAME_S: pa.float64(), FRAME_NUMBER: pa.int64(), FRAME_COUNT: pa.int64()}

#: Bytes of frames in a batch, about; a film is never cut.
_BATCH = 2**26
#: Bytes of frames of which a table is made at a time.
_PIECE = 2**24
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


class FrameStore:
    """Keeps frames until their batch is made: the first 64 MiB in memory, and others in a file without a name."""

    def __init__(self) -> None:
        self._held = self._written = 0
        self._file: IO[bytes] | None = None

    def keep(self, frame: bytes) -> KeptFrame:
        """Keep a frame."""
        if self._held + len(frame) <= _WAITING:
            self._held += len(frame)
            return frame
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dcurate-frames-")  # noqa: SIM115 - closed by `close`
        kept = StoredFrame(self._written, len(frame))
        self._file.seek(self._written)
        self._file.write(frame)
        self._written += len(frame)
        return kept

    def read(self, frame: KeptFrame) -> bytes:
        """Return a frame that `keep` returned."""
        if isinstance(frame, bytes):
            return frame
        assert self._file is not None
        self._file.seek(frame.place)
        return self._file.read(frame.size)

    def close(self) -> None:
        """Delete what is on disk."""
        if self._file is not None:
            self._file.close()


class FrameBatches:
    """Makes batches of the frames of films, in order, each of whole films and about 64 MiB.

    Batches beyond the first 256 MiB are in files on disk, which are deleted at once and mapped into memory.

    Args:
        store: where frames are kept.
        most_films: largest number of films of a batch; None for any number.
    """

    def __init__(self, store: FrameStore, most_films: int | None) -> None:
        self._store, self._most_films, self._held = store, most_films, 0
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

    def _end(self) -> None:
        pieces = chain.from_iterable(self._pieces(row, film) for row, film in self._open)
        self._held += self._size
        self._made.append(pa.concat_tables(pieces) if self._held <= _IN_MEMORY else _mapped(pieces))
        self._open, self._size = [], 0

    def _pieces(self, row: pa.Table, film: FilmFrames) -> Iterator[pa.Table]:
        """Yield the rows of the frames of a film, about 16 MiB at a time."""
        times, files = film
        start, size = 0, 0
        for stop, file in enumerate(files, 1):
            size += len(file)
            if size >= _PIECE or stop == len(files):
                here = list(map(self._store.read, files[start:stop]))
                yield rows_of_frames(row, times[start:stop], here, start, len(files))
                start, size = stop, 0


def _mapped(pieces: Iterable[pa.Table]) -> pa.Table:
    """Return a table that is mapped from a file on disk, which has no name any more."""
    pieces = iter(pieces)
    first = next(pieces)
    with tempfile.NamedTemporaryFile(prefix="dcurate-frames-") as file:
        with pa.ipc.new_file(file, first.schema) as writer:
            writer.write_table(first)
            del first
            for piece in pieces:
                writer.write_table(piece)
        file.flush()
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()


def rows_of_frames(row: pa.Table, times: Sequence[float], files: Sequence[bytes], first: int, count: int) -> pa.Table:
    """Return a row for each of some frames of a film, with the columns of the row of the film.

    Args:
        row: the row of the film, as a table; one without rows where there are no frames.
        times: their times in seconds.
        files: their files.
        first: number of the first of them within the film.
        count: number of all frames of the film.
    """
    values: dict[str, Any] = {
        BYTES: files,
        FRAME_S: times,
        FRAME_NUMBER: range(first, first + len(files)),
        FRAME_COUNT: [count] * len(files),
    }
    added = pa.table({name: pa.array(values[name], kind) for name, kind in COLUMNS.items()})
    carried = row.drop_columns([name for name in added.column_names if name in row.column_names])
    if not carried.column_names:
        return added
    return with_columns(carried.take(pa.array([0] * len(files), pa.int64())), added)

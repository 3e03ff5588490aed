"""Files broken in every way that is known of, the same at each run, and what a reader makes of them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcurate import DcurateError, JsonlReader, ParquetReader, WarcReader, WetReader
from dcurate.io.source import FileReader

READERS: dict[str, type[FileReader]] = {
    reader.__name__: reader for reader in (JsonlReader, ParquetReader, WarcReader, WetReader)
}


@dataclass(frozen=True)
class Outcome:
    """What became of an input: its rows and what quarantine holds, or the sentence in which reading ended.

    Args:
        left_out: rows that were counted as rejected.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0
    sentence: str = ""

    @property
    def accounted(self) -> int:
        return len(self.rows) + len(self.faults) + self.left_out


def outcome(reader: str, path: str, **settings: Any) -> Outcome:
    """Read an input as a run does, split by split; any error that is no sentence is raised."""
    found = Outcome()
    left_out = 0
    try:
        source = READERS[reader](path, **settings)
        for split in source.splits():
            batch = source.process(split)
            if batch is not None:
                found.rows.extend(batch.to_arrow().to_pylist())
                for each in batch.rejections:
                    found.faults.extend(each.data.to_pylist() if each.fault else [])
                    left_out += 0 if each.fault else each.rows
    except DcurateError as error:
        return Outcome(sentence=str(error))
    return Outcome(found.rows, found.faults, left_out)


def outcome_of(reader: str, path: str, data: bytes, settings: dict[str, Any]) -> Outcome:
    """That of one file with this content; for processes that may die of it."""
    Path(path).write_bytes(data)
    return outcome(reader, path, **settings)


def broken(data: bytes, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """The data broken in 50 ways that mean something in any format, with a name of each."""
    chance = random.Random(seed)
    size = len(data)
    places = sorted({0, 1, 3, 4, 5, 8, size // 3, size // 2, size - 9, size - 8, size - 5, size - 4, size - 1})
    for place in places:
        yield f"cut at {place}", data[:place]
    for place in [*chance.sample(range(size), 10), *range(0, size, max(1, size // 8))]:
        bit = chance.randrange(8)
        yield f"bit {bit} of byte {place} flipped", data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
    for place in chance.sample(range(size - 16), 6):
        yield f"8 bytes at {place} overwritten", data[:place] + chance.randbytes(8) + data[place + 8 :]
        yield f"16 bytes at {place} lost", data[:place] + data[place + 16 :]
        yield f"9 bytes at {place} come in", data[:place] + chance.randbytes(9) + data[place:]
    yield "the last third is zeros", data[: size - size // 3] + b"\0" * (size // 3)
    yield "the first byte is lost", data[1:]
    yield "another kind of file", b"<html><body>503 Service Unavailable</body></html>\n"


def broken_parquet(data: bytes, other: bytes) -> Iterator[tuple[str, bytes]]:
    """A Parquet file broken in ways that only Parquet knows."""
    (length,) = struct.unpack("<I", data[-8:-4])
    footer, body = data[-8 - length : -8], data[: -8 - length]

    def ended(footer: bytes, length: int | None = None, magic: bytes = b"PAR1") -> bytes:
        return body + footer + struct.pack("<I", len(footer) if length is None else length) + magic

    for wrong in (0, 1, length - 1, length + 1, len(data) - 12, len(data), 2**31 - 1, 2**32 - 1):
        yield f"a footer of {wrong} bytes", ended(footer, wrong)
    for magic in (b"PAR2", b"PARE", b"\0\0\0\0"):
        yield f"{magic!r} at the end", ended(footer, magic=magic)
        yield f"{magic!r} at the beginning", magic + data[4:]
    for place in range(0, length, max(1, length // 24)):
        for bit in (0, 4, 7):
            yield (
                f"bit {bit} of the footer's byte {place} flipped",
                ended(footer[:place] + bytes([footer[place] ^ 1 << bit]) + footer[place + 1 :]),
            )
    for name, filling in (("zeros", b"\0"), ("ones", b"\xff")):
        for place in (4, 24, len(body) // 2, len(body) - 64):
            yield f"{name} at {place} of the pages", body[:place] + filling * 60 + data[place + 60 :]
        for place in (0, length // 2, length - 60):
            yield f"{name} at {place} of the footer", ended(footer[:place] + filling * 60 + footer[place + 60 :])
    (theirs,) = struct.unpack("<I", other[-8:-4])
    yield "the footer of another file", body + other[-8 - theirs :]
    yield "the pages of another file", other[: -8 - theirs] + data[-8 - length :]
    yield "the footer alone", b"PAR1" + data[-8 - length :]
    yield "the pages alone", body
    yield "two files in one", data + other
    yield "the footer twice", ended(footer + footer)
    yield "half of the pages", body[: len(body) // 2] + data[-8 - length :]

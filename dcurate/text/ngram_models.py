"""N-gram models in the files of KenLM: ARPA, and its binary format with probing hash tables."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError
from dcurate.frames.text import TextColumn, column_of
from dcurate.kernels import ngram_models as kernel
from dcurate.kernels.layout import frozen
from dcurate.kernels.ngram_models import LogScores, Tables, add_ngrams, ngram_scores, numbers_of

_MAGIC = b"mmap lm http://kheafield.com/code format version 5\n"
_ANY_MAGIC = b"mmap lm http://kheafield.com/code"
#: What follows the magic in the header: numbers that tell whether the machine counts alike; then what the file holds.
_SANITY = struct.Struct("<56s3f3IQ")
_FIXED = struct.Struct("<B3xfiB3xI")
_KINDS = ("probing", "probing with rest costs", "trie", "quantized trie", "trie with array-compressed pointers")
_MULTIPLIER = 2.0
#: Bytes of the shortest line of a section.
_SHORTEST_LINE = 4
_MISSING_UNKNOWN = -100.0
_REASONS = {
    kernel.FULL: "more n-grams than its header says",
    kernel.NO_CONTEXT: "an n-gram whose first words are not there as a shorter one",
    kernel.BAD_LINE: "a line that is not an n-gram",
    kernel.BAD_NUMBER: "a log probability or backoff that cannot be",
    kernel.UNKNOWN_WORD: "a word that is not among the 1-grams",
    kernel.REPEATED: "a word twice",
}


@dataclass(frozen=True, eq=False)
class NgramModel:
    """An n-gram model. Threads and slots may share it: a binary file is mapped, and read where it is needed.

    Args:
        tables: its tables.
        counts: n-grams of each order.
        multiplier: entries of a table for each n-gram.
    """

    tables: Tables
    counts: tuple[int, ...]
    multiplier: float = _MULTIPLIER

    @property
    def order(self) -> int:
        """Words of the longest n-grams."""
        return len(self.counts)

    @classmethod
    def load(cls, path: str) -> NgramModel:
        """Read an ARPA file, or map a binary one.

        Raises:
            DataError: it cannot be read, or is of another kind.
        """
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == 0:
                    raise ValueError("it is empty")
                data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
            return _mapped(data) if data[: len(_ANY_MAGIC)].tobytes() == _ANY_MAGIC else _parsed(data)
        except (OSError, ValueError) as error:
            raise DataError(f"{path!r} is not an n-gram model of KenLM: {error}") from error

    def scores(self, offsets: Any, data: Any, rows: Any, by_line: bool = False) -> LogScores:
        """Score the texts numbered ``rows``; see `ngram_scores`."""
        return ngram_scores(offsets, data, rows, self.tables, by_line)

    def save(self, path: str) -> None:
        """Write KenLM's binary file with probing tables, which loads at once; of words it has hashes only."""
        header = _header(self.counts, self.multiplier)
        with open(path, "xb") as file:
            file.write(header)
            file.write(self.tables.cells[_header_size(self.order) // 4 :].tobytes())


def split_pieces(pieces: Any, texts: Iterable[bytes]) -> TextColumn:
    """Return texts as the pieces of a SentencePiece model, with a space between them; lines stay lines."""

    def split(text: str) -> bytes:
        return "\n".join(" ".join(line) for line in pieces.encode(text.split("\n"), out_type=str)).encode()

    return column_of(split(text.decode(errors="replace")) for text in texts)


def compile_kernels() -> None:
    """Compile the kernels without a model."""
    text = np.frombuffer(
        b"\\data\\\nngram 1=1\nngram 2=1\n\n\\1-grams:\n-1\ta\n\n\\2-grams:\n-1\ta a\n\n\\end\\\n", np.uint8
    )
    _parsed(text).scores(np.array([0, 2]), text, np.arange(1))


def _header_size(order: int) -> int:
    return -(-(_SANITY.size + _FIXED.size + 8 * order) // 8) * 8


def _header(counts: Sequence[int], multiplier: float) -> bytes:
    fixed = _FIXED.pack(len(counts), multiplier, 0, 0, 0)
    plain = _SANITY.pack(_MAGIC, 0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1) + fixed + struct.pack(f"<{len(counts)}Q", *counts)
    return plain.ljust(_header_size(len(counts)), b"\0")


def _places(counts: Sequence[int], multiplier: float) -> tuple[npt.NDArray[np.int64], int]:
    """First cell and entries of each table, and the number of all cells."""
    order = len(counts)

    def entries(count: int) -> int:
        return max(count + 1, int(np.float32(multiplier) * np.float32(count)))

    sizes = [entries(counts[0]), counts[0] + 1, *map(entries, counts[1:])]
    strides = [3, 2, *[4] * (order - 2), 3]
    at = _header_size(order) // 4 + 2  # the version and the number of words come first
    places = []
    for size, stride in zip(sizes, strides, strict=True):
        places += [at, size]
        at += size * stride
    return np.array(places, np.int64), at


def _inverses(places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    return np.uint64(2**64 - 1) // places[1::2].astype(np.uint64)


def _with_marks(cells: npt.NDArray[np.uint32], places: npt.NDArray[np.int64]) -> Tables:
    cells, places = frozen(cells, np.uint32), frozen(places, np.int64)
    floats, marks = frozen(cells.view(np.float32), np.float32), frozen(np.zeros(2, np.int64), np.int64)
    tables = Tables(cells, floats, places, marks, frozen(_inverses(places), np.uint64))
    marks = np.zeros(2, np.int64)
    names = np.frombuffer(b"<s></s>", np.uint8)
    numbers_of(tables, frozen(np.array([0, 3, 7]), np.int64), frozen(names, np.uint8), marks)
    return tables._replace(marks=frozen(marks, np.int64))


def _mapped(data: npt.NDArray[np.uint8]) -> NgramModel:
    """The model in the bytes of a binary file.

    Raises:
        ValueError: it is damaged, or of another kind.
    """
    if len(data) < _SANITY.size + _FIXED.size:
        raise ValueError("it is truncated")
    start = data[: _SANITY.size].tobytes()
    if start != _SANITY.pack(_MAGIC, 0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1):
        raise ValueError("it is of another version or machine, or was not finished; build it again from its ARPA file")
    order, multiplier, kind, _, version = _FIXED.unpack(data[_SANITY.size : _SANITY.size + _FIXED.size].tobytes())
    if kind != 0:
        name = _KINDS[kind] if 0 < kind < len(_KINDS) else f"kind {kind}"
        raise ValueError(f"it holds a {name} model, not probing tables; build it again with 'build_binary probing'")
    if version != 0 or not 2 <= order <= kernel.LONGEST_ORDER or not 1 <= multiplier < 1000:
        raise ValueError(f"it is of order {order} and version {version}; orders 2 to {kernel.LONGEST_ORDER} are read")
    if len(data) < _header_size(order):
        raise ValueError("it is truncated")
    begin = _SANITY.size + _FIXED.size
    counts = tuple(np.frombuffer(data[begin : begin + 8 * order].tobytes(), np.uint64).tolist())
    if max(counts) > len(data) or counts[0] < 1:
        raise ValueError("its header counts more n-grams than it has room for")
    places, size = _places(counts, multiplier)
    if len(data) < 4 * size:
        raise ValueError(f"it has {len(data)} bytes, and its header says at least {4 * size}")
    return NgramModel(_with_marks(data[: 4 * size].view(np.uint32), places), counts, multiplier)


def _parsed(data: npt.NDArray[np.uint8]) -> NgramModel:
    """The model in the bytes of an ARPA file.

    Raises:
        ValueError: it is none.
    """
    data = frozen(data, np.uint8)
    counts, at = _counts(data)
    places, size = _places(counts, _MULTIPLIER)
    cells = np.zeros(size, np.uint32)
    floats = cells.view(np.float32)
    floats[places[2]] = _MISSING_UNKNOWN
    cells[places[2] + 1] = 0x80000000
    tables = Tables(cells, floats, places, np.zeros(2, np.int64), _inverses(places))
    left = places[1::2].copy()
    left[1] = 1
    for order, count in enumerate(counts, 1):
        at = _section(data, at, order)
        at, line = add_ngrams(tables, left, data, at, (order, count))
        if at < 0:
            text = data[line : line + 80].tobytes().decode(errors="replace").strip().partition("\n")[0]
            raise ValueError(f"it has {_REASONS[at]}, among the {order}-grams at byte {line}: {text!r}")
    cells[_header_size(len(counts)) // 4 + 1] = left[1]
    return NgramModel(_with_marks(cells, places), tuple(counts))


def _line(data: npt.NDArray[np.uint8], at: int) -> tuple[bytes, int]:
    """The line that begins there, without whitespace around it, and where the next one begins."""
    if at >= len(data):
        raise ValueError("it is truncated")
    head = data[at : at + 4096].tobytes()
    stop = head.find(b"\n")
    if stop < 0:
        if at + 4096 < len(data):
            raise ValueError(f"it has a line of more than 4,096 bytes at byte {at}")
        stop = len(head)
    return head[:stop].strip(), at + stop + 1


def _counts(data: npt.NDArray[np.uint8]) -> tuple[list[int], int]:
    line, at = _line(data, 0)
    while not line or line.startswith(b"#"):
        line, at = _line(data, at)
    if line != b"\\data\\":
        raise ValueError(f"it begins with {line[:40].decode(errors='replace')!r}, not with \\data\\")
    counts: list[int] = []
    line, at = _line(data, at)
    while line:
        name, _, number = line.partition(b"=")
        if name.split() != [b"ngram", b"%d" % (len(counts) + 1)] or not number.strip().isdigit():
            raise ValueError(f"it has the line {line[:40].decode(errors='replace')!r} where counts of n-grams belong")
        counts.append(int(number))
        line, at = _line(data, at)
    if not 2 <= len(counts) <= kernel.LONGEST_ORDER:
        raise ValueError(f"it is of order {len(counts)}; orders 2 to {kernel.LONGEST_ORDER} are read")
    if max(counts) > len(data) // _SHORTEST_LINE or counts[0] < 1:
        raise ValueError(f"its header counts {max(counts)} n-grams, and it has {len(data)} bytes")
    return counts, at


def _section(data: npt.NDArray[np.uint8], at: int, order: int) -> int:
    line, at = _line(data, at)
    while not line:
        line, at = _line(data, at)
    if line != b"\\%d-grams:" % order:
        raise ValueError(f"it has {line[:40].decode(errors='replace')!r} where \\{order}-grams: belongs")
    return at

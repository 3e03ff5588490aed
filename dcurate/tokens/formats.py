"""The formats of files of tokens, byte by byte."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import FilePart
from dcurate.frames.columns import table_of, with_lists
from dcurate.fs.stores import Directory
from dcurate.io.parquet_stream import ParquetStream
from dcurate.tokens.content import Flat, Sequences, ShardContent
from dcurate.tokens.layout import Ints

#: Codes of types in the index of Megatron, and in that of litdata (of no_header_numpy).
MEGATRON_CODES = {"uint16": 8, "int32": 4, "int64": 5}
LITDATA_CODES = {"int32": 2, "int64": 3, "uint16": 5, "uint32": 6}
MEGATRON_MAGIC = b"MMIDIDX\x00\x00"


@dataclass
class ShardFiles:
    """The files of one shard.

    Args:
        directory: directory of the output.
        name: name of the shard.
        tokenizer: its name, for formats that keep one.

    Attributes:
        parts: the files that were written.
        digests: of these, by name without folders.
    """

    directory: Directory
    name: str
    tokenizer: str
    parts: list[FilePart] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def writing(self, ending: str, folder: str = "") -> Iterator[BinaryIO]:
        """Open a file of the shard; it appears whole, or not at all."""
        name = f"{folder}{self.name}{ending}"
        with self.directory.writing(name) as file:
            digested = _Digested(file)
            yield cast(BinaryIO, digested)
        self.parts.append(FilePart(self.directory.path(name), size=digested.size))
        self.digests[f"{self.name}{ending}"] = digested.digest.hexdigest()


class _Digested(io.RawIOBase):
    """Writes to another file, from its beginning to its end, and digests what is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = new_digest()
        self.size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        self._file.write(data)
        self.digest.update(data)
        self.size += memoryview(data).nbytes
        return memoryview(data).nbytes


def new_digest() -> Any:
    """Return an empty digest of the kind that is kept of each file."""
    return hashlib.blake2b(digest_size=16)


def _put(file: BinaryIO, array: npt.NDArray[Any]) -> None:
    file.write(np.ascontiguousarray(array).view(np.uint8).data)


def _write_flat(content: ShardContent, file: BinaryIO) -> None:
    for piece in content.flat():
        _put(file, piece.ids)


def _megatron(content: ShardContent, files: ShardFiles) -> None:
    with files.writing(".bin") as file:
        _write_flat(content, file)
    lengths = content.layout.sequences
    size = np.dtype(content.kind).itemsize
    with files.writing(".idx") as file:
        file.write(MEGATRON_MAGIC)
        file.write(struct.pack("<QBQQ", 1, MEGATRON_CODES[content.kind], len(lengths), len(lengths) + 1))
        _put(file, lengths.astype("<i4"))
        _put(file, ((np.cumsum(lengths) - lengths) * size).astype("<i8"))
        _put(file, np.arange(len(lengths) + 1, dtype="<i8"))


def _datatrove(content: ShardContent, files: ShardFiles) -> None:
    with files.writing(".ds") as file:
        _write_flat(content, file)
    with files.writing(".ds.index") as file:
        _put(file, document_ends(content).astype("<u8"))
    tokens = content.layout.tokens
    with files.writing(".ds.metadata") as file:
        file.write(f"{files.tokenizer}|{np.dtype(content.kind).itemsize}\n{tokens}\n{in_words(tokens)}".encode())


def document_ends(content: ShardContent) -> Ints:
    """Where documents, and padding, end in a shard."""
    layout = content.layout
    return np.unique(np.concatenate([layout.position[1:], layout.position + layout.length, [layout.tokens]]))


def in_words(tokens: int) -> str:
    """Return a number of tokens with three digits.

    Examples:
        >>> in_words(12), in_words(1_234_567), in_words(999_999)
        ('12 T', '1.23 MT', '1 MT')
    """
    value, unit = float(tokens), 0
    while unit < 4 and float(f"{value:.3g}") >= 1000:
        value, unit = value / 1000, unit + 1
    return f"{float(f'{value:.3g}'):g} {'' if not unit else ' kMGT'[unit]}T"


def _memmap(content: ShardContent, files: ShardFiles) -> None:
    rows = io.StringIO()
    table = csv.writer(rows)
    layout = content.layout

    def note(piece: Flat) -> None:
        documents = piece.documents
        for place in range(piece.pieces.start, piece.pieces.stop):
            document = int(layout.document[place]) - piece.first
            if documents.doc[document] is None:
                continue
            start = int(layout.position[place])
            table.writerow(
                [
                    start,
                    start + int(layout.length[place]),
                    documents.doc[document],
                    documents.source[document],
                    int(documents.row[document]),
                ]
            )

    with files.writing(".npy") as file:
        for piece in content.flat():
            _put(file, piece.ids)
            note(piece)
    with files.writing(".csv.gz") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.write(rows.getvalue().encode())


def npy_header(kind: str, shape: tuple[int, ...]) -> bytes:
    r"""Return the header of a ``.npy`` file.

    Examples:
        >>> npy_header("uint16", (3,))[:10], len(npy_header("uint16", (3,)))
        (b'\x93NUMPY\x01\x00v\x00', 128)
    """
    header = f"{{'descr': {np.dtype(kind).newbyteorder('<').str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117).encode() + b"\n"


def _npy(content: ShardContent, files: ShardFiles) -> None:
    layout = content.layout
    shape = (layout.tokens,) if content.window is None else (len(layout.sequences), content.window)
    with files.writing(".npy") as file:
        file.write(npy_header(content.kind, shape))
        _write_flat(content, file)


def _with_offsets(file: BinaryIO, sizes: Ints, about: bytes = b"") -> None:
    """Write the beginning of a file of samples: how many, where each begins and the last ends, and a text."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]) + 4 * (len(sizes) + 2) + len(about)
    file.write(struct.pack("<I", len(sizes)))
    _put(file, offsets.astype("<u4"))
    file.write(about)


def _litdata(content: ShardContent, files: ShardFiles) -> None:
    with files.writing(".bin") as file:
        _with_offsets(file, content.layout.sequences * np.dtype(content.kind).itemsize)
        _write_flat(content, file)


def litdata_config(kind: str) -> dict[str, Any]:
    """Return the ``config`` in the index of litdata."""
    return {
        "chunk_bytes": None,
        "chunk_size": None,
        "compression": None,
        "data_format": [f"no_header_numpy:{LITDATA_CODES[kind]}"],
        "data_spec": '[1, {"type": null, "context": null, "children_spec": []}]',
        "encryption": None,
        "item_loader": "TokensLoader",
    }


def mds_columns(kind: str, window: int | None, with_loss: bool) -> dict[str, str]:
    """Return the columns of MDS and the encoding of each, sorted by name."""
    fixed = "" if window is None else f":{window}"
    columns = {"cu_seqlens": "ndarray:int32"} if window is not None else {}
    if with_loss:
        columns["loss"] = f"ndarray:uint8{fixed}"
    return {**columns, "tokens": f"ndarray:{kind}{fixed}"}


def mds_config(kind: str, window: int | None, with_loss: bool) -> dict[str, Any]:
    """Return the configuration in each file of MDS, and in the index."""
    columns = mds_columns(kind, window, with_loss)
    sizes = [_fixed_size(encoding) for encoding in columns.values()]
    return {
        "column_encodings": list(columns.values()),
        "column_names": list(columns),
        "column_sizes": sizes,
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }


def _fixed_size(encoding: str) -> int | None:
    _, kind, *shape = encoding.split(":")
    width: int = np.dtype(kind).itemsize
    return int(shape[0]) * width if shape else None


def _mds(content: ShardContent, files: ShardFiles) -> None:
    config = mds_config(content.kind, content.window, content.with_loss)
    about = json.dumps(config, sort_keys=True).encode()
    boundaries = _boundaries_each(content) if content.window is not None else None
    with files.writing(".mds") as file:
        _with_offsets(file, _mds_sizes(content, boundaries), about)
        number = 0
        for group in content.sequences():
            start = 0
            for length in group.lengths.tolist():
                columns: list[tuple[int | None, npt.NDArray[Any]]] = []
                if boundaries is not None:
                    columns.append((None, boundaries[number].astype("<i4")))
                if group.loss is not None:
                    columns.append((content.window, group.loss[start : start + length]))
                columns.append((content.window, group.ids[start : start + length]))
                values = [_mds_array(array, fixed is not None) for fixed, array in columns]
                variable = [len(v) for v, (fixed, _) in zip(values, columns, strict=True) if fixed is None]
                file.write(b"".join([struct.pack(f"<{len(variable)}I", *variable), *values]))
                start += length
                number += 1


def _mds_array(array: npt.NDArray[Any], fixed: bool) -> bytes:
    if fixed:
        return array.tobytes()
    width = shape_width(len(array))
    return bytes([4 | (width.bit_length() - 1)]) + len(array).to_bytes(width, "little") + array.tobytes()


def _mds_sizes(content: ShardContent, boundaries: list[Ints] | None) -> Ints:
    """Bytes of each sample."""
    lengths = content.layout.sequences
    width = np.dtype(content.kind).itemsize + content.with_loss
    if boundaries is not None:
        extra = np.array([5 + shape_width(len(offsets)) + 4 * len(offsets) for offsets in boundaries], np.int64)
        return lengths * width + extra
    columns = 1 + content.with_loss
    shapes = np.array([shape_width(length) for length in lengths.tolist()], np.int64)
    return lengths * width + columns * (5 + shapes)


def shape_width(length: int) -> int:
    """Return how many bytes hold the length of an array in MDS."""
    return next(width for width in (1, 2, 4, 8) if length < 256**width)


def _boundaries_each(content: ShardContent) -> list[Ints]:
    """The boundaries within each window, from 0 to its length."""
    window = content.window or 1
    boundaries = content.layout.boundaries
    windows = len(content.layout.sequences)
    low = np.searchsorted(boundaries, np.arange(windows) * window)
    high = np.searchsorted(boundaries, (np.arange(windows) + 1) * window, "right")
    return [boundaries[a:b] - number * window for number, (a, b) in enumerate(zip(low, high, strict=True))]


def _parquet(content: ShardContent, files: ShardFiles) -> None:
    boundaries = _boundaries_each(content) if content.window is not None else None
    with files.writing(".parquet") as file:
        stream = ParquetStream(file)
        number = 0
        for group in content.sequences():
            within = None if boundaries is None else boundaries[number : number + len(group.lengths)]
            stream.write(_parquet_table(group, within))
            number += len(group.lengths)
        stream.close({})


def _parquet_table(group: Sequences, boundaries: list[Ints] | None) -> Any:
    bounds = np.concatenate([[0], np.cumsum(group.lengths)])
    table = with_lists(table_of({"length": group.lengths.astype(np.int32)}), "input_ids", bounds, group.ids)
    if group.loss is not None:
        table = with_lists(table, "loss", bounds, group.loss)
    if boundaries is not None:
        ends = np.concatenate([[0], np.cumsum([len(offsets) for offsets in boundaries])])
        table = with_lists(table, "cu_seqlens", ends, np.concatenate(boundaries).astype(np.int32))
    return table


@dataclass(frozen=True)
class TokenFormat:
    """A format.

    Args:
        write: writes the files of a shard.
        endings: endings of these files; the first holds the tokens.
        columns: whether boundaries and losses are columns of it, and not in files beside it.
    """

    write: Callable[[ShardContent, ShardFiles], None]
    endings: tuple[str, ...]
    columns: bool = False


FORMATS: dict[str, TokenFormat] = {
    "megatron": TokenFormat(_megatron, (".bin", ".idx")),
    "ds": TokenFormat(_datatrove, (".ds", ".ds.index", ".ds.metadata")),
    "memmap": TokenFormat(_memmap, (".npy", ".csv.gz")),
    "npy": TokenFormat(_npy, (".npy",)),
    "mds": TokenFormat(_mds, (".mds",), columns=True),
    "litdata": TokenFormat(_litdata, (".bin",)),
    "parquet": TokenFormat(_parquet, (".parquet",), columns=True),
}

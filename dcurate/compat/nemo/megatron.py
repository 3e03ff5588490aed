"""Megatron's files of tokens merged, as `nemo_curator.utils.merge_file_prefixes` does it."""

from __future__ import annotations

import argparse
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: How an index begins: magic bytes and the version.
_HEAD = b"MMIDIDX\x00\x00" + struct.pack("<Q", 1)
#: After that: the code of the tokens' type, the number of sequences and that of document boundaries.
_COUNTS = struct.Struct("<BQQ")
_TYPES: dict[int, type[Any]] = {4: np.int32, 8: np.uint16}

Ints = npt.NDArray[Any]


def extract_index_contents(idx_path: str) -> tuple[Ints, Ints, type[Any]]:
    """The lengths of the sequences, the first sequence of each document (and the last's end), and the tokens' type.

    Raises:
        ValueError: it is not an index of Megatron, or of another version or type.
    """
    data = Path(idx_path).read_bytes()
    if not data.startswith(_HEAD):
        raise ValueError(f"{idx_path} is not an index of Megatron, version 1")
    code, sequences, documents = _COUNTS.unpack_from(data, len(_HEAD))
    if code not in _TYPES:
        raise ValueError(f"{idx_path}: the tokens are of type {code}; expected one of {[*_TYPES]}")
    at = len(_HEAD) + _COUNTS.size
    lengths = np.frombuffer(data, "<i4", sequences, at)
    return lengths, np.frombuffer(data, "<i8", documents, at + 12 * sequences), _TYPES[code]


class IndexedDatasetBuilder:
    """Writes a file of tokens and its index, from others.

    Args:
        bin_path: the file of tokens.
        dtype: their type.
    """

    def __init__(self, bin_path: str, dtype: type[Any] = np.int32) -> None:
        self.data_file = open(bin_path, "wb")  # noqa: SIM115 - closed by `finalize`
        self.dtype = dtype
        self._lengths: list[Ints] = []
        self._documents: list[Ints] = [np.zeros(1, "<i8")]

    def add_index(self, path_prefix: str) -> None:
        """Append the documents of ``path_prefix.bin`` and ``path_prefix.idx``."""
        lengths, documents, dtype = extract_index_contents(f"{path_prefix}.idx")
        if dtype is not self.dtype:
            raise ValueError(f"{path_prefix}.idx: tokens of type {dtype.__name__}, others of {self.dtype.__name__}")
        self._documents.append(documents[1:] + sum(map(len, self._lengths)))
        self._lengths.append(lengths)
        with open(f"{path_prefix}.bin", "rb") as file:
            shutil.copyfileobj(file, self.data_file)

    def finalize(self, idx_path: str) -> None:
        """Write the index."""
        self.data_file.close()
        lengths = np.concatenate([np.zeros(0, "<i4"), *self._lengths])
        documents = np.concatenate(self._documents)
        ends = np.cumsum(lengths, dtype="<i8") * np.dtype(self.dtype).itemsize
        code = next(code for code, kind in _TYPES.items() if kind is self.dtype)
        with open(idx_path, "wb") as file:
            file.write(_HEAD + _COUNTS.pack(code, len(lengths), len(documents)))
            for array in (lengths, np.concatenate([np.zeros(1, "<i8"), ends])[:-1], documents):
                file.write(array.tobytes())


def merge_file_prefixes(input_dir: str, output_prefix: str) -> None:
    """Merge all pairs of ``.bin`` and ``.idx`` files in a folder into one, in the order of their names.

    Raises:
        ValueError: there are none, or one without the other.
    """
    files = {path.name for path in Path(input_dir).iterdir() if path.suffix in (".bin", ".idx") and path.is_file()}
    prefixes = sorted({name[:-4] for name in files})
    if not prefixes:
        raise ValueError(f"no .bin and .idx files in {input_dir}")
    if alone := [name for prefix in prefixes for name in (f"{prefix}.bin", f"{prefix}.idx") if name not in files]:
        raise ValueError(f"{input_dir} has no {', '.join(alone)}")
    paths = [str(Path(input_dir, prefix)) for prefix in prefixes]
    builder = IndexedDatasetBuilder(f"{output_prefix}.bin", extract_index_contents(f"{paths[0]}.idx")[2])
    with builder.data_file:
        for path in paths:
            builder.add_index(path)
    builder.finalize(f"{output_prefix}.idx")


def get_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of the program."""
    parser = argparse.ArgumentParser(description="Merge Megatron's files of tokens.")
    parser.add_argument("--input-dir", required=True, help="folder of .bin and .idx files")
    parser.add_argument("--output-prefix", required=True, help="path of the merged files, without an ending")
    return parser.parse_args(args)


def main(args: Sequence[str] | None = None) -> None:
    """Merge the files in a folder."""
    options = get_args(args)
    merge_file_prefixes(options.input_dir, options.output_prefix)

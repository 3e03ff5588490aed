"""Large files split into smaller ones, as `nemo_curator.utils.split_large_files` does it."""

from __future__ import annotations

import argparse
import json
import logging
import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs

from dcurate.compat.nemo.files import get_all_file_paths_under
from dcurate.io.parquet_int96 import ALL_YEARS, int96_columns, unit_for

_log = logging.getLogger("dcurate.compat.nemo")

MIB = 1 << 20
Part = TypeVar("Part")


def _as_remote(function: Callable[..., None]) -> Any:
    """Give a function the form that Ray gives it: ``function.remote(...)`` runs it, here in this process.

    In a script that imports Ray the result is an ``ObjectRef``, as `ray.get` takes no other.
    """

    def remote(*args: Any, **settings: Any) -> Any:
        function(*args, **settings)
        ray = sys.modules.get("ray")
        return None if ray is None else ray.put(None)

    vars(function).update(remote=remote, _function=function)
    return function


def _output(input_file: str, output_path: str, ending: str) -> Iterator[str]:
    """Yield names for the parts of a file."""
    name, own_ending = posixpath.splitext(posixpath.basename(str(input_file)))
    number = 0
    while True:
        yield f"{str(output_path).rstrip('/')}/{name}_{number}{own_ending or ending}"
        number += 1


def _groups(parts: Iterable[Part], size: Callable[[Part], int], most: float) -> Iterator[list[Part]]:
    """Yield parts that follow one another, of at most a size together, or one that is larger."""
    group: list[Part] = []
    together = 0
    for part in parts:
        part_size = size(part)
        if group and together + part_size > most:
            yield group
            group, together = [], 0
        group.append(part)
        together += part_size
    if group:
        yield group


def _halved(table: pa.Table, most: float) -> Iterator[pa.Table]:
    """Yield a table in halves of halves, of at most a size or of one row."""
    if table.nbytes <= most or table.num_rows < 2:
        yield table
        return
    half = table.num_rows // 2
    yield from _halved(table.slice(0, half), most)
    yield from _halved(table.slice(half), most)


@_as_remote
def split_parquet_file_by_size(
    input_file: str, output_path: str, target_size_mb: float, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Split a Parquet file into files ``NAME_0.parquet``, ``NAME_1.parquet`` and so on, with its rows in their order.

    Args:
        input_file: the file.
        output_path: the folder of the smaller files, which must exist.
        target_size_mb: size that a file has at most in memory, in MiB, unless one row is larger.
        storage_options: for fsspec.

    Raises:
        DataError: no unit of timestamps holds those of 96 bits.
    """
    most = target_size_mb * MIB
    options = dict(storage_options or {})
    with fsspec.open(str(input_file), "rb", **options) as file:
        groups = pq.ParquetFile(file)
        moments = int96_columns(groups.metadata, groups.schema_arrow.names)
        if moments:
            coarse = pq.ParquetFile(file, **ALL_YEARS).read(moments)
            groups = pq.ParquetFile(file, **unit_for(groups.read(moments), coarse, str(input_file)))
        tables = (
            part for group in range(groups.num_row_groups) for part in _halved(groups.read_row_group(group), most)
        )
        parts = _groups(tables, lambda table: int(table.nbytes), most)
        for name, tables_of_part in zip(_output(input_file, output_path, ".parquet"), parts, strict=False):
            with fsspec.open(name, "wb", **options) as out:
                pq.write_table(pa.concat_tables(tables_of_part), out)


@_as_remote
def split_jsonl_file_by_size(
    input_file: str, output_path: str, target_size_mb: float, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Split a JSONL file into files ``NAME_0.jsonl``, ``NAME_1.jsonl`` and so on, with its lines in their order.

    Args:
        input_file: the file.
        output_path: the folder of the smaller files, which must exist.
        target_size_mb: size that a file has at most, in MiB, unless one line is longer.
        storage_options: for fsspec.
    """
    options = dict(storage_options or {})
    with fsspec.open(str(input_file), "rb", **options) as file:
        parts = _groups(file, len, target_size_mb * MIB)
        for name, lines in zip(_output(input_file, output_path, ".jsonl"), parts, strict=False):
            with fsspec.open(name, "wb", **options) as out:
                out.writelines(lines)


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of the program."""
    parser = argparse.ArgumentParser(description="Split large files into smaller ones.")
    parser.add_argument("--input-path", required=True, help="file or folder of files to split")
    parser.add_argument("--file-type", required=True, choices=["parquet", "jsonl"], help="type of the files")
    parser.add_argument("--output-path", required=True, help="folder of the smaller files")
    parser.add_argument("--target-size-mb", type=int, default=128, help="size of a file, in MiB")
    parser.add_argument("--storage-options", type=json.loads, help="options of fsspec, as a JSON object")
    return parser.parse_args(args)


def main(args: Sequence[str] | None = None) -> None:
    """Split a file, or the files in a folder."""
    options = parse_args(args)
    files = get_all_file_paths_under(
        options.input_path, keep_extensions=options.file_type, storage_options=options.storage_options
    )
    if not files:
        _log.error("no %s files at %s", options.file_type, options.input_path)
        return
    fs, folder = url_to_fs(options.output_path, **(options.storage_options or {}))
    fs.makedirs(folder, exist_ok=True)
    split = split_parquet_file_by_size if options.file_type == "parquet" else split_jsonl_file_by_size
    for file in files:
        split(file, options.output_path, options.target_size_mb, options.storage_options)

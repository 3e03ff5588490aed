"""Take samples out of the shards that `dcurate.WebDatasetWriter` wrote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.errors import DataError
from dcurate.fs.compression import blocks, ending_of, packing
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory
from dcurate.io.parquet_stream import opened_parquet
from dcurate.io.row_removal import write_without
from dcurate.media import tar
from dcurate.media.names import sample_of
from dcurate.media.samples import KEY
from dcurate.media.tar import BLOCK
from dcurate.media.webdataset_writer import end_of_archive

#: Columns that name the sample of a row, the first that has a value first.
_NAMES = ("member", KEY, "file_name")


def is_shard(name: str) -> bool:
    """Whether a file of this name is a shard of WebDataset, plain or compressed.

    Examples:
        >>> is_shard("a.tar"), is_shard("a.tar.gz"), is_shard("a.parquet")
        (True, True, False)
    """
    return name[: len(name) - len(ending_of(name))].endswith(".tar")


def shards_beside(names: Collection[str]) -> dict[str, str]:
    """Return the shards among files, by the name of the table that is beside each.

    Examples:
        >>> shards_beside(["a.tar.gz", "a.parquet", "b.parquet", "c.tar"])
        {'a.parquet': 'a.tar.gz'}
    """
    known = set(names)
    shards = {name: f"{name[: len(name) - len(ending_of(name))].removesuffix('.tar')}.parquet" for name in known}
    tars = set(filter(is_shard, known))
    return {table: shard for shard, table in sorted(shards.items()) if shard in tars and table in known}


def write_shard_without(directory: Directory, table: str, shard: str, rows: Collection[int], staged: Directory) -> int:
    """Write a shard and its table again under their names in another directory, without some samples.

    The members of the others stay as they are, to the byte.

    Args:
        table: name of the table beside the shard, whose rows are its samples.
        rows: numbers of rows of samples to leave out.

    Returns:
        The bytes that were written.

    Raises:
        DataError: the shard or its table cannot be read, or one does not go with the other.
    """
    keys = _keys(directory, table)
    missing = next((row for row in sorted(rows) if keys[row] is None), None)
    if missing is not None:
        raise DataError(f"{directory.path(table)!r}, row {missing}, does not name a sample; write the shard again")
    gone = {keys[row] for row in rows}
    stretches = list(stretches_of(directory, shard))
    in_shard = {stretch.key for stretch in stretches}
    if gone - in_shard and in_shard - set(keys):  # else the sample has no members
        raise DataError(f"{directory.path(shard)!r} has samples that its table does not name; write the shard again")
    removed = [stretch for stretch in stretches if stretch.key in gone]
    written = copy_stretches(directory, shard, [stretch for stretch in stretches if stretch.key not in gone], staged)
    return written + write_without(
        directory, table, dict.fromkeys(rows, b""), staged, lambda kept: _moved(kept, removed)
    )


class MemberStretch(NamedTuple):
    """The bytes of a member with its headers, in the unpacked archive, and the key of its sample.

    Args:
        begin, end: its first byte, and one past its last.
        key: key of its sample.
        suffix: what follows the key.
        content: content, where it was asked for.
    """

    begin: int
    end: int
    key: str
    suffix: str = ""
    content: bytes | None = None


def _keys(directory: Directory, table: str) -> list[str | None]:
    """The key of the sample of each row, as its members are named."""
    with opened_parquet(directory, table) as file:
        names = [name for name in _NAMES if name in file.schema_arrow.names]
        about = file.read(columns=names, use_threads=False)
    columns = [about[name].to_pylist() if name in names else [None] * about.num_rows for name in _NAMES]
    return [
        key if member is None and key is not None else sample_of(member or name)[0] if member or name else None
        for member, key, name in zip(*columns, strict=True)
    ]


def stretches_of(
    directory: Directory, shard: str, wants: Callable[[str, int], bool] = lambda suffix, size: False
) -> Iterator[MemberStretch]:
    """Yield the members of a shard.

    Args:
        wants: whether the content of a file of this suffix and size is read.

    Raises:
        DataError: the shard cannot be read.
    """
    store, path = open_store(directory.path(shard), directory.options)
    with storage_errors("read", directory.path(shard)), tar.opened(store, path, int(store.size(path))) as window:
        for member in tar.walk(window, wants=lambda name, size: wants(sample_of(name)[1], size)):
            if not isinstance(member, tar.Member) or member.held < member.size:
                raise DataError(f"{directory.path(shard)!r} is damaged; put it back from a copy, or delete it")
            end = member.offset + -(-member.size // BLOCK) * BLOCK
            yield MemberStretch(member.begin, end, *sample_of(member.name), member.content)


def copy_stretches(directory: Directory, shard: str, kept: Sequence[MemberStretch], staged: Directory) -> int:
    """Write an archive of these members; return its bytes."""
    path, ending = directory.path(shard), ending_of(shard)
    store, place = open_store(path, directory.options)
    stretches, at, written = iter(kept), 0, 0
    stretch = next(stretches, None)
    with storage_errors("read", path), store.open(place, "rb") as source, staged.writing(shard) as file:
        with packing(file, ending) as packed:
            for block in blocks(source, ending, path):
                while stretch is not None and stretch.begin < at + len(block):
                    piece = block[max(0, stretch.begin - at) : stretch.end - at]
                    packed.write(piece)
                    written += len(piece)
                    if stretch.end > at + len(block):
                        break
                    stretch = next(stretches, None)
                at += len(block)
            packed.write(end_of_archive(written))
        return file.tell()


def _moved(rows: pa.Table, removed: Sequence[MemberStretch]) -> pa.Table:
    """The rows with the places of their files after members before them were removed."""
    begins = np.array([stretch.begin for stretch in removed], np.int64)
    before: npt.NDArray[np.int64] = np.concatenate(
        [[0], np.cumsum([stretch.end - stretch.begin for stretch in removed])]
    )
    offsets = rows["offset"].to_pylist()
    moved = [None if at is None else at - int(before[begins.searchsorted(at)]) for at in offsets]
    place = rows.schema.get_field_index("offset")
    return rows.set_column(place, rows.schema.field(place), pa.array(moved, pa.int64()))

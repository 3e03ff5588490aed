"""From files to splits: whole files, parts of large ones, groups of small ones, under names that stay."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.errors import PipelineError
from dcurate.io.files import SourceFile

#: A file larger than this is cut when nothing else is asked for.
LARGE = 128 * 2**20

#: A file counts as this many bytes at least when small ones are packed: opening a file on a disk takes as
#: long as reading this much, in a store longer. By size alone the smallest files would all be one split.
LEAST = 2**16

#: From `MANY` files of less than `SMALL` bytes on average, files are packed to `PACKED` bytes when nothing else is
#: asked for: a split costs several times what reading the file does. At most 16 are packed, so that many splits stay.
MANY, SMALL, PACKED = 1000, 2**18, 2**20

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt]i?)b?|b)?", re.IGNORECASE)

#: Gives the bounds of the parts of about that many bytes that a file is best cut into: ``[0, ..., end]``.
Cutter = Callable[[SourceFile, int], list[int]]


def parse_bytes(size: int | str, what: str = "blocksize") -> int:
    """A number of bytes.

    Examples:
        >>> parse_bytes("128MiB"), parse_bytes("1.5 GB"), parse_bytes(4096)
        (134217728, 1500000000, 4096)

    Raises:
        PipelineError: not a size, or none above zero.
    """
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if match:
        size = int(float(match[1]) * _UNITS[(match[2] or "").lower()])
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise PipelineError(f"{what}={size!r} is not a size; give bytes, or text such as '128MiB' or '1GB'")
    return size


@dataclass(frozen=True)
class Partitioning:
    """How to group or cut files into splits.

    Args:
        files_per_partition: number of files in a split, in path order.
        blocksize: larger files are cut to about this size, smaller ones packed up to it in path order, each as 64 KiB
            at least.
        large: with neither, each file is a split; larger files that can be cut are cut. 1,000 files or more of less
            than 256 KiB on average are packed to 1 MiB, each as 64 KiB at least; ``files_per_partition=1`` keeps a
            split for each.
        packs_small: False if small files are packed only when it is asked for.

    Raises:
        PipelineError: both are given, or one is no positive number.
    """

    files_per_partition: int | None = None
    blocksize: int | str | None = None
    large: int = LARGE
    packs_small: bool = True

    def __post_init__(self) -> None:
        number = self.files_per_partition
        if number is not None and self.blocksize is not None:
            raise PipelineError(
                f"files_per_partition={number} and blocksize={self.blocksize!r} both say how large a split is; "
                f"give one of them"
            )
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise PipelineError(f"files_per_partition={number!r} must be a whole number of at least 1")
        if self.blocksize is not None:
            parse_bytes(self.blocksize)

    @property
    def nbytes(self) -> int | None:
        """The blocksize in bytes, if given."""
        return None if self.blocksize is None else parse_bytes(self.blocksize)

    def advice(self, files: Sequence[SourceFile]) -> str:
        """A sentence that says that many small files are packed; empty if they are not, or it was asked for."""
        if not self._packs(files):
            return ""
        mean = sum(file.size for file in files) / len(files)
        size = f"{mean / 1000:,.1f} kB" if mean >= 1000 else f"{mean:.0f} bytes"
        return (
            f"{len(files):,} files of {size} on average are packed, up to {PACKED // LEAST} a split; "
            "blocksize='32MiB' packs more, which takes less time and writes fewer files, and files_per_partition=1 "
            "writes a file for each"
        )

    def _packs(self, files: Sequence[SourceFile]) -> bool:
        """Whether files are packed though nobody asked for it, as they are many and small."""
        asked_for = self.nbytes is not None or self.files_per_partition is not None or not self.packs_small
        return not asked_for and len(files) >= MANY and sum(file.size for file in files) < SMALL * len(files)

    def splits(self, files: Sequence[SourceFile], cut: Cutter, limit: int | None = None) -> Iterator[FileGroup]:
        """The splits of the files, in path order, under names that follow from the names of the files."""
        return islice(self._splits(files, cut, PACKED if self._packs(files) else self.nbytes), limit)

    def _splits(self, files: Sequence[SourceFile], cut: Cutter, packed: int | None) -> Iterator[FileGroup]:
        target = self.nbytes or self.large
        group: list[SourceFile] = []
        held = 0
        for file in files:
            bounds = [] if self.files_per_partition else cut(file, target) if file.size > target else []
            if len(bounds) > 2:
                yield from _group(group)
                group, held = [], 0
                yield from _parts(file, bounds)
                continue
            counted = max(file.size, LEAST)
            if group and (held + counted > packed if packed else len(group) >= (self.files_per_partition or 1)):
                yield from _group(group)
                group, held = [], 0
            group.append(file)
            held += counted
        yield from _group(group)


def _parts(file: SourceFile, bounds: list[int]) -> Iterator[FileGroup]:
    for number, (start, stop) in enumerate(pairwise(bounds)):
        share = file.size * (stop - start) // bounds[-1]
        part = FilePart(file.path, start, stop, file.size, file.version, share)
        yield FileGroup(key=BatchKey(f"{file.name}@{number:05d}"), parts=(part,))


def _group(files: list[SourceFile]) -> Iterator[FileGroup]:
    if files:
        parts = tuple(FilePart(file.path, size=file.size, version=file.version) for file in files)
        yield FileGroup(key=BatchKey(group_name([file.name for file in files])), parts=parts)


def group_name(names: list[str]) -> str:
    """The name of a group: its first file, how many more there are, and a digest of all names.

    Examples:
        >>> group_name(["a.jsonl"]), group_name(["a.jsonl", "b.jsonl"])
        ('a.jsonl', 'a.jsonl+1-7fe60755')
    """
    if len(names) == 1:
        return names[0]
    digest = hashlib.blake2b("\n".join(names).encode(errors="surrogateescape"), digest_size=4).hexdigest()
    return f"{names[0]}+{len(names) - 1}-{digest}"

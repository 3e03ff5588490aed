"""Generated ids of documents: they are valid for the same files, cut into the same splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from dcurate.errors import DataError, PipelineError, listed
from dcurate.fs.stores import Directory
from dcurate.workflows.files import DocumentFiles


@dataclass(frozen=True)
class MadeIds:
    """The files for which ids were generated, and how they were cut into splits.

    Args:
        filetype: format of the files.
        blocksize: bytes of a split, if given.
        files_per_partition: files of a split, if given.
        files: bytes of each file, by its name below the directory that was read.
    """

    filetype: str
    blocksize: int | None
    files_per_partition: int | None
    files: Mapping[str, int]

    @classmethod
    def of(cls, source: DocumentFiles) -> MadeIds:
        """Record the files of a source."""
        return cls(source.filetype, source.block_bytes, source.files_per_partition, source.sizes())

    def write(self, path: str, storage_options: Mapping[str, Any]) -> None:
        """Write it to a file."""
        folder, _, name = path.rpartition("/")
        Directory(folder, storage_options).write(name, orjson.dumps(vars(self), option=orjson.OPT_INDENT_2))

    @classmethod
    def read(cls, path: str, storage_options: Mapping[str, Any]) -> MadeIds:
        """Read it from a file.

        Raises:
            DataError: it does not exist, or has another format.
        """
        folder, _, name = path.rpartition("/")
        data = Directory(folder or ".", storage_options).read(name)
        if data is None:
            raise DataError(f"{path!r} does not exist; name the file that the workflow which made the ids has written")
        try:
            return cls(**orjson.loads(data))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise DataError(
                f"{path!r} does not say how dcurate made ids; name the file that its workflow has written, "
                "and find duplicates again if NeMo Curator found them"
            ) from error

    def source(self, source: DocumentFiles) -> DocumentFiles:
        """The source, cut into the same splits; settings that were not given are filled in.

        Raises:
            PipelineError: the files or the given settings differ.
        """
        for name in ("filetype", "blocksize", "files_per_partition"):
            before, now = getattr(self, name), source.block_bytes if name == "blocksize" else getattr(source, name)
            if now is not None and now != before:
                raise PipelineError(
                    f"ids were made with input_{name}={before!r}, not {now!r}, and would be others; leave it out, or "
                    "find duplicates again"
                )
        _check_files(self.files, source.sizes())
        return replace(source, blocksize=self.blocksize, files_per_partition=self.files_per_partition)


def _check_files(before: Mapping[str, int], now: Mapping[str, int]) -> None:
    changes = {
        "new": [name for name in now if name not in before],
        "gone": [name for name in before if name not in now],
        "of another size": [name for name in now if name in before and now[name] != before[name]],
    }
    for how, names in changes.items():
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise PipelineError(
                f"ids were made for other files: {listed(names[:3])}{more} {'are' if len(names) > 1 else 'is'} {how}; "
                "remove duplicates from the files in which they were found, or find them again"
            )

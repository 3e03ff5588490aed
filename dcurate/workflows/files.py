"""The files that workflows read and write."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from dcurate.core.secrets import HidesSecrets
from dcurate.errors import PipelineError, listed, nearest
from dcurate.io.files import JSONL, PARQUET, Format, list_files
from dcurate.io.jsonl_reader import JsonlReader
from dcurate.io.jsonl_writer import JsonlWriter
from dcurate.io.output import Mode
from dcurate.io.parquet_reader import ParquetReader
from dcurate.io.parquet_writer import ParquetWriter
from dcurate.io.partition import parse_bytes

FileType: TypeAlias = Literal["parquet", "jsonl"]

_FORMATS = {"parquet": PARQUET, "jsonl": JSONL}
_log = logging.getLogger("dcurate.workflows")


@dataclass(frozen=True)
class DocumentFiles(HidesSecrets):
    """Documents in files.

    Args:
        path: files, directories or globs.
        filetype: ``"parquet"`` or ``"jsonl"``.
        blocksize, files_per_partition, limit: settings of the splits, as in `ParquetReader`.
        extensions: extensions of the files, if they differ from those of the format.
        read_kwargs: for the reader, with ``storage_options``.

    Raises:
        PipelineError: no path, or no such format.
    """

    path: str | list[str] | None
    filetype: str = "parquet"
    blocksize: int | str | None = None
    files_per_partition: int | None = None
    extensions: list[str] | None = None
    read_kwargs: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None

    def __post_init__(self) -> None:
        check_filetype(self.filetype, "input_filetype")
        if self.path is None:
            raise PipelineError("input_path is missing; name the files, directories or globs to read")

    def reader(self, fields: list[str] | None = None) -> ParquetReader | JsonlReader:
        """The stage that reads them, or some of their columns."""
        make = ParquetReader if self.filetype == "parquet" else JsonlReader
        reader = make(
            self._paths(),
            files_per_partition=self.files_per_partition,
            blocksize=self.blocksize,
            fields=fields,
            read_kwargs=dict(self.read_kwargs),
        )
        reader._most_splits = self.limit
        return reader

    def sizes(self) -> dict[str, int]:
        """The files by name, and their bytes."""
        files = list_files(self._paths(), _FORMATS[self.filetype], self.read_kwargs.get("storage_options"))
        return {file.name: file.size for file in files}

    @property
    def block_bytes(self) -> int | None:
        """Bytes of a split; None for the reader's default."""
        return None if self.blocksize is None else parse_bytes(self.blocksize)

    def _paths(self) -> str | list[str]:
        assert self.path is not None
        if not self.extensions:
            return self.path
        kind = Format(_FORMATS[self.filetype].name, tuple(self.extensions), compressed=False)
        return [file.path for file in list_files(self.path, kind, self.read_kwargs.get("storage_options"))]


def writer(
    path: str,
    filetype: str,
    write_kwargs: Mapping[str, Any] | None,
    mode: Mode = "error",
    fields: list[str] | None = None,
) -> ParquetWriter | JsonlWriter:
    """The stage that writes files of a format.

    Raises:
        PipelineError: no such format.
    """
    check_filetype(filetype, "output_filetype")
    make = ParquetWriter if filetype == "parquet" else JsonlWriter
    kwargs = dict(write_kwargs or {})
    return make(
        path, storage_options=kwargs.pop("storage_options", None), write_kwargs=kwargs, mode=mode, fields=fields
    )


def check_filetype(filetype: str, argument: str) -> None:
    """Refuse an unknown format.

    Raises:
        PipelineError: it is not valid.
    """
    if filetype not in _FORMATS:
        raise PipelineError(f"{argument}={filetype!r} is not a format{nearest(str(filetype), list(_FORMATS))}")


def check_extension(extension: str | None, filetype: str) -> None:
    """Refuse an ending of file names that is not that of the format.

    Raises:
        PipelineError: they differ.
    """
    if extension is not None and extension.lstrip(".") != filetype:
        raise PipelineError(
            f"output_file_extension={extension!r}: files of {filetype} end in .{filetype}; leave it out"
        )


def warn_unused(workflow: Any, *arguments: str) -> None:
    """Log which of these arguments of NeMo Curator, which have no effect here, differ from their defaults.

    Args:
        workflow: a dataclass.
        arguments: names of its fields.
    """
    defaults = {argument.name: argument.default for argument in fields(workflow)}
    changed = [name for name in arguments if getattr(workflow, name) != defaults[name]]
    if changed:
        _log.warning("%s ignores arguments of NeMo Curator: %s", type(workflow).__name__, listed(changed))


def joined(folder: str, name: str) -> str:
    """The path of a name in a folder."""
    return f"{folder.rstrip('/')}/{name}"

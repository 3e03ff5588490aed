"""Checks of where a run writes, before it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dcurate.core.batch import Batch, BatchKey
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError, PipelineError
from dcurate.fs.paths import without_links
from dcurate.fs.stores import Directory
from dcurate.io.sink import FileWriter
from dcurate.redaction import without_secrets


def check_rejected(rejected: str, name: str, output: Directory, *, proof: bool = False) -> None:
    """Refuse a folder for rejected rows in which files of the output or of its records have the same names.

    Args:
        rejected: address of the folder.
        name: the folder as a person named it.
        output: the output, with the records of the run.
        proof: whether all rows in the output are proved, so that there must not be others.

    Raises:
        PipelineError: the folder is the output, or within its records; or within the output of a proof.
    """
    folder, address = rejected.rstrip("/"), output.address.rstrip("/")
    if folder == address or f"{folder}/".startswith(f"{output.records.rstrip('/')}/"):
        raise PipelineError(f"rejected={name!r} is where the output or records of the run are; name another folder")
    if proof and folder.startswith(f"{address}/"):
        raise PipelineError(
            f"rejected={name!r} is in the output, and proof=True is of all rows there; name a folder outside of it"
        )


def check_apart(
    source: SourceStage[Any, Any],
    sink: FileWriter,
    output: Directory,
    splits: Callable[[], Sequence[Batch]],
    resumes: Callable[[], bool],
) -> None:
    """Refuse an output that is read as input by the next run, or deleted as output before it is read.

    Args:
        source: first stage of the pipeline.
        sink: last stage of the pipeline.
        output: the output.
        splits: lists the splits of the input; called only where it has to be.
        resumes: function that returns whether the run goes on with an earlier one; called only where needed.

    Raises:
        DataError: an input file is in the output directory, or new files of the output are input.
    """
    folder = without_links(output.address).rstrip("/")
    roots = [without_links(root).rstrip("/") for root in source.roots()]
    replaces = sink.mode == "overwrite"
    nested = any(_nested(root, folder) for root in roots)
    if replaces and sink.replaces_files and nested and not resumes():
        for path in (part.path for split in splits() for part in getattr(split, "parts", ())):
            if without_links(path).startswith(f"{folder}/"):
                raise DataError(
                    f"the input file {without_secrets(path)!r} is in the output directory {without_secrets(folder)!r}, "
                    "so a run would delete it before it is read; write to a directory that the reader does not read"
                )
    if replaces and not sink.replaces_files and folder in roots:
        return  # a table from an earlier version of it
    _check_not_read(source, folder, sink.sample_paths(BatchKey("new")), "the output")
    for split in splits() if nested else ():  # names of files begin as those that they were read from
        _check_not_read(source, folder, sink.sample_paths(split.key or BatchKey("new")), "the output")


def check_rejected_apart(source: SourceStage[Any, Any], rejected: str, name: str, storage: Mapping[str, Any]) -> None:
    """Refuse a folder for rejected rows that the next run reads as input.

    Args:
        source: first stage of the pipeline.
        rejected: address of the folder.
        name: the folder as a person named it.
        storage: ``storage_options`` of the folder.

    Raises:
        DataError: new files there are input.
    """
    directory = Directory(rejected, storage)
    _check_not_read(source, rejected.rstrip("/"), [directory.path("new.jsonl")], f"rejected={name!r}")


def _check_not_read(source: SourceStage[Any, Any], folder: str, new_files: Sequence[str], what: str) -> None:
    if any(map(source.reads, new_files)):
        raise DataError(
            f"the reader reads {without_secrets(folder)!r}, where {what} goes, so the next run would read what this "
            "one writes; write to a folder outside of the input, or to one in it whose name begins with '_'"
        )


def _nested(path: str, folder: str) -> bool:
    """Whether one of two folders is the other, or is in it."""
    return f"{path}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/")

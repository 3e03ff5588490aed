"""Checks of where a run writes, before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dcurate.core.batch import Batch
from dcurate.core.stage import Stage
from dcurate.errors import DataError, PipelineError
from dcurate.fs.paths import without_links
from dcurate.fs.stores import Directory
from dcurate.io.sink import FileWriter
from dcurate.io.source import FileReader
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
    source: Stage,
    sink: Stage,
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
        DataError: an input file is in the output directory.
    """
    if not isinstance(source, FileReader) or not isinstance(sink, FileWriter):
        return
    folder = f"{without_links(output.address).rstrip('/')}/"
    deletes = sink.mode == "overwrite" and sink.replaces_files and not resumes()
    if deletes:
        risky = any(f"{root}/".startswith(folder) for root in source.roots())
    else:
        risky = any(map(source.reads, sink.sample_paths()))
    paths = (part.path for split in (splits() if risky else ()) for part in getattr(split, "parts", ()))
    inside = next((path for path in paths if without_links(path).startswith(folder)), None)
    if inside is not None:
        consequence = "would delete it before it is read" if deletes else "would read what the last one wrote"
        raise DataError(
            f"the input file {without_secrets(inside)!r} is in the output directory {without_secrets(folder)!r}, "
            f"so a run {consequence}; write to a directory that the reader does not read"
        )

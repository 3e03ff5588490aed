"""Look at the first rows of files in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcurate.core.stage import SourceStage, Stage
from dcurate.errors import PipelineError, shown
from dcurate.io.document_reader import DocumentReader
from dcurate.io.files import as_list
from dcurate.run import Pipeline
from dcurate.runs.preview import Preview


def peek(
    source: str | Sequence[str] | SourceStage[Any, Any],
    n: int = 5,
    *,
    fields: list[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    delimiter: str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Preview:
    r"""Return the first rows of a corpus and their schema, in about a second whatever its size.

    Only these rows are read, and the heads of a few other files for their types. Lines that cannot be read are left
    out, unless there are no others.

    Args:
        source: files, directories or globs of JSON Lines, Parquet and CSV, local or URLs; or a reader.
        n: number of rows.
        fields: the columns to read, in this order; all by default. Not for a reader, which has its own.
        schema: types of columns by name where files differ, such as ``{"id": "string"}``. Not for a reader.
        delimiter: one character between values of CSV files; a comma by default. Not for a reader.
        storage_options: storage options for fsspec.

    Raises:
        PipelineError: ``n`` is below 1, or ``fields``, ``schema`` or ``delimiter`` are given with a reader.
        DataError: there is nothing to read, or it cannot be read.

    Examples:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        ...     _ = file.write('{"text": "one", "n": 1}\n{"text": "two", "n": 2}\n')
        ...     file.flush()
        ...     peek(file.name, 1)
        text: string
        n: int64
        <BLANKLINE>
          text  n
        0  one  1
        <BLANKLINE>
        1 row, from the first 1 of the input
    """
    if isinstance(source, Stage):
        for name, value in (("fields", fields), ("schema", schema), ("delimiter", delimiter)):
            if value is not None:
                raise PipelineError(f"peek: {name}={value!r} has no effect on a reader; give it to {source.name!r}")
        return Pipeline("peek", stages=[source]).head(n)
    if not isinstance(source, str | Path | list | tuple):
        raise PipelineError(f"peek: {shown(source)} is neither a path, a list of paths nor a reader; give one of these")
    paths = as_list([str(source)] if isinstance(source, str | Path) else list(source))
    reader = DocumentReader(
        paths,
        fields=fields,
        schema=schema,
        on_bad_line="quarantine",
        storage_options=storage_options,
        delimiter=delimiter,
    )
    preview = Pipeline("peek", stages=[reader]).head(n)
    if preview.rows_read and not len(preview):  # which says why no line can be read
        return Pipeline("peek", stages=[replace(reader, on_bad_line="raise")]).head(n)
    return preview


__all__ = ["peek"]

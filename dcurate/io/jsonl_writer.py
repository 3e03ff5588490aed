"""Write JSON Lines: a row a line, each a JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import BatchKey, FilePart
from dcurate.errors import DataError
from dcurate.frames.columns import floats_in
from dcurate.fs.compression import ending_for, packing
from dcurate.io.json_write import EndedPiece, JsonForm, ended
from dcurate.io.jsonl_reader import PANDAS, refuse_others
from dcurate.io.proof import keep_rows, lines_to_prove
from dcurate.io.sink import FileWriter, lines_of_files
from dcurate.rows.lines import without_lines


@dataclass
class JsonlWriter(FileWriter):
    """Write JSON Lines: UTF-8, a row a line.

    A row that was read from a line of JSON is written from it, with what stages changed; others with null for null.
    NaN and infinite numbers become null, too, as JSON has neither; the report counts the infinite ones.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches. It is also a
            directory where it is named like a file, such as ``"out.jsonl"``; a notice says so.
        write_kwargs: for pipelines written for pandas: ``lines=True``, ``orient="records"``,
            ``force_ascii=False`` and ``storage_options`` are taken, all else is refused.
        fields: the columns to write, in this order; all by default.
        mode: what to do about existing files: ``"error"`` refuses, ``"overwrite"`` deletes what an earlier
            run wrote, ``"ignore"`` writes beside them and replaces those of equal name, ``"append"`` leaves
            them all and writes under new names.
        compression: ``"gzip"``, ``"zstd"``, ``"bz2"`` or ``"xz"``; plain if None.
        max_rows_per_file: split larger batches into several files.
        max_bytes_per_file: the same by bytes of text, before compression; a row is never cut.
        storage_options: for fsspec.
        label: with ``mode="append"``, a name of the rows, such as ``"2026-11-28"``: when a later run with the same
            label ends, its rows have replaced these, and those of other labels stay.
        separate_by: a column; rows of each of its values go to a folder of their own, such as ``en/``;
            null in ``%null/``. The column is written with the others, unless ``fields`` leaves it out.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one", "two"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("write", stages=[JsonlWriter(folder.name)])
        >>> [files] = pipeline.run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> pd.read_json(files.data[0], lines=True).text.tolist()
        ['one', 'two']
        >>> folder.cleanup()
    """

    name: str = "jsonl_writer"
    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    takes_label: ClassVar[bool] = True
    writes_without_rows: ClassVar[bool] = True

    @property
    def has_columns_in_files(self) -> bool:
        return False

    @property
    def _suffix(self) -> str:
        return f".jsonl{ending_for(self.compression)}"

    def _put_without_rows(self, table: pa.Table | None, file: BinaryIO) -> None:
        with packing(file, ending_for(self.compression)):
            pass

    def columns_read(self) -> list[str] | None:
        """None to write, as rows have them in their lines; any if some are left out."""
        return self.inputs()[1] if self.fields is None else None

    @property
    def _form(self) -> JsonForm:
        """How a row becomes a line; writers made of this one take it, too."""
        return JsonForm()

    def __post_init__(self) -> None:
        ending_for(self.compression)
        taken = {**PANDAS, "force_ascii": False}
        refuse_others(self.name, "write_kwargs", self._writing(), taken, "fields= for columns and compression=")
        super().__post_init__()

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        _check(without_lines(table), self.path)
        for number, pieces in enumerate(self._contents(table)):
            name = folder + self._name(key, self._suffix, number)
            lines = lines_to_prove() if self._proves else None
            with self.directory.writing(name) as file:
                with packing(file, ending_for(self.compression)) as packed:
                    for piece, ends in pieces:
                        packed.write(piece)
                        if lines is not None:
                            lines.add(piece, ends)
                size = file.tell()
            proof = "" if lines is None else keep_rows(self.directory, name, lines.rows())
            yield FilePart(self.directory.path(name), size=size, proof=proof)

    def _lost(self, table: pa.Table) -> dict[str, int]:
        return {"infinite numbers, written as null": infinite(without_lines(table))}

    def _contents(self, table: pa.Table) -> Iterator[Iterable[EndedPiece]]:
        """The content of each file, in pieces, each with where rows end in it."""
        form, limit = self._form, self._max_bytes()
        for rows in self._slices(table):
            if limit is None:
                yield form.ended_pieces(rows)
            else:
                yield from ([ended(file)] for file in lines_of_files(chain.from_iterable(form.lines(rows)), limit))


def _check(table: pa.Table, path: str) -> None:
    """Refuse columns of types that JSON cannot hold.

    Raises:
        DataError: a column of bytes, decimals or the like, also inside lists and structs.
    """
    for column in table.schema:
        if not _has_form(column.type):
            raise DataError(
                f"column {column.name!r} holds {column.type}, which JSON has no form for, so it cannot go to {path!r}; "
                f"leave it out with fields=, turn it into text, or use ParquetWriter"
            )


def _has_form(type_: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_dictionary(type_):
        return _has_form(type_.value_type)
    if is_.is_struct(type_):
        return all(_has_form(child.type) for child in type_)
    if is_.is_list(type_) or is_.is_large_list(type_) or is_.is_fixed_size_list(type_):
        return _has_form(type_.value_type)
    text = is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_)
    plain = is_.is_null(type_) or is_.is_boolean(type_) or is_.is_integer(type_) or is_.is_floating(type_)
    moment = is_.is_timestamp(type_) or is_.is_date(type_) or is_.is_time(type_)
    return bool(text or plain or moment)


def infinite(table: pa.Table) -> int:
    """Count infinite numbers, which JSON cannot hold: they are written as null.

    Examples:
        >>> infinite(pa.table({"score": [1.0, float("inf"), float("nan")], "pairs": [[1.0], [float("-inf")], None]}))
        2
    """
    floats = (values for column in table.columns for chunk in column.chunks for values in floats_in(chunk))
    return sum(int(pc.sum(pc.is_inf(values)).as_py() or 0) for values in floats)

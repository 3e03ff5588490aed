"""Writers of interleaved documents with NeMo Curator's names and arguments."""

from __future__ import annotations

import json
import logging
from abc import ABC
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.compat.nemo.interleaved import InterleavedBatch, materialize_task_binary_content
from dcurate.compat.nemo.interleaved_readers import align_interleaved_table, resolve_schema
from dcurate.compat.nemo.writers import FileStage
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.images.interleaved.samples import SampleColumns
from dcurate.images.interleaved.write import Materialised, write_tar
from dcurate.media.interleaved.schema import RESERVED, aligned

_log = logging.getLogger("dcurate.compat.nemo")
_MODALITIES = {"metadata", "text", "image"}
_ON_ERROR = {"error": "error", "warn": "keep", "drop_row": "drop_row", "drop_sample": "drop_sample"}


@dataclass
class BaseInterleavedWriter(FileStage[InterleavedBatch], ABC):
    """The base of stages that write each batch to a file; write ``_write_dataframe`` or ``write_data``.

    Args:
        path: the directory to write to; it is made, or emptied, when the writer is.
        file_extension: extension of the files.
        write_kwargs: for the function that writes, and ``storage_options``.
        materialize_on_write: whether images are fetched.
        mode: what to do about an existing directory.
        on_materialize_error: what to do about an image that cannot be had: ``"error"``, ``"warn"``, ``"drop_row"`` or
            ``"drop_sample"``; what is dropped is logged.
        schema: schema of the table, as in the readers; ``schema_overrides`` is the same as there, too.
    """

    path: str
    file_extension: str
    write_kwargs: dict[str, Any] = field(default_factory=dict)
    materialize_on_write: bool = True
    name: str = "base_interleaved_writer"
    mode: str = "ignore"
    append_mode_implemented: bool = False
    on_materialize_error: str = "error"
    schema: Any = None
    schema_overrides: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.schema = resolve_schema(self.schema, self.schema_overrides)
        self._open_folder()

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {name: value for name, value in self.write_kwargs.items() if name != "storage_options"}

    def _materialize_dataframe(self, task: InterleavedBatch) -> Any:
        """The rows as a pandas frame, with the bytes of images."""
        return self._filled(task).to_pandas(types_mapper=pd.ArrowDtype)

    def _filled(self, task: InterleavedBatch) -> pa.Table:
        if self.materialize_on_write:
            task = materialize_task_binary_content(task, io_kwargs=self.write_kwargs)
        table = align_interleaved_table(task.to_pyarrow(), self.schema)
        images = Materialised(aligned(table), _ON_ERROR[self.on_materialize_error], self.storage_options, self.name)  # type: ignore[arg-type]
        try:
            kept = images.kept()
        except DataError as error:
            raise RuntimeError(f"Materialization failed: {error}") from error
        for gone in images.rejections:
            _log.warning("%d rows are left out: %s", gone.rows, gone.reason)
        return table.take(kept)

    def _write_dataframe(self, df: Any, file_path: str, write_kwargs: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must override _write_dataframe() or write_data()")

    def write_data(self, task: InterleavedBatch, file_path: str) -> None:
        """Write the rows of a batch to a file."""
        self._write_dataframe(self._materialize_dataframe(task), file_path, {**self._kwargs, "index": False})

    def _opened(self, file_path: str) -> Any:
        return Directory(self.path, self.storage_options).writing(file_path.rpartition("/")[2])


@dataclass
class InterleavedParquetWriterStage(BaseInterleavedWriter):
    """Write interleaved rows as Parquet files."""

    file_extension: str = "parquet"
    name: str = "interleaved_parquet_writer"

    def write_data(self, task: InterleavedBatch, file_path: str) -> None:
        """Write the rows of a batch to a file."""
        options = {name: value for name, value in self._kwargs.items() if name not in ("index", "engine")}
        with self._opened(file_path) as file:
            pq.write_table(self._filled(task), file, **{"compression": "snappy", "row_group_size": 128_000, **options})


@dataclass
class InterleavedWebdatasetWriterStage(BaseInterleavedWriter):
    """Write interleaved rows as tars in MINT-1T's layout; images keep their names and bytes."""

    file_extension: str = "tar"
    name: str = "interleaved_webdataset_writer"

    def write_data(self, task: InterleavedBatch, file_path: str) -> None:
        """Write the samples of a batch to a tar.

        Raises:
            ValueError: there are rows of another modality than metadata, text and image.
        """
        table = self._filled(task)
        unknown = set(table["modality"].to_pylist()) - _MODALITIES
        if unknown:
            raise ValueError(f"Unsupported modality {sorted(unknown)!r}. Supported: {sorted(_MODALITIES)}")
        columns = [name for name in table.column_names if name not in RESERVED]
        layout = SampleColumns(by_position=()).with_unnamed(table)
        held = Materialised(_as_texts(aligned(table), columns), "keep", self.storage_options, self.name)
        with self._opened(file_path) as file:
            write_tar(file, held.samples(fetch=False), layout, held)
        for gone in held.rejections:
            raise DataError(f"{self.name}: {gone.rows} rows cannot be written: {gone.reason}")


def _as_texts(table: pa.Table, columns: list[str]) -> pa.Table:
    """The rows with columns that JSON can hold."""
    for name in columns:
        values = table[name].to_pylist()
        if any(isinstance(value, bytes) or not _is_plain(value) for value in values):
            texts = pa.array([None if value is None else str(value) for value in values], pa.string())
            table = table.set_column(table.schema.get_field_index(name), name, texts)
    return table


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True

"""Report the spans that were cut out most often, with their text."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey
from dcurate.core.secrets import HidesSecrets
from dcurate.frames.columns import table_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn
from dcurate.fs.stores import Directory
from dcurate.io.parquet_writer import ParquetWriter
from dcurate.kernels.units import Spans

#: Spans in a report.
REPORTED = 1000
_TOPS = "_dcurate/tops"


def write_tops(
    folder: Directory, key: BatchKey | None, counts: npt.NDArray[np.int64], spans: npt.NDArray[np.uint64]
) -> None:
    """Write the spans of one partition that are cut out most often.

    Args:
        folder: folder of the round in which hashes were written.
        key: key of the range.
        counts: for each span the copies that go, all copies, and the first document, of shape (spans, 3).
        spans: their hashes.
    """
    assert key is not None
    most = np.lexsort((spans, -counts[:, 0]))[:REPORTED]
    tops = np.concatenate([counts[most].astype(np.uint64), spans[most, None]], axis=1)
    _write_array(folder, f"{_TOPS}/{key.digest}.npy", tops)


@dataclass(frozen=True)
class SpanReport(HidesSecrets):
    """The spans that were cut out most often; the split with the first copy of each adds its text.

    Args:
        path: the folder of the report.
        options: storage options of fsspec, for both folders.
        url: the folder of the round in which hashes were written.
    """

    path: str
    options: dict[str, Any]
    url: str

    def choose(self) -> None:
        """Choose the most frequent spans of all ranges."""
        folder = Directory(self.url, self.options)
        tops = [_read_array(folder, name) for name in sorted(folder.files(_TOPS))]
        every = np.concatenate([np.zeros((0, 4), np.uint64), *tops])
        most = np.lexsort((every[:, 3], -every[:, 0].astype(np.int64)))[:REPORTED]
        _write_array(folder, f"{_TOPS}.npy", every[most])

    def write(self, key: BatchKey, column: TextColumn, documents: npt.NDArray[np.int64], spans: Spans) -> None:
        """Write the spans whose first copies are in this split."""
        tops = _read_array(Directory(self.url, self.options), f"{_TOPS}.npy")
        places = tops[:, 2].astype(np.int64)
        rows: dict[str, list[Any]] = {"text": [], "copies": [], "removed": [], "document": []}
        for removed, copies, document, span in tops[(places >= documents[0]) & (places <= documents[-1])].tolist():
            first, last = spans.bounds[document - documents[0]], spans.bounds[document - documents[0] + 1]
            at = first + int(np.argmax(spans.keys[first:last] == np.uint64(span)))
            text = column.data[spans.starts[at] : spans.stops[at]].tobytes().decode(errors="ignore")
            for name, value in zip(rows, (text, copies, removed, document), strict=True):
                rows[name].append(value)
        if rows["text"]:
            writer = ParquetWriter(self.path, mode="overwrite", storage_options=self.options)
            writer.process(DocumentBatch(data=table_of(rows), key=key))


def _write_array(folder: Directory, name: str, array: npt.NDArray[Any]) -> None:
    """Write an array to a file, whole or not at all."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    folder.write(name, buffer.getvalue())


def _read_array(folder: Directory, name: str) -> npt.NDArray[Any]:
    """The array in a file that is there."""
    data = folder.read(name)
    assert data is not None, f"{name} is not there"
    array: npt.NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return array

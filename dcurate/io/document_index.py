"""Documents of a finished run on the local disk, so that any of them is found and shown at once."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.frames.excerpts import id_column
from dcurate.io.rows import Row

_ROWS = 1024
_BYTES = 2**24
_NAN = float("nan")
_SCHEMA = pa.schema([("id", pa.large_string()), ("text", pa.large_string()), ("others", pa.large_binary())])


class DocumentIndexWriter:
    """Writes documents to a file, one by one; `finish` gives the index.

    Args:
        path: path of the file, which takes about as many bytes as the documents do as JSON.
        text_field: the column with the text; the longest text of a row that does not have it.
    """

    def __init__(self, path: Path, text_field: str = "text") -> None:
        self.path, self.text_field = path, text_field
        self._sink = pa.ipc.new_file(str(path), _SCHEMA)
        self._rows: list[tuple[str, str, bytes]] = []
        self._held = self._count = 0
        self._numbers: dict[str, array[float]] = {}
        self._places: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return self._count

    def add(self, row: Row) -> None:
        """Add a document."""
        values = row.values
        id_name = id_column(list(values))
        name = self._text_column(values)
        text = values.get(name, "")
        for column, value in values.items():
            if isinstance(value, int | float) and column != id_name and abs(value) < math.inf:
                known = self._numbers.setdefault(column, array("d"))
                known.extend([_NAN] * (self._count - len(known)))
                known.append(float(value))
        metadata = {column: value for column, value in values.items() if column != name}
        packed = orjson.dumps(metadata, default=str, option=orjson.OPT_NON_STR_KEYS)
        identity = str(values[id_name]) if id_name and values[id_name] is not None else f"{row.file}, row {row.number}"
        self._rows.append((_clean(identity), _clean(text) if isinstance(text, str) else "", packed))
        self._places.append((row.file, row.number))
        self._count += 1
        self._held += len(text) + len(packed) if isinstance(text, str) else len(packed)
        if len(self._rows) >= _ROWS or self._held >= _BYTES:
            self._flush()

    def finish(self) -> DocumentIndex:
        """Close the file and return its index."""
        self._flush()
        self._sink.close()
        for known in self._numbers.values():
            known.extend([_NAN] * (self._count - len(known)))
        numbers = {name: np.frombuffer(known) for name, known in self._numbers.items()}
        return DocumentIndex(self.path, numbers, self._places)

    def _text_column(self, values: Mapping[str, Any]) -> str:
        if isinstance(values.get(self.text_field), str):
            return self.text_field
        texts = {name: len(value) for name, value in values.items() if isinstance(value, str) and name[:1] != "_"}
        return max(texts, key=lambda name: texts[name], default=self.text_field)

    def _flush(self) -> None:
        if self._rows:
            values = zip(*self._rows, strict=True)
            columns = [pa.array(column, field.type) for column, field in zip(values, _SCHEMA, strict=True)]
            self._sink.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        self._rows.clear()
        self._held = 0


class DocumentIndex:
    """Documents by number, in a file that is mapped into memory: only what is looked at is read.

    Attributes:
        numbers: columns of numbers, float64 with NaN where a document has none.
        places: file and row of each document.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = DocumentIndexWriter(Path(folder, "documents.arrow"))
        ...     writer.add(Row("a.jsonl", 0, {"id": "x", "text": "one two", "words": 2}))
        ...     writer.add(Row("a.jsonl", 1, {"id": "y", "text": "three"}))
        ...     index = writer.finish()
        ...     found = list(index.find("THREE", [0, 1]))
        >>> len(index), index.numbers["words"].tolist(), found, index.document(0)["values"]
        (2, [2.0, nan], [1], {'id': 'x', 'words': 2})
    """

    def __init__(
        self, path: Path, numbers: Mapping[str, npt.NDArray[np.float64]], places: Sequence[tuple[str, int]]
    ) -> None:
        self.places = places
        self.numbers = numbers
        self._batches: list[pa.RecordBatch] = []
        if places:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            self._batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._by_id: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def document(self, number: int) -> dict[str, Any]:
        """Return a document: its id, text, file, row and other values."""
        at = int(np.searchsorted(self._starts, number, "right")) - 1
        row = number - int(self._starts[at])
        name, text, metadata = (column[row].as_py() for column in self._batches[at].columns)
        file, place = self.places[number]
        return {"id": name, "text": text, "file": file, "row": place, "values": orjson.loads(metadata)}

    def number_of(self, name: str) -> int | None:
        """Return the number of the document with an id; None if there is none."""
        if self._by_id is None:
            ids = (doc_id for batch in self._batches for doc_id in batch.column(0).to_pylist())
            self._by_id = {doc_id: number for number, doc_id in enumerate(ids)}
        return self._by_id.get(name)

    def find(self, words: str, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Iterator[int]:
        """Yield those of some documents, in their order, whose id or text holds the words, in any case of letters.

        Args:
            numbers: ascending numbers of documents.
        """
        wanted = np.asarray(numbers, np.int64)
        for batch, start in zip(self._batches, self._starts, strict=False):
            low, high = np.searchsorted(wanted, [start, start + batch.num_rows])
            if low == high:
                continue
            rows = pa.array(wanted[low:high] - start)
            some = batch.take(rows)
            held = pc.or_(*(pc.match_substring(some.column(name), words, ignore_case=True) for name in ("id", "text")))
            yield from wanted[low:high][held.to_numpy(zero_copy_only=False)].tolist()


def _clean(text: str) -> str:
    """The text without lone surrogates, which Arrow does not hold."""
    return text.encode(errors="replace").decode() if not text.isascii() else text

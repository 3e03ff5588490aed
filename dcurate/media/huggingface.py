"""Files of media in Parquet as Hugging Face `datasets` has them: a column ``struct<bytes, path>``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.stage import ProcessingStage
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import column_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.schema import NOTE
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.names import within
from dcurate.media.refs import BYTES, REF, Ref, fetched, has_segments, has_tracks, ref_array, refs_of
from dcurate.media.rows import part_columns
from dcurate.media.stage import FileReading

_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_FEATURES = ("Image", "Audio", "Video", "Pdf")
_NOTE = NOTE + b"huggingface"


@dataclass
class UnpackMedia(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Turn a column ``struct<bytes, path>`` of Hugging Face into the columns that stages for media read.

    The bytes go to ``bytes``, the path to ``file_name``; where there are no bytes, `media_ref` refers to the path, if
    it lies in `root`. A path that does not goes to quarantine: a dataset of others must not name any file that this
    machine can read. Columns ``start_s``, ``stop_s`` and ``stream`` after the name of the column, as `PackMedia` makes
    them, become part of `media_ref`.

    Args:
        column: column that holds the structs.
        root: folder or address that the paths without bytes are in, or are relative to; None if the rows must have
            their bytes.

    Examples:
        >>> rows = pa.table({"image": [{"bytes": b"pixels", "path": "0.png"}, {"bytes": None, "path": "1.png"}]})
        >>> unpacked = UnpackMedia(root="s3://pictures/").process(DocumentBatch(data=rows)).to_arrow()
        >>> unpacked["bytes"].to_pylist(), unpacked["media_ref"][1].as_py()["path"]
        ([b'pixels', None], 's3://pictures/1.png')
    """

    column: str = "image"
    root: str | None = None
    name: str = "unpack_media"

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], [self.column]

    def optional_inputs(self) -> list[str]:
        return ["file_name", *part_columns(self.column)]

    def outputs(self) -> tuple[list[str], list[str]]:
        return [], ["file_name", BYTES, REF]

    def dropped_columns(self) -> list[str]:
        return [self.column, *part_columns(self.column)]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows with the new columns in place of the old one.

        Raises:
            DataError: the column has another type.
        """
        table = task.to_arrow()
        kind = column_of(table, self.column).type
        names = [field.name for field in kind] if pa.types.is_struct(kind) else []
        if "bytes" not in names or "path" not in names:
            raise DataError(
                f"{self.name}: column {self.column!r} holds {kind}, not struct<bytes, path>; name the column that "
                "holds the files: UnpackMedia(column='image')"
            )
        cells = table[self.column].combine_chunks()
        parts = dict(zip(names, cells.flatten(), strict=True))
        data, paths = parts["bytes"].cast(pa.large_binary()), parts["path"].cast(pa.string())
        refs: list[Ref | None] = [None] * table.num_rows
        part = [name for name in part_columns(self.column) if name in table.column_names]
        part = part if len(part) > 1 else []  # both times, or nothing of `PackMedia`
        faults: dict[int, MediaFault] = {}
        for row, (path, has_bytes) in enumerate(zip(paths.to_pylist(), data.is_valid().to_pylist(), strict=True)):
            if path and not has_bytes:
                full_path = within(self.root, path)
                if full_path is None:
                    faults[row] = MediaFault("outside of root", self._advice(path))
                else:
                    refs[row] = Ref(full_path)
        fields = [name.removeprefix(f"{self.column}_") for name in part]
        for row, values in enumerate(zip(*(table[name].to_pylist() for name in part), strict=True)):
            if any(value is not None for value in values):  # a row with bytes needs no path
                refs[row] = (refs[row] or Ref(""))._replace(**dict(zip(fields, values, strict=True)))
        named = table["file_name"].cast(pa.string()) if "file_name" in table.column_names else paths
        new = {
            "file_name": pc.coalesce(named, paths),
            BYTES: data,
            REF: ref_array(refs, segments=bool(part), tracks="stream" in fields),
        }
        rows = table.drop_columns([self.column, *part, *(name for name in new if name in table.column_names)])
        for name, values in new.items():
            rows = rows.append_column(name, values)
        return quarantined(task.with_data(rows), faults, self.name)

    def _advice(self, path: str) -> str:
        where = "root= is not given" if self.root is None else f"root={self.root!r}"
        return f"the row has no bytes but a path, {path!r}, and {where}; name the folder that the files are in"


@dataclass
class PackMedia(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Put the bytes of each row's file into a column ``struct<bytes, path>``, as Hugging Face `datasets` reads it.

    A Parquet file that is written of the rows says that the column holds pictures, so that ``load_dataset`` gives them
    as such. ``bytes`` and `media_ref` are dropped. A row whose bytes cannot be fetched goes to quarantine. Where rows
    mean segments of files, the times are kept in two columns ``start_s`` and ``stop_s`` after the name of the column;
    where they mean tracks, their numbers in a third, ``stream``.

    Args:
        column: column to write to.
        feature: feature type of `datasets`: ``"Image"``, ``"Audio"``, ``"Video"`` or ``"Pdf"``.
        reading: size of the largest file, and options of the store.

    Raises:
        PipelineError: the feature is not known.

    Examples:
        >>> rows = pa.table({"file_name": ["0.png"], "bytes": [b"pixels"]})
        >>> PackMedia().process(DocumentBatch(data=rows)).to_arrow().to_pylist()
        [{'file_name': '0.png', 'image': {'bytes': b'pixels', 'path': '0.png'}}]
    """

    column: str = "image"
    feature: Literal["Image", "Audio", "Video", "Pdf"] = "Image"
    reading: FileReading = field(default_factory=FileReading)
    name: str = "pack_media"

    def __post_init__(self) -> None:
        if self.feature not in _FEATURES:
            raise PipelineError(f"{self.name}: feature={self.feature!r} is not one of {listed(_FEATURES)}")

    def outputs(self) -> tuple[list[str], list[str]]:
        return [], [self.column]

    def dropped_columns(self) -> list[str]:
        return [BYTES, REF]

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows."""
        return {**super().settings(), "reading": self.reading.limits}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """The rows with the column.

        Raises:
            DataError: the rows refer to no files, or a store does not answer.
        """
        table = task.to_arrow()
        faults: dict[int, MediaFault] = {}
        chunks = []
        names = table["file_name"].to_pylist() if "file_name" in table.column_names else [None] * table.num_rows
        limit, options = parse_bytes(self.reading.max_file_bytes), self.reading.storage_options
        for start, contents in fetched(table, limit=limit, storage_options=options):
            faults |= {
                start + place: content for place, content in enumerate(contents) if isinstance(content, MediaFault)
            }
            data = [None if isinstance(content, MediaFault) else content for content in contents]
            chunks.append(
                pa.StructArray.from_arrays(
                    [pa.array(data, pa.binary()), pa.array(names[start : start + len(contents)], pa.string())],
                    fields=list(_TYPE),
                )
            )
        about = {_NOTE: json.dumps({"_type": self.feature}).encode()}
        column_field = pa.field(self.column, _TYPE, metadata=about)
        kept = quarantined(task, faults, self.name)
        good = pa.array([row not in faults for row in range(table.num_rows)], pa.bool_())
        column = pa.chunked_array(chunks, _TYPE).filter(good)
        gone = [name for name in (self.column, BYTES, REF) if name in table.column_names]
        rows = kept.to_arrow()
        refs = refs_of(rows) if has_segments(rows) else None
        rows = rows.drop_columns(gone).append_column(column_field, column)
        for name in part_columns(self.column) if refs is not None else ():
            part = name.removeprefix(f"{self.column}_")
            values = [None if ref is None else getattr(ref, part) for ref in refs or ()]
            if part != "stream" or has_tracks(kept.to_arrow()):
                rows = rows.append_column(name, pa.array(values, pa.int64() if part == "stream" else pa.float64()))
        pairs = dict(rows.schema.metadata or {})
        pairs.setdefault(_NOTE, json.dumps({"info": {"features": {}}}).encode())
        packed = task.with_data(rows.replace_schema_metadata(pairs))
        packed.rejections = kept.rejections
        return packed

"""`NemoClipWriter`: clips in the folders of NeMo Curator."""

from __future__ import annotations

import io
import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io.sink import FileWriter
from dcurate.isolate.errors import MediaFault
from dcurate.media.contents import contents
from dcurate.media.cuts import SOURCE
from dcurate.media.faults import quarantined
from dcurate.media.refs import BYTES, REF, Ref, check_has_media, refs_of
from dcurate.media.rows import values_of, without_media

_FPS, _FRAMES = "video_fps", "clip_frames"
#: Names of NeMo Curator for columns of `VideoInfo`, whether they describe the film or the clip: those of the film.
_SOURCE_FIELDS = {"video_width": "width_source", "video_height": "height_source", _FPS: "framerate_source"}
_SUFFIX = "mp4"


@dataclass
class NemoClipWriter(FileWriter):
    """Write clips as NeMo Curator's ``ClipWriterStage`` does: a file and a JSON document for each.

    The file is ``clips/UUID.mp4``, byte for byte, with the suffix that ``file_name`` has, and the document
    ``metas/v0/UUID.json``. The id is that of NeMo Curator: version 5, in the namespace of URLs, of
    ``FILM_FIRST_LAST``, where these are numbers of frames, start and end times ``video_fps``, so that a clip of the
    same film has the same id in both. A document has ``span_uuid``, ``source_video``, ``duration_span`` in seconds,
    ``width_source``, ``height_source``, ``framerate_source``, ``clip_location``, ``num_bytes``, an empty ``windows``,
    ``valid``, and all other columns of the row but those that are null.

    With `preview_field`, the preview of a clip is ``previews/UUID/0_LAST.webp``, where LAST is the number of its last
    frame, and the window of these frames is in ``windows``. With `embedding_field`, the embedding of a clip is
    ``ce1_embd/UUID.pickle``, an array of NumPy of a row, and all of a batch are in ``ce1_embd_parquet/``, with the
    columns ``id`` and ``embedding``. A clip whose preview or embedding is null has none.

    Put `VideoInfo` before `CutVideo`, and this behind it. A row whose bytes cannot be fetched, that says nothing of its
    film and times, or has the id of another row of its batch, goes to quarantine (``no reference``, ``duplicate id``),
    and so does one with a preview of which ``clip_frames`` are not known (``no frames``).

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
        preview_field: the column of previews, as of `MakePreviews`; rows then have ``clip_frames``, as of `CutVideo`.
        embedding_field: the column of embeddings, lists of numbers, as of `VideoEmbedding`.
        fields: the columns to write besides those of NeMo Curator; all by default.
        mode: what to do about existing files, as for `JsonlWriter`.
        compression, max_rows_per_file, max_bytes_per_file, label: of no effect here, so that they are refused.
        storage_options: for fsspec, also of the films.
        separate_by: a column; rows of each of its values go to a folder of their own.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate.media import ref_array
        >>> refs = ref_array([Ref("/films/talk.mp4", start_s=1.5, stop_s=4.0)])
        >>> rows = pa.table({"bytes": [b"not really a clip"], "source_ref": refs, "video_fps": [25.0]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> files = NemoClipWriter(folder.name).process(DocumentBatch(data=rows, key=BatchKey("rows")))
        >>> [str(Path(path).relative_to(folder.name)) for path in files.data]
        ['clips/fefa75b2-8c91-5375-a197-7b1b469a224c.mp4', 'metas/v0/fefa75b2-8c91-5375-a197-7b1b469a224c.json']
        >>> folder.cleanup()
    """

    name: str = "nemo_clip_writer"
    preview_field: str | None = None
    embedding_field: str | None = None
    endings: ClassVar[tuple[str, ...]] = (".json", ".parquet")
    _bad: list[tuple[pa.Table, dict[int, MediaFault]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        idle = [
            name
            for name in ("compression", "max_rows_per_file", "max_bytes_per_file")
            if getattr(self, name) is not None
        ]
        if idle:
            raise PipelineError(f"{self.name}: {listed(idle)} cannot be set, as it has no effect here; leave it out")

    def inputs(self) -> tuple[list[str], list[str]]:
        previews = [] if self.preview_field is None else [self.preview_field, _FRAMES]
        embeddings = [] if self.embedding_field is None else [self.embedding_field]
        return [], list(dict.fromkeys([*super().inputs()[1], _FPS, *previews, *embeddings]))

    def optional_inputs(self) -> list[str]:
        return [REF, BYTES, SOURCE, "file_name", *_SOURCE_FIELDS]

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse rows without clips, or without the rate that ids follow from.

        Raises:
            PipelineError: a column is missing.
        """
        super().check_columns(columns)
        check_has_media(columns, self.name, "CutVideo or MediaReader")

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; those that cannot be written are left out, and go to quarantine.

        Raises:
            DataError: the files cannot be written.
        """
        self._bad = []
        files = super().process(task)
        lost = [quarantined(DocumentBatch(data=rows), faults, self.name).rejections for rows, faults in self._bad]
        self._bad = []
        return replace(files, rejections=(*files.rejections, *(rejection for some in lost for rejection in some)))

    def _chosen(self, table: pa.Table) -> pa.Table:
        chosen = super()._chosen(table)
        kept = [name for name in (self.preview_field, self.preview_field and _FRAMES, self.embedding_field) if name]
        for name in (REF, BYTES, SOURCE, "file_name", *_SOURCE_FIELDS, *kept):
            if name in table.column_names and name not in chosen.column_names:
                chosen = chosen.append_column(table.schema.field(name), table[name])
        return chosen

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        refs, faults = _sources(table), dict[int, MediaFault]()
        rates, names = values_of(table, _FPS), values_of(table, "file_name")
        about = without_media(table)
        apart = [SOURCE, "file_name", self.preview_field, self.embedding_field]
        apart += [] if self.fields is None or _FRAMES in self.fields else [_FRAMES]
        about = about.drop_columns([name for name in apart if name in about.column_names])
        previews, lasts = self._previews(table)
        embeddings = _Embeddings(table, self.embedding_field)
        ids: set[str] = set()
        files = contents(table, range(table.num_rows), self.storage_options)
        for row, (ref, rate, data) in enumerate(zip(refs, rates, files, strict=True)):
            fault = data if isinstance(data, MediaFault) else _fault(ref, rate)
            clip_id = "" if fault is not None or ref is None else clip_uuid(ref, rate)
            if fault is None and previews[row] is not None and lasts[row] is None:
                fault = MediaFault("no frames", f"its preview is named after {_FRAMES!r}, which is null or 0")
            if clip_id in ids:
                fault = MediaFault(
                    "duplicate id", f"another clip has the id {clip_id}, as its film and frames are these"
                )
            if fault is not None or ref is None or isinstance(data, MediaFault):
                faults[row] = fault or MediaFault("no reference", "the row does not say what its clip was cut out of")
                continue
            ids.add(clip_id)
            clip = f"clips/{clip_id}.{_suffix(names[row] or ref.path)}"
            values = about.slice(row, 1).to_pylist()[0]
            document = _document(clip_id, ref, values, self.directory.path(folder + clip), len(data))
            written = {clip: data}
            if previews[row] is not None:
                document["windows"] = [{"start_frame": 0, "end_frame": lasts[row]}]
                written[f"previews/{clip_id}/0_{lasts[row]}.webp"] = previews[row]
            written |= embeddings.files(clip_id, row)
            written[f"metas/v0/{clip_id}.json"] = orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str)
            yield from self._put(folder, written)
        yield from self._put(folder, embeddings.table(self._name(key, ".parquet", 0)))
        self._bad += [(table, faults)] if faults else []

    def _put(self, folder: str, contents: Mapping[str, bytes]) -> Iterator[FilePart]:
        """Write files by their names."""
        for name, content in contents.items():
            with self.directory.writing(folder + name) as file:
                file.write(content)
            yield FilePart(self.directory.path(folder + name), size=len(content))

    def _previews(self, table: pa.Table) -> tuple[Sequence[Any], Sequence[int | None]]:
        """The preview of each row, and the number of the last frame."""
        if self.preview_field is None:
            return [None] * table.num_rows, [None] * table.num_rows
        kind = table.schema.field(self.preview_field).type
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind)):
            raise DataError(f"column {self.preview_field!r} holds {kind}, not bytes; make previews with MakePreviews")
        counts = values_of(table, _FRAMES)
        return values_of(table, self.preview_field), [count - 1 if count else None for count in counts]


class _Embeddings:
    """The files of the embeddings of clips.

    Args:
        table: the rows.
        field: the column of embeddings; None for none.
    """

    def __init__(self, table: pa.Table, field: str | None) -> None:
        self._vectors: Sequence[Any] = [None] * table.num_rows if field is None else values_of(table, field)
        self._kind = pa.list_(pa.float32()) if field is None else table.schema.field(field).type
        is_list = pa.types.is_list(self._kind) or pa.types.is_large_list(self._kind)
        if not is_list and not pa.types.is_fixed_size_list(self._kind):
            raise DataError(f"column {field!r} holds {self._kind}, not lists of numbers; name the column of embeddings")
        self._ids, self._rows = list[str](), list[int]()

    def files(self, clip_id: str, row: int) -> dict[str, bytes]:
        """The file of the embedding of a row, if it has one."""
        if self._vectors[row] is None:
            return {}
        self._ids.append(clip_id)
        self._rows.append(row)
        return {
            f"ce1_embd/{clip_id}.pickle": pickle.dumps(
                np.array([self._vectors[row]], self._kind.value_type.to_pandas_dtype())
            )
        }

    def table(self, name: str) -> dict[str, bytes]:
        """The file of all embeddings that were written."""
        if not self._ids:
            return {}
        vectors = pa.array([self._vectors[row] for row in self._rows], self._kind)
        file = io.BytesIO()
        pq.write_table(pa.table({"id": self._ids, "embedding": vectors}), file)
        return {f"ce1_embd_parquet/{name}": file.getvalue()}


def clip_uuid(ref: Ref, rate: float) -> str:
    """Return the id that NeMo Curator gives to a clip.

    Args:
        ref: film, with the start and end of the clip.
        rate: frames a second of the film.

    Examples:
        >>> clip_uuid(Ref("/films/talk.mp4", start_s=1.5, stop_s=4.0), 25.0)
        'fefa75b2-8c91-5375-a197-7b1b469a224c'
    """
    path = ref.path if ref.member is None else f"{ref.path}/{ref.member}"
    first, last = int((ref.start_s or 0.0) * rate), int((ref.stop_s or 0.0) * rate)
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{path}_{first}_{last}"))


def _sources(table: pa.Table) -> list[Ref | None]:
    name = SOURCE if SOURCE in table.column_names else REF
    if name not in table.column_names:
        return [None] * table.num_rows
    return refs_of(table.select([name]).rename_columns([REF]))


def _fault(ref: Ref | None, rate: Any) -> MediaFault | None:
    if ref is None or ref.stop_s is None:
        return MediaFault("no reference", "the row does not say what its clip was cut out of, from when to when")
    if not isinstance(rate, int | float) or not 0 < rate < 2**20:
        return MediaFault("no reference", f"its film has {rate!r} frames a second, so that they cannot be counted")
    return None


def _suffix(name: str) -> str:
    suffix = name.rpartition("/")[2].rpartition(".")[2].lower()
    return suffix if suffix.isalnum() and len(suffix) <= 4 and "." in name else _SUFFIX


def _document(clip_id: str, ref: Ref, values: Mapping[str, Any], location: str, size: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "span_uuid": clip_id,
        "source_video": ref.path if ref.member is None else f"{ref.path}/{ref.member}",
        "duration_span": [ref.start_s or 0.0, ref.stop_s],
        **{name: values.get(column) for column, name in _SOURCE_FIELDS.items()},
        "clip_location": location,
        "num_bytes": size,
        "windows": [],
        "valid": True,
    }
    others = {name: value for name, value in values.items() if value is not None and name not in _SOURCE_FIELDS}
    return {**others, **document}

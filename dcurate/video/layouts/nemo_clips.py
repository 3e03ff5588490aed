"""`NemoClipWriter`: clips in the folders of NeMo Curator."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import orjson
import pyarrow as pa

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io.sink import FileWriter
from dcurate.isolate.errors import MediaFault
from dcurate.media.contents import contents
from dcurate.media.cuts import SOURCE
from dcurate.media.faults import quarantined
from dcurate.media.refs import BYTES, REF, Ref, check_has_media, refs_of
from dcurate.media.rows import values_of, without_media

_FPS = "video_fps"
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

    Put `VideoInfo` before `CutVideo`, and this behind it. A row whose bytes cannot be fetched, that says nothing of its
    film and times, or has the id of another row of its batch, goes to quarantine (``no reference``, ``duplicate id``).

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: for pipelines written for pandas: only ``storage_options`` is taken.
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
    endings: ClassVar[tuple[str, ...]] = (".json",)
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
        return [], list(dict.fromkeys([*super().inputs()[1], _FPS]))

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
        for name in (REF, BYTES, SOURCE, "file_name", *_SOURCE_FIELDS):
            if name in table.column_names and name not in chosen.column_names:
                chosen = chosen.append_column(table.schema.field(name), table[name])
        return chosen

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        refs, faults = _sources(table), dict[int, MediaFault]()
        rates, names = values_of(table, _FPS), values_of(table, "file_name")
        about = without_media(table)
        about = about.drop_columns([name for name in (SOURCE, "file_name") if name in about.column_names])
        ids: set[str] = set()
        files = contents(table, range(table.num_rows), self.storage_options)
        for row, (ref, rate, data) in enumerate(zip(refs, rates, files, strict=True)):
            fault = data if isinstance(data, MediaFault) else _fault(ref, rate)
            clip_id = "" if fault is not None or ref is None else clip_uuid(ref, rate)
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
            for name, content in ((clip, data), (f"metas/v0/{clip_id}.json", document)):
                with self.directory.writing(folder + name) as file:
                    file.write(content)
                yield FilePart(self.directory.path(folder + name), size=len(content))
        self._bad += [(table, faults)] if faults else []


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


def _document(clip_id: str, ref: Ref, values: Mapping[str, Any], location: str, size: int) -> bytes:
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
    return orjson.dumps({**others, **document}, option=orjson.OPT_INDENT_2, default=str)

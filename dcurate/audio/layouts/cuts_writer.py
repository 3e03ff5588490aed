"""`LhotseCutWriter`: rows of recordings as cuts of Lhotse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import orjson
import pyarrow as pa

from dcurate.audio.headers.formats import is_enough, needs_tail, read_header
from dcurate.audio.headers.header import AudioHeader
from dcurate.audio.layouts.cuts import place_of
from dcurate.audio.layouts.manifest_writer import full_path, is_same_time, means, track_fault
from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.io.json_write import JsonForm, with_values
from dcurate.io.jsonl_writer import JsonlWriter
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.contents import recordings_of
from dcurate.media.faults import with_faults
from dcurate.media.heads import File, heads
from dcurate.media.refs import BYTES, REF, Ref, check_has_media, has_bytes
from dcurate.media.rows import row_refs, without_media
from dcurate.rows.hidden import HIDDEN
from dcurate.rows.lines import LINE, is_as_read, parsed_line, storage_of, with_lines

#: What a cut of Lhotse has; other columns go to ``custom``.
_CUT = ("id", "start", "duration", "channel", "type", "supervisions", "features", "recording", "custom", "tracks")

Cut = dict[str, Any]


@dataclass
class LhotseCutWriter(JsonlWriter):
    """Write cuts of Lhotse: JSON Lines that refer to recordings, which stay where they are.

    Rows of `LhotseCutReader` are written as their lines were, but for what stages changed: a row that means another
    segment than its cut gets its ``start`` and ``duration``, and its supervisions are moved with it, so that they mean
    the same sound; those that lie outside are left out. Columns that stages added go to ``custom``.

    Other rows become cuts of what `media_ref` means, with a recording of which the header is read, and a supervision if
    they have a text. Their id is that of a column ``id``, or the name of the file and the times of the segment; all
    other columns go to ``custom``. Rows whose recording cannot be read go to quarantine, and so do those that mean a
    track of a film (``a track``), which a cut cannot say. A member of an archive is named as
    ``shard.tar/a.wav``, which `LhotseCutReader` reads, and Lhotse itself does not: for it, write these with
    `LhotseSharWriter`.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches.
        write_kwargs: arguments as for `JsonlWriter`.
        mode: what to do about existing files, as for `JsonlWriter`.
        compression: ``"gzip"``, ``"zstd"``, ``"bz2"`` or ``"xz"``; plain if None. Lhotse reads plain and gzip.
        max_rows_per_file: split larger batches into several files.
        max_bytes_per_file: the same by bytes of text, before compression.
        storage_options: for fsspec, also of the recordings.
        separate_by: a column; rows of each of its values go to a folder of their own.
        text_field: column with the text of rows that are no cuts yet.
        language_field: column with their language.
        speaker_field: column with their speaker.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import io, json, tempfile, wave
        >>> from pathlib import Path
        >>> from dcurate import BatchKey
        >>> from dcurate.media import ref_array
        >>> folder = tempfile.TemporaryDirectory()
        >>> with wave.open(f"{folder.name}/a.wav", "wb") as sound:
        ...     sound.setparams((1, 2, 8000, 0, "NONE", ""))
        ...     sound.writeframes(bytes(16000))
        >>> refs = ref_array([Ref(f"{folder.name}/a.wav", start_s=0.25, stop_s=0.75)])
        >>> batch = DocumentBatch(data=pa.table({"media_ref": refs, "text": ["hello"]}), key=BatchKey("rows"))
        >>> files = LhotseCutWriter(f"{folder.name}/cuts").process(batch)
        >>> cut = json.loads(Path(files.data[0]).read_text())
        >>> cut["id"], cut["start"], cut["duration"], cut["supervisions"][0]["text"], cut["recording"]["num_samples"]
        ('a.wav-0.25-0.75', 0.25, 0.5, 'hello', 8000)
        >>> folder.cleanup()
    """

    _: KW_ONLY
    text_field: str = "text"
    language_field: str = "language"
    speaker_field: str = "speaker"
    name: str = "lhotse_cut_writer"
    writes_without_rows: ClassVar[bool] = False
    takes_label: ClassVar[bool] = False

    _bad: list[tuple[pa.Table, dict[int, MediaFault]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    #: Columns of references, and of names of files.
    media: ClassVar[tuple[str, ...]] = (REF, BYTES, "file_name")

    def __post_init__(self) -> None:
        if self.fields is not None:
            raise PipelineError(f"{self.name}: fields={self.fields!r} cannot be set, as a cut is written whole")
        super().__post_init__()

    def columns_read(self) -> list[str]:
        """Those that a cut is made of; others are written as rows have them in their lines."""
        return [*self.inputs()[1], *self.optional_inputs()]

    def optional_inputs(self) -> list[str]:
        return [*self.media, *_CUT, self.text_field, self.language_field, self.speaker_field]

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        if "recording" not in columns and "tracks" not in columns:
            check_has_media(columns, self.name, "MediaReader or LhotseCutReader")

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; those whose recording cannot be read are left out, and go to quarantine.

        Raises:
            DataError: they cannot be written.
        """
        self._bad = []
        files = with_faults(super().process(task), self._bad, self.name)
        self._bad = []
        return files

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        cuts, faults = self._cuts(table)
        self._bad += [(table, faults)] if faults else []
        if cuts.num_rows:
            yield from super()._write(cuts, key, folder)

    def _lost(self, table: pa.Table) -> dict[str, int]:
        return super()._lost(without_media(table))

    def _cuts(self, rows: pa.Table) -> tuple[pa.Table, dict[int, MediaFault]]:
        """Lines of cuts, and the faults of rows that become none, by number."""
        lines = _own_lines(rows)
        before = [parsed_line(line) for line in lines]
        refs, added = row_refs(rows), self._added(rows)
        fresh = [row for row, cut in enumerate(before) if self._needs_recording(cut, refs[row])]
        headers = _headers(rows, fresh, refs, self.storage_options)
        faults = {row: header for row, header in headers.items() if isinstance(header, MediaFault)}
        for row, ref in enumerate(refs):
            if ref is not None and (fault := track_fault(ref, "a cut of Lhotse")) is not None:
                faults[row] = fault
        after: list[Cut] = []
        good = [row for row in range(rows.num_rows) if row not in faults]
        for row in good:
            header = headers.get(row)
            cut = self._cut(before[row], refs[row], header if isinstance(header, AudioHeader) else None, added[row])
            if not is_cut(before[row]):
                before[row], lines[row] = cut, _compact(cut) + b"\n"
            after.append(cut)
        return _changed([lines[row] for row in good], [before[row] for row in good], after), faults

    def _needs_recording(self, cut: Cut, ref: Ref | None) -> bool:
        """Whether a row is no cut yet, or no longer of the recording that it has."""
        if ref is None:
            return not is_cut(cut)
        return not is_cut(cut) or not _is_of(cut, ref)

    def _added(self, rows: pa.Table) -> list[Cut]:
        """What stages added to each row."""
        has_lines = LINE in rows.column_names and not rows[LINE].null_count
        names = [
            field.name
            for field in rows.schema
            if field.name not in (*_CUT, REF, BYTES, *HIDDEN) and not (has_lines and is_as_read(field))
        ]
        return rows.select(names).to_pylist() if names else [{}] * rows.num_rows

    def _cut(self, cut: Cut, ref: Ref | None, header: AudioHeader | None, added: Cut) -> Cut:
        if header is not None and not is_cut(cut):
            return self._made(cut, ref or Ref(""), header, added)
        if added:
            cut = {**cut, "custom": {**(cut.get("custom") or {}), **added}}
        if ref is None:
            return cut
        if header is not None:
            named = (cut.get("recording") or {}).get("id") or _name_of(ref, added)
            cut = {**cut, "recording": _recording(named, ref, header)}
        return _moved(cut, ref)

    def _made(self, row: Cut, ref: Ref, header: AudioHeader, added: Cut) -> Cut:
        """The cut that a row becomes which is none yet."""
        values = {**row, **added}
        length = _length(header)
        start_s = ref.start_s or 0.0
        duration = round(min(length, length if ref.stop_s is None else ref.stop_s) - start_s, 9)
        named = _name_of(ref, values)
        channels = list(range(header.channels))
        cut_id = str(
            values.pop("id", None) or named + (f"-{start_s:g}-{ref.stop_s or length:g}" if ref.is_segment else "")
        )
        about = {
            "text": values.pop(self.text_field, None),
            "language": values.pop(self.language_field, None),
            "speaker": values.pop(self.speaker_field, None),
        }
        channel: int | list[int] = channels[0] if len(channels) == 1 else channels
        supervision = {"id": cut_id, "recording_id": named, "start": 0.0, "duration": duration, "channel": channel}
        supervision.update({name: value for name, value in about.items() if value is not None})
        return {
            "id": cut_id,
            "start": start_s,
            "duration": duration,
            "channel": channel,
            "type": "MonoCut" if isinstance(channel, int) else "MultiCut",
            "supervisions": [supervision] if about["text"] is not None else [],
            "recording": _recording(named, ref, header),
            "custom": {name: value for name, value in values.items() if name not in ("file_name", *_CUT)},
        }


def _own_lines(rows: pa.Table) -> list[bytes]:
    """The rows as lines of what they have of a cut, and of what was read with it."""
    has_lines = LINE in rows.column_names and not rows[LINE].null_count
    kept = [field.name for field in rows.schema if field.name in _CUT or (has_lines and is_as_read(field))]
    if has_lines:
        lines = [line for some in JsonForm().lines(rows.select([*kept, LINE])) for line in some]
    else:
        lines = list(map(_compact, rows.select(kept).to_pylist() if kept else [{}] * rows.num_rows))
    return [line + b"\n" for line in lines]


def _compact(row: Cut) -> bytes:
    """A row as JSON, without the nulls that columns have where a cut has nothing."""
    return orjson.dumps(_without_nulls(row), str, orjson.OPT_NON_STR_KEYS)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _changed(lines: Sequence[bytes], before: Sequence[Cut], after: Sequence[Cut]) -> pa.Table:
    """The lines as a table, with the values of cuts that differ."""
    names = [
        name
        for name in dict.fromkeys(name for cut in after for name in cut)
        if any(old.get(name) != new.get(name) for old, new in zip(before, after, strict=True))
    ]
    table = with_lines(pa.table({}), pa.array(lines, pa.large_binary()), [])
    if not names:
        return table
    return with_lines(
        pa.table({}), storage_of(with_values(table, {name: [cut.get(name) for cut in after] for name in names})), []
    )


def is_cut(cut: Cut) -> bool:
    """Whether a row is a cut of Lhotse already."""
    return isinstance(cut.get("type"), str) and cut["type"].endswith("Cut")


def _is_of(cut: Cut, ref: Ref) -> bool:
    """Whether the recording of a cut is that of a reference."""
    sources = (cut.get("recording") or {}).get("sources") or []
    return any(source.get("type") in ("file", "url") and means(source.get("source"), ref) for source in sources)


def _moved(cut: Cut, ref: Ref) -> Cut:
    """The cut as the segment that a reference means, with its supervisions."""
    place = place_of({**cut, "recording": {**cut["recording"], "sources": [{"type": "file", "source": "a"}]}}, "/")
    if isinstance(place, Ref) and is_same_time(place.start_s, ref.start_s) and is_same_time(place.stop_s, ref.stop_s):
        return cut
    start_s = ref.start_s or 0.0
    length = float(cut["recording"].get("duration") or 0.0)
    duration = round((length if ref.stop_s is None else ref.stop_s) - start_s, 9)
    shift = float(cut.get("start") or 0.0) - start_s
    moved = [
        {**supervision, "start": round(float(supervision.get("start") or 0.0) + shift, 9)}
        for supervision in cut.get("supervisions") or []
    ]
    kept = [part for part in moved if part["start"] < duration and part["start"] + float(part.get("duration") or 0) > 0]
    return {**cut, "start": start_s, "duration": duration, "supervisions": kept}


def _recording(named: str, ref: Ref, header: AudioHeader) -> dict[str, Any]:
    length = _length(header)
    return {
        "id": named,
        "sources": [{"type": "file", "channels": list(range(header.channels)), "source": full_path(ref)}],
        "sampling_rate": header.sample_rate,
        "num_samples": round(length * header.sample_rate),
        "duration": length,
    }


def _length(header: AudioHeader) -> float:
    """The length of a recording in seconds."""
    if header.frames is not None:
        return header.frames / header.sample_rate
    return float(header.duration_s or 0.0)


def _name_of(ref: Ref, values: Mapping[str, Any]) -> str:
    return str(values.get("file_name") or ref.member or ref.path.rpartition("/")[2])


def _headers(
    rows: pa.Table, wanted: Sequence[int], refs: Sequence[Ref | None], options: Mapping[str, Any] | None
) -> dict[int, AudioHeader | MediaFault]:
    """The header of the recording of each of some rows, each recording read once."""
    here = has_bytes(rows)
    first = recordings_of([refs[row] for row in wanted], [here[row] for row in wanted])
    chosen = sorted(set(first))
    media = [name for name in (REF, BYTES) if name in rows.column_names]
    if not media:
        return {row: MediaFault("no reference", "the row has no recording") for row in wanted}
    found: list[AudioHeader | MediaFault] = []
    table = rows.select(media).take(pa.array([wanted[place] for place in chosen], pa.int64()))
    for _, files in heads(table, is_enough, tails=needs_tail, head_limit=None, storage_options=options):
        found += [file if isinstance(file, MediaFault) else _header(file) for file in files]
    by_place = dict(zip(chosen, found, strict=True))
    return {row: by_place[place] for row, place in zip(wanted, first, strict=True)}


def _header(file: File) -> AudioHeader | MediaFault:
    try:
        header = read_header(file)
    except MediaError as error:
        return error.fault
    if header.frames is None and header.duration_s is None:
        return MediaFault("no duration", "the header does not say how long the recording is")
    return header

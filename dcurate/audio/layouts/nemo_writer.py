"""`NemoManifestWriter` and `NemoTarWriter`: rows of recordings as manifests of NeMo, plain and tarred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.layouts.manifest_writer import (
    ManifestWriter,
    check_names_recordings,
    duration_of,
    full_path,
    is_same_time,
    means,
    track_fault,
)
from dcurate.audio.layouts.tars import write_tar
from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.contents import contents, recordings_of
from dcurate.media.faults import with_faults
from dcurate.media.refs import BYTES, Ref, check_has_media, has_bytes
from dcurate.media.rows import row_refs, values_of, with_values, without_media

_PATH, _OFFSET, _DURATION = "audio_filepath", "offset", "duration"


@dataclass
class NemoManifestWriter(ManifestWriter):
    r"""Write manifests of NeMo: JSON Lines that refer to recordings, which stay where they are.

    Rows of `NemoManifestReader` are written as their lines were, but for what stages changed. ``audio_filepath``,
    ``offset`` and ``duration`` follow from `media_ref`: where they say the same as it they stay as they are, to the
    digit, and where a stage made another segment of a row they are written again. All other columns are written with
    them. Rows of other readers get these three: a segment its own, all of a recording no ``offset``, and the
    ``duration`` in `duration_field`. Rows that name no recording go to quarantine (``no path``), and so do those that
    mean a track of a film (``a track``), which a manifest cannot say.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches.
        write_kwargs: arguments as for `JsonlWriter`.
        fields: the columns to write, in this order; all by default.
        mode: what to do about existing files, as for `JsonlWriter`.
        compression: ``"gzip"``, ``"zstd"``, ``"bz2"`` or ``"xz"``; plain if None.
        max_rows_per_file: split larger batches into several files.
        max_bytes_per_file: the same by bytes of text, before compression.
        storage_options: for fsspec.
        separate_by: a column; rows of each of its values go to a folder of their own.
        path_form: ``"as read"`` leaves paths as they are where they mean the recording: relative ones are then still
            relative to the folder of the manifest that was read. Give `NemoManifestReader` that folder as `root` to
            read what was written elsewhere. ``"full"`` writes all paths in full. A member of an archive is written in
            full as ``/data/shard.tar/a.wav``.
        duration_field: column with the duration in seconds of rows without ``duration``, as `AudioInfo` makes it.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import InlineExecutor, Pipeline
        >>> from dcurate.media import Ref, ref_array
        >>> rows = pa.table({"media_ref": ref_array([Ref("/data/a.wav", start_s=1.0, stop_s=3.5)]), "text": ["hello"]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("write", stages=[NemoManifestWriter(folder.name)])
        >>> [files] = pipeline.run(InlineExecutor(), initial_tasks=[DocumentBatch(data=rows)], observers=[])
        >>> Path(files.data[0]).read_text()
        '{"text":"hello","audio_filepath":"/data/a.wav","offset":1.0,"duration":2.5}\n'
        >>> folder.cleanup()
    """

    duration_field: str = "audio_duration_s"
    name: str = "nemo_manifest_writer"
    about: ClassVar[tuple[str, ...]] = (_PATH, _OFFSET, _DURATION)

    def optional_inputs(self) -> list[str]:
        return [*super().optional_inputs(), self.duration_field]

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_names_recordings(columns, _PATH, self.name)

    def _prepared(self, rows: pa.Table) -> tuple[pa.Table, dict[int, MediaFault]]:
        paths, offsets, durations = (values_of(rows, name) for name in self.about)
        faults: dict[int, MediaFault] = {}
        measured = values_of(rows, self.duration_field) if self.duration_field in rows.column_names else durations
        for row, ref in enumerate(row_refs(rows)):
            if ref is None and not paths[row] and not self._is_named_otherwise(rows):
                faults[row] = MediaFault("no path", f"the row has neither a reference nor {_PATH!r}")
            elif ref is not None and (fault := track_fault(ref, "a manifest of NeMo")) is not None:
                faults[row] = fault
            elif ref is not None:
                paths[row] = self._path_of(ref, paths[row])
                offsets[row], durations[row] = _times(ref, offsets[row], durations[row], measured[row])
        kinds = (pa.string(), pa.float64(), pa.float64())
        values = zip(kinds, (paths, offsets, durations), strict=True)
        return with_values(rows, dict(zip(self.about, values, strict=True))), faults

    def _is_named_otherwise(self, rows: pa.Table) -> bool:
        """Whether rows need neither a reference nor a path."""
        return False

    def _path_of(self, ref: Ref, path: Any) -> str:
        """What is written for the path of a recording, which was written as `path` before."""
        return str(path) if self.path_form == "as read" and means(path, ref) else full_path(ref)


def _times(ref: Ref, offset: Any, duration: Any, measured: Any) -> tuple[Any, Any]:
    """Offset and duration of a row: as they were where they mean the reference."""
    if not ref.is_segment:
        return None, measured if offset is not None or duration is None else duration
    lasts = duration_of(ref)
    if is_same_time(offset, ref.start_s or 0.0) and is_same_time(duration, lasts):
        return offset, duration
    return ref.start_s or 0.0, lasts


@dataclass
class NemoTarWriter(NemoManifestWriter):
    r"""Write tarred datasets of NeMo: archives ``audio_N.tar`` of recordings, each with ``manifest_N.json``.

    The members are the bytes of the recordings as they are, each once for all of its segments in a batch, under names
    without folders, as NeMo has them: ``a/b.c.wav`` becomes ``a_b_c.wav``. ``audio_filepath`` is the name of the
    member, ``shard_id`` the number in both names; it follows from the key of the batch. `NemoManifestReader` with
    a list of the archives as `tar_paths`, and NeMo, read them. All else is as for
    `NemoManifestWriter`. A row whose bytes cannot be fetched goes to quarantine.

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: arguments as for `JsonlWriter`.
        fields: the columns to write, in this order; all by default.
        mode: what to do about existing files, as for `JsonlWriter`; ``"append"`` is refused.
        max_rows_per_file: split larger batches into several archives.
        storage_options: for fsspec, also of the recordings.
        separate_by: a column; rows of each of its values go to a folder of their own.
        duration_field: column with the duration in seconds of rows without ``duration``.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import BatchKey, InlineExecutor, Pipeline
        >>> rows = pa.table({"bytes": [b"not really a recording"], "audio_filepath": ["en/a.wav"], "duration": [1.5]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> files = NemoTarWriter(folder.name).process(DocumentBatch(data=rows, key=BatchKey("rows")))
        >>> Path(files.data[1]).read_text()
        '{"audio_filepath":"en_a.wav","duration":1.5,"shard_id":757840172506435}\n'
        >>> folder.cleanup()
    """

    name: str = "nemo_tar_writer"
    endings: ClassVar[tuple[str, ...]] = (".tar", ".json")
    _bad: list[tuple[pa.Table, dict[int, MediaFault]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        idle = {
            "path_form": self.path_form != "as read",
            "compression": self.compression,
            "max_bytes_per_file": self.max_bytes_per_file,
        }
        if self.mode == "append":
            raise PipelineError(f"{self.name}: mode='append' is not for this layout; name another directory")
        if any(idle.values()):
            names = listed(name for name, value in idle.items() if value)
            raise PipelineError(f"{self.name}: {names} cannot be set, as it has no effect here; leave it out")

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns([*columns, _PATH])
        check_has_media(columns, self.name, "MediaReader or NemoManifestReader")

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; those whose recording cannot be fetched are left out, and go to quarantine.

        Raises:
            DataError: they cannot be written.
        """
        self._bad = []
        files = with_faults(super().process(task), self._bad, self.name)
        self._bad = []
        return files

    def optional_inputs(self) -> list[str]:
        return [*super().optional_inputs(), "file_name", "shard_id"]

    def _is_named_otherwise(self, rows: pa.Table) -> bool:
        return BYTES in rows.column_names

    def _path_of(self, ref: Ref, path: Any) -> str:
        return ref.member or (str(path) if path else ref.path.rpartition("/")[2])

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        for number, rows in enumerate(self._slices(table)):
            shard = _shard_number(self._name(key, "", number))
            names = _member_names(rows, f"{shard}_")
            faults: dict[int, MediaFault] = {}
            archive, manifest = f"{folder}audio_{shard}.tar", f"{folder}manifest_{shard}.json"
            with self.directory.writing(archive) as file:
                write_tar(file, _members(rows, names, faults, self.storage_options))
                size = file.tell()
            yield FilePart(self.directory.path(archive), size=size)
            self._bad += [(rows, faults)] if faults else []
            good = [row for row in range(rows.num_rows) if row not in faults]
            about: dict[str, tuple[pa.DataType, list[Any]]] = {
                _PATH: (pa.string(), [names[row] for row in good]),
                "shard_id": (pa.int64(), [shard] * len(good)),
            }
            content = with_values(without_media(rows.take(pa.array(good, pa.int64()))), about)
            with self.directory.writing(manifest) as file:
                for piece in self._form.pieces(content) if good else ():
                    file.write(piece)
                size = file.tell()
            yield FilePart(self.directory.path(manifest), size=size)


def _shard_number(name: str) -> int:
    """The number of a shard, of 15 digits, by the name that a file of its batch has."""
    return 10**14 + int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") % (9 * 10**14)


def _member_names(rows: pa.Table, prefix: str) -> list[str]:
    """The names of the members that rows refer to, without folders; `prefix` begins those of rows without a name."""
    refs = row_refs(rows)
    first = _first_rows(rows, refs)
    paths, files = values_of(rows, _PATH), values_of(rows, "file_name")
    names: dict[int, str] = {}
    taken: set[str] = set()
    for row in sorted(set(first)):
        ref = refs[row]
        path = (ref.member if ref is not None else None) or paths[row] or files[row] or f"{prefix}{row:06d}"
        stem, dot, suffix = stored_as(path).rpartition(".")
        name, number = f"{stem}{dot}{suffix}", 1
        while name in taken:
            name, number = f"{stem}_{number}{dot}{suffix}", number + 1
        taken.add(name)
        names[row] = name
    return [names[row] for row in first]


def stored_as(path: str) -> str:
    """The name of the member that NeMo gives to a recording.

    Examples:
        >>> stored_as("/data/./en/a.b.wav"), stored_as("a-sub1.wav")
        ('data_en_a_b.wav', 'a_sub1.wav')
    """
    name = "/".join(part for part in path.split("/") if part not in ("", "."))
    stem, dot, suffix = name.rpartition(".")
    if "/" in suffix:
        stem, dot, suffix = name, "", ""
    for old, new in (("/", "_"), (".", "_"), ("-sub", "_sub")):
        stem = stem.replace(old, new)
    return f"{stem}{dot}{suffix}"


def _first_rows(rows: pa.Table, refs: Sequence[Ref | None]) -> list[int]:
    return recordings_of(refs, has_bytes(rows))


def _members(
    rows: pa.Table, names: Sequence[str], faults: dict[int, MediaFault], options: Any
) -> Iterator[tuple[str, bytes]]:
    """Yield the recordings of rows with their names; the faults of rows whose recording cannot be fetched are added."""
    first = _first_rows(rows, row_refs(rows))
    chosen = sorted(set(first))
    lost: dict[int, MediaFault] = {}
    for row, data in zip(chosen, contents(rows, chosen, options), strict=True):
        if isinstance(data, MediaFault):
            lost[row] = data
        else:
            yield names[row], data
    faults.update({row: lost[source] for row, source in enumerate(first) if source in lost})

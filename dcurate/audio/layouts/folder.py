"""`AudioFolderReader` and `AudioFolderWriter`: recordings with ``metadata.jsonl``, as Hugging Face has them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.layouts.manifest_writer import row_refs, values_of, with_values, without_media
from dcurate.audio.layouts.places import Place, folder_of, looked_up, ref_at, segment_at, with_refs
from dcurate.audio.layouts.tars import contents, recordings_of
from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import RowNeeds
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io import files
from dcurate.io.document_reader import DocumentReader
from dcurate.io.json_write import JsonForm
from dcurate.io.jsonl_writer import JsonlWriter
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.names import is_climbing
from dcurate.media.refs import BYTES, REF, Ref, check_has_media

#: Columns of the name of a file, and of the times of the segment of it that a row means, as `PackMedia` names them.
_NAME, _START, _STOP = "file_name", "audio_start_s", "audio_stop_s"


@dataclass(frozen=True)
class MetadataFiles(files.Formats):
    """Files called ``metadata``."""

    def matches(self, path: str) -> bool:
        return path.rpartition("/")[2].lower().startswith("metadata.") and super().matches(path)


@dataclass
class AudioFolderReader(DocumentReader):
    r"""Read folders of recordings with metadata, the ``audiofolder`` of Hugging Face.

    A row is one of a file ``metadata.jsonl``, ``metadata.csv`` or ``metadata.parquet``, in any folder below, with its
    columns as they are and `media_ref`, which refers to the recording that ``file_name`` names, relative to the folder
    of the file of metadata. Rows with ``audio_start_s`` and ``audio_stop_s``, as `AudioFolderWriter` writes them for
    segments, refer to a segment. Files that no row names are not read; `MediaReader` reads folders without metadata.

    Rows go to quarantine whose recording is not there (``missing``, ``no path``) or lies elsewhere (``outside of
    root``), or whose segment none can be (``bad segment``).

    Args:
        file_paths: folders, or files of metadata, local or URLs.
        files_per_partition: files of metadata of one split.
        blocksize: split size, as bytes or ``"128MiB"``.
        fields: the columns to keep, in this order, ``file_name`` among them; all by default.
        read_kwargs: as for `DocumentReader`.
        storage_options: for fsspec.
        schema: types of columns by name, instead of guessing.
        limit: read only the first `limit` splits.
        on_bad_line: ``"raise"``, or ``"quarantine"`` to go on without lines that cannot be read.
        frames: ``"cudf"`` to have the rows on a GPU. Untested on a GPU.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = Path(folder.name, "a.wav").write_bytes(b"not really a recording")
        >>> _ = Path(folder.name, "metadata.csv").write_text("file_name,text\na.wav,hello\n")
        >>> [batch] = Pipeline("read", stages=[AudioFolderReader(folder.name)]).run(InlineExecutor(), observers=[])
        >>> [row] = batch.to_arrow().to_pylist()
        >>> row["text"], row["media_ref"]["path"].rpartition("/")[2], row["media_ref"]["size"]
        ('hello', 'a.wav', 22)
        >>> folder.cleanup()
    """

    name: str = "audio_folder_reader"
    kind: ClassVar[files.Format] = MetadataFiles.of(files.JSONL, files.CSV, files.PARQUET)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fields is not None and _NAME not in self.fields:
            raise PipelineError(f"{self.name}: fields={self.fields!r} must have {_NAME!r}, which names the recording")

    def columns(self) -> list[str] | None:
        """Columns of the metadata, and that of the references.

        Raises:
            DataError: nothing to read, or a field that no head has.
        """
        names = super().columns()
        return None if names is None else [*names, REF]

    def adapted(self, needs: RowNeeds) -> AudioFolderReader | None:
        """Return the reader of rows with their lines, which parses what it needs itself in any case."""
        if needs.columns is not None:
            needs = replace(needs, columns=tuple(dict.fromkeys((*needs.columns, _NAME, _START, _STOP))))
        return super().adapted(needs)

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split with references; None if it holds none.

        Raises:
            DataError: a file or line that cannot be read, or types that clash.
        """
        reader = copy.copy(self)
        reader.frames = "arrow"
        read = super(AudioFolderReader, reader).process
        rows = with_refs(task, read, self._places, self.name, segments=_START in self._known().types)
        return None if rows is None else replace(rows, data=self._held(rows.to_arrow()))

    def _places(self, part: FilePart, rows: pa.Table) -> list[Place]:
        root = folder_of(part.path)
        columns = zip(*(values_of(rows, name) for name in (_NAME, _START, _STOP)), strict=True)
        return looked_up([_place(path, start, stop, root) for path, start, stop in columns], self._options())


def _place(path: Any, start: Any, stop: Any, root: str) -> Place:
    ref = ref_at(path, root)
    if isinstance(ref, MediaFault) or (start is None and stop is None):
        return ref
    times = segment_at(start or 0.0, None)
    if isinstance(times, MediaFault) or stop is None:
        return times if isinstance(times, MediaFault) else ref._replace(start_s=times[0])
    end = segment_at(stop, None)
    if isinstance(end, MediaFault) or end[0] <= times[0]:
        return MediaFault("bad segment", f"it is from {start!r} to {stop!r} s")
    return ref._replace(start_s=None if start is None else times[0], stop_s=end[0])


@dataclass
class AudioFolderWriter(JsonlWriter):
    r"""Write folders of recordings with metadata, which ``load_dataset("audiofolder", data_dir=...)`` reads.

    Each batch becomes a folder with ``metadata.jsonl`` and the recordings, byte for byte, each once for all of its
    segments, under their ``file_name``. Rows of `AudioFolderReader` are written as their lines were, but for what
    stages changed; a row that means a segment has its times in ``audio_start_s`` and ``audio_stop_s``. A row whose
    bytes cannot be fetched goes to quarantine.

    Args:
        path: the directory to write to, local or a URL.
        write_kwargs: as for `JsonlWriter`.
        fields: the columns to write besides ``file_name``; all by default.
        mode: what to do about existing files, as for `JsonlWriter`; ``"append"`` is refused.
        max_rows_per_file: split larger batches into several folders.
        storage_options: for fsspec, also of the recordings.
        separate_by: a column; rows of each of its values go to a folder of their own.

    Raises:
        PipelineError: a setting that has no effect here.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import BatchKey
        >>> rows = pa.table({"bytes": [b"not really a recording"], "file_name": ["a.wav"], "text": ["hello"]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> files = AudioFolderWriter(folder.name).process(DocumentBatch(data=rows, key=BatchKey("rows")))
        >>> [path.rpartition("/")[2] for path in files.data], Path(files.data[1]).read_text()
        (['a.wav', 'metadata.jsonl'], '{"file_name":"a.wav","text":"hello"}\n')
        >>> folder.cleanup()
    """

    name: str = "audio_folder_writer"
    endings: ClassVar[tuple[str, ...]] = ("/metadata.jsonl",)
    _bad: list[tuple[pa.Table, dict[int, MediaFault]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        idle = [name for name in ("compression", "max_bytes_per_file") if getattr(self, name) is not None]
        if self.mode == "append":
            raise PipelineError(f"{self.name}: mode='append' is not for this layout; name another directory")
        if idle:
            raise PipelineError(f"{self.name}: {listed(idle)} cannot be set, as it has no effect here; leave it out")

    def optional_inputs(self) -> list[str]:
        return [REF, BYTES, _NAME, _START, _STOP]

    def columns_read(self) -> list[str] | None:
        """Those that name the recording; others are written as rows have them in their lines."""
        return [*self.inputs()[1], *self.optional_inputs()] if self.fields is None else None

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name, "MediaReader or AudioFolderReader")

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; those whose recording cannot be fetched are left out, and go to quarantine.

        Raises:
            DataError: they cannot be written.
        """
        self._bad = []
        written = super().process(task)
        lost = [quarantined(DocumentBatch(data=rows), faults, self.name).rejections for rows, faults in self._bad]
        self._bad = []
        return replace(written, rejections=(*written.rejections, *(rejection for some in lost for rejection in some)))

    def _chosen(self, table: pa.Table) -> pa.Table:
        chosen = super()._chosen(table)
        for name in (_NAME, REF, BYTES):
            if name in table.column_names and name not in chosen.column_names:
                chosen = chosen.append_column(table.schema.field(name), table[name])
        return chosen

    def _lost(self, table: pa.Table) -> dict[str, int]:
        return super()._lost(without_media(table))

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        for number, rows in enumerate(self._slices(table)):
            inner = f"{folder}{self._name(key, '', number)}/"
            refs = row_refs(rows)
            here = rows[BYTES].is_valid().to_pylist() if BYTES in rows.column_names else [False] * rows.num_rows
            first = recordings_of(refs, here)
            chosen = sorted(set(first))
            names = _file_names(values_of(rows, _NAME), refs, chosen)
            lost: dict[int, MediaFault] = {}
            for row, data in zip(chosen, contents(rows, chosen, self.storage_options), strict=True):
                if isinstance(data, MediaFault):
                    lost[row] = data
                    continue
                with self.directory.writing(inner + names[row]) as file:
                    file.write(data)
                yield FilePart(self.directory.path(inner + names[row]), size=len(data))
            faults = {row: lost[source] for row, source in enumerate(first) if source in lost}
            self._bad += [(rows, faults)] if faults else []
            content = with_values(
                without_media(rows),
                {
                    _NAME: (pa.string(), [names.get(source) for source in first]),
                    _START: (pa.float64(), [None if ref is None else ref.start_s for ref in refs]),
                    _STOP: (pa.float64(), [None if ref is None else ref.stop_s for ref in refs]),
                },
            ).filter(pa.array([row not in faults for row in range(rows.num_rows)], pa.bool_()))
            with self.directory.writing(f"{inner}metadata.jsonl") as file:
                for piece in JsonForm().pieces(content) if content.num_rows else ():
                    file.write(piece)
                size = file.tell()
            yield FilePart(self.directory.path(f"{inner}metadata.jsonl"), size=size)


def _file_names(named: Sequence[Any], refs: Sequence[Ref | None], chosen: Sequence[int]) -> dict[int, str]:
    """The names of the files of some rows, each once, none of which leads out of their folder."""
    names: dict[int, str] = {}
    taken = {"metadata.jsonl"}
    for row in chosen:
        ref = refs[row]
        path = str(
            named[row] or (ref.member if ref is not None else None) or (ref.path if ref is not None else "") or row
        )
        if is_climbing(path) or "\\0" in path or path.endswith("/"):
            path = path.rstrip("/").rpartition("/")[2] or str(row)
        stem, dot, suffix = path.rpartition(".")
        name, number = path, 1
        while name.lower() in taken:
            name, number = f"{stem or suffix}_{number}{dot}{suffix if stem else ''}", number + 1
        taken.add(name.lower())
        names[row] = name
    return names

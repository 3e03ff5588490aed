"""Folders of media with ``metadata.jsonl``, as Hugging Face has them: the base of their readers and writers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import RowNeeds
from dcurate.errors import PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.io import files
from dcurate.io.document_reader import DocumentReader
from dcurate.io.jsonl_writer import JsonlWriter
from dcurate.isolate.errors import MediaFault
from dcurate.media.contents import contents, recordings_of
from dcurate.media.faults import with_faults
from dcurate.media.names import is_climbing
from dcurate.media.places import Place, folder_of, looked_up, ref_at, segment_at, with_refs, with_track
from dcurate.media.refs import BYTES, REF, Ref, check_has_media, has_bytes
from dcurate.media.rows import row_refs, values_of, with_values, without_media

#: Column of the name of a file.
_NAME = "file_name"


@dataclass(frozen=True)
class MetadataFiles(files.Formats):
    """Files called ``metadata``."""

    def matches(self, path: str) -> bool:
        return path.rpartition("/")[2].lower().startswith("metadata.") and super().matches(path)


@dataclass
class MediaFolderReader(DocumentReader):
    """Read folders of files with metadata; see the readers made of it."""

    name: str = "media_folder_reader"

    kind: ClassVar[files.Format] = MetadataFiles.of(files.JSONL, files.CSV, files.PARQUET)
    #: Columns of the part of a file that a row means: its times and its track; see `part_columns`.
    part: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fields is not None and _NAME not in self.fields:
            raise PipelineError(f"{self.name}: fields={self.fields!r} must have {_NAME!r}, which names the file")

    def columns(self) -> list[str] | None:
        """Columns of the metadata, and that of the references.

        Raises:
            DataError: nothing to read, or a field that no head has.
        """
        names = super().columns()
        return None if names is None else [*names, REF]

    def adapted(self, needs: RowNeeds) -> MediaFolderReader | None:
        """Return the reader of rows with their lines, which parses what it needs itself in any case."""
        if needs.columns is not None:
            needs = replace(needs, columns=tuple(dict.fromkeys((*needs.columns, _NAME, *self.part))))
        return super().adapted(needs)

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split with references; None if it holds none.

        Raises:
            DataError: a file or line that cannot be read, or types that clash.
        """
        reader = copy.copy(self)
        reader.frames = "arrow"
        read = super(MediaFolderReader, reader).process
        known = self._known().types
        has_times, has_tracks = self.part[0] in known, self.part[2] in known
        rows = with_refs(task, read, self._places, self.name, segments=has_times, tracks=has_tracks)
        return None if rows is None else replace(rows, data=self._held(rows.to_arrow()))

    def _places(self, part: FilePart, rows: pa.Table) -> list[Place]:
        root = folder_of(part.path)
        columns = zip(*(values_of(rows, name) for name in (_NAME, *self.part)), strict=True)
        places = [with_track(_place(path, start, stop, root), stream) for path, start, stop, stream in columns]
        return looked_up(places, self._options())


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
class MediaFolderWriter(JsonlWriter):
    """Write folders of files with metadata; see the writers made of it."""

    name: str = "media_folder_writer"
    writes_without_rows: ClassVar[bool] = False
    takes_label: ClassVar[bool] = False
    #: Columns of the part of a file that a row means: its times and its track; see `part_columns`.
    part: ClassVar[tuple[str, ...]]
    #: Readers that make such rows, for the message about rows without files.
    readers: ClassVar[str]
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
        return [REF, BYTES, _NAME, *self.part]

    def columns_read(self) -> list[str] | None:
        """Those that name the file; others are written as rows have them in their lines."""
        return [*self.inputs()[1], *self.optional_inputs()] if self.fields is None else None

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name, self.readers)

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; those whose file cannot be fetched are left out, and go to quarantine.

        Raises:
            DataError: they cannot be written.
        """
        self._bad = []
        files = with_faults(super().process(task), self._bad, self.name)
        self._bad = []
        return files

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
            here = has_bytes(rows)
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
                    self.part[0]: (pa.float64(), [None if ref is None else ref.start_s for ref in refs]),
                    self.part[1]: (pa.float64(), [None if ref is None else ref.stop_s for ref in refs]),
                    self.part[2]: (pa.int64(), [None if ref is None else ref.stream for ref in refs]),
                },
            ).filter(pa.array([row not in faults for row in range(rows.num_rows)], pa.bool_()))
            with self.directory.writing(f"{inner}metadata.jsonl") as file:
                for piece in self._form.pieces(content) if content.num_rows else ():
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

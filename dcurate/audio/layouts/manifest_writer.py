"""The base of writers of rows that name recordings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.io.jsonl_writer import JsonlWriter
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.places import SAME_S, SUB
from dcurate.media.refs import BYTES, Ref, check_has_media
from dcurate.media.rows import MEDIA, without_media


@dataclass
class ManifestWriter(JsonlWriter):
    """A writer of rows that name recordings; see the writers made of it."""

    path_form: Literal["as read", "full"] = "as read"
    name: str = "manifest_writer"
    writes_without_rows: ClassVar[bool] = False
    takes_label: ClassVar[bool] = False

    #: Columns that say where the recording is, and are written as the reference has them.
    about: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.path_form not in ("as read", "full"):
            raise PipelineError(f"{self.name}: path_form={self.path_form!r} must be 'as read' or 'full'")
        super().__post_init__()

    def optional_inputs(self) -> list[str]:
        return [*MEDIA, *self.about]

    def columns_read(self) -> list[str] | None:
        """Those that name the recording; others are written as rows have them in their lines."""
        return [*self.inputs()[1], *self.optional_inputs()] if self.fields is None else None

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; those that name no recording are left out, and go to quarantine.

        Raises:
            DataError: they cannot be written.
        """
        rows, faults = self._prepared(DocumentBatch.given(task).to_arrow())
        kept = quarantined(task.with_data(rows), faults, self.name)
        files = super().process(kept)
        return replace(files, rejections=(*kept.rejections, *files.rejections))

    @abstractmethod
    def _prepared(self, rows: pa.Table) -> tuple[pa.Table, dict[int, MediaFault]]:
        """The rows with the columns of a manifest, and the faults of those that cannot be written, by number."""

    def _chosen(self, table: pa.Table) -> pa.Table:
        chosen = super()._chosen(table)
        for name in MEDIA:
            if name in table.column_names and name not in chosen.column_names:
                chosen = chosen.append_column(table.schema.field(name), table[name])
        return chosen

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        yield from super()._write(without_media(table), key, folder)

    def _lost(self, table: pa.Table) -> dict[str, int]:
        return super()._lost(without_media(table))


def track_fault(ref: Ref, layout: str) -> MediaFault | None:
    """Why a row cannot be written that means a track of a film; None for any other.

    Examples:
        >>> track_fault(Ref("a.mkv", stream=1), "a manifest").detail
        'the row means track 1 of a film, which a manifest cannot say; cut its sound out with CutAudio before'
        >>> track_fault(Ref("a.wav"), "a manifest") is None
        True
    """
    if ref.stream is None:
        return None
    detail = f"the row means track {ref.stream} of a film, which {layout} cannot say"
    return MediaFault("a track", f"{detail}; cut its sound out with CutAudio before")


def means(path: Any, ref: Ref) -> bool:
    """Whether a path in a manifest is that of the reference, written in full, from some folder on, or as a member.

    Examples:
        >>> ref = Ref("/data/shard.tar", "b/c.wav")
        >>> [means(path, ref) for path in ("b/c.wav", "b/c-sub2.wav", "shard.tar/b/c.wav", "c.wav", None)]
        [True, True, True, False, False]
        >>> means("./wav/a.wav", Ref("/data/wav/a.wav")), means("ata/a.wav", Ref("/data/a.wav"))
        (True, False)
    """
    if not isinstance(path, str) or not path:
        return False
    if ref.member is not None and not path.endswith(f"/{ref.member}"):
        return ref.member in (path, SUB.sub("", path))
    return path == full_path(ref) or _ends_with(full_path(ref), path)


def _ends_with(whole: str, path: str) -> bool:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    while ".." in parts[1:]:
        place = parts.index("..", 1)
        del parts[place - 1 : place + 1]
    return bool(parts) and whole.endswith("/" + "/".join(parts))


def full_path(ref: Ref) -> str:
    """The address of a recording; that of a member of an archive goes on behind the archive."""
    return ref.path if ref.member is None else f"{ref.path}/{ref.member}"


def is_same_time(before: Any, time_s: float | None) -> bool:
    """Whether a value of a manifest is a time, or no time where there is none."""
    if before is None or time_s is None:
        return before is None and time_s is None
    try:
        return abs(float(before) - time_s) < SAME_S
    except (TypeError, ValueError):
        return False


def duration_of(ref: Ref) -> float | None:
    """How long a segment lasts, in seconds; None if it has no end."""
    return None if ref.stop_s is None else round(ref.stop_s - (ref.start_s or 0.0), 9)


def check_names_recordings(columns: Sequence[str], name_field: str, stage: str) -> None:
    """Refuse rows that neither refer to recordings nor name them.

    Raises:
        PipelineError: the column does not exist.
    """
    if name_field not in columns:
        check_has_media([column for column in columns if column != BYTES], stage, "MediaReader or NemoManifestReader")

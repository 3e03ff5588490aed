"""`SplitSegments`: a row of each segment of recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import column_of
from dcurate.frames.document import DocumentBatch
from dcurate.frames.segments import repeated
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.refs import BYTES, NO_REFERENCE, REF, Ref, check_has_media, ref_array, refs_of
from dcurate.media.stage import with_columns

_TIMES = ("start_s", "stop_s")
#: Bytes of a column `bytes` that the segments of a row may hold together.
_HELD = 2**26


@dataclass
class SplitSegments(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row of each segment of recordings: a view, of which nothing is cut or decoded.

    The `media_ref` of a row means the part of the recording from ``start_s`` to ``stop_s``, and the row's id in later
    stages follows from them. Where the row meant a segment already, the times count from its start, and end at its end.
    Segments stay in the order of the list, and may overlap. Other columns are repeated; that of the lists goes.

    A row whose list is empty or null is dropped, with the reason ``no segments``. A segment that has no length, or
    begins before the recording, goes to quarantine as ``bad segment``; so do a row without a file, and, as ``too
    large``, a row whose bytes in the column ``bytes`` would be more than 64 MiB for all its segments together.

    Args:
        segments_field: the column with a list of structs with ``start_s`` and ``stop_s``, in seconds, as `FindSpeech`
            makes it.
        fields: further fields of the structs that become columns, such as that of the speaker.
        number_field: the column for the number of the segment in its row, from 0.
        duration_field: the column for the duration of the segment, in seconds.
        name: name of the stage.

    Raises:
        PipelineError: two of the columns have one name.
        DataError: the column holds something else, or not these fields.

    Examples:
        >>> rows = pa.table({"media_ref": ref_array([Ref("talk.wav")]), "speech_segments": [
        ...     [{"start_s": 0.5, "stop_s": 3.0}, {"start_s": 4.0, "stop_s": 9.0}]]})
        >>> split = SplitSegments().process(DocumentBatch(data=rows)).to_arrow()
        >>> [(ref["start_s"], ref["stop_s"]) for ref in split["media_ref"].to_pylist()], split["duration_s"].to_pylist()
        ([(0.5, 3.0), (4.0, 9.0)], [2.5, 5.0])
    """

    segments_field: str = "speech_segments"
    fields: Sequence[str] = ()
    number_field: str = "segment_number"
    duration_field: str = "duration_s"
    name: str = "split_segments"

    readers: ClassVar[str] = "MediaReader, WebDatasetReader or a reader of dcurate.audio"

    def __post_init__(self) -> None:
        if isinstance(self.fields, str) or not all(isinstance(name, str) for name in self.fields):
            raise PipelineError(f"{self.name}: fields={self.fields!r} must be a list of names")
        names = [*self.fields, self.number_field, self.duration_field]
        if len({*names, self.segments_field, REF}) < len(names) + 2:
            raise PipelineError(f"{self.name}: two of the columns {', '.join(names)}, {self.segments_field} are one")

    def inputs(self) -> Spec:
        return ["data"], [self.segments_field]

    def optional_inputs(self) -> list[str]:
        return [BYTES, REF]

    def outputs(self) -> Spec:
        return ["data"], [REF, *self.fields, self.number_field, self.duration_field]

    def dropped_columns(self) -> list[str]:
        return [self.segments_field]

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name, self.readers)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        given = DocumentBatch.given(task)
        check_has_media(given.get_columns(), self.name, self.readers)
        good = quarantined(given, self._faults(given.to_arrow()), self.name)
        table = good.to_arrow()
        lists = self._lists(table)
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        rejections = list(good.rejections)
        empty = table.filter(pa.array(counts == 0))
        if empty.num_rows:
            rejections.append(Rejection(self.name, "no segments", empty.num_rows, empty.nbytes, empty))
        split = given.with_data(self._split(table, lists, counts))
        kept = quarantined(split, _bad(split.to_arrow()), self.name)
        return replace(kept, rejections=(*rejections, *kept.rejections))

    def _lists(self, table: pa.Table) -> pa.Array:
        lists = column_of(table, self.segments_field)
        kind = lists.type
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        held = {field.name for field in kind.value_type} if is_list and pa.types.is_struct(kind.value_type) else set()
        if not held.issuperset([*_TIMES, *self.fields]) and not (pa.types.is_null(kind) or _is_blank(lists)):
            wanted = ", ".join([*_TIMES, *self.fields])
            raise DataError(
                f"{self.name}: column {self.segments_field!r} holds {kind}, not lists of structs of {wanted}; "
                "FindSpeech makes such a column"
            )
        return lists if held else pa.nulls(len(lists), pa.list_(pa.struct([(name, pa.float64()) for name in _TIMES])))

    def _split(self, table: pa.Table, lists: pa.Array, counts: Any) -> pa.Table:
        rows = repeated(table.drop_columns([self.segments_field]), counts)
        values = lists.flatten()
        fields = {field.name: pc.struct_field(values, [field.name]) for field in values.type}
        refs = refs_of(rows) if REF in rows.column_names else [None] * rows.num_rows
        times = zip(*(fields[name].cast(pa.float64()).to_pylist() for name in _TIMES), strict=True)
        views = [_view(ref, *ends) for ref, ends in zip(refs, times, strict=True)]
        added: dict[str, Any] = {REF: ref_array(views, segments=True)}
        added |= {name: fields[name] if name in fields else pa.nulls(rows.num_rows) for name in self.fields}
        added[self.number_field] = pa.array(
            np.arange(rows.num_rows) - np.repeat(np.cumsum(counts) - counts, counts), pa.int64()
        )
        added[self.duration_field] = pa.array(
            [None if view.stop_s is None else view.stop_s - (view.start_s or 0.0) for view in views], pa.float64()
        )
        return with_columns(rows, pa.table(added))

    def _faults(self, table: pa.Table) -> dict[int, MediaFault]:
        """Rows without a file, and those whose bytes would be repeated too often."""
        lists = self._lists(table)
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
        refs = refs_of(table) if REF in table.column_names else [None] * table.num_rows
        held = pc.binary_length(table[BYTES]).to_pylist() if BYTES in table.column_names else [None] * table.num_rows
        faults = {}
        for row, (ref, size, count) in enumerate(zip(refs, held, counts, strict=True)):
            if ref is None and size is None:
                faults[row] = MediaFault(NO_REFERENCE, "the row has no file")
            elif size is not None and size * count > _HELD:
                faults[row] = MediaFault("too large", f"{count} segments of {size:,} bytes in the column {BYTES}")
        return faults


def _view(ref: Ref | None, start_s: float | None, stop_s: float | None) -> Ref:
    """The part of a file from one time to another; a row with bytes of its own needs no path."""
    whole = Ref("") if ref is None else ref
    base, end = whole.start_s or 0.0, whole.stop_s
    stop = end if stop_s is None else base + stop_s if end is None else min(end, base + stop_s)
    return whole._replace(start_s=base + (start_s or 0.0), stop_s=stop)


def _bad(rows: pa.Table) -> dict[int, MediaFault]:
    faults = {}
    for row, ref in enumerate(refs_of(rows)):
        start_s, stop_s = (None, None) if ref is None else (ref.start_s, ref.stop_s)
        if start_s is None or not 0 <= start_s < 2**40 or (stop_s is not None and not start_s < stop_s < 2**40):
            faults[row] = MediaFault("bad segment", f"from {start_s} to {stop_s} s")
    return faults


def _is_blank(lists: pa.Array) -> bool:
    """Whether no row has a segment, so that the type of one is not known."""
    kind = lists.type
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and len(lists.flatten()) == 0

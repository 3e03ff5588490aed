"""Parts of a recording or a film in a column of lists, and a row for each: a view, of which nothing is cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.errors import DataError, PipelineError
from dcurate.frames.columns import column_of, python_values
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.media.refs import BYTES, REF, has_tracks, ref_array, refs_of
from dcurate.media.stage import with_columns
from dcurate.rows import columns_listed

#: A segment, a word, a window, a shot or a clip: a structure with `start` and `end` in seconds.
Part = dict[str, Any]


class PartFields(NamedTuple):
    """Columns of `part_rows`.

    Args:
        parts: the column of lists; it is not in the new rows.
        part: the new column of parts.
        number: the new column of their numbers, from 0.
    """

    parts: str
    part: str
    number: str


def part_rows(task: DocumentBatch, fields: PartFields, stage: str, reason: str) -> DocumentBatch:
    """Make a row of each part, whose `media_ref` refers to it by its times.

    Args:
        task: rows with a column `media_ref` and one of lists.
        fields: names of columns.
        stage: name of the stage.
        reason: why a row without parts is dropped.

    Raises:
        DataError: the column does not hold parts.
    """
    table = DocumentBatch.given(task).to_arrow()
    kind = type_of_parts(table, fields.parts)
    answers = [answer if answer else "none" for answer in parts_of(table, fields.parts)]
    kept = quarantined(task, answers, stage)
    lists: list[Any] = [answer for answer in answers if not isinstance(answer, MediaFault)]
    without = np.array([not isinstance(answer, list) for answer in lists], np.bool_)
    rejections = kept.rejections
    if without.any():
        gone = kept.to_arrow().filter(pa.array(without))
        rejections += (Rejection(stage, reason, gone.num_rows, gone.nbytes, gone),)
    lists = [parts if isinstance(parts, list) else [] for parts in lists]
    rows = np.repeat(np.arange(len(lists)), [len(parts) for parts in lists])
    views = [
        None if ref is None else view_of(ref, part["start"], part["end"])
        for ref, parts in zip(refs_of(kept.to_arrow()), lists, strict=True)
        for part in parts
    ]
    added = {
        "media_ref": ref_array(views, segments=True, tracks=has_tracks(table)),
        fields.part: pa.array([part for parts in lists for part in parts], kind),
        fields.number: pa.array([number for parts in lists for number in range(len(parts))], pa.int64()),
    }
    whole = kept.to_arrow().drop_columns([fields.parts]).take(pa.array(rows, pa.int64()))
    return replace(kept.with_data(with_columns(whole, pa.table(added))), rejections=rejections)


def check_refers(columns: Sequence[str], stage: str) -> None:
    """Refuse rows without references, which alone can say what part of a file is meant.

    Args:
        columns: names of the columns.
        stage: name of the stage that refers to parts of files.

    Raises:
        PipelineError: the column `media_ref` is missing.
    """
    if REF not in columns:
        beside = f" beside {BYTES!r}" if BYTES in columns else ""
        raise PipelineError(
            f"stage {stage!r} needs a column {REF!r}{beside}, for rows that refer to parts of files, but the rows have "
            f"{columns_listed(columns)}; read the files with MediaReader or another reader of references"
        )


def view_of(ref: Any, start: float, end: float) -> Any:
    """A reference to a part of a recording, or of a segment of one.

    Examples:
        >>> from dcurate.media.refs import Ref
        >>> view_of(Ref("a.wav", start_s=10.0, stop_s=12.0), 1.0, 5.0).stop_s
        12.0
    """
    first = ref.start_s or 0.0
    stop = first + end if ref.stop_s is None else min(first + end, ref.stop_s)
    return ref._replace(start_s=first + start, stop_s=stop)


def type_of_parts(table: pa.Table, name: str) -> pa.StructType:
    """The type of a segment in a column of segments.

    Raises:
        DataError: the column does not hold segments.
    """
    kind = column_of(table, name).type
    if pa.types.is_null(kind):
        return pa.struct([("start", pa.float64()), ("end", pa.float64())])
    part = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if part is not None and pa.types.is_null(part):
        return pa.struct([("start", pa.float64()), ("end", pa.float64())])
    fields = {field.name: field.type for field in part} if part is not None and pa.types.is_struct(part) else {}
    times = [fields.get("start"), fields.get("end")]
    if not all(time is not None and (pa.types.is_floating(time) or pa.types.is_integer(time)) for time in times):
        raise DataError(f"column {name!r} holds {kind}, not lists of structures with start and end in seconds")
    return part


def parts_of(table: pa.Table, name: str) -> list[list[Part] | MediaFault | None]:
    """The segments of each row, or what is wrong with them; null stays None."""
    return [_checked(segments) for segments in python_values(column_of(table, name))]


def _checked(segments: list[Part | None] | None) -> list[Part] | MediaFault | None:
    if segments is None:
        return None
    for number, segment in enumerate(segments):
        start, end = (None, None) if segment is None else (segment["start"], segment["end"])
        if start is None or end is None or not (math.isfinite(start) and math.isfinite(end)) or end < start:
            return MediaFault("bad segments", f"segment {number} is from {start} to {end} s")
    return [segment for segment in segments if segment is not None]

"""How the rows of files with faults go to quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dcurate.core.batch import FileGroup, Rejection
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.redaction import legible

#: Column of rows in quarantine that says more than the reason.
FAULT = "media_fault"


def quarantined(
    batch: DocumentBatch, faults: Mapping[int, MediaFault] | Sequence[MediaFault | object], stage: str
) -> DocumentBatch:
    """Take rows with faults out of a batch; they go to quarantine, each with its reason.

    The rows keep their columns, `media_ref` among them, so that one can look at the file, and get the fault's detail
    in a column ``media_fault``.

    Args:
        batch: the rows.
        faults: the fault of each row that has one, by the row's number; or one object a row, of which those that are
            no `MediaFault` count as good.
        stage: name of the stage.

    Examples:
        >>> batch = DocumentBatch(data=pa.table({"file_name": ["a.png", "b.png"]}))
        >>> kept = quarantined(batch, {1: MediaFault("truncated", "no end")}, "image_info")
        >>> kept.to_arrow()["file_name"].to_pylist(), kept.rejections[0].reason, kept.rejections[0].fault
        (['a.png'], 'truncated', True)
    """
    pairs = faults.items() if isinstance(faults, Mapping) else enumerate(faults)
    faulty = {row: fault for row, fault in pairs if isinstance(fault, MediaFault)}
    table = batch.to_arrow()
    if not faulty:
        return batch.with_data(table)
    good = np.ones(table.num_rows, dtype=np.bool_)
    good[list(faulty)] = False
    reasons: dict[str, list[int]] = {}
    for row in sorted(faulty):
        reasons.setdefault(faulty[row].reason, []).append(row)
    rejections = []
    for reason, rows in reasons.items():
        gone = table.take(pa.array(rows, pa.int64()))
        details = pa.array([legible(faulty[row].detail) for row in rows], pa.string())
        if FAULT in gone.column_names:
            gone = gone.drop_columns([FAULT])
        gone = gone.append_column(FAULT, details)
        rejections.append(Rejection(stage, reason, gone.num_rows, gone.nbytes, gone, fault=True))
    return replace(batch.with_data(table.filter(pa.array(good))), rejections=tuple(rejections))


def with_faults(files: FileGroup, faulty: Iterable[tuple[pa.Table, Mapping[int, MediaFault]]], stage: str) -> FileGroup:
    """Return files with the rejections of rows that their writer has left out.

    Args:
        files: what was written.
        faulty: tables of rows, with the faults of some of them.
        stage: name of the writer.

    Examples:
        >>> rows = pa.table({"file_name": ["a.wav"]})
        >>> with_faults(FileGroup(parts=()), [(rows, {0: MediaFault("missing", "")})], "writer").rejections[0].reason
        'missing'
    """
    lost = [quarantined(DocumentBatch(data=rows), faults, stage).rejections for rows, faults in faulty]
    return replace(files, rejections=(*files.rejections, *(rejection for some in lost for rejection in some)))

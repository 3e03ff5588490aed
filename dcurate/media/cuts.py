"""Files that are cut out of others: their names, and what they were cut out of."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dcurate.media.reference import Ref
from dcurate.media.refs import REF, refs_of
from dcurate.media.stage import with_columns

#: Column that says what a file was cut out of.
SOURCE = "source_ref"


def cut_name(name: str | None, ref: Ref | None, suffix: str, default: str) -> str:
    """Return the name of a file that is cut out of another: that of the other, with the times of the segment.

    Args:
        name: name of the other; that of the reference if None.
        ref: reference to the segment.
        suffix: suffix of the new file.
        default: name where there is none.

    Examples:
        >>> cut_name(None, Ref("talks/talk.mp3", start_s=1.5, stop_s=4.0), "flac", "sound")
        'talk-1.5-4.flac'
    """
    path = name or (ref.member or ref.path if ref is not None else "") or default
    stem = path[: -len(ending) - 1] if "/" not in (ending := path.rpartition(".")[2]) and "." in path else path
    stem = stem.rpartition("/")[2]
    if ref is not None and ref.stream is not None:
        stem += f"-track{ref.stream}"
    if ref is None or not ref.is_segment:
        return f"{stem}.{suffix}"
    stop = "" if ref.stop_s is None else f"{ref.stop_s:.6g}"
    return f"{stem}-{ref.start_s or 0:.6g}-{stop}.{suffix}"


def with_cut_names(rows: pa.Table, suffixes: Sequence[str], default: str) -> pa.Table:
    """Return rows whose files were cut out of others: `media_ref` renamed to ``source_ref``, and new ``file_name``.

    Args:
        rows: rows with the new files in ``bytes``.
        suffixes: suffix of each new file.
        default: name of files without one.
    """
    has_refs = REF in rows.column_names
    refs = refs_of(rows) if has_refs else [None] * rows.num_rows
    named = rows["file_name"].to_pylist() if "file_name" in rows.column_names else [None] * rows.num_rows
    names = [cut_name(*file, default) for file in zip(named, refs, suffixes, strict=True)]
    rows = with_columns(rows, pa.table({"file_name": pa.array(names, pa.string())}))
    if has_refs:
        kept = rows[REF]
        rows = with_columns(rows.drop_columns([REF]), pa.table({SOURCE: kept}))
    return rows

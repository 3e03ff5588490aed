"""References to files of media, and how their bytes are fetched where a task needs them.

A row holds a reference in the column `media_ref`, not the bytes: shuffles, deduplication and filters on metadata never
move pixels. `fetch` reads the bytes of some rows, within the task that needs them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from fsspec.implementations.local import LocalFileSystem

from dcurate.errors import DataError, PipelineError
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.directory import found_by_name
from dcurate.media.faults import FAULT, quarantined
from dcurate.media.members import content_of, is_sequential
from dcurate.media.names import container_of
from dcurate.media.ranges import CACHE, Place, from_store, from_stream, version_of
from dcurate.media.reference import MEDIA_REF, SEGMENT_REF, TRACK_REF, Ref, type_of_values
from dcurate.rows import columns_listed

__all__ = [
    "BYTES",
    "FAULT",
    "MEDIA_REF",
    "REF",
    "MediaError",
    "MediaFault",
    "Ref",
    "fetch",
    "fetched",
    "has_media",
    "quarantined",
    "ref_array",
    "refs_of",
    "with_columns",
]

#: The fields that each column of references has.
_FIELDS = MEDIA_REF.names
#: The column of references, and the column that rows may have instead, with the bytes themselves.
REF, BYTES = "media_ref", "bytes"

#: The fault of a row that has no file.
NO_REFERENCE = "no reference"
#: Bytes of the largest file that is fetched.
LARGEST_FILE = 2**28
#: Bytes that `fetched` holds at a time, about.
HELD = 2**26
#: Bytes that a container may store around a file, besides those of base64.
_AROUND = 2**20
#: Bytes that a file of unknown size counts as.
_UNKNOWN = 2**20


def ref_array(refs: Sequence[Ref | None], *, segments: bool = False, tracks: bool = False) -> pa.Array:
    """Return references as a column. It has fields for `start_s`, `stop_s` and `stream` only where a reference does.

    Args:
        refs: reference of each row, or None for a row without a file.
        segments: whether the column has those for times in any case, so that all batches of a stage have one type.
        tracks: whether it has all of them.

    Examples:
        >>> ref_array([Ref("a.png"), None]).type == MEDIA_REF
        True
    """
    values = [None if ref is None else ref.value for ref in refs]
    return pa.array(values, _least_type(type_of_values(values), segments, tracks))


def _least_type(kind: pa.StructType, segments: bool, tracks: bool) -> pa.StructType:
    if tracks or kind == TRACK_REF:
        return TRACK_REF
    return SEGMENT_REF if segments else kind


def has_bytes(rows: pa.Table) -> list[bool]:
    """Whether each row has its file in the column ``bytes``.

    Examples:
        >>> has_bytes(pa.table({"bytes": [b"a", None]})), has_bytes(pa.table({"n": [1]}))
        ([True, False], [False])
    """
    here: list[bool] = rows[BYTES].is_valid().to_pylist() if BYTES in rows.column_names else [False] * rows.num_rows
    return here


def refs_of(rows: pa.Table) -> list[Ref | None]:
    """Return the references of rows; None for a row without.

    Raises:
        DataError: the column `media_ref` has another type.

    Examples:
        >>> refs_of(pa.table({"media_ref": ref_array([Ref("a.tar", "x", 512, 3), Ref("b.wav", start_s=1.5)])}))[0].size
        3
    """
    column = rows[REF].combine_chunks()
    if not pa.types.is_struct(column.type) or not {field.name for field in column.type}.issuperset(_FIELDS):
        raise DataError(
            f"column {REF!r} holds {column.type}, not {MEDIA_REF}; read the files with MediaReader or "
            "WebDatasetReader, or make it with dcurate.media.refs.ref_array"
        )
    places = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
    parts = [places[name].to_pylist() for name in Ref._fields if name in places]
    if len(parts) == len(_FIELDS):
        return [None if path is None else Ref(path, *fields) for path, *fields in zip(*parts, strict=True)]
    names = [name for name in Ref._fields if name in places]
    return [
        None if path is None else _segment(dict(zip(names, (path, *fields), strict=True)))
        for path, *fields in zip(*parts, strict=True)
    ]


def _segment(values: Mapping[str, Any]) -> Ref:
    """A reference of which a reader may have made whole numbers of the seconds, or a float of the stream."""
    seconds = {name: None if (time := values.get(name)) is None else float(time) for name in ("start_s", "stop_s")}
    stream = values.get("stream")
    return Ref(**{**values, **seconds, "stream": None if stream is None else int(stream)})


def with_columns(rows: pa.Table, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> pa.Table:
    """The rows with columns added or replaced, each given as the name of its type and its values.

    Examples:
        >>> with_columns(pa.table({"n": [1]}), {"bytes": ("large_binary", [None])}).schema.field("bytes").type
        DataType(large_binary)
    """
    for name, (kind, values) in columns.items():
        column = pa.array(values, pa.type_for_alias(kind))
        place = rows.schema.get_field_index(name)
        rows = rows.append_column(name, column) if place < 0 else rows.set_column(place, name, column)
    return rows


def has_media(rows: pa.Table) -> bool:
    """Whether the rows refer to files or carry their bytes."""
    return REF in rows.column_names or BYTES in rows.column_names


def has_segments(rows: pa.Table) -> bool:
    """Whether the references of rows may be to segments."""
    kind = rows.schema.field(REF).type if REF in rows.column_names else None
    return kind is not None and pa.types.is_struct(kind) and kind.get_field_index("start_s") >= 0


def has_tracks(rows: pa.Table) -> bool:
    """Whether the references of rows may be to tracks."""
    return has_segments(rows) and rows.schema.field(REF).type.get_field_index("stream") >= 0


def track_of(rows: pa.Table, numbers: Sequence[int]) -> int | None:
    """The number of the track that rows of one file mean, as `open_files` gives them; None for no track in particular.

    Examples:
        >>> track_of(pa.table({"media_ref": ref_array([Ref("a.mp4"), Ref("a.mp4", stream=2)])}), [1])
        2
    """
    ref = refs_of(rows.select([REF]).slice(numbers[0], 1))[0] if has_tracks(rows) else None
    return None if ref is None else ref.stream


def fetch(
    rows: pa.Table, *, limit: int = LARGEST_FILE, storage_options: Mapping[str, Any] | None = None
) -> list[bytes | MediaFault]:
    """Return the bytes of each row's file, or why they cannot be had; in the order of the rows.

    Bytes in the column ``bytes`` are taken from there, others by the reference in `media_ref`. Ranges of one file that
    lie close together are read at once, each once; a cache of 64 MiB a process keeps what stages of the same task ask
    for again. All of it is in memory at once: call it with few rows, or use `fetched`.

    Args:
        rows: a table with one of the columns.
        limit: the fault of a larger file is ``"too large"``, and it is not read.
        storage_options: for fsspec.

    Raises:
        DataError: no such column, or a store does not answer. A file that is gone is a fault of its rows,
            ``"missing"``.

    Examples:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"0123456789"), file.flush()
        ...     refs = ref_array([Ref(file.name), Ref(file.name, "part", 2, 3), Ref("/no/such/file")])
        ...     whole, part, gone = fetch(pa.table({"media_ref": refs}))
        >>> whole, part, gone.reason
        (b'0123456789', b'234', 'missing')
    """
    if not has_media(rows):
        raise DataError(
            f"the rows have neither a column {REF!r} nor {BYTES!r}, but {columns_listed(rows.column_names)}; "
            "read the files with MediaReader or WebDatasetReader"
        )
    here = rows[BYTES].to_pylist() if BYTES in rows.column_names else [None] * rows.num_rows
    contents: list[bytes | MediaFault] = [_within(data, limit) for data in here]
    wanted = [row for row, data in enumerate(here) if data is None]
    if wanted and REF in rows.column_names:
        refs = refs_of(rows.select([REF]).take(pa.array(wanted, pa.int64())))
        for row, data in zip(wanted, _fetched(refs, limit, storage_options or {}), strict=True):
            contents[row] = data
    return contents


def check_has_media(columns: Sequence[str], stage: str, readers: str = "MediaReader or WebDatasetReader") -> None:
    """Refuse rows that neither refer to files nor carry their bytes.

    Args:
        columns: names of the columns.
        stage: name of the stage that needs files.
        readers: readers that make such rows, for the message.

    Raises:
        PipelineError: the column does not exist.
    """
    if REF not in columns and BYTES not in columns:
        raise PipelineError(
            f"stage {stage!r} needs a column {REF!r} or {BYTES!r}, but the rows have {columns_listed(columns)}; "
            f"read the files with {readers}"
        )


def fetched(
    rows: pa.Table,
    *,
    limit: int = LARGEST_FILE,
    storage_options: Mapping[str, Any] | None = None,
    held: int = HELD,
) -> Iterator[tuple[int, list[bytes | MediaFault]]]:
    """Yield the bytes of rows in runs of about `held` bytes at most, each with the number of its first row.

    Examples:
        >>> rows = pa.table({"bytes": [b"one", b"two", b"three"]})
        >>> list(fetched(rows, held=6))
        [(0, [b'one', b'two']), (2, [b'three'])]
    """
    start = size = 0
    for row, nbytes in enumerate(_sizes(rows)):
        if row > start and size + nbytes > held:
            yield start, fetch(rows.slice(start, row - start), limit=limit, storage_options=storage_options)
            start, size = row, 0
        size += nbytes
    if start < rows.num_rows:
        yield start, fetch(rows.slice(start), limit=limit, storage_options=storage_options)


def _sizes(rows: pa.Table) -> list[int]:
    """The bytes that each row's file takes, about."""
    sizes: list[int | None] = [None] * rows.num_rows
    if REF in rows.column_names:
        sizes = [None if ref is None else ref.size for ref in refs_of(rows)]
    if BYTES in rows.column_names:
        here = pc.binary_length(rows[BYTES]).to_pylist()
        sizes = [size if length is None else length for size, length in zip(sizes, here, strict=True)]
    return [_UNKNOWN if size is None else size for size in sizes]


def _within(data: bytes | None, limit: int) -> bytes | MediaFault:
    if data is None:
        return MediaFault(NO_REFERENCE, "the row has neither bytes nor a reference to them")
    return data if len(data) <= limit else _too_large(len(data), limit)


def _too_large(size: int, limit: int) -> MediaFault:
    return MediaFault("too large", f"{size:,} bytes, more than the limit of {limit:,}")


def _fetched(refs: Sequence[Ref | None], limit: int, options: Mapping[str, Any]) -> list[bytes | MediaFault]:
    contents: list[bytes | MediaFault] = [_within(None, limit)] * len(refs)
    by_path: dict[str, list[int]] = defaultdict(list)
    for row, ref in enumerate(refs):
        if ref is not None:
            by_path[ref.path].append(row)
    for path, rows in by_path.items():
        wanted = [ref.file for ref in (refs[row] for row in rows) if ref is not None]
        for row, data in zip(rows, _of_file(path, wanted, limit, options), strict=True):
            contents[row] = data
    return contents


def _of_file(path: str, refs: Sequence[Ref], limit: int, options: Mapping[str, Any]) -> list[bytes | MediaFault]:
    """The bytes that references into one file mean."""
    try:
        store, inner = open_store(path, options)
    except DataError as error:
        return [MediaFault("missing", str(error))] * len(refs)
    with storage_errors("read", path):
        try:
            version = version_of(store, inner)
        except FileNotFoundError:
            return [MediaFault("missing", f"file {path!r} does not exist")] * len(refs)
        contents: dict[Ref, bytes | MediaFault] = {}
        ranges: dict[Ref, Place] = {}
        kind = container_of(path)
        for ref in dict.fromkeys(refs):
            located = found_by_name(store, inner, version, ref) if ref.is_named_only else ref
            if isinstance(located, MediaFault):
                contents[ref] = located
                continue
            kept = CACHE.get((ref, version))
            offset = located.offset or 0
            place = Place(offset, version.size - offset if located.size is None else located.size)
            if kept is not None:
                contents[ref] = kept if len(kept) <= limit else _too_large(len(kept), limit)
            elif place.size > (limit if ref.member is None or kind in ("", "tar") else 2 * limit + _AROUND):
                contents[ref] = _too_large(place.size, limit)
            elif place.offset < 0 or place.size < 0:
                contents[ref] = MediaFault("bad reference", f"offset {place.offset}, size {place.size}")
            else:
                ranges[ref] = place
        sequential = {ref: place for ref, place in ranges.items() if is_sequential(path, ref.member)}
        direct = {ref: place for ref, place in ranges.items() if ref not in sequential}
        beyond = {ref: b"" for ref, place in direct.items() if place.offset >= version.size > 0 and place.size}
        direct = {ref: place for ref, place in direct.items() if ref not in beyond}  # stores refuse such ranges
        raw = {
            **beyond,
            **(from_stream(store, inner, version, path, sequential) if sequential else {}),
            **(from_store(store, inner, direct, isinstance(store, LocalFileSystem)) if direct else {}),
        }
    for ref, data in raw.items():
        if len(data) < ranges[ref].size:
            contents[ref] = MediaFault(
                "truncated", f"{len(data):,} of {ranges[ref].size:,} bytes are there: {path!r} is cut or was changed"
            )
            continue
        try:
            content = content_of(path, ref.member, data, limit)
        except MediaError as error:
            contents[ref] = error.fault
            continue
        contents[ref] = content
        CACHE.put((ref, version), content)
    return [contents[ref] for ref in refs]

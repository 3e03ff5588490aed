"""The first and last bytes of files, for stages that read headers: ranges of files stored as they are, else all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from dcurate.errors import DataError
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.isolate.errors import MediaFault
from dcurate.media.members import is_sequential
from dcurate.media.names import container_of
from dcurate.media.ranges import version_of
from dcurate.media.refs import BYTES, HELD, LARGEST_FILE, REF, Ref, fetch, fetched, has_bytes, ref_array, refs_of

#: Bytes of a head. A file of up to twice as many is fetched whole.
HEAD = 2**16


class File(NamedTuple):
    """A file of a row, or the start of it.

    Args:
        data: all bytes of the file, or the first.
        size: size of the file, in bytes.
        start_s, stop_s: the segment of it that the row means, as in `Ref`; None for the start and the end of the file.
        tail: the last bytes of a file of which only the first are in `data`, where a stage needs them.

    Examples:
        >>> File(b"RIFF....WAVE", 44_100).size
        44100
    """

    data: bytes
    size: int
    start_s: float | None = None
    stop_s: float | None = None
    tail: bytes = b""


def heads(
    rows: pa.Table,
    enough: Callable[[bytes], bool],
    *,
    limit: int = LARGEST_FILE,
    head_limit: int | None = LARGEST_FILE,
    tails: Callable[[bytes], bool] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[int, list[File | MediaFault]]]:
    """Yield the first 64 KiB of the file of each row, in runs of rows, each with the number of its first row.

    Files within compressed archives, files of up to 128 KiB, and those whose head is not enough are fetched whole.

    Args:
        rows: a table as `dcurate.media.refs.fetch` takes it.
        enough: whether the first bytes of a file are all that is needed of it.
        limit: size of the largest file that is fetched whole, in bytes; the fault of a larger one is ``"too large"``.
        head_limit: size of the largest file of which a head is read; None for any.
        tails: whether the last 64 KiB are needed, too, by the first; None if they never are.
        storage_options: for fsspec.

    Raises:
        DataError: as `fetch`.

    Examples:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(bytes(200_000)), file.flush()
        ...     rows = pa.table({"media_ref": ref_array([Ref(file.name, None, 0, 200_000)])})
        ...     [(start, [head])] = heads(rows, lambda data: True)
        ...     [(start, [whole])] = heads(rows, lambda data: False)
        >>> len(head.data), head.size, len(whole.data)
        (65536, 200000, 200000)
    """
    media = rows.select([name for name in (REF, BYTES) if name in rows.column_names])
    for start in range(0, rows.num_rows, HELD // HEAD):
        some = media.slice(start, HELD // HEAD)
        results: dict[int, File] = {}
        answered: dict[int, File | MediaFault] = {}
        short = _with_head(some, head_limit, storage_options or {})
        if short:
            first = pa.table({REF: ref_array([Ref(ref.path, None, ref.offset or 0, HEAD) for ref in short.values()])})
            answers = fetch(first, storage_options=storage_options)
            for (row, ref), data in zip(short.items(), answers, strict=True):
                if isinstance(data, bytes) and enough(data):
                    results[row] = File(data, ref.size or 0)
            ended = [row for row, file in results.items() if tails is not None and tails(file.data)]
            results.update(_with_tails({row: (short[row], results[row]) for row in ended}, storage_options))
        wholly = [row for row in range(some.num_rows) if row not in results]
        remaining = some.take(pa.array(wholly, pa.int64())) if results else some
        for begin, files in fetched(remaining, limit=limit, storage_options=storage_options):
            for place, data in enumerate(files, begin):
                answered[wholly[place]] = data if isinstance(data, MediaFault) else File(data, len(data))
        answered.update(results)
        yield start, [answered[row] for row in range(some.num_rows)]


def _with_tails(files: Mapping[int, tuple[Ref, File]], options: Mapping[str, Any] | None) -> dict[int, File]:
    """The files with their last bytes; those that cannot be fetched have none, as if the file ended there."""
    if not files:
        return {}
    refs = [Ref(ref.path, None, (ref.offset or 0) + file.size - HEAD, HEAD) for ref, file in files.values()]
    tails = fetch(pa.table({REF: ref_array(refs)}), storage_options=options)
    return {
        row: file._replace(tail=tail if isinstance(tail, bytes) else b"")
        for (row, (_, file)), tail in zip(files.items(), tails, strict=True)
    }


def _with_head(rows: pa.Table, limit: int | None, options: Mapping[str, Any]) -> dict[int, Ref]:
    """The rows whose file can be read from its start, and is large enough for that."""
    if REF not in rows.column_names:
        return {}
    refs = refs_of(rows.select([REF]))
    here = has_bytes(rows)
    wanted = {
        row: ref
        for row, ref in enumerate(refs)
        if ref is not None
        and not here[row]
        and not ref.is_named_only
        and (ref.size or 0) > 2 * HEAD
        and (limit is None or (ref.size or 0) <= limit)
        and (ref.offset or 0) >= 0
        if container_of(ref.path) in ("", "tar") and not is_sequential(ref.path, ref.member)
    }
    ends = _sizes_of({ref.path for ref in wanted.values()}, options)
    return {row: ref for row, ref in wanted.items() if (ref.offset or 0) + (ref.size or 0) <= ends[ref.path]}


def _sizes_of(paths: set[str], options: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of files; 0 of those that are not there."""
    sizes = {}
    for path in paths:
        sizes[path] = 0
        with storage_errors("read", path), suppress(DataError, FileNotFoundError):
            sizes[path] = version_of(*open_store(path, options)).size
    return sizes

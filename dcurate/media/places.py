"""From what a manifest says of a recording to a reference to it."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from dcurate.core.batch import FileGroup, FilePart
from dcurate.errors import DataError
from dcurate.frames.document import DocumentBatch
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.isolate.errors import MediaFault
from dcurate.media.directory import found_by_name
from dcurate.media.faults import quarantined
from dcurate.media.names import container_of, within
from dcurate.media.ranges import Version, version_of
from dcurate.media.refs import REF, Ref, ref_array

#: What a row of a manifest refers to: nothing, or nothing that can be used.
Place: TypeAlias = Ref | MediaFault | None
#: The end of the name of a segment in a tarred manifest of NeMo, whose member is named without it.
SUB = re.compile(r"-sub\d+(?=(\.\w+)?$)")
#: Seconds by which two times may differ that mean the same.
SAME_S = 1e-6


def folder_of(path: str) -> str:
    """The folder that a file is in.

    Examples:
        >>> folder_of("/data/manifest.json"), folder_of("s3://sounds/manifest.json")
        ('/data', 's3://sounds')
    """
    return path.rpartition("/")[0] or "/"


def ref_at(path: Any, root: str) -> Ref | MediaFault:
    """The reference to a recording that a manifest names; a name that goes on behind that of an archive is a member.

    Args:
        path: full path, or one relative to `root`.
        root: folder or address that it must lie in.

    Examples:
        >>> ref_at("wav/a.wav", "/data").path, ref_at("shard.tar/a.wav", "/data")[:2]
        ('/data/wav/a.wav', ('/data/shard.tar', 'a.wav'))
        >>> ref_at("/etc/passwd", "/data").reason
        'outside of root'
    """
    if not isinstance(path, str) or not path:
        return MediaFault("no path", f"the row names no recording but {path!r}")
    full_path = within(root, path)
    if full_path is None:
        return MediaFault("outside of root", f"{path!r} does not lie in {root!r}; name a folder that it is in: root=")
    parts = full_path.split("/")
    for number, part in enumerate(parts[:-1], 1):
        if container_of(part) in ("tar", "zip"):
            return Ref("/".join(parts[:number]), "/".join(parts[number:]))
    return Ref(full_path)


def segment_at(start: Any, duration: Any) -> tuple[float, float | None] | MediaFault:
    """When a segment begins and ends, in seconds, by its start and duration; without a duration it has no end.

    Examples:
        >>> segment_at(1.5, 2), segment_at("0.5", None), segment_at(-1, 2).reason
        ((1.5, 3.5), (0.5, None), 'bad segment')
    """
    start_s, duration_s = _seconds(start), _seconds(duration)
    if start_s is None or (duration_s is None and duration is not None) or not _is_segment(start_s, duration_s):
        return MediaFault("bad segment", f"it begins at {start!r} s and lasts {duration!r} s")
    return start_s, None if duration_s is None else start_s + duration_s


def with_times(ref: Ref | MediaFault, times: tuple[float | None, float | None] | MediaFault) -> Ref | MediaFault:
    """Return the segment of a file, or the fault of either.

    Examples:
        >>> with_times(Ref("a.wav"), (1.5, None)).start_s, with_times(Ref("a.wav"), segment_at(-1, 2)).reason
        (1.5, 'bad segment')
    """
    if isinstance(ref, MediaFault):
        return ref
    if isinstance(times, MediaFault):
        return times
    return ref._replace(start_s=times[0], stop_s=times[1])


def _is_segment(start_s: float, duration_s: float | None) -> bool:
    return start_s >= 0 and (duration_s is None or duration_s > 0)


def with_track(place: Place, stream: Any) -> Place:
    """The place as one of a track of a film, if there is one.

    Args:
        place: where a file is.
        stream: number of the track, from 0; None for all of the file.

    Examples:
        >>> with_track(Ref("a.mkv"), 2).stream, with_track(Ref("a.mkv"), -1).reason
        (2, 'bad track')
    """
    if stream is None or not isinstance(place, Ref):
        return place
    if isinstance(stream, bool) or not isinstance(stream, int | float) or not 0 <= stream < 2**31 or stream % 1:
        return MediaFault("bad track", f"its number is {stream!r}, and not a whole number from 0 on")
    return place._replace(stream=int(stream))


def _seconds(value: Any) -> float | None:
    """A finite number of seconds; None for what is not one."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def looked_up(places: Sequence[Place], options: Mapping[str, Any] | None) -> list[Place]:
    """The references with the sizes of files on disk and the ranges of members of archives, or why there are none.

    A member that is not there is looked for without the end of its name that NeMo gives to segments (``-sub1``). A
    file of its own on another store is not asked for.

    Args:
        options: options of fsspec for the stores.

    Raises:
        DataError: a store does not answer.

    Examples:
        >>> looked_up([Ref("/no/such/file.wav"), None], None)[0].reason
        'missing'
    """
    opened: dict[str, tuple[Any, str, Version | None]] = {}
    known: dict[Ref, Place] = {}
    for place in places:
        if isinstance(place, Ref) and place.file not in known:
            known[place.file] = _looked_up(place.file, opened, options or {})
    return [_at_times(known[place.file], place) if isinstance(place, Ref) else place for place in places]


def _at_times(known: Place, place: Ref) -> Place:
    if not isinstance(known, Ref):
        return known
    return known._replace(start_s=place.start_s, stop_s=place.stop_s, stream=place.stream)


def _looked_up(
    ref: Ref, opened: dict[str, tuple[Any, str, Version | None]], options: Mapping[str, Any]
) -> Ref | MediaFault:
    if ref.path not in opened:
        opened[ref.path] = _opened(ref, options)
    store, path, version = opened[ref.path]
    if version is None:
        is_asked = ref.member is not None or store is None or isinstance(store, LocalFileSystem)
        return MediaFault("missing", f"file {ref.path!r} does not exist") if is_asked else ref
    if ref.member is None:
        return Ref(ref.path, None, 0, version.size)
    if not ref.is_named_only:
        return ref
    with storage_errors("read", ref.path):
        member = found_by_name(store, path, version, ref)
        shared = SUB.sub("", ref.member)
        if isinstance(member, MediaFault) and shared != ref.member:
            again = found_by_name(store, path, version, ref._replace(member=shared))
            return again if isinstance(again, Ref) else member
    return member


def _opened(ref: Ref, options: Mapping[str, Any]) -> tuple[Any, str, Version | None]:
    """The store of a file, its path there, and its version if it is there and has to be known."""
    try:
        store, path = open_store(ref.path, options)
    except DataError:
        return None, ref.path, None
    is_here = isinstance(store, LocalFileSystem)
    if (ref.member is None and not is_here) or (is_here and not _is_file(path)):
        return store, path, None
    with storage_errors("read", ref.path):
        try:
            return store, path, version_of(store, path)
        except FileNotFoundError:
            return store, path, None


def _is_file(path: str) -> bool:
    """Whether a local path is a file with content of its own: no folder, device or pipe."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # not there, or a name that is too long
        return False


def with_refs(
    task: FileGroup,
    read: Callable[[FileGroup], DocumentBatch | None],
    refer: Callable[[FilePart, pa.Table], list[Place]],
    stage: str,
    *,
    segments: bool,
    tracks: bool = False,
) -> DocumentBatch | None:
    """The rows of a split of manifests, with a column of references; those that name no recording go to quarantine.

    Args:
        task: the split.
        read: reads a split.
        refer: what the rows of a part refer to; None for a row that is right without a recording of its own.
        stage: name of the reader.
        segments: whether references may be to segments.
        tracks: whether they may be to tracks.

    Raises:
        DataError: a manifest has a column of references already.
    """
    batches = []
    for part in task.parts:
        batch = read(replace(task, parts=(part,)))
        if batch is None:
            continue
        rows = batch.to_arrow()
        if REF in rows.column_names:
            raise DataError(
                f"{stage}: {os.path.basename(part.path)} has a column {REF!r} already; read it with JsonlReader, "
                "which keeps that column, or leave the column out when the file is written"
            )
        places = refer(part, rows)
        refs = ref_array(
            [place if isinstance(place, Ref) else None for place in places], segments=segments, tracks=tracks
        )
        whole = quarantined(batch.with_data(rows.append_column(REF, refs)), places, stage)
        batches.append(replace(whole, rejections=(*batch.rejections, *whole.rejections), found=batch.found))
    if len(batches) < 2:
        return batches[0] if batches else None
    joined = DocumentBatch.joined(batches)
    if joined is None:
        raise DataError(
            f"{stage}: the manifests of split {task.key} have columns of different types; say theirs: schema="
        )
    found = {kind: sum(batch.found.get(kind, 0) for batch in batches) for batch in batches for kind in batch.found}
    return replace(joined, rejections=tuple(lost for batch in batches for lost in batch.rejections), found=found)

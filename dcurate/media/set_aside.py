"""Show files that a run set aside: some of each reason, with a picture where one can be drawn."""

from __future__ import annotations

import math
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from dcurate.core.extras import missing
from dcurate.errors import DcurateError
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import walk
from dcurate.fs.paths import open_store
from dcurate.isolate.sandbox import ChildAnswer, Sandbox
from dcurate.media.faults import FAULT
from dcurate.media.refs import MEDIA_REF, REF, Ref, fetch, ref_array

#: The longest side of a picture, in pixels.
SIDE = 300
#: How many are shown at most, how many of one reason, and how many are tried.
MOST, MOST_OF_A_REASON, _TRIED = 12, 3, 36
#: Reasons for which a file is not opened again.
_DANGEROUS = ("timed out", "out of memory", "crashed")
#: Files of rejected rows that are looked at, and bytes of each.
_FILES, _BYTES = 64, 2**20
#: Bytes of the largest file that is drawn; seconds for one, and for all.
_LARGEST, _TIMEOUT_S, _ALL_S = 2**25, 4.0, 15.0


class Draw(NamedTuple):
    """How files are drawn.

    Args:
        function: for a `Sandbox`, as ``"package.module:function"``; returns ``width`` and ``height``; and a picture,
            then sound, if it has some.
        libraries: the modules that it needs.
        segments: whether it gets, before the bytes of the file, the start and the end of the segment that the row
            means: two float64 of 8 bytes, in seconds; an end that is not known is NaN.
    """

    function: str
    libraries: tuple[str, ...]
    segments: bool = False


@dataclass(frozen=True)
class SetAside:
    """A file that a run set aside.

    Attributes:
        name: name of the file and of the member of its archive, with the times of a segment.
        stage: stage that took it out, and its ``reason``.
        detail: what else is known.
        picture: it, or its first page; empty if it cannot be drawn.
        width, height: size of the picture in pixels.
        sound: an excerpt to play; empty for what has none.
    """

    name: str
    stage: str
    reason: str
    detail: str = ""
    picture: bytes = b""
    width: int = 0
    height: int = 0
    sound: bytes = b""


def set_aside(folders: Sequence[str | None], storage_options: Mapping[str, Any] | None, draw: Draw) -> list[SetAside]:
    """Return some of the files that a run set aside: few of each reason, those with a picture first.

    At most 12 are returned, and it takes at most about 15 seconds. What cannot be read or drawn has no picture.

    Args:
        folders: folders of rejected rows and of quarantine, as `RunReport` names them; None for one that is not there.
        storage_options: for fsspec, for the folders.
        draw: how a file is drawn.

    Examples:
        >>> set_aside([None], None, Draw("dcurate.images.thumbnails:thumbnail", ("simplejpeg", "PIL")))
        []
    """
    chosen, reasons = list[dict[str, Any]](), Counter[tuple[str, str]]()
    for row in (row for folder in folders if folder for row in _rows(folder, storage_options or {})):
        which = row.get("_dcurate_stage", ""), row.get("_dcurate_reason", "")
        if reasons[which] < MOST_OF_A_REASON and len(chosen) < _TRIED:
            reasons[which] += 1
            chosen.append(row)
    documents = [
        SetAside(
            named(Ref(**row[REF])), row.get("_dcurate_stage", ""), row.get("_dcurate_reason", ""), row.get(FAULT) or ""
        )
        for row in chosen
    ]
    return _drawn(documents, [Ref(**row[REF]) for row in chosen], draw)[:MOST] if documents else []


class Drawer:
    """Draws files in a child process, until it is closed.

    Args:
        draw: how a file is drawn.
    """

    def __init__(self, draw: Draw) -> None:
        self._segments, self._can = draw.segments, not missing(draw.libraries)
        self._sandbox = Sandbox(draw.function, {"side": SIDE}, timeout_s=_TIMEOUT_S, memory_bytes=2**29)

    def draw(self, ref: Ref) -> ChildAnswer | None:
        """Return the picture of a file; None if it cannot be fetched or drawn."""
        if not self._can:
            return None
        try:
            data = fetch(pa.table({REF: ref_array([ref])}), limit=_LARGEST)[0]
            if not isinstance(data, bytes):
                return None
            answer = self._sandbox.call(_with_times(data, ref) if self._segments else data, _TIMEOUT_S)
        except DcurateError:  # a page is written without it
            return None
        return answer if isinstance(answer, ChildAnswer) else None

    def close(self) -> None:
        """End the child process."""
        self._sandbox.close()


def _drawn(documents: list[SetAside], refs: list[Ref], draw: Draw) -> list[SetAside]:
    if missing(draw.libraries):
        return documents
    until, shown = time.monotonic() + _ALL_S, list[SetAside]()
    with closing(Drawer(draw)) as drawer:
        for document, ref in zip(documents, refs, strict=True):
            answer, picture = None, SetAside(*_words(document))
            if time.monotonic() < until and not document.reason.startswith(_DANGEROUS):
                answer = drawer.draw(ref)
            if answer is not None:
                value = answer.value
                sizes = int(value["width"]), int(value["height"])
                picture = SetAside(*_words(document), answer.blobs[0], *sizes, *answer.blobs[1:])
            shown.append(picture)
    return sorted(shown, key=lambda document: not document.picture)


def _with_times(data: bytes, ref: Ref) -> bytes:
    return struct.pack("<2d", ref.start_s or 0.0, math.nan if ref.stop_s is None else ref.stop_s) + data


def _words(document: SetAside) -> tuple[str, str, str, str]:
    return document.name, document.stage, document.reason, document.detail


def named(ref: Ref) -> str:
    """The name of a file, with its archive and, of a segment, the times.

    Examples:
        >>> named(Ref("in/films.tar", "a.mp4", start_s=4.498999, stop_s=61.0))
        'a.mp4 in films.tar, 4.5 to 61 s'
        >>> named(Ref("in/a.mp4"))
        'a.mp4'
    """
    name = " in ".join(filter(None, (ref.member, ref.path.rpartition("/")[2])))
    if ref.start_s is None and ref.stop_s is None:
        return name
    until = "s to the end" if ref.stop_s is None else f"to {round(ref.stop_s, 2):g} s"
    return f"{name}, {round(ref.start_s or 0, 2):g} {until}"


def _rows(folder: str, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows with references, from the beginnings of some of the files."""
    try:
        store, root = open_store(folder, options)
        with storage_errors("read", folder):
            names = sorted(entry.path for entry in walk(store, root) if entry.path.endswith(".jsonl"))
            for name in names[:: -(-len(names) // _FILES) or 1]:
                with store.open(name, "rb") as file:
                    lines = file.read(_BYTES).split(b"\n")[:-1]
                for line in lines:
                    if b'"media_ref"' in line and ref_of((row := orjson.loads(line)).get(REF)) is not None:
                        yield row
    except (DcurateError, ValueError):
        return


def ref_of(value: Any) -> Ref | None:
    """The reference that a value of JSON is; None if it is none."""
    if not isinstance(value, dict) or not set(MEDIA_REF.names) <= set(value) <= set(Ref._fields):
        return None
    return Ref(**value) if isinstance(value["path"], str) else None

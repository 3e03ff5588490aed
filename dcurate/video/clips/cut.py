"""Cut the clips of a film into files of their own: the part of `CutVideo` that runs in a child process."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, BinaryIO

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.clips.exact import encoded, exact
from dcurate.video.clips.footage import Footage
from dcurate.video.clips.remux import CutClip, Stretch, remux
from dcurate.video.film import MAX_PIXELS

#: Bytes of a clip that are sent at a time.
_CHUNK = 2**22


def cut(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield the clips of a film as files, piece by piece, each ended by what is known of it.

    Args:
        source: the open file.
        request: ``clips``, the start and end of each in seconds; the end is None for that of the film;
            ``track``, the number of the track of which alone clips are cut, if it is there.
        options: ``cut``, ``"remux"``, ``"exact"`` or ``"encode"``, for all frames; ``fallback``, the codec where the
            film's has no encoder, or all frames are encoded; ``max_clip_bytes`` and ``max_pixels``.

    Raises:
        MediaError: it is not a film.
    """
    footage = Footage(source, options.get("max_pixels", MAX_PIXELS), request.get("track"))
    for number, (start_s, stop_s) in enumerate(request["clips"]):
        try:
            clip = yield from cut_one(Stretch.of(footage, start_s, stop_s, options["max_clip_bytes"]), options)
        except MediaError as error:
            yield {"clip": number, "fault": list(error.fault)}, []
            continue
        for piece in clip.pieces:
            view = memoryview(piece)
            for at in range(0, len(view), _CHUNK):
                yield {"clip": number}, [view[at : at + _CHUNK]]
        about = {name: value for name, value in vars(clip).items() if name != "pieces"}
        yield {**about, "clip": number, "last": True}, []


def cut_one(stretch: Stretch, options: Mapping[str, Any]) -> Generator[None, None, CutClip]:
    """Return a clip as `cut` does, with a sign of progress every few packets.

    Raises:
        MediaError: it cannot be cut.
    """
    if options["cut"] == "remux":
        return (yield from remux(stretch))
    if options["cut"] == "encode":
        return (yield from encoded(stretch, options["fallback"]))
    return (yield from exact(stretch, options["fallback"]))

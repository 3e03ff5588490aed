"""Watch the clips of a film in one decode: the part of a video stage that runs in a child process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.film import MAX_PIXELS, Film, FilmFrame
from dcurate.video.policy import FramePolicy
from dcurate.video.selection import FrameSelector


@dataclass(frozen=True)
class WatchedClip:
    """What a watcher knows of its clip before the first frame.

    Args:
        film: the open film.
        start_s: start of the clip, in seconds.
        stop_s: end of the clip, in seconds; None for the end of the film.
    """

    film: Film
    start_s: float
    stop_s: float | None


class Watcher(Protocol):
    """Looks at the frames of a clip; one is made for each clip."""

    policy: FramePolicy

    def see(self, frame: FilmFrame) -> Answer | None:
        """Look at a frame that the policy chose; return what the stage gets of it at once, if anything."""

    def end(self) -> Answer:
        """Return what the stage gets after the last frame: a dictionary that JSON can hold, and byte strings."""


def watching(
    make: Callable[[WatchedClip, Mapping[str, Any]], Watcher],
) -> Callable[[BinaryIO, Mapping[str, Any], Mapping[str, Any]], Iterator[Answer | None]]:
    """Return the function that a `dcurate.video.stage.VideoStage` calls in a child process.

    Args:
        make: function that makes a watcher of a clip and the `options` of the stage.
    """

    def watch(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
        film = Film(source, options.get("max_pixels", MAX_PIXELS), request.get("track"))
        clips = [WatchedClip(film, start_s, stop_s) for start_s, stop_s in request["clips"]]
        yield from _watched(film, clips, [make(clip, options) for clip in clips])

    return watch


def _watched(film: Film, clips: Sequence[WatchedClip], watchers: Sequence[Watcher]) -> Iterator[Answer | None]:
    selectors: list[FrameSelector[FilmFrame]] = [
        FrameSelector(watcher.policy, clip.start_s, clip.stop_s, film.duration_s)
        for clip, watcher in zip(clips, watchers, strict=True)
    ]
    seen = [0] * len(clips)
    for chosen in film.chosen(selectors):
        if chosen is None:
            yield None
            continue
        number, frame = chosen
        seen[number] += 1
        if (part := watchers[number].see(frame)) is not None:
            yield {**part[0], "clip": number}, part[1]
    for number, watcher in enumerate(watchers):
        try:
            is_behind = not selectors[number].only_keys or clips[number].start_s >= film.duration_s
            if not seen[number] and is_behind:
                raise MediaError(
                    "bad segment", f"no frame from {clips[number].start_s} s on: behind the end of the film"
                )
            value, blobs = watcher.end()
            yield {**value, "clip": number, "truncated": film.truncated, "damaged": film.damaged, "last": True}, blobs
        except MediaError as error:
            yield {"clip": number, "fault": list(error.fault)}, []

"""Hashes of films: of their packets, or of their decoded frames; it runs in a child process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import xxhash

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.film import MAX_PIXELS, Film, FilmFrame
from dcurate.video.policy import FramePolicy
from dcurate.video.watch import WatchedClip, watching

#: Packets after which the child process says that it goes on.
_PROGRESS = 1_000


def hash_packets(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield a hash of the packets of pictures of each clip, their codec and their size; nothing is decoded."""
    film = Film(source, options.get("max_pixels", MAX_PIXELS), request.get("track"))
    context = film.stream.codec_context
    seed = f"{context.codec.canonical_name} {context.width}x{context.height}".encode()
    spans = [(start_s, math.inf if stop_s is None else stop_s) for start_s, stop_s in request["clips"]]
    hashes = [xxhash.xxh3_128(seed) for _ in spans]
    counts = [0] * len(spans)
    for count, packet in enumerate(film.packets(), 1):
        ticks = packet.pts if packet.pts is not None else packet.dts
        time_s = 0.0 if ticks is None else float(ticks * film.stream.time_base) - film.start_s
        data = bytes(packet)
        for number, (start_s, stop_s) in enumerate(spans):
            if start_s <= time_s < stop_s or (start_s == 0 and time_s < 0):
                hashes[number].update(len(data).to_bytes(8, "little") + data)
                counts[number] += 1
        if count % _PROGRESS == 0:
            yield None
    if not sum(counts) and spans[0][0] == 0:
        raise MediaError("damaged", "it has no packets of pictures")
    for number, content in enumerate(hashes):
        if counts[number]:
            yield {"clip": number, "last": True}, [content.digest()]
        else:
            yield {"clip": number, "fault": ["bad segment", f"no packet from {spans[number][0]} s on"]}, []


class FrameHashing:
    """A watcher that hashes the pixels of all frames of a clip."""

    policy = FramePolicy("all")

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self._hash = xxhash.xxh3_128()

    def see(self, frame: FilmFrame) -> None:
        pixels = frame.pixels()
        self._hash.update(np.array(pixels.shape, "<i8").tobytes())
        self._hash.update(pixels.data)

    def end(self) -> Answer:
        return {}, [self._hash.digest()]


hash_frames = watching(FrameHashing)

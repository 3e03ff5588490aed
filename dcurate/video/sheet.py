"""A contact sheet of a film or clip, for people to look at."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Mapping
from typing import Any

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError
from dcurate.video.film import MAX_PIXELS, Film, FilmFrame
from dcurate.video.policy import FramePolicy
from dcurate.video.selection import FrameSelector

#: Frames beside each other and rows of a sheet, and pixels between them.
_COLUMNS, _ROWS, _GAP = 3, 2, 2
#: The colour of frames that cannot be decoded.
_MISSING = (200, 200, 200)


def sheet(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Draw six frames of a film as one picture; called in a `dcurate.isolate.sandbox.Sandbox`.

    The frames are those in the middle of each sixth of the film or clip. The place of what cannot be decoded is grey.

    Args:
        data: start and end of the clip in seconds, two float64 of 8 bytes, where an end that is not known is NaN; and
            the bytes of the file.
        options: ``side``: pixels of the longer side.

    Returns:
        ``width`` and ``height`` in pixels, and the sheet as JPEG.

    Raises:
        MediaError: no frame can be decoded.
    """
    start_s, stop_s = struct.unpack_from("<2d", data)
    film = Film(io.BytesIO(memoryview(data)[16:]), MAX_PIXELS)
    end_s = film.duration_s if math.isnan(stop_s) else min(stop_s, film.duration_s)
    count = _COLUMNS * _ROWS
    part_s = max(film.frame_s, (end_s - start_s) / count)
    selectors = [
        FrameSelector[FilmFrame](FramePolicy("middle"), start_s + part * part_s, start_s + (part + 1) * part_s, end_s)
        for part in range(count)
    ]
    imaging: Any = needed("PIL.Image", "drawing films", "images")
    picture, size = None, (0, 0)
    for chosen in film.chosen(selectors):
        if chosen is None:
            continue
        place, frame = chosen
        if picture is None:  # grey, so that frames that are missing are not taken for white ones
            size = _size(frame.size, int(options["side"]))
            whole = _COLUMNS * (size[0] + _GAP) - _GAP, _ROWS * (size[1] + _GAP) - _GAP
            picture = imaging.new("RGB", whole, _MISSING)
            for line in range(1, _COLUMNS):
                left = line * (size[0] + _GAP) - _GAP
                picture.paste("white", (left, 0, left + _GAP, whole[1]))
            for line in range(1, _ROWS):
                top = line * (size[1] + _GAP) - _GAP
                picture.paste("white", (0, top, whole[0], top + _GAP))
        corner = place % _COLUMNS * (size[0] + _GAP), place // _COLUMNS * (size[1] + _GAP)
        picture.paste(imaging.fromarray(frame.pixels(*size)), corner)
    if picture is None:
        raise MediaError("no pictures", "no frame can be decoded")
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=80)
    return {"width": picture.width, "height": picture.height}, [file.getvalue()]


def _size(frame: tuple[int, int], side: int) -> tuple[int, int]:
    """Width and height of a frame in a sheet whose longer side has `side` pixels."""
    width = (side - (_COLUMNS - 1) * _GAP) / _COLUMNS
    height = (side - (_ROWS - 1) * _GAP) / _ROWS
    scale = min(width / frame[0], height / frame[1])
    return max(1, math.floor(frame[0] * scale)), max(1, math.floor(frame[1] * scale))

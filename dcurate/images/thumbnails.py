"""Small JPEGs of pictures, for people to look at."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from dcurate.media.image.pixels import decode


def thumbnail(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Make a small JPEG of a picture; called in a `dcurate.isolate.sandbox.Sandbox`, as the picture may be hostile.

    Args:
        data: the bytes of the file.
        options: ``side``: pixels of the longer side.

    Returns:
        ``width`` and ``height`` in pixels, and the JPEG.

    Raises:
        MediaError: it cannot be decoded.

    Examples:
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (1000, 500)).save(file, "PNG")
        >>> thumbnail(file.getvalue(), {"side": 300})[0]
        {'width': 300, 'height': 150}
    """
    side = options["side"]
    image = Image.fromarray(decode(data, short_side=side).pixels)
    image.thumbnail((side, side))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return {"width": image.width, "height": image.height}, [file.getvalue()]

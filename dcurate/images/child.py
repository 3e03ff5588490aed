"""What the child process of `ImageSignals` calls. The kernels load with the module, before the first picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.images.signals import SHORT_SIDE, measured_picture, pixel_hash, shares_of, warm_up
from dcurate.media.image.pixels import decode

warm_up()


def look_at(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Decode and measure a picture in a child process; see `dcurate.media.sandbox.Sandbox`.

    Raises:
        MediaError: it cannot be decoded.
    """
    picture = decode(data, SHORT_SIDE, max_pixels=options["max_pixels"])
    measured, hashes = measured_picture(picture)
    shares = shares_of(picture, options["qr"], options["text"], options["text_models"])
    return {"truncated": picture.truncated, "shares": shares}, [measured.tobytes(), hashes, pixel_hash(picture)]

"""What `ImageSignals` calls for each picture. The kernels load with the module, before the first picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.images.signals import SHORT_SIDE, measured_picture, pixel_hash, shares_of, warm_up
from dcurate.media.image.pixels import decode

warm_up()


def look_at(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Decode and measure a picture.

    Raises:
        MediaError: it cannot be decoded.
    """
    picture = decode(data, SHORT_SIDE, max_pixels=options["max_pixels"])
    measured, hashes = measured_picture(picture, options["hashes"])
    pixels = pixel_hash(picture) if options["hashes"] else b""
    shares = shares_of(picture, options["qr"], options["text"], options["text_models"])
    return {"truncated": picture.truncated, "shares": shares}, [measured.tobytes(), hashes, pixels]

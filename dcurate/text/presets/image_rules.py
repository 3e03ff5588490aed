"""Rules for pictures with published thresholds, over the columns of `ImageInfo` and `ImageSignals`."""

from __future__ import annotations

import math

from dcurate.text.number_filter import NumberRangeFilter

_INFO, _SIGNALS = "ImageInfo()", "ImageSignals()"

Filters = tuple[NumberRangeFilter, ...]


def images_datacomp() -> Filters:
    """DataComp's basic filters of pictures: a shorter side above 200 pixels, and an aspect ratio below 3.

    From Gadre et al., "DataComp" (2023), section 4.2. Its rules for captions (English, more than 2 words, more than 5
    characters) are filters of text: apply them to the column of captions.

    Examples:
        >>> [rule.name for rule in images_datacomp()]
        ['image_short_side', 'image_aspect']
    """
    below = math.nextafter(3, 0)
    return (
        NumberRangeFilter("image_short_side", min_value=201, made_by=_INFO),
        NumberRangeFilter("image_aspect", min_value=1 / below, max_value=below, made_by=_INFO),
    )


def images_laion() -> Filters:
    """LAION's rules of pictures: files of at least 5 kB.

    From Schuhmann et al., "LAION-400M" (2021), and "LAION-5B" (2022), which drop smaller files, beside captions of less
    than 5 characters and pairs whose picture and caption are unlike by a CLIP model.

    Examples:
        >>> [rule.name for rule in images_laion()]
        ['image_bytes']
    """
    return (NumberRangeFilter("image_bytes", min_value=5_000, made_by=_INFO),)


def images_nemo(qr: bool = True) -> Filters:
    """NeMo Curator's filters of pictures in documents, with their defaults: aspect ratio, blur and QR codes.

    Aspect ratio (width / height) from 1 to 2; variance of the Laplacian from 100; QR codes on less than 5 % of it.
    NeMo Curator measures blur at full size, `ImageSignals` at a shorter side of 256 to 511 pixels.

    Args:
        qr: whether to filter by QR codes, which needs ``ImageSignals(qr=True)``.

    Examples:
        >>> [rule.name for rule in images_nemo()]
        ['image_aspect', 'image_sharpness', 'image_qr']
    """
    codes = NumberRangeFilter("image_qr", max_value=math.nextafter(0.05, 0), made_by="ImageSignals(qr=True)")
    return (
        NumberRangeFilter("image_aspect", min_value=1.0, max_value=2.0, made_by=_INFO),
        NumberRangeFilter("image_sharpness", min_value=100, made_by=_SIGNALS),
        *((codes,) if qr else ()),
    )


def images_quality() -> Filters:
    """Dcurate's own rules, for what no one wants: cut files, blank, blurred or framed pictures.

    The thresholds are loose, and not published elsewhere: whole files; a brightness of 0.03 to 0.97; a contrast of at
    least 0.02; less than 95 % of the pixels of one colour; borders on less than half of the area; a variance of the
    Laplacian from 10.

    Examples:
        >>> [rule.name for rule in images_quality()][:3]
        ['image_truncated', 'image_brightness', 'image_contrast']
    """
    return (
        NumberRangeFilter("image_truncated", max_value=0, made_by=_SIGNALS),
        NumberRangeFilter("image_brightness", min_value=0.03, max_value=0.97, made_by=_SIGNALS),
        NumberRangeFilter("image_contrast", min_value=0.02, made_by=_SIGNALS),
        NumberRangeFilter("image_one_colour", max_value=0.95, made_by=_SIGNALS),
        NumberRangeFilter("image_border", max_value=0.5, made_by=_SIGNALS),
        NumberRangeFilter("image_sharpness", min_value=10, made_by=_SIGNALS),
    )

"""Pictures for tests."""

import io

import numpy as np
import pyarrow as pa
from PIL import Image, ImageFilter

from dcurate import DocumentBatch


def saved(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photo(width=320, height=240, seed=1):
    """A picture with large and small shapes and noise, unlike another seed's."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    fine = random.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    large = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int32)
    small = np.asarray(Image.fromarray(fine).resize((width, height), Image.Resampling.BICUBIC), np.int32)
    noise = random.integers(-8, 9, (height, width, 1))
    return Image.fromarray(np.clip((3 * large + small) // 4 + noise, 0, 255).astype(np.uint8))


def blurred(image, radius=6):
    return image.filter(ImageFilter.GaussianBlur(radius))


def batch_of(*files):
    """A batch with the bytes of files, numbered."""
    return DocumentBatch(
        data=pa.table({"id": pa.array(range(len(files)), pa.int64()), "bytes": pa.array(files, pa.large_binary())})
    )

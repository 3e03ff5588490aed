"""Pictures and rows for the tests of interleaved documents."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import zxingcpp
from PIL import Image

from dcurate.media.interleaved.schema import rows_of


def encoded(pixels: Any, kind: str = "PNG") -> bytes:
    """The file of a picture."""
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file, kind)
    return file.getvalue()


def noise(width: int, height: int, seed: int = 0, kind: str = "PNG") -> bytes:
    """A sharp picture."""
    return encoded(np.random.default_rng(seed).integers(0, 256, (height, width, 3)), kind)


def flat(width: int, height: int, shade: int = 90) -> bytes:
    """A picture without edges."""
    return encoded(np.full((height, width, 3), shade))


def qr_code(side: int, canvas: int) -> bytes:
    """A QR code in the corner of a white square."""
    made: Any = zxingcpp.create_barcode("https://example.org", zxingcpp.BarcodeFormat.QRCode)
    code = Image.fromarray(np.array(made.to_image(scale=4))).convert("RGB").resize((side, side), Image.Resampling.BOX)
    white = Image.new("RGB", (canvas, canvas), "white")
    white.paste(code, (4, 4))
    return encoded(white)


def table(*rows: tuple[str, int, str, str | bytes | None], **extra: list[Any]) -> pa.Table:
    """Interleaved rows of (sample, position, modality, text or bytes)."""
    made = rows_of(
        {
            "sample_id": sample,
            "position": position,
            "modality": modality,
            "binary_content" if modality == "image" else "text_content": content,
        }
        for sample, position, modality, content in rows
    )
    for name, values in extra.items():
        made = made.append_column(name, pa.array(values))
    return made


def referring(rows: pa.Table, *refs: str | None) -> pa.Table:
    """The rows with values of ``source_ref``."""
    return rows.set_column(rows.column_names.index("source_ref"), "source_ref", pa.array(refs, pa.string()))


def places(rows: pa.Table) -> list[tuple[str, int, str]]:
    """Sample, position and modality of rows."""
    return list(zip(*(rows[name].to_pylist() for name in ("sample_id", "position", "modality")), strict=True))

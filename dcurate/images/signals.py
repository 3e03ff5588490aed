"""`ImageSignals`: signals and hashes of pictures, from one decode at a reduced scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from dcurate.core.stage import NodeInfo, WorkerMetadata
from dcurate.images.hashes import COSINES
from dcurate.images.qr import qr_share
from dcurate.images.reading import LIBRARIES, ImageReading
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.kernels.pictures import HASH_BYTES, MEASURED, measure
from dcurate.media.image.headers import Header
from dcurate.media.image.pixels import Picture
from dcurate.media.ocr.files import model_files
from dcurate.media.ocr.share import text_share
from dcurate.media.stage import FileStage

#: Shorter side that pictures are reduced to, at least: signals and pixel hashes are of pictures of this size.
SHORT_SIDE = 256
#: Hashes in the order in which `measure` fills them in.
_HASHES = ("ahash", "dhash", "phash", "pdq")
_GRAY = MEASURED.index("gray")
#: Kind in the report for pictures that were decoded in part.
_TRUNCATED = "truncated pictures"


@dataclass
class ImageSignals(FileStage):
    """Add signals and hashes of each picture; each is decoded once, at a reduced scale.

    Pictures are reduced by the power of two that leaves 256 to 511 pixels along the shorter side; smaller ones are
    taken as they are. Signals, after ``image_``:

    * ``brightness``: the mean, 0 (black) to 1 (white); ``contrast``: its standard deviation (RMS contrast).
    * ``entropy``: bits of the histogram of brightness, 0 to 8.
    * ``saturation``: mean of HSV, 0 to 1. ``colourfulness``: of Hasler and Suesstrunk (2003), 0 to about 180.
    * ``gray``: whether next to all pixels have no colour.
    * ``one_colour``: largest share of pixels of one colour, 16 levels a channel.
    * ``sharpness``: variance of the Laplacian of the brightness (0 to 255). Null where a side has less than 3 pixels.
    * ``edges``: share of pixels on edges.
    * ``blockiness``: how much more neighbours differ across the borders of JPEG blocks than within: 1 is none.
    * ``border``: share of the area in even rows and columns along the sides: bars, frames, margins.
    * ``truncated``: the file ends early or is damaged, and the rest of the picture was made up.
    * ``qr``: with ``qr=True``, the share of the area in QR codes. It takes as long as decoding, or longer.
    * ``text``: with ``text=True``, the share of the area in lines of text, found by PP-OCR's detector (DB, Liao et al.,
      arXiv:1911.08947) in the picture as it was reduced. It takes about 60 times as long as decoding.

    Hashes as hex digits: ``ahash``, ``dhash``, ``phash`` (64 bits), ``pdq`` (256 bits, made as PDQ is), and ``pixels``,
    equal for pictures with equal pixels at the reduced scale, whatever their metadata. ``detail``, 0 to 100, says how
    much there is to hash: hashes of pictures below about 50 say little.

    A picture that cannot be decoded goes to quarantine with the reason. So does one of more than `max_pixels`, by its
    header, before it is decoded. A decoder that hangs or ends its process costs one row: with
    ``reading=ImageReading(sandbox=True)`` right away, as pictures are decoded in a child process with limits of time
    and memory; else the engine runs the batch again, in parts, until it has found the row, where the run ignores
    failures.

    Args:
        prefix: comes before the name of every column.
        hashes: whether to add the hashes.
        qr: whether to look for QR codes.
        text: whether to look for lines of text.
        text_models: the folder of PP-OCR models in ONNX format; None for those of the package `rapidocr`, which need
            no other package: ``pip install --no-deps rapidocr``.
        reading: limits, and whether images are decoded in a child process.
        name: name of the stage.

    Raises:
        ResourceError: from `setup`, if there are no models that find text.

    Examples:
        >>> import io
        >>> from PIL import Image
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (300, 200), "white").save(file, "PNG")
        >>> batch = DocumentBatch(data=pa.table({"bytes": [file.getvalue()]}))
        >>> row = ImageSignals().process(batch).to_arrow().to_pylist()[0]
        >>> row["image_brightness"], row["image_one_colour"], row["image_border"], row["image_gray"]
        (1.0, 1.0, 1.0, True)
    """

    prefix: str = "image_"
    hashes: bool = True
    qr: bool = False
    text: bool = False
    text_models: str | None = None
    reading: ImageReading = field(default_factory=ImageReading)
    name: str = "image_signals"

    function: ClassVar[str] = "dcurate.images.child:look_at"
    takes: ClassVar[type[ImageReading]] = ImageReading
    in_child: ClassVar[Literal["always", "on request"]] = "on request"

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        names: dict[str, pa.DataType] = {name: pa.float64() for name in MEASURED[:-1]}
        names |= {"gray": pa.bool_(), "truncated": pa.bool_()}
        names |= dict.fromkeys(self._shares, pa.float64())
        if self.hashes:
            names |= {"detail": pa.float64()} | dict.fromkeys([*_HASHES, "pixels"], pa.string())
        return {self.prefix + name: kind for name, kind in names.items()}

    @property
    def options(self) -> Mapping[str, Any]:
        chosen = {"hashes": self.hashes, "qr": self.qr, "text": self.text, "text_models": self.text_models}
        return {"max_pixels": self.reading.max_pixels, **chosen}

    @property
    def _shares(self) -> list[str]:
        return [name for name, wanted in (("qr", self.qr), ("text", self.text)) if wanted]

    def settings(self) -> dict[str, Any]:
        left_out = () if self.text else ("text", "text_models")
        return {name: value for name, value in super().settings().items() if name not in left_out}

    def requires(self) -> dict[str, str]:
        wanted = {"zxingcpp": self.qr, "onnxruntime": self.text}
        return LIBRARIES | {module: "images" for module, needed in wanted.items() if needed}

    @property
    def cheap_setup(self) -> bool:
        return not self._has_child and not self.text

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        warm_up()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if self.text:
            model_files(self.text_models)  # raises here if there are none
        super().setup(worker_metadata)

    def counted(self, rows: Sequence[Any]) -> dict[str, int]:
        place = list(self.columns).index(f"{self.prefix}truncated")
        truncated = sum(bool(row[place]) for row in rows)
        return {_TRUNCATED: truncated} if truncated else {}

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        remarks = super().remarks(found)
        count = found.get(_TRUNCATED, 0)
        if not count:
            return remarks
        some = (
            "1 picture ends early or is damaged, and some of its"
            if count == 1
            else (f"{count:,} pictures end early or are damaged, and some of their")
        )
        return [*remarks, f"{self.name}: {some} pixels were made up; the column {self.prefix}truncated says which"]

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        measured, hashes, pixels = answer.blobs
        values: list[Any] = np.frombuffer(measured).tolist()
        detail = values.pop()
        values[_GRAY] = values[_GRAY] > 0
        values += [answer.value["truncated"], *answer.value["shares"]]
        if self.hashes:
            digits = hashes.hex()
            values += [detail, digits[:16], digits[16:32], digits[32:48], digits[48:], pixels.hex()]
        return values


def measured_picture(picture: Picture, hashed: bool = True) -> tuple[npt.NDArray[np.float64], bytes]:
    """Return the signals of a picture, in the order of `dcurate.kernels.pictures.MEASURED`, and its hashes."""
    measured, hashes = np.empty(len(MEASURED)), np.empty(HASH_BYTES if hashed else 0, np.uint8)
    measure(picture.pixels, 8 // picture.scale, COSINES, measured, hashes)
    return measured, hashes.tobytes()


def shares_of(picture: Picture, qr: bool, text: bool, text_models: str | None) -> list[float]:
    """Return the shares of the area in QR codes and in lines of text, as far as they are wanted."""
    shares = [qr_share(picture.pixels)] if qr else []
    return [*shares, text_share(picture.pixels, text_models)] if text else shares


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache on disk."""
    for hashed in (True, False):
        measured_picture(Picture(np.zeros((300, 300, 3), np.uint8), Header("png", 300, 300)), hashed)


def pixel_hash(picture: Picture) -> bytes:
    """Hash the decoded pixels and their shape: 16 bytes."""
    seed = picture.pixels.shape[0] << 32 | picture.pixels.shape[1]
    return xxhash.xxh3_128_digest(picture.pixels.data, seed=seed)

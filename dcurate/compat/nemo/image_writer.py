"""`ImageWriterStage` with NeMo Curator's names and arguments: files are written as they were read."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.compat.nemo.image_tasks import ImageBatch, ImageObject, files_at
from dcurate.compat.nemo.stages import ProcessingStage, Spec
from dcurate.compat.nemo.tasks import FileGroupTask
from dcurate.core.extras import needed
from dcurate.errors import DataError
from dcurate.fs.stores import Directory
from dcurate.isolate.errors import MediaFault
from dcurate.media.names import sample_of, stored
from dcurate.media.tar import BLOCK
from dcurate.media.webdataset_writer import header_of

_QUALITY = 92
_RGBA = 4


@dataclass
class ImageWriterStage(ProcessingStage[ImageBatch, FileGroupTask]):
    """Write pictures as tars, with a Parquet file of their metadata beside each.

    A picture whose pixels nobody changed is written with all members of its sample, byte for byte and under their
    names; two samples of one name in a tar get the id in front. Others are written as JPEG of quality 92, or as PNG if
    they are transparent. Files appear when they are complete.

    Args:
        output_dir: the folder, local or a URL.
        images_per_tar: pictures of a tar at most; a tar never holds those of several batches.
        verbose: without effect, as in NeMo Curator.
        deterministic_name: whether names of tars follow from the paths of the pictures and the id of the task.
        remove_image_data: whether pixels are released after they are written.
    """

    output_dir: str
    images_per_tar: int = 1000
    verbose: bool = False
    deterministic_name: bool = True
    remove_image_data: bool = False
    name: str = "image_writer"

    def __post_init__(self) -> None:
        Directory(str(self.output_dir), {}).create()

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def construct_base_name(self, task: ImageBatch) -> str:
        """Return the beginning of the names of the files for a batch."""
        if not self.deterministic_name:
            return f"images-{uuid.uuid4().hex[:16]}"
        text = "|".join(sorted(picture.image_path for picture in task.data)) + f"|{task.task_id}"
        return f"images-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def process(self, task: ImageBatch) -> FileGroupTask:
        """Write the pictures of a batch.

        Raises:
            ValueError: a picture has neither pixels nor a file.
        """
        base = self.construct_base_name(task)
        tars, parquets = [], []
        for number, start in enumerate(range(0, len(task.data), self.images_per_tar)):
            pictures = task.data[start : start + self.images_per_tar]
            name = f"{base}-{number:06d}"
            tar, rows = self._write_tar(name, pictures, start)
            tars.append(tar)
            parquets.append(self._write_parquet(name, rows))
            if self.remove_image_data:
                for picture in pictures:
                    picture.image_data = None
        about = {"output_dir": self.output_dir, "images_per_tar": self.images_per_tar, "num_images": len(task.data)}
        return FileGroupTask(
            dataset_name=task.dataset_name,
            data=[*tars, *parquets],
            _metadata={**task._metadata, **about},
            _stage_perf=task._stage_perf,
        )

    def _write_tar(self, name: str, pictures: Sequence[ImageObject], start: int) -> tuple[str, list[dict[str, Any]]]:
        folder = Directory(str(self.output_dir), {})
        path, rows, at = folder.path(f"{name}.tar"), [], 0
        keys = Counter(_key(picture) for picture in pictures)
        with folder.writing(f"{name}.tar") as file:
            for number, picture in enumerate(pictures, start):
                stem = picture.image_id or f"{number:06d}"
                members, member_name = _members(picture, stem, keys[_key(picture)] > 1)
                is_read = picture.picture is not None and picture.picture.member is not None
                for member, data in members:
                    header = header_of(stored(member) if is_read else member, len(data))
                    for part in (header, data, bytes(-len(data) % BLOCK)):
                        file.write(part)
                        at += len(part)
                rows.append(
                    {
                        "image_id": stem,
                        "tar_file": path,
                        "member_name": member_name,
                        "original_path": picture.image_path,
                        "metadata": repr(picture.metadata),
                    }
                )
            file.write(bytes(2 * BLOCK + -(at + 2 * BLOCK) % (20 * BLOCK)))
        return path, rows

    def _write_parquet(self, name: str, rows: list[dict[str, Any]]) -> str:
        folder = Directory(str(self.output_dir), {})
        with folder.writing(f"{name}.parquet") as file:
            pq.write_table(pa.Table.from_pylist(rows), file)
        return folder.path(f"{name}.parquet")


def _key(picture: ImageObject) -> str:
    """The key of the sample that a picture belongs to, or its id."""
    ref = picture.picture
    return picture.image_id if ref is None or ref.member is None else sample_of(ref.member)[0]


def _members(picture: ImageObject, stem: str, is_taken: bool) -> tuple[list[tuple[str, bytes]], str]:
    """The members to write for a picture, and the name of the one with the picture."""

    def named(member: str) -> str:
        return f"{stem}.{sample_of(member)[1]}" if is_taken else member

    file = picture.picture
    if file is None or file.member is None:
        data, ending = _encoded(picture)
        return [(f"{stem}{ending}", data)], f"{stem}{ending}"
    refs = list(dict.fromkeys(picture.members))
    contents: list[tuple[str, bytes]] = []
    for ref, content in zip(refs, files_at(refs), strict=True):
        if isinstance(content, MediaFault):
            raise DataError(f"{ref.member} of {ref.path} cannot be read: {content.reason} {content.detail}")
        contents.append((str(ref.member), content))
    if picture.is_untouched:
        return [(named(name), data) for name, data in contents], named(file.member)
    data, ending = _encoded(picture)
    changed = f"{sample_of(file.member)[0]}{ending}"
    unchanged = [(named(name), held) for name, held in contents if name != file.member]
    return [(named(changed), data), *unchanged], named(changed)


def _encoded(picture: ImageObject) -> tuple[bytes, str]:
    """The pixels as the file of a picture, and its ending.

    Raises:
        ValueError: there are none.
    """
    if picture.image_data is None:
        raise ValueError("ImageObject.image_data is None; cannot write image bytes")
    pixels = np.asarray(picture.image_data)
    pixels = pixels if pixels.dtype == np.uint8 else np.clip(pixels, 0, 255).astype(np.uint8)
    image = needed("PIL.Image", "ImageWriterStage", "images").fromarray(
        pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    )
    is_transparent = pixels.ndim == 3 and pixels.shape[2] == _RGBA
    file = io.BytesIO()
    if is_transparent:
        image.save(file, "PNG")
    else:
        image.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue(), ".png" if is_transparent else ".jpg"

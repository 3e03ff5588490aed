"""Batches of pictures as NeMo Curator has them: objects, whose pixels are decoded when somebody looks."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from dcurate.compat.nemo.tasks import Task
from dcurate.errors import DataError
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.image.pixels import decode
from dcurate.media.refs import REF, Ref, fetch, ref_array

T = TypeVar("T")


@dataclass
class ImageObject:
    """A picture.

    A picture that `ImageReaderStage` read has its own name, caption and JSON; its pixels are decoded when `image_data`
    is first looked at, and its file is written as it was unless they were changed.

    Args:
        image_path: path of its file: the shard and the name in it.
        image_id: id made of the shard and the sample.
        metadata: its JSON, its caption as ``caption``, and its name as ``key``.
        image_data: pixels, height x width x 3, RGB.
        embedding: a vector.
        aesthetic_score: how pleasing it is.
        nsfw_score: the probability that it is not safe for work.
    """

    image_path: str = ""
    image_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    image_data: Any = field(default_factory=lambda: None)
    embedding: Any = None
    aesthetic_score: float | None = None
    nsfw_score: float | None = None

    @classmethod
    def of(cls, picture: Ref, members: list[Ref], **about: Any) -> ImageObject:
        """A picture that is read when its pixels are needed.

        Args:
            picture: where its file is.
            members: all files of its sample.
            about: the other arguments.
        """
        made = cls(**about)
        del made.image_data
        made.__dict__["_picture"], made.__dict__["_members"] = picture, members
        return made

    def __getattr__(self, name: str) -> Any:
        if name != "image_data" or "_picture" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.image_data = self.pixels()
        self.__dict__["_seen"] = _digest(self.image_data)
        return self.image_data

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "_seen" in state and self.is_untouched:  # it is decoded again where it is needed
            del state["_seen"], state["image_data"]
        return state

    @property
    def is_untouched(self) -> bool:
        """Whether its pixels are those of its file."""
        held = self.__dict__
        if "_picture" not in held:
            return False
        return held.get("image_data") is None or _digest(held["image_data"]) == held.get("_seen")

    @property
    def members(self) -> list[Ref]:
        """All files of its sample; none for a picture that was not read from a shard."""
        return list(self.__dict__.get("_members", ()))

    @property
    def picture(self) -> Ref | None:
        """Its file, where it has one."""
        return self.__dict__.get("_picture")

    def pixels(self) -> Any:
        """Decode its file, without keeping the pixels.

        Raises:
            DataError: it cannot be fetched or decoded.
        """
        if "image_data" in self.__dict__ or self.picture is None:
            return self.image_data
        [data] = files_at([self.picture])
        try:
            if isinstance(data, MediaFault):
                raise MediaError(*data)
            return decode(data).pixels
        except MediaError as error:
            raise DataError(f"{self.image_path} cannot be decoded: {error}; leave it out") from error


def files_at(refs: list[Ref]) -> list[bytes | MediaFault]:
    """Fetch files."""
    return fetch(pa.table({REF: ref_array(refs)})) if refs else []


def _digest(pixels: Any) -> tuple[Any, ...]:
    array = np.asarray(pixels)
    return (array.shape, array.dtype.str, zlib.crc32(np.ascontiguousarray(array).data))


@dataclass
class ImageBatch(Task[list[ImageObject]]):
    """A batch of pictures.

    Examples:
        >>> ImageBatch(dataset_name="mine", data=[ImageObject(image_id="a")]).num_items
        1
    """

    data: list[ImageObject] = field(default_factory=list)
    dataset_name: str = ""

    @property
    def num_items(self) -> int:
        return len(self.data)

    def validate(self) -> bool:
        """True: files are looked at when their pixels are needed."""
        return True


@dataclass(kw_only=True)
class ImageTaskData:
    """A single picture that a stage works on."""

    image_path: Any
    image_id: str | None = None
    is_valid: bool = True
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return dict(vars(self))


@dataclass
class ImageSampleTask(Task[T], Generic[T]):
    """A task of a single picture."""

    @property
    def num_items(self) -> int:
        return 1

    def validate(self) -> bool:
        return True

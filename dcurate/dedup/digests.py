"""128-bit hashes of the texts of a batch, made where the texts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.frames.convert import is_cudf, to_arrow
from dcurate.frames.gpus import texts_on_gpu
from dcurate.frames.hashes import content_hashes
from dcurate.kernels.cuda import usable
from dcurate.kernels.cuda_minhash import text_digests


def digests_of(
    frame: Any, text_field: str, normalize: Sequence[str] = (), *, gpu: bool = False
) -> npt.NDArray[np.uint64]:
    """What `content_hashes` gives of the rows of a frame, an array of shape (rows, 2).

    Texts of a frame of cuDF are hashed on their GPU, if one is asked for: sixteen bytes a row come to the host. Others
    are hashed on the host, which does that faster than it moves them; and so are those that are normalized first.

    Raises:
        DataError: there is no such column, or it does not hold text.

    Examples:
        >>> import pyarrow as pa
        >>> first, second = digests_of(pa.table({"text": ["one", None]}), "text").tolist()
        >>> first == second
        False
    """
    if gpu and not normalize and is_cudf(frame) and usable():
        return text_digests(texts_on_gpu(frame, text_field), np.arange(len(frame)))
    return content_hashes(to_arrow(frame), text_field, normalize)

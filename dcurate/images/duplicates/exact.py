"""Images with the same bytes or the same pixels, over a whole dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from dcurate.core.stage import Stage
from dcurate.groups.files import FileExactDuplicates
from dcurate.groups.keep import Keep
from dcurate.groups.resolve import Action
from dcurate.images.duplicates.reading import PixelDigest
from dcurate.images.reading import LIBRARIES, ImageReading
from dcurate.media.digest import FileDigest

By = Literal["bytes", "pixels"]


@dataclass
class ImageExactDuplicates(FileExactDuplicates):
    """Keep one of all images with the same bytes, or with the same pixels, over a whole dataset.

    Args:
        by: ``"bytes"`` compares files as they are, any files; ``"pixels"`` decodes them, so that the same picture as
            PNG and as lossless WebP, or with other metadata, is a duplicate.
        keep: rule for which of several copies to keep: ``"first"`` in the order of the source, ``Highest("score")``,
            ``Lowest("size")`` or ``Preferred("source", ["books", "web"])``.
        action: ``"drop"`` the others; ``"flag"`` to keep all rows and add the columns ``duplicate_group`` and
            ``is_duplicate``; ``"identify"`` for a row for each member of a group instead. As in `ExactDuplicates`.
        id_field, report_path: same settings as in `ExactDuplicates`.
        reading: limits, and whether pictures are decoded in a child process.
        name: name of the stage.

    The bytes of each file are fetched once and not kept: what is shuffled is a hash of 128 bits (XXH3). The result is
    the same for any number of workers and any partitioning of the files. A file that cannot be fetched or decoded goes
    to quarantine; a row without a file is kept, and is a duplicate of nothing.

    Raises:
        PipelineError: an unknown setting.

    Examples:
        >>> ImageExactDuplicates(by="pixels", keep="first").by
        'pixels'
    """

    by: By = "bytes"
    keep: str | Keep = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    reading: ImageReading = field(default_factory=ImageReading)
    name: str = "image_exact_duplicates"

    digests: ClassVar[Mapping[str, Callable[..., Stage]]] = {"bytes": FileDigest, "pixels": PixelDigest}
    libraries: ClassVar[Mapping[str, str]] = LIBRARIES

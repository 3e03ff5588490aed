"""Films with the same bytes, the same packets or the same frames, over a whole dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pyarrow as pa

from dcurate.core.stage import Stage
from dcurate.groups.files import FileExactDuplicates
from dcurate.groups.keep import Keep
from dcurate.groups.resolve import Action
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.digest import DIGEST, FileDigest
from dcurate.media.stage import FileReading
from dcurate.video.stage import VideoReading, VideoStage


@dataclass
class PacketDigest(VideoStage):
    """Adds the column `DIGEST`: a hash of the packets of pictures of each film or clip."""

    name: str = "packet_digests"

    keeps_rows_without: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, pa.DataType]] = {DIGEST: pa.binary(16)}
    function: ClassVar[str] = "dcurate.video.duplicates.digests:hash_packets"

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return (answer.blobs[0],)


@dataclass
class FrameDigest(PacketDigest):
    """Adds the column `DIGEST`: a hash of the pixels of the frames of each film or clip."""

    name: str = "frame_digests"

    function: ClassVar[str] = "dcurate.video.duplicates.digests:hash_frames"


@dataclass
class VideoExactDuplicates(FileExactDuplicates):
    """Keep one of all films with the same bytes, packets or frames, over a whole dataset.

    Args:
        by: ``"packets"`` compares the encoded pictures, so that a film is a duplicate in another container, with other
            sound or with other tags; nothing is decoded. ``"frames"`` decodes all frames and compares their pixels, so
            that a copy without loss is one, too. Both compare clips, and neither looks at sound or at times.
            ``"bytes"`` compares whole files as they are.
        keep: rule for which of several copies to keep: ``"first"`` in the order of the source, ``Highest("score")``,
            ``Lowest("size")`` or ``Preferred("source", ["films", "web"])``.
        action: ``"drop"`` the others; ``"flag"`` to keep all rows and add the columns ``duplicate_group`` and
            ``is_duplicate``; ``"identify"`` for a row for each member of a group instead. As in `ExactDuplicates`.
        id_field, report_path: same settings as in `ExactDuplicates`.
        reading: limits.
        name: name of the stage.

    What is shuffled is a hash of 128 bits (XXH3). The result is the same for any number of workers and any partitioning
    of the files. A file that cannot be fetched or read goes to quarantine; a row without a file is kept, and is a
    duplicate of nothing.

    Raises:
        PipelineError: an unknown setting.

    Examples:
        >>> VideoExactDuplicates(keep="first").by
        'packets'
    """

    by: Literal["packets", "frames", "bytes"] = "packets"
    keep: str | Keep = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    reading: FileReading = field(default_factory=VideoReading)
    name: str = "video_exact_duplicates"

    digests: ClassVar[Mapping[str, Callable[..., Stage]]] = {
        "packets": PacketDigest,
        "frames": FrameDigest,
        "bytes": FileDigest,
    }
    libraries: ClassVar[Mapping[str, str]] = {"av": "video"}

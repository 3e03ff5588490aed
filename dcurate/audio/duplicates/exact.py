"""Recordings with the same bytes or the same samples, over a whole dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import xxhash

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.stage import SoundStage
from dcurate.core.stage import Stage
from dcurate.groups.files import FileExactDuplicates
from dcurate.groups.keep import Keep
from dcurate.groups.resolve import Action
from dcurate.media.digest import DIGEST, FileDigest
from dcurate.media.stage import FileReading


@dataclass
class SampleDigest(SoundStage):
    """Adds the column `DIGEST`: a hash of the samples of each recording or segment, their rate and their channels."""

    name: str = "sample_digests"

    keeps_rows_without: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, pa.DataType]] = {DIGEST: pa.binary(16)}

    def listener(self, sound: Sound) -> Hashing:
        return Hashing(sound)


class Hashing:
    """Hashes a recording."""

    def __init__(self, sound: Sound) -> None:
        self._hash = xxhash.xxh3_128(np.array([sound.rate, sound.channels], "<i8").tobytes())

    def hear(self, samples: Samples) -> None:
        self._hash.update(np.ascontiguousarray(samples + 0.0, "<f4").data)  # -0.0 is 0.0

    def values(self, truncated: bool) -> Sequence[Any]:
        return (self._hash.digest(),)


@dataclass
class AudioExactDuplicates(FileExactDuplicates):
    """Keep one of all recordings with the same bytes, or with the same samples, over a whole dataset.

    Args:
        by: ``"samples"`` decodes recordings, so that the same sound as WAV and as FLAC, or with other tags, is a
            duplicate; and compares segments. ``"bytes"`` compares whole files as they are, without decoding.
        keep: rule for which of several copies to keep: ``"first"`` in the order of the source, ``Highest("score")``,
            ``Lowest("size")`` or ``Preferred("source", ["books", "web"])``.
        action: ``"drop"`` the others; ``"flag"`` to keep all rows and add the columns ``duplicate_group`` and
            ``is_duplicate``; ``"identify"`` for a row for each member of a group instead. As in `ExactDuplicates`.
        id_field, report_path: same settings as in `ExactDuplicates`.
        reading: limits.
        name: name of the stage.

    What is shuffled is a hash of 128 bits (XXH3). The result is the same for any number of workers and any partitioning
    of the files. A file that cannot be fetched or decoded goes to quarantine; a row without a file is kept, and is a
    duplicate of nothing.

    Raises:
        PipelineError: an unknown setting.

    Examples:
        >>> AudioExactDuplicates(keep="first").by
        'samples'
    """

    by: Literal["samples", "bytes"] = "samples"
    keep: str | Keep = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    reading: FileReading = field(default_factory=FileReading)
    name: str = "audio_exact_duplicates"

    digests: ClassVar[Mapping[str, Callable[..., Stage]]] = {"samples": SampleDigest, "bytes": FileDigest}
    libraries: ClassVar[Mapping[str, str]] = {"soundfile": "audio"}

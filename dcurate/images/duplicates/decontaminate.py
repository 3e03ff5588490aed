"""Keep the images of benchmarks out of training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.groups.decontaminate import Action, BenchmarkFiles, ClosestFiles, FileDecontaminate
from dcurate.images.duplicates.fingerprint import FINGERPRINT, SIZE, Fingerprints
from dcurate.images.duplicates.reading import FingerprintStage
from dcurate.images.duplicates.thumbnails import ThumbnailSimilarity
from dcurate.images.reading import ImageReading
from dcurate.kernels.layout import Ints
from dcurate.kernels.structure import BITS
from dcurate.media.stage import FileStage


@dataclass(frozen=True)
class BenchmarkImages(BenchmarkFiles):
    """The fingerprints of the images of benchmarks: 1,192 bytes each.

    Args:
        prints: packed one after another.
        names: name of the benchmark and of the file, for each image.

    Examples:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (80, 60), "red").save(f"{folder}/q1.png")
        ...     known = BenchmarkImages.build({"vqa": f"{folder}/*.png"})
        ...     known.write(f"{folder}/known")
        ...     BenchmarkImages.read(f"{folder}/known").names
        (('vqa', 'q1.png'),)
    """

    what: ClassVar[str] = "images"
    kinds: ClassVar[Sequence[str]] = ("image",)

    @classmethod
    def print_stage(cls, reading: Any, name: str) -> FileStage:
        return FingerprintStage(reading=reading or ImageReading(), name=name)

    @classmethod
    def packed(cls, prints: Sequence[bytes]) -> bytes:
        return b"".join(prints)

    @classmethod
    def unpacked(cls, data: bytes) -> list[bytes]:
        return [data[at : at + SIZE] for at in range(0, len(data), SIZE)]


@dataclass
class ImageDecontaminate(FileDecontaminate):
    """Drop or flag the images that show the same picture as an image of a benchmark.

    Each is compared with all images of the benchmarks: hashes within `max_distance` are verified by their thumbnails,
    as `ImageNearDuplicates` does. That takes about 10 ns for each pair of hashes.

    Args:
        benchmarks: files, folders, globs or archives of images, by the name of the benchmark; or `BenchmarkImages`, or
            the folder that `BenchmarkImages.write` wrote: so images are read once and not by every worker.
        action: ``"drop"``, or ``"flag"`` to keep all rows and say which would go.
        max_distance, threshold, flips, reading: same settings as in `ImageNearDuplicates`.
        prefix: prefix of the columns with findings: ``benchmark``, ``example`` (the name of its file) and
            ``similarity``. Rejected rows have them, too.
        name: name of the stage.

    The reason for a drop names the benchmark, so the report counts by benchmark. A file that cannot be fetched or
    decoded goes to quarantine; a row without a file is kept.

    Raises:
        PipelineError: an unknown setting.

    Examples:
        >>> ImageDecontaminate({"vqa": "benchmarks/vqa/*.jpg"}, action="flag").outputs()[1]
        ['contamination_benchmark', 'contamination_example', 'contamination_similarity']
    """

    benchmarks: Mapping[str, str | Sequence[str]] | BenchmarkImages | str
    action: Action = "drop"
    max_distance: int = 10
    threshold: float = 0.5
    flips: bool = False
    prefix: str = "contamination_"
    reading: ImageReading = field(default_factory=ImageReading)
    name: str = "image_decontaminate"

    known: ClassVar[type[BenchmarkFiles]] = BenchmarkImages
    column: ClassVar[str] = FINGERPRINT
    such_as: ClassVar[str] = "{'vqa': 'vqa/*.jpg'}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.max_distance <= BITS:
            raise PipelineError(f"{self.name}: max_distance={self.max_distance!r} must lie between 0 and {BITS}")

    def matches(self, prints: Any, known: BenchmarkFiles) -> ClosestFiles:
        images, others = Fingerprints.of(prints), Fingerprints.of(known.prints)
        best, similarity = np.full(len(images.hashes), -1), np.zeros(len(images.hashes))
        left, right = _within(images.hashes, others.hashes, self.max_distance)
        if self.flips:
            more = _within(images.hashes, others.mirrored, self.max_distance)
            left, right = np.concatenate([left, more[0]]), np.concatenate([right, more[1]])
        both = images.with_others(others)
        scores = ThumbnailSimilarity(both, self.flips)(left, right + len(images.hashes))
        for row, place, score in zip(left.tolist(), right.tolist(), scores.tolist(), strict=True):
            if score >= self.threshold and score > similarity[row]:
                best[row], similarity[row] = place, score
        return ClosestFiles(best, similarity)


def _within(hashes: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64], distance: int) -> tuple[Ints, Ints]:
    """Return all pairs of hashes within a distance, by comparing each with each."""
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for row, hash_words in enumerate(hashes):
        apart = np.bitwise_count(known ^ hash_words).sum(axis=1, dtype=np.int64)
        near = np.flatnonzero(apart <= distance)
        left.append(np.full(len(near), row))
        right.append(near)
    return np.concatenate(left), np.concatenate(right)

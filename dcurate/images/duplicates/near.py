"""Images that nearly repeat others, over a whole dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import Stage
from dcurate.errors import PipelineError, nearest
from dcurate.frames.columns import only, rows_at
from dcurate.frames.hashes import rows_with_values
from dcurate.groups.clusters import Groups
from dcurate.groups.components import Edges
from dcurate.groups.keep import First, Keep, keep_of
from dcurate.groups.near_files import NearFileDuplicates, NearFiles, PrintEntryWriter
from dcurate.groups.near_hashes import MIRRORED, FindNearHashes, hash_entries
from dcurate.groups.parts import Parts
from dcurate.groups.resolve import Action
from dcurate.groups.verify import Comparison
from dcurate.images.duplicates.fingerprint import FINGERPRINT, Fingerprints
from dcurate.images.duplicates.groups import ImageClustering, guarded
from dcurate.images.duplicates.reading import FingerprintStage
from dcurate.images.duplicates.thumbnails import ThumbnailSimilarity
from dcurate.images.reading import LIBRARIES, ImageReading
from dcurate.kernels.layout import Ints
from dcurate.kernels.stars import Similarities
from dcurate.kernels.structure import BITS

REASON = "near_duplicate_image"

#: How candidates are verified.
Verify = Literal["thumbnail", "none"]


@dataclass(frozen=True)
class Largest(Keep):
    """Keep the image with the most pixels."""

    def ranks(self, table: Any, text_field: str) -> npt.NDArray[np.float64]:
        ranks = np.full(table.num_rows, np.inf)
        ranks[rows_with_values(table, [FINGERPRINT])] = -Fingerprints.of(table[FINGERPRINT]).pixels.astype(np.float64)
        return ranks

    def columns(self, text_field: str) -> list[str]:
        return [FINGERPRINT]


@dataclass
class ImageNearDuplicates(NearFileDuplicates):
    """Keep one image of each group that shows the same picture, over a whole dataset.

    Each picture is decoded once, at a reduced scale, for a fingerprint of 1,192 bytes: a hash of 128 bits, and a
    thumbnail of 32 x 32 levels of gray and 8 x 8 colours. All pairs of hashes within `max_distance` bits are found:
    none is missed (see `max_distance`). They are verified by their thumbnails. So a picture is found again after it was
    resized, saved in another format or quality, made brighter, darker, gray, sharper, or got a thin border; and forms
    with other words, or plain pictures of other colours, are distinguished.

    Args:
        max_distance: most bits in which the hashes of two candidates differ. Of copies as above, 98 % are within 10.
            The search is exhaustive, by the pigeonhole principle. Where more than 512 different pictures share a key,
            each is paired with some of them only, so that a million white pictures take linear time; the run's report
            counts such ``large buckets``.
        threshold: candidates are duplicates from this similarity on, 0 to 1: higher for fewer false ones.
        verify: ``"thumbnail"``, or ``"none"`` to treat all candidates as duplicates.
        flips: whether a picture and its mirror image are duplicates.
        clustering: ``"guarded"``: images connected by pairs are a group, but for those that are unlike the one that
            stays, so that no chain of small changes joins different pictures; ``"connected"``: without that rule;
            ``"star"``: each dropped image is a verified duplicate of the kept one.
        keep: rule for which image of a group to keep: ``"first"`` in the order of the source, ``"largest"`` in pixels,
            ``Highest("score")``, ``Lowest("size")`` or ``Preferred("split", ["test", "train"])``, which removes copies
            of test images from the training data.
        together: same setting as in `Parts`: 1 for up to some millions of images takes less disk, 2 or 3 for billions
            less time.
        action, id_field, report_path, index_path, source_field: same settings as in `FuzzyDuplicates`.
        reading: limits, and whether pictures are decoded in a child process.
        name: name of the stage.

    The result is the same for any number of workers and any partitioning of the files. What waits on disk, beside the
    output, are the rows, fingerprints, and 66 keys of 38 bytes for each image (with the defaults); never pixels. A
    file that cannot be fetched or decoded goes to quarantine; a row without a file is kept, and is a duplicate of
    nothing.

    Raises:
        PipelineError: an unknown setting, or one out of range.

    Examples:
        >>> ImageNearDuplicates(keep="largest", id_field="file_name").inputs()
        ([], ['file_name'])
    """

    max_distance: int = 10
    threshold: float = 0.5
    verify: Verify = "thumbnail"
    flips: bool = False
    clustering: ImageClustering = "guarded"
    keep: str | Keep | Sequence[str | Keep] = "first"
    together: int = 2
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    index_path: str | None = None
    source_field: str | None = None
    reading: ImageReading = field(default_factory=ImageReading)
    name: str = "image_near_duplicates"

    entries_name: ClassVar[str] = "keys"
    column: ClassVar[str] = FINGERPRINT
    clusterings: ClassVar[Sequence[str]] = get_args(ImageClustering)
    libraries: ClassVar[Mapping[str, str]] = LIBRARIES

    def __post_init__(self) -> None:
        if self.verify not in get_args(Verify):
            hint = nearest(str(self.verify), get_args(Verify))
            raise PipelineError(f"{self.name}: no verify {self.verify!r}{hint}")
        if self.keep == "longest":
            raise PipelineError(f'{self.name}: keep="longest" is for texts; use "largest" for the most pixels')
        super().__post_init__()
        _ = self.parts_of_hashes

    @property
    def parts_of_hashes(self) -> Parts:
        """How hashes are cut."""
        return Parts(BITS, self.max_distance, self.together)

    @property
    def chosen(self) -> Keep:
        return keep_of(self.keep, self.name, {"first": First(), "largest": Largest()})

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "hash": f"structure {BITS}",
            "max_distance": self.max_distance,
            "together": self.together,
            "flips": self.flips,
        }

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = KeyWriter(url, cut=self.parts_of_hashes, flips=self.flips, **self.for_writer(options))
        return [FingerprintStage(reading=self.reading, name=f"{self.name}_fingerprints"), writer]

    def find_stage(self, url: str, options: dict[str, Any], first: int) -> Stage:
        return FindNearHashes(url, options, self.parts_of_hashes, first, name=f"{self.name}_candidates")

    def near(self, **shared: Any) -> NearImages:
        return NearImages(
            text_field="file_name",
            least=self.threshold,
            verify=self.verify,
            flips=self.flips,
            clustering="star" if self.clustering == "star" else "connected",
            guard=self.clustering == "guarded",
            hidden=(FINGERPRINT,),
            **shared,
        )


@dataclass(frozen=True, kw_only=True)
class NearImages(NearFiles):
    """The settings of `ImageNearDuplicates`."""

    reason: ClassVar[str] = REASON
    column: ClassVar[str] = FINGERPRINT

    verify: Verify
    flips: bool
    guard: bool

    @property
    def threshold(self) -> float:
        return self.least if self.verify == "thumbnail" else 0.0

    def comparison(self, table: Any, order: Ints) -> Comparison:
        prints = Fingerprints.of(rows_at(only(table, [FINGERPRINT]), order)[FINGERPRINT])
        return ThumbnailSimilarity(prints, self.flips)

    def grouped(
        self, ranks: npt.NDArray[np.float64], pairs: Edges, similarity: Similarities, compare: Comparison
    ) -> Groups:
        if self.guard and self.verify == "thumbnail":
            return guarded(ranks, pairs, similarity, compare)
        return super().grouped(ranks, pairs, similarity, compare)


class PrintsInRows(NamedTuple):
    """Fingerprints, and the number of the row that each is of."""

    prints: Fingerprints
    rows: Ints


@dataclass
class KeyWriter(PrintEntryWriter):
    """Writes rows, and beside them the keys of the hash of each picture.

    Args:
        cut: how hashes are cut.
        flips: whether mirror images get keys, too.
    """

    cut: Parts = field(default_factory=lambda: Parts(BITS, 10))
    flips: bool = False
    name: str = "key_writer"

    folder: ClassVar[str] = "keys/"
    column: ClassVar[str] = FINGERPRINT

    def read(self, table: Any) -> PrintsInRows:
        return PrintsInRows(Fingerprints.of(table[FINGERPRINT]), rows_with_values(table, [FINGERPRINT]))

    def entries(self, compared: PrintsInRows) -> Any:
        """A row for each key of each hash: its number among them, the row and content of the picture, and the hash.

        The row of a mirror image is marked by the uppermost bit.
        """
        prints, rows = compared
        hashes, contents = prints.hashes, prints.contents
        if self.flips:
            hashes = np.concatenate([hashes, prints.mirrored])
            rows = np.concatenate([rows, rows + MIRRORED])
            contents = np.concatenate([contents, ~contents])
        return hash_entries(self.cut, hashes, rows, contents)

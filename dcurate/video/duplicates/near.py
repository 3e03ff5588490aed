"""Films that nearly repeat others, over a whole dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from dcurate.core.stage import Stage
from dcurate.frames.columns import only, rows_at
from dcurate.frames.hashes import rows_with_values
from dcurate.groups.clusters import Clustering
from dcurate.groups.keep import First, Keep, keep_of
from dcurate.groups.near_files import NearFileDuplicates, NearFiles, PrintEntryWriter
from dcurate.groups.near_hashes import FindNearHashes, hash_entries
from dcurate.groups.parts import Parts
from dcurate.groups.resolve import Action
from dcurate.groups.verify import Comparison
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.kernels.frame_sequences import align_frames
from dcurate.kernels.layout import Ints
from dcurate.kernels.structure import BITS
from dcurate.media.stage import FileReading
from dcurate.video.duplicates.prints import FINGERPRINT, FilmPrint
from dcurate.video.stage import VideoReading, VideoStage

REASON = "near_duplicate_video"


@dataclass
class FilmPrintStage(VideoStage):
    """Adds the column `FINGERPRINT`; null for a film of black or plain frames alone."""

    name: str = "video_fingerprints"

    keeps_rows_without: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, pa.DataType]] = {FINGERPRINT: pa.large_binary()}
    function: ClassVar[str] = "dcurate.video.duplicates.prints:watch"

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return (answer.blobs[0] if answer.blobs else None,)


@dataclass(frozen=True)
class LongestFilm(Keep):
    """Keep the film that lasts longest."""

    def ranks(self, table: Any, text_field: str) -> npt.NDArray[np.float64]:
        ranks = np.full(table.num_rows, np.inf)
        rows = rows_with_values(table, [FINGERPRINT])
        prints = rows_at(only(table, [FINGERPRINT]), rows)[FINGERPRINT].to_pylist()
        ranks[rows] = [-FilmPrint.read(data).duration_s for data in prints]
        return ranks

    def columns(self, text_field: str) -> list[str]:
        return [FINGERPRINT]


@dataclass
class VideoNearDuplicates(NearFileDuplicates):
    """Keep one film or clip of each group that shows the same, over a whole dataset.

    Each film or clip is decoded once, for a fingerprint of 20 bytes a frame: hashes of 128 bits of two frames a second,
    without black bars, and their times. All pairs of films with two frames whose hashes are within `max_distance` bits
    are found: none is missed, by the pigeonhole principle, as in `ImageNearDuplicates`. They are verified: most frames
    must agree at one offset and one speed, all along. So a film is found again after it was encoded by another codec,
    reduced, stretched, put between black bars, trimmed, or played at 0.9 to 1.1 times its speed; mirrored or with text
    over it, it is another.

    Args:
        threshold: least part of the longer of two duplicates that shows the same, above 0 and at most 1.
        max_distance: most bits in which the hashes of the two nearest frames of two candidates differ. Where more than
            512 different films share a key, each is paired with some of them only; the run's report counts such
            ``large buckets``.
        together: same setting as in `Parts`: 1 takes less disk, 2 or 3 less time for very many films.
        clustering: ``"connected"``: films connected by pairs are a group; ``"star"``: each dropped film is a verified
            duplicate of the kept one.
        keep: rule for which film of a group to keep: ``"first"`` in the order of the source, ``"longest"`` in seconds,
            ``Highest("score")``, ``Lowest("size")`` or ``Preferred("split", ["test", "train"])``, which removes copies
            of test films from the training data.
        action, id_field, report_path, index_path, source_field: same settings as in `FuzzyDuplicates`.
        reading: limits.
        name: name of the stage.

    The result is the same for any number of workers and any partitioning of the files. What waits on disk, beside the
    output, are the rows, fingerprints, and 66 keys of 38 bytes for each different frame of two a second; never pixels.
    Of films above two hours fewer frames are compared. A file that cannot be fetched or decoded goes to quarantine; a
    row without a file, and a film of black or plain frames alone, is kept, and is a duplicate of nothing.

    Raises:
        PipelineError: an unknown setting, or one out of range.

    Examples:
        >>> VideoNearDuplicates(keep="longest", id_field="file_name").inputs()
        ([], ['file_name'])
    """

    threshold: float = 0.6
    max_distance: int = 10
    together: int = 2
    clustering: Clustering = "connected"
    keep: str | Keep | Sequence[str | Keep] = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    index_path: str | None = None
    source_field: str | None = None
    reading: FileReading = field(default_factory=VideoReading)
    name: str = "video_near_duplicates"

    entries_name: ClassVar[str] = "keys"
    column: ClassVar[str] = FINGERPRINT
    libraries: ClassVar[Mapping[str, str]] = {"av": "video", "PIL": "video"}

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.parts_of_hashes

    @property
    def parts_of_hashes(self) -> Parts:
        """How hashes are cut."""
        return Parts(BITS, self.max_distance, self.together)

    @property
    def chosen(self) -> Keep:
        return keep_of(self.keep, self.name, {"first": First(), "longest": LongestFilm()})

    @property
    def parameters(self) -> dict[str, Any]:
        return {"hash": f"frames {BITS}", "max_distance": self.max_distance, "together": self.together}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = FrameKeyWriter(url, cut=self.parts_of_hashes, **self.for_writer(options))
        return [FilmPrintStage(reading=self.reading, name=f"{self.name}_fingerprints"), writer]

    def find_stage(self, url: str, options: dict[str, Any], first: int) -> Stage:
        return FindNearHashes(url, options, self.parts_of_hashes, first, name=f"{self.name}_candidates")

    def near(self, **shared: Any) -> NearFilms:
        return NearFilms(
            text_field="file_name", least=self.threshold, clustering=self.clustering, hidden=(FINGERPRINT,), **shared
        )


@dataclass(frozen=True, kw_only=True)
class NearFilms(NearFiles):
    """The settings of `VideoNearDuplicates`."""

    reason: ClassVar[str] = REASON
    column: ClassVar[str] = FINGERPRINT

    def comparison(self, table: Any, order: Ints) -> Comparison:
        column = rows_at(only(table, [FINGERPRINT]), order)[FINGERPRINT]
        return FilmSimilarity([FilmPrint.read(data) for data in column.to_pylist()])


@dataclass(frozen=True)
class FilmSimilarity:
    """The similarity of pairs of films: the part of the longer one that shows the same, 0 to 1.

    Args:
        prints: fingerprints of the films.
    """

    prints: Sequence[FilmPrint]

    def __call__(self, left: Ints, right: Ints) -> npt.NDArray[np.float64]:
        """Compare the films of these numbers, pair by pair."""
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        return np.array([self._pair(self.prints[here], self.prints[there]) for here, there in pairs], np.float64)

    @staticmethod
    def _pair(here: FilmPrint, there: FilmPrint) -> float:
        similarity: float = align_frames(
            (here.hashes, there.hashes),
            (here.times, there.times),
            (here.duration_s, there.duration_s),
            max(here.step_s, there.step_s),
        )
        return similarity


class FilmPrintsInRows(NamedTuple):
    """Fingerprints, and the number of the row that each is of."""

    prints: list[bytes]
    rows: Ints


@dataclass
class FrameKeyWriter(PrintEntryWriter):
    """Writes rows, and beside them the keys of the hashes of frames, each hash of a film once.

    Args:
        cut: how hashes are cut.
    """

    cut: Parts = field(default_factory=lambda: Parts(BITS, 10))
    name: str = "frame_key_writer"

    folder: ClassVar[str] = "keys/"
    column: ClassVar[str] = FINGERPRINT

    def read(self, table: Any) -> FilmPrintsInRows:
        return FilmPrintsInRows(table[FINGERPRINT].drop_null().to_pylist(), rows_with_values(table, [FINGERPRINT]))

    def entries(self, compared: FilmPrintsInRows) -> Any:
        """A row for each key of each hash of each film; the content of a film is a hash of its fingerprint."""
        hashes = [np.unique(FilmPrint.read(data).hashes, axis=0) for data in compared.prints]
        counts = [len(frames) for frames in hashes]
        contents = np.array([xxhash.xxh3_64_intdigest(data) for data in compared.prints], np.uint64)
        together = np.concatenate([np.empty((0, BITS // 64), np.uint64), *hashes])
        return hash_entries(self.cut, together, np.repeat(compared.rows, counts), np.repeat(contents, counts))

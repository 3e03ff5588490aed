"""Recordings that nearly repeat others, over a whole dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from dcurate.audio.decode import Sound
from dcurate.audio.duplicates.prints import FINGERPRINT, Alignment, Fingerprint, Landmarks
from dcurate.audio.stage import SoundStage
from dcurate.core.stage import Stage
from dcurate.errors import PipelineError
from dcurate.frames.columns import only, rows_at, table_of
from dcurate.frames.hashes import rows_with_values
from dcurate.groups.clusters import Clustering
from dcurate.groups.keep import First, Keep, keep_of
from dcurate.groups.near_files import NearFileDuplicates, NearFiles, PrintEntryWriter
from dcurate.groups.pairs import CONTENT, KEY, ROW, FindPairs
from dcurate.groups.resolve import Action
from dcurate.groups.verify import Comparison
from dcurate.kernels.landmarks import band_keys
from dcurate.kernels.layout import Ints
from dcurate.kernels.permutations import Permutations
from dcurate.media.stage import FileReading

REASON = "near_duplicate_audio"

#: Seed of the permutations.
_SEED = 42


@dataclass
class LandmarkStage(SoundStage):
    """Adds the column `FINGERPRINT`; null for a recording with too little sound to say anything."""

    name: str = "audio_fingerprints"

    keeps_rows_without: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, pa.DataType]] = {FINGERPRINT: pa.binary()}

    def listener(self, sound: Sound) -> Landmarks:
        return Landmarks(sound)


@dataclass(frozen=True)
class LongestSound(Keep):
    """Keep the recording that lasts longest."""

    def ranks(self, table: Any, text_field: str) -> npt.NDArray[np.float64]:
        ranks = np.full(table.num_rows, np.inf)
        rows = rows_with_values(table, [FINGERPRINT])
        prints = rows_at(only(table, [FINGERPRINT]), rows)[FINGERPRINT].to_pylist()
        ranks[rows] = [-Fingerprint.read(data).duration_s for data in prints]
        return ranks

    def columns(self, text_field: str) -> list[str]:
        return [FINGERPRINT]


@dataclass
class AudioNearDuplicates(NearFileDuplicates):
    """Keep one recording of each group with the same sound, over a whole dataset.

    Each recording or segment is decoded once, for a fingerprint of up to 8 KiB: 1,024 landmarks, each of three peaks of
    its spectrogram between 190 and 2,000 Hz, after Wang (2003). Recordings that share landmarks are found by MinHash
    and LSH, and verified: most landmarks must agree on one offset and one speed, all along. So a recording is found
    again after it was encoded by another codec, trimmed, padded, resampled, made quieter or louder, low-passed to 2
    kHz, with noise at 20 dB, or played up to 2 % faster or slower; other words by the same voice are not. A recording
    within a longer one is a duplicate only if it is the larger part of it: see `threshold`.

    Args:
        threshold: least part of the longer of two duplicates that is the same sound, above 0 and at most 1. Silence
            before the first and after the last sound does not count.
        num_bands: number of bands of MinHash, of two rows each: more find pairs that share fewer landmarks, and take
            more disk. With 256, 99.5 % of pairs were found of which both had been changed as above.
        clustering: ``"connected"``: recordings connected by pairs are a group; ``"star"``: each dropped recording is a
            verified duplicate of the kept one.
        keep: rule for which recording of a group to keep: ``"first"`` in the order of the source, ``"longest"`` in
            seconds, ``Highest("score")``, ``Lowest("size")`` or ``Preferred("split", ["test", "train"])``, which
            removes copies of test recordings from the training data.
        action, id_field, report_path, index_path, source_field: same settings as in `FuzzyDuplicates`.
        reading: limits.
        name: name of the stage.

    The result is the same for any number of workers and any partitioning of the files. What waits on disk, beside the
    output, are the rows, fingerprints, and a key of 38 bytes a band for each recording; never samples. A file that
    cannot be fetched or decoded goes to quarantine; a row without a file, and a recording of silence, of a steady tone
    or of less than about half a second, is kept, and is a duplicate of nothing.

    Raises:
        PipelineError: an unknown setting, or one out of range.

    Examples:
        >>> AudioNearDuplicates(keep="longest", id_field="file_name").inputs()
        ([], ['file_name'])
    """

    threshold: float = 0.7
    num_bands: int = 256
    clustering: Clustering = "connected"
    keep: str | Keep | Sequence[str | Keep] = "first"
    action: Action = "drop"
    id_field: str | None = None
    report_path: str | None = None
    index_path: str | None = None
    source_field: str | None = None
    reading: FileReading = field(default_factory=FileReading)
    name: str = "audio_near_duplicates"

    entries_name: ClassVar[str] = "bands"
    column: ClassVar[str] = FINGERPRINT
    readers: ClassVar[str] = SoundStage.readers
    libraries: ClassVar[Mapping[str, str]] = {"soundfile": "audio", "soxr": "audio"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.num_bands) is not int or not 1 <= self.num_bands <= 4096:
            raise PipelineError(f"{self.name}: num_bands={self.num_bands!r} must be a whole number from 1 to 4096")

    @property
    def chosen(self) -> Keep:
        return keep_of(self.keep, self.name, {"first": First(), "longest": LongestSound()})

    @property
    def parameters(self) -> dict[str, Any]:
        return {"hash": "landmarks of three peaks", "num_bands": self.num_bands}

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        writer = LandmarkWriter(url, num_bands=self.num_bands, **self.for_writer(options))
        return [LandmarkStage(reading=self.reading, name=f"{self.name}_fingerprints"), writer]

    def find_stage(self, url: str, options: dict[str, Any], first: int) -> Stage:
        return FindPairs(url, options, first, name=f"{self.name}_candidates")

    def near(self, **shared: Any) -> NearRecordings:
        return NearRecordings(
            text_field="file_name", least=self.threshold, clustering=self.clustering, hidden=(FINGERPRINT,), **shared
        )


@dataclass(frozen=True, kw_only=True)
class NearRecordings(NearFiles):
    """The settings of `AudioNearDuplicates`."""

    reason: ClassVar[str] = REASON
    column: ClassVar[str] = FINGERPRINT

    def comparison(self, table: Any, order: Ints) -> Comparison:
        return Alignment.of(rows_at(only(table, [FINGERPRINT]), order)[FINGERPRINT])


class RowPrints(NamedTuple):
    """Fingerprints, and the number of the row that each is of."""

    prints: list[bytes]
    rows: Ints


@dataclass
class LandmarkWriter(PrintEntryWriter):
    """Writes rows, and beside them the keys of the bands of each recording.

    Args:
        num_bands: number of bands.
    """

    num_bands: int = 256
    name: str = "landmark_writer"

    folder: ClassVar[str] = "bands/"
    column: ClassVar[str] = FINGERPRINT

    def read(self, table: Any) -> RowPrints:
        return RowPrints(table[FINGERPRINT].drop_null().to_pylist(), rows_with_values(table, [FINGERPRINT]))

    def entries(self, compared: RowPrints) -> Any:
        """A row for each band of each recording: its key, the row of the recording, and a hash of its fingerprint."""
        permutations = Permutations.seeded(2 * self.num_bands, _SEED)
        keys = np.empty((len(compared.prints), self.num_bands), np.uint64)
        for row, data in zip(keys, compared.prints, strict=True):
            band_keys(Fingerprint.read(data).hashes, permutations.factors, permutations.summands, row)
        contents = np.array([xxhash.xxh32_intdigest(data) for data in compared.prints], np.uint32)
        columns: dict[str, npt.NDArray[Any]] = {
            KEY: keys.ravel(),
            ROW: np.repeat(compared.rows, self.num_bands).astype(np.uint32),
            CONTENT: np.repeat(contents, self.num_bands),
        }
        return table_of(columns)

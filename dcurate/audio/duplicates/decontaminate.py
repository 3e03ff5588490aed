"""Keep the recordings of benchmarks out of training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.duplicates.exact import Hashing
from dcurate.audio.duplicates.prints import FINGERPRINT, Alignment, Fingerprint, Landmarks
from dcurate.audio.stage import SoundStage
from dcurate.core.stage import WorkerMetadata
from dcurate.groups.decontaminate import Action, BenchmarkFiles, ClosestFiles, FileDecontaminate
from dcurate.kernels.landmarks import FEWEST
from dcurate.kernels.layout import Ints
from dcurate.media.stage import FileReading, FileStage

#: Bytes of the hash of samples, before a fingerprint.
_DIGEST = 16


@dataclass
class PrintStage(SoundStage):
    """Adds the column `FINGERPRINT`: a hash of the samples, and behind it the landmarks, if there are enough."""

    name: str = "audio_prints"

    keeps_rows_without: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, pa.DataType]] = {FINGERPRINT: pa.binary()}

    def listener(self, sound: Sound) -> _Printing:
        return _Printing(sound)

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "soxr": "audio"}


class _Printing:
    """Listens to a recording for both."""

    def __init__(self, sound: Sound) -> None:
        self._hashing, self._landmarks = Hashing(sound), Landmarks(sound)

    def hear(self, samples: Samples) -> None:
        self._hashing.hear(samples)
        self._landmarks.hear(samples)

    def values(self, truncated: bool) -> Sequence[Any]:
        [digest], [landmarks] = self._hashing.values(truncated), self._landmarks.values(truncated)
        return (digest + (landmarks or b""),)


@dataclass(frozen=True)
class BenchmarkRecordings(BenchmarkFiles):
    """The fingerprints of the recordings of benchmarks: up to 8 KiB each.

    Args:
        prints: packed one after another.
        names: name of the benchmark and of the file, for each recording.

    Examples:
        >>> import tempfile, soundfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     soundfile.write(f"{folder}/q1.wav", np.random.default_rng(1).uniform(-0.5, 0.5, 16_000), 16_000)
        ...     known = BenchmarkRecordings.build({"commands": f"{folder}/*.wav"})
        ...     known.write(f"{folder}/known")
        ...     BenchmarkRecordings.read(f"{folder}/known").names
        (('commands', 'q1.wav'),)
    """

    what: ClassVar[str] = "recordings"
    kinds: ClassVar[Sequence[str]] = ("audio", "video")

    @classmethod
    def print_stage(cls, reading: Any, name: str) -> FileStage:
        return PrintStage(reading=reading or FileReading(), name=name)


@dataclass
class AudioDecontaminate(FileDecontaminate):
    """Drop or flag the recordings that have the same sound as a recording of a benchmark.

    Each recording, or the segment that a row refers to, is decoded once. It is contaminated if it has the samples of a
    recording of a benchmark, or if their landmarks say so, as in `AudioNearDuplicates`: also after another codec, a
    trim, a gain, or noise. It is compared with all recordings of the benchmarks with which it shares landmarks. As
    there, a short recording within a much longer one is not found: compare segments, of about the length of those of
    the benchmark.

    Args:
        benchmarks: files, folders, globs or archives of recordings, by the name of the benchmark; or
            `BenchmarkRecordings`, or the folder that `BenchmarkRecordings.write` wrote: so recordings are decoded once
            and not by every worker.
        action: ``"drop"``, or ``"flag"`` to keep all rows and say which would go.
        threshold: least part of the longer of two recordings that is the same sound, above 0 and at most 1.
        prefix: prefix of the columns with findings: ``benchmark``, ``example`` (the name of its file) and
            ``similarity``. Rejected rows have them, too.
        reading: limits.
        name: name of the stage.

    The reason for a drop names the benchmark, so the report counts by benchmark. A file that cannot be fetched or
    decoded goes to quarantine; a row without a file is kept.

    Raises:
        PipelineError: an unknown setting.

    Examples:
        >>> AudioDecontaminate({"commands": "benchmarks/commands/*.wav"}, action="flag").outputs()[1]
        ['contamination_benchmark', 'contamination_example', 'contamination_similarity']
    """

    benchmarks: Mapping[str, str | Sequence[str]] | BenchmarkRecordings | str
    action: Action = "drop"
    threshold: float = 0.7
    prefix: str = "contamination_"
    reading: FileReading = field(default_factory=FileReading)
    name: str = "audio_decontaminate"

    known: ClassVar[type[BenchmarkFiles]] = BenchmarkRecordings
    column: ClassVar[str] = FINGERPRINT
    such_as: ClassVar[str] = "{'commands': 'commands/*.wav'}"
    readers: ClassVar[str] = SoundStage.readers

    def __post_init__(self) -> None:
        super().__post_init__()
        self._index: LandmarkIndex | None = None

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "_index"}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        assert self._known is not None
        self._index = LandmarkIndex.of(self._known.unpacked(self._known.prints))

    def matches(self, prints: Any, known: BenchmarkFiles) -> ClosestFiles:
        assert self._index is not None
        found = [self._index.match(data, self.threshold) for data in prints.to_pylist()]
        places, similarity = (np.array([match[side] for match in found]) for side in (0, 1))
        return ClosestFiles(places.astype(np.int64), similarity.astype(np.float64))


class LandmarkIndex(NamedTuple):
    """Recordings by their samples and by their landmarks.

    Args:
        digests: the first recording with each hash of samples.
        prints: landmarks of the recordings, None for one that has too few.
        hashes: landmarks of all, sorted.
        owners: number of the recording of each.
    """

    digests: dict[bytes, int]
    prints: list[Fingerprint | None]
    hashes: npt.NDArray[np.uint32]
    owners: Ints

    @classmethod
    def of(cls, prints: Sequence[bytes]) -> LandmarkIndex:
        """Make an index of fingerprints."""
        digests: dict[bytes, int] = {}
        for number, data in enumerate(prints):
            digests.setdefault(data[:_DIGEST], number)
        marks = [Fingerprint.read(data[_DIGEST:]) if len(data) > _DIGEST else None for data in prints]
        parts = [(number, mark.hashes) for number, mark in enumerate(marks) if mark is not None]
        hashes = np.concatenate([np.empty(0, np.uint32), *(part for _, part in parts)])
        owners = np.repeat(np.array([number for number, _ in parts], np.int64), [len(part) for _, part in parts])
        order = np.argsort(hashes, kind="stable")
        return cls(digests, marks, hashes[order], owners[order])

    def match(self, data: bytes, threshold: float) -> tuple[int, float]:
        """Return the number of the most similar recording and its similarity; -1 and 0 if none is similar enough."""
        same = self.digests.get(data[:_DIGEST])
        if same is not None:
            return same, 1.0
        if len(data) == _DIGEST:
            return -1, 0.0
        mark, best, similarity = Fingerprint.read(data[_DIGEST:]), -1, 0.0
        others = self._sharing(mark.hashes)
        for number in others.tolist():
            other = self.prints[number]
            assert other is not None
            [score] = Alignment([mark, other])(np.array([0]), np.array([1])).tolist()
            if score >= threshold and score > similarity:
                best, similarity = number, score
        return best, similarity

    def _sharing(self, hashes: npt.NDArray[np.uint32]) -> Ints:
        """The recordings that share enough landmarks to be alike."""
        first, last = (np.searchsorted(self.hashes, hashes, side) for side in ("left", "right"))
        counts = last - first
        places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        shared: Ints = np.bincount(self.owners[places], minlength=len(self.prints))
        return np.flatnonzero(shared >= FEWEST)

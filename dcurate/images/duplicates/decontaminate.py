"""Keep the images of benchmarks out of training data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError, nearest, shown
from dcurate.frames.columns import rows_at, with_column, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.frames.hashes import rows_with_values
from dcurate.fs.stores import Directory
from dcurate.images.duplicates.fingerprint import ARROW, BITS, FINGERPRINT, Fingerprints
from dcurate.images.duplicates.reading import FingerprintStage
from dcurate.images.duplicates.thumbnails import ThumbnailSimilarity
from dcurate.images.reading import ImageReading
from dcurate.isolate.errors import MediaFault
from dcurate.kernels.layout import Ints
from dcurate.media.reader import MediaReader
from dcurate.media.refs import check_has_media

Action = Literal["drop", "flag"]

REASON = "contaminated"
_FORMAT = 1
_NAMES, _DATA = "images.json", "images.bin"


@dataclass(frozen=True)
class BenchmarkImages:
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

    prints: bytes = field(repr=False)
    names: tuple[tuple[str, str], ...] = field(repr=False)

    @classmethod
    def build(
        cls, benchmarks: Mapping[str, str | Sequence[str]], reading: ImageReading | None = None
    ) -> BenchmarkImages:
        """Read the images of benchmarks.

        Args:
            benchmarks: files, folders, globs or archives of images, by the name of the benchmark.
            reading: how they are read.

        Raises:
            DataError: an image cannot be read, or there is none.
        """
        stage, prints, names = FingerprintStage(reading=reading or ImageReading()), list[bytes](), []
        try:
            for benchmark, paths in benchmarks.items():
                for name, fingerprint in _fingerprints(paths, stage):
                    if isinstance(fingerprint, MediaFault):
                        raise DataError(f"{name!r} of benchmark {benchmark!r} cannot be read: {fingerprint.reason}")
                    prints += fingerprint
                    names.append((benchmark, name))
        finally:
            stage.teardown()
        if not names:
            raise DataError(f"there are no images of benchmarks in {dict(benchmarks)!r}")
        return cls(b"".join(prints), tuple(names))

    def write(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write them to a folder, so that they are not read and decoded again."""
        folder = Directory(url, storage_options or {})
        folder.write(_DATA, self.prints)
        folder.write(_NAMES, orjson.dumps({"format": _FORMAT, "images": self.names}))

    @classmethod
    def read(cls, url: str, storage_options: Mapping[str, Any] | None = None) -> BenchmarkImages:
        """Read what `write` wrote.

        Raises:
            DataError: there is nothing, or something else.
        """
        folder = Directory(url, storage_options or {})
        listed, prints = folder.read(_NAMES), folder.read(_DATA)
        if listed is None or prints is None:
            raise DataError(f"{url!r} holds no images of benchmarks; make them with BenchmarkImages.build(...).write()")
        about = orjson.loads(listed)
        if about.get("format") != _FORMAT or len(prints) != ARROW.byte_width * len(about["images"]):
            raise DataError(f"the images of benchmarks in {url!r} are of another version; build them again")
        return cls(prints, tuple((benchmark, name) for benchmark, name in about["images"]))


def _fingerprints(paths: str | Sequence[str], stage: FingerprintStage) -> Iterable[tuple[str, Any]]:
    """The name of each image, and a row of its fingerprint or what is wrong with it."""
    options = dict(stage.reading.storage_options or {})
    source = MediaReader(paths if isinstance(paths, str) else list(paths), kinds=["image"], storage_options=options)
    for split in source.splits():
        read = source.process(split)
        for batch in read if isinstance(read, list) else [read] if read is not None else []:
            table = batch.to_arrow()
            yield from zip(table["file_name"].to_pylist(), stage.answers(table), strict=True)


@dataclass
class ImageDecontaminate(ProcessingStage[DocumentBatch, DocumentBatch]):
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

    def __post_init__(self) -> None:
        if not isinstance(self.benchmarks, Mapping | BenchmarkImages | str):
            raise PipelineError(
                f"{self.name}: benchmarks={shown(self.benchmarks)} must be a dict of names and paths, such as "
                "{'vqa': 'vqa/*.jpg'}"
            )
        if self.action not in get_args(Action):
            raise PipelineError(f"{self.name}: no action {self.action!r}{nearest(str(self.action), get_args(Action))}")
        if not 0 < self.threshold <= 1:
            raise PipelineError(f"{self.name}: threshold={self.threshold!r} must lie above 0 and at most at 1")
        if not 0 <= self.max_distance <= BITS:
            raise PipelineError(f"{self.name}: max_distance={self.max_distance!r} must lie between 0 and {BITS}")
        self._prints = FingerprintStage(reading=self.reading, name=self.name)
        self._known: BenchmarkImages | None = None

    def inputs(self) -> Spec:
        return ["data"], []

    def columns_read(self) -> None:
        """None: files are looked up in whatever columns say where they are."""

    def outputs(self) -> Spec:
        return ["data"], self._columns if self.action == "flag" else []

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name)

    def requires(self) -> dict[str, str]:
        return self._prints.requires()

    def settings(self) -> dict[str, Any]:
        omitted = ("_prints", "_known", "reading", "benchmarks")
        settings = {name: value for name, value in super().settings().items() if name not in omitted}
        benchmarks = None if isinstance(self.benchmarks, BenchmarkImages) else self.benchmarks
        return {**settings, "benchmarks": benchmarks, "reading": self.reading.limits}

    @property
    def _columns(self) -> list[str]:
        return [f"{self.prefix}{suffix}" for suffix in ("benchmark", "example", "similarity")]

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._prints.setup(worker_metadata)
        options = self.reading.storage_options
        if isinstance(self.benchmarks, BenchmarkImages):
            self._known = self.benchmarks
        elif isinstance(self.benchmarks, str):
            self._known = BenchmarkImages.read(self.benchmarks, options)
        else:
            self._known = BenchmarkImages.build(self.benchmarks, self.reading)

    def teardown(self) -> None:
        self._prints.teardown()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self._known is None:
            self.setup()
        assert self._known is not None
        read = self._prints.process(task)
        table = read.to_arrow()
        rows = rows_with_values(table, [FINGERPRINT])
        matches, similarity = np.full(table.num_rows, -1), np.zeros(table.num_rows)
        images, known = Fingerprints.of(table[FINGERPRINT]), Fingerprints.of(self._known.prints)
        matches[rows], similarity[rows] = self._found(images, known)
        names = [self._known.names[place] if place >= 0 else (None, None) for place in matches.tolist()]
        table = flagged = table.drop_columns([FINGERPRINT])
        for column, values in zip(self._columns[:2], zip(*names, strict=True) if names else ([], []), strict=True):
            flagged = with_text(flagged, column, list(values))
        flagged = with_column(flagged, self._columns[2], similarity)
        if self.action == "flag":
            return replace(read, data=flagged)
        rejections = []
        for benchmark in sorted({name for name, _ in names if name is not None}):
            dropped = rows_at(flagged, np.flatnonzero([name == benchmark for name, _ in names]))
            reason = f"{REASON}: {benchmark}"
            rejections.append(Rejection(self.name, reason, dropped.num_rows, dropped.nbytes, dropped))
        return replace(
            read, data=rows_at(table, np.flatnonzero(matches < 0)), rejections=(*read.rejections, *rejections)
        )

    def _found(self, images: Fingerprints, known: Fingerprints) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Return the most similar image of a benchmark for each image, -1 if none is a duplicate; and how similar."""
        best, similarity = np.full(len(images.hashes), -1), np.zeros(len(images.hashes))
        left, right = _within(images.hashes, known.hashes, self.max_distance)
        if self.flips:
            more = _within(images.hashes, known.mirrored, self.max_distance)
            left, right = np.concatenate([left, more[0]]), np.concatenate([right, more[1]])
        both = images.with_others(known)
        scores = ThumbnailSimilarity(both, self.flips)(left, right + len(images.hashes))
        for row, place, score in zip(left.tolist(), right.tolist(), scores.tolist(), strict=True):
            if score >= self.threshold and score > similarity[row]:
                best[row], similarity[row] = place, score
        return best, similarity


def _within(hashes: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64], distance: int) -> tuple[Ints, Ints]:
    """Return all pairs of hashes within a distance, by comparing each with each."""
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for row, hash_words in enumerate(hashes):
        apart = np.bitwise_count(known ^ hash_words).sum(axis=1, dtype=np.int64)
        near = np.flatnonzero(apart <= distance)
        left.append(np.full(len(near), row))
        right.append(near)
    return np.concatenate(left), np.concatenate(right)

"""Keep the files of benchmarks out of training data: what images, recordings and other files share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

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
from dcurate.isolate.errors import MediaFault
from dcurate.kernels.layout import Ints
from dcurate.media.reader import MediaReader
from dcurate.media.refs import check_has_media
from dcurate.media.stage import FileReading, FileStage

Action = Literal["drop", "flag"]

REASON = "contaminated"
_FORMAT = 1


@dataclass(frozen=True)
class BenchmarkFiles:
    """Base of the fingerprints of the files of benchmarks.

    A subclass says what its files are, and what stage makes a fingerprint of each.

    Args:
        prints: packed one after another.
        names: name of the benchmark and of the file, for each fingerprint.
    """

    prints: bytes = field(repr=False)
    names: tuple[tuple[str, str], ...] = field(repr=False)

    #: What the files are, in messages and as the name of what `write` writes; their kinds, as of `MediaReader`.
    what: ClassVar[str]
    kinds: ClassVar[Sequence[str]]

    @classmethod
    @abstractmethod
    def print_stage(cls, reading: Any, name: str) -> FileStage:
        """A stage that adds the column of fingerprints and nothing else, null for a row without a file.

        Args:
            reading: how files are read; None for the defaults.
            name: name of the stage.
        """

    @classmethod
    def packed(cls, prints: Sequence[bytes]) -> bytes:
        """Pack fingerprints one after another: each after its length, in 4 bytes."""
        return b"".join(len(data).to_bytes(4, "little") + data for data in prints)

    @classmethod
    def unpacked(cls, data: bytes) -> list[bytes]:
        """The fingerprints that `packed` packed; what is cut is left out."""
        prints, at = [], 0
        while at + 4 <= len(data):
            stop = at + 4 + int.from_bytes(data[at : at + 4], "little")
            prints += [data[at + 4 : stop]] if stop <= len(data) else []
            at = stop
        return prints

    @classmethod
    def build(cls, benchmarks: Mapping[str, str | Sequence[str]], reading: Any = None) -> Self:
        """Read the files of benchmarks.

        Args:
            benchmarks: files, folders, globs or archives, by the name of the benchmark.
            reading: how they are read.

        Raises:
            DataError: a file cannot be read, or there is none.
        """
        stage, prints, names = cls.print_stage(reading, f"benchmark_{cls.what}"), list[bytes](), []
        try:
            for benchmark, paths in benchmarks.items():
                for name, answer in _fingerprints(paths, stage, cls.kinds):
                    if isinstance(answer, MediaFault):
                        raise DataError(f"{name!r} of benchmark {benchmark!r} cannot be read: {answer.reason}")
                    prints += answer
                    names.append((benchmark, name))
        finally:
            stage.teardown()
        if not names:
            raise DataError(f"no {cls.what} of benchmarks in {dict(benchmarks)!r}")
        return cls(cls.packed(prints), tuple(names))

    def write(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write them to a folder, so that they are not read and decoded again."""
        folder = Directory(url, storage_options or {})
        folder.write(f"{self.what}.bin", self.prints)
        folder.write(f"{self.what}.json", orjson.dumps({"format": _FORMAT, self.what: self.names}))

    @classmethod
    def read(cls, url: str, storage_options: Mapping[str, Any] | None = None) -> Self:
        """Read what `write` wrote.

        Raises:
            DataError: there is nothing, or something else.
        """
        folder = Directory(url, storage_options or {})
        listed, prints = folder.read(f"{cls.what}.json"), folder.read(f"{cls.what}.bin")
        if listed is None or prints is None:
            advice = f"make them with {cls.__name__}.build(...).write()"
            raise DataError(f"{url!r} holds no {cls.what} of benchmarks; {advice}")
        about = orjson.loads(listed)
        names = tuple((benchmark, name) for benchmark, name in about.get(cls.what, ()))
        if about.get("format") != _FORMAT or cls.packed(cls.unpacked(prints)) != prints:
            names = ()
        if not names or len(cls.unpacked(prints)) != len(names):
            raise DataError(f"the {cls.what} of benchmarks in {url!r} are of another version; build them again")
        return cls(prints, names)


def _fingerprints(paths: str | Sequence[str], stage: FileStage, kinds: Sequence[str]) -> Iterable[tuple[str, Any]]:
    """The name of each file, and a row of its fingerprint or what is wrong with it."""
    options = dict(stage.reading.storage_options or {})
    source = MediaReader(paths if isinstance(paths, str) else list(paths), kinds=list(kinds), storage_options=options)
    for split in source.splits():
        read = source.process(split)
        for batch in read if isinstance(read, list) else [read] if read is not None else []:
            table = batch.to_arrow()
            yield from zip(table["file_name"].to_pylist(), stage.answers(table), strict=True)


class ClosestFiles(NamedTuple):
    """The most similar file of a benchmark for each file, and how similar it is.

    Args:
        places: number of the file among those of the benchmarks, -1 where none is similar enough; shape (files,).
        similarity: 0 to 1, shape (files,).
    """

    places: Ints
    similarity: npt.NDArray[np.float64]


class FileDecontaminate(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Base of stages that drop or flag the files that are like a file of a benchmark.

    A subclass is a dataclass with the fields below. It names its `BenchmarkFiles` and the column of their fingerprints,
    and finds `matches`.
    """

    benchmarks: Any
    action: Action
    threshold: float
    prefix: str
    reading: FileReading
    name: str

    #: The fingerprints of benchmarks, the column of those of rows, and what `benchmarks` may be, for the message.
    known: ClassVar[type[BenchmarkFiles]]
    column: ClassVar[str]
    such_as: ClassVar[str]
    #: Readers that make rows with such files, for the message.
    readers: ClassVar[str] = "MediaReader or WebDatasetReader"

    @abstractmethod
    def matches(self, prints: Any, known: BenchmarkFiles) -> ClosestFiles:
        """Find the most similar file of a benchmark for each file.

        Args:
            prints: a column of fingerprints, without nulls.
            known: fingerprints of the files of benchmarks.
        """

    def __post_init__(self) -> None:
        if not isinstance(self.benchmarks, Mapping | self.known | str):
            raise PipelineError(
                f"{self.name}: benchmarks={shown(self.benchmarks)} must be a dict of names and paths, such as "
                f"{self.such_as}"
            )
        if self.action not in get_args(Action):
            raise PipelineError(f"{self.name}: no action {self.action!r}{nearest(str(self.action), get_args(Action))}")
        if not 0 < self.threshold <= 1:
            raise PipelineError(f"{self.name}: threshold={self.threshold!r} must lie above 0 and at most at 1")
        self._prints = self.known.print_stage(self.reading, self.name)
        self._known: BenchmarkFiles | None = None

    def inputs(self) -> Spec:
        return ["data"], []

    def columns_read(self) -> None:
        """None: files are looked up in whatever columns say where they are."""

    def outputs(self) -> Spec:
        return ["data"], self._columns if self.action == "flag" else []

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name, self.readers)

    def requires(self) -> dict[str, str]:
        return self._prints.requires()

    def settings(self) -> dict[str, Any]:
        omitted = ("_prints", "_known", "reading", "benchmarks")
        settings = {name: value for name, value in super().settings().items() if name not in omitted}
        benchmarks = None if isinstance(self.benchmarks, self.known) else self.benchmarks
        return {**settings, "benchmarks": benchmarks, "reading": self.reading.limits}

    @property
    def _columns(self) -> list[str]:
        return [f"{self.prefix}{suffix}" for suffix in ("benchmark", "example", "similarity")]

    def evidence_columns(self) -> dict[str, str]:
        return dict(zip(self._columns, ("benchmark", "example", "similarity"), strict=True))

    def setup_on_node(self, node_info: Any = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self._prints.setup_on_node(node_info, worker_metadata)

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._prints.setup(worker_metadata)
        if isinstance(self.benchmarks, self.known):
            self._known = self.benchmarks
        elif isinstance(self.benchmarks, str):
            self._known = self.known.read(self.benchmarks, self.reading.storage_options)
        else:
            self._known = self.known.build(self.benchmarks, self.reading)

    def teardown(self) -> None:
        self._prints.teardown()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self._known is None:
            self.setup()
        assert self._known is not None
        read = self._prints.process(task)
        table = read.to_arrow()
        rows = rows_with_values(table, [self.column])
        matches, similarity = np.full(table.num_rows, -1), np.zeros(table.num_rows)
        matches[rows], similarity[rows] = self.matches(table[self.column].drop_null(), self._known)
        names = [self._known.names[place] if place >= 0 else (None, None) for place in matches.tolist()]
        table = flagged = table.drop_columns([self.column])
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

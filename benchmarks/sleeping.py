"""Stages that sleep as long as a scenario says, and keep a diary of it. For `benchmarks.streaming`.

How long a batch takes and what becomes of it depend on its number alone, never on who makes it or when. Numbers count
the batches that an operator is given, so a fan-out of any size is exact: of N batches, N times the fan-out are made.
"""

from __future__ import annotations

import math
import os
import random
import struct
import time
import uuid
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist, fmean, pstdev
from typing import NamedTuple

import pyarrow as pa

from dcurate import BatchKey, DocumentBatch, ProcessingStage, Resources, SourceStage, WorkerMetadata

#: Calls in a row whose durations have exactly the mean and the coefficient of variation that was asked for. Within one
#: such block they come in random order. Were they independent, 500 calls with a cv of 2.5 would be off by 11 %.
BLOCK = 64


# How long


@lru_cache
def spread(cv: float, count: int = BLOCK) -> tuple[float, ...]:
    """Quantiles of a log-normal distribution, of mean 1 and of exactly this coefficient of variation.

    Examples:
        >>> values = spread(2.5)
        >>> round(fmean(values), 6), round(pstdev(values), 6), round(max(values))
        (1.0, 2.5, 18)
    """
    if not cv:
        return (1.0,) * count
    points = [NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)]

    def values(sigma: float) -> list[float]:
        raw = [math.exp(sigma * point) for point in points]
        return [value / fmean(raw) for value in raw]

    low, high = 0.0, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if pstdev(values(middle)) < cv else (low, middle)
    return tuple(values(high))


@lru_cache(256)
def _block(seed: str, cv: float, number: int) -> tuple[float, ...]:
    values = list(spread(cv))
    random.Random(f"{seed}/{number}").shuffle(values)
    return tuple(values)


@dataclass(frozen=True)
class CallDurations:
    """How long an operator takes for each batch.

    Args:
        seconds: on average; one or several means, for the splits from number ``begins`` on.
        cv: standard deviation by mean.
        seed: other seeds give other orders.
        begins: the first split of each mean but the first.
    """

    seconds: tuple[float, ...]
    cv: float = 0.0
    seed: str = ""
    begins: tuple[int, ...] = ()

    def of(self, number: int, split: int) -> float:
        """Seconds for the batch of this number, which came of this split.

        Examples:
            >>> CallDurations((1.0, 3.0), begins=(10,)).of(9, 9), CallDurations((1.0, 3.0), begins=(10,)).of(10, 10)
            (1.0, 3.0)
        """
        return self.seconds[bisect(self.begins, split)] * _block(self.seed, self.cv, number // BLOCK)[number % BLOCK]


def children(number: int, ratio: Fraction) -> range:
    """The numbers of the batches that become of a batch, where ``ratio`` become of each on average.

    Examples:
        >>> [list(children(number, Fraction(3, 2))) for number in range(4)]
        [[0, 1], [2], [3, 4], [5]]
        >>> [list(children(number, Fraction(1, 3))) for number in range(4)]
        [[0], [], [], [1]]
    """
    return range(math.ceil(number * ratio), math.ceil((number + 1) * ratio))


# The diary


class DiaryLine(NamedTuple):
    """A line of a slot's diary, times in seconds of ``time.monotonic``, which all processes of a host share.

    Attributes:
        kind: ``begin`` (of set-up), ``setup`` (its end), ``call`` or ``teardown``.
        number: of the batch.
        work: seconds that the call was to sleep, or CPU seconds that it burnt.
    """

    kind: str
    number: int
    begin: float
    end: float
    work: float


_KINDS = ("begin", "setup", "call", "teardown")
_LINE = struct.Struct("<qqddd")


class Diary:
    """What one slot did, in a file of its own. Every line is written at once, so that a slot may be killed."""

    def __init__(self, folder: str, operator: int) -> None:
        path = Path(folder, f"{operator}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
        self._file = path.open("wb", buffering=0)

    def write(self, kind: str, begin: float, end: float, number: int = -1, work: float = 0.0) -> None:
        self._file.write(_LINE.pack(_KINDS.index(kind), number, begin, end, work))

    def close(self) -> None:
        self._file.close()


def read_diary(path: Path) -> list[DiaryLine]:
    """The lines of a slot's diary; of the last one, if it was not finished, nothing."""
    data = path.read_bytes()
    whole = len(data) // _LINE.size * _LINE.size
    return [DiaryLine(_KINDS[line[0]], *line[1:]) for line in _LINE.iter_unpack(data[:whole])]


# The stages


@dataclass(frozen=True)
class OperatorWork:
    """What an operator of a scenario does.

    Args:
        operator: its place in the pipeline.
        ratio: batches made of each, on average; 0 for the last.
        load: bytes of each batch that it makes.
        setup_s: seconds that a slot's set-up takes.
        folder: for the diaries.
    """

    operator: int
    pace: CallDurations
    ratio: Fraction
    load: int
    setup_s: float
    folder: str


class _Sleeper:
    """What the source and the other stages have in common; holds a slot's diary once it is set up."""

    work: OperatorWork
    diary: Diary

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        begin = time.monotonic()
        self.diary = Diary(self.work.folder, self.work.operator)
        self.diary.write("begin", begin, begin)
        time.sleep(self.work.setup_s)
        self.diary.write("setup", begin, time.monotonic())

    def is_fanout_stage(self) -> bool:
        return self.work.ratio > 1

    def teardown(self) -> None:
        now = time.monotonic()
        self.diary.write("teardown", now, now)
        self.diary.close()

    def process(self, task: DocumentBatch) -> DocumentBatch | list[DocumentBatch] | None:
        rows = task.to_arrow()
        number, split = rows["number"][0].as_py(), rows["split"][0].as_py()
        begin, due = time.monotonic(), self.work.pace.of(number, split)
        time.sleep(due)
        self.diary.write("call", begin, time.monotonic(), number, due)
        numbers = children(number, self.work.ratio) if self.work.ratio else ()
        made = [_numbered(child, split, self.work.load) for child in numbers]
        if self.work.ratio > 1:
            return made
        return made[0] if made else None


def _numbered(number: int, split: int, load: int = 0) -> DocumentBatch:
    return DocumentBatch(data=pa.table({"number": [number], "split": [split], "load": [bytes(load)]}))


@dataclass
class SleepingSource(_Sleeper, SourceStage[DocumentBatch, DocumentBatch]):
    """Lists numbered splits, and sleeps over each."""

    work: OperatorWork
    count: int
    name: str = "sleeping_source"
    resources: Resources = field(default_factory=Resources)

    def splits(self) -> Iterator[DocumentBatch]:
        for number in range(self.count):
            batch = _numbered(number, number)
            batch.key = BatchKey(f"split-{number:07}")
            yield batch

    def columns(self) -> list[str]:
        return ["number", "split", "load"]


@dataclass
class Sleeping(_Sleeper, ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sleeps over every batch."""

    work: OperatorWork
    name: str = "sleeping"
    resources: Resources = field(default_factory=Resources)

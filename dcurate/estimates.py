"""Estimate what a run will take, from a sample of its input."""

from __future__ import annotations

import copy
import hashlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dcurate.core.batch import Batch, BatchKey, FileGroup
from dcurate.core.fingerprint import fingerprint
from dcurate.core.stage import BarrierStage, SinkStage, SourceStage, Stage
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.config import ExecutorConfig
from dcurate.engine.inline import InlineExecutor
from dcurate.errors import PipelineError
from dcurate.events import Event, TaskDone
from dcurate.io.input_manifest import InputManifest
from dcurate.io.sink import FileWriter
from dcurate.plan.compile import compile_plan
from dcurate.runs.estimate import Estimate, Range, Stratum, total

#: Bytes that are read of a large split, enough for a measurement.
WINDOW_BYTES = 2**20

#: Bytes that a file counts for beside its own, as opening it costs about as much as reading these.
_FILE_BYTES = 4096

#: Number of groups of splits of like size; all groups have about the same number of bytes.
_STRATA = 4

#: Splits of each group that are measured in any case; with fewer, nothing is known of how they differ.
_LEAST = 2

#: Relative error of CPU time between hosts and moments.
_OF_MACHINES = 0.3

#: Relative error of slots that idle: at the beginning of a run, at its end, and in stages that wait for others.
_OF_BALANCE = 0.3

_WARM_UP = "warm-up"


@dataclass
class _Unit:
    """A split or a part of a split that is measured."""

    split: Batch
    size: float


@dataclass
class _Group:
    """Splits of like size, in the order in which they are measured."""

    splits: list[Batch] = field(default_factory=list)
    taken: list[_Unit] = field(default_factory=list)
    whole: bool = True

    @property
    def exhausted(self) -> bool:
        return len(self.taken) == len(self.splits)


class SplitSample:
    """Takes splits in an order that depends on their names only, until time is up.

    Args:
        source: stage that reads the splits.
        splits: all splits of the input.
        max_s: seconds after which no more splits are taken, apart from `_LEAST` of each group.
        max_splits: largest number of splits, apart from `_LEAST` of each group.
    """

    def __init__(self, source: SourceStage[Any, Any], splits: Sequence[Batch], max_s: float, max_splits: int) -> None:
        self._source, self._max_s, self._max_splits = source, max_s, max_splits
        self.groups = _grouped(splits)

    def units(self) -> Iterator[Batch]:
        """Yield the splits and parts to measure; the first one only warms up, and is yielded again."""
        first = next((group.splits[0] for group in self.groups if group.splits), None)
        if first is None:
            return
        yield _under(self._cut(first).split, BatchKey(_WARM_UP))
        begin, count = time.monotonic(), 0
        while not all(group.exhausted for group in self.groups):
            for group in self.groups:
                late = count >= self._max_splits or time.monotonic() - begin > self._max_s
                if group.exhausted or (late and len(group.taken) >= _LEAST):
                    continue
                split = group.splits[len(group.taken)]
                unit = self._cut(split)
                group.whole &= unit.split is split
                group.taken.append(unit)
                count += 1
                yield unit.split
            measured = all(group.exhausted or len(group.taken) >= _LEAST for group in self.groups)
            if measured and (count >= self._max_splits or time.monotonic() - begin > self._max_s):
                return

    def _cut(self, split: Batch) -> _Unit:
        """Return a split, or some rows of a large one, at a place that depends on its name."""
        size, nbytes = _size(split), _nbytes(split)
        rows = self._source.divided(split) if nbytes > 2 * WINDOW_BYTES else None
        if rows is None or rows.num_items < 2:
            return _Unit(split, size)
        width = max(1, round(rows.num_items * WINDOW_BYTES / nbytes))
        start = _hash(split) % (rows.num_items - width + 1)
        part = rows.rows(start, start + width)
        return _Unit(part, size * width / rows.num_items)


class _Measured:
    """Observer that adds up rows, bytes and seconds of each split."""

    def __init__(self, source: str, last: str, writes: bool) -> None:
        self._source, self._last, self._writes = source, last, writes
        self.amounts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def on_event(self, event: Event) -> None:
        if not isinstance(event, TaskDone):
            return
        amounts = self.amounts[event.split]
        amounts["calls"] += 1
        for stats in event.stats:
            amounts["cpu_s"] += stats.cpu_s
            amounts["gpu_s"] += stats.gpu_s
            amounts["slot_s"] += stats.seconds
            if stats.name == self._source:
                amounts["rows_in"] += stats.rows_in
            if stats.name == self._last:
                amounts["rows_out"] += stats.rows_out
                amounts["bytes_written"] += stats.bytes_out if self._writes else 0


def estimate_run(
    stages: Sequence[Stage], config: ExecutorConfig, slots: int, max_s: float = 20.0, max_splits: int = 64
) -> Estimate:
    """Estimate what a run of stages will take, by running a sample of the input in this process.

    Output goes to a temporary folder. Which splits are taken depends on their names and sizes, how many on the time
    that they take.

    Args:
        stages: stages of a built pipeline, the first a source.
        config: settings of the run: prices, and whether failures are ignored.
        slots: number of slots that work at the same time.
        max_s: longest duration of the sample in seconds, apart from two splits of each of four groups of like size.
        max_splits: largest number of splits, apart from the same.

    Raises:
        PipelineError: a stage needs all rows before it passes any on, so that a sample cannot show what it does.
        DataError: the input cannot be read.
    """
    _check(stages, slots, max_s, max_splits)
    with tempfile.TemporaryDirectory(prefix="dcurate-estimate-") as folder:
        stages = _elsewhere(stages, f"{folder}/out")
        source = stages[0]
        assert isinstance(source, SourceStage)
        manifest = InputManifest(fingerprint(stages))
        splits = list(manifest.record(source.splits()))
        sample = SplitSample(source, splits, max_s, max_splits)
        writes = isinstance(stages[-1], SinkStage)
        measured = _Measured(source.name, stages[-1].name, writes)
        executor = InlineExecutor({"ignore_failures": config.ignore_failures})
        plan = compile_plan(stages)
        if plan.sink is not None:
            plan.sink.prepare(resume=False)
        job = Round(
            "estimate", plan, sample.units(), delivers=not writes, by_need=True, observers=(measured,), examples=False
        )
        accounting = RunAccounting(job, executor.mode)
        for _ in executor.execute(job, accounting):
            pass
        accounting.close()
    return _result(manifest.digest, _Totals(sample, measured.amounts), config, slots)


@dataclass
class _Totals:
    """Amounts of all splits, estimated from those that were measured."""

    sample: SplitSample
    amounts: Mapping[str, Mapping[str, float]]

    def of(self, name: str) -> Range:
        """Return the total of an amount, by its name."""
        return total(
            [
                Stratum(
                    sum(map(_size, group.splits)),
                    [unit.size for unit in group.taken],
                    [self.amounts[str(unit.split.key)][name] for unit in group.taken],
                    group.whole and group.exhausted,
                )
                for group in self.sample.groups
            ]
        )

    def seconds(self, slots: int) -> Range:
        """Return the time by the clock; at least that of the longest split."""
        splits = sum(len(group.splits) for group in self.sample.groups)
        seconds = self.of("slot_s").widened(_OF_MACHINES).times(1 / min(slots, max(1, splits))).widened(_OF_BALANCE)
        units = [unit for group in self.sample.groups for unit in group.taken]
        longest = max((self.amounts[str(unit.split.key)]["slot_s"] for unit in units), default=0.0)
        return replace(seconds, value=max(seconds.value, longest), high=max(seconds.high, 1.5 * longest))

    def call_s(self) -> Range:
        """Return the seconds of a call, if all splits take as many calls as those that were measured."""
        units = [unit for group in self.sample.groups for unit in group.taken]
        calls = sum(self.amounts[str(unit.split.key)]["calls"] for unit in units) / max(1, len(units))
        splits = sum(len(group.splits) for group in self.sample.groups)
        return self.of("slot_s").times(1 / max(1.0, calls * splits))


def _result(key: str, totals: _Totals, config: ExecutorConfig, slots: int) -> Estimate:
    groups = totals.sample.groups
    splits = [split for group in groups for split in group.splits]
    cpu_s, gpu_s = totals.of("cpu_s").widened(_OF_MACHINES), totals.of("gpu_s").widened(_OF_MACHINES)
    prices = (config.cpu_hour_price, config.gpu_hour_price)
    parts = [used.times((price or 0.0) / 3600) for used, price in zip((cpu_s, gpu_s), prices, strict=True)]
    cost = Range(*(sum(getattr(part, name) for part in parts) for name in ("value", "low", "high")))
    return Estimate(
        key=key,
        splits=len(splits),
        sampled=sum(len(group.taken) for group in groups),
        slots=slots,
        bytes_read=sum(map(_nbytes, splits)),
        rows_in=totals.of("rows_in"),
        rows_out=totals.of("rows_out"),
        bytes_written=totals.of("bytes_written"),
        cpu_s=cpu_s,
        gpu_s=gpu_s,
        seconds=totals.seconds(slots),
        call_s=totals.call_s(),
        cost=None if prices == (None, None) else cost,
    )


def _check(stages: Sequence[Stage], slots: int, max_s: float, max_splits: int) -> None:
    barrier = next((stage for stage in stages if isinstance(stage, BarrierStage)), None)
    if barrier is not None:
        raise PipelineError(
            f"stage {barrier.name!r} needs all rows before it passes any on, so a sample cannot show what it will "
            "keep; estimate the stages before it in a pipeline of their own"
        )
    for name, value in {"slots": slots, "max_s": max_s, "max_splits": max_splits}.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise PipelineError(f"estimate: {name}={value!r} must be a number above zero")


def _elsewhere(stages: Sequence[Stage], path: str) -> list[Stage]:
    """Return the stages with a writer to a folder of this host; without their writer if it does not write files."""
    sink = stages[-1]
    if not isinstance(sink, SinkStage):
        return list(stages)
    if not isinstance(sink, FileWriter):
        return list(stages[:-1])
    writer = copy.copy(sink)
    for name, value in {"path": path, "storage_options": None, "mode": "error"}.items():
        object.__setattr__(writer, name, value)
    return [*stages[:-1], writer]


def _grouped(splits: Sequence[Batch]) -> list[_Group]:
    """Return splits in groups of like size with about as many bytes each, sorted by hashes of their names."""
    ordered = sorted(splits, key=lambda split: (_size(split), str(split.key)))
    whole = sum(map(_size, ordered))
    groups = [_Group() for _ in range(_STRATA)]
    before = 0.0
    for split in ordered:
        size = _size(split)
        groups[min(_STRATA - 1, int(_STRATA * (before + size / 2) / whole))].splits.append(split)
        before += size
    for group in groups:
        group.splits.sort(key=lambda split: (_hash(split), str(split.key)))
    return [group for group in groups if group.splits]


def _under(split: Batch, key: BatchKey) -> Batch:
    """Return a batch under another key."""
    other = copy.copy(split)
    object.__setattr__(other, "key", key)
    return other


def _nbytes(split: Batch) -> int:
    return sum(part.nbytes for part in split.parts) if isinstance(split, FileGroup) else split.nbytes


def _size(split: Batch) -> float:
    files = len(split.parts) if isinstance(split, FileGroup) else 1
    return float(_nbytes(split) + _FILE_BYTES * files)


def _hash(split: Batch) -> int:
    return int.from_bytes(hashlib.blake2b(str(split.key).encode(), digest_size=8).digest())

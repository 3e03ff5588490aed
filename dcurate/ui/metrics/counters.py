"""Counters over all runs of each pipeline, which never fall, computed from their snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from dcurate.events import StageStats
from dcurate.runs.snapshot import Note, OperatorFigures, RunSnapshot
from dcurate.ui.metrics.definitions import Labels

#: A family, and the values of its labels; of the histogram also the number of a bucket.
Key: TypeAlias = tuple[str, Labels]

HISTOGRAM = "dcurate_operator_batch_duration_seconds"
BUCKET, SUM = f"{HISTOGRAM}_bucket", f"{HISTOGRAM}_sum"

#: Names that one label may have; all further ones are exported together, as `OTHER`.
PIPELINES, STAGES, REASONS, LOGGED = 100, 300, 50, 20
OTHER = "other"
#: Runs that are not over and that the store has dropped may come back; this many of them are recognized.
UNSURE = 100
#: A longer name is cut.
LONGEST = 120

INCIDENTS = ("recycled", "hung", "copied")
_PLAIN = (
    ("dcurate_stage_input_rows_total", "rows_in"),
    ("dcurate_stage_output_rows_total", "rows_out"),
    ("dcurate_stage_input_bytes_total", "bytes_in"),
    ("dcurate_stage_output_bytes_total", "bytes_out"),
    ("dcurate_stage_batches_total", "batches"),
    ("dcurate_stage_seconds_total", "seconds"),
)


class CounterNames:
    """Keeps labels few: in each place the first names are exported, the rest as one.

    Examples:
        >>> names = CounterNames()
        >>> [names.of(("reasons",), name, limit=2) for name in ("short", "long", "odd", "short")]
        ['short', 'long', 'other', 'short']
    """

    def __init__(self) -> None:
        self._known: defaultdict[Labels, set[str]] = defaultdict(set)

    def of(self, place: Labels, name: str, limit: int) -> str:
        """The name to export."""
        known, name = self._known[place], name[:LONGEST]
        if name in known:
            return name
        if len(known) >= limit:
            return OTHER
        known.add(name)
        return name


class RunCounters:
    """Counts what runs do, from snapshots of them.

    A run's figures are added by how much they have risen since its snapshot before, so the counters hold over runs of a
    pipeline one after the other, or at once, and stay when a run is forgotten.

    Examples:
        >>> counters, before = RunCounters(), StageStats("read", rows_in=3)
        >>> counters.take(RunSnapshot("7f3a", "demo", "streaming", stages=(before,)))
        >>> counters.take(RunSnapshot("7f3a", "demo", "streaming", stages=(StageStats("read", rows_in=8),)))
        >>> counters.take(RunSnapshot("c41e", "demo", "streaming", stages=(before,)))
        >>> counters.of("dcurate_stage_input_rows_total")
        [(('demo', 'read'), 11)]
    """

    def __init__(self) -> None:
        self.names = CounterNames()
        self._totals: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
        self._seen: dict[tuple[str, float], dict[Key, float]] = {}
        self._over: set[tuple[str, float]] = set()

    def of(self, family: str) -> list[tuple[Labels, float]]:
        """The totals of a family of counters."""
        return list(self._totals[family].items())

    def histograms(self, buckets: int) -> Iterator[tuple[Labels, list[float], float]]:
        """Of each operator: how many batches fell into each bucket, and their seconds in all."""
        counts = self._totals[BUCKET]
        for labels, seconds in self._totals[SUM].items():
            yield labels, [counts[(*labels, str(number))] for number in range(buckets)], seconds

    def take(self, snapshot: RunSnapshot, notes: Sequence[Note] = ()) -> None:
        """Count what a run has done since it was taken last.

        Args:
            notes: all that were kept of it so far.
        """
        run = (snapshot.run, snapshot.started)
        seen = self._seen.setdefault(run, {})
        if snapshot.ended is not None:
            self._over.add(run)
        counts: defaultdict[Key, float] = defaultdict(int)
        for family, labels, value in self._counts(snapshot, notes):
            counts[family, labels] += value
        for (family, labels), value in counts.items():
            total, before = self._totals[family], seen.get((family, labels), 0)
            total[labels] = total.get(labels, 0) + max(0, value - before)
            seen[family, labels] = max(before, value)

    def forget(self, runs: Sequence[str]) -> None:
        """Keep no more of runs than what they came to, but for these, and the newest of those that are not over."""
        gone = [run for run in self._seen if run[0] not in runs]
        unsure = [run for run in gone if run not in self._over]
        for run in {*gone} - {*unsure[-UNSURE:]}:
            del self._seen[run]
            self._over.discard(run)

    def pipeline(self, name: str) -> str:
        """A pipeline's name as it is exported."""
        return self.names.of((), name, PIPELINES)

    def operator(self, pipeline: str, figures: OperatorFigures) -> str:
        """An operator's name as it is exported, for inner rounds that of their stage; ``pipeline`` as that is."""
        return self.names.of((pipeline, "operators"), figures.owner or figures.title, STAGES)

    def _counts(self, snapshot: RunSnapshot, notes: Sequence[Note]) -> Iterator[tuple[str, Labels, float]]:
        pipeline = self.pipeline(snapshot.pipeline)
        yield "dcurate_runs_started_total", (pipeline,), 1
        yield "dcurate_runs_ended_total", (pipeline, "finished"), snapshot.ended is not None and not snapshot.error
        yield "dcurate_runs_ended_total", (pipeline, "failed"), snapshot.ended is not None and bool(snapshot.error)
        yield "dcurate_workers_lost_total", (pipeline,), snapshot.workers_lost
        yield "dcurate_input_rows_total", (pipeline,), snapshot.rows_in
        yield "dcurate_input_bytes_total", (pipeline,), snapshot.bytes_in
        yield "dcurate_splits_finished_total", (pipeline,), snapshot.splits_finished
        for stats in snapshot.stages:
            yield from self._of_stage(pipeline, stats)
        for operator in snapshot.operators:
            yield from self._of_operator(pipeline, operator)
        yield from self._of_notes(pipeline, notes, {figures.title: figures for figures in snapshot.operators})

    def _of_stage(self, pipeline: str, stats: StageStats) -> Iterator[tuple[str, Labels, float]]:
        labels = (pipeline, self.names.of((pipeline, "stages"), stats.name, STAGES))
        for family, attribute in _PLAIN:
            yield family, labels, getattr(stats, attribute)
        yield "dcurate_stage_dropped_rows_total", labels, sum(stats.dropped.values())
        yield "dcurate_stage_faulty_rows_total", labels, sum(stats.faulty.values())
        logged = {name: amount for name, amount in stats.metrics.items() if name != "tokens"}
        if "tokens" in stats.metrics:
            yield "dcurate_stage_tokens_total", labels, stats.metrics["tokens"]
        for family, counts, limit in (
            ("dcurate_stage_drops_total", stats.dropped, REASONS),
            ("dcurate_stage_faults_total", stats.faulty, REASONS),
            ("dcurate_stage_found_total", stats.found, REASONS),
            ("dcurate_stage_logged_total", logged, LOGGED),
        ):
            for name, count in counts.items():
                yield family, (*labels, self.names.of((family, *labels), name, limit)), count

    def _of_operator(self, pipeline: str, figures: OperatorFigures) -> Iterator[tuple[str, Labels, float]]:
        labels = (pipeline, self.operator(pipeline, figures))
        yield "dcurate_operator_slot_seconds_total", labels, figures.slot_seconds
        for direction in ("up", "down"):
            yield "dcurate_balancer_decisions_total", (*labels, direction), 0
        if figures.owner:
            stage = self.names.of((pipeline, "stages"), figures.owner, STAGES)
            yield "dcurate_inner_batches_total", (pipeline, stage), figures.calls
        yield SUM, labels, figures.seconds
        for number, count in enumerate(figures.latency):
            yield BUCKET, (*labels, str(number)), count

    def _of_notes(
        self, pipeline: str, notes: Sequence[Note], operators: Mapping[str, OperatorFigures]
    ) -> Iterator[tuple[str, Labels, float]]:
        for kind in INCIDENTS:
            yield "dcurate_incidents_total", (pipeline, kind), 0
        for note in notes:
            if note.kind in INCIDENTS:
                yield "dcurate_incidents_total", (pipeline, note.kind), 1
            elif note.kind == "decision":
                direction = "up" if note.after > note.before else "down"
                figures = operators.get(note.operator, OperatorFigures(note.operator, ()))
                labels = (pipeline, self.operator(pipeline, figures), direction)
                yield "dcurate_balancer_decisions_total", labels, 1

"""Runs that never were, as the dashboard is told of them: a snapshot twice a second, for as long as one likes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from distributed import Scheduler, Status
from distributed.scheduler import WorkerState

from dcurate.events import GpuSample, HostSample, StageStats
from dcurate.runs.history import History
from dcurate.runs.snapshot import Note, OperatorFigures, RunSnapshot

#: What operators are called, again and again.
NAMES = ("jsonl_reader", "clean", "score_filter", "language", "minhash", "quality_classifier", "redact", "jsonl_writer")
#: Splits of each phase.
SPLITS = 1200


@dataclass(frozen=True)
class Shape:
    """How large a made-up run is.

    Attributes:
        operators: in all phases together.
        stages: of each operator.
        hosts: and ``workers`` on all of them; ``gpus`` on each.
        seconds: that it takes.
    """

    operators: int = 3
    stages: int = 1
    phases: int = 1
    hosts: int = 2
    workers: int = 16
    gpus: int = 0
    seconds: float = 120.0


def snapshots(run: str, shape: Shape, started: float, interval_s: float = 0.5) -> Iterator[RunSnapshot]:
    """How the run stands, from its beginning to its end."""
    for step in range(int(shape.seconds / interval_s) + 1):
        yield at(run, shape, started, min(step * interval_s, shape.seconds))


def history(run: str, shape: Shape, started: float, until: float = math.inf) -> History:
    """The run up to a moment, in seconds since it began."""
    kept = History()
    for snapshot in snapshots(run, shape, started):
        if snapshot.time - started <= until:
            kept.take(snapshot)
    return kept


def at(run: str, shape: Shape, started: float, seconds: float) -> RunSnapshot:
    """The run at one moment."""
    done = seconds / shape.seconds
    phase = min(int(done * shape.phases), shape.phases - 1)
    each = math.ceil(shape.operators / shape.phases)
    operators = tuple(
        _operator(shape, number, number // each, each, seconds)
        for number in range(shape.operators)
        if number // each <= phase
    )
    ended = started + seconds if done >= 1 else None
    return RunSnapshot(
        run=run,
        pipeline="web-curation",
        mode="streaming",
        phase=phase,
        started=started,
        time=started + seconds,
        ended=ended,
        splits=SPLITS,
        splits_done=int(SPLITS * (done * shape.phases - phase)),
        operators=operators,
        stages=_stages(operators, seconds),
        held_bytes=0 if ended else sum(one.waiting_bytes for one in operators),
        budget_bytes=4 * 10**9,
        hosts=_hosts(shape, seconds),
        workers_lost=int(done * 2.5),
        notes=int(seconds / 20),
        latest=tuple(_note(number, started) for number in range(max(0, int(seconds / 20) - 20), int(seconds / 20))),
    )


def _operator(shape: Shape, number: int, phase: int, each: int, seconds: float) -> OperatorFigures:
    length = shape.seconds / shape.phases
    since = min(max(0.0, seconds - phase * length), length)
    present = phase * length <= seconds < (phase + 1) * length
    name = NAMES[number % len(NAMES)] + (f"_{number // len(NAMES) + 1}" if number >= len(NAMES) else "")
    place = number % each
    slots = max(1, shape.workers // each + round(2 * math.sin(seconds / 9 + place))) if present else 0
    share = (0.97, 0.35, 0.62, 0.88, 0.93, 0.55, 0.2)[place % 7]
    slot_seconds = since * shape.workers / each
    waiting = int(present and place) * round(12 + 10 * math.sin(seconds / 7 + 2 * place))
    return OperatorFigures(
        name=name,
        stages=tuple(f"{name}_{stage}" if stage else name for stage in range(shape.stages)),
        phase=phase,
        slots=slots,
        running=slots if present else 0,
        waiting=waiting,
        waiting_bytes=waiting * 16_000_000 * (place + 1),
        calls=int(slot_seconds * 4),
        seconds=share * slot_seconds + slot_seconds * 0.02 * math.sin(seconds / 5 + place),
        slot_seconds=slot_seconds,
        setup_seconds=1.5,
    )


def _stages(operators: tuple[OperatorFigures, ...], seconds: float) -> tuple[StageStats, ...]:
    rows = float(round(seconds * 41_000))
    stages = []
    for one in operators:
        for name in one.stages:
            kept = rows if "reader" in name or "writer" in name else rows * 0.93
            drops = {name: round(rows - kept) * 3 // 4, "too short": round(rows - kept) // 4} if kept < rows else {}
            faulty = {"malformed line": int(rows / 300_000)} if name == "jsonl_reader" else {}
            size = 2_900
            stages.append(
                StageStats(
                    name,
                    one.calls,
                    int(rows),
                    int(kept),
                    int(rows * size),
                    int(kept * size),
                    one.seconds,
                    drops,
                    faulty,
                )
            )
            rows = kept
    return tuple(stages)


def _hosts(shape: Shape, seconds: float) -> tuple[HostSample, ...]:
    each = shape.workers // shape.hosts
    return tuple(
        HostSample(
            host=f"10.0.0.{number + 10}",
            workers=each,
            threads=each,
            cpu=each * (0.8 + 0.15 * math.sin(seconds / 8 + number)),
            memory=int(each * 4e9 * (0.4 + 0.2 * math.sin(seconds / 30 + number))),
            memory_limit=each * 4 * 10**9,
            gpus=tuple(GpuSample(str(gpu), int(38e9), int(80e9), 0.8) for gpu in range(shape.gpus)),
        )
        for number in range(shape.hosts)
    )


def _note(number: int, started: float) -> Note:
    name = NAMES[number % len(NAMES)]
    if number % 5 == 4:
        return Note(started + 20 * number, "lost", f"worker 10.0.0.{number} is gone; what was there is made again")
    reason = f"{name} keeps the others waiting: its slots are busy for 97 % of the time, and 34 batches wait for it"
    return Note(started + 20 * number, "decision", reason, name, 4 + number % 3, 6 + number % 4)


def made_up_worker(scheduler: Scheduler, shape: Shape, number: int) -> WorkerState:
    """Add a worker to a scheduler that was never started."""
    host = number * shape.hosts // shape.workers
    address = f"tcp://10.0.0.{host + 10}:{40000 + number}"
    worker = WorkerState(
        address=address,
        status=Status.running,
        pid=number,
        name=f"worker-{number:03}",
        nthreads=1,
        memory_limit=4 * 10**9,
        local_directory="",
        nanny=None,
        server_id=f"server-{number}",
        scheduler=scheduler,
    )
    worker.metrics = {"memory": 0, "cpu": 0.0, "managed_bytes": 0, "spilled_bytes": {"memory": 0, "disk": 0}}
    worker.metrics |= {"transfer": {"incoming_bytes": 0, "outgoing_bytes": 0}, "event_loop_interval": 0.02, "time": 0.0}
    scheduler.workers[address] = worker
    scheduler.running.add(worker)
    scheduler.total_nthreads += 1
    return worker

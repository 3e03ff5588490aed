from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from distributed import Scheduler, Status

from dcurate.events import GpuSample
from dcurate.ui.dashboard.machines import hosts, workers
from dcurate_testing.dashboard_runs import Shape, made_up_worker

T = TypeVar("T")


def on_a_scheduler(look: Callable[[Scheduler], T]) -> T:
    """What is seen of a real scheduler that was told of four workers on two hosts."""

    async def go() -> T:
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0") as scheduler:
            for number in range(4):
                worker = made_up_worker(scheduler, Shape(hosts=2, workers=4), number)
                worker.metrics |= {"memory": 10**9 * (number + 1), "cpu": 50.0}
            try:
                return look(scheduler)
            finally:
                scheduler.workers.clear()
                scheduler.running.clear()

    return asyncio.run(go())


def test_workers_of_a_host_stand_side_by_side_and_one_that_takes_no_work_is_told() -> None:
    def look(scheduler: Scheduler) -> list[tuple[str, str, str, int, float]]:
        next(iter(scheduler.workers.values())).status = Status.paused
        return [(one.host, one.name, one.state, one.memory, one.cpu) for one in workers(scheduler)]

    assert on_a_scheduler(look) == [
        ("10.0.0.10", "worker-000", "paused", 10**9, 0.5),
        ("10.0.0.10", "worker-001", "running", 2 * 10**9, 0.5),
        ("10.0.0.11", "worker-002", "running", 3 * 10**9, 0.5),
        ("10.0.0.11", "worker-003", "running", 4 * 10**9, 0.5),
    ]


def test_a_gpu_that_two_workers_stand_on_is_counted_once() -> None:
    def look(scheduler: Scheduler) -> list[tuple[int, int, tuple[GpuSample, ...]]]:
        for worker in [*scheduler.workers.values()][:2]:
            worker.metrics |= {"gpu_memory_used": 7, "gpu-memory-total": 9, "gpu_utilization": 50}
        return [(one.workers, one.memory_limit, one.gpus) for one in hosts(scheduler)]

    limit = 2 * 4 * 10**9
    assert on_a_scheduler(look) == [(2, limit, (GpuSample("0", 7, 9, 0.5),)), (2, limit, ())]

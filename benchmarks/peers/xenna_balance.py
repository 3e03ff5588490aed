"""Three sleeping stages of 4, 1 and 2 tasks a second on 7 slots, on Cosmos-Xenna. Runs in its own environment.

``python xenna_balance.py --tasks 400 [--slots 7] [--interval 180] [--scheduler saturation_aware]``; answers in one
line of JSON: when it was asked for, when the first task began, when each left the last stage. Xenna looks at the
balance every 180 s unless set otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from importlib.metadata import version
from typing import Any

import ray
from cosmos_xenna.pipelines.private.specs import SchedulerKind
from cosmos_xenna.pipelines.v1 import (
    PipelineConfig,
    PipelineSpec,
    Resources,
    Stage,
    StageSpec,
    StreamingSpecificSpec,
    run_pipeline,
)

#: Those that Xenna sets itself before it starts Ray.
ENVIRONMENT = {
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
    "RAY_MAX_LIMIT_FROM_API_SERVER": "40000",
    "RAY_MAX_LIMIT_FROM_DATA_SOURCE": "40000",
}

Task = dict[str, Any]


class SleepingStage(Stage[Task, Task]):
    """Sleeps over every task."""

    def __init__(self, seconds: float, first: bool) -> None:
        self.seconds = seconds
        self.first = first

    @property
    def required_resources(self) -> Resources:
        return Resources(cpus=1.0)

    def process_data(self, in_data: list[Task]) -> list[Task]:
        for task in in_data:
            if self.first:
                task["begun"] = time.monotonic()
            time.sleep(self.seconds)
            task["ended"] = time.monotonic()
        return in_data


class StageA(SleepingStage):
    """The first; Xenna distinguishes stages by the names of their classes."""


class StageB(SleepingStage):
    """The second."""


class StageC(SleepingStage):
    """The third."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--slots", type=int, default=7)
    parser.add_argument("--interval", type=float, default=180.0, help="seconds between two looks at the balance")
    parser.add_argument("--scheduler", default="fragmentation_based", choices=[kind.value for kind in SchedulerKind])
    parser.add_argument("--seconds", type=float, nargs=3, default=[0.25, 1.0, 0.5], help="of each stage")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    # One CPU of Ray's is Xenna's own: its monitor takes it.
    ray.init(num_cpus=options.slots + 1, log_to_driver=False, logging_level="error")
    kinds = zip((StageA, StageB, StageC), options.seconds, strict=True)
    stages = [kind(seconds, kind is StageA) for kind, seconds in kinds]
    config = PipelineConfig(
        return_last_stage_outputs=True,
        cpu_allocation_percentage=options.slots / (options.slots + 1),
        mode_specific=StreamingSpecificSpec(
            autoscale_interval_s=options.interval, scheduler=SchedulerKind(options.scheduler)
        ),
    )
    began = time.monotonic()
    tasks = [{"number": number} for number in range(options.tasks)]
    rows = run_pipeline(PipelineSpec(tasks, [StageSpec(stage) for stage in stages], config)) or []
    answer = {
        "began": began,
        "first": min(row["begun"] for row in rows),
        "ends": [row["ended"] for row in rows],
        "slots": options.slots,
        "interval_s": options.interval,
        "scheduler": options.scheduler,
        "default_interval_s": StreamingSpecificSpec().autoscale_interval_s,
        "version": f"cosmos-xenna {version('cosmos-xenna')}",
    }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

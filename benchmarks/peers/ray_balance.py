"""Three sleeping stages of 4, 1 and 2 tasks a second on 7 slots, on Ray Data. Runs in its own environment.

``python ray_balance.py --tasks 400 [--slots 7]``; answers in one line of JSON: when it was asked for, when the first
task began, when each left the last stage. Stages are classes, as those that load a model must be; each pool may have
from one worker to all slots.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from importlib.metadata import version
from typing import Any

import numpy as np
import ray

Batch = dict[str, Any]


class SleepyStage:
    """Sleeps over every batch, which is one task."""

    def __init__(self, seconds: float, first: bool) -> None:
        self.seconds = seconds
        self.first = first

    def __call__(self, batch: Batch) -> Batch:
        if self.first:
            batch["begun"] = np.array([time.monotonic()])
        time.sleep(self.seconds)
        batch["ended"] = np.array([time.monotonic()])
        return batch


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--slots", type=int, default=7)
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.25, 1.0, 0.5], help="of each stage")
    options = parser.parse_args()
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    ray.init(num_cpus=options.slots, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    began = time.monotonic()
    data = ray.data.from_items(
        [{"number": number} for number in range(options.tasks)], override_num_blocks=options.tasks
    )
    for place, seconds in enumerate(options.seconds):
        data = data.map_batches(
            SleepyStage,
            fn_constructor_args=(seconds, place == 0),
            batch_size=1,
            num_cpus=1,
            concurrency=(1, options.slots),
        )
    rows = data.take_all()
    ray.shutdown()
    answer = {
        "began": began,
        "first": min(row["begun"] for row in rows),
        "ends": [row["ended"] for row in rows],
        "slots": options.slots,
        "version": f"ray {version('ray')}",
    }
    print(json.dumps(answer, default=float))


if __name__ == "__main__":
    main()

"""An asset of Dagster that is made by a job of dcurate.

Once: ``dagster asset materialize -f curate_dagster.py --select curated``; with a schedule and a page: ``dagster dev -f
curate_dagster.py``. ``CURATE_RECIPE``, ``CURATE_INPUT`` and ``CURATE_OUTPUT`` say what is run,
``DASK_SCHEDULER_ADDRESS`` where, and ``CURATE_TRIES`` how often it is tried.
"""

import json
import os
import subprocess
from pathlib import Path

import dagster

RECIPE, SOURCE, OUTPUT = (os.environ[f"CURATE_{name}"] for name in ("RECIPE", "INPUT", "OUTPUT"))
TRIES = int(os.environ.get("CURATE_TRIES", "3"))


@dagster.asset(retry_policy=dagster.RetryPolicy(max_retries=TRIES - 1, delay=60))
def curated() -> dagster.MaterializeResult:
    """The curated documents. A try after the first is attached to the job that goes on, or resumes it."""
    beat = f"{OUTPUT}.heartbeat.json"
    job = ["dcurate", "submit", RECIPE, "--input", SOURCE, "--output", OUTPUT, "--name", "curated"]
    subprocess.run([*job, "--resume", "--attach", "--follow", "--heartbeat", beat], check=True)
    sign = json.loads(Path(beat).read_text())
    return dagster.MaterializeResult(
        metadata={"output": OUTPUT, "rows_in": sign["rows_in"], "rows_out": sign["rows_out"]}
    )


definitions = dagster.Definitions(
    assets=[curated],
    schedules=[dagster.ScheduleDefinition(name="nightly", target=[curated], cron_schedule="0 2 * * *")],
)

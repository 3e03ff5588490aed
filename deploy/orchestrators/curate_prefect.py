"""A flow of Prefect whose task is a job of dcurate: ``python curate_prefect.py``.

``CURATE_RECIPE``, ``CURATE_INPUT`` and ``CURATE_OUTPUT`` say what is run, ``DASK_SCHEDULER_ADDRESS`` where, and
``CURATE_TRIES`` how often it is tried.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task

TRIES = int(os.environ.get("CURATE_TRIES", "3"))


@task(retries=TRIES - 1, retry_delay_seconds=60)
def curated(recipe: str, source: str, output: str) -> dict[str, Any]:
    """The curated documents. A try after the first is attached to the job that goes on, or resumes it."""
    beat = f"{output}.heartbeat.json"
    job = ["dcurate", "submit", recipe, "--input", source, "--output", output, "--name", "curated"]
    subprocess.run([*job, "--resume", "--attach", "--follow", "--heartbeat", beat], check=True)
    sign: dict[str, Any] = json.loads(Path(beat).read_text())
    return sign


@flow
def curate(recipe: str, source: str, output: str) -> None:
    """Curate, and log how much is left."""
    sign = curated(recipe, source, output)
    get_run_logger().info("%(rows_out)s of %(rows_in)s documents are in %(output)s", sign)


if __name__ == "__main__":
    curate(*(os.environ[f"CURATE_{name}"] for name in ("RECIPE", "INPUT", "OUTPUT")))

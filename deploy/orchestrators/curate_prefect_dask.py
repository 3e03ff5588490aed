"""A flow of prefect-dask whose pipeline runs on the Dask workers of its tasks: ``python curate_prefect_dask.py``.

``CURATE_INPUT`` and ``CURATE_OUTPUT`` say what is run, ``DASK_SCHEDULER_ADDRESS`` where, and ``CURATE_TRIES`` how often
it is tried. Prefect, prefect-dask and dcurate are installed on the workers.
"""

import os

from distributed import secede
from prefect import flow, get_run_logger, task
from prefect_dask import DaskTaskRunner, get_dask_client

from dcurate import DaskExecutor, JsonlReader, JsonlWriter, Pipeline

TRIES = int(os.environ.get("CURATE_TRIES", "3"))


@task(retries=TRIES - 1, retry_delay_seconds=60)
def curated(source: str, output: str) -> int:
    """Run a pipeline on the workers of the flow, and return the number of rows that are left."""
    secede()  # the pipeline needs the thread in which this task waits
    pipeline = Pipeline("curate", stages=[JsonlReader(source), JsonlWriter(output)])
    with get_dask_client() as client:
        result = pipeline.run(DaskExecutor(cluster=client), resume=True)
    return int(result.report.stages[-1].rows_out)


@flow
def curate(source: str, output: str) -> None:
    """Curate, and log how much is left."""
    get_run_logger().info("%s documents are in %s", curated.submit(source, output).result(), output)


if __name__ == "__main__":
    on_the_cluster = curate.with_options(task_runner=DaskTaskRunner(address=os.environ["DASK_SCHEDULER_ADDRESS"]))
    on_the_cluster(os.environ["CURATE_INPUT"], os.environ["CURATE_OUTPUT"])

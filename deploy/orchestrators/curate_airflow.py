"""A DAG of Airflow whose task is a job of dcurate.

Put it into the folder of DAGs. Once: ``airflow dags test curate``. ``CURATE_RECIPE``, ``CURATE_INPUT`` and
``CURATE_OUTPUT`` say what is run, ``DASK_SCHEDULER_ADDRESS`` where, and ``CURATE_TRIES`` how often it is
tried.
"""

import datetime
import os

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG("curate", schedule="0 2 * * *", start_date=datetime.datetime(2026, 1, 1), catchup=False):
    BashOperator(
        task_id="curated",
        # A try after the first is attached to the job that goes on, or resumes it.
        bash_command='exec dcurate submit "$CURATE_RECIPE" --input "$CURATE_INPUT" --output "$CURATE_OUTPUT" '
        '--name curated --resume --attach --follow --heartbeat "$CURATE_OUTPUT.heartbeat.json"',
        cwd="/",  # relative paths of a job begin where it was submitted
        retries=int(os.environ.get("CURATE_TRIES", "3")) - 1,
        retry_delay=datetime.timedelta(minutes=1),
    )

"""The files of ``deploy/orchestrators`` on Dagster, Airflow and Prefect themselves: ``make check-orchestrators``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dcurate.jobs import jobs_on
from tests.conftest import ROOT, process, scheduler_and_workers, wait_for, wait_for_workers

EXAMPLES = ROOT / "deploy" / "orchestrators"
#: Where the commands of dcurate and of Dask are.
BIN = Path(sys.executable).parent
RECIPE = """
params: {input: "", output: ""}
stages:
  - JsonlReader: {file_paths: "${input}"}
  - ScoreFilter: {filter_obj: {WordCountFilter: {min_words: 2}}, score_field: words}
  - JsonlWriter: {path: "${output}"}
"""
#: Nothing is reported to the makers of these programs, and a busy machine is waited for.
SETTINGS = {
    "DAGSTER_DISABLE_TELEMETRY": "yes",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
}


@contextmanager
def workers_with(environment: Path, folder: Path) -> Iterator[str]:
    """A scheduler and two workers that have the packages of an environment; gives the address."""
    info, dask = folder / "scheduler.json", str(environment / "bin" / "dask")
    scheduler = [dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    worker = [dask, "worker", "--nthreads", "1", "--nworkers", "2", "--no-dashboard", "--local-directory", str(folder)]
    with process(*scheduler, "--scheduler-file", str(info), log=folder / "scheduler.log"):
        wait_for(info)
        address: str = json.loads(info.read_text())["address"]
        with process(*worker, "--scheduler-file", str(info), log=folder / "worker.log", **SETTINGS):
            wait_for_workers(address, 2)
            yield address


class Orchestrator:
    """An orchestrator in an environment of its own, and a folder for its state.

    Args:
        environment: its virtual environment.
        folder: an empty folder.
        settings: environment variables of its commands.
    """

    def __init__(self, environment: Path, folder: Path, settings: Mapping[str, str]) -> None:
        self.bin, self.folder = environment / "bin", folder
        homes = {name: str(folder / name.lower()) for name in ("DAGSTER_HOME", "AIRFLOW_HOME", "PREFECT_HOME")}
        for home in homes.values():
            Path(home).mkdir()
        path = f"{self.bin}:{BIN}:{os.environ['PATH']}"
        self.settings = {**os.environ, **SETTINGS, **homes, **settings, "PATH": path}
        self.dags = Path(homes["AIRFLOW_HOME"], "dags")

    def run(self, program: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a command of its environment."""
        command = [str(self.bin / program), *arguments]
        environment = {**self.settings, **settings}
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=900, check=False
        )

    def dagster(self, **settings: str) -> subprocess.CompletedProcess[str]:
        """Make the asset."""
        example = str(EXAMPLES / "curate_dagster.py")
        return self.run("dagster", "asset", "materialize", "-f", example, "--select", "curated", **settings)

    def airflow(self, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run the DAG."""
        if not self.dags.exists():
            self.dags.mkdir()
            shutil.copy(EXAMPLES / "curate_airflow.py", self.dags)
            prepared = self.run("airflow", "db", "migrate")
            assert prepared.returncode == 0, prepared.stderr
        return self.run("airflow", "dags", "test", "curate", **settings)

    def prefect(self, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run the flow."""
        return self.run("python", str(EXAMPLES / "curate_prefect.py"), **settings)

    def prefect_dask(self, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run the flow whose tasks run on Dask."""
        return self.run("python", str(EXAMPLES / "curate_prefect_dask.py"), **settings)


def check(name: str, environment: Path) -> None:
    """Run an example to its end, and once on input that is not there."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for sub in ("in", "state", "cluster"):
            (folder / sub).mkdir()
        (folder / "recipe.yaml").write_text(RECIPE)
        texts = ["one", "one two", "one two three", "two"]
        (folder / "in" / "texts.jsonl").write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
        by_name = {"prefect_dask": workers_with(environment, folder / "cluster")}
        with by_name.get(name) or scheduler_and_workers(folder / "cluster", "--nworkers", "2") as address:
            settings = {
                "DASK_SCHEDULER_ADDRESS": address,
                "CURATE_RECIPE": str(folder / "recipe.yaml"),
                "CURATE_INPUT": str(folder / "in"),
                "CURATE_OUTPUT": str(folder / "out"),
                "CURATE_TRIES": "1",
            }
            example: Callable[..., subprocess.CompletedProcess[str]]
            example = getattr(Orchestrator(environment, folder / "state", settings), name)
            ended = example()
            assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
            rows = [json.loads(line) for file in (folder / "out").glob("*.jsonl") for line in file.open()]
            if name == "prefect_dask":
                assert [row["text"] for row in rows] == texts
                assert f"{len(texts)} documents are in {folder / 'out'}" in ended.stdout + ended.stderr
            else:
                assert [row["text"] for row in rows] == ["one two", "one two three"]
                [job] = jobs_on(address)
                assert (job.name, job.state, job.rows_out) == ("curated", "done", 2), job
                sign = json.loads((folder / "out.heartbeat.json").read_text())
                assert (sign["state"], sign["rows_in"], sign["rows_out"]) == ("done", 4, 2), sign
            failed = example(CURATE_INPUT=str(folder / "no-such"), CURATE_OUTPUT=str(folder / "out2"))
            assert failed.returncode, f"{failed.stdout}\n{failed.stderr}"
            assert "no-such" in failed.stdout + failed.stderr
            if name != "prefect_dask":
                assert [job.state for job in jobs_on(address)] == ["failed", "done"]
    sys.stdout.write(f"{name}: done and failed as the job did\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["dagster", "airflow", "prefect", "prefect_dask"])
    parser.add_argument("environment", type=Path, help="virtual environment of the orchestrator")
    options = parser.parse_args()
    check(options.name, options.environment.absolute())


if __name__ == "__main__":
    main()

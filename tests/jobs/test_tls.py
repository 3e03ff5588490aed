"""A scheduler and workers that talk by TLS, with real certificates: runs and jobs, and what is said without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Security

from dcurate import AttachedCluster, DaskExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError, RunError, submit
from dcurate.jobs import jobs_on
from tests.conftest import wait_for
from tests.download.server import certified
from tests.forked import finished, forked
from tests.jobs.hosts import SCRIPT

pytestmark = pytest.mark.cluster

SPLITS = 8


@dataclass
class Encrypted:
    """A scheduler by TLS, and its files."""

    address: str
    certificate: str
    scheduler_file: str
    folder: Path

    @property
    def options(self) -> list[str]:
        return ["--tls-ca-file", self.certificate, "--tls-cert", self.certificate, "--tls-key", self.certificate]

    @property
    def security(self) -> Security:
        files = {
            "tls_ca_file": self.certificate,
            "tls_client_cert": self.certificate,
            "tls_client_key": self.certificate,
        }
        return Security(**files)

    @property
    def key(self) -> str:
        """A line of the secret key."""
        return Path(self.certificate).read_text().splitlines()[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    folder = tmp_path_factory.mktemp("tls")
    pem = str(certified(folder))
    tls = ["--tls-ca-file", pem, "--tls-cert", pem, "--tls-key", pem]
    dask = [sys.executable, "-m", "dask"]
    info = folder / "scheduler.json"
    here = ["--no-dashboard", "--scheduler-file", str(info), *tls]
    scheduler = [*dask, "scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0", *here]
    with forked(*scheduler, log=folder / "scheduler.log"):
        wait_for(info)
        address = json.loads(info.read_text())["address"]
        assert address.startswith("tls://")
        worker = [*dask, "worker", "--nthreads", "1", "--nworkers", "2", "--local-directory", str(folder), *here]
        with forked(*worker, log=folder / "worker.log"):
            encrypted = Encrypted(address, pem, str(info), folder)
            with Client(address, security=encrypted.security, timeout=120, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=120)
            yield encrypted


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(SPLITS):
        (folder / f"{number}.jsonl").write_text(json.dumps({"text": f"row {number}"}) + "\n")
    return folder


def dcurate(folder: Path, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-m", "dcurate.cli", *command], cwd=folder, env={**os.environ, **environment})


def recipe(folder: Path, source: Path) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(
        "params: {output: null}\n"
        f"stages:\n- JsonlReader: {{file_paths: '{source}'}}\n- JsonlWriter: {{path: '${{output}}'}}\n"
    )
    return path


def keys_in(folder: Path, key: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def test_a_run_in_python(cluster: Encrypted, source: Path, tmp_path: Path) -> None:
    for name, attached in {
        "address": AttachedCluster(cluster.address, security=cluster.security),
        "file": AttachedCluster(security=cluster.security, scheduler_file=cluster.scheduler_file),
    }.items():
        pipeline = Pipeline("tls", stages=[JsonlReader(str(source)), JsonlWriter(str(tmp_path / name))])
        report = pipeline.run(DaskExecutor(cluster=attached), observers=[]).report
        assert (report.splits, report.workers) == (SPLITS, 2)
    assert keys_in(tmp_path, cluster.key) == []


def test_a_job_in_python(cluster: Encrypted, source: Path, tmp_path: Path) -> None:
    pipeline = Pipeline("tls", stages=[JsonlReader(str(source)), JsonlWriter(str(tmp_path / "out"))])
    job = submit(pipeline, AttachedCluster(cluster.address, security=cluster.security))
    record = job.wait(120)
    assert (record.state, record.why, record.splits_done) == ("done", "", SPLITS)
    assert any("done" in line.text for line in job.logs())
    assert job.id in [known.id for known in jobs_on(cluster.address, cluster.security)]
    assert keys_in(tmp_path, cluster.key) == []
    assert cluster.key not in repr(job)


def test_commands_of_a_job(cluster: Encrypted, source: Path, tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SCRIPT.format(seconds=60))
    where = ["--scheduler-file", cluster.scheduler_file, *cluster.options]
    places = ["--input", source, "--output", tmp_path / "out"]
    submitted = dcurate(tmp_path, "submit", f"{script}:pipeline", *places, "--name", "slow", "--json", *where)
    assert submitted.returncode == 0, submitted.stderr
    job = json.loads(submitted.stdout)["job"]
    listed = dcurate(tmp_path, "jobs", "--json", *where)
    assert job in [one["id"] for one in json.loads(listed.stdout)]
    stopped = dcurate(tmp_path, "stop", job, "--scheduler", cluster.address, *cluster.options)
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped" in stopped.stdout
    logs = dcurate(tmp_path, "logs", job, *where)
    assert "stopped by" in logs.stdout
    described = dcurate(tmp_path, "describe", job, *where, "--json")
    assert json.loads(described.stdout)["exit_code"] == 143
    for ended in (submitted, listed, stopped, logs, described):
        assert cluster.key not in ended.stdout + ended.stderr
    assert keys_in(tmp_path, cluster.key) == []
    logs_of_cluster = [cluster.folder / "scheduler.log", cluster.folder / "worker.log"]
    assert [path for path in logs_of_cluster if cluster.key in path.read_text()] == []


def test_the_command_run(cluster: Encrypted, source: Path, tmp_path: Path) -> None:
    path = recipe(tmp_path, source)
    given = dcurate(tmp_path, "run", path, "--output", "a", "--scheduler", cluster.address, *cluster.options, "--quiet")
    assert given.returncode == 0, given.stderr
    environment = {"DASK_SCHEDULER_ADDRESS": cluster.address}
    there = dcurate(tmp_path, "run", path, "--output", "b", *cluster.options, **environment)
    assert there.returncode == 0, there.stderr
    assert json.loads((tmp_path / "b.dcurate" / "report.json").read_text())["workers"] == 2
    inline = dcurate(tmp_path, "run", path, "--output", "c", "--mode", "inline", "--quiet", **environment)
    assert inline.returncode == 0, inline.stderr
    here = dcurate(tmp_path, "run", path, "--output", "d", "--workers", "1", "--quiet", **environment)
    assert here.returncode == 0, here.stderr
    assert len(list(tmp_path.glob("[abcd]/*.jsonl"))) == 4 * SPLITS


def test_bad_certificates_and_files_are_one_sentence(cluster: Encrypted, source: Path, tmp_path: Path) -> None:
    other = str(certified(tmp_path))
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    (tmp_path / "no.json").write_text("{}")
    ca, cert = "--tls-ca-file", "--tls-cert"
    cases: list[tuple[list[Any], str]] = [
        (["--scheduler", cluster.address], "needs certificates"),
        (["--scheduler", cluster.address, ca, other, cert, other], "no Dask scheduler answers"),
        (["--scheduler", cluster.address, ca, damaged, cert, damaged], "certificates cannot be used"),
        (["--scheduler", cluster.address, cert, other], "need both --tls-ca-file and --tls-cert"),
        (["--scheduler", cluster.address.replace("tls", "tcp"), *cluster.options], "give its tls:// address"),
        (["--scheduler", cluster.address.replace("tls", "tcp")], "no Dask scheduler answers"),
        (["--scheduler", "tcp://h:1", "--scheduler-file", cluster.scheduler_file], "give one of them"),
        (["--scheduler-file", "no.json"], "holds no address"),
        (
            ["--scheduler", cluster.address, ca, "nowhere.pem", cert, other],
            "file 'nowhere.pem' does not exist; give --tls-ca-file",
        ),
    ]
    for options, sentence in cases:
        ended = dcurate(tmp_path, "jobs", *options)
        assert ended.returncode in (1, 2), ended
        assert sentence in ended.stderr
        assert ended.stderr.count("\n") == 1, ended.stderr
        assert "to run on this machine" not in ended.stderr
    with pytest.raises(RunError, match="needs certificates"):
        AttachedCluster(cluster.address).open()
    with pytest.raises(PipelineError, match="and not both"):
        AttachedCluster()
    with pytest.raises(PipelineError, match="and not both"):
        AttachedCluster(cluster.address, scheduler_file="scheduler.json")

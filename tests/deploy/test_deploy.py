"""The files of deploy/ and .github/ are read, name what there is, and run as far as that needs no other host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.forked import finished

pytestmark = pytest.mark.program

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
YAML = [*DEPLOY.glob("*.yaml"), *(ROOT / ".github").rglob("*.yml")]


def commands() -> list[list[str]]:
    """The commands of the containers of the compose file and the Kubernetes file."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    cluster, _ = yaml.safe_load_all((DEPLOY / "dask-cluster.yaml").read_text())
    roles = (cluster["spec"]["scheduler"]["spec"], cluster["spec"]["worker"]["spec"])
    found = [one["command"] for one in compose if "command" in one]
    found += [container["args"] for role in roles for container in role["containers"]]
    return [one for one in found if one[0] in ("dask", "dcurate")]


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_is_read(path: Path) -> None:
    found = list(yaml.safe_load_all(path.read_text()))
    assert found
    assert all(isinstance(one, dict) for one in found)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_options_of_a_command_exist(command: list[str]) -> None:
    depth = 3 if command[:2] == ["dcurate", "monitor"] else 2
    module = "dcurate.cli" if command[0] == "dcurate" else "dask"
    asked = [sys.executable, "-m", module, *command[1:depth], "--help"]
    preload = ["--preload", "dcurate.preload"] if module == "dask" else []
    done = finished(asked)
    assert done.returncode == 0, done.stderr
    help_ = done.stdout
    if preload and "worker" in command:
        asked = [sys.executable, "-c", "from dcurate.preload import dask_setup; dask_setup.main(['--help'])"]
        help_ += subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False).stdout
    options = [word for word in command if word.startswith("--")]
    assert [option for option in options if not re.search(rf"{option}\b", help_)] == []


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_an_image_copies_and_installs_what_there_is(name: str) -> None:
    text = (DEPLOY / name).read_text()
    copied = [word for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE) for word in line.split()]
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    allowed = (ROOT / ".dockerignore").read_text().split()
    assert [path for path in copied if f"!{path}" not in allowed] == []
    [extras] = re.findall(r"^ARG EXTRAS=(\S+)$", text, re.MULTILINE)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert text.count("\nUSER dcurate\n") == 1


def test_prometheus_and_grafana_find_the_configuration_that_dcurate_writes(tmp_path: Path) -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    command = services["monitor-config"]["command"]
    folder = command[command.index("--dir") + 1]
    where = [str(tmp_path) if word == folder else word for word in command[1:]]
    subprocess.run([sys.executable, "-m", "dcurate.cli", *where], capture_output=True, timeout=120, check=True)
    [config] = [word for word in services["prometheus"]["command"] if word.startswith("--config.file=")]
    written = tmp_path / os.path.relpath(config.partition("=")[2], folder)
    assert "scheduler:8787" in written.read_text()
    provisioning = services["grafana"]["environment"]["GF_PATHS_PROVISIONING"]
    assert (tmp_path / os.path.relpath(provisioning, folder) / "datasources").is_dir()
    assert "http://127.0.0.1:9090" in (tmp_path / "grafana/provisioning/datasources/dcurate.yml").read_text()
    assert services["grafana"]["network_mode"] == "service:prometheus"
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "config", str(written)], capture_output=True, timeout=60, check=True)


SRUN = """#!/bin/bash
while [[ "$1" == --* ]]; do shift; done
exec "$@"
"""


def test_a_slurm_job_runs_a_recipe_and_leaves_no_process(tmp_path: Path) -> None:
    """With a stand-in for ``srun``, which runs the command on this machine."""
    subprocess.run(["bash", "-n", str(DEPLOY / "curate.sbatch")], timeout=10, check=True)
    programs = {"srun": SRUN, "dask": f'#!/bin/bash\nexec {sys.executable} -m dask "$@"\n'}
    programs |= {
        "dcurate": f'#!/bin/bash\nexec {sys.executable} -m dcurate.cli "$@"\n',
        "python": f'#!/bin/bash\nexec {sys.executable} "$@"\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_JOB_ID": "7",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SCHEDULER_OPTIONS": "--host 127.0.0.1 --dashboard-address 127.0.0.1:0",
    }
    job = ["bash", str(DEPLOY / "curate.sbatch"), "demo", "--output", str(tmp_path / "out")]
    for _ in range(2):  # the second is the job that was submitted again
        done = subprocess.run(
            job, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").glob("*.jsonl"))
    assert (tmp_path / "curate-7" / "workers.log").exists()
    empty = subprocess.run(job[:2], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (empty.returncode, empty.stderr) == (2, "usage: sbatch curate.sbatch RECIPE [OPTIONS of dcurate run]\n")


def workflow(name: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())


def test_ci_tests_the_versions_of_python_that_the_package_names() -> None:
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert workflow("ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    targets = re.findall(r"run: make (\S+)", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_a_release_is_published_without_a_stored_secret() -> None:
    publish = workflow("release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert [list(step) for step in publish["steps"]][-1] == ["uses"]


PAGES = ["AGENTS.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"]


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_of_the_repository_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_page_on_stability_names_the_versions_of_python_that_are_tested() -> None:
    first, *_, last = workflow("ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert f"{first} to {last} today" in (ROOT / "docs" / "stability.md").read_text()

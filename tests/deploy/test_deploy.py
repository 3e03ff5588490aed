"""The files of deploy/ and .github/ are read, name what there is, and run as far as that needs no other host."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT
from tests.forked import finished

pytestmark = pytest.mark.program

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: What the wheels of a GPU machine are, which `make check-wheels` fits together.
[DASK_OF_RAPIDS] = re.findall(r"^dask==(\S+)$", (ROOT / "benchmarks" / "device" / "base.txt").read_text(), re.MULTILINE)
YAML = [*DEPLOY.glob("*.yaml"), *(ROOT / ".github").rglob("*.yml")]


def commands() -> list[list[str]]:
    """The commands of the containers of the compose file and the Kubernetes file."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    cluster, _ = yaml.safe_load_all((DEPLOY / "dask-cluster.yaml").read_text())
    roles = [cluster["spec"]["scheduler"]["spec"], cluster["spec"]["worker"]["spec"]]
    run = yaml.safe_load((DEPLOY / "dask-job.yaml").read_text())["spec"]
    roles += [run["job"]["spec"], run["cluster"]["spec"]["scheduler"]["spec"], run["cluster"]["spec"]["worker"]["spec"]]
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
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["1000"]  # Kubernetes must see that it is not root
    assert " --uid 1000 " in text


def test_workers_of_both_images_can_be_in_one_cluster() -> None:
    images = [(DEPLOY / name).read_text() for name in ("Dockerfile", "Dockerfile.cuda")]
    pythons = {version for text in images for version in re.findall(r"^FROM python:(\S+)", text, re.MULTILINE)}
    assert pythons == {"3.12-slim"}  # Ubuntu 24.04, of which the CUDA image is, has Python 3.12
    assert "ubuntu24.04" in images[1]
    dask = [re.findall(r"^ARG DASK=(\S+)$", text, re.MULTILINE) for text in images]
    assert dask == [[DASK_OF_RAPIDS]] * 2
    assert all('"dask==${DASK}" "distributed==${DASK}"' in text for text in images)


def closed(schema: Any) -> Any:
    """A schema of Kubernetes that refuses fields which it does not name, as ``kubectl --validate=strict`` does."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict


def of_package(package: str, name: str) -> str:
    """A file of a package that is installed without what it depends on."""
    [path] = [path for path in distribution(package).files or () if str(path).endswith(name)]
    return Path(str(path.locate())).read_text()


def manifest_errors(manifest: dict[str, Any]) -> list[str]:
    crd = yaml.safe_load(of_package("dask-kubernetes", f"crds/{manifest['kind'].lower()}.yaml"))
    [schema] = [one["schema"]["openAPIV3Schema"] for one in crd["spec"]["versions"] if one["name"] == "v1"]
    about = {"apiVersion": {"const": "kubernetes.dask.org/v1"}, "kind": {}, "metadata": {}}
    schema["properties"] |= about
    return [error.message for error in jsonschema.Draft7Validator(closed(schema)).iter_errors(manifest)]


def test_the_manifest_is_valid_by_the_schema_of_the_operator() -> None:
    manifest, claim = yaml.safe_load_all((DEPLOY / "dask-cluster.yaml").read_text())
    assert (manifest["kind"], claim["kind"]) == ("DaskCluster", "PersistentVolumeClaim")
    assert manifest_errors(manifest) == []
    manifest["spec"]["worker"]["spec"]["containers"][0]["memory"] = "4Gi"
    assert manifest_errors(manifest) == ["Additional properties are not allowed ('memory' was unexpected)"]


def test_the_job_is_valid_by_the_schema_of_the_operator_and_ends_with_its_run() -> None:
    manifest = yaml.safe_load((DEPLOY / "dask-job.yaml").read_text())
    assert manifest["kind"] == "DaskJob"
    assert manifest_errors(manifest) == []
    cluster, claim = yaml.safe_load_all((DEPLOY / "dask-cluster.yaml").read_text())
    spec, own = manifest["spec"]["cluster"]["spec"], cluster["spec"]
    assert spec["worker"] == own["worker"]
    assert spec["scheduler"]["spec"] == own["scheduler"]["spec"]
    assert spec["scheduler"]["service"]["selector"]["dask.org/cluster-name"] == manifest["metadata"]["name"]
    pod = manifest["spec"]["job"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert "--resume" in pod["containers"][0]["args"]
    assert "--scheduler" not in pod["containers"][0]["args"]  # the operator sets DASK_SCHEDULER_ADDRESS
    pod["containers"][0]["memory"] = "4Gi"
    assert manifest_errors(manifest) == ["Additional properties are not allowed ('memory' was unexpected)"]


def test_the_compose_file_is_valid_by_its_schema() -> None:
    schema = json.loads(of_package("docker-compose", "config/compose_spec.json"))
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    schema["properties"]["name"] = {"type": "string"}  # came later
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(compose)] == []
    compose["services"]["scheduler"]["imgae"] = "dcurate"
    assert list(jsonschema.Draft7Validator(schema).iter_errors(compose))


def test_the_operator_watches_what_its_role_lets_it_see() -> None:
    chart = yaml.safe_load(of_package("dask-kubernetes", "dask-kubernetes-operator/values.yaml"))
    values = yaml.safe_load((DEPLOY / "operator-values.yaml").read_text())
    assert set(values) <= set(chart)
    assert not values["rbac"]["cluster"]
    watched = [word for word in values["kopfArgs"] if word.startswith(("--namespace", "--all-namespaces"))]
    assert watched == ["--namespace=default"]
    page = (ROOT / "docs" / "howto" / "deploy.md").read_text()
    assert "--set 'kopfArgs={--namespace=NAME}'" in page


@pytest.mark.parametrize(
    "path", [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"], ids=lambda path: path.name
)
def test_the_commands_in_a_comment_are_whole(path: Path) -> None:
    """A comment line that is an option continues a command, which the line before must have begun."""
    lines = path.read_text().splitlines()
    torn = [
        line
        for before, line in pairwise(["", *lines])
        if re.match(r"#\s+--\w", line) and not before.rstrip().endswith("\\")
    ]
    assert torn == []


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


SLOW = """
import time
from dataclasses import dataclass
from dcurate import DocumentBatch, ProcessingStage

@dataclass
class Slow(ProcessingStage[DocumentBatch, DocumentBatch]):
    name: str = "slow"

    def process(self, task):
        time.sleep(0.3)
        return task
"""


def slurm_job(tmp_path: Path) -> dict[str, str]:
    """The environment of a SLURM job with a stand-in for ``srun``, which runs the command on this machine."""
    programs = {"srun": SRUN, "dask": f'#!/bin/bash\nexec {sys.executable} -m dask "$@"\n'}
    programs |= {
        "dcurate": f'#!/bin/bash\nexec {sys.executable} -m dcurate.cli "$@"\n',
        "python": f'#!/bin/bash\nexec {sys.executable} "$@"\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_JOB_ID": "7",
        "SLURM_MEM_PER_NODE": "2000",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SCHEDULER_OPTIONS": "--host 127.0.0.1 --dashboard-address 127.0.0.1:0",
        "WORKER_OPTIONS": "--dashboard-address 127.0.0.1:0",
    }


def test_a_slurm_job_runs_a_recipe_and_leaves_no_process(tmp_path: Path) -> None:
    subprocess.run(["bash", "-n", str(DEPLOY / "curate.sbatch")], timeout=10, check=True)
    environment = slurm_job(tmp_path)
    job = ["bash", str(DEPLOY / "curate.sbatch"), "demo", "--output", str(tmp_path / "out")]
    for _ in range(2):  # the second is the job that was submitted again
        done = subprocess.run(
            job, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").glob("*.jsonl"))
    assert re.search(r"Memory:\s+1\.95 GiB", (tmp_path / "curate-7" / "workers.log").read_text())
    empty = subprocess.run(job[:2], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (empty.returncode, empty.stderr) == (2, "usage: sbatch curate.sbatch RECIPE [OPTIONS of dcurate run]\n")


def test_the_tasks_of_an_array_and_finish_leave_what_one_run_leaves(tmp_path: Path) -> None:
    script = str(DEPLOY / "curate-array.sbatch")
    subprocess.run(["bash", "-n", script], timeout=10, check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--exclude=SC1091", script], timeout=60, check=True)
    environment = {**slurm_job(tmp_path), "SLURM_ARRAY_TASK_MAX": "2"}
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / "in" / f"{number}.jsonl").write_text('{"text": "one two three"}\n')
    recipe = tmp_path / "recipe.yaml"
    stages = "stages:\n- JsonlReader: {file_paths: in}\n- JsonlWriter: {path: '${output}'}\n"
    recipe.write_text(f"params: {{output: null}}\n{stages}")
    given = [str(recipe), "--output", str(tmp_path / "out")]

    def ended(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        where = {**environment, **variables}
        return subprocess.run(
            command, cwd=tmp_path, env=where, capture_output=True, text=True, timeout=240, check=False
        )

    assert ended("bash", script).returncode == 2
    alone = ended("bash", script, *given)
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    for task in ("1", "2", "1"):  # the third is one that was submitted again
        done = ended("bash", script, *given, SLURM_ARRAY_TASK_ID=task)
        assert done.returncode == 0, done.stderr
    joined = ended("dcurate", "finish", *given)
    assert joined.returncode == 0, joined.stderr
    whole = ended("dcurate", "run", str(recipe), "--output", str(tmp_path / "one"), "--mode", "inline", "--quiet")
    assert whole.returncode == 0, whole.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()
    }


def test_a_slurm_job_whose_time_is_over_ends_its_run_in_good_order(tmp_path: Path) -> None:
    environment = slurm_job(tmp_path)
    (tmp_path / "in").mkdir()
    for number in range(400):
        (tmp_path / "in" / f"{number:03}.jsonl").write_text('{"text": "one two three"}\n')
    (tmp_path / "slow.py").write_text(SLOW)
    recipe = tmp_path / "slow.yaml"
    recipe.write_text("stages:\n- JsonlReader: {file_paths: in}\n- slow:Slow: {}\n- JsonlWriter: {path: out}\n")
    log = tmp_path / "job.log"
    with log.open("wb") as output:
        job = subprocess.Popen(
            ["bash", str(DEPLOY / "curate.sbatch"), str(recipe), "--trust"],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
            stdout=output,
            stderr=output,
        )
    begun = time.monotonic()
    while not list(tmp_path.glob("out/*.jsonl")):
        assert job.poll() is None, log.read_text()
        assert time.monotonic() - begun < 120
        time.sleep(0.1)
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == 143, log.read_text()
    assert "--resume" in log.read_text()


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

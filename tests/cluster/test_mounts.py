"""Hosts that see another file system than the driver are left out with their names; each has mounts of its own."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dcurate import DaskExecutor, JsonlReader, JsonlWriter, Pipeline, ResourceError
from tests.cluster.joining import FILES, run_that_is_joined
from tests.conftest import process, scheduler_and_workers, skip_outside_ci, wait_for, wait_for_workers

pytestmark = pytest.mark.cluster


@contextmanager
def south(address: str, folder: Path, prepare: str) -> Iterator[None]:
    """A worker on host ``south``, on which a command of the shell has changed mounts."""
    unshare = shutil.which("unshare")
    if unshare is None:
        skip_outside_ci("mounts of a process of its own need 'unshare'")
    worker = f"{sys.executable} -m dask worker {address} --nthreads 1 --no-dashboard --local-directory /tmp"
    command = f"{prepare} && exec {worker} --no-nanny --preload dcurate.preload --host-name south"
    with process(str(unshare), "-m", "sh", "-c", command, log=folder / "south.log"):
        yield
    if "permitted" in (folder / "south.log").read_text():
        skip_outside_ci("mounts of a process of its own need root")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "in"
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / f"{number:02}.jsonl").write_text(f'{{"text": "{number}"}}\n')
    (tmp_path / "shared").mkdir()
    return folder


OTHER_MOUNTS = pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (
            "mount -t tmpfs tmpfs {folder}/shared",
            r"host south has another directory, or none, at the output '.*shared/out'",
        ),
        (
            "mount -t tmpfs tmpfs {folder}/data",
            r"host south does not see the input file '.*in/00.jsonl' \(No such file or directory\)",
        ),
        (
            "mount -t tmpfs tmpfs {folder}/data && mkdir {folder}/data/in && echo other > {folder}/data/in/00.jsonl",
            r"host south sees another input file '.*in/00.jsonl', of 6 bytes and not 14",
        ),
        ("true", ""),
    ],
    ids=["output", "input", "other-input", "same"],
)


def pipeline_of(source: Path, output: Path) -> Pipeline:
    return Pipeline("p", stages=[JsonlReader(str(source), files_per_partition=1), JsonlWriter(str(output))])


@OTHER_MOUNTS
def test_a_host_with_another_mount_is_left_out_with_a_notice(
    prepare: str, sentence: str, source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = tmp_path / "shared" / "out"
    with (
        scheduler_and_workers(tmp_path) as address,
        south(address, tmp_path, prepare.format(folder=tmp_path)),
        caplog.at_level(logging.WARNING, "dcurate"),
    ):
        wait_for_workers(address, 2)
        pipeline_of(source, output).run(DaskExecutor(cluster=address), observers=[])
    check_notices([record.getMessage() for record in caplog.records], sentence)
    assert len(list(output.glob("*.jsonl"))) == FILES
    assert not list(tmp_path.rglob("token-*"))


@OTHER_MOUNTS
def test_a_host_with_another_mount_that_joins_a_run_is_left_out_with_a_notice(
    prepare: str, sentence: str, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "shared" / "out"
    with scheduler_and_workers(tmp_path) as address:
        joining = south(address, tmp_path, prepare.format(folder=tmp_path))
        heard = run_that_is_joined(address, source, output, joining)
    assert "Traceback" not in (tmp_path / "scheduler.log").read_text()
    check_notices(heard.notices, sentence)
    assert len(heard.slots) == (1 if sentence else 2)
    assert len(list(output.glob("*.jsonl"))) == FILES
    assert not list(tmp_path.rglob("token-*"))


def test_a_host_joins_a_run_of_which_the_first_input_file_was_removed_meanwhile(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "shared" / "out"
    with scheduler_and_workers(tmp_path) as address:
        joining = south(address, tmp_path, f"rm {source}/00.jsonl")
        heard = run_that_is_joined(address, source, output, joining)
    check_notices(heard.notices, "")
    assert len(heard.slots) == 2
    assert len(list(output.glob("*.jsonl"))) == FILES


def check_notices(notices: list[str], sentence: str) -> None:
    """Check that the only notice is that a worker is left out; none without a sentence."""
    if not sentence:
        assert not notices
    else:
        [said] = notices
        assert re.fullmatch(
            rf"worker tcp://127.0.0.1:\d+ takes no part in the run: its {sentence}; mount the same storage at the same "
            "path on every host",
            said,
        )


def test_a_run_whose_workers_all_have_another_mount_is_refused_before_anything_runs(
    source: Path, tmp_path: Path
) -> None:
    info = tmp_path / "scheduler.json"
    command = ["-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with process(sys.executable, *command, "--scheduler-file", str(info), log=tmp_path / "scheduler.log"):
        wait_for(info)
        address = json.loads(info.read_text())["address"]
        refused = pytest.raises(
            ResourceError,
            match=r"^worker tcp://127.0.0.1:\d+ on host south has another directory, or none, at the output "
            r"'.*shared/out'; mount the same storage at the same path on every host, and run again$",
        )
        with south(address, tmp_path, f"mount -t tmpfs tmpfs {tmp_path}/shared"):
            wait_for_workers(address, 1)
            with refused:
                pipeline_of(source, tmp_path / "shared" / "out").run(DaskExecutor(cluster=address), observers=[])
    assert not list((tmp_path / "shared" / "out").glob("*.jsonl"))
    assert not list(tmp_path.rglob("token-*"))

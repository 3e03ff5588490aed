"""Hosts that see another file system than the driver are named before anything runs; each has mounts of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dcurate import DaskExecutor, JsonlReader, JsonlWriter, Pipeline, ResourceError
from tests.conftest import process, scheduler_and_workers, skip_outside_ci, wait_for_workers

pytestmark = pytest.mark.cluster


@contextmanager
def two_hosts(folder: Path, prepare: str) -> Iterator[str]:
    """A host that sees what this process sees, and ``south``, on which a command of the shell has changed mounts."""
    unshare = shutil.which("unshare")
    if unshare is None:
        skip_outside_ci("mounts of a process of its own need 'unshare'")
    with scheduler_and_workers(folder) as address:
        worker = f"{sys.executable} -m dask worker {address} --nthreads 1 --no-dashboard --local-directory /tmp"
        command = f"{prepare} && exec {worker} --no-nanny --preload dcurate.preload --host-name south"
        with process(str(unshare), "-m", "sh", "-c", command, log=folder / "south.log"):
            try:
                wait_for_workers(address, 2)
            except AssertionError:
                if "permitted" in (folder / "south.log").read_text():
                    skip_outside_ci("mounts of a process of its own need root")
                raise
            yield address


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "in"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / f"{number}.jsonl").write_text(f'{{"text": "{number}"}}\n')
    (tmp_path / "shared").mkdir()
    return folder


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (
            "mount -t tmpfs tmpfs {folder}/shared",
            r"on host south has another directory, or none, at the output '.*shared/out'",
        ),
        (
            "mount -t tmpfs tmpfs {folder}/data",
            r"on host south does not see the input file '.*in/0.jsonl' \(No such file or directory\)",
        ),
        (
            "mount -t tmpfs tmpfs {folder}/data && mkdir {folder}/data/in && echo other > {folder}/data/in/0.jsonl",
            r"on host south sees another input file '.*in/0.jsonl', of 6 bytes and not 14",
        ),
        ("true", ""),
    ],
    ids=["output", "input", "other-input", "same"],
)
def test_a_host_with_another_mount_is_named_before_anything_runs(
    prepare: str, sentence: str, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "shared" / "out"
    pipeline = Pipeline("p", stages=[JsonlReader(str(source), files_per_partition=1), JsonlWriter(str(output))])
    with two_hosts(tmp_path, prepare.format(folder=tmp_path)) as address:
        if not sentence:
            pipeline.run(DaskExecutor(cluster=address), observers=[])
            assert len(list(output.glob("*.jsonl"))) == 4
        else:
            with pytest.raises(
                ResourceError, match=rf"^worker tcp://127.0.0.1:\d+ {sentence}; mount the same storage at"
            ):
                pipeline.run(DaskExecutor(cluster=address), observers=[])
            assert not list(output.glob("*.jsonl"))
    assert not list(tmp_path.rglob("token-*"))

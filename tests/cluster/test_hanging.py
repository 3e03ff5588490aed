"""Workers that hang while they start: they are started again, or the cluster ends in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcurate import LocalCluster, RunError
from dcurate.cluster import nannies

pytestmark = pytest.mark.cluster


def hang(monkeypatch: pytest.MonkeyPatch, folder: Path, times: int, looks: int) -> None:
    """Make workers hang while they start, the first `times` times.

    A nanny looks at them twice a second and ends them after a number of looks, which is smaller here to save time.
    """
    code = f"""
import os, signal
for number in range({times}):
    try:
        os.close(os.open(f"{folder}/{{number}}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        continue
    signal.pause()
"""
    before = nannies.DASK_SETTINGS["distributed.worker.preload"]
    monkeypatch.setitem(nannies.DASK_SETTINGS, "distributed.worker.preload", [*before, code])
    monkeypatch.setattr(nannies, "HANGING_LOOKS", looks)


def test_a_worker_that_hangs_while_it_starts_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hang(monkeypatch, tmp_path, 1, looks=10)
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        assert cluster.client.submit(sum, [1, 2]).result(timeout=60) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_workers_that_hang_whenever_they_start_end_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(monkeypatch, tmp_path, 1000, looks=6)
    with pytest.raises(RunError, match="worker processes hang while they start, 2 times in a row for 3 seconds; find"):
        LocalCluster(n_workers=1, gpus=False).open()
    assert len(list(tmp_path.iterdir())) == nannies.HANGS

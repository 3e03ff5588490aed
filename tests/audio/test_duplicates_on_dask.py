"""Near-duplicate recordings on Dask workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcurate import DaskExecutor, LocalCluster
from dcurate.audio import AudioNearDuplicates
from tests.audio.test_duplicates import dataset, run, written

pytestmark = pytest.mark.cluster


def test_the_result_does_not_depend_on_workers(cluster: LocalCluster, tmp_path: Path) -> None:
    source = written(tmp_path / "in", dataset())
    here = run(source, tmp_path / "a", AudioNearDuplicates(keep="longest"))
    there = run(source, tmp_path / "b", AudioNearDuplicates(keep="longest"), DaskExecutor({}, cluster))
    assert there == here

"""Near-duplicate images on Dask workers, decoded in child processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcurate import DaskExecutor, LocalCluster
from dcurate.images import ImageNearDuplicates, ImageReading
from tests.images.duplicates.test_stages import EXPECTED, dataset, groups, run, written

pytestmark = pytest.mark.cluster


def test_finds_the_same_groups_on_dask(cluster: LocalCluster, tmp_path: Path) -> None:
    source = written(tmp_path / "in", dataset())
    stage = ImageNearDuplicates(action="flag", reading=ImageReading(sandbox=True))
    rows = run(source, tmp_path / "out", stage, executor=DaskExecutor({"execution_mode": "streaming"}, cluster))
    assert groups(rows) == EXPECTED

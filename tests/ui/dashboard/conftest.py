"""A cluster with a dashboard, for all tests of the room."""

from __future__ import annotations

from collections.abc import Iterator

import dask
import pytest

from dcurate import LocalCluster

#: For how long Bokeh keeps what nobody looks at, in milliseconds; 15 s if not told.
UNUSED = "distributed.scheduler.dashboard.bokeh-application.unused_session_lifetime_milliseconds"


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Two workers and a dashboard."""
    with dask.config.set({UNUSED: 4000}), LocalCluster(n_workers=2, gpus=False, dashboard=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def address(cluster: LocalCluster) -> str:
    """Where the dashboard's pages are, without the name of one."""
    return str(cluster.client.dashboard_link).removesuffix("/status")

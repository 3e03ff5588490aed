"""A cluster and an endpoint for all tests of the alias."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dcurate.compat.nemo.executors import RayClient
from dcurate_testing.llm_server import Endpoint, served


@pytest.fixture(scope="module")
def client() -> Iterator[RayClient]:
    """A cluster for all pipelines of a file."""
    with RayClient(num_cpus=2, num_gpus=0) as started:
        yield started


@pytest.fixture(scope="session")
def server() -> Iterator[Endpoint]:
    """A server process for all tests."""
    with served() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(server: Endpoint) -> Endpoint:
    """The server, behaving well and having seen nothing."""
    server.behave()
    return server

"""The server that these tests ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dcurate_testing.llm_server import Endpoint, served


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

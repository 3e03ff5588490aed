"""Servers for the tests of downloads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.download.server import Files, served
from tests.io.conftest import bucket, s3_server, small_disk

__all__ = ["bucket", "s3_server", "small_disk", "web"]


@pytest.fixture
def web() -> Iterator[Files]:
    """A server of files."""
    with served() as files:
        yield files

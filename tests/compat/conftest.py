"""A cluster for all tests of a file of the alias, and a disk of one megabyte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dcurate.compat.nemo.executors import RayClient
from tests.io.conftest import small_disk

__all__ = ["client", "small_disk"]


@pytest.fixture(scope="module")
def client() -> Iterator[RayClient]:
    """A cluster for all pipelines of a file."""
    with RayClient(num_cpus=2, num_gpus=0) as started:
        yield started

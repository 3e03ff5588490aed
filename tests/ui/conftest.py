"""A browser for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dcurate_testing.browser import CHROMIUM, Browser, chromium
from tests.conftest import skip_outside_ci


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser; loud where there is none."""
    if CHROMIUM is None:
        skip_outside_ci("Chromium is not installed: apt-get install chromium")
    with chromium() as browser:
        yield browser
